"""A run that comes again: what is kept of it, and what happens each time that it is due.

    schedules/NAME/schedule.json   the spec's path, where it runs, times and what to do about failures
    schedules/NAME/...             what cron, systemd or Slurm was given; `log`, of all that was said
    schedules/NAME/failed.json     since when it has been failing; `on_failure` was run then
"""

import fcntl
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..base.digest import digest
from ..base.errors import DataError, require
from ..storage.artifacts import Workspace
from ..storage.files import read_json, write_file, write_json
from .records import require_no_secret

FIRST_PAUSE = 60.0  # seconds before a run that failed is tried again; twice as many before each further attempt
SCHEDULE = "schedule.json"


@dataclass(frozen=True)
class Schedule:
    """One schedule, by its folder."""

    folder: Path

    @classmethod
    def of(cls, workspace: Workspace, fields: Mapping[str, Any]) -> Self:
        """Return the schedule of some fields, of which nothing is written; the same spec, place and times: the same."""
        stem = Path(fields["spec"]).stem
        same = {key: fields[key] for key in ("spec", "set", "on", "at", "to")} | {"workspace": str(workspace.root)}
        return cls(workspace.root / "schedules" / f"{stem}-{digest(same)[:8]}")

    @contextmanager
    def kept(self, fields: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[dict[str, Path]]:
        """Write down a schedule and what was rendered of it, by file name; give the paths of these.

        If the body raises, all is as before: a new schedule leaves nothing, and an earlier one of the same name its
        own files. Raises SpecError: a file would hold a secret of the environment.
        """
        texts = {**files, SCHEDULE: json.dumps(dict(fields), indent=1)}
        for name, text in texts.items():
            require_no_secret(f"the schedule's file {name}", text)
        paths = {name: self.folder / name for name in texts}
        is_new = not paths[SCHEDULE].is_file()
        before = {path: path.read_bytes() for path in paths.values() if path.is_file()}
        try:
            for name, path in paths.items():
                write_file(path, texts[name].encode(), durable=True)
            yield {name: paths[name] for name in files}
        except BaseException:
            if is_new:
                shutil.rmtree(self.folder, ignore_errors=True)
            for path in () if is_new else paths.values():
                if path in before:
                    write_file(path, before[path])
                else:
                    path.unlink(missing_ok=True)
            raise

    @classmethod
    def find(cls, workspace: Workspace, name: str) -> Self:
        """Return a schedule by its name; raise DataError if there is none."""
        listed = [schedule.folder.name for schedule in cls.all(workspace)]
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
        written: dict[str, Any] = read_json(self.folder / SCHEDULE)
        return written

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

        `on_failure` is run once, and not again until an attempt succeeds.
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
            exit_code = subprocess.run(["/bin/sh", "-c", fields["on_failure"]], check=False).returncode
            say(f"failed with exit code {code}; `{fields['on_failure']}` was run, and ended with {exit_code}")
        return code
