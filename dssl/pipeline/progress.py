"""Where a run is, from the events that it tells, and a picture of it in a notebook."""

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Required, TypedDict

from ..base.units import time_text

BEAT = 1.0  # seconds between two heartbeats of a run
REDRAWN = 0.25  # seconds between two pictures of a notebook

Clock = Callable[[], float]


class Event(TypedDict, total=False):
    """What a run says of itself: `event` is "run", "stage", "progress", "heartbeat" or "note".

    Each has its own keys. Times are seconds. run_left : what the whole run still takes. later : what the stages after
    this one take. at_least : whether `estimated` is a lower bound.
    """

    event: Required[str]
    run: str
    folder: str
    name: str
    stages: int
    cached: int
    estimated: float | None
    at_least: bool
    later: float
    stage: str | None
    status: str
    seconds: float
    done: int | None
    of: int | None
    rate: float | None
    time_left: float | None
    run_left: float
    text: str


Events = Callable[[Event], None]


@dataclass
class Board:
    """Where a run is, from the events that it tells.

    ended : name, status and seconds of the stages that were made. cached : stages that were there. running : the stage
    under way, since `begun`, with its tasks. left : seconds of the whole run. waiting : stages to come.
    """

    clock: Clock = time.monotonic
    name: str = ""
    started: float = 0.0
    ended: list[tuple[str, str, float]] = field(default_factory=list)
    cached: int = 0
    waiting: int = 0
    running: str | None = None
    begun: float = 0.0
    done: int | None = None
    of: int | None = None
    stage_left: float | None = None
    left: float | None = None

    def tell(self, event: Event) -> None:
        """Take note of an event."""
        self.left = event.get("run_left", self.left)
        if event["event"] == "run":
            self.name, self.waiting, self.started = event["name"], event["stages"], self.clock()
        elif event["event"] == "progress":
            self.done, self.of, self.stage_left = event["done"], event["of"], event.get("time_left")
        elif event["event"] == "stage" and "seconds" in event:
            self.running = None
            if event["status"] == "cached":
                self.cached += 1
            else:
                self.ended.append((event["stage"] or "", event["status"], event["seconds"]))
        elif event["event"] == "stage":
            self.running, self.begun = event["stage"], self.clock()
            self.done = self.of = self.stage_left = None
            if event["status"] != "cached":
                self.waiting = max(0, self.waiting - 1)

    @property
    def elapsed(self) -> float:
        return self.clock() - self.started

    def share(self) -> float:
        """Return how much of the run is over, from 0 to 1."""
        return self.elapsed / max(self.elapsed + (self.left or 0.0), 1e-9)

    def summary(self) -> str:
        """Return the whole run in a line."""
        left = f", about {time_text(self.left)} left" if self.left is not None and self.running else ""
        return f"{self.name}: {100 * self.share():.0f} % in {time_text(self.elapsed)}{left}"

    def rows(self, limit: int) -> list[tuple[str, str, str]]:
        """Return the stages as name, status and what it says, in at most so many rows: what ended first collapses."""
        rows = [(name, status, time_text(seconds)) for name, status, seconds in self.ended]
        tail: list[tuple[str, str, str]] = []
        if self.running is not None:
            left = "" if self.stage_left is None else f", {time_text(self.stage_left)} left"
            tail.append((self.running, "running", time_text(self.clock() - self.begun) + tasks_text(self.done, self.of)
                         + left))
        if self.waiting:
            tail.append(("", "waiting", f"{self.waiting} stages"))
        head = [("", "cached", f"{self.cached} stages")] if self.cached else []
        room = max(1, limit - len(head) - len(tail))
        if len(rows) > room:
            hidden = self.ended[:len(rows) - room + 1]
            rows = [("", "done", f"{len(hidden)} stages in {time_text(sum(row[2] for row in hidden))}"),
                     *rows[len(hidden):]]
        return [*head, *rows, *tail]


def tasks_text(done: int | None, of: int | None) -> str:
    """Return how many tasks are done; nothing of a stage that tells of none."""
    return "" if not of else f"  {done} of {of} tasks"


def notebook_display() -> Callable[[str], Any] | None:
    """Return what shows HTML in the notebook that this code runs in, and returns how to replace it; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or getattr(shell, "kernel", None) is None:  # a terminal's IPython has none
        return None
    from IPython.display import HTML, display

    def show(text: str) -> Any:
        handle = display(HTML(text), display_id=True)
        return lambda newer: handle.update(HTML(newer))

    return show


@contextmanager
def in_notebook(clock: Clock = time.monotonic) -> Iterator[Events | None]:
    """Yield what shows the events of a run in the notebook that this code runs in; None elsewhere."""
    show = notebook_display()
    if show is None:
        yield None
        return
    board, drawn = Board(clock, started=clock()), clock()
    replace = show(_html(board))

    def tell(event: Event) -> None:
        nonlocal drawn
        board.tell(event)
        if event["event"] != "progress" or clock() - drawn >= REDRAWN:
            drawn = clock()
            replace(_html(board))

    try:
        yield tell
    finally:
        replace(_html(board))


def _html(board: Board) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in row)}</tr>" for row in board.rows(100))
    return (f"<div><b>{html.escape(board.summary())}</b><br><progress value='{board.share():.3f}' max='1'></progress>"
            f"<table>{rows}</table></div>")
