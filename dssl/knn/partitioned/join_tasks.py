"""From lists of leaves to the lists of all rows: the tasks that merge lists, join across borders, measure and write."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...execution.exchange.shuffle import gather, pieces, scatter
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, block_rng
from ..descent.local_joins import choose_candidates, empty_lists, local_join, push_all, salt_of
from ..exact.blocks import points_in_blocks
from ..heap import EMPTY
from ..metric import measurable, stored_distances
from ..pair_distances import Coordinates
from ..squared_distances import candidate_distances
from .partitions import far_rows
from .permutation import JOINS, Ordered

DRAWN = 16  # new candidates, and as many others, of a row that is joined across borders
SENT = 16  # improvements that a join sends for each row of its block, or hardly more


@dataclass(frozen=True)
class MergeTask:
    """Keep the k nearest of what was found for the rows of a block, each once; tell those that are in others' lists.

    found : what `writers` tasks sent to the block: `place`, and its `ids`, `distances` and whether they are new.
    before : the lists so far, and the flags that a join left; None at first.
    truth : `place` of the sampled rows and the places of their true neighbors, `near` (q, k), of which the receipt
        counts those in the lists, `hits`.
    """

    ordered: Ordered
    found: Parts
    writers: int
    before: Parts | None
    flags: Parts | None
    truth: Arrays
    k: int
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        places = self.ordered.places
        start, stop = places.span(self.block)
        distances, ids, flags = empty_lists(stop - start, self.k)
        if self.before is not None and self.flags is not None and stop > start:
            distances, ids = (self.before.rows(name).read(start, stop) for name in ("distances", "ids"))
            flags = self.flags.rows("flags").read(start, stop)
            distances, ids, flags = distances.copy(), ids.copy(), flags.copy()
        for lists in pieces(self.found, self.writers, self.block):
            push_all(lists["place"] - start, lists["ids"], lists["distances"], lists["flag"], distances, ids, flags)
        truth = self.truth.load()
        mine = (truth["place"] >= start) & (truth["place"] < stop)
        hits = sum(int(np.isin(near, ids[place - start]).sum())
                   for place, near in zip(truth["place"][mine], truth["near"][mine], strict=True))
        if stop > start:
            out.write_rows(start, distances=places.filled(self.block, distances, np.inf),
                           ids=places.filled(self.block, ids, -1), flags=places.filled(self.block, flags, 0))
        entry = np.flatnonzero((ids >= 0) & ((ids < start) | (ids >= stop)))
        to, flag, of = ids.ravel()[entry], flags.ravel()[entry], (entry // self.k + start).astype(np.int32)
        del entry
        return scatter(out, places.block(to), len(places.counts), to=to, of=of, flag=flag) | {"hits": hits}


@dataclass(frozen=True)
class JoinTask:
    """Offer the neighbors of each row of a block to each other; send what improves a list to the block that owns it.

    most : rows that are held at a time beside those of the block. Where `SENT` improvements a row are found, what is
    left is not joined, and stays new.
    """

    ordered: Ordered
    lists: Parts
    most: int
    random_state: int
    step: int
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        places = self.ordered.places
        start, stop = places.span(self.block)
        ids, before = (self.lists.rows(name).read(start, stop) for name in ("ids", "flags"))
        flags = before.copy()
        new, old = choose_candidates(ids, flags, start, lambda: self._others(start), DRAWN,
                                     salt_of(block_rng(self.random_state, JOINS, self.step, self.block)))
        del ids
        pieces_of_lists: list[tuple[np.ndarray, ...]] = [
            (np.zeros(0, np.int32), np.zeros((0, 1), np.int32), np.zeros((0, 1), np.float32))]
        sent, most = 0, SENT * (stop - start)
        for rows, used in within(np.flatnonzero((new >= 0).any(axis=1)), [new, old], self.most):
            if sent < most:
                pieces_of_lists.append(self._joined(new[rows], old[rows], used))
                sent += len(pieces_of_lists[-1][0])
            else:
                flags[rows] = before[rows]
        del new, old
        if stop > start:
            out.write_rows(start, flags=places.filled(self.block, flags, 0))
        place, near_ids, distances = (np.concatenate(arrays) for arrays in zip(*pieces_of_lists, strict=True))
        del pieces_of_lists
        return scatter(out, places.block(place), len(places.counts), place=place, ids=near_ids, distances=distances,
                       flag=np.ones(len(place), np.uint8))

    def _others(self, start: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield what rows of other blocks have rows of this one in their lists."""
        for near in pieces(self.lists, len(self.ordered.places.counts), self.block):
            yield near["to"] - start, near["of"], near["flag"]

    def _joined(self, new: np.ndarray, old: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the rows whose lists improve, with the ids (m, 1) and the squared distances that do it."""
        seen = self.ordered.parts.rows("seen").take(used)
        distances, ids = (self.lists.rows(name).take(used) for name in ("distances", "ids"))
        flags = np.zeros(ids.shape, np.uint8)
        local_join(Coordinates(seen), used, _numbers(new, used), _numbers(old, used), distances, ids, flags)
        entry = np.flatnonzero(flags)
        return used[entry // ids.shape[1]], ids.ravel()[entry][:, None], distances.ravel()[entry][:, None]


def _numbers(ids: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Return where ids are in a sorted array that holds all but -1, which stays."""
    return np.where(ids < 0, -1, np.searchsorted(used, ids)).astype(np.int32)


def within(rows: np.ndarray, lists: list[np.ndarray], most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield runs of rows with the ids in their lists, ascending and no more than `most`, unless one row has more."""
    pending = [rows]
    while pending:
        run = pending.pop()
        used = np.unique(np.concatenate([ids[run].ravel() for ids in lists]))
        used = used[used >= 0]
        if len(used) > most and len(run) > 1:
            pending += [run[len(run) // 2:], run[:len(run) // 2]]
        elif len(run):
            yield run, used


@dataclass(frozen=True)
class MeasureTask:
    """Measure the lists of a block in float64 from the rows, and send the k nearest to the ranges that rows are in.

    Rows whose lists are shorter, for want of rows near by, are searched among all of `rows`, `fill_rows` at a time; so
    are rows that are far beyond all others (`far_rows`), where `few_far` says that there are few.
    """

    ordered: Ordered
    lists: Parts
    rows: Rows
    metric: str
    k: int
    most: int
    fill_rows: int
    range_rows: int
    few_far: bool
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        places, rows_by_place, row = self.ordered.places, self.ordered.parts.rows("rows"), self.ordered.parts.rows(
            "row")
        start, stop = places.span(self.block)
        near, of_rows = self.lists.rows("ids").read(start, stop), row.read(start, stop)
        squared, ids = np.empty((len(of_rows), self.k)), np.empty((len(of_rows), self.k), np.int64)
        for run, used in within(np.arange(len(of_rows)), [near], self.most):
            numbers = _numbers(near[run], used)
            mine = rows_by_place.read(start + int(run[0]), start + int(run[-1]) + 1)
            distances = candidate_distances(mine, rows_by_place.take(used), numbers)
            candidates = np.where(numbers < 0, EMPTY, row.take(used)[numbers])
            order = np.lexsort((candidates, distances))[:, :self.k]
            squared[run], ids[run] = (np.take_along_axis(array, order, axis=1) for array in (distances, candidates))
        filled = np.isinf(squared[:, -1])
        if self.few_far:
            filled |= far_rows(self.ordered.parts.rows("seen").read(start, stop))
        short = np.flatnonzero(filled)
        if len(short):
            mine = self.rows.take(of_rows[short])
            points = points_in_blocks(self.rows, self.metric, self.fill_rows, measurable(mine, self.metric))
            squared[short], ids[short] = points.nearest(mine, of_rows[short], self.k)
        return scatter(out, of_rows // self.range_rows, -(-len(self.rows) // self.range_rows), row=of_rows, ids=ids,
                       squared=squared) | {"filled_exactly": len(short)}


@dataclass(frozen=True)
class WriteTask:
    """Write the lists of rows [start, stop), and the rows at places [start, stop)."""

    ordered: Ordered
    measured: Parts
    start: int
    stop: int
    number: int

    def __call__(self, out: PartWriter) -> Receipt:
        places = self.ordered.places
        measured = gather(self.measured, len(places.counts), self.number)
        turn = np.argsort(measured["row"])
        distances = stored_distances(measured["squared"][turn])
        return out.write_rows(self.start, ids=measured["ids"][turn], distances=distances,
                              order=self.ordered.parts.rows("row").take(places.at(self.start, self.stop)))
