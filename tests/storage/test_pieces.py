"""Rows joined of pieces read as one array."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl.base.errors import ParameterError
from dssl.storage.blocks import ArrayRows, MemoryParts
from dssl.storage.csr import CsrRows
from dssl.storage.views import JoinedRows, write_sparse


@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6), is_sparse=st.booleans(), data=st.data())
def test_reads_and_takes_what_one_array_gives(sizes, is_sparse, data):
    n = sum(sizes)
    X = np.random.default_rng(n).integers(0, 3, (n, 4)).astype(float)
    ends = np.cumsum([0, *sizes])
    if is_sparse:
        rows = write_sparse(CsrRows(sparse.csr_array(X)), MemoryParts(), data.draw(st.integers(1, 6)))
    else:
        rows = pickle.loads(pickle.dumps(JoinedRows([ArrayRows(X[i:j]) for i, j in itertools.pairwise(ends)])))
    start = data.draw(st.integers(0, n))
    stop = data.draw(st.integers(start, n + 3))
    ids = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=12) if n else st.just([])), int)

    def plain(actual):
        return actual.toarray() if is_sparse else actual

    assert rows.shape == X.shape
    assert_array_equal(plain(rows.read(start, stop)), X[start:stop])
    assert_array_equal(plain(rows.take(ids)), X[ids])
    assert_array_equal(plain(rows.read_all()), X)
    assert not is_sparse or rows.nnz == np.count_nonzero(X)
    assert rows.row_bytes >= 1


@pytest.mark.parametrize("other", [np.ones((2, 4)), np.ones((2, 3), np.float32), sparse.csr_array(np.ones((2, 3)))])
def test_pieces_of_other_width_type_or_kind_are_refused(other):
    piece = CsrRows(other) if sparse.issparse(other) else ArrayRows(other)
    with pytest.raises(ParameterError, match="does not match"):
        JoinedRows([ArrayRows(np.ones((2, 3))), piece])
    with pytest.raises(ParameterError, match="no rows to join"):
        JoinedRows([])
