"""Times of scheduled runs in cron's form: minute, hour, day of the month, month, day of the week."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from cronsim import CronSim, CronSimError

from ...base.errors import SpecError, explain, require

DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


@dataclass(frozen=True)
class Times:
    """Five valid fields of cron."""

    text: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the times of a text; raise SpecError if cron would not accept it."""
        try:
            CronSim(text, datetime(2026, 1, 1))
        except CronSimError as error:
            raise SpecError(explain(f"--at {text!r} ({error})", why="it says when a run is due, as cron writes it",
                                    fix='write minute, hour, day, month, weekday, such as "0 2 * * *" for two at '
                                        "night")) from error
        require(len(text.split()) == 5, f"--at {text!r} has {len(text.split())} fields", error=SpecError,
                why="cron has five", fix="leave seconds and years out")
        return cls(" ".join(text.split()))

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


def _numbers(values: object, whole: range) -> str:
    """Return numbers in systemd's form, "*" for all."""
    assert isinstance(values, (set, frozenset, list))
    listed = sorted(values)
    return "*" if listed == list(whole) else ",".join(f"{value:02d}" for value in listed)
