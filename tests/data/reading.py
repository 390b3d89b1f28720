"""Reading of single files, for the tests of their formats."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from dssl.data.floats import floats
from dssl.data.readers.formats import open_reader


def dense(block, dtype=np.float64):
    """Return a block with X as an array, whatever its format gives; with `dtype` None in the type of the file."""
    X = block.X.toarray() if sparse.issparse(block.X) else block.X
    return replace(block, X=floats(X, dtype))


def read_all(path, tmp_path, dtype=np.float64, **options):
    """Return the scan of a file, and all its rows with X as an array."""
    reader = open_reader(path, scratch=tmp_path / "scratch", **options)
    scan = reader.scan()
    return scan, dense(reader.read(0, scan.n_rows), dtype)
