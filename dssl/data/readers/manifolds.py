"""Synthetic points of any number on curved manifolds: a file holds their parameters, from which rows are computed.

Any range of rows is made on its own, and is the same whatever else is made.
"""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...base.digest import require_random_state
from ...base.errors import DataError, ParameterError, explain, require, sentences
from ...storage.blocks import block_rng
from ...storage.files import draft_of
from .base import Block, Reader, Scan

BLOCK_ROWS = 4096  # rows with the same random stream
MAPS, POINTS = 0, 1  # random streams
FOLDS = 16  # number of waves in a manifold


@dataclass(frozen=True, kw_only=True)
class ManifoldParams:
    """Parameters of points on curved manifolds, one for each class.

    A point of class c has coordinates u, uniform in [0, 1]^dimension, and is `A sin(B_c' u + p_c)` plus normal noise:
    A (columns, 16) is one for all classes, with orthonormal columns where there are 16 or more; B_c (dimension, 16) is
    normal, p_c uniform in [0, 2 pi).

    points, columns : the shape. classes : as likely one as another. dimension : of each manifold. noise : its standard
    deviation in every column. seed : of all of it.
    """

    points: int
    columns: int = 64
    classes: int = 10
    dimension: int = 10
    noise: float = 0.02
    seed: int = 0

    def __post_init__(self) -> None:
        for name, minimum in (("points", 1), ("columns", 1), ("classes", 1), ("dimension", 1)):
            value = getattr(self, name)
            require(isinstance(value, int) and not isinstance(value, bool) and value >= minimum,
                    f"{name}={value!r}, expected a whole number >= {minimum}",
                    why="it is a size of the points that are made", fix="write manifolds:1000000x64, for example")
        require(isinstance(self.noise, (int, float)) and 0 <= self.noise < 1e6, f"noise={self.noise!r}",
                why="it is a standard deviation", fix="use 0.02")
        require_random_state(self.seed)


class CurvedManifolds:
    """The points of `ManifoldParams`, which are computed by ranges of rows."""

    def __init__(self, params: ManifoldParams):
        self.params = params

    @cached_property
    def _maps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return A (columns, 16), B (classes, dimension, 16) and p (classes, 16)."""
        of = self.params
        rng = block_rng(of.seed, MAPS)
        A = rng.standard_normal((of.columns, FOLDS))
        A = np.linalg.qr(A)[0] if of.columns >= FOLDS else A / np.sqrt(FOLDS)
        return A, rng.standard_normal((of.classes, of.dimension, FOLDS)), rng.uniform(0, 2 * np.pi, (of.classes, FOLDS))

    def read(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows [start, stop) of X, float32, and their classes, int64."""
        X = np.empty((stop - start, self.params.columns), np.float32)
        y = np.empty(stop - start, np.int64)
        for block in range(start // BLOCK_ROWS, -(-stop // BLOCK_ROWS)):
            first = block * BLOCK_ROWS
            within = slice(max(start, first) - first, min(stop, first + BLOCK_ROWS) - first)
            to = slice(first + within.start - start, first + within.stop - start)
            points, classes = self._block(block)
            X[to] = points[within]
            y[to] = classes[within]
        return X, y

    def _block(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Return all rows of one random stream, so that a row does not depend on the range that is read."""
        of, (A, B, p), rng = self.params, self._maps, block_rng(self.params.seed, POINTS, block)
        y = rng.integers(of.classes, size=BLOCK_ROWS)
        u = rng.random((BLOCK_ROWS, of.dimension))
        waves = np.empty((BLOCK_ROWS, FOLDS))
        for c in range(of.classes):
            of_class = y == c
            waves[of_class] = np.sin(u[of_class] @ B[c] + p[c])
        noise = rng.standard_normal((BLOCK_ROWS, of.columns), np.float32)
        return (waves @ A.T).astype(np.float32) + np.float32(of.noise) * noise, y


def write_manifolds(path: Path, params: ManifoldParams) -> None:
    """Write the file of their parameters, atomically."""
    with draft_of(path) as draft:
        draft.write_text(json.dumps(asdict(params), sort_keys=True), encoding="utf-8")


class ManifoldReader(Reader):
    """X and classes of the `ManifoldParams` in a JSON file."""

    format: ClassVar[str] = "manifolds"
    endings: ClassVar[tuple[str, ...]] = (".manifolds",)

    def __init__(self, path: Path, name: str, scratch: Path):
        self.path, self.name = path, name

    def _look(self) -> Scan:
        try:
            fields = json.loads(self.path.read_text(encoding="utf-8"))
            params = ManifoldParams(**fields)
        except ParameterError as error:
            what, why, fix = sentences(str(error))
            raise DataError(explain(f"{self.name}: {what}", why=why, fix=fix)) from error
        except (ValueError, TypeError) as error:
            raise DataError(explain(f"{self.name} describes no manifolds: {error}", why="it is JSON of their sizes",
                                    fix="name manifolds:POINTSxCOLUMNS, which writes such a file")) from error
        self._made = CurvedManifolds(params)
        return Scan(n_rows=params.points, n_columns=params.columns, dtype="float32", target="class",
                    row_bytes=4 * params.columns, is_made=True)

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        self.scan()
        X, y = self._made.read(start, stop)
        return Block(X, y.astype(str).astype(object) if text_target else y)
