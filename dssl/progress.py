"""What a run is doing, on standard error: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

EVERY = 10.0  # seconds between two lines of one stage


class Reporter:
    """Shows the events of a run.

    On a terminal a bar a stage. Elsewhere a line when a stage ends, one when it begins to run tasks, and of a long one
    one every `EVERY` seconds, with its seconds, tasks, their rate and the time left. With `quiet`, nothing.
    """

    def __init__(self, where: str, console: Console, *, quiet: bool = False,
                 clock: Callable[[], float] = time.monotonic):
        self.where, self.console, self.quiet, self.clock = where, console, quiet, clock
        self.tasks: dict[str, Any] = {}
        self._begun = self._told = 0.0
        self.bars = Progress(TextColumn("{task.description:>12}"), BarColumn(), MofNCompleteColumn(),
                             TimeElapsedColumn(), console=console) if console.is_terminal and not quiet else None

    def __enter__(self) -> Self:
        self._say(f"running on {self.where}")
        if self.bars:
            self.bars.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.bars:
            self.bars.stop()

    def tell(self, event: dict[str, Any]) -> None:
        """Show one event of a run."""
        if event["event"] == "note":  # is no progress, so it is told with `quiet` too
            self.console.print(event["text"], markup=False, highlight=False, soft_wrap=True)
        elif self.bars is not None:
            self._move_bar(self.bars, event)
        elif event["event"] == "progress":
            self._tell_progress(event)
        elif event["event"] == "heartbeat":
            if self.clock() - self._told >= EVERY / 2:  # and nothing was told meanwhile
                self._tell_running(event)
        elif "seconds" in event:
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
        tasks = "" if event["of"] is None else f"  {event['done']} of {event['of']} tasks"
        if event.get("rate"):
            tasks += f", {event['rate']:.3g} a second, {_duration(event['time_left'])} left"
        self._say(f"{event['stage']:>12}  {'running':<7} {self._told - self._begun:8.2f} s{tasks}")

    def _move_bar(self, bars: Progress, event: dict[str, Any]) -> None:
        name = event["stage"]
        if event["event"] == "heartbeat":
            return
        if name not in self.tasks:
            self.tasks[name] = bars.add_task(name, total=None)
        if event["event"] == "progress":
            bars.update(self.tasks[name], total=event["of"], completed=event["done"])
        elif "seconds" in event:
            bars.update(self.tasks[name], description=f"{name} {event['status']}", total=1, completed=1)

    def _say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
