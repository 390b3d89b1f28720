"""Write docs/outcomes.md from the cases."""

from . import cases  # noqa: F401  (registers the cases)
from .table import PAGE, page, rows

PAGE.write_text(page(rows()), encoding="utf-8")
print(PAGE)
