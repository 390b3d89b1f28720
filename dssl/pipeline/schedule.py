"""A run that comes again: what is kept of it, and what happens each time that it is due.

    schedules/NAME/schedule.json   the spec's path, where it runs, times and what to do about failures
    schedules/NAME/...             what cron, systemd or Slurm was given; `log`, of all that was said
    schedules/NAME/failed.json     since when it has been failing; whoever is told of failures was told then
"""

import fcntl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..errors import DataError, require
from ..params import digest
from ..storage.artifacts import Workspace
from ..storage.files import read_json, write_json

FIRST_PAUSE = 60.0  # seconds before a run that failed is tried again; twice as many before each further attempt
SCHEDULE = "schedule.json"


@dataclass(frozen=True)
class Schedule:
    """One schedule, by its folder."""

    folder: Path

    @classmethod
    def keep(cls, workspace: Workspace, fields: Mapping[str, Any]) -> Self:
        """Write down a schedule; one of the same spec, place and times has the same name."""
        stem = Path(fields["spec"]).stem
        same = {key: fields[key] for key in ("spec", "set", "on", "at", "to")} | {"workspace": str(workspace.root)}
        made = cls(workspace.root / "schedules" / f"{stem}-{digest(same)[:8]}")
        made.folder.mkdir(parents=True, exist_ok=True)
        write_json(made.folder / SCHEDULE, dict(fields))
        return made

    @classmethod
    def find(cls, workspace: Workspace, name: str) -> Self:
        """Return a schedule by its name; raise DataError if there is none."""
        listed = [own.folder.name for own in cls.all(workspace)]
        require(name in listed, f"no schedule {name} in {workspace.root}", error=DataError,
                why="a schedule is a folder in schedules/",
                fix=f"name one of {', '.join(listed)}" if listed else "add one with `dssl schedule`")
        return cls(workspace.root / "schedules" / name)

    @classmethod
    def all(cls, workspace: Workspace) -> list[Self]:
        """Return the schedules of a workspace."""
        return [cls(path.parent) for path in sorted(workspace.root.glob(f"schedules/*/{SCHEDULE}"))]

    @property
    def fields(self) -> dict[str, Any]:
        """Return what was written down."""
        found: dict[str, Any] = read_json(self.folder / SCHEDULE)
        return found

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Give whether no other firing of this schedule is at work, and keep others out meanwhile."""
        with open(self.folder / "lock", "w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def fire(self, attempt: Callable[[], int], say: Callable[[str], None],
             pause: Callable[[float], None] = time.sleep) -> int:
        """Make attempts until one succeeds or `retries` are used up; return the last exit code.

        Whoever is to be told of failures is told once, until it succeeds again.
        """
        fields = self.fields
        code = attempt()
        for number in range(fields["retries"]):
            if code == 0:
                break
            seconds = FIRST_PAUSE * 2**number
            say(f"failed with exit code {code}; it is tried again in {seconds:.0f} seconds")
            pause(seconds)
            code = attempt()
        failed = self.folder / "failed.json"
        if code == 0:
            failed.unlink(missing_ok=True)
        elif write_json(failed, {"since": time.time(), "code": code}, exclusive=True) and fields["on_failure"]:
            told = subprocess.run(["/bin/sh", "-c", fields["on_failure"]], check=False).returncode
            say(f"failed with exit code {code}; `{fields['on_failure']}` was run, and ended with {told}")
        return code
