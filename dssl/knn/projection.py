"""Coordinates by which an approximate search compares rows: principal axes, and a sketch of what they leave.

A row x becomes its coordinates along the leading principal axes P of a sample and those of a sketch S of the rest,
S (x - P'P x), where S is a subsampled Hadamard transform with random signs: E |S y|^2 = |y|^2 for any y, with a
standard deviation of about sqrt(2 / m) |y|^2 for m columns. So the sketch errs only on what the axes leave, and
finds more neighbors than either projection to as many columns. Where the axes suffice, the length of the rest is one
column in place of the sketch. Candidates are measured exactly after the search.

Ailon, Chazelle, "The fast Johnson-Lindenstrauss transform", SIAM J. Comput. 39, 2009; Tropp, "Improved analysis of the
subsampled randomized Hadamard transform", Adv. Adapt. Data Anal. 3, 2011.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..storage.blocks import row_ranges
from .exact.layout import MAX_AXES, SAMPLE_ROWS, Frame, principal_frame, project
from .metric import sample_ids

NEAR_SAMPLE, NEAR_ROWS = 256, 32  # rows of a sample whose nearest neighbors are searched, and rows of one product
NEAR, NEAR_CANDIDATES, AXES_SUFFICE = 10, 15, 0.9  # share of the 10 nearest that must be among the 15 by the axes
SKETCH_COLUMNS = 64
MAX_COLUMNS = MAX_AXES + SKETCH_COLUMNS
OUTLIER_RATIO = 16.0  # times the distance from the median that nine in ten rows keep; rows beyond do not enter the axes
OUTLIER_LENGTH = 1024.0  # where the length of the farthest usual row is 1/2 to 1: (1024 + x)^2 is known to x = 6e-5
MAX_LENGTH = 1e15  # upper bound of a coordinate, where the farthest usual row has 1: squares fit float32
BLOCK_ROWS = 1024


@dataclass(frozen=True)
class Projection:
    """A projection of rows to coordinates (n, a) float32: principal axes, and a sketch or the length of the rest.

    sketch : (d, s) float32, orthogonal to the axes; s = 0 where the length suffices.
    scale : times which rows are taken, so that the farthest usual row has a length of 1/2 to 1.
    listed : the share of the `NEAR` nearest rows of sampled rows that are among the first `NEAR_CANDIDATES` by the axes
        and the length; 1 where there are at most `MAX_COLUMNS` columns.
    """

    frame: Frame
    sketch: np.ndarray
    scale: float
    listed: float = 1.0

    @classmethod
    def of(cls, sample: np.ndarray, rng: np.random.Generator) -> "Projection":
        """Return the projection to the principal axes of a sample (m, d) of rows, and the sketch if it is needed.

        The axes also explain the differences between near rows, since the search compares near rows by them. (In
        clusters whose centers hold most of the variance, the leading axes alone may miss a tenth of the distances
        within a cluster.) Outliers are dropped first: they would dominate the center, the axes and the scale.

        There is a sketch if `listed` is below `AXES_SUFFICE`.
        """
        usual = sample[sample_ids(len(sample), SAMPLE_ROWS)]
        usual = usual[_usual(usual)]
        queries = sample_ids(len(usual), NEAR_SAMPLE)
        nearest, directions = _nearest_in_sample(usual, queries)
        frame = principal_frame(usual, directions)
        d = len(frame.center)
        projection = cls(frame, np.zeros((d, 0), np.float32), project(usual, frame).scale)
        if d <= MAX_COLUMNS:
            return projection
        projection = replace(projection, listed=projection._listed(usual, queries, nearest))
        if projection.listed >= AXES_SUFFICE:
            return projection
        basis, columns = frame.basis, hadamard_columns(d, SKETCH_COLUMNS, rng)
        return replace(projection, sketch=(columns - basis @ (basis.T @ columns)).astype(np.float32))

    @property
    def axes(self) -> int:
        """Return the number of coordinates."""
        return self.frame.basis.shape[1] + max(1, self.sketch.shape[1])

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Return the coordinates (n, a) of rows (n, d); float32 products suffice, since candidates are measured later.

        Rows so far away that their squares would overflow are clipped.
        """
        center, m, s = self.frame.center, self.frame.basis.shape[1], self.sketch.shape[1]
        columns = np.concatenate([self.frame.basis.astype(np.float32), self.sketch], axis=1)
        coordinates = np.empty((len(rows), self.axes), np.float32)
        for start, stop in row_ranges(len(rows), BLOCK_ROWS):
            centered = (rows[start:stop] - center) * self.scale
            np.clip(centered, -MAX_LENGTH, MAX_LENGTH, out=centered)
            coordinates[start:stop, :m + s] = centered.astype(np.float32) @ columns
            if s == 0:
                projected = coordinates[start:stop, :m].astype(np.float64)
                residual = np.einsum("ij,ij->i", centered, centered) - np.einsum("ij,ij->i", projected, projected)
                coordinates[start:stop, m] = np.sqrt(np.maximum(residual, 0)) if m < len(center) else 0
        return coordinates

    def _listed(self, sample: np.ndarray, queries: np.ndarray, nearest: np.ndarray) -> float:
        """Return the share of the nearest rows (q, w) of sampled rows that are among the first by coordinates."""
        coordinates = self.coordinates(sample).astype(np.float64)
        first, _ = _nearest_in_sample(coordinates, queries, NEAR_CANDIDATES)
        return float(np.mean([np.isin(near, candidates).mean() for near, candidates in
                              zip(nearest, first, strict=True)]))


