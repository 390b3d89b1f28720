"""Neighbor lists that are made up, at no cost of a search."""

import numpy as np

from dssl.knn.lists import Neighbors


def made_lists(n, k=10, random_state=0, reach=None):
    """Return the lists of n points: neighbors anywhere, or within `reach` places around; ascending distances."""
    rng = np.random.default_rng([random_state, n, k])
    width = n - 1 if reach is None else min(2 * reach, n - 1)
    steps = rng.integers(1, width // k + 1, size=(n, k)).cumsum(axis=1) - (0 if reach is None else width // 2)
    steps[(steps <= 0)] -= 1  # no point is its own neighbor
    distances = np.sort(rng.gamma(3.0, size=(n, k)), axis=1).astype(np.float32)
    return Neighbors.from_arrays({"ids": (np.arange(n)[:, None] + steps) % n, "distances": distances})
