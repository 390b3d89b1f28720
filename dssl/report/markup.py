"""Text of a page: HTML in which everything is escaped that was not made here, and numbers as words.

Not Jinja2, though distributed brings it: templates, and the code that fills them, are more lines than `tag`, `table`.
"""

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..base.units import size_text

ABSENT = "–"


class Html(str):
    """Text that is HTML already and is not escaped again."""

    __slots__ = ()


def escaped(value: Any) -> Html:
    """Return a value as HTML: Html as it is, anything else as escaped text."""
    if isinstance(value, Html):
        return value
    text = ABSENT if value is None else str(value)
    # A lone surrogate has no UTF-8 form; control characters are not allowed in HTML.
    text = text.encode("utf-8", "replace").decode("utf-8")
    return Html(html.escape("".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}"
                                    for c in text)))


def tag(name: str, *children: Any, **attributes: str) -> Html:
    """Return an element with its children escaped; `class_` stands for the attribute class."""
    given = "".join(f' {key.rstrip("_")}="{escaped(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{given}>{''.join(escaped(child) for child in children)}</{name}>")


def joined(parts: Iterable[Any]) -> Html:
    """Return the parts, escaped, one after the other."""
    return Html("".join(escaped(part) for part in parts))


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[int] = ()) -> Html:
    """Return a table; the columns in `numbers` are set to the right."""
    def row(cells: Sequence[Any], cell: str) -> Html:
        return tag("tr", *(tag(cell, value, class_="number") if column in numbers else tag(cell, value)
                           for column, value in enumerate(cells)))

    top = [tag("thead", row(head, "th"))] if head else []
    return tag("div", tag("table", *top, tag("tbody", *(row(cells, "td") for cells in rows))), class_="wide")


def described(rows: Iterable[tuple[str, Any]]) -> Html:
    """Return a table of names and values; what is None is left out."""
    return table((), [row for row in rows if row[1] is not None])


def figure(drawing: Html, caption: str) -> Html:
    """Return a drawing with words below it."""
    return tag("figure", drawing, tag("figcaption", caption))


def finite(value: Any) -> float | None:
    """Return a value as a float, or None if it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def percent(share: Any, digits: int = 1) -> str:
    """Return a share as per cent: 0.1028 as 10.3 %."""
    value = finite(share)
    return ABSENT if value is None else f"{100 * value:.{digits}f} %"


def points(gain: Any) -> str:
    """Return a difference of shares in percentage points, without its sign."""
    value = finite(gain)
    if value is None:
        return ABSENT
    return f"{100 * abs(value):.1f} point{'' if round(100 * abs(value), 1) == 1 else 's'}"


def number(value: Any) -> str:
    """Return a number in a few characters: whole ones with separators, others with three or four digits."""
    found = finite(value)
    if found is None:
        return ABSENT
    if isinstance(value, int) or (found.is_integer() and abs(found) < 1e15):
        return f"{int(value):,}"
    return f"{found:.1f}" if 100 <= abs(found) < 1e6 else f"{found:.3g}"


def counted(value: Any, one: str, many: str | None = None) -> str:
    """Return a count with its noun: 1 class, 10 classes."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def p_value(value: Any) -> str:
    """Return a p-value as `p = 0.012`."""
    found = finite(value)
    if found is None:
        return f"p = {ABSENT}"
    return "p < 1e-99" if found < 1e-99 else f"p = {found:.2g}"


def size(n_bytes: Any) -> str:
    """Return a number of bytes as `size_text` does; nothing measured is absent."""
    value = finite(n_bytes)
    return size_text(value) if value else ABSENT


def duration(seconds: Any) -> str:
    """Return seconds as 0.31 s, 4 min 05 s or 2 h 10 min."""
    value = finite(seconds)
    if value is None:
        return ABSENT
    if value < 60:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def plain_label(value: Any, length: int = 18) -> str:
    """Return a value as one line of at most `length` characters."""
    text = "".join(c if c.isprintable() else " " for c in str(value)).strip() or "(empty)"
    return text if len(text) <= length else text[:length - 1] + "…"


def listed(values: Sequence[Any], most: int) -> str:
    """Return the first values, as short labels, with commas, and how many follow."""
    shown = ", ".join(plain_label(value, 40) for value in values[:most])
    return f"{shown} and {number(len(values) - most)} more" if len(values) > most else shown


def at(mapping: Any, *path: str) -> Any:
    """Return what lies at a path of keys, or None where a key is missing."""
    for key in path:
        mapping = mapping.get(key) if isinstance(mapping, dict) else None
    return mapping
