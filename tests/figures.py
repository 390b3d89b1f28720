"""Reports without their figures, which take a third of a small run, or without the rendering of these."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import pytest
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from dssl.report import plots


@contextmanager
def unrendered() -> Iterator[None]:
    """Draw figures on their axes, and leave what becomes of them to the tests of the page and of the command line."""
    def savefig(self: Figure, stream: TextIO, **options: Any) -> None:
        stream.write("<svg ></svg>")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", savefig)
        yield


@contextmanager
def undrawn() -> Iterator[None]:
    """Put the title in the place of a figure; `tests/pipeline/test_counts.py` draws those of every kind of model."""
    def svg(name: str, title: str, *others: Any) -> Markup:
        return Markup(f'<svg aria-label="{escape(title)}"></svg>')

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "svg", svg)
        yield
