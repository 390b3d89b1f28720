"""What a run wrote of its split, read whole: `train`, `test`, and the codes or values beside them."""

from contextlib import suppress
from pathlib import Path

import numpy as np

from dssl.base.errors import IntegrityError
from dssl.storage.artifacts import parts_in
from dssl.storage.store import StoredParts


def split_arrays(parts: StoredParts | Path) -> dict[str, np.ndarray]:
    """Return the arrays of a split's artifact, or of its folder."""
    found = {}
    for name in (f"{of}{what}" for of in ("train", "test") for what in ("", "_codes", "_values")):
        with suppress(IntegrityError):  # there are either codes or values
            found[name] = (parts if isinstance(parts, StoredParts) else parts_in(parts)).rows(name).read_all()
    return found
