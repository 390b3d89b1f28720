"""How many examples a property is tried on: few and always the same ones, unless DSSL_FUZZ asks for more."""

import os
from typing import Any

from hypothesis import HealthCheck, settings

FACTOR = int(os.environ.get("DSSL_FUZZ", "0"))  # 0: the same examples at each call


def thorough(examples: int, **others: Any) -> settings:
    """Return the settings of a property: so many examples, or DSSL_FUZZ times as many random ones."""
    return settings(max_examples=examples * max(FACTOR, 1), derandomize=not FACTOR, deadline=None, database=None,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large,
                                           HealthCheck.filter_too_much], **others)
