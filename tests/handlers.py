"""Handlers of signals for a while, whatever a shell has its background jobs ignore."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from dssl.base import signals


@contextmanager
def handled(handlers: Mapping[signal.Signals, Callable[..., Any]]) -> Iterator[None]:
    """Set the handlers by signal, as if none had arrived before; restore what was there at the end."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        with patch.object(signals, "_arrived", []):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
