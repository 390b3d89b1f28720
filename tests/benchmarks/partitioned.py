"""Partitioned neighbors against NN-descent called directly and exact search: recall, CPU seconds, bytes, growth.

    python -m tests.benchmarks.partitioned sets                    recall and seconds of each method on each set
    python -m tests.benchmarks.partitioned growth --points ...     exponents of seconds and of bytes
    python -m tests.benchmarks.partitioned budget --points 2e6 --budget 64MiB
    python -m tests.benchmarks.partitioned cluster --points 1e6 --workers 2 --memory 4GiB

One JSON document a line. CPU seconds are of this process and its children, all threads; compilation is left out by a
search of a few rows before. Sets are of $DSSL_DATA, or made: `manifold` (10 of dimension 10 in 64 columns),
`mixture` (200 normal clouds in 64 columns).
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from dask.utils import parse_bytes
from distributed import Client, LocalCluster

from dssl.base.units import MEMORY_BUDGET
from dssl.data.readers.manifolds import BLOCK_ROWS, CurvedManifolds, ManifoldParams
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.execution.tasks import Execution
from dssl.knn.lists import Neighbors
from dssl.knn.recall import certify_recall
from dssl.knn.search import NeighborParams, find_neighbors
from dssl.storage.blocks import ArrayRows, Rows, block_rng, write_dense
from dssl.storage.store import StoredParts
from dssl.storage.views import take_by_chunk

WARM_ROWS, CHUNK = 3000, 1 << 14
SETS = ("covtype", "mnist", "mnist_vae", "manifold", "mixture")


def mixture(n: int, d: int = 64, clouds: int = 200) -> np.ndarray:
    """Return rows (n, d) of normal clouds around normal centers."""
    rng = block_rng(0, 1)
    centers = 2 * rng.standard_normal((clouds, d), np.float32)
    return centers[rng.integers(clouds, size=n)] + rng.standard_normal((n, d), np.float32)


class ManifoldRows(Rows):
    """X of curved manifolds, computed each time it is read."""

    chunk_rows = BLOCK_ROWS

    def __init__(self, params: ManifoldParams):
        self.made = CurvedManifolds(params)
        self.shape = (params.points, params.columns)
        self.dtype = np.dtype(np.float32)

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.made.read(start, min(stop, self.shape[0]))[0]

    def take(self, ids: np.ndarray) -> np.ndarray:
        return take_by_chunk(self, ids, BLOCK_ROWS)


def rows_of(name: str, n: int | None) -> Rows:
    """Return the rows of a set, or the first n."""
    if name == "manifold":
        return ManifoldRows(ManifoldParams(points=n or 200_000))
    if name == "mixture":
        return ArrayRows(mixture(n or 200_000))
    with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as held:
        return ArrayRows(held["X"][:n].astype(np.float32))


def directly(rows: Rows, k: int) -> Neighbors:
    """Return the lists of pynndescent, which count the row itself."""
    from pynndescent import NNDescent

    X = rows.read_all()
    ids, distances = NNDescent(X, n_neighbors=k + 1, random_state=0).neighbor_graph
    return Neighbors.from_arrays({"ids": ids[:, 1:].astype(np.int64), "distances": distances[:, 1:]},
                                 {"method": "pynndescent"})


def search(method: str, rows: Rows, k: int, execution: Execution, folder: str | None) -> Neighbors:
    """Return the lists of one method, in a folder if there is one."""
    if method == "pynndescent":
        return directly(rows, k)
    parts = StoredParts(Path(folder) / "lists") if folder else None
    return find_neighbors(rows, NeighborParams(n_neighbors=k, method=method), execution, parts)  # type: ignore[arg-type]


class Counted(InProcess):
    """Adds up what tasks of each name take."""

    def __init__(self, threads: int, memory_budget: int) -> None:
        super().__init__(threads, memory_budget)
        self.steps: dict[str, dict[str, float]] = {}

    def map(self, tasks: Any, parts: Any, *follow: Any) -> Any:
        before, self.largest_task_bytes, begin = self.largest_task_bytes, None, time.process_time()
        receipts = super().map(tasks, parts, *follow)
        step = self.steps.setdefault(type(tasks[0]).__name__, {"tasks": 0, "cpu_seconds": 0.0, "peak_mb": 0.0})
        step["tasks"] += len(tasks)
        step["cpu_seconds"] = round(step["cpu_seconds"] + time.process_time() - begin, 2)
        step["peak_mb"] = round(max(step["peak_mb"], (self.largest_task_bytes or 0) / 1e6), 1)
        self.largest_task_bytes = max(before or 0, self.largest_task_bytes or 0)
        return receipts


def written(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextmanager
def stored(rows: Rows, here: str) -> Iterator[Rows]:
    """Yield the rows as they lie on disk."""
    with tempfile.TemporaryDirectory(dir=here) as folder:
        yield write_dense(rows, StoredParts(folder), "rows", CHUNK)


def measure(name: str, rows: Rows, method: str, args: argparse.Namespace,
            stored_in: str | None = None) -> dict[str, Any]:
    """Search once, warm; return what it took and found."""
    search(method, ArrayRows(rows.read(0, min(WARM_ROWS, len(rows)))), args.k, InProcess(args.threads), None)
    execution = Counted(args.threads, args.budget)
    wall, cpu = time.perf_counter(), time.process_time()
    lists = search(method, rows, args.k, execution, stored_in)
    took = {"seconds": round(time.perf_counter() - wall, 2), "cpu_seconds": round(time.process_time() - cpu, 2)}
    recall = lists.attributes.get("recall") or certify_recall(rows, lists)
    return {"set": name, "points": len(rows), "columns": rows.shape[1], "method": method, "threads": args.threads,
            "budget": args.budget, **took, "recall": round(recall["recall"], 4), "certified": round(recall["lower"], 4),
            **{key: lists.attributes[key] for key in ("blocks", "overlaps", "joins") if key in lists.attributes},
            "largest_task": execution.largest_task_bytes, "steps": execution.steps}


def sets(args: argparse.Namespace) -> None:
    """Every method on every set."""
    for name in args.sets:
        rows = ArrayRows(rows_of(name, args.points and int(args.points[0])).read_all())
        for method in args.methods:
            print(json.dumps(measure(name, rows, method, args)), flush=True)


def growth(args: argparse.Namespace) -> None:
    """A partitioned search of stored rows, of more and more points: the exponents of seconds and of bytes."""
    found = []
    for n in args.points:
        with stored(rows_of("manifold", int(n)), args.folder) as rows, \
                tempfile.TemporaryDirectory(dir=args.folder) as folder:
            execution_folder = Path(folder)
            found.append(measure("manifold", rows, "partitioned", args, folder)
                         | {"list_bytes": written(execution_folder)})
        print(json.dumps(found[-1]), flush=True)
    if len(found) > 1:
        print(json.dumps({f"exponent_of_{name}": round(float(np.polyfit(
            *np.log([[own["points"], own[name]] for own in found]).T, 1)[0]), 3)
            for name in ("cpu_seconds", "list_bytes")}), flush=True)


def cluster(args: argparse.Namespace) -> None:
    """A partitioned search of stored rows by processes of a limited memory."""
    n = int(args.points[0])
    with LocalCluster(n_workers=args.workers, threads_per_worker=1, memory_limit=args.memory,
                      dashboard_address=None) as processes, Client(processes) as client, \
            stored(rows_of("manifold", n), args.folder) as rows, \
            tempfile.TemporaryDirectory(dir=args.folder) as folder:
        execution = OnDask(client)
        execution.scratch_folder = folder
        begin = time.perf_counter()
        lists = search("partitioned", rows, args.k, execution, folder)
        seconds = round(time.perf_counter() - begin, 1)
        print(json.dumps({"set": "manifold", "points": n, "workers": args.workers, "memory": args.memory,
                          "budget": execution.memory_budget, "seconds": seconds,
                          "largest_task": execution.largest_task_bytes,
                          **{key: lists.attributes[key] for key in ("blocks", "overlaps", "joins", "recall")}}),
              flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sets", "growth", "budget", "cluster"))
    parser.add_argument("--points", nargs="+", type=float)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--methods", nargs="+", default=["partitioned", "pynndescent", "exact"])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=parse_bytes, default=MEMORY_BUDGET)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="4GiB")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where rows and lists are stored")
    args = parser.parse_args()
    {"sets": sets, "growth": growth, "budget": growth, "cluster": cluster}[args.what](args)


if __name__ == "__main__":
    main()
