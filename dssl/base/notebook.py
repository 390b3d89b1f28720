"""How objects show themselves in a notebook."""

from collections.abc import Mapping
from html import escape

CELL = 'style="text-align: left"'


def values_table(title: str, values: Mapping[str, object]) -> str:
    """Return a table of names and values; those that are None are left out."""
    rows = "".join(f"<tr><th {CELL}>{escape(name)}</th><td {CELL}>{escape(str(value))}</td></tr>"
                   for name, value in values.items() if value is not None)
    return f"<div><h4>{escape(title)}</h4><table>{rows}</table></div>"
