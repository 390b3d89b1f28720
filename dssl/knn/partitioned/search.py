"""Approximate neighbors of more rows than fit one task: overlapping leaves, and joins across their borders.

    route    a task a range of rows: sends each row to its block, the home leaf of its nearest cell (`partitions.py`)
    order    a task a block: permutes its rows and their coordinates so that near rows lie together. From here on
             neighbor lists hold positions in this permutation
    spread   a task a block: sends the coordinates of each row to every leaf that it belongs to
    search   a task a leaf: finds neighbors by local joins (`local_joins.py`), and sends them to the rows' blocks
    merge    a task a block: keeps the nearest of what leaves or joins found
    join     a task a block: compares the neighbors of each row with each other, and sends improvements to their blocks
    measure  a task a block: measures the lists in float64, and sends them to the ranges that own the rows
    write    a task a range: writes the lists in the order of the rows

Merge and join are repeated until sampled rows reach the requested recall; if they do not, everything from `spread` on
is repeated with leaves that overlap more and longer lists (`rounds.py`). Then all pairs of rows are compared by their
coordinates, and at last exactly, if that takes no longer than the plan states. Leaves and borders follow
from the sample, the seed and the memory budget. No task holds more than its block and the rows near it.

Chen, Fang, Saad, "Fast approximate kNN graph construction for high dimensional data via recursive Lanczos bisection",
JMLR 10, 2009, section 3: overlap and refinement. Dong, Moses, Li, WWW 2011: local joins.
"""


import numpy as np

from ...base.digest import JsonObject, plain
from ...base.errors import DataError, require
from ...execution.tasks import Execution, Steps
from ...storage.blocks import Parts, Rows
from ..metric import AnyMetric, measured_itemsize, stored_distances
from ..recall import SAMPLE, recall_of, sampled_ids, wilson_lower
from .join_tasks import WriteTask
from .rounds import PermutedLists
from .running import Search
from .sizes import LONGEST, exact_hours, partitioned_seconds, task_sizes

MAX_OUTLIERS = 500  # outliers are searched exactly if there are no more than these


def find_partitioned(X: Rows, k: int, metric: AnyMetric, random_state: int, target: float, execution: Execution,
                     parts: Parts) -> JsonObject:
    """Write the neighbor lists of dense rows (n, d), and the permutation of the rows; return their attributes.

    target : the recall to certify.
    parts : `ids` and `distances` are allocated already, in chunks of `list_rows`; `order` (n,), the permutation, is
        allocated here.

    Raises DataError: the rows are sparse or have no distances (`check_rows`), or the search does
    not reach the recall in `LONGEST` times the seconds of its first round, as its plan states.
    BudgetError: rows that have to be searched together do not fit the memory budget.
    """
    require(not X.is_sparse, "sparse rows cannot be partitioned", error=DataError,
            why="the cells' means would be dense", fix="use the method exact, or auto")
    n, d = X.shape
    trials = min(n, SAMPLE) * k
    bound = wilson_lower(trials, trials)
    require(target <= bound, f"recall={target}, and {trials:,} neighbors of sampled rows certify at most {bound:.5f}",
            why="that is the confidence bound if all of them are found", error=DataError,
            fix="use the method exact, or ask for a lower recall")
    sizes = task_sizes(n, d, measured_itemsize(X.dtype, metric), k, execution.memory_budget)
    # The result is recorded before the parts of its steps are removed, which takes a while.
    steps, result = Steps(parts.within("search"), execution), parts.within("result")
    attributes = result.receipt_of(0) or result.finish(0, plain(
        _searched(Search(X, k, metric, random_state, execution, steps, sizes), target, parts)))
    steps.parts.remove()
    result.remove()
    recall, overlaps = attributes["recall"], " and ".join(f"{overlap:.1f}" for overlap in attributes["overlaps"])
    require(recall["lower"] >= target, f"the neighbor lists have a recall of {recall['recall']:.3f}, certified "
            f"{recall['lower']:.3f}, and recall={target} is required", error=DataError,
            why=f"each row was searched in {overlaps} leaves and joined {attributes['joins']} times, and more would "
                f"take longer than the planned {LONGEST * partitioned_seconds(X, k):.3g} seconds of one core; noise in "
                "many columns or many dense groups make partitions miss neighbors",
            fix=f"use the method exact, {exact_hours(X):.2g} hours of one core or less; or scale the columns, or ask "
                "for a lower recall")
    return attributes


def _searched(search: Search, target: float, parts: Parts) -> JsonObject:
    """Write the neighbor lists; return their attributes."""
    n = len(search.X)
    projection = search.fit_projection()
    sampled_rows = sampled_ids(n, SAMPLE, search.random_state)
    true = search.find_truth(sampled_rows).read(0)
    wanted = np.union1d(sampled_rows, true["ids"])
    ordered, positions, n_outliers = search.order(projection, wanted)
    truth = search.execution.share(place=positions[np.searchsorted(wanted, sampled_rows)],
                                   near=positions[np.searchsorted(wanted, true["ids"])])
    lists = PermutedLists(search, ordered, truth, true["ids"].size)
    lists.improve(projection, target)
    measured, filled = lists.measure(search_outliers=n_outliers <= MAX_OUTLIERS)
    parts.allocate("order", (n,), np.int64, search.sizes.range_rows)
    search.execution.map([WriteTask(ordered, measured, start, stop, number)
                          for number, (start, stop) in enumerate(search.ranges())], parts)
    is_true_neighbor = parts.rows("distances").take(sampled_rows) <= stored_distances(true["distances"])[:, -1:]
    effort = lists.seconds / partitioned_seconds(search.X, search.k)
    return {"ordered": True, "blocks": len(lists.blocks), "overlaps": lists.overlaps, "joins": lists.joins,
            "scanned": lists.is_scanned, "filled_exactly": filled, "effort": round(effort, 2),
            "recall": recall_of(is_true_neighbor, search.random_state)}
