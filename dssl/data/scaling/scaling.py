"""Scaling of features, fitted on the training rows only, and the automatic choice of a scaling, "auto".

If the ranges of at least three quarters of the columns lie within a factor of three, the columns are in one unit, like
pixels and embeddings, and stay unscaled. Otherwise they are standardized, or divided by their largest absolute values
if the rows are sparse. Columns of encoded text, and other columns of 0 and 1 among numbers, are scaled by the distance
of their levels instead (`outliers.py`); if these might be pixels, by one factor of at most 1.

The moments of the columns (`moments.py`) give one shift and one factor per column. The first pass over the rows also
samples some to find outliers (`outliers.py`). If there are any, a second pass computes moments and ranges without
them, and values are clipped wherever rows are scaled. Sparse rows allow only scalings that keep zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from ...base.digest import JsonObject
from ...base.errors import DataError, column_label, require
from ...base.types import Matrix, MatrixLike
from ...execution.tasks import Execution, Share
from ...storage.blocks import Arrays, HeldArrays, Rows, rows_that_fit
from ...storage.csr import as_csr, unit_rows, with_values
from .drift import Usual
from .moments import fit_moments
from .out_of_range import LARGEST_BLOCK, Ranges
from .outliers import (
    Reaches,
    columns_of_category,
    farthest_levels,
    near_distance,
    outliers_of,
    ratio_of_ranges,
    sampled_rows,
    zero_one_columns,
)

ScalingKind = Literal["auto", "standardize", "unit_range", "max_abs", "unit_norm", "global_range", "none"]
KINDS: tuple[ScalingKind, ...] = get_args(ScalingKind)
SCALED_CHUNK = 16 << 20  # bytes of scaled rows in one chunk


@dataclass(frozen=True, kw_only=True)
class ScalingParams:
    """How features are scaled.

    kind : "auto" follows from the ranges of the columns (see `scaling.py`); "standardize" gives each column mean 0 and
        standard deviation 1; "unit_range" maps each column to [0, 1]; "max_abs" gives each column the largest absolute
        value 1; "unit_norm" gives each row length 1; "global_range" divides all columns by one number, as in pixels /
        255; "none" changes nothing. "standardize" and "unit_range" move zeros, so sparse rows cannot use them.
    """

    kind: ScalingKind = "auto"

    def __post_init__(self) -> None:
        require(self.kind in KINDS, f"scale={self.kind!r}", why="there is no scaling of that name",
                fix=f"use one of {', '.join(KINDS)}")


@dataclass(frozen=True, kw_only=True)
class Unscaled(ScalingParams):
    """Features as they are, for a metric that asks for no common unit of columns, as that of codes or shares."""

    kind: ScalingKind = "none"


KEEPS_ZEROS = ("max_abs", "unit_norm", "global_range", "none")
ONE_UNIT = 3.0  # maximum of the largest range over the lower quartile, for columns in one unit
APART = 1.4  # distance of the levels of a category, in distances to near neighbors
MAX_LISTED = 100  # constant columns of sparse rows that are named

@dataclass(frozen=True)
class Scaling:
    """A fitted scaling: columns become (x - shift) * factor, or rows get length 1.

    kind : "auto" if columns of 0 and 1 are scaled separately from the numbers, otherwise the kind that it chose.
    shift, factor : ndarray, shape (d,), float64; both empty if the kind does not need them.
    lower, upper : ndarray, shape (d,), float64: values are clipped to them first; empty if no training row has an
        outlier, or the kind does not need it.
    attributes : the number of training rows, of zero rows, and of constant columns with their names. "auto" adds
        `ranges`, the largest range over the lower quartile; how `numbers` are scaled; the number of columns that are
        `categories`; the `level_distance` of two levels of a category; and `narrow_columns`, columns that are much
        narrower than the others of their unit. `outliers` is there if a cell is an outlier.
    seen : the ranges of the training rows, if it was fitted here; not part of its arrays.
    """

    kind: ScalingKind
    shift: np.ndarray
    factor: np.ndarray
    attributes: JsonObject
    seen: Ranges | None = None
    lower: np.ndarray = field(default_factory=lambda: np.empty(0))
    upper: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def keeps_zeros(self) -> bool:
        """Return whether sparse rows stay sparse."""
        return self.kind in KEEPS_ZEROS

    def transform(self, block: MatrixLike) -> Matrix:
        """Return a scaled block of rows, in float32 if the block has that precision or less, else in float64.

        A sparse block stays sparse if the kind keeps zeros, and becomes an array otherwise.
        """
        X: Any = block if sparse.issparse(block) else np.asarray(block)
        width = self.attributes["n_columns"]
        require_columns(X.shape, width)
        dtype = np.result_type(X.dtype, np.float32)
        if sparse.issparse(X):
            return self._transform_sparse(as_csr(X), dtype) if self.keeps_zeros else self.transform(X.toarray())
        if self.kind == "unit_norm":
            return unit_rows(X.astype(np.float64, copy=False)).astype(dtype)
        if self.kind == "none":
            return np.clip(X, self.lower, self.upper).astype(dtype) if self.cuts else X.astype(dtype, copy=False)
        Z = X - self.shift
        if self.cuts:
            np.clip(Z, self.lower - self.shift, self.upper - self.shift, out=Z)
        Z *= self.factor
        return Z.astype(dtype)

    @property
    def cuts(self) -> bool:
        """Return whether values are clipped."""
        return len(self.lower) > 0

    def _transform_sparse(self, X: sparse.csr_array, dtype: np.dtype) -> sparse.csr_array:
        if self.kind == "unit_norm":
            X = unit_rows(X)
        elif self.kind != "none":
            X = with_values(X, X.data * self.factor[X.indices])
        return with_values(X, X.data.astype(dtype, copy=False))

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        """Return named arrays and JSON attributes, read by `from_arrays`."""
        arrays = {name: getattr(self, name) for name in ("shift", "factor", "lower", "upper")}
        return arrays, {"kind": self.kind, **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "Scaling":
        """Return the scaling that `to_arrays` described."""
        described = {name: value for name, value in attributes.items() if name != "kind"}
        return cls(ScalingParams(kind=attributes["kind"]).kind, arrays["shift"], arrays["factor"], described, None,
                   arrays["lower"], arrays["upper"])


def require_columns(shape: tuple[int, ...], width: int) -> None:
    """Raise DataError unless rows have the columns that a scaling was fitted on."""
    require(len(shape) == 2 and shape[1] == width, f"the block has shape {shape}, expected (rows, {width})",
            why="the scaling was fitted on that many columns", fix="pass the same features", error=DataError)


def require_zeros_stay(kind: ScalingKind, n: int, d: int) -> None:
    """Raise DataError if a scaling of sparse rows (n, d) would move their zeros."""
    require(kind in (*KEEPS_ZEROS, "auto"), f"scaling {kind!r} of sparse rows ({n} x {d})", error=DataError,
            why=f"it moves zeros, so every row would store all {d} columns",
            fix="set `data.scale` (scale=) to auto, unit_norm, max_abs, global_range or none; or, if all columns fit "
                "into memory, read the file as dense rows: `read: {sparse: false}`")


def fit_scaling(rows: Rows, ids: Rows | None, params: ScalingParams, execution: Execution, *,
                feature_names: list[str] | None = None, categories: np.ndarray | None = None,
                chosen: bool = False, largest_block: int = LARGEST_BLOCK) -> Scaling:
    """Return the scaling of the training rows; see `fit_scalings`.

    chosen : whether labels selected the kind. Values are never clipped if the user asks for "none".
    """
    return fit_scalings(rows, ids, (params.kind,), execution, feature_names=feature_names, categories=categories,
                        cuts=chosen or params.kind != "none", largest_block=largest_block)[params.kind]


def fit_scalings(rows: Rows, ids: Rows | None, kinds: Sequence[ScalingKind], execution: Execution, *,
                 feature_names: list[str] | None = None, categories: np.ndarray | None = None,
                 cuts: bool = True, largest_block: int = LARGEST_BLOCK) -> dict[ScalingKind, Scaling]:
    """Return scalings of the training rows by kind, from one pass over them, or two if there are outliers.

    rows : shape (n, d). ids : ascending numbers of the training rows; None for all.
    feature_names : names of the columns, for the attributes. categories : which columns encode text, (d,) bool.
    cuts : whether outliers are clipped and recorded. largest_block : bytes, in float64.

    A task needs 24 d bytes per row: the block in float64, its deviations and their squares; for sparse rows 5 times the
    row, plus 80 d. "auto" reads up to 1,000 rows in this process if there are categories.
    """
    n, d = rows.shape
    require(n > 0 and (ids is None or len(ids) > 0), "no training rows to fit the scaling on", error=DataError,
            why="it follows from their means and ranges", fix="check the split into training and test points")
    first = 0 if ids is None else int(ids.read(0, 1)[0])
    last = 0 if ids is None else int(ids.read(len(ids) - 1, len(ids))[0])
    require(first >= 0 and last < n, f"training rows from {first} to {last}", why=f"there are {n} rows",
            fix="choose the rows from this data set", error=DataError)
    if rows.is_sparse:
        for kind in kinds:
            require_zeros_stay(kind, n, d)
    moments = fit_moments(rows, ids, execution, largest_block)
    smallest, largest = moments["smallest"], moments["largest"]
    infinite = [column_label(feature_names, j) for j in np.flatnonzero(np.isinf(smallest) | np.isinf(largest)).tolist()]
    require(not infinite, f"{', '.join(infinite[:5])} {'holds' if len(infinite) == 1 else 'hold'} infinite values",
            why="they have no distances, and clipping them would hide that", error=DataError,
            fix="drop these rows, or fill the values")
    made: dict[ScalingKind, Scaling] = {}
    sample = None if rows.is_sparse else moments.pop("sample")
    reaches = None if sample is None else Reaches.of(sample)
    if cuts and reaches is not None and reaches.exceeded(smallest, largest):
        moments = fit_moments(rows, ids, execution, largest_block, reaches)
    max_listed = MAX_LISTED if rows.is_sparse else d
    usual = None if sample is None else Usual.of(sample, moments["smallest"], moments["largest"])
    seen = Ranges(smallest, largest, int(moments["count"]), usual)
    for kind in kinds:
        made[kind] = _scaling_of(kind, moments, feature_names, max_listed) if kind != "auto" else _by_ranges(
            moments, rows, ids, np.zeros(d, bool) if categories is None else categories, feature_names, max_listed)
    made = {kind: replace(scaling, seen=seen) for kind, scaling in made.items()}
    if "auto" in made and reaches is not None and reaches.narrow:
        made["auto"].attributes["narrow_columns"] = reaches.narrow
    if reaches is None or "n_outlier_cells" not in moments:
        return made
    return {kind: _cut(scaling, reaches, moments) for kind, scaling in made.items()}


def _cut(scaling: Scaling, reaches: Reaches, moments: Share) -> Scaling:
    """Return a scaling that clips outliers and records them."""
    attributes = {**scaling.attributes, "outliers": outliers_of(moments)}
    if scaling.kind == "unit_norm":
        return replace(scaling, attributes=attributes)
    lower, upper = reaches.bounds(moments["smallest"], moments["largest"],
                                  shared=scaling.kind in ("none", "global_range"))
    return replace(scaling, attributes=attributes, lower=lower, upper=upper)


def _by_ranges(moments: Share, rows: Rows, ids: Rows | None, categories: np.ndarray, feature_names: list[str] | None,
               max_listed: int) -> Scaling:
    """Return the scaling "auto"; categories (d,) bool."""
    scaled = _scaling_of("max_abs" if rows.is_sparse else "standardize", moments, feature_names, max_listed)
    ranges = ratio_of_ranges((moments["largest"] - moments["smallest"])[~categories])
    has_one_unit = ranges <= ONE_UNIT
    attributes = {**scaled.attributes, "ranges": ranges}
    varies = scaled.factor > 0
    flags = varies & (categories | zero_one_columns(moments))
    if rows.is_sparse or not flags.any() or not (varies & ~flags).any():
        unscaled = _scaling_of("none", moments, feature_names, max_listed)
        return replace(unscaled if has_one_unit else scaled, attributes=attributes)
    factor, shift = (np.ones_like(scaled.factor), np.zeros_like(scaled.shift)) if has_one_unit else (
        scaled.factor.copy(), scaled.shift.copy())
    numbers = varies & ~flags
    cells = sampled_rows(rows, ids, varies)
    sample = (cells[:, numbers[varies]] - shift[numbers]) * factor[numbers]
    usual = float(np.median(factor[numbers] / scaled.factor[numbers]))  # the standard deviation of a scaled number
    lowers_flags = bool(categories.any()) or not has_one_unit  # otherwise they may be pixels, like the numbers
    near = APART * near_distance(sample, len(rows) if ids is None else len(ids))
    if not lowers_flags and near >= np.sqrt(2):
        return replace(_scaling_of("none", moments, feature_names, max_listed), attributes=attributes)
    apart = np.full(int(flags.sum()), near)
    alone = np.zeros(int(flags.sum()), bool)
    if lowers_flags:
        columns = columns_of_category(cells[:, flags[varies]])
        apart = np.minimum(near, usual * farthest_levels(columns))
        alone = columns == 1
    factor[flags] = np.where(alone, apart, apart / np.sqrt(2))
    shift[flags] = 0.0
    return Scaling("auto", shift, factor, {
        **attributes, "numbers": "none" if has_one_unit else "standardize", "categories": int(flags.sum()),
        "level_distance": float(apart.max())})


def _scaling_of(kind: ScalingKind, moments: Share, feature_names: list[str] | None, max_listed: int) -> Scaling:
    """Return the scaling of a kind from moments; max_listed : the maximum number of constant columns to name."""
    smallest = moments["smallest"]
    largest = moments["largest"]
    d = len(smallest)
    shift = np.zeros(d)
    with np.errstate(over="ignore"):
        spread = largest - smallest
    constant = np.flatnonzero(spread == 0)
    if kind == "standardize":
        shift = moments["mean"]
        spread = np.where(spread > 0, np.sqrt(moments["squares"] / moments["count"]), 0)
    elif kind == "unit_range":
        shift = smallest
    elif kind == "max_abs":
        spread = np.maximum(np.abs(smallest), np.abs(largest))
    elif kind == "global_range":
        spread = np.full(d, max(abs(float(smallest.min())), abs(float(largest.max()))))
    attributes = {"n_columns": d, "n_training_rows": int(moments["count"]), "zero_rows": int(moments["zero_rows"]),
                  "constant_columns": len(constant),
                  "constant_column_names": [_name(feature_names, int(j)) for j in constant[:max_listed]]}
    if kind == "none":
        return Scaling(kind, np.empty(0), np.empty(0), attributes)
    wild = [column_label(feature_names, j) for j in np.flatnonzero(~np.isfinite(spread))[:1].tolist()]
    require(not wild, f"{''.join(wild)} spreads beyond float64", fix="leave it out, or rescale it",
            why="its squared deviation from the mean is infinite", error=DataError)
    with np.errstate(divide="ignore", over="ignore"):
        factor = np.where(spread > 0, 1 / spread, 0)
    factor[~np.isfinite(factor)] = 0  # a spread below 1e-308 is no spread
    if kind == "unit_norm":
        return Scaling(kind, np.empty(0), np.empty(0), attributes)
    return Scaling(kind, shift, factor, attributes)


def _name(feature_names: list[str] | None, column: int) -> str:
    return feature_names[column] if feature_names else f"column {column}"


class ScaledRows(Rows):
    """Rows that are scaled each time they are read.

    execution : tasks of this execution load the arrays of the scaling instead of carrying them.
    """

    def __init__(self, rows: Rows, scaling: Scaling, execution: Execution | None = None):
        arrays, _ = scaling.to_arrays()
        self._arrays: Arrays = execution.share(**arrays) if execution else HeldArrays(**arrays)
        self.rows = rows
        self.kind = scaling.kind
        self.shape = rows.shape
        self.dtype = np.result_type(rows.dtype, np.float32)
        self.is_sparse = rows.is_sparse and scaling.keeps_zeros

    @property
    def scaling(self) -> Scaling:
        return Scaling.from_arrays(self._arrays.load(), {"kind": self.kind, "n_columns": self.shape[1]})

    @property
    def row_bytes(self) -> int:
        if not self.is_sparse:
            return super().row_bytes
        entry = self.rows.dtype.itemsize + 4
        scaled_entry = self.dtype.itemsize + 4
        return -(-(self.rows.row_bytes - 8) * scaled_entry // entry) + 8

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.scaling.transform(self.rows.read(start, stop))

    def take(self, ids: np.ndarray) -> np.ndarray:
        return self.scaling.transform(self.rows.take(ids))


def scaled(rows: Rows, scaling: Scaling, execution: Execution) -> Rows:
    """Return scaled rows, readable by every task; the rows themselves if the scaling changes nothing."""
    require_columns(rows.shape, scaling.attributes["n_columns"])
    rows = execution.share_rows(rows)
    unchanged = scaling.kind == "none" and not scaling.cuts and rows.dtype.kind == "f"
    return rows if unchanged else ScaledRows(rows, scaling, execution)


def scaled_rows(n: int, row_bytes: int, chunk: int, budget: int) -> int:
    """Return the number of rows that one task scales; it reads chunks of `chunk` rows one at a time, and writes one."""
    beside_chunks = rows_that_fit(budget, row_bytes, n, fixed_bytes=2 * chunk * row_bytes)
    return min(beside_chunks, rows_that_fit(budget, 6 * row_bytes, n), max(1, SCALED_CHUNK // row_bytes))
