"""The supervised family of the automatic choice: ridge regression on the labeled points in several RBF kernels.

Bandwidths are an eighth to twice the median distance of points, and one so wide that the kernel is nearly linear;
`average.py` averages the functions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from operator import itemgetter

import numpy as np

from ..base.digest import JsonObject
from ..base.types import Matrix
from ..kernels.base import RBF, median_bandwidth
from ..kernels.gram import block_row_bytes, entries_of, held_points_bytes, kernel_block
from ..kernels.points import matching_points, squared_distances
from ..storage.blocks import Rows
from ..storage.csr import point_arrays, points_of
from .average import LabelColumns, Member, fit_member
from .model import Model, coding_of, fit_attributes, register_model
from .target.coding import Coding
from .target.target import Target

KERNELS = (*product((0.125, 0.25, 0.5, 1.0, 2.0), (0.01, 0.1, 1.0)), (8.0, 0.001), (8.0, 0.01), (8.0, 0.1))
VERSION = 1


@dataclass(frozen=True, eq=False)
class LabelKernels:
    """The kernels of the family on labeled points (l, d), by squared distances, which all bandwidths share.

    between (l, l) and sampled (s, l): squared distances of labeled points, and from sampled points to them. median: the
    median distance of points. It holds 8 l (l + s + d) bytes.
    """

    points: Matrix
    between: np.ndarray
    sampled: np.ndarray
    median: float

    @classmethod
    def of(cls, rows: Rows, sample: np.ndarray, labeled: np.ndarray, random_state: int) -> "LabelKernels":
        """Return the kernels on rows (n, d), with sampled rows (s,) and labeled rows (l,)."""
        both = rows.take(np.concatenate([labeled, sample]))  # stored rows are read once
        points = both[:len(labeled)].copy()  # no view, which would keep the others
        between, sampled = (squared_distances(*matching_points(X, points)) for X in (points, both[len(labeled):]))
        return cls(points, between, sampled, median_bandwidth(rows, random_state))

    def __iter__(self) -> Iterator[tuple[float, float, np.ndarray, np.ndarray]]:
        """Yield bandwidth and penalty of each kernel, and its blocks (l, l) and (s, l)."""
        for multiple, kernels in groupby(KERNELS, key=itemgetter(0)):
            kernel = RBF(multiple * self.median)
            K, sampled = kernel.of_squared_distances(self.between), kernel.of_squared_distances(self.sampled)
            for _, penalty in kernels:
                yield kernel.bandwidth, penalty, K, sampled


@dataclass(frozen=True, eq=False)
class KernelMembers:
    """The functions of the family on labeled points (l, d), with the bandwidth of each, in the order of `KERNELS`.

    `KERNELS` lists bandwidths in median distances of points, and penalties in mean diagonals.
    """

    points: Matrix
    bandwidths: list[float]
    members: list[Member]

    @classmethod
    def of(cls, kernels: LabelKernels, target: Target, weight: np.ndarray | None, *,
           grouped: bool = False) -> "KernelMembers":
        """Return the functions of all kernels, scaled at their sampled points; grouped : see `fit_member`."""
        bandwidths, members, labels = [], [], LabelColumns(target, weight)
        for bandwidth, penalty, K, sampled in kernels:
            members.append(fit_member(K, sampled, labels, penalty, grouped=grouped))
            bandwidths.append(bandwidth)
        return cls(kernels.points, bandwidths, members)

    def average(self, shares: np.ndarray, coding: Coding,
                signed: Callable[[np.ndarray], np.ndarray]) -> "KernelSum":
        """Return the average of the members with shares (m,).

        signed : maps values (v, n_classes) to those of the coding, as `on_graph.model.signed`.
        """
        distinct = sorted(set(self.bandwidths))
        coef = np.zeros((len(distinct), *self.members[0].coef.shape))
        offset = np.zeros(coef.shape[2])
        for member, bandwidth, share in zip(self.members, self.bandwidths, shares, strict=True):
            coef[distinct.index(bandwidth)] += share / member.scale * member.coef
            offset -= share / member.scale * member.center
        return KernelSum(self.points, tuple(distinct), np.stack([signed(column) for column in coef]),
                         signed(offset[None])[0], coding)

    def described(self, shares: np.ndarray) -> list[JsonObject]:
        """Return bandwidth, penalty and share of each member; JSON."""
        return [{"bandwidth": bandwidth, "penalty": penalty, "share": float(share)} for bandwidth, (_, penalty), share
                in zip(self.bandwidths, KERNELS, shares, strict=True)]


@dataclass(frozen=True, eq=False)
class KernelSum(Model):
    """`f(x) = sum_b K_b(x, points) coef_b + offset` in RBF kernels; points (l, d), coef (b, l, c), offset (c,)."""

    points: Matrix
    bandwidths: Sequence[float]
    coef: np.ndarray
    offset: np.ndarray
    coding: Coding
    attributes: JsonObject = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        return self.points.shape[1]

    @property
    def n_columns(self) -> int:
        return len(self.offset)

    def block_values(self, X: Matrix) -> tuple[np.ndarray, np.ndarray]:
        values, squared = np.tile(self.offset, (X.shape[0], 1)), squared_distances(*matching_points(X, self.points))
        block = np.empty_like(squared)
        for bandwidth, coef in zip(self.bandwidths, self.coef, strict=True):
            if coef.any():
                values += RBF(bandwidth).of_squared_distances(squared, out=block) @ coef
        return values, np.zeros(len(values), bool)

    def shifted(self, offset: np.ndarray) -> "KernelSum":
        """Return the model plus an offset (c,)."""
        return replace(self, offset=self.offset + offset)

    def block_support(self, X: Matrix) -> np.ndarray:
        """Return the largest value of the widest kernel, (b,)."""
        return kernel_block(RBF(max(self.bandwidths)), X, self.points).max(axis=1)

    def row_bytes(self, rows: Rows) -> int:
        n_points = self.points.shape[0]  # a row of squared distances, and one of a kernel
        return block_row_bytes(RBF(1.0), rows, n_points, entries_of(self.points)) + 8 * n_points

    def fixed_bytes(self, rows: Rows) -> int:
        return held_points_bytes(rows, self.points.shape[0], entries_of(self.points))

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        return {**point_arrays("points", self.points), "coef": self.coef, "offset": self.offset}, {
            "type": "KernelSum", "version": VERSION, "bandwidths": list(self.bandwidths), "coding": self.coding.name,
            "classes": self.coding.classes.tolist(), **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "KernelSum":
        rest = fit_attributes(attributes, "KernelSum", VERSION, ("bandwidths",))
        return cls(points_of(arrays, "points"), attributes["bandwidths"], arrays["coef"], arrays["offset"],
                   coding_of(attributes), rest)


register_model("KernelSum", KernelSum)
