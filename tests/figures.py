"""Reports without the rendering of their figures, which is a sixth of a small run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import pytest
from matplotlib.figure import Figure


@contextmanager
def unrendered() -> Iterator[None]:
    """Draw figures on their axes, and leave what becomes of them to the tests of the page and of the command line."""
    def savefig(self: Figure, stream: TextIO, **options: Any) -> None:
        stream.write("<svg ></svg>")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", savefig)
        yield
