"""Coordinates of approximate searches: principal axes, and a sketch of the rest where it is needed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dssl.data.readers.manifolds import CurvedManifolds, ManifoldParams
from dssl.knn.projection import AXES_SUFFICE, MAX_COLUMNS, SKETCH_COLUMNS, Projection, hadamard_columns, max_coordinates
from dssl.storage.blocks import block_rng
from tests.embeddings import hard_pixels


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_all_columns_of_the_hadamard_matrix_preserve_lengths(log_order, seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2 ** (log_order - 1) + 1, 2**log_order + 1))
    S = hadamard_columns(d, 2**log_order, rng)
    assert_allclose(S @ S.T, np.eye(d), atol=1e-12)


def test_a_sketch_estimates_squared_lengths():
    x = np.random.default_rng(0).normal(size=300)
    squared = [((x @ hadamard_columns(300, 64, block_rng(seed))) ** 2).sum() / (x @ x) for seed in range(200)]
    assert abs(np.mean(squared) - 1) < 4 * np.sqrt(2 / 64 / 200)
    assert np.std(squared) < 1.3 * np.sqrt(2 / 64)


def listed(Z, X, width=15, k=10):
    """Return the share of the k nearest rows that are among the `width` nearest by coordinates."""
    def squared(rows):
        return ((rows[:100, None] - rows) ** 2).sum(axis=2) + np.diag(np.full(len(rows), np.inf))[:100]

    near, first = squared(X).argsort(axis=1)[:, :k], squared(Z.astype(float)).argsort(axis=1)[:, :width]
    return np.mean([np.isin(*pair).mean() for pair in zip(near, first, strict=True)])


@pytest.mark.slow
def test_rows_that_no_few_axes_explain_have_a_sketch_that_finds_more_neighbors():
    X = hard_pixels(1500)
    projection = Projection.of(X, block_rng(0))
    Z = projection.coordinates(X)
    assert Z.shape[1] == projection.axes == MAX_COLUMNS == max_coordinates(784)
    assert projection.sketch.shape[1] == SKETCH_COLUMNS
    assert projection.listed < AXES_SUFFICE
    assert_allclose(projection.frame.basis.T @ projection.sketch, 0, atol=1e-5)
    axes = Projection(projection.frame, projection.sketch[:, :0], projection.scale).coordinates(X)
    assert axes.shape[1] == projection.axes - SKETCH_COLUMNS + 1
    assert listed(Z, X) > listed(axes, X) + 0.05


@pytest.mark.parametrize("columns", [40, 300])
def test_rows_that_a_few_axes_explain_have_none(columns):
    X = CurvedManifolds(ManifoldParams(points=1000, columns=columns)).read(0, 1000)[0]
    projection = Projection.of(X, block_rng(0))
    assert projection.sketch.shape == (columns, 0)
    assert projection.listed > 0.98
    assert projection.coordinates(X).shape[1] == projection.axes <= max_coordinates(columns)
