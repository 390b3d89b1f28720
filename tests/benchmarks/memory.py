"""Predicted and measured peak memory of every stage, on local worker processes of one thread.

    DSSL_DATA=... python -m tests.benchmarks.memory --workspace /tmp/memory [--spec NAME] [--on cluster/local.yaml]

One JSON line a stage, then one a spec: the stages above 200 MB whose peak is not within 25 % of what was predicted.
The exit code is 1 if there is any.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.runtime.start import open_runtime

ROOT = Path(__file__).parents[2]
LARGE, WITHIN = 200e6, 0.25
EMBEDDED = {
    "labels": {"per_class": 10}, "graph": {"n_neighbors": 10, "weights": "self_tuned", "ridge": 0.01, "power": 2},
    "kernel": {"name": "rbf", "bandwidth": "0.5*median"},
}
MODEL = {"kind": "svm", "loss": "hinge", "C": 10, "eta": 10}
SPECS: dict[str, str | dict[str, Any]] = {
    "mnist_odd_even": str(ROOT / "pipelines" / "mnist_odd_even.yaml"),
    "mnist_vae": {"name": "mnist_vae", "data": {"source": "mnist_vae", "points": 64000, "test": {"count": 500}},
                  "model": {**MODEL, "n_landmarks": 2000}, **EMBEDDED},
    "covtype": {"name": "covtype", "data": {"source": "covtype", "points": 100000, "test": {"count": 1000}},
                "model": {**MODEL, "n_landmarks": 128}, **EMBEDDED},
}


def measure(name: str, workspace: Path, where: Path) -> bool:
    """Run one spec and print its lines; return whether every large stage is within the bound."""
    with open_runtime(where) as (execution, _):
        made = plan(SPECS[name], workspace=workspace, memory_budget=execution.memory_budget, fresh=True)
        result = run(made, execution=execution)
    ahead = {item.stage.name: item for item in made.stages}
    wrong = []
    for stage in result.stages:
        large = max(stage.measured_peak_bytes or 0, stage.predicted_peak_bytes or 0) > LARGE
        if large and not 1 - WITHIN <= (stage.ratio or 0) <= 1 + WITHIN:
            wrong.append(stage.name)
        cost = ahead[stage.name].cost
        print(json.dumps({
            "spec": name, "stage": stage.name, "planned_bytes": cost.peak if cost else None,
            "estimated": ahead[stage.name].estimated, "predicted_bytes": stage.predicted_peak_bytes,
            "measured_bytes": stage.measured_peak_bytes, "ratio": stage.ratio, "seconds": stage.seconds,
        }), flush=True)
    print(json.dumps({"spec": name, "wrong": wrong}), flush=True)
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workspace", type=Path, required=True, help="a folder; about 3 GB")
    parser.add_argument("--spec", choices=SPECS, action="append", help="default: all")
    parser.add_argument("--on", type=Path, default=ROOT / "cluster" / "local.yaml")
    given = parser.parse_args()
    within = [measure(name, given.workspace, given.on) for name in given.spec or SPECS]
    sys.exit(0 if all(within) else 1)


if __name__ == "__main__":
    main()
