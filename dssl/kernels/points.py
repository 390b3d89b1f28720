"""Dense or sparse points of kernels, and their pairwise distances and inner products."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import DTypeLike
from scipy import sparse
from scipy.spatial.distance import cdist

from ..base.errors import DataError, require
from ..base.types import Matrix, MatrixLike
from ..storage.blocks import row_ranges
from ..storage.csr import absolute_sums, as_csr, overlaps, products, squared_lengths, with_values

FEW_VALUES = 1 << 18  # of a block, up to which NumPy is as fast as compiled code is loaded
VALUES_AT_ONCE = 1 << 10  # of these, with an array beside them


def as_points(X: MatrixLike, dtype: DTypeLike = np.float64) -> Matrix:
    """Return `X` as points of type `dtype`, shape (n, d), sparse if `X` is; input of that type is not copied."""
    points: Any = as_csr(X) if sparse.issparse(X) else np.asarray(X)
    require(points.ndim == 2 and points.dtype.kind in "biuf",
            f"points have shape {points.shape} and dtype {points.dtype}, expected two dimensions of numbers",
            error=DataError, why="a kernel compares points, and a point is one row of numbers",
            fix="pass an array of shape (n_points, n_features); X[None, :] makes one point of a vector")
    if sparse.issparse(points):
        return with_values(points, points.data.astype(dtype, copy=False))
    return np.ascontiguousarray(points, dtype)


def require_finite(points: Matrix, what: str) -> None:
    """Raise DataError saying that `what` ("the points hold") NaN or infinite values, if points (n, d) have any."""
    values = points.data if sparse.issparse(points) else points
    require(bool(np.isfinite(values).all()), f"{what} NaN or infinite values", error=DataError,
            why="no distance, mean or kernel value of such a point is a number", fix="drop or impute these rows first")


def matching_points(X: MatrixLike, Z: MatrixLike, dtype: DTypeLike = np.float64) -> tuple[Matrix, Matrix]:
    """Return both sets as points of type `dtype`, both sparse if one of them is; the same object twice if X is Z."""
    points = as_points(X, dtype)
    others = points if X is Z else as_points(Z, dtype)
    require(points.shape[1] == others.shape[1], f"X has {points.shape[1]} features and Z has {others.shape[1]}",
            error=DataError, why="a kernel compares their features",
            fix="pass points with the features used in training")
    if sparse.issparse(points) != sparse.issparse(others):
        return as_csr(points), as_csr(others)
    return points, others


def squared_distances(X: Matrix, Z: Matrix) -> np.ndarray:
    """Return |x_i - z_j|^2, shape (n, m), by one matrix product; symmetric with zero diagonal if X is Z.

    Dense points are centered at the mean of Z first, so the absolute error is about 1e-16 times the squared distance
    of the points from that mean. Sparse rows are not centered: with e entries in the longest row the absolute error is
    below (e + 3) 2^-52 (|x|^2 + |z|^2). All sums run in the order of the columns, so the distance of equal rows is
    exactly 0.
    """
    if sparse.issparse(X):
        block = products(X, Z)
        lengths = squared_lengths(X)
        _squared_from_products(block, lengths, lengths if X is Z else squared_lengths(Z))
        return block
    center = Z.mean(0) if len(Z) else 0.0
    Zc = Z - center
    Xc = Zc if X is Z else X - center
    block = Xc @ Zc.T
    _squared_from_products(block, np.einsum("ij,ij->i", Xc, Xc), np.einsum("ij,ij->i", Zc, Zc))
    if X is Z:
        np.fill_diagonal(block, 0.0)
    return block


def _squared_from_products(block: np.ndarray, xx: np.ndarray, zz: np.ndarray) -> None:
    """Turn x_i . z_j into |x_i|^2 + |z_j|^2 - 2 x_i . z_j in place, clipped at 0 against cancellation."""
    if block.size > FEW_VALUES:
        _compiled_squares(block, xx, zz)
        return
    for start, stop in row_ranges(len(block), max(1, VALUES_AT_ONCE // max(1, block.shape[1]))):
        part = block[start:stop]
        part *= -2.0
        part += xx[start:stop, None] + zz
        np.maximum(part, 0.0, out=part)


@njit(nogil=True, cache=True)
def _compiled_squares(block, xx, zz):
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            value = (xx[i] + zz[j]) - 2.0 * block[i, j]
            block[i, j] = 0.0 if value < 0.0 else value


def city_block_distances(X: Matrix, Z: Matrix) -> np.ndarray:
    """Return the sum over columns of |x_ic - z_jc|, shape (n, m).

    For sparse rows the absolute error is below (e + 3) 2^-52 (|x|_1 + |z|_1) with e entries in the longest row, and the
    distance of equal rows is exactly 0.
    """
    if not sparse.issparse(X):
        return cdist(X, Z, "cityblock")
    block = overlaps(X, Z)
    np.subtract(absolute_sums(X)[:, None] + absolute_sums(Z), block, out=block)
    return np.maximum(block, 0, out=block)


def dot_products(X: Matrix, Z: Matrix) -> np.ndarray:
    """Return x_i . z_j, shape (n, m)."""
    return products(X, Z) if sparse.issparse(X) else X @ Z.T


def squared_norms(X: MatrixLike) -> np.ndarray:
    """Return |x_i|^2, shape (n,)."""
    points = as_points(X)
    return squared_lengths(points) if sparse.issparse(points) else np.einsum("ij,ij->i", points, points)
