"""Schedulers, which start a command at certain times: the base class, cron, and systemd's timers.

Times are in cron's form: minute, hour, day of the month, month, day of the week.
"""

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Self

from cronsim import CronSim, CronSimError

from ..base.errors import ClusterError, SpecError, require
from .engine import Engine, run_command

FIELDS = {"minute": "0 to 59", "hour": "0 to 23", "day of the month": "1 to 31", "month": "1 to 12 or jan to dec",
          "weekday": "0 to 7 or sun to sat"}
DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


@dataclass(frozen=True)
class Times:
    """Five valid fields of cron."""

    text: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the times of a text; raise SpecError if cron would not accept it."""
        fields = text.split()
        require(len(fields) == 5, f"--at {text!r} has {len(fields)} field{'s' * (len(fields) != 1)}", error=SpecError,
                why=f"cron has five: {', '.join(FIELDS)}", fix='write five, such as "0 2 * * *" for two at night')
        wrong = [f"{name} {field!r} is not one of {values}" for j, (field, (name, values)) in enumerate(
            zip(fields, FIELDS.items(), strict=True)) if not _is_cron(["*"] * j + [field] + ["*"] * (4 - j))]
        require(not wrong, f"--at {text!r}: {'; '.join(wrong)}", error=SpecError,
                why="it says when a run is due, as cron writes it",
                fix='write numbers or names in these ranges, lists (1,15), ranges (1-5), steps (*/10) or *')
        require(_is_cron(fields), f"--at {text!r}: no month of these has day {fields[2]}", error=SpecError,
                why="no run would ever be due", fix="name a day that a month of these has")
        return cls(" ".join(fields))

    def after(self, moment: datetime) -> datetime:
        """Return the first time after a moment."""
        return next(CronSim(self.text, moment))

    def in_words(self) -> str:
        """Return the times in English."""
        return str(CronSim(self.text, datetime(2026, 1, 1)).explain())

    def calendar(self) -> list[str]:
        """Return the lines of systemd's `OnCalendar` that mean the same.

        If both the day of the month and the weekday are restricted, cron starts on either and systemd only where both
        match; so these become two lines.
        """
        times = CronSim(self.text, datetime(2026, 1, 1))
        minutes, hours, months = (_numbers(numbers, whole) for numbers, whole in (
            (times.minutes, range(60)), (times.hours, range(24)), (times.months, range(1, 13))))
        days = [day for day in times.days if isinstance(day, int) and day > 0]
        require(len(days) == len(times.days), f"--at {self.text!r} counts days from the end of the month",
                error=SpecError, why="systemd writes that in another way", fix="name a day from 1 on")
        weekdays = sorted({day % 7 for day in times.weekdays if isinstance(day, int)})
        require(all(isinstance(day, int) for day in times.weekdays), f"--at {self.text!r} counts weeks of the month",
                error=SpecError, why="systemd writes that in another way", fix="name only weekdays")
        any_day = len(days) == 31
        any_weekday = len(weekdays) == 7
        of_week = ",".join(DAYS[day] for day in weekdays)
        of_month = _numbers(set(days), range(1, 32))
        time = f"{hours}:{minutes}:00"
        if any_day and any_weekday:
            return [f"*-{months}-* {time}"]
        if any_day:
            return [f"{of_week} *-{months}-* {time}"]
        by_day = f"*-{months}-{of_month} {time}"
        return [by_day] if any_weekday else [by_day, f"{of_week} *-{months}-* {time}"]


def _is_cron(fields: Sequence[str]) -> bool:
    try:
        CronSim(" ".join(fields), datetime(2026, 1, 1))
    except CronSimError:
        return False
    return True


def _numbers(values: object, whole: range) -> str:
    """Return numbers in systemd's form, "*" for all."""
    assert isinstance(values, (set, frozenset, list))
    listed = sorted(values)
    return "*" if listed == list(whole) else ",".join(f"{value:02d}" for value in listed)


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
        command = f"{shlex.join(scheduled.command)} >> {shlex.quote(str(scheduled.log))} 2>&1"
        escaped = command.replace("%", r"\%")  # cron reads % as the end of a line
        return {"crontab": f"{scheduled.times.text} {escaped} {_mark(scheduled.name)}\n"}

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
