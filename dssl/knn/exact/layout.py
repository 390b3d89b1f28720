"""The layout of points for a search: rotated to principal axes, and permuted so that near rows lie together.

A rotation preserves distances. With P the projection to the leading m axes and r_x = |x - P'Px| the residual length,

    |x - z|^2 >= |Px - Pz|^2 + (r_x - r_z)^2,

so a few columns rule out nearly all pairs, and the data columns are read for the remaining ones alone. The permutation
is a recursive bisection at the median along the axis of the largest variance: a balanced tree whose nodes are ranges of
consecutive rows, each with a bounding box.
"""

from dataclasses import dataclass, fields

import numpy as np
from numba import njit

LEAF_ROWS = 32
FEW_ROWS = 4096
BOX_AXES = 16
SAMPLE_ROWS, MEDIAN_ROWS = 8192, 1024
MAX_LEADING, MAX_FURTHER = 62, 130
MAX_AXES = MAX_LEADING + MAX_FURTHER
FAR = 1e15  # in units of the longest point: coordinates of queries are cut there, whose squares float32 holds
ALL_AXES = 0.8  # of the columns: to multiply the others too takes less than to compare rows by them
LEADING_SHARE, ALL_SHARE = 0.86, 0.97  # of the variance; measured on MNIST: 62 leading axes, 130 further ones


@dataclass(frozen=True)
class Frame:
    """A coordinate frame: `center` (d,) and orthonormal `basis` (d, m + e), whose first m axes are the leading ones."""

    center: np.ndarray
    basis: np.ndarray
    leading: int

    def without_further(self) -> "Frame":
        """Return the frame of the leading axes alone."""
        return Frame(self.center, np.ascontiguousarray(self.basis[:, :self.leading]), self.leading)


@dataclass(frozen=True)
class Coordinates:
    """Coordinates of rows in a frame.

    lead : (n, m + 2) float32; leading coordinates, residual length, and -norm / 2, all times `scale` (the last times
        its square). Queries have 1 in place of -norm / 2.
    further : (n, e + 1) float32; coordinates along the next e axes, and their residual length, times `scale`.
    norm : (n,) float64; squared distance from the center, times the square of `scale`.
    scale : power of two that brings the longest of the points to a length in [1/2, 1], so float32 cannot overflow.
    """

    lead: np.ndarray
    further: np.ndarray
    norm: np.ndarray
    scale: float


@dataclass(frozen=True)
class Layout(Coordinates):
    """Permuted rows with the bounding boxes of their tree.

    ids : (n,) int64; the permutation: the number of each row.
    rows : (n, d); the rows in their own dtype.
    low, high : (nodes, b) float32; bounding box of each node of the tree along the first b columns of `lead`. Node 0
        holds all rows, and node i has the children 2i + 1 and 2i + 2.
    center, basis : the frame; m follows from the width of `lead`.
    """

    ids: np.ndarray
    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray
    center: np.ndarray
    basis: np.ndarray

    def __post_init__(self) -> None:
        """Make all arrays read-only, as those of a file are, so that Numba compiles the searches for one type."""
        for field in fields(self):
            if isinstance(array := getattr(self, field.name), np.ndarray):
                view = array.view()
                view.flags.writeable = False
                object.__setattr__(self, field.name, view)

    @property
    def frame(self) -> Frame:
        """Return the frame of the coordinates."""
        return Frame(self.center, self.basis, self.lead.shape[1] - 2)


