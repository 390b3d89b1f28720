"""What the machinery takes: tasks that do nothing, and the stages of a pipeline beside their block functions in a loop.

    python -m tests.benchmarks.overhead empty [TASKS]      in one thread of this process, and on two workers
    python -m tests.benchmarks.overhead many [TASKS]       on 20 workers; the scheduler is a process of its own, too
    python -m tests.benchmarks.overhead pipeline [POINTS]  dssl's stages over their own block functions, one thread
    python -m tests.benchmarks.overhead start              how long two local workers take to come
    python -m tests.benchmarks.overhead idle               what they take while they wait, with and without monitors
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import Client

from dssl.execution import in_process
from dssl.execution import tasks as tasks_module
from dssl.execution.in_process import InProcess
from dssl.execution.tasks import Execution
from dssl.pipeline.run import run
from dssl.runtime.description import SETTINGS, WATCHED, environment_of
from dssl.runtime.local import LocalRuntime
from dssl.runtime.start import open_runtime
from dssl.storage.blocks import MemoryParts, Parts
from dssl.storage.store import StoredParts

WORKERS = 20


@dataclass(frozen=True)
class EmptyTask:
    """Does nothing."""

    index: int

    def __call__(self, out: Any) -> dict[str, Any]:
        return {}


def tell(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


def timed(execution: Execution, parts: Parts, count: int) -> float:
    begin = time.perf_counter()
    execution.map([EmptyTask(index) for index in range(count)], parts)
    return time.perf_counter() - begin


def empty(count: int) -> None:
    """Run so many tasks that do nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for name, parts in (("memory", MemoryParts()), ("stored", StoredParts(Path(folder) / "here"))):
            seconds = timed(InProcess(1), parts, count)
            tell(where="one thread", parts=name, tasks=count, seconds=round(seconds, 1),
                 microseconds_a_task=round(seconds / count * 1e6))
        with LocalRuntime(workers=2).start(1 << 30) as (execution, _):
            timed(execution, StoredParts(Path(folder) / "warm"), 100)
            seconds = timed(execution, StoredParts(Path(folder) / "there"), count)
            tell(where="two workers", parts="stored", tasks=count, seconds=round(seconds, 1),
                 microseconds_a_task=round(seconds / count * 1e6))


