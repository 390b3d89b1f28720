"""From rows to lists of near rows: the tasks that partition points into blocks and leaves, and search the leaves."""

from dataclasses import dataclass

import numpy as np

from ...execution.exchange.shuffle import gather, scatter
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, block_rng
from ..descent.local_joins import FIRST_AXES, nearest_in_memory
from ..exact.layout import Frame, bisect, tree_depth
from ..metric import check_block, measurable, sample_ids
from ..pair_distances import Coordinates
from .partitions import Cells, View, far_rows
from .permutation import LEAVES, Ordered, Places


def view_arrays(view: View) -> dict[str, np.ndarray]:
    """Return what `view_of` takes."""
    return {"center": view.frame.center, "basis": view.frame.basis, "leading": np.array(view.frame.leading),
            "scale": np.array(view.scale)}


def view_of(held: dict[str, np.ndarray]) -> View:
    """Return how rows are seen."""
    return View(Frame(held["center"], held["basis"], int(held["leading"])), float(held["scale"]))


def cells_of(held: dict[str, np.ndarray]) -> Cells:
    """Return the cells."""
    return Cells(held["centers"], held["leaf"])


@dataclass(frozen=True)
class SampleTask:
    """Check rows [start, stop), and write `count` of them, evenly spread, as they are measured."""

    rows: Rows
    metric: str
    start: int
    stop: int
    count: int

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.rows.read(self.start, self.stop)
        largest = check_block(block, self.start, self.metric)
        return out.write(rows=measurable(block[sample_ids(len(block), self.count)], self.metric)) | {"largest": largest}


@dataclass(frozen=True)
class RouteTask:
    """Send rows [start, stop) with their numbers to their blocks."""

    rows: Rows
    metric: str
    fitted: Arrays
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        held = self.fitted.load()
        block, cells = measurable(self.rows.read(self.start, self.stop), self.metric), cells_of(held)
        home = cells.homes(view_of(held).coordinates(block))
        counts = np.bincount(home, minlength=cells.leaves)
        return scatter(out, home, cells.leaves, rows=block, row=np.arange(self.start, self.stop)) | {
            "counts": counts.tolist()}


@dataclass(frozen=True)
class OrderTask:
    """Put the rows of a block into an order in which near ones lie together, and say where some rows lie.

    wanted : the sorted numbers of those rows; of each that lies here the part has its `wanted` and its `place`. The
    receipt counts the rows that are `far`, see `far_rows`.
    """

    routed: Parts
    writers: int
    fitted: Arrays
    held: Arrays
    wanted: Arrays
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        places, wanted = Places(**self.held.load()), self.wanted.load()["rows"]
        start, stop = places.span(self.block)
        if stop == start:
            return out.write(wanted=wanted[:0], place=wanted[:0]) | {"far": 0}
        routed = gather(self.routed, self.writers, self.block)
        seen = view_of(self.fitted.load()).coordinates(routed["rows"])
        order = bisect(np.ascontiguousarray(seen[:, :FIRST_AXES]), tree_depth(len(seen)))
        row = routed["row"][order]
        here = np.flatnonzero(np.isin(row, wanted))
        out.write(wanted=row[here], place=here + start)
        receipt = out.write_rows(start, row=places.filled(self.block, row, -1),
                                 seen=places.filled(self.block, seen, 0, order))
        far = int(far_rows(seen).sum())
        del seen
        return receipt | out.write_rows(start, rows=places.filled(self.block, routed["rows"], 0, order)) | {"far": far}


@dataclass(frozen=True)
class SpreadTask:
    """Send the coordinates of the rows of a block to every leaf that they belong to; see `Cells.members`."""

    ordered: Ordered
    fitted: Arrays
    most: int
    reach: float
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        start, stop = self.ordered.places.span(self.block)
        seen, cells = self.ordered.parts.rows("seen").read(start, stop), cells_of(self.fitted.load())
        rows, leaves, is_home = cells.members(seen, self.most, self.reach)
        counts, home = np.bincount(leaves, minlength=cells.leaves), leaves[is_home == 1]
        return scatter(out, leaves, cells.leaves, rows, seen=seen, place=np.arange(start, stop, dtype=np.int32),
                       home=home) | {"counts": counts.tolist()}


@dataclass(frozen=True)
class SearchTask:
    """Find near rows of the rows of a leaf among themselves, and send them to the blocks that own the rows."""

    ordered: Ordered
    spread: Parts
    k: int
    candidates: int
    random_state: int
    step: int
    leaf: int

    def __call__(self, out: PartWriter) -> Receipt:
        places = self.ordered.places
        members = gather(self.spread, len(places.counts), self.leaf)
        place = members["place"]
        rng = block_rng(self.random_state, LEAVES, self.step, self.leaf)
        distances, near = nearest_in_memory(Coordinates(members.pop("seen")), self.k, rng, self.candidates)
        ids = np.where(near < 0, np.int32(-1), place[near])
        del near
        # Where a row is at home its neighbors have met each other: a join of them would find nothing.
        return scatter(out, places.block(place), len(places.counts), place=place, ids=ids, distances=distances,
                       flag=(members["home"] != self.leaf).astype(np.uint8))
