"""What an object store costs: a pipeline on moto's S3 server of this machine, and in a folder, in turns.

    python -m tests.benchmarks.object_store [SPEC] [--repeats 3] [--workers 0] [--delay 0 0.02] [--set KEY=VALUE ...]

Between the processes of a run and the server stands a proxy, which counts the requests of all of them by stage, and
adds a delay to each: with every delay that is named the pipeline runs once a turn, beside one run in a folder. Workers
are processes of one thread each; 0 runs tasks in two threads of this process. Prints a line of JSON for each turn, with
the load of the machine, one for each stage of the last turn with what it asked for, and the ratios of seconds.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from dssl.execution.in_process import InProcess
from dssl.execution.tasks import Execution
from dssl.pipeline.run import run
from tests.object_proxy import Proxy, proxy
from tests.objects import moto

TOTALS = ("requests", "get", "head", "put", "create or swap", "list", "delete", "bytes read", "bytes written",
          "server milliseconds")
SPEC = Path(__file__).parents[2] / "pipelines" / "quickstart.yaml"


@contextmanager
def execution_of(workers: int) -> Iterator[Execution]:
    """Yield threads of this process, or worker processes."""
    if not workers:
        yield InProcess(2)
        return
    from distributed import Client, LocalCluster

    from dssl.execution.on_dask import OnDask

    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
                      memory_limit="4GiB") as cluster, Client(cluster, set_as_default=False) as client:
        yield OnDask(client)


def seconds_in(workspace: str, spec: Path, overrides: list[str], execution: Execution,
               proxied: Proxy) -> dict[str, Any]:
    """Run and return seconds, in all and by stage; the proxy is told of stages."""
    took: dict[str, float] = {}

    def record(event: dict[str, Any]) -> None:
        if event["event"] == "stage":
            proxied.ask(f"stage/{'between' if event['status'] == 'done' else event['stage']}")
            if "seconds" in event:
                took[event["stage"]] = event["seconds"]

    proxied.ask("stage/before")
    begin = time.perf_counter()
    run(spec, set=overrides, workspace=workspace, execution=execution, events=record)
    return {"seconds": round(time.perf_counter() - begin, 3), "stages": took}


def processor_seconds() -> float:
    """Return the seconds of a core that moto's server has used since it was started."""
    return sum(sum(child.cpu_times()[:2]) for child in psutil.Process().children(recursive=True)
               if any("moto.server" in word for word in child.cmdline()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec", nargs="?", default=SPEC, type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--delay", type=float, nargs="+", default=[0.0, 0.02])
    parser.add_argument("--set", nargs="*", default=[])
    given = parser.parse_args()
    with moto() as server, proxy(server) as proxied, pytest.MonkeyPatch.context() as patch, \
            tempfile.TemporaryDirectory() as folder:
        for name, value in proxied.environment.items():
            patch.setenv(name, value)
        with execution_of(given.workers) as execution:
            def measured(workspace: str) -> dict[str, Any]:
                return seconds_in(workspace, given.spec, given.set, execution, proxied)

            measured(f"{folder}/first")  # compiles
            turns, counts, stages, busy = [], {}, {}, {}
            for _ in range(given.repeats):  # in turn, since a shared machine has other work
                proxied.ask("delay/0")
                here = measured(f"{folder}/{uuid.uuid4().hex}")
                turn = {"folder": here["seconds"], "load": round(os.getloadavg()[0], 1)}
                for delay in given.delay:
                    proxied.ask(f"delay/{delay}")
                    proxied.counts()
                    before = processor_seconds()
                    there = measured(f"s3://bucket/{uuid.uuid4().hex}")
                    busy[delay], counts[delay] = processor_seconds() - before, proxied.counts()
                    stages[delay], turn[f"store, {delay} s"] = there["stages"], there["seconds"]
                turns.append(turn)
                print(json.dumps(turn), flush=True)
    for stage in counts[given.delay[0]]:
        print(json.dumps({"stage": stage, "folder seconds": here["stages"].get(stage),
                          **{f"seconds, {delay} s": stages[delay].get(stage) for delay in given.delay},
                          **counts[given.delay[0]][stage]}))
    for delay in given.delay:
        ratios = [turn[f"store, {delay} s"] / turn["folder"] for turn in turns]
        print(json.dumps({"delay": delay, "ratio": round(statistics.median(ratios), 2),
                          "moto_core_seconds": round(busy[delay], 2), **{
                              name: sum(found.get(name, 0) for found in counts[delay].values()) for name in TOTALS}}))


if __name__ == "__main__":
    main()
