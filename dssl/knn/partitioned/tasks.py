"""Tasks that partition rows into blocks and leaves, and search the leaves for neighbors."""

from dataclasses import dataclass

import numpy as np

from ...execution.exchange.shuffle import gather, scatter
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, block_rng
from ..descent.local_joins import FIRST_AXES, nearest_in_memory
from ..exact.layout import Frame, bisect, tree_depth
from ..metric import AnyMetric, check_block, measurable, sample_ids
from ..pair_distances import Coordinates
from ..projection import Projection, outlier_rows
from .partitions import LEAVES, BlockPositions, Partition, PermutedRows


def projection_arrays(view: Projection) -> dict[str, np.ndarray]:
    """Return the arrays that `projection_of` takes."""
    return {"center": view.frame.center, "basis": view.frame.basis, "leading": np.array(view.frame.leading),
            "sketch": view.sketch, "scale": np.array(view.scale)}


def projection_of(arrays: dict[str, np.ndarray]) -> Projection:
    """Return the projection that `projection_arrays` described."""
    return Projection(Frame(arrays["center"], arrays["basis"], int(arrays["leading"])), arrays["sketch"],
                      float(arrays["scale"]))


def partition_of(arrays: dict[str, np.ndarray]) -> Partition:
    """Return the partition that tasks load."""
    return Partition(arrays["centers"], arrays["leaf"])


@dataclass(frozen=True)
class SampleTask:
    """Check rows [start, stop), and write an evenly spread sample of `count` of them, transformed by the metric."""

    rows: Rows
    metric: AnyMetric
    start: int
    stop: int
    count: int

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.rows.read(self.start, self.stop)
        largest = check_block(block, self.start, self.metric)
        return out.write(rows=measurable(block[sample_ids(len(block), self.count)], self.metric)) | {"largest": largest}


@dataclass(frozen=True)
class RouteTask:
    """Send rows [start, stop), with their numbers, to their blocks."""

    rows: Rows
    metric: AnyMetric
    fitted: Arrays
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.fitted.load()
        block, partition = measurable(self.rows.read(self.start, self.stop), self.metric), partition_of(arrays)
        home = partition.homes(projection_of(arrays).coordinates(block))
        counts = np.bincount(home, minlength=partition.leaves)
        return scatter(out, home, partition.leaves, rows=block, row=np.arange(self.start, self.stop)) | {
            "counts": counts.tolist()}


@dataclass(frozen=True)
class OrderTask:
    """Permute the rows of a block so that near rows lie together, and report the positions of some rows.

    wanted : sorted numbers of the rows to report; those in this block are written as `wanted` and `place`. The receipt
        counts the outliers of the block as `outliers`, see `outlier_rows`.
    """

    routed: Parts
    writers: int
    fitted: Arrays
    bounds: Arrays
    wanted: Arrays
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        positions, wanted = BlockPositions(**self.bounds.load()), self.wanted.load()["rows"]
        start, stop = positions.span(self.block)
        if stop == start:
            return out.write(wanted=wanted[:0], place=wanted[:0]) | {"outliers": 0}
        routed = gather(self.routed, self.writers, self.block)
        coordinates = projection_of(self.fitted.load()).coordinates(routed["rows"])
        order = bisect(np.ascontiguousarray(coordinates[:, :FIRST_AXES]), tree_depth(len(coordinates)))
        row = routed["row"][order]
        here = np.flatnonzero(np.isin(row, wanted))
        out.write(wanted=row[here], place=here + start)
        receipt = out.write_rows(start, row=positions.filled(self.block, row, -1),
                                 seen=positions.filled(self.block, coordinates, 0, order))
        outliers = int(outlier_rows(coordinates).sum())
        del coordinates
        receipt |= out.write_rows(start, rows=positions.filled(self.block, routed["rows"], 0, order))
        return receipt | {"outliers": outliers}


@dataclass(frozen=True)
class SpreadTask:
    """Send the coordinates of the rows of a block to every leaf that they belong to; see `Partition.members`."""

    ordered: PermutedRows
    fitted: Arrays
    max_leaves: int
    distance_ratio: float
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        start, stop = self.ordered.positions.span(self.block)
        coordinates, partition = self.ordered.parts.rows("seen").read(start, stop), partition_of(self.fitted.load())
        rows, leaves, is_home = partition.members(coordinates, self.max_leaves, self.distance_ratio)
        counts, home = np.bincount(leaves, minlength=partition.leaves), leaves[is_home == 1]
        return scatter(out, leaves, partition.leaves, rows, seen=coordinates, home=home,
                       place=np.arange(start, stop, dtype=np.int32)) | {"counts": counts.tolist()}


@dataclass(frozen=True)
class SearchTask:
    """Find the neighbors of the rows of a leaf within the leaf, and send them to the blocks that own the rows."""

    ordered: PermutedRows
    spread: Parts
    k: int
    candidates: int
    random_state: int
    step: int
    leaf: int

    def __call__(self, out: PartWriter) -> Receipt:
        positions = self.ordered.positions
        members = gather(self.spread, len(positions.counts), self.leaf)
        place = members["place"]
        rng = block_rng(self.random_state, LEAVES, self.step, self.leaf)
        distances, near = nearest_in_memory(Coordinates(members.pop("seen")), self.k, rng, self.candidates)
        ids = np.where(near < 0, np.int32(-1), place[near])
        del near
        # In the home leaf of a row its neighbors have been compared with each other already, so a join would find
        # nothing.
        return scatter(out, positions.block(place), len(positions.counts), place=place, ids=ids, distances=distances,
                       flag=(members["home"] != self.leaf).astype(np.uint8))
