"""One self-contained HTML page of sections: nothing is fetched, so it opens offline and prints.

The page is a function of its arguments: equal ones give an equal file. It follows the reader's choice of a light or a
dark page, and fits a telephone as well as a wide screen. Sections fold, with those on how a result came about closed
at first; a short script sorts tables, and opens what a link points at and all for a printer. Without it, all can be
read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from markupsafe import Markup

from .colors import DARK, LIGHT
from .record import RunRecord
from .rendering import rendered

Level = Literal["good", "note", "warning"]
# Sections on how a result came about, of which a reader sees the titles first.
FOLDED = {"basis", "choice", "columns", "data", "graph", "selection", "solver", "spec", "stages", "values"}


@dataclass(frozen=True)
class Section:
    """A part of a page; None of a function that would make one is nothing to say. key : a word, what links point at."""

    key: str
    title: str
    html: Markup

    @property
    def folded(self) -> bool:
        """Return whether only the title is shown at first; a section with a warning never is."""
        return self.key in FOLDED and 'warning"' not in self.html


@dataclass(frozen=True)
class Table:
    """A table for a template. numbers : the columns that are set to the right."""

    head: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    numbers: Sequence[int] = ()


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: its figures, whether it is fine, and what that means."""

    subject: str
    figures: str
    level: Level
    meaning: str


SectionOf = Callable[[RunRecord], Section | None]  # None where there is nothing to say


class Reported(Protocol):
    """A step with a section of the page, or without one."""

    @property
    def section(self) -> SectionOf | None: ...

    @property
    def leads(self) -> bool: ...


def leading_and_following(steps: Sequence[Reported]) -> tuple[list[SectionOf], list[SectionOf]]:
    """Return the sections that lead the page, those of the last steps first, and the others in the order of the steps.
    """
    return ([step.section for step in reversed(steps) if step.section and step.leads],
            [step.section for step in steps if step.section and not step.leads])


FRAME = Markup('<iframe srcdoc="{}" title="Report" style="width: 100%; height: 80vh; border: 1px solid gray"></iframe>')


class Page(Markup):
    """A whole page, which a notebook shows in a frame of its own, and a console by its size."""

    def __repr__(self) -> str:
        return f"<report, {len(self):,} characters of HTML: report(\"report.html\") writes it>"

    def _repr_html_(self) -> str:
        return FRAME.format(str(self))


def page(title: str, of: str, sections: Iterable[Section | None]) -> Page:
    """Return the page as one HTML text; sections that are None are left out.

    of : what it is of, below the title.
    """
    shown = [section for section in sections if section is not None]
    return Page(rendered("page.html", title=title, of=of, sections=shown, light=LIGHT, dark=DARK))
