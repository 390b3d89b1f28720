"""From a matrix as it is given to its scaled and reordered form, in few passes over its entries."""

import numpy as np
import scipy.sparse as sp
from numba import njit

from ..base.errors import DataError, require
from ..base.types import MatrixLike
from .elimination import ascending
from .operators import ScaledMatrix


def scaled_matrix(R: MatrixLike, vector: np.ndarray | None = None) -> ScaledMatrix:
    """Return the scaled form of a symmetric matrix that is diagonally dominant after a scaling of its columns.

    R : sparse matrix, shape (n, n); `L + ridge I`, `L_norm + ridge I`, or any symmetric matrix with
        `R_ii v_i >= sum_j |R_ij| v_j`.
    vector : the v > 0 of that inequality, shape (n,): ones for L (the default), the square root of the degrees
        for L_norm. Where it holds with equality on a whole component, v spans the null space there.

    An edge that the scaling rounds to zero still joins its component.

    Raises DataError: R is not square, symmetric, finite, of positive diagonal and diagonally dominant, or the vector
    not positive.
    """
    R = sp.csr_matrix(R, dtype=np.float64)
    require(R.shape[0] == R.shape[1] > 0, f"the matrix has shape {R.shape}, expected a square one with rows",
            error=DataError, why="a linear system needs as many equations as unknowns",
            fix="pass the Laplacian of the whole graph")
    if not R.has_canonical_format or not R.data.all():
        R = R.copy()
        R.sum_duplicates()
        R.eliminate_zeros()
    v = np.ones(R.shape[0]) if vector is None else np.asarray(vector, np.float64)
    diagonal = R.diagonal()
    _check_entries(R, diagonal)
    require(v.shape == (R.shape[0],) and bool(np.isfinite(v).all()) and bool((v > 0).all()),
            f"vector has shape {v.shape} and values from {v.min():g} to {v.max():g}, expected ({R.shape[0]},) and > 0",
            error=DataError, why="it scales the columns of the matrix",
            fix="for L_norm pass the square root of the degrees, 1 for an isolated vertex; for L pass none")
    indptr, indices, scale = R.indptr.astype(np.int64), R.indices.astype(np.int32, copy=False), 1 / np.sqrt(diagonal)
    order, component = cuthill_mckee(indptr, indices)
    indptr, indices, data, whole = reordered(indptr, indices, R.data, order)
    if not whole:
        del indptr, indices, data
        difference = sp.coo_matrix(abs(R - R.T))
        relative = difference.data * scale[difference.row] * scale[difference.col]
        _check_symmetric(float(relative.max()), float(difference.data[relative.argmax()]))
        return scaled_matrix((R + R.T) / 2, v)
    scale = scale[order]
    y = v[order] / scale
    image = np.empty_like(y)
    asymmetry, difference, dominance = _scale_symmetric(indptr, indices, data, scale, y, image)
    _check_symmetric(asymmetry, difference)
    require(dominance >= -1e-8, "the matrix is not diagonally dominant: in one row the other entries exceed the "
            f"diagonal by {-dominance:.3g} of it", error=DataError,
            why="the solvers are for Laplacians of graphs with non-negative weights, with a ridge >= 0",
            fix="pass dssl.Laplacian(W).matrix(ridge); for L_norm also vector=the square root of the degrees")
    norms = np.sqrt(np.bincount(component, y * y))[component]
    near_null, image = y / norms, image / norms
    energy = np.bincount(component, near_null * image)
    energy[energy <= np.bincount(component, near_null**2 * _rounding(np.diff(indptr) + 1.0))] = 0
    image[energy[component] == 0] = 0  # it is rounding, not a tiny ridge
    return ScaledMatrix(order=order, scale=scale, indptr=indptr, indices=indices, data=data, component=component,
                        near_null=near_null, image=image, energy=energy)


def _rounding(length: np.ndarray) -> np.ndarray:
    """Return what sums of so many entries round at most, relative to the diagonal; half of it measured, and less."""
    rounding: np.ndarray = np.finfo(float).eps * (8 * np.sqrt(length) + length / 4)
    return rounding


def _check_entries(R: sp.csr_matrix, diagonal: np.ndarray) -> None:
    require(bool(np.isfinite(R.data).all()), "the matrix has entries that are not finite", error=DataError,
            why="one such weight makes every solution invalid", fix="check the graph's weights for NaN and infinity")
    bad = diagonal < 0
    require(not bad.any(), f"row {bad.argmax()} has the diagonal {diagonal[bad.argmax()]:g} ({bad.sum()} such rows), "
            "expected > 0", error=DataError, why="the matrix is not positive definite", fix="check its sign")
    bad = diagonal == 0
    require(not bad.any(), f"row {bad.argmax()} has diagonal {diagonal[bad.argmax()]:g} ({bad.sum()} such rows), "
            "expected > 0", error=DataError, why="an isolated vertex without a ridge has no equation",
            fix="add a ridge (1e-3 is usual), or drop isolated points")


