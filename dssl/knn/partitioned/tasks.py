"""Tasks of a partitioned search: on rows and their way to blocks, on leaves, and on joins across their borders."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...execution.exchange.shuffle import gather, pieces, scatter
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, block_rng
from ..descent.local_joins import (
    FIRST_AXES,
    choose_candidates,
    empty_neighbor_lists,
    local_join,
    nearest_in_memory,
    push_candidates,
    salt_of,
)
from ..exact.blocks import points_in_blocks
from ..exact.layout import Frame, bisect, tree_depth
from ..metric import AnyMetric, check_block, measurable, sample_ids, stored_distances
from ..pair_distances import Coordinates
from ..projection import Projection, outlier_rows
from ..squared_distances import EMPTY, candidate_distances
from .partitions import JOINS, LEAVES, BlockPositions, Partition, PermutedRows


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


# ---- joins


DRAWN = 16  # new, and as many old, candidates of a row in a join across borders
FILL_SAMPLE = 2048  # rows of a sample for the axes of an exact search
SENT = 16  # improvements a row of a block after which a join stops; the last run may send a few more


@dataclass(frozen=True)
class MergeTask:
    """Merge candidates into the k nearest of each row of a block, and send reverse neighbors to other blocks.

    candidates : what `writers` tasks sent to the block: positions `place`, with `ids`, `distances` and flags.
    lists_before, flags : the neighbor lists so far, of at most k entries, and the flags after the last join; None at
        first.
    truth : positions `place` of the sampled rows and those of their true neighbors, `near` (q, k). The receipt counts
        the true neighbors in the lists as `hits`.
    """

    ordered: PermutedRows
    candidates: Parts
    writers: int
    lists_before: Parts | None
    flags: Parts | None
    truth: Arrays
    k: int
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        positions = self.ordered.positions
        start, stop = positions.span(self.block)
        distances, ids, flags = empty_neighbor_lists(stop - start, self.k)
        if self.lists_before is not None and self.flags is not None and stop > start:
            before = [*(self.lists_before.rows(name).read(start, stop) for name in ("distances", "ids")),
                      self.flags.rows("flags").read(start, stop)]
            # The entries that a list gains are infinitely far, so in descending order it is a heap again.
            order = np.argsort(-before[0], axis=1, kind="stable")
            width = self.k - order.shape[1]
            for array, old in zip((distances, ids, flags), before, strict=True):
                array[:, width:] = np.take_along_axis(old, order, axis=1)
        for lists in pieces(self.candidates, self.writers, self.block):
            push_candidates(lists["place"] - start, lists["ids"], lists["distances"], lists["flag"], distances, ids,
                            flags)
        truth = self.truth.load()
        sampled_here = (truth["place"] >= start) & (truth["place"] < stop)
        hits = sum(int(np.isin(near, ids[position - start]).sum())
                   for position, near in zip(truth["place"][sampled_here], truth["near"][sampled_here], strict=True))
        if stop > start:
            out.write_rows(start, distances=positions.filled(self.block, distances, np.inf),
                           ids=positions.filled(self.block, ids, -1), flags=positions.filled(self.block, flags, 0))
        entry = np.flatnonzero((ids >= 0) & ((ids < start) | (ids >= stop)))
        targets = ids.ravel()[entry]
        sources = (entry // self.k + start).astype(np.int32)
        entry_flags = flags.ravel()[entry]
        del entry
        return scatter(out, positions.block(targets), len(positions.counts), to=targets, of=sources,
                       flag=entry_flags) | {"hits": hits}


@dataclass(frozen=True)
class JoinTask:
    """Join the neighbors of each row of a block, and send each improvement to the block that owns the list.

    max_nearby_rows : rows in memory at a time beside those of the block. After `SENT` improvements a row the remaining
        candidates are not joined, and stay new.
    """

    ordered: PermutedRows
    lists: Parts
    max_nearby_rows: int
    random_state: int
    step: int
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        positions = self.ordered.positions
        start, stop = positions.span(self.block)
        ids, old_flags = (self.lists.rows(name).read(start, stop) for name in ("ids", "flags"))
        flags = old_flags.copy()
        new, old = choose_candidates(ids, flags, start, lambda: self._others(start), DRAWN,
                                     salt_of(block_rng(self.random_state, JOINS, self.step, self.block)))
        del ids
        improvements: list[tuple[np.ndarray, ...]] = [
            (np.zeros(0, np.int32), np.zeros((0, 1), np.int32), np.zeros((0, 1), np.float32))]
        sent, max_sent = 0, SENT * (stop - start)
        for rows, used in within(np.flatnonzero((new >= 0).any(axis=1)), [new, old], self.max_nearby_rows):
            if sent < max_sent:
                improvements.append(self._joined(new[rows], old[rows], used))
                sent += len(improvements[-1][0])
            else:
                flags[rows] = old_flags[rows]
        del new, old
        if stop > start:
            out.write_rows(start, flags=positions.filled(self.block, flags, 0))
        targets, near_ids, distances = (np.concatenate(arrays) for arrays in zip(*improvements, strict=True))
        del improvements
        return scatter(out, positions.block(targets), len(positions.counts), place=targets, ids=near_ids,
                       distances=distances, flag=np.ones(len(targets), np.uint8))

    def _others(self, start: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the reverse neighbors of rows of this block that lie in other blocks."""
        for near in pieces(self.lists, len(self.ordered.positions.counts), self.block):
            yield near["to"] - start, near["of"], near["flag"]

    def _joined(self, new: np.ndarray, old: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the rows whose lists improve, with the ids (m, 1) and squared distances of the improvements."""
        coordinates = self.ordered.parts.rows("seen").take(used)
        distances, ids = (self.lists.rows(name).take(used) for name in ("distances", "ids"))
        flags = np.zeros(ids.shape, np.uint8)
        local_join(Coordinates(coordinates), used, numbers_of(new, used), numbers_of(old, used), distances, ids, flags)
        entry = np.flatnonzero(flags)
        return used[entry // ids.shape[1]], ids.ravel()[entry][:, None], distances.ravel()[entry][:, None]


def numbers_of(ids: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Return the indices of ids in a sorted array that holds them; -1 stays -1."""
    return np.where(ids < 0, -1, np.searchsorted(used, ids)).astype(np.int32)


def within(rows: np.ndarray, lists: list[np.ndarray], max_rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield runs of rows with the ascending ids in their lists: at most `max_rows`, unless a single row has more."""
    pending = [rows]
    while pending:
        run = pending.pop()
        used = np.unique(np.concatenate([ids[run].ravel() for ids in lists]))
        used = used[used >= 0]
        if len(used) > max_rows and len(run) > 1:
            pending += [run[len(run) // 2:], run[:len(run) // 2]]
        elif len(run):
            yield run, used


@dataclass(frozen=True)
class MeasureTask:
    """Measure the lists of a block in float64, and send the k nearest neighbors to the ranges that own the rows.

    Rows with fewer than k candidates are searched among all of `rows`, `fill_rows` at a time. So are outliers
    (`outlier_rows`) if `search_outliers` says that there are few, and all rows if there are no `lists`.
    """

    ordered: PermutedRows
    lists: Parts | None
    rows: Rows
    metric: AnyMetric
    k: int
    max_nearby_rows: int
    fill_rows: int
    range_rows: int
    search_outliers: bool
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        positions, row = self.ordered.positions, self.ordered.parts.rows("row")
        start, stop = positions.span(self.block)
        of_rows = row.read(start, stop)
        squared, ids = np.empty((len(of_rows), self.k)), np.empty((len(of_rows), self.k), np.int64)
        if self.lists is None:
            short = np.arange(len(of_rows))
        else:
            self._measure(self.lists, start, stop, squared, ids)
            filled = np.isinf(squared[:, -1])
            if self.search_outliers:
                filled |= outlier_rows(self.ordered.parts.rows("seen").read(start, stop))
            short = np.flatnonzero(filled)
        for first in range(0, len(short), self.fill_rows):
            run = short[first:first + self.fill_rows]
            queries = self.rows.take(of_rows[run])
            sample = measurable(queries[sample_ids(len(run), FILL_SAMPLE)], self.metric)
            points = points_in_blocks(self.rows, self.metric, self.fill_rows, sample)
            squared[run], ids[run] = points.nearest(queries, of_rows[run], self.k)
        return scatter(out, of_rows // self.range_rows, -(-len(self.rows) // self.range_rows), row=of_rows, ids=ids,
                       squared=squared) | {"filled_exactly": len(short)}

    def _measure(self, lists: Parts, start: int, stop: int, squared: np.ndarray, ids: np.ndarray) -> None:
        """Write the k nearest of the listed candidates of rows at positions [start, stop)."""
        rows, row = self.ordered.parts.rows("rows"), self.ordered.parts.rows("row")
        near = lists.rows("ids").read(start, stop)
        for run, used in within(np.arange(len(near)), [near], self.max_nearby_rows):
            numbers = numbers_of(near[run], used)
            rows_here = rows.read(start + int(run[0]), start + int(run[-1]) + 1)
            distances = candidate_distances(rows_here, rows.take(used), numbers)
            candidates = np.where(numbers < 0, EMPTY, row.take(used)[numbers])
            order = np.lexsort((candidates, distances))[:, :self.k]
            squared[run], ids[run] = (np.take_along_axis(array, order, axis=1) for array in (distances, candidates))


@dataclass(frozen=True)
class WriteTask:
    """Write the neighbor lists of rows [start, stop), and the rows at permuted positions [start, stop)."""

    ordered: PermutedRows
    measured: Parts
    start: int
    stop: int
    number: int

    def __call__(self, out: PartWriter) -> Receipt:
        positions = self.ordered.positions
        measured = gather(self.measured, len(positions.counts), self.number)
        order = np.argsort(measured["row"])
        distances = stored_distances(measured["squared"][order])
        return out.write_rows(self.start, ids=measured["ids"][order], distances=distances,
                              order=self.ordered.parts.rows("row").take(positions.at(self.start, self.stop)))
