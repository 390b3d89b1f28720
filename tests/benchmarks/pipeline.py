"""The MNIST pipeline end to end through the command line: cold, cached, one parameter changed, killed and resumed.

    DSSL_DATA=... python -m tests.benchmarks.pipeline --workspace /tmp/mnist

One JSON line a step. The kill is SIGKILL to the whole process group in the middle of the solves.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "pipelines" / "mnist_odd_even.yaml"
GIVEN = ("--set", "selection=null", "--set", "baselines=[base, shuffled]")  # one set of parameters, no grid


def command(workspace: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "dssl", "run", str(SPEC), *GIVEN, "--on", str(ROOT / "cluster" / "local.yaml"),
            "--workspace", str(workspace), "--json", *options]


def run(workspace: Path, *options: str) -> tuple[dict[str, Any], float]:
    """Run the pipeline and return its result and the seconds it took, start of the interpreter included."""
    begin = time.perf_counter()
    done = subprocess.run(command(workspace, *options), capture_output=True, text=True, check=True)
    return json.loads(done.stdout), time.perf_counter() - begin


def tell(step: str, result: dict[str, Any], seconds: float, **more: Any) -> None:
    print(json.dumps({
        "step": step, "seconds": round(seconds, 2), "error": result["metrics"]["error"],
        "base_error": result["baselines"]["base"]["error"], "shuffled_error": result["baselines"]["shuffled"]["error"],
        "peak_rss_bytes": result["peak_rss_bytes"],
        "stages": {stage["name"]: f"{stage['status']} {stage['seconds']:.2f} s" for stage in result["stages"]},
        **more}), flush=True)


def receipts(workspace: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in workspace.glob("artifacts/columns/*/*/receipts/*.json")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workspace", type=Path, required=True, help="an empty folder; about 2 GB")
    workspace = parser.parse_args().workspace
    cold, seconds = run(workspace)
    tell("cold", cold, seconds)
    again, seconds = run(workspace)
    tell("again", again, seconds, same_metrics=again["metrics"] == cold["metrics"],
         all_cached=all(stage["status"] == "cached" for stage in again["stages"]))
    changed, seconds = run(workspace, "--set", "model.eta=30")
    tell("eta=30", changed, seconds)

    for stage in ("columns", "covariance", "models", "sample", "scores", "predictions"):
        shutil.rmtree(workspace / "artifacts" / stage)
    process = subprocess.Popen(command(workspace), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    while len(receipts(workspace)) < 3:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = receipts(workspace)
    resumed, seconds = run(workspace)
    after = receipts(workspace)
    tell("killed and resumed", resumed, seconds, finished_before_kill=len(before), parts=len(after),
         kept=all(after[path] == when for path, when in before.items()),
         same_metrics=resumed["metrics"] == cold["metrics"])
    fresh, seconds = run(workspace, "--fresh")
    tell("fresh", fresh, seconds, same_metrics=fresh["metrics"] == cold["metrics"])


if __name__ == "__main__":
    main()
