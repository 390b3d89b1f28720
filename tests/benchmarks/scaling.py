"""Strong scaling: the seconds of each stage on one local worker and on two, and on up to 64 from measured tasks.

    python -m tests.benchmarks.scaling [POINTS] [--workers 1 2] [--simulated 2 4 8 16 32 64] [--set KEY=VALUE ...]

Runs `pipelines/million.yaml` of so many made points once with each number of workers, of one thread each. A JSON line
a stage: its seconds by number of workers; its tasks, and the longest one; and `simulated`, the seconds by number of
workers that follow from the tasks of the first run: those outside of tasks, and for each map of tasks that of its list
schedule in the order of submission, or what the scheduler takes for so many tasks (`--rate` a second) if that is more.
The simulation assumes that store and network serve all workers as they served the first run, and that no two maps run
at the same time. The last line is of all stages.
"""

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from heapq import heapify, heapreplace
from threading import local
from typing import Any

from dssl.execution.tasks import Execution
from dssl.pipeline.run import run
from dssl.runtime.local import LocalRuntime

from .large import SPEC

Maps = list[tuple[float, float, list[float]]]  # when each began and ended, and the seconds of its tasks


def list_schedule(tasks: Sequence[float], workers: int) -> float:
    """Return when the last task ends, if each begins on the worker that is free first."""
    free = [0.0] * workers
    heapify(free)
    for seconds in tasks:
        heapreplace(free, free[0] + seconds)
    return max(free)


def simulated(seconds: float, maps: Maps, workers: int, rate: float) -> float:
    """Return the seconds of a stage that took `seconds`, some of them in these maps, on so many workers."""
    inside = until = 0.0
    for begin, end, _ in sorted(maps):
        inside += max(0.0, end - max(begin, until))
        until = max(until, end)
    return max(0.0, seconds - inside) + sum(max(list_schedule(tasks, workers), len(tasks) / rate)
                                            for _, _, tasks in maps)


def measured(workers: int, changes: list[str], folder: str) -> tuple[dict[str, float], dict[str, Maps]]:
    """Return the seconds of each stage of a run, and its maps."""
    maps: dict[str, Maps] = defaultdict(list)
    begun: Maps = []
    mapped, note, last = Execution.map, Execution._note, local()

    def noting(execution: Execution, receipts: Any) -> None:
        last.tasks = [receipt["seconds"] for receipt in receipts]  # those that combine shares, too
        note(execution, receipts)

    def noted(execution: Execution, *arguments: Any) -> Any:
        begin = time.perf_counter()
        receipts = mapped(execution, *arguments)
        begun.append((begin, time.perf_counter(), last.tasks))
        return receipts

    def tell(event: dict[str, Any]) -> None:
        if event["event"] == "stage" and event.get("status") == "done":
            maps[event["stage"]] += begun
            begun.clear()

    Execution.map, Execution._note = noted, noting  # type: ignore[method-assign]
    try:
        runtime = LocalRuntime(workers=workers, memory_limit="4GiB")
        with tempfile.TemporaryDirectory(dir=folder) as workspace, runtime.start(1 << 30) as (execution, _):
            result = run(SPEC, set=changes, workspace=workspace, execution=execution, events=tell)
    finally:
        Execution.map, Execution._note = mapped, note  # type: ignore[method-assign]
    return {stage.name: stage.seconds for stage in result.stages}, maps


def rounded(figures: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    return {name: {workers: round(seconds, 2) for workers, seconds in of_workers.items()}
            for name, of_workers in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("points", nargs="?", type=float, default=1e6)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="the first of them for the simulation")
    parser.add_argument("--simulated", type=int, nargs="+", default=[2, 4, 8, 16, 32, 64])
    parser.add_argument("--rate", type=float, default=233.0, help="tasks a second of scheduler and driver")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where workspaces are made")
    arguments = parser.parse_args()
    changes = [f"data.source=manifolds:{int(arguments.points)}x64", *arguments.set]
    runs = {workers: measured(workers, changes, arguments.folder) for workers in arguments.workers}
    by_stage, maps = runs[arguments.workers[0]]
    totals: dict[str, dict[int, float]] = {"seconds": defaultdict(float), "simulated": defaultdict(float)}
    for stage, seconds in by_stage.items():
        tasks = [one for _, _, of_map in maps[stage] for one in of_map]
        figures = {"seconds": {workers: of_stages[stage] for workers, (of_stages, _) in runs.items()}, "simulated": {
            workers: simulated(seconds, maps[stage], workers, arguments.rate) for workers in arguments.simulated}}
        for name, of_workers in figures.items():
            for workers, value in of_workers.items():
                totals[name][workers] += value
        print(json.dumps({"stage": stage, "tasks": len(tasks), "longest": round(max(tasks, default=0.0), 2),
                          "in_tasks": round(sum(tasks), 2), **rounded(figures)}), flush=True)
    print(json.dumps({"points": int(arguments.points), **rounded(totals)}))


if __name__ == "__main__":
    main()