def hadamard_columns(d: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return a sketch (d, count) of d columns: of the Hadamard matrix of order 2^p >= d with random signs of its rows.

    Entry (i, j) of the Hadamard matrix is -1 to the number of bits that i and j share. The columns are drawn without
    replacement, and scaled so that E |x S|^2 = |x|^2.
    """
    order = 1 << (d - 1).bit_length()
    drawn = rng.choice(order, count, replace=False)
    signs = rng.choice([-1.0, 1.0], d)
    shared_bits = np.bitwise_count(np.arange(d)[:, None] & drawn)
    return signs[:, None] * np.where(shared_bits % 2, -1.0, 1.0) / np.sqrt(count)


def max_coordinates(d: int) -> int:
    """Return an upper bound of the number of coordinates of rows with d columns."""
    return MAX_COLUMNS if d > MAX_COLUMNS else min(d, MAX_AXES) + 1


def projection_bytes(m: int, d: int) -> int:
    """Return the bytes of fitting the projection of a sample (m, d), beside the sample: copies of it, and its axes.

    The axes take eigenvectors, LAPACK work space and QR factors; the factor 52 was measured at d from 1500 to 8000.
    """
    return 24 * m * d + 52 * min(m, d) * d


def _usual(sample: np.ndarray) -> np.ndarray:
    """Return which rows (m, d) of a sample are no outliers: see `OUTLIER_RATIO`."""
    middle, squared = np.median(sample, axis=0).astype(np.float64), np.empty(len(sample))
    for start, stop in row_ranges(len(sample), BLOCK_ROWS):
        centered = sample[start:stop] - middle
        squared[start:stop] = np.einsum("ij,ij->i", centered, centered)
    limit = OUTLIER_RATIO**2 * np.quantile(squared, 0.9)
    return squared <= (limit if limit > 0 else np.inf)


def _nearest_in_sample(sample: np.ndarray, queries: np.ndarray, count: int = NEAR) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest rows (q, count) of some rows of a sample, and the unit directions (q, d) to the nearest.

    The direction to a duplicate is 0. Fewer rows are returned from a sample with fewer.
    """
    nearest, directions = [], []
    centered = sample - sample.mean(axis=0, dtype=np.float64)
    norms = np.einsum("ij,ij->i", centered, centered)
    count = min(count, len(sample) - 1)
    for start, stop in row_ranges(len(queries), NEAR_ROWS):
        block_ids = queries[start:stop]
        squared = norms - 2 * (centered[block_ids] @ centered.T)
        squared[np.arange(len(block_ids)), block_ids] = np.inf
        nearest.append(np.argpartition(squared, max(count - 1, 0), axis=1)[:, :count])
        difference = centered[squared.argmin(axis=1)] - centered[block_ids]
        length = np.sqrt(np.einsum("ij,ij->i", difference, difference))[:, None]
        directions.append(difference / np.where(length > 0, length, 1))
    return np.concatenate(nearest), np.concatenate(directions)


def outlier_rows(coordinates: np.ndarray) -> np.ndarray:
    """Return which rows of coordinates (n, a) are outliers, whose neighbors float32 cannot tell apart."""
    return np.einsum("ij,ij->i", coordinates, coordinates, dtype=np.float64) > OUTLIER_LENGTH**2
