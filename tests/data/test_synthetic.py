"""Made-up points: the same rows whatever the blocks, and the shapes they are named for."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dssl.data.synthetic import GENERATION_ROWS, blobs, swiss_roll, two_moons
from dssl.errors import ParameterError

MAKERS = [lambda n, seed: two_moons(n, 0.05, seed), lambda n, seed: blobs(n, 5, 4, 0.5, seed),
          lambda n, seed: swiss_roll(n, 0.1, seed)]


@pytest.mark.parametrize("make", MAKERS)
def test_row_i_is_the_same_whatever_is_read(make):
    n = GENERATION_ROWS + 100
    data = make(n, 7)
    X, y = data.X.read_all(), data.targets()
    assert X.shape == (n, data.X.shape[1])
    assert y.shape == (n,)
    for start, stop in ((0, 5), (GENERATION_ROWS - 3, GENERATION_ROWS + 3), (n - 1, n)):
        assert_array_equal(data.X.read(start, stop), X[start:stop])
        assert_array_equal(data.y.read(start, stop), y[start:stop])
    ids = np.array([n - 1, 3, GENERATION_ROWS, 3])
    assert_array_equal(data.X.take(ids), X[ids])
    assert_array_equal(make(1000, 7).X.read_all(), X[:1000])
    assert_array_equal(pickle.loads(pickle.dumps(data.X)).read(0, 9), X[:9])
    assert not np.array_equal(make(1000, 8).X.read_all(), X[:1000])
    assert not np.array_equal(X[GENERATION_ROWS:GENERATION_ROWS + 100], X[:100])


def test_shapes():
    moons = two_moons(1000, 0.0, 1)
    X, y = moons.X.read_all(), moons.targets()
    assert_allclose(np.linalg.norm(X[y == 0], axis=1), 1, atol=1e-6)
    assert_allclose(np.linalg.norm(X[y == 1] - [1, 0.5], axis=1), 1, atol=1e-6)
    assert np.bincount(y).tolist() == [500, 500]
    roll = swiss_roll(500, 0.0, 1)
    assert_allclose(np.hypot(*roll.X.read_all()[:, [0, 2]].T), roll.targets(), rtol=1e-6)
    cloud = blobs(6000, 2, 3, 0.1, 1)
    for label in range(3):
        assert_allclose(cloud.X.read_all()[cloud.targets() == label].std(axis=0), 0.1, rtol=0.1)


def test_settings_that_are_refused():
    with pytest.raises(ParameterError, match="n=0"):
        two_moons(0)
    with pytest.raises(ParameterError, match="noise=-1"):
        two_moons(5, noise=-1)
    with pytest.raises(ParameterError, match="n_classes=0"):
        blobs(5, n_classes=0)
