"""Documents of numbers that are equal but for rounding: sums of the same numbers in blocks of other shapes."""

from typing import Any

import pytest


def to_rounding(document: Any) -> Any:
    """Return what a JSON document equals whose numbers with a fraction differ by rounding alone."""
    if isinstance(document, dict):
        return {name: to_rounding(value) for name, value in document.items()}
    if isinstance(document, (list, tuple)):
        return type(document)(map(to_rounding, document))
    return pytest.approx(document, rel=1e-9, abs=1e-12) if isinstance(document, float) else document
