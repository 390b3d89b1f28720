"""What fires a command at certain times: cron, or systemd's timers; Slurm and Kubernetes have files of their own."""

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from ...base.errors import ClusterError
from ..engine import Engine, asked
from .times import Times


@dataclass(frozen=True)
class Scheduled:
    """A command and its times.

    name : of the schedule. folder : where its records and its log lie. command : is started then. next : prints when it
    is due next. engine : to which each run is handed over. cwd : where the command is started. files : that it reads.
    """

    name: str
    times: Times
    folder: Path
    command: tuple[str, ...]
    next: tuple[str, ...]
    engine: Engine
    cwd: Path
    files: tuple[Path, ...]

    @property
    def log(self) -> Path:
        return self.folder / "log"


class Scheduler(ABC):
    """Something that starts commands at certain times."""

    zone: tzinfo | None = None  # in which the times are meant; None: that of this machine

    @abstractmethod
    def render(self, scheduled: Scheduled) -> Mapping[str, str]:
        """Return text by the name of a file."""

    @abstractmethod
    def install(self, scheduled: Scheduled, files: Mapping[str, Path]) -> None:
        """Have the command started; files : what was rendered, by name. Raises ClusterError."""

    @abstractmethod
    def has(self, name: str, folder: Path) -> bool:
        """Return whether the command of the schedule in a folder is still to be started. Raises ClusterError."""

    @abstractmethod
    def remove(self, name: str, folder: Path) -> None:
        """Have the command of the schedule in a folder not started any more. Raises ClusterError."""


class Cron(Scheduler):
    """A line of the user's crontab, which ends in the name of the schedule."""

    fix = "install cron, or use --to systemd"

    def render(self, scheduled: Scheduled) -> dict[str, str]:
        command = shlex.join(scheduled.command).replace("%", r"\%")  # which cron takes for the end of a line
        return {"crontab": f"{scheduled.times.text} {command} >> {shlex.quote(str(scheduled.log))} 2>&1 "
                           f"{_mark(scheduled.name)}\n"}

    def install(self, scheduled: Scheduled, files: Mapping[str, Path]) -> None:
        line = files["crontab"].read_text(encoding="utf-8")
        self._write([*self._others(scheduled.name), line.rstrip("\n")])

    def has(self, name: str, folder: Path) -> bool:
        return any(line.endswith(_mark(name)) for line in self._lines())

    def remove(self, name: str, folder: Path) -> None:
        self._write(self._others(name))

    def _others(self, name: str) -> list[str]:
        """Return the lines of the crontab but that of a schedule."""
        return [line for line in self._lines() if not line.endswith(_mark(name))]

    def _lines(self) -> list[str]:
        """Return the lines of the crontab; raise ClusterError if it cannot be read."""
        try:
            listed = asked(["crontab", "-l"], fix=self.fix)
        except ClusterError as error:
            if "no crontab for" not in str(error):
                raise
            return []
        return listed.splitlines()

    def _write(self, lines: list[str]) -> None:
        asked(["crontab", "-"], fix=self.fix, text="".join(f"{line}\n" for line in lines))


def _mark(name: str) -> str:
    return f"# dssl: {name}"


class Systemd(Scheduler):
    """A service and a timer of the user's systemd; one that was due while the machine was off is started later."""

    def render(self, scheduled: Scheduled) -> dict[str, str]:
        unit = unit_of(scheduled.name)
        calendar = "".join(f"OnCalendar={line}\n" for line in scheduled.times.calendar())
        command = " ".join(f'"{_escaped(word)}"' for word in scheduled.command)
        log = str(scheduled.log).replace("%", "%%")
        return {
            f"{unit}.service": f"[Unit]\nDescription=dssl: {scheduled.name}\n\n[Service]\nType=oneshot\n"
                               f"ExecStart={command}\nStandardOutput=append:{log}\n"
                               f"StandardError=append:{log}\n",
            f"{unit}.timer": f"[Unit]\nDescription=dssl: {scheduled.name}, {scheduled.times.in_words()}\n\n[Timer]\n"
                             f"{calendar}Persistent=true\n\n[Install]\nWantedBy=timers.target\n"}

    def install(self, scheduled: Scheduled, files: Mapping[str, Path]) -> None:
        folder = _units_folder()
        folder.mkdir(parents=True, exist_ok=True)
        new = [folder / name for name in files if not (folder / name).exists()]
        try:
            for name, path in files.items():
                (folder / name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
            self._control("daemon-reload")
            self._control("enable", "--now", f"{unit_of(scheduled.name)}.timer")
        except BaseException:
            for path in new:
                path.unlink(missing_ok=True)
            raise

    def has(self, name: str, folder: Path) -> bool:
        return self._control("show", "--property=ActiveState", f"{unit_of(name)}.timer").strip() == "ActiveState=active"

    def remove(self, name: str, folder: Path) -> None:
        self._control("disable", "--now", f"{unit_of(name)}.timer")
        for ending in ("service", "timer"):
            (_units_folder() / f"{unit_of(name)}.{ending}").unlink(missing_ok=True)
        self._control("daemon-reload")

    def _control(self, *words: str) -> str:
        return asked(["systemctl", "--user", *words], fix="log in with a session of systemd, or use --to cron")


def unit_of(name: str) -> str:
    """Return the name that systemd and Slurm have for a schedule."""
    return f"dssl-{name}"


def _units_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def _escaped(word: str) -> str:
    """Return a word that systemd takes as it is within quotes."""
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