def _check_symmetric(asymmetry: float, difference: float) -> None:
    """Refuse a difference from the transpose whose size relative to the roots of the diagonal is not rounding."""
    require(asymmetry <= 1e-10, f"the matrix differs from its transpose by {difference:g}",
            error=DataError, why="conjugate gradients and the kernels need a symmetric matrix",
            fix="symmetrize the weights: W.maximum(W.T) or (W + W.T) / 2")


def cuthill_mckee(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the reverse Cuthill-McKee order (n,) of a symmetric matrix, and the component of each row in it.

    indptr (n + 1,) int64 and indices int32 : of its rows. A component begins with a row of the fewest entries; of as
    many, with the first.
    """
    seeds = np.argsort(np.diff(indptr), kind="stable")
    order, component = np.empty(len(seeds), np.int64), np.full(len(seeds), -1, np.int32)
    n_components = _breadth_first(indptr, indices, seeds, order, component)
    order = order[::-1].copy()
    return order, n_components - 1 - component[order]


@njit(nogil=True, cache=True)
def _breadth_first(indptr, indices, seeds, order, component):
    """Write the order in which rows are seen, the fewest entries first among the neighbors of one, and components."""
    end, n_components, widest = 0, 0, 0
    for i in range(len(order)):
        widest = max(widest, indptr[i + 1] - indptr[i])
    seen, sizes, sequence = np.empty((3, widest), np.int64)
    for seed in seeds:
        if component[seed] >= 0:
            continue
        component[seed] = n_components
        order[end] = seed
        turn = end
        end += 1
        while turn < end:
            i = order[turn]
            turn += 1
            first = end
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if component[j] < 0:
                    component[j] = n_components
                    order[end] = j
                    end += 1
            if end - first > 1:
                for k in range(first, end):
                    seen[k - first] = order[k]
                    sizes[k - first] = indptr[order[k] + 1] - indptr[order[k]]
                ascending(sizes, end - first, sequence)
                for k in range(first, end):
                    order[k] = seen[sequence[k - first]]
        n_components += 1
    return n_components


@njit(nogil=True, cache=True)
def reordered(indptr, indices, data, order):
    """Return (indptr, indices, data) of the transpose in this order, without the diagonal, and whether they are whole.

    Each column of the matrix has as many entries off the diagonal as the row; where it does not, the transpose has no
    room for all. Rows are passed in order, so each entry finds its place sorted.
    """
    n = len(order)
    place, starts = np.empty(n, np.int32), np.zeros(n + 1, np.int64)
    for p in range(n):
        place[order[p]], count = p, 0
        for e in range(indptr[order[p]], indptr[order[p] + 1]):
            count += indices[e] != order[p]
        starts[p + 1] = starts[p] + count
    rows, values, following = np.empty(starts[n], np.int32), np.empty(starts[n]), starts[:-1].copy()
    for p in range(n):
        i = order[p]
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                q = place[indices[e]]
                k = following[q]
                if k == starts[q + 1]:
                    return starts, rows, values, False
                rows[k], values[k] = p, data[e]
                following[q] = k + 1
    return starts, rows, values, True


@njit(nogil=True, cache=True)
def _scale_symmetric(indptr, indices, data, scale, y, image):
    """Replace data by `scale_i data_ij scale_j`, write `A y` to image, and return asymmetry, difference and dominance.

    The largest difference of A from its transpose, the same before the scaling, and the smallest
    `(y_i - sum_j |A_ij| y_j) / y_i`, where the diagonal of A is 1.
    """
    asymmetry, difference, dominance, following = 0.0, 0.0, np.inf, indptr[:-1].copy()
    for i in range(len(y)):
        total, size = 0.0, 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j > i:  # a row that is not scaled yet, whose entries above have been compared
                k = following[j]
                while k < indptr[j + 1] and indices[k] < i:
                    between = abs(data[k])
                    if between * scale[j] * scale[indices[k]] > asymmetry:
                        asymmetry, difference = between * scale[j] * scale[indices[k]], between
                    k += 1
                same = k < indptr[j + 1] and indices[k] == i
                between = abs(data[e] - data[k]) if same else abs(data[e])
                following[j] = k + 1 if same else k
            else:
                between = abs(data[e]) if e >= following[i] else 0.0
            if between * scale[i] * scale[j] > asymmetry:
                asymmetry, difference = between * scale[i] * scale[j], between
            data[e] *= scale[i] * scale[j]
            total += data[e] * y[j]
            size += abs(data[e]) * y[j]
        image[i] = y[i] + total
        dominance = min(dominance, (y[i] - size) / y[i])
    return asymmetry, difference, dominance
