"""Made-up points of any number, generated where they are read.

Rows are generated in fixed blocks of 65,536 with one random stream each, so row i is the same however many rows
there are and whatever blocks they are read in; a task on any machine generates its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import require
from ..storage.blocks import ArrayRows, block_rng
from ..storage.pieces import RowsInPieces
from .dataset import Dataset

GENERATION_ROWS = 1 << 16
CENTERS_STREAM = 1 << 40  # no block has this number

Generator = Callable[..., tuple[np.ndarray, np.ndarray]]  # (rng, rows, **settings) -> X (rows, d), y (rows,)


@dataclass(frozen=True)
class GeneratedRows(RowsInPieces):
    """X or y of a generator, read by ranges."""

    generator: Generator
    settings: dict[str, Any]
    seed: int
    shape: tuple[int, ...]
    dtype: np.dtype
    output: int  # 0 for X, 1 for y

    @property
    def starts(self) -> np.ndarray:  # type: ignore[override]
        return np.append(np.arange(0, len(self), GENERATION_ROWS), len(self))

    def piece(self, index: int) -> ArrayRows:
        made = self.generator(block_rng(self.seed, index), np.arange(GENERATION_ROWS), **self.settings)
        return ArrayRows(made[self.output].astype(self.dtype, copy=False))


def two_moons(n: int, noise: float = 0.1, seed: int = 0) -> Dataset:
    """Return n points of two interleaved half circles in the plane, alternately of class 0 and 1.

    noise : standard deviation of the Gaussian added to both coordinates; the circles have radius 1.
    """
    return _dataset("two_moons", _moons, n, 2, np.int64, seed, {"noise": noise})


def blobs(n: int, n_features: int = 2, n_classes: int = 3, spread: float = 1.0, seed: int = 0) -> Dataset:
    """Return n points of Gaussians around centers drawn uniformly from [-10, 10]^d, one class a center in turn.

    spread : standard deviation of each Gaussian in every direction.
    """
    require(n_features >= 1 and n_classes >= 1, f"n_features={n_features}, n_classes={n_classes}",
            why="points have features and a class", fix="use 1 or more")
    settings = {"seed": seed, "n_features": n_features, "n_classes": n_classes, "spread": spread}
    return _dataset("blobs", _blobs, n, n_features, np.int64, seed, settings)


def swiss_roll(n: int, noise: float = 0.0, seed: int = 0) -> Dataset:
    """Return n points of a rolled-up sheet in space; the target is the angle along the roll, 1.5 pi to 4.5 pi."""
    return _dataset("swiss_roll", _roll, n, 3, np.float64, seed, {"noise": noise})


def _dataset(name: str, generator: Generator, n: int, d: int, label_dtype: Any, seed: int,
             settings: dict[str, Any]) -> Dataset:
    require(n >= 1, f"n={n}", why="a data set has points", fix="use 1 or more")
    for key in ("noise", "spread"):
        require(settings.get(key, 0) >= 0, f"{key}={settings.get(key)}", why="it is a standard deviation", fix="use 0")
    X = GeneratedRows(generator, settings, seed, (n, d), np.dtype(np.float32), 0)
    y = GeneratedRows(generator, settings, seed, (n,), np.dtype(label_dtype), 1)
    return Dataset(X, y, attributes={"source": name, **settings, "seed": seed})


def _moons(rng: np.random.Generator, rows: np.ndarray, *, noise: float) -> tuple[np.ndarray, np.ndarray]:
    y = rows % 2
    angle = rng.uniform(0, np.pi, len(rows))
    X = np.stack([np.where(y, 1 - np.cos(angle), np.cos(angle)), np.where(y, 0.5 - np.sin(angle), np.sin(angle))], 1)
    return X + noise * rng.standard_normal(X.shape), y


def _blobs(rng: np.random.Generator, rows: np.ndarray, *, seed: int, n_features: int, n_classes: int,
           spread: float) -> tuple[np.ndarray, np.ndarray]:
    centers = block_rng(seed, CENTERS_STREAM).uniform(-10, 10, (n_classes, n_features))
    y = rows % n_classes
    return centers[y] + spread * rng.standard_normal((len(rows), n_features)), y


def _roll(rng: np.random.Generator, rows: np.ndarray, *, noise: float) -> tuple[np.ndarray, np.ndarray]:
    angle = 1.5 * np.pi * (1 + 2 * rng.uniform(size=len(rows)))
    X = np.stack([angle * np.cos(angle), 21 * rng.uniform(size=len(rows)), angle * np.sin(angle)], 1)
    return X + noise * rng.standard_normal(X.shape), angle
