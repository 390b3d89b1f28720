"""Seconds of the stages before the graph: of a plan, and measured on one thread.

    python -m tests.benchmarks.first_stages SOURCE [SOURCE ...]

A source is a file whose target is named `y`, or made-up points (manifolds:POINTSxCOLUMNS). Prints a line of JSON a
stage: processor seconds, seconds by the clock, and those of the plan, times the measured speed of this machine.
"""

import json
import sys
import tempfile
import time
from typing import Any

from dssl.execution.in_process import InProcess
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run

LAST = "vertices"


def measure(source: str) -> None:
    """Run the stages of one source, and print."""
    read = {} if source.startswith("manifolds:") else {"read": {"target": "y"}}
    spec = {"name": "first_stages", "data": {"source": source, "scale": "none", "test": {"count": 10_000}, **read},
            "labels": {"per_class": 20}, "graph": {"n_neighbors": 10},
            "model": {"kind": "laprls", "landmarks": {"n_landmarks": 1000}}}
    begun: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        planned = {row["name"]: row["core_seconds"] for row in plan(spec, workspace=folder, until=LAST).records()}

        def record(event: dict[str, Any]) -> None:
            if event["event"] != "stage":
                return
            now = time.process_time(), time.perf_counter()
            if event["status"] != "done":
                begun[event["stage"]] = now
                return
            core, clock = (round(end - begin, 2) for begin, end in zip(begun[event["stage"]], now, strict=True))
            print(json.dumps({"source": source, "stage": event["stage"], "planned": planned[event["stage"]],
                              "processor": core, "clock": clock}), flush=True)

        run(spec, workspace=folder, until=LAST, execution=InProcess(1), events=record)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        measure(given)
