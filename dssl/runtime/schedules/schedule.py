"""Schedulers, which start a command at certain times: the base class, cron, and systemd's timers."""

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path

from ...base.errors import ClusterError
from ..engine import Engine, run_command
from .times import Times


@dataclass(frozen=True)
class Scheduled:
    """A command and its times.

    name : of the schedule. folder : of its records and its log. command : starts at these times. next : command that
    prints the next of these times. engine : runs the jobs. cwd : working folder of the command. files : that it reads.
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
    """A system that starts commands at certain times."""

    zone: tzinfo | None = None  # of the times; None: that of this machine

    @abstractmethod
    def render(self, scheduled: Scheduled) -> Mapping[str, str]:
        """Return the text of each file of a schedule, by the file's name."""

    @abstractmethod
    def install(self, scheduled: Scheduled, files: Mapping[str, Path]) -> None:
        """Install a schedule; files : the rendered ones, by name. Raises ClusterError."""

    @abstractmethod
    def has(self, name: str, folder: Path) -> bool:
        """Return whether the schedule of a folder is installed. Raises ClusterError."""

    @abstractmethod
    def remove(self, name: str, folder: Path) -> None:
        """Remove the schedule of a folder. Raises ClusterError."""


class Cron(Scheduler):
    """A line of the user's crontab, which ends in the name of the schedule."""

    fix = "install cron, or use --to systemd"

    def render(self, scheduled: Scheduled) -> dict[str, str]:
        command = shlex.join(scheduled.command).replace("%", r"\%")  # cron reads % as the end of a line
        return {"crontab": f"{scheduled.times.text} {command} >> {shlex.quote(str(scheduled.log))} 2>&1 "
                           f"{_mark(scheduled.name)}\n"}

    def install(self, scheduled: Scheduled, files: Mapping[str, Path]) -> None:
        line = files["crontab"].read_text(encoding="utf-8")
        self._write([*self._other_lines(scheduled.name), line.rstrip("\n")])

    def has(self, name: str, folder: Path) -> bool:
        return any(line.endswith(_mark(name)) for line in self._lines())

    def remove(self, name: str, folder: Path) -> None:
        self._write(self._other_lines(name))

    def _other_lines(self, name: str) -> list[str]:
        """Return the lines of the crontab except that of a schedule."""
        return [line for line in self._lines() if not line.endswith(_mark(name))]

    def _lines(self) -> list[str]:
        """Return the lines of the crontab; raise ClusterError if it cannot be read."""
        try:
            listed = run_command(["crontab", "-l"], fix=self.fix)
        except ClusterError as error:
            if "no crontab for" not in str(error):
                raise
            return []
        return listed.splitlines()

    def _write(self, lines: list[str]) -> None:
        run_command(["crontab", "-"], fix=self.fix, text="".join(f"{line}\n" for line in lines))


def _mark(name: str) -> str:
    return f"# dssl: {name}"


class Systemd(Scheduler):
    """A service and a timer of the user's systemd, which starts a command later if the machine was off."""

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
        return run_command(["systemctl", "--user", *words], fix="log in with a session of systemd, or use --to cron")


def unit_of(name: str) -> str:
    """Return the name of a schedule in systemd and Slurm."""
    return f"dssl-{name}"


def _units_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"


def _escaped(word: str) -> str:
    """Return a word escaped for systemd's quotation marks."""
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
