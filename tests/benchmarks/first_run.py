"""Where the processor seconds of a run in one process go, with nothing compiled before and with everything.

    python -m tests.benchmarks.first_run [SPEC]

A row for the import of what a run needs, for each stage, and for the report; of each the seconds in which modules were
imported, and those in which Numba compiled or loaded what it had compiled.
"""

import builtins
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUICKSTART = "pipelines/quickstart.yaml"


class Shares:
    """Processor seconds of imports and of Numba so far; an import within another counts once."""

    def __init__(self) -> None:
        self.imports = self.numba = 0.0
        self._depth, self._begun = 0, 0.0
        builtins.__import__ = self._timed(builtins.__import__)  # type: ignore[assignment]
        importlib.import_module = self._timed(importlib.import_module)

    def _timed(self, load: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            begin, self._depth = time.process_time(), self._depth + 1
            try:
                return load(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.imports += time.process_time() - begin

        return timed

    def listen(self) -> None:
        """Count the seconds in which Numba's compiler is locked, which are those of compiling and loading."""
        from numba.core import event

        class Locked(event.Listener):
            def on_start(listener, _: Any) -> None:  # noqa: N805
                self._begun = time.process_time()

            def on_end(listener, _: Any) -> None:  # noqa: N805
                self.numba += time.process_time() - self._begun

        event.register("numba:compiler_lock", Locked())


def inside(spec: str, workspace: str) -> None:
    """Run a spec in this process, and print the seconds of its parts, JSON."""
    shares, rows, last = Shares(), [], [0.0, 0.0, 0.0]

    def note(part: str) -> None:
        now = [time.process_time(), shares.imports, shares.numba]
        rows.append([part, *(round(a - b, 2) for a, b in zip(now, last, strict=True))])
        last[:] = now

    from dssl.execution.in_process import InProcess
    from dssl.pipeline.plan.plan import plan
    from dssl.pipeline.run import run

    shares.listen()
    note("Python and the imports of a run")
    made = plan(spec, workspace=workspace)
    note("plan")

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "stage" and "seconds" in event:
            note(event["stage"])

    run(made, execution=InProcess(1), events=on_event)
    note("report")
    print(json.dumps(rows))


def outside(spec: str) -> None:
    """Run a spec in two new processes, and print a row for each part of both runs."""
    runs = {}
    with tempfile.TemporaryDirectory() as folder:
        for compiled in ("nothing compiled", "compiled before"):
            done = subprocess.run([sys.executable, "-m", __spec__.name, spec, str(Path(folder) / compiled)], check=True,
                                  env=os.environ | {"NUMBA_CACHE_DIR": str(Path(folder) / "numba")},
                                  stdout=subprocess.PIPE, text=True)
            rows = json.loads(done.stdout.splitlines()[-1])
            rows.append(["in all", *(round(sum(column), 2) for column in list(zip(*rows, strict=True))[1:])])
            runs[compiled] = rows
    for rows in zip(*runs.values(), strict=True):
        figures = {f"{what}, {compiled}": seconds for compiled, (_, *row) in zip(runs, rows, strict=True)
                   for what, seconds in zip(("core seconds", "imports", "Numba"), row, strict=True)}
        print(json.dumps({"part": rows[0][0], **figures}))


if __name__ == "__main__":
    inside(*sys.argv[1:]) if len(sys.argv) > 2 else outside(sys.argv[1] if len(sys.argv) > 1 else QUICKSTART)
