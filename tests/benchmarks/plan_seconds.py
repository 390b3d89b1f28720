"""Seconds of every stage as a plan estimates them before anything is known, and as they are measured on one core.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python -m tests.benchmarks.plan_seconds --points 60000 --kind laprls

One JSON line a stage, and one for all. Compiling counts as measured; a second run in the same process has none.
"""

import argparse
import json
import tempfile
from typing import Any

from dssl.execution.in_process import InProcess
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run

MODELS: dict[str, dict[str, Any]] = {
    "svm": {"model": {"kind": "svm", "n_landmarks": 500}},
    "laprls": {"model": {"kind": "laprls", "landmarks": {"n_landmarks": 1000}}},
    "graph": {"model": {"kind": "graph"}},
    "automatic": {"model": {"kind": "automatic"}},
    "cluster": {"model": {"kind": "cluster", "landmarks": 1000}},
}


def measure(kind: str, points: int, columns: int) -> None:
    """Print the lines of one kind of model."""
    spec = {"name": kind, "data": {"source": f"manifolds:{points}x{columns}", "test": {"fraction": 0.05}},
            "labels": {"per_class": 20}, **MODELS[kind]}
    total = [0.0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        planned = {item.stage.name: item for item in plan(spec, points=points, columns=columns).stages}
        result = run(spec, workspace=folder, execution=InProcess(1))
    for stage in result.stages:
        cost = planned[stage.name].cost
        estimated = cost.core_seconds if cost else None
        total = [total[0] + (estimated or 0.0), total[1] + stage.seconds]
        print(json.dumps({"kind": kind, "stage": stage.name, "estimated": estimated and round(estimated, 2),
                          "measured": round(stage.seconds, 2)}), flush=True)
    print(json.dumps({"kind": kind, "points": points, "columns": columns, "estimated": round(total[0], 1),
                      "measured": round(total[1], 1), "error": result.metrics.get("error")}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=60_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--kind", choices=[*MODELS], action="append")
    asked = parser.parse_args()
    for kind in asked.kind or MODELS:
        measure(kind, asked.points, asked.columns)


if __name__ == "__main__":
    main()
