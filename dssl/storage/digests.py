"""Digests of values: what names an artifact that is made of arrays, wherever these lie."""

import hashlib
from collections.abc import Mapping

import numpy as np

from ..base.digest import digest
from .array_files import checksum
from .blocks import Rows
from .csr import csr_arrays

DIGEST_ROWS = 1 << 12  # that are read at a time; the digest depends on it


def digest_of_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the hex SHA-256 of named arrays of numbers: names, shapes, types and values."""
    return digest({name: [list(array.shape), array.dtype.name, checksum(array)] for name, array in arrays.items()})


def digest_of_rows(rows: Rows) -> str:
    """Return the hex SHA-256 of the shape, type and values of rows, dense or sparse; reads them once."""
    state = hashlib.sha256(digest({"shape": list(rows.shape), "sparse": rows.is_sparse}).encode())
    for _, block in rows.blocks(DIGEST_ROWS):
        state.update(digest_of_arrays(csr_arrays(block) if rows.is_sparse else {"rows": block}).encode())
    return state.hexdigest()
