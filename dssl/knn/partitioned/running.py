"""A running partitioned search: its sample, projection and partitions, and the permutation of its rows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...base.errors import BudgetError, DataError, explain, require
from ...execution.steps import Steps
from ...execution.tasks import Execution
from ...execution.threads import available_cores, one_thread
from ...storage.blocks import Arrays, Parts, Receipt, Rows, block_rng, row_ranges
from ...storage.views import cached_rows
from ..metric import AnyMetric, measured_itemsize, require_squares
from ..projection import Projection
from ..recall import SAMPLE, sampled_ids, true_neighbors
from .partitions import (
    AXES,
    CELLS,
    PRODUCT_BYTES,
    SKETCH,
    BlockPositions,
    Partition,
    PermutedRows,
    cells_of,
    fit_cells,
    pack,
)
from .sizes import FILL_RATIO, Sizes, exact_hours, min_leaves, ordered_chunk_rows, sample_rows, task_sizes
from .tasks import OrderTask, RouteTask, SampleTask, projection_arrays, projection_of

GROWTH, ATTEMPTS = 1.3, 6  # factor of the number of leaves if a leaf got too many rows, and the attempts


@dataclass(frozen=True)
class Search:
    """A running search: its rows and parameters, the sizes of its tasks, and its steps.

    cells : the centers and weights of cells that have been fitted, by their number and the attempt.
    """

    X: Rows
    k: int
    metric: AnyMetric
    random_state: int
    execution: Execution
    steps: Steps
    sizes: Sizes
    cells: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, X: Rows, k: int, metric: AnyMetric, random_state: int, execution: Execution, parts: Parts) -> "Search":
        """Return a search whose steps lie within `parts`."""
        sizes = task_sizes(X, k, metric, execution.memory_budget)
        X = cached_rows(X, [sampled_ids(len(X), SAMPLE, random_state)], execution.concurrently)
        return cls(X, k, metric, random_state, execution, Steps(parts.within("search"), execution), sizes)

    @cached_property
    def certifying(self) -> np.ndarray:
        """Return the numbers of the rows whose true neighbors certify the recall, ascending."""
        return sampled_ids(len(self.X), SAMPLE, self.random_state)

    @property
    def threads(self) -> int:
        """Return the threads of this process that fit partitions, while no task runs; each takes a block of products.
        """
        return max(1, min(self.execution.threads_alone, available_cores(),
                          self.execution.memory_budget // (16 * PRODUCT_BYTES)))

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of rows that tasks read."""
        return row_ranges(len(self.X), self.sizes.range_rows)

    @cached_property
    def _sample(self) -> tuple[Parts, Receipt]:
        """Return the rows of a sample, a part a range, and the `largest` absolute value; all rows are checked."""
        n = len(self.X)
        row_bytes = self.X.shape[1] * measured_itemsize(self.X.dtype, self.metric)
        max_leaves = sample_rows(n, row_bytes, self.execution.memory_budget)
        return self.steps.map("sample", lambda step_parts: [
            SampleTask(self.X, self.metric, start, stop, -(-max_leaves * (stop - start) // n))
            for start, stop in self.ranges()], lambda receipts: {
                "largest": max(receipt["largest"] for receipt in receipts)})

    def sample(self) -> np.ndarray:
        """Return the sample (s, d), transformed by the metric."""
        sampled, _ = self._sample
        return np.concatenate([sampled.read(index)["rows"] for index in range(len(self.ranges()))])

    def check(self) -> None:
        """Draw the sample; raise DataError unless all rows have distances."""
        require_squares(self._sample[1]["largest"], self.X.dtype)

    def weighed(self, is_slower: Callable[[], bool]) -> bool:
        """Return whether an exact search is slower; a resumed run reads the recorded answer.

        is_slower : may read the `sample`; it may be called while tasks run.
        """
        def weigh(step_parts: Parts) -> Receipt:
            self.check()
            slower = self.execution.concurrently(is_slower)
            self.find_truth()  # a partitioned search needs it in any case
            return {"slower": slower()}

        return bool(self.steps.run("weighed", weigh)[1]["slower"])

    def fit_projection(self) -> Parts:
        """Return the projection as part 0, and the coordinates `seen` of the sample as part 1."""
        sampled, _ = self._sample

        def fit(step_parts: Parts) -> Receipt:
            sample = self.sample()
            with one_thread():
                projection = Projection.of(sample, block_rng(self.random_state, SKETCH))
                step_parts.write(0, projection_arrays(projection))
                step_parts.write(1, {"seen": projection.coordinates(sample)})
            return {}

        return self.steps.run("view", fit, [sampled])[0]

    def find_truth(self) -> Parts:
        """Return `distances` (q, k) and `ids` of the true neighbors of the `certifying` rows, as part 0."""
        return self._truth

    @cached_property
    def _truth(self) -> Parts:
        self.check()

        def find(step_parts: Parts) -> Receipt:
            truth = true_neighbors(self.X, self.certifying, np.full((len(self.certifying), self.k), -1), self.metric,
                                   self.execution, step_parts.within("shares"))
            step_parts.write(0, {name: truth[name] for name in ("distances", "ids")})
            return {}

        step_parts, _ = self.steps.run("true", find)
        step_parts.within("shares").remove()
        return step_parts

    def fit_partition(self, projection: Parts, leaves: int, rows: int, max_leaves: int, ratio: float, attempt: int
                      ) -> tuple[Arrays, int, float] | None:
        """Return a partition, as tasks load it, its number of leaves, and the leaves a row; None if no partition fits.

        There are `leaves` leaves or more, each of at most `rows` rows, as estimated by the sample.

        max_leaves, ratio : `max_leaves` and `distance_ratio` of `Partition.members`.
        attempt : 0 or more; each attempt divides the rows differently.
        """
        def fit(step_parts: Parts) -> Receipt:
            coordinates = projection.read(1)["seen"]
            with one_thread():
                fitted = self._fitting(coordinates, leaves, rows, max_leaves, ratio, attempt)
            if fitted is None:
                return {"leaves": 0}
            partition, overlap = fitted
            step_parts.write(0, {**projection.read(0), "centers": partition.centers, "leaf": partition.leaf})
            return {"leaves": partition.leaves, "overlap": overlap}

        step_parts, fitted = self.steps.run("partition", fit)
        return (step_parts.arrays(0), fitted["leaves"], fitted["overlap"]) if fitted["leaves"] else None

    def _fitting(self, coordinates: np.ndarray, leaves: int, rows: int, max_leaves: int, ratio: float, attempt: int
                 ) -> tuple[Partition, float] | None:
        for _ in range(ATTEMPTS):
            partition = self._partition(coordinates, leaves, attempt)
            members = np.bincount(partition.members(coordinates, max_leaves, ratio, self.threads)[1])
            largest_leaf = members.max() / len(coordinates) * len(self.X)
            if largest_leaf <= FILL_RATIO * rows or partition.leaves == 1 == leaves:
                return partition, float(members.sum() / len(coordinates))
            leaves = int(np.ceil(leaves * max(GROWTH, largest_leaf / rows)))
            if leaves > len(coordinates) // 8:
                break
        return None

    def _partition(self, coordinates: np.ndarray, n_leaves: int, attempt: int) -> Partition:
        """Return a partition into `n_leaves` leaves with nearly equal numbers of sampled rows.

        All but the first attempt bisect along random axes, which gives other leaves than the coordinate axes.
        """
        key = cells_of(n_leaves, len(coordinates)), attempt
        if key not in self.cells:  # the order of the rows, and leaves of the first round, often have the same
            self.cells[key] = fit_cells(coordinates, key[0], block_rng(self.random_state, CELLS, attempt),
                                        self.threads)
        centers, weights = self.cells[key]
        axes = block_rng(self.random_state, AXES, attempt) if attempt else None
        return Partition(centers, pack(centers, weights, min(n_leaves, len(centers)), axes))

    def order(self, projection: Parts, wanted: np.ndarray) -> tuple[PermutedRows, np.ndarray, int]:
        """Return the permuted rows, the positions of the ascending `wanted` rows, and the number of outliers."""
        leaves = max(min_leaves(len(self.X)), -(-len(self.X) // int(FILL_RATIO * self.sizes.block_rows)))
        for _ in range(ATTEMPTS):
            to_order = self.fit_partition(projection, leaves, self.sizes.block_rows, 1, 1.0, 0)
            if to_order is None:
                break
            fitted, leaves, _ = to_order
            routed, sent = self.steps.map("routed", self._routes(fitted), lambda receipts: {
                "counts": np.sum([receipt["counts"] for receipt in receipts], axis=0).tolist()})
            if max(sent["counts"]) <= self.sizes.block_rows:
                return self._ordered(projection, fitted, routed, np.array(sent["counts"]), wanted)
            routed.remove()
            leaves = int(np.ceil(leaves * GROWTH))
        raise undivided(self.sizes.block_rows, self.execution.memory_budget, self.X)

    def _routes(self, fitted: Arrays) -> Callable[[Parts], list[RouteTask]]:
        return lambda step_parts: [RouteTask(self.X, self.metric, fitted, start, stop) for start, stop in self.ranges()]

    def _ordered(self, projection: Parts, fitted: Arrays, routed: Parts, counts: np.ndarray,
                 wanted: np.ndarray) -> tuple[PermutedRows, np.ndarray, int]:
        n, d = self.X.shape
        chunk = ordered_chunk_rows(n, len(counts))
        positions = BlockPositions.of(counts, chunk)
        require(int(positions.starts[-1]) < 2**31, f"{n:,} rows", error=DataError,
                why="positions are stored in 32 bits", fix="search a sample of them")
        bounds = self.execution.share(starts=positions.starts, counts=positions.counts)
        dtype = np.dtype(np.float32 if measured_itemsize(self.X.dtype, self.metric) == 4 else np.float64)
        axes = projection_of(projection.read(0)).axes

        def tasks(place: Parts) -> list[OrderTask]:
            for name, width, array_dtype in (("rows", (d,), dtype), ("seen", (axes,), np.float32),
                                             ("row", (), np.int64)):
                place.allocate(name, (int(positions.starts[-1]), *width), array_dtype, chunk)
            shared = self.execution.share(rows=wanted)
            return [OrderTask(routed, len(self.ranges()), fitted, bounds, shared, block)
                    for block in range(len(counts))]

        parts, ordered = self.steps.map("ordered", tasks, lambda receipts: {
            "outliers": sum(receipt["outliers"] for receipt in receipts)}, [routed])
        parts_of_order = [parts.read(block) for block in range(len(counts))]
        rows, place = (np.concatenate([part[name] for part in parts_of_order]) for name in ("wanted", "place"))
        return PermutedRows(parts, bounds, chunk), place[np.argsort(rows)], ordered["outliers"]


def undivided(rows: int, budget: int, X: Rows) -> BudgetError:
    """Return the error of a search whose near rows do not fit a task."""
    return BudgetError(explain(
        f"more than {rows:,} rows lie too near each other, or too evenly, to be partitioned",
        why=f"a task of {budget:,} bytes has to search near rows together; many duplicates, or noise in many columns, "
            "leave too many of them",
        fix=f"use the method exact, {exact_hours(X):.2g} hours of one core or less; or raise memory_budget, or let "
            "duplicates collapse"))
