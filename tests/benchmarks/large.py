"""A pipeline of many points on two local workers: seconds and peak memory of each stage, bytes between processes.

    python -m tests.benchmarks.large [POINTS] [--set KEY=VALUE ...] [--workers 2] [--memory 4GiB] [--folder FOLDER]

Runs `pipelines/million.yaml`. A JSON line a stage, then one of the whole: error rates, and `exchanged_bytes`, all
that went over this machine's loopback meanwhile (/proc/net/dev): tasks, receipts and heartbeats between driver,
scheduler and workers, and whatever else talks there.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from dssl.base.units import size_of
from dssl.pipeline.run import run
from dssl.runtime.local import LocalRuntime

SPEC = Path(__file__).parents[2] / "pipelines" / "million.yaml"


def exchanged() -> int:
    """Return the bytes that this machine's loopback has received."""
    for line in Path("/proc/net/dev").read_text(encoding="utf-8").splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    raise OSError("/proc/net/dev names no loopback")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("points", nargs="?", type=float, default=1e6)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="4GiB")
    parser.add_argument("--budget", type=size_of, default=1 << 30)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the workspace is made")
    arguments = parser.parse_args()
    changes = [f"data.source=manifolds:{int(arguments.points)}x64", *arguments.set]
    runtime = LocalRuntime(workers=arguments.workers, memory_limit=arguments.memory)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder, runtime.start(arguments.budget) as (execution, _):
        before, begin = exchanged(), time.perf_counter()
        result = run(SPEC, set=changes, workspace=folder, execution=execution)
        seconds, moved = time.perf_counter() - begin, exchanged() - before
    for stage in result.stages:
        print(json.dumps({name: getattr(stage, name) for name in (
            "name", "seconds", "peak_rss_bytes", "predicted_peak_bytes", "measured_peak_bytes")}))
    print(json.dumps({
        "points": int(arguments.points), "seconds": round(seconds, 1), "exchanged_bytes": moved,
        "peak_rss_bytes": result.peak_rss_bytes, "error": result.metrics["error"],
        "baselines": {name: own["error"] for name, own in result.baselines.items()}}))


if __name__ == "__main__":
    main()
