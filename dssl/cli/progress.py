"""Progress of a command on standard error: on a terminal a display that updates itself, elsewhere lines."""

import threading
import time
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..base.units import time_text
from ..pipeline.progress import BEAT, Board, Clock, Event, tasks_text

EVERY = 10.0  # seconds between two lines
MIN_HEIGHT = 8  # lines of a terminal that are used even if it has fewer


class Reporter:
    """Shows the events of a run.

    On a terminal it shows one line for the whole run, with the time left, and the stages below. Elsewhere it prints a
    line when a stage begins to run tasks, when it ends, and every `EVERY` seconds of a long stage, with its seconds,
    its tasks, their rate, and the time left of the stage and of the run. With `quiet` it shows nothing.
    """

    def __init__(self, where: str, console: Console, *, quiet: bool = False, clock: Clock = time.monotonic):
        self.where, self.console, self.quiet, self.clock = where, console, quiet, clock
        self.board = Board(clock)
        self._begun = self._last_line = 0.0
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

    def on_event(self, event: Event) -> None:
        """Show one event of a run."""
        self.board.tell(event)
        if event["event"] == "note":  # a note is shown with `quiet` too
            self.console.print(event["text"], highlight=False, soft_wrap=True)
        elif self._live is not None:
            return
        elif event["event"] == "run":
            if event["stages"]:
                bound = "at least" if event["at_least"] else "about"
                self._say(f"{event['name']}: {event['stages']} stages to run, {event['cached']} cached; {bound} "
                          f"{time_text(event['estimated'] or 0.0)}, plus the time to load and compile libraries")
        elif event["event"] == "progress":
            self._on_progress(event)
        elif event["event"] == "heartbeat":
            if self.clock() - self._last_line >= EVERY - BEAT:
                self._print_running(event)
        elif "seconds" in event:
            self._last_line = self.clock()
            self._say(f"{event['stage']:>12}  {event['status']:<7} {event['seconds']:8.2f} s")
        else:
            self._begun = self.clock()
            self._last_line = self._begun - EVERY

    def _on_progress(self, event: Event) -> None:
        is_first = self._last_line < self._begun
        if 1 < (event["of"] or 0) != event["done"] and (is_first or self.clock() - self._last_line >= EVERY):
            self._print_running(event)

    def _print_running(self, event: Event) -> None:
        self._last_line = self.clock()
        done, of = event["done"], event["of"]
        tasks = tasks_text(done, of)
        if event.get("rate") and done is not None and of is not None and done < of:
            tasks += f", {event['rate']:.3g} a second"
            tasks += f", {time_text(event['time_left'])} left" if event["time_left"] is not None else ""
        run = f"; run: {time_text(event['run_left'])} left" if event.get("run_left") is not None else ""
        self._say(f"{event['stage']:>12}  {'running':<7} {self._last_line - self._begun:8.2f} s{tasks}{run}")

    def _picture(self) -> RenderableType:
        board = self.board
        whole = Table.grid(padding=(0, 1))
        whole.add_row(Text(board.summary(), style="bold"), ProgressBar(total=1.0, completed=board.share(), width=30))
        stages = Table.grid(padding=(0, 2))
        stages.add_column(justify="right", min_width=12)
        colors = {"running": "bold", "cached": "dim", "waiting": "dim"}
        for row in board.rows(max(MIN_HEIGHT, self.console.height) - 4):
            stages.add_row(*(Text(text, style=colors.get(row[1], "")) for text in row))
        return Group(whole, stages)

    def _say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, highlight=False)


class Activity:
    """Shows the progress of one activity of a command, such as a prediction.

    On a terminal it shows a line that updates itself and disappears at the end. Elsewhere it prints a line every
    `every` seconds, so none for a short activity. With `quiet` it shows nothing.
    """

    def __init__(self, name: str, console: Console, *, quiet: bool = False, every: float = EVERY):
        self.name, self.console, self.quiet, self.every = name, console, quiet, every
        self._tasks: tuple[int | None, int | None] = None, None
        self._ended = threading.Event()

    def count(self, done: int, of: int) -> None:
        """Set the number of tasks that are done, and of all tasks; a `TaskCount` calls this."""
        self._tasks = done, of

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        self._live = Live(console=self.console, get_renderable=lambda: Text(self._line()), transient=True) \
            if self.console.is_terminal and not self.quiet else None
        self._printer = threading.Thread(target=self._print_lines, daemon=True)
        if self._live:
            self._live.start()
        elif not self.quiet:
            self._printer.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        if self._live:
            self._live.stop()
        elif not self.quiet:
            self._printer.join()

    def _print_lines(self) -> None:
        while not self._ended.wait(self.every):
            self.console.print(self._line(), highlight=False)

    def _line(self) -> str:
        seconds, (done, of) = time.monotonic() - self._begun, self._tasks
        left = f", {time_text(seconds * (of - done) / done)} left" if done and of and done < of else ""
        return f"{self.name:>12}  running {seconds:8.2f} s{tasks_text(done, of)}{left}"
