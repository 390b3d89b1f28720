"""Made-up points for tests of learners."""

import numpy as np
import pandas as pd
from sklearn.datasets import make_moons

from dssl.data.dataset import Dataset

DRAWN = 1 << 16  # points at a time, of which the first are taken: point i is the same however many there are


def two_moons(n, noise=0.1, random_state=0):
    """Return n points of two interleaved half circles of radius 1 in the plane, alternately of class 0 and 1."""
    rng, y = np.random.default_rng([random_state, 0]), np.arange(DRAWN) % 2
    angle = rng.uniform(0, np.pi, DRAWN)
    X = np.stack([np.where(y, 1 - np.cos(angle), np.cos(angle)), np.where(y, 0.5 - np.sin(angle), np.sin(angle))], 1)
    X += noise * rng.standard_normal(X.shape)
    return Dataset.from_arrays(X[:n].astype(np.float32), y[:n])


def moons_spec(folder, n):
    """Return a spec, without a model, of n points of two moons in a CSV file: 60 to test, five labels a class."""
    X, y = make_moons(n, noise=0.1, random_state=0)
    path = folder / "moons.csv"
    pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.array(["up", "down"])[y]).to_csv(path, index=False)
    return {"name": "moons", "data": {"source": str(path), "read": {"target": "kind"}, "test": {"count": 60},
                                      "scale": "none"}, "labels": {"per_class": 5}}
