"""A run to which 1 % of new rows come: seconds by stage grown and of a fresh run, and how far the predictions agree.

    python -m tests.benchmarks.growing [POINTS] [KIND ...]

Points of curved manifolds in 64 columns, 200,000 of them by default, lie in ten Parquet files; the new rows are an
eleventh. 20 labels a class are given, the same to both runs; the search is exact where `--exact` is given. Kinds are
graph (Laplace learning), ridge and laprls by default. Prints JSON lines: one a stage, and one of the whole, with the
share of all rows that are predicted alike and the largest difference of their probabilities.
"""

import json
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dssl.data.readers.manifolds import CurvedManifolds, ManifoldParams
from dssl.execution.in_process import InProcess
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run

COLUMNS, FILES, SHARE, LABELS, WORKERS = 64, 10, 0.01, 20, 2
KINDS: dict[str, dict[str, Any]] = {
    "graph": {"model": {"kind": "graph", "learner": "laplace"}}, "ridge": {"model": {"kind": "ridge"}},
    "laprls": {"model": {"kind": "laprls", "landmarks": {"n_landmarks": 1000}}}}


def write_files(folder: Path, points: int) -> int:
    """Write the files of `points` old rows and of the new ones; return how many these are."""
    new = max(1, round(SHARE * points))
    X, y = CurvedManifolds(ManifoldParams(points=points + new, columns=COLUMNS)).read(0, points + new)
    shown = np.zeros(len(y), bool)
    for label in np.unique(y):
        shown[np.flatnonzero(y[:points] == label)[:LABELS]] = True
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(COLUMNS)]).assign(y=np.where(shown, y, np.nan))
    edges = [*np.linspace(0, points, FILES + 1).astype(int).tolist(), points + new]
    for number, (start, stop) in enumerate(pairwise(edges)):
        table[start:stop].to_parquet(folder / f"{'old' if stop <= points else 'new'}-{number}.parquet", index=False)
    return new


def compared(grown: RunResult, fresh: RunResult) -> dict[str, float]:
    """Return how far two tables of predictions agree."""
    one, other = (pd.read_parquet(own.predictions) for own in (grown, fresh))
    sure = [name for name in ("probability", "score") if name in one]
    return {"equal_predictions": float((one["label"] == other["label"]).mean()),
            **{f"largest_difference_of_{name}": float((one[name] - other[name]).abs().max()) for name in sure}}


def measure(kind: str, points: int, exact: bool) -> None:
    """Run the old files, then all of them grown and fresh; print what each took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        new = write_files(folder, points)
        spec = {"name": "growing", "data": {"source": str(folder / "in" / "*.parquet"), "grows": True, "scale": "none",
                                            "test": {"none": True}, "read": {"target": "y"}},
                "labels": {"given": True}, "graph": {"method": "exact" if exact else "auto"},
                "predictions": {"format": "parquet"}, **KINDS[kind]}

        def made(**options: Any) -> RunResult:
            return run(spec, workspace=folder / "work", execution=InProcess(WORKERS), **options)

        for path in folder.glob("old-*"):
            path.rename(folder / "in" / path.name)
        made()
        for path in folder.glob("new-*"):
            path.rename(folder / "in" / path.name.replace("new", "old"))
        grown, fresh = made(), made(fresh=True)
        seconds = {stage.name: [stage.seconds] for stage in grown.stages}
        for stage in fresh.stages:
            seconds[stage.name].append(stage.seconds)
        for stage, (own, anew) in seconds.items():
            print(json.dumps({"kind": kind, "points": points, "stage": stage, "grown": own, "fresh": anew}), flush=True)
        print(json.dumps({"kind": kind, "points": points, "new": new, "search": "exact" if exact else "auto",
                          "grown": round(grown.seconds, 2), "fresh": round(fresh.seconds, 2),
                          "ratio": round(grown.seconds / fresh.seconds, 3), "notes": list(grown.notes),
                          **compared(grown, fresh)}), flush=True)


def main(arguments: list[str]) -> None:
    """Measure the kinds."""
    exact = "--exact" in arguments
    own = [argument for argument in arguments if argument != "--exact"]
    points = int(own[0]) if own else 200_000
    for kind in own[1:] or KINDS:
        measure(kind, points, exact)


if __name__ == "__main__":
    main(sys.argv[1:])
