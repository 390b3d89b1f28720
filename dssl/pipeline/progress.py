"""What a command is doing, on standard error: lines where there is no terminal, on one a line for the whole that moves,
with the stages beneath; and in a notebook the same as HTML."""

import html
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..base.units import time_text

EVERY = 10.0  # seconds between two lines
BEAT = 1.0  # seconds between two heartbeats of a run
REDRAWN = 0.25  # seconds between two pictures of a notebook
SHORTEST_SCREEN = 8  # lines that are used of any terminal

Clock = Callable[[], float]
Tell = Callable[[dict[str, Any]], None]


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

    def tell(self, event: dict[str, Any]) -> None:
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
                self.ended.append((event["stage"], event["status"], event["seconds"]))
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

    def rows(self, most: int) -> list[tuple[str, str, str]]:
        """Return the stages as name, status and what it says, in at most so many rows: what ended first collapses."""
        found = [(name, status, time_text(seconds)) for name, status, seconds in self.ended]
        tail: list[tuple[str, str, str]] = []
        if self.running is not None:
            left = "" if self.stage_left is None else f", {time_text(self.stage_left)} left"
            tail.append((self.running, "running", time_text(self.clock() - self.begun) + tasks_text(self.done, self.of)
                         + left))
        if self.waiting:
            tail.append(("", "waiting", f"{self.waiting} stages"))
        head = [("", "cached", f"{self.cached} stages")] if self.cached else []
        room = max(1, most - len(head) - len(tail))
        if len(found) > room:
            hidden = self.ended[:len(found) - room + 1]
            found = [("", "done", f"{len(hidden)} stages in {time_text(sum(row[2] for row in hidden))}"),
                     *found[len(hidden):]]
        return [*head, *found, *tail]


def tasks_text(done: int | None, of: int | None) -> str:
    """Return how many tasks are done; nothing of a stage that tells of none."""
    return "" if not of else f"  {done} of {of} tasks"


class Reporter:
    """Shows the events of a run.

    On a terminal one line for the whole run, with the time left, and the stages beneath. Elsewhere a line when a stage
    ends, one when it begins to run tasks, and of a long one one every `EVERY` seconds, with its seconds, tasks, their
    rate and the time left, of the stage and of the run. With `quiet`, nothing.
    """

    def __init__(self, where: str, console: Console, *, quiet: bool = False, clock: Clock = time.monotonic):
        self.where, self.console, self.quiet, self.clock = where, console, quiet, clock
        self.board = Board(clock)
        self._begun = self._told = 0.0
        self._live = Live(console=console, get_renderable=self._picture, refresh_per_second=4) \
            if console.is_terminal and not quiet else None

    def __enter__(self) -> Self:
        self._say(f"running on {self.where}")
        self.board.started = self.clock()
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live:
            self._live.stop()

    def tell(self, event: dict[str, Any]) -> None:
        """Show one event of a run."""
        self.board.tell(event)
        if event["event"] == "note":  # is no progress, so it is told with `quiet` too
            self.console.print(event["text"], markup=False, highlight=False, soft_wrap=True)
        elif self._live is not None:
            return
        elif event["event"] == "run":
            if event["stages"]:
                self._say(f"{event['name']}: {event['stages']} stages to run, {event['cached']} cached; about "
                          f"{time_text(event['estimated'])}, beside what libraries take to load and compile")
        elif event["event"] == "progress":
            self._tell_progress(event)
        elif event["event"] == "heartbeat":
            if self.clock() - self._told >= EVERY - BEAT:  # and nothing was told meanwhile
                self._tell_running(event)
        elif "seconds" in event:
            self._told = self.clock()
            self._say(f"{event['stage']:>12}  {event['status']:<7} {event['seconds']:8.2f} s")
        else:
            self._begun = self.clock()
            self._told = self._begun - EVERY

    def _tell_progress(self, event: dict[str, Any]) -> None:
        now, done, of = self.clock(), event["done"], event["of"]
        first = self._told < self._begun
        if of < 2 or done == of or (not first and now - self._told < EVERY):
            return
        self._tell_running(event)

    def _tell_running(self, event: dict[str, Any]) -> None:
        self._told = self.clock()
        tasks = tasks_text(event["done"], event["of"])
        if event.get("rate") and event["done"] < event["of"]:
            tasks += f", {event['rate']:.3g} a second"
            tasks += f", {time_text(event['time_left'])} left" if event["time_left"] is not None else ""
        run = f"; run: {time_text(event['run_left'])} left" if event.get("run_left") is not None else ""
        self._say(f"{event['stage']:>12}  {'running':<7} {self._told - self._begun:8.2f} s{tasks}{run}")

    def _picture(self) -> RenderableType:
        board = self.board
        whole = Table.grid(padding=(0, 1))
        whole.add_row(Text(board.summary(), style="bold"), ProgressBar(total=1.0, completed=board.share(), width=30))
        stages = Table.grid(padding=(0, 2))
        stages.add_column(justify="right", min_width=12)
        colors = {"running": "bold", "cached": "dim", "waiting": "dim"}
        for name, status, told in board.rows(max(SHORTEST_SCREEN, self.console.height) - 4):
            stages.add_row(*(Text(text, style=colors.get(status, "")) for text in (name, status, told)))
        return Group(whole, stages)

    def _say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, markup=False, highlight=False)


class Activity:
    """One piece of work of a command, such as a prediction: on a terminal a line that moves and goes at the end,
    elsewhere a line every `EVERY` seconds, so nothing of what is short. With `quiet`, nothing.
    """

    def __init__(self, name: str, console: Console, *, quiet: bool = False):
        self.name, self.console, self.quiet = name, console, quiet
        self._tasks: tuple[int | None, int | None] = None, None
        self._ended = threading.Event()

    def count(self, done: int, of: int) -> None:
        """Take note of the tasks, as a `TaskCount` tells."""
        self._tasks = done, of

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        self._live = Live(console=self.console, get_renderable=lambda: Text(self._line()), transient=True) \
            if self.console.is_terminal and not self.quiet else None
        self._teller = threading.Thread(target=self._tell, daemon=True)
        if self._live:
            self._live.start()
        elif not self.quiet:
            self._teller.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        if self._live:
            self._live.stop()
        elif not self.quiet:
            self._teller.join()

    def _tell(self) -> None:
        while not self._ended.wait(EVERY):
            self.console.print(self._line(), markup=False, highlight=False)

    def _line(self) -> str:
        seconds, (done, of) = time.monotonic() - self._begun, self._tasks
        left = f", {time_text(seconds * (of - done) / done)} left" if done and of and done < of else ""
        return f"{self.name:>12}  running {seconds:8.2f} s{tasks_text(done, of)}{left}"


# Notebooks


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
def in_notebook(clock: Clock = time.monotonic) -> Iterator[Tell | None]:
    """Yield what shows the events of a run in the notebook that this code runs in; None elsewhere."""
    show = notebook_display()
    if show is None:
        yield None
        return
    board, drawn = Board(clock, started=clock()), clock()
    replace = show(_html(board))

    def tell(event: dict[str, Any]) -> None:
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