def layout_bytes(n_rows: int, n_columns: int, itemsize: int) -> int:
    """Return an upper bound of the bytes of a layout: n (d itemsize + 4 (m + e + 3) + 16 + 32 b / LEAF_ROWS)."""
    axes = min(n_columns, MAX_AXES) + 3
    return n_rows * (n_columns * itemsize + 4 * axes + 16 + 8 * BOX_AXES * 4 // LEAF_ROWS)


def median_row(rows: np.ndarray) -> np.ndarray:
    """Return the medians (d,) of the columns of about `MEDIAN_ROWS` of some rows (n, d), in float64."""
    median: np.ndarray = np.median(rows[::max(1, len(rows) // MEDIAN_ROWS)], axis=0).astype(np.float64)
    return median


def principal_frame(sample: np.ndarray, differences: np.ndarray | None = None, *, exact: bool = False) -> Frame:
    """Return a center and the leading principal axes of a sample (n_s, d); any sample gives a valid frame.

    There are 30 to `MAX_LEADING` leading axes, which explain `LEADING_SHARE` of the variance, and up to `MAX_FURTHER`
    further axes, which explain `ALL_SHARE` of it, and of `differences` (m, d) if given.

    exact : whether it is for the exact search: the center is a median, so that a far row does not take all others from
        where float32 is precise; and all axes are leading ones if those are `ALL_AXES` of them, and all `MAX_LEADING`
        at most.
    """
    center = median_row(sample) if exact else sample.mean(axis=0, dtype=np.float64)
    centered = sample - center
    d = sample.shape[1]
    if d <= len(sample):
        values, basis = np.linalg.eigh(centered.T @ centered)
    else:
        values, eigenvectors = np.linalg.eigh(centered @ centered.T)
        basis = centered.T @ eigenvectors
    order = np.argsort(values)[::-1]
    share = np.cumsum(np.maximum(values[order], 0))
    max_axes = min(d, len(order))
    leading = int(np.searchsorted(share, LEADING_SHARE * share[-1])) + 1
    leading = min(max_axes, MAX_LEADING, max(leading, 30))
    if exact and ALL_AXES * d <= leading and d <= MAX_LEADING:
        leading = max_axes
    further = int(np.searchsorted(share, ALL_SHARE * share[-1])) + 1 - leading
    if differences is not None:
        lengths = np.cumsum(((differences @ np.linalg.qr(basis[:, order])[0]) ** 2).sum(axis=0))
        further = max(further, int(np.searchsorted(lengths, ALL_SHARE * lengths[-1])) + 1 - leading)
    further = min(max_axes - leading, MAX_FURTHER, max(further, 0))
    # The QR step keeps the basis orthonormal where the sample has a lower rank than it has axes.
    basis, _ = np.linalg.qr(basis[:, order[:leading + further]])
    return Frame(center, np.ascontiguousarray(basis), leading)


def project(rows: np.ndarray, frame: Frame, scale: float | None = None) -> Coordinates:
    """Return the coordinates of points (which determine the scale), or of queries (with the scale of the points)."""
    leading, axes = frame.leading, frame.basis.shape[1]
    all_axes, norm = np.empty((len(rows), axes)), np.empty(len(rows))
    for start in range(0, len(rows), 1024):
        centered = rows[start:start + 1024].astype(np.float64)
        centered -= frame.center
        block = slice(start, start + len(centered))
        all_axes[block] = centered @ frame.basis
        norm[block] = np.einsum("ij,ij->i", centered, centered)
    of_points = scale is None
    if scale is None:
        # Of numbers whose squares are below the least normal one no scale is known; `check_rows` refuses them.
        scale = float(2.0 ** -np.ceil(np.log2(np.sqrt(norm.max())))) if norm.max() > 1e-300 else 1.0
    all_axes *= scale
    norm *= scale**2
    lead = np.empty((len(rows), leading + 2), np.float32)
    further = np.empty((len(rows), axes - leading + 1), np.float32)
    # Cut coordinates are nearer to all points, so that bounds of trees and boxes hold; tiles, which take the true norm,
    # allow for 2^-21 of it, and are cut short by 1e-15 of it at most.
    near = all_axes if of_points else np.clip(all_axes, -FAR, FAR)
    lead[:, :leading], further[:, :-1] = near[:, :leading], near[:, leading:]
    rest = norm - np.einsum("ij,ij->i", all_axes[:, :leading], all_axes[:, :leading])
    # With all axes the residual is zero, and its computed value is rounding alone.
    lead[:, leading] = np.minimum(np.sqrt(np.maximum(rest, 0)), FAR) if leading < len(frame.center) else 0
    rest -= np.einsum("ij,ij->i", all_axes[:, leading:], all_axes[:, leading:])
    further[:, -1] = np.minimum(np.sqrt(np.maximum(rest, 0)), FAR) if axes < len(frame.center) else 0
    lead[:, leading + 1] = -norm / 2 if of_points else 1
    return Coordinates(lead, further, norm, scale)


def tree_depth(n_rows: int) -> int:
    """Return the number of bisections that leave about `LEAF_ROWS` rows in a leaf."""
    return max(0, int(np.ceil(np.log2(max(n_rows, 1) / LEAF_ROWS))))


def level_bounds(n_rows: int, level: int) -> np.ndarray:
    """Return the starts of the 2^level nodes of a level, and the end of the last; the next level halves each node."""
    bounds = np.array([0, n_rows])
    for _ in range(level):
        finer = np.empty(2 * len(bounds) - 1, np.int64)
        finer[::2] = bounds
        finer[1::2] = bounds[:-1] + (bounds[1:] - bounds[:-1]) // 2
        bounds = finer
    return bounds


@njit(nogil=True, cache=True)
def _select(keys, order, start, stop, middle):
    """Move the smallest keys of order[start:stop] before `middle` (quickselect by key, then row number)."""
    left, right = start, stop - 1
    while left < right:
        pivot_row = order[(left + right) // 2]
        pivot = keys[pivot_row]
        i, j = left, right
        while i <= j:
            while keys[order[i]] < pivot or (keys[order[i]] == pivot and order[i] < pivot_row):
                i += 1
            while keys[order[j]] > pivot or (keys[order[j]] == pivot and order[j] > pivot_row):
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@njit(nogil=True, cache=True)
def bisect(lead, depth):
    """Return the permutation (n,) of rows by recursive bisection at the median of the widest axis, `depth` times."""
    n, axes = lead.shape
    order = np.arange(n)
    keys = np.empty(n, np.float32)
    bounds = np.zeros(2, np.int64)
    bounds[1] = n
    for _ in range(depth):
        finer = np.empty(2 * bounds.shape[0] - 1, np.int64)
        for part in range(bounds.shape[0] - 1):
            start, stop = bounds[part], bounds[part + 1]
            middle = start + (stop - start) // 2
            finer[2 * part], finer[2 * part + 1] = start, middle
            step = max(1, (stop - start) // 128)
            widest, axis = -1.0, 0
            for column in range(axes):
                total, square, count = 0.0, 0.0, 0
                origin = np.float64(lead[order[start], column])
                for position in range(start, stop, step):
                    value = np.float64(lead[order[position], column]) - origin
                    total += value
                    square += value * value
                    count += 1
                spread = square / count - (total / count) ** 2
                if spread > widest:
                    widest, axis = spread, column
            for position in range(start, stop):
                keys[order[position]] = lead[order[position], axis]
            if stop - start > 1:
                _select(keys, order, start, stop, middle)
        finer[finer.shape[0] - 1] = n
        bounds = finer
    return order


def node_boxes(lead: np.ndarray, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper corner (nodes, b) of every node's box, from the leaves up; `lead` (n, b) in order."""
    starts = level_bounds(len(lead), depth)[:-1]
    low, high = [np.minimum.reduceat(lead, starts)], [np.maximum.reduceat(lead, starts)]
    for _ in range(depth):
        low.append(np.minimum(low[-1][::2], low[-1][1::2]))
        high.append(np.maximum(high[-1][::2], high[-1][1::2]))
    return np.concatenate(low[::-1]), np.concatenate(high[::-1])


def lay_out(rows: np.ndarray, ids: np.ndarray, frame: Frame) -> Layout:
    """Return the layout of rows (n, d) with numbers `ids`; takes about its own size again while it is made."""
    seen, depth, axes = project(rows, frame), tree_depth(len(rows)), frame.leading + 1
    # Few rows are searched by tiles, which slabs suit: no bisection is compiled for them.
    order = bisect(seen.lead[:, :axes], depth) if len(rows) > FEW_ROWS else np.argsort(seen.lead[:, 0], kind="stable")
    lead = seen.lead[order]
    low, high = node_boxes(lead[:, :min(BOX_AXES, axes)], depth)
    return Layout(lead, seen.further[order], seen.norm[order], seen.scale, np.asarray(ids, np.int64)[order],
                  np.ascontiguousarray(rows[order]), low, high, frame.center, frame.basis)
