"""Made-up points for tests of learners."""

import numpy as np

from dssl.data.dataset import Dataset

DRAWN = 1 << 16  # points at a time, of which the first are taken: point i is the same however many there are


def two_moons(n, noise=0.1, seed=0):
    """Return n points of two interleaved half circles of radius 1 in the plane, alternately of class 0 and 1."""
    rng, y = np.random.default_rng([seed, 0]), np.arange(DRAWN) % 2
    angle = rng.uniform(0, np.pi, DRAWN)
    X = np.stack([np.where(y, 1 - np.cos(angle), np.cos(angle)), np.where(y, 0.5 - np.sin(angle), np.sin(angle))], 1)
    X += noise * rng.standard_normal(X.shape)
    return Dataset.from_arrays(X[:n].astype(np.float32), y[:n])
