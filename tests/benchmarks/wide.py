"""Neighbors of wide embeddings: seconds of cores and recall, with the sketch on and off, beside pynndescent.

    python -m tests.benchmarks.wide search --points 2e5 --columns 1024 --dimensions 40 150
    python -m tests.benchmarks.wide coordinates --points 15000 --columns 1024 --dimensions 10 40 150

One JSON document a line. Embeddings are `tests.embeddings.hard_embeddings` of so many effective dimensions, and
`hard_pixels` for dimension 0; `--sets mnist` adds a set of $DSSL_DATA. `search` has its certificate in it and ends at a
certified `--recall`; pynndescent has none. `coordinates` compares what a search could compare rows by: the share of the
k nearest that are among the first 15 and the first 34 by the coordinates alone. It takes `pip install ".[peers]"`.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from dssl.base.errors import DataError
from dssl.execution.in_process import InProcess
from dssl.knn import projection
from dssl.knn.projection import MAX_COLUMNS, Projection, hadamard_columns
from dssl.knn.recall import certify_recall
from dssl.knn.search import NeighborParams, find_neighbors
from dssl.storage.blocks import ArrayRows, Rows, block_rng
from tests.benchmarks.partitioned import directly
from tests.embeddings import hard_embeddings, hard_pixels

WARM_ROWS, QUERIES = 3000, 300
SKETCHES = {"off": 0.0, "auto": projection.AXES_SUFFICE, "on": 2.0}  # share of neighbors by the axes that suffices


def sets_of(args: argparse.Namespace) -> Iterator[tuple[str, Rows]]:
    """Yield the sets that the arguments name."""
    n = int(args.points)
    for dimension in args.dimensions:
        X = hard_embeddings(n, args.columns, dimension) if dimension else hard_pixels(n)
        yield f"embeddings {dimension}" if dimension else "pixels", ArrayRows(X)
    for name in args.sets:
        with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as held:
            yield name, ArrayRows(held["X"][:n].astype(np.float32))


def searched(rows: Rows, method: str, args: argparse.Namespace) -> dict[str, Any]:
    """Search once; return what it took and found."""
    wall, cpu = time.perf_counter(), time.process_time()
    if method == "pynndescent":
        lists = directly(rows, args.k)
    else:
        params = NeighborParams(n_neighbors=args.k, method=method, recall=args.recall)  # type: ignore[arg-type]
        try:
            lists = find_neighbors(rows, params, InProcess(args.threads, args.budget))
        except DataError as error:
            return {"core_seconds": round(time.process_time() - cpu, 1), "refused": str(error).splitlines()[0]}
    took = {"seconds": round(time.perf_counter() - wall, 1), "core_seconds": round(time.process_time() - cpu, 1)}
    recall = lists.attributes.get("recall") or certify_recall(rows, lists)
    return {**took, "recall": round(recall["recall"], 4), "certified": round(recall["lower"], 4),
            **{key: lists.attributes[key] for key in ("searches", "effort") if key in lists.attributes}}


def search(args: argparse.Namespace) -> None:
    """Every method on every set, warm."""
    for name, rows in sets_of(args):
        first = ArrayRows(rows.read(0, min(WARM_ROWS, len(rows))))
        for method in args.methods:
            for sketch in args.sketches if method != "pynndescent" else ["none"]:
                with patch.object(projection, "AXES_SUFFICE", SKETCHES.get(sketch, 0.0)):
                    searched(first, method, args)
                    took = searched(rows, method, args)
                print(json.dumps({"set": name, "points": len(rows), "columns": rows.shape[1], "k": args.k,
                                  "method": method, "sketch": sketch, "threads": args.threads, **took}), flush=True)


def coordinates(args: argparse.Namespace) -> None:
    """What the coordinates alone rank first."""
    for name, rows in sets_of(args):
        X, rng = rows.read_all(), block_rng(0)
        queries = rng.choice(len(X), QUERIES, replace=False)
        near = nearest(X - X.mean(axis=0), queries, args.k)
        with patch.object(projection, "AXES_SUFFICE", 0.0):
            axes = Projection.of(X, rng)
        with patch.object(projection, "AXES_SUFFICE", 2.0):
            both = Projection.of(X, rng)
        alone = (X - X.mean(axis=0)) @ hadamard_columns(X.shape[1], MAX_COLUMNS, rng).astype(np.float32)
        step = np.quantile(np.abs(alone), 0.9999) / 127
        for kind, Z in (("axes and length", axes.coordinates(X)), ("axes and sketch", both.coordinates(X)),
                        ("sketch", alone), ("sketch, 8 bits", np.clip(np.rint(alone / step), -127, 127))):
            shares = {f"first_{width}": round(float(np.mean([np.isin(*pair).mean() for pair in zip(
                near, nearest(Z, queries, width), strict=True)])), 3) for width in (15, 34)}
            print(json.dumps({"set": name, "points": len(X), "columns": X.shape[1], "k": args.k, "coordinates": kind,
                              "width": Z.shape[1], **shares}), flush=True)


def nearest(X: np.ndarray, queries: np.ndarray, width: int) -> np.ndarray:
    """Return the nearest rows (q, width) of some rows."""
    squared = (X**2).sum(axis=1) - 2 * X[queries] @ X.T
    squared[np.arange(len(queries)), queries] = np.inf
    return np.argpartition(squared, width, axis=1)[:, :width]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("search", "coordinates"))
    parser.add_argument("--points", type=float, default=2e5)
    parser.add_argument("--columns", type=int, default=1024)
    parser.add_argument("--dimensions", type=int, nargs="*", default=[40, 150], help="effective ones; 0 for pixels")
    parser.add_argument("--sets", nargs="*", default=[])
    parser.add_argument("--methods", nargs="+", default=["descent", "pynndescent"])
    parser.add_argument("--sketches", nargs="+", choices=tuple(SKETCHES), default=["auto"])
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--recall", type=float, default=0.9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=int, default=8 << 30)
    args = parser.parse_args()
    {"search": search, "coordinates": coordinates}[args.what](args)


if __name__ == "__main__":
    main()
