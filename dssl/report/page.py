"""One self-contained HTML page of sections: nothing is fetched, so it opens offline and prints. The door to Jinja2.

The page is a function of its arguments: equal ones give an equal file. It follows the reader's choice of a light or a
dark page, and fits a telephone as well as a wide screen. Sections fold, with those on how a result came about closed
at first; a short script sorts tables, and opens what a link points at and all for a printer. Without it, all can be
read.

A template of the folder `templates` is filled with values. Every value is escaped, and None is a dash; only what
another template or `plots` made is HTML already (`Markup`). A name that a template asks for and nobody gives is an
error.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from markupsafe import Markup

from .drawing import DARK, LIGHT
from .record import RunRecord
from .text import ABSENT, counted, duration, listed, number, percent, size

if TYPE_CHECKING:
    from jinja2 import Environment

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
    rows: Sequence[Sequence[object]] = ()
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


def rendered(template: str, **values: object) -> Markup:
    """Return a template with its values, as HTML that other templates take as it is."""
    return Markup(_environment().get_template(template).render(values))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only a finished run makes a page

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined,
        finalize=_printable, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {of.__name__: of for of in (counted, duration, listed, number, percent, size)}
    return environment


def _printable(value: object) -> str:
    """Return a value as text that HTML may hold; Markup as it is."""
    if isinstance(value, Markup):
        return value
    text = ABSENT if value is None else str(value)
    # A lone surrogate has no UTF-8 form; control characters are not allowed in HTML.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
