"""The graph half of a pipeline in blocks, on made-up lists: seconds, bytes and memory of each step, a JSON line each.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.graph_blocks --points 250000 500000 1000000 --folder DIR

A step runs one task at a time, in storage. `peak` is the most that one of its tasks took, `driver` the most that this
process grew by; `read` and `written` are the bytes of files; the last line of each step tells the exponents of seconds
and bytes in the number of points. Lists reach 2,000 places around, in another order: `order` is that in which they are
near, as a search by parts has it.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dssl.base.profiler import PeakMemory, return_freed_memory
from dssl.base.units import size_of
from dssl.execution.exchange.ordered import ordered
from dssl.execution.in_process import InProcess
from dssl.execution.tasks import SHARED_CHUNK
from dssl.graph.components import find_components
from dssl.graph.energy.blocks import StoredGraph
from dssl.graph.energy.permuted_blocks import energy_blocks
from dssl.graph.health import stored_health
from dssl.graph.vertices import VertexRows, find_vertex_rows
from dssl.graph.weights.build import weigh
from dssl.graph.weights.rules import WeightParams
from dssl.knn.lists import Neighbors
from dssl.storage.blocks import ArrayRows, Rows, write_dense
from dssl.storage.store import StoredParts
from tests.knn.made_lists import made_lists

COLUMNS = 64


class Stored(InProcess):
    """One task at a time, with parts on disk."""

    def __init__(self, folder: Path, memory_budget: int):
        super().__init__(1, memory_budget)
        self.folder, self.scratches = folder, 0

    def scratch(self) -> StoredParts:
        self.scratches += 1
        return StoredParts(self.folder / f"scratch{self.scratches}")

    def share_rows(self, rows: Rows) -> Rows:
        return write_dense(rows, self.scratch(), "rows", max(1, SHARED_CHUNK // 16 // rows.row_bytes)) if (
            rows.held) else rows


def moved_bytes() -> tuple[int, int]:
    """Return the bytes that this process has read and written so far, whether a disk was asked or not."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"]), int(counters["wchar"])


def step(name: str, n: int, execution: Stored, work: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Return what the work returns, and its line."""
    execution.largest_task_bytes = None
    read, written = moved_bytes()
    begin = time.perf_counter()
    with PeakMemory() as driver:
        found = work()
    seconds, after = time.perf_counter() - begin, moved_bytes()
    line = {"step": name, "points": n, "seconds": round(seconds, 2), "read": after[0] - read,
            "written": after[1] - written, "peak": execution.largest_task_bytes, "driver": driver.bytes}
    print(json.dumps(line), flush=True)
    return found, line


def measured(n: int, k: int, budget: int, folder: Path) -> list[dict[str, Any]]:
    """Return the line of each step, of n points."""
    execution, rng, lines = Stored(folder, budget), np.random.default_rng(n), []
    order = rng.permutation(n)  # the vertex at each place
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    near = made_lists(n, k, reach=2000).to_arrays()
    lists = Neighbors.from_arrays({"ids": order[near["ids"][place]], "distances": near["distances"][place]})
    lists, order_rows = lists.shared(execution), execution.share_rows(ArrayRows(order))
    X = execution.share_rows(ArrayRows(rng.normal(size=(n, COLUMNS)).astype(np.float32)))
    del near, order, place
    weights = StoredParts(folder / "W")

    def run(name: str, work: Callable[[], Any]) -> Any:
        found, line = step(name, n, execution, work)
        lines.append(line)
        return found

    run("vertices", lambda: find_vertex_rows(X, execution, execution.scratch()))
    run("weights", lambda: weigh(lists, WeightParams(), execution, weights))
    run("health", lambda: stored_health(weights, VertexRows(None, n, n), execution, execution.scratch(),
                                        rng.choice(n, 200, replace=False), rng.integers(0, 2, 200), lists))
    run("components", lambda: find_components(weights, n, weights.receipt(0)["rows"][1], None, execution,
                                              execution.scratch()))
    blocks = run("energy", lambda: energy_blocks(StoredGraph(weights, "normalized"), n, 1 << 14, execution,
                                                 execution.scratch(), order_rows))
    run("points", lambda: ordered(X, blocks.positions, execution))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[250_000, 500_000, 1_000_000])
    parser.add_argument("--neighbors", type=int, default=10)
    parser.add_argument("--budget", default="1GiB")
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    return_freed_memory()
    by_step: dict[str, list[dict[str, Any]]] = {}
    for n in [2000, *arguments.points]:  # the first compiles
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            for line in measured(n, arguments.neighbors, size_of(arguments.budget), Path(folder)):
                if n != 2000:
                    by_step.setdefault(line["step"], []).append(line)
    for name, lines in by_step.items():
        log_n = np.log([line["points"] for line in lines])
        print(json.dumps({"step": name} | {f"exponent of {of}": round(float(np.polyfit(
            log_n, np.log([line[of] for line in lines]), 1)[0]), 3) for of in ("seconds", "read", "written")}
            if len(lines) > 1 else {"step": name}), flush=True)


if __name__ == "__main__":
    main()