@contextmanager
def process(*command: Any) -> Iterator[psutil.Process]:
    """Yield a process of `python -m`, which is ended afterwards."""
    environment = os.environ | environment_of(SETTINGS)
    with subprocess.Popen([sys.executable, "-m", *map(str, command)], env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as started:
        try:
            yield psutil.Process(started.pid)
        finally:
            started.kill()


def core_seconds(one: psutil.Process) -> float:
    return sum(one.cpu_times()[:2])


def most_megabytes(one: psutil.Process) -> int:
    """Return the most that a process has held."""
    status = Path(f"/proc/{one.pid}/status").read_text(encoding="utf-8")
    return round(int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6)


def many(count: int) -> None:
    """Run tasks that do nothing on `WORKERS` workers; tell what the scheduler and the driver take."""
    driver = psutil.Process()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "scheduler.json"
        scheduler = stack.enter_context(process("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
                                                "--no-dashboard", "--scheduler-file", file))
        while not file.exists():
            time.sleep(0.1)
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        for _ in range(WORKERS):
            stack.enter_context(process(
                "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard",
                "--memory-limit", "2GiB", "--local-directory", folder))
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(WORKERS, timeout=600)
        with open_runtime(address, 1 << 30) as (execution, _):
            timed(execution, StoredParts(Path(folder) / "warm"), 1000)
            held = {"scheduler": most_megabytes(scheduler), "driver": most_megabytes(driver)}
            before = {"scheduler": core_seconds(scheduler), "driver": core_seconds(driver)}
            seconds = timed(execution, StoredParts(Path(folder) / "there"), count)
            took = {"scheduler": core_seconds(scheduler) - before["scheduler"],
                    "driver": core_seconds(driver) - before["driver"]}
        tell(workers=WORKERS, tasks=count, seconds=round(seconds, 1), tasks_a_second=round(count / seconds),
             tasks_a_core_second={name: round(count / own) for name, own in took.items()}, megabytes_after_1000=held,
             megabytes={"scheduler": most_megabytes(scheduler), "driver": most_megabytes(driver)})


@contextmanager
def inside_tasks() -> Iterator[tuple[list[float], list[float]]]:
    """Yield the seconds that tasks take in their own calls, without receipt and measures of memory; and of maps."""
    found: list[float] = []
    maps: list[float] = []
    real, real_map = tasks_module.run_part, InProcess.map

    def measured(task: Any, parts: Parts, index: int) -> Any:
        def call(out: Any) -> Any:
            begin = time.perf_counter()
            receipt = task(out)
            found.append(time.perf_counter() - begin)
            return receipt

        return real(call, parts, index)

    def mapped(self: InProcess, tasks: Any, parts: Parts, *follow: Any) -> Any:
        begin = time.perf_counter()
        receipts = real_map(self, tasks, parts, *follow)
        maps.append(time.perf_counter() - begin)
        return receipts

    in_process.run_part, InProcess.map = measured, mapped
    try:
        yield found, maps
    finally:
        in_process.run_part, InProcess.map = real, real_map


def pipeline(n: int) -> None:
    """Run a pipeline twice, once to compile; tell the seconds of each stage, of its tasks' own calls, and of all maps.

    What a loop over the same block functions would take is their own calls, and what the driver does of itself: it
    solves, chooses and draws.
    """
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(10, 32)) * 3
    y = rng.integers(10, size=n)
    X = (centers[y] + rng.normal(size=(n, 32))).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "points.npz"
        np.savez(source, X=X, y=y)
        spec = {"name": "overhead", "data": {"source": str(source), "test": {"count": 4000}},
                "labels": {"per_class": 20}, "model": {"kind": "laprls", "landmarks": {"n_landmarks": 500}}}
        for attempt in ("compiles", "warm"):
            inside: dict[str, float] = {}
            with inside_tasks() as (found, maps):
                def note(event: dict[str, Any], inside: dict[str, float] = inside, found: list[float] = found) -> None:
                    if event["event"] == "stage" and "seconds" in event:
                        inside[event["stage"]] = sum(found) - sum(inside.values())

                begin = time.perf_counter()
                result = run(spec, workspace=Path(folder) / attempt, execution=InProcess(1), events=note)
                total = time.perf_counter() - begin
            tell(attempt=attempt, points=n, tasks=len(found), run_seconds=round(total, 2),
                 stages_seconds=round(sum(stage.seconds for stage in result.stages), 2),
                 inside_tasks_seconds=round(sum(found), 2), maps_seconds=round(sum(maps), 2),
                 stages={stage.name: [stage.seconds, round(inside[stage.name], 3)] for stage in result.stages})


def start() -> None:
    """Start two local workers, three times."""
    for _ in range(3):
        begin = time.perf_counter()
        with LocalRuntime(workers=2).start(1 << 30) as (execution, _):
            started = time.perf_counter() - begin
            with tempfile.TemporaryDirectory() as folder:
                seconds = timed(execution, StoredParts(folder), 1000)
        tell(start_seconds=round(started, 2), stop_seconds=round(time.perf_counter() - begin - started - seconds, 2),
             thousand_tasks_seconds=round(seconds, 2))


class MonitoredRuntime(LocalRuntime):
    """Local processes whose profiler and monitors are as Dask sets them."""

    def settings(self) -> Mapping[str, object]:
        return {name: value for name, value in super().settings().items() if name not in WATCHED}


def idle(seconds: float = 20.0) -> None:
    """Let two local workers wait, three times in turns; tell what part of a core each process takes."""
    for attempt in range(3):
        for runtime in (MonitoredRuntime, LocalRuntime):
            with runtime(workers=2).start(1 << 30) as (execution, _):
                time.sleep(4)  # what starts them
                processes = [psutil.Process(), *map(psutil.Process, execution.ask_workers(os.getpid).values())]
                before = list(map(core_seconds, processes))
                time.sleep(seconds)
                shares = [round(100 * (core_seconds(one) - own) / seconds, 1)
                          for one, own in zip(processes, before, strict=True)]
            tell(attempt=attempt, runtime=runtime.__name__, scheduler_percent=shares[0], workers_percent=shares[1:])


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "empty":
        empty(int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
    elif what == "many":
        many(int(sys.argv[2]) if len(sys.argv) > 2 else 20_000)
    elif what == "pipeline":
        pipeline(int(sys.argv[2]) if len(sys.argv) > 2 else 64_000)
    elif what == "idle":
        idle()
    else:
        start()
