"""What an object store costs: the quickstart on moto's S3 server of this machine beside a folder, in one process.

    python -m tests.benchmarks.object_store [REPEATS]

Prints for each the median seconds, and of the store the requests by kind and the bytes that are written.
"""

import statistics
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

import obstore
import pytest

from dssl.execution.in_process import InProcess
from dssl.pipeline.run import run
from tests.objects import moto

SPEC = Path(__file__).parents[2] / "pipelines" / "quickstart.yaml"
REQUESTS = ("get", "put", "head", "list", "list_with_delimiter", "delete")


def counted(patch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the requests that are made from now on, and the bytes of objects that are written at once."""
    counts: Counter[str] = Counter()

    def counting(name, request):
        def ask(store, path=None, *arguments, **options):
            counts[name] += 1
            if name == "put" and hasattr(arguments[0], "__len__"):
                counts["bytes"] += len(arguments[0])
            return request(store, path, *arguments, **options)
        return ask

    for name in REQUESTS:
        patch.setattr(obstore, name, counting(name, getattr(obstore, name)))
    return counts


def seconds_in(workspace: str) -> float:
    begin = time.perf_counter()
    run(SPEC, workspace=workspace, execution=InProcess(2))
    return time.perf_counter() - begin


def main(repeats: int) -> None:
    """Measure and print."""
    with moto() as environment, pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        for name, value in environment.items():
            patch.setenv(name, value)
        seconds_in(f"{folder}/first")  # compiles
        counts = counted(patch)
        here, there = [], []
        for _ in range(repeats):  # in turn, since a shared machine has other work
            here.append(seconds_in(f"{folder}/{uuid.uuid4().hex}"))
            there.append(seconds_in(f"s3://bucket/{uuid.uuid4().hex}"))
    print(f"folder {statistics.median(here):.2f} s, store {statistics.median(there):.2f} s, "
          f"ratio {statistics.median(b / a for a, b in zip(here, there, strict=True)):.2f}")
    print(", ".join(f"{name} {counts[name] // repeats}" for name in (*REQUESTS, "bytes")))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
