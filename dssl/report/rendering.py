"""The door to Jinja2: a template of the folder `templates`, filled with values.

Every value is escaped, and None is a dash; only what another template or `plots` made is HTML already (`Markup`). A
name that a template asks for and nobody gives is an error.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from .text import ABSENT, counted, duration, listed, number, percent, size

if TYPE_CHECKING:
    from jinja2 import Environment


def rendered(template: str, **values: Any) -> Markup:
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


def _printable(value: Any) -> Any:
    """Return a value as text that HTML may hold; Markup as it is."""
    if isinstance(value, Markup):
        return value
    text = ABSENT if value is None else str(value)
    # A lone surrogate has no UTF-8 form; control characters are not allowed in HTML.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
