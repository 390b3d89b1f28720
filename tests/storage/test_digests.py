"""Digests of arrays and rows."""

import numpy as np
from scipy import sparse

from dssl.storage.csr import as_rows, digest_of_arrays, digest_of_rows


def test_digests_of_rows_are_of_their_values():
    X = np.random.default_rng(0).normal(size=(5000, 3))
    X[X < 0] = 0
    dense = [X, X.astype(np.float32), X[:, :2], X[:-1], X[::-1], np.vstack([X, X[:1]]), X[:, ::-1]]
    rows = [as_rows(form(item)) for item in dense for form in (np.asarray, sparse.csr_array)]
    assert len({digest_of_rows(item) for item in rows}) == len(rows)
    assert digest_of_rows(as_rows(np.asfortranarray(X))) == digest_of_rows(as_rows(X))


def test_digests_of_arrays_are_of_names_shapes_types_and_values():
    a = np.arange(6)
    arrays = [{"a": a}, {"b": a}, {"a": a.reshape(2, 3)}, {"a": a.astype(np.int32)}, {"a": a + 1}, {"a": a, "b": a}]
    assert len({digest_of_arrays(item) for item in arrays}) == len(arrays)
    assert digest_of_arrays({"b": a, "a": a}) == digest_of_arrays({"a": a, "b": a.astype(">i8")})
