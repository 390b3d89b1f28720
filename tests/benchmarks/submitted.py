"""What runs that are submitted to Slurm take, by a real Slurm of two nodes on this machine; it needs root.

    python -m tests.benchmarks.submitted faults
    DSSL_DATA=... python -m tests.benchmarks.submitted pipeline

`faults` prints the seconds of handing over, of a scheduled firing with nothing to do, and of a small run that is put
back, drained, without power or out of time. `pipeline` runs the 64,000 points of MNIST on `cluster/local.yaml`, on
Slurm, and on Slurm with a job that somebody ends, a node that is drained, and time that is over. Both compare the bytes
of the artifacts with those of a run to which nothing happens.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.machines import wait_until
from tests.faults.slowly import SECONDS
from tests.stored import contents
from tests.submit.machines import Submitted
from tests.submit.slurm import Slurm

ROOT = Path(__file__).parents[2]
PIPELINE = ROOT / "pipelines" / "mnist_odd_even.yaml"
CLUSTER = "{kind: slurm, workers: 2, memory_limit: 2GiB, time: '00:04:00', max_restarts: 9}"


def tell(what: str, seconds: float, **more: object) -> None:
    """Print one figure."""
    print(json.dumps({"what": what, "seconds": round(seconds, 1), **more}), flush=True)


def seconds_of(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def record(run: Path, name: str, *, seconds: float = 600) -> dict[str, float]:
    """Return a record of a run, once it is there."""
    wait_until((run / name).exists, name, seconds)
    found: dict[str, float] = json.loads((run / name).read_text())
    return found


class Bench:
    """A Slurm, and runs of a small spec in folders of their own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.slurm = Slurm(self._made("slurm"))

    def _made(self, name: str) -> Path:
        (self.folder / name).mkdir()
        return self.folder / name

    def submitted(self, name: str) -> Submitted:
        made = Submitted(self._made(name), CLUSTER)
        made.inside, made.environment = self.slurm.within(), made.environment | self.slurm.variables
        return made

    def job(self, run: Path) -> str:
        return str(json.loads((run / "submission" / "engine.json").read_text())["handle"]["job"])

    def faults(self) -> None:
        """Measure all but the pipeline."""
        first = self.submitted("first")
        begin = time.time()
        run = first.submit()
        tell("submit", time.time() - begin)
        tell("submit, while it is under way", seconds_of(first.submit))
        tell("from the submission to the driver", record(run, "starts/0.json")["begun"] - begin)
        tell("the run, from the submission to its end", record(run, "exit.json")["time"] - begin)
        same = contents(first.workspace)

        first.dssl("schedule", first.spec, "--on", first.cluster, "--at", "0 2 * * *", "--to", "slurm", "--install")
        [schedule] = first.workspace.glob("schedules/*")
        fire = [*first.inside, sys.executable, "-m", "dssl", "fire", str(schedule)]

        def fired() -> bool:
            said = subprocess.run(fire, env=first.environment, capture_output=True, text=True, check=True).stdout
            return "nothing has changed" in said

        if not fired():  # its memory budget is the default, and that of the first run was another
            assert fired()
        tell("a scheduled firing with nothing to do", seconds_of(fired))
        first.dssl("schedule", "remove", schedule.name)

        self.disturbed("put back by scontrol requeue", same, lambda job: self.slurm.call("scontrol", "requeue", job))
        self.disturbed("its node drained, and put back", same, self._drain)
        self.slurm.resume()
        self.slurm.drain("node1")
        self.disturbed("its node without power", same, self._cut)
        self.slurm.power_on()
        slowed = self.submitted("time")
        slowed.environment |= {SECONDS: "4"}
        self.walltime(same, slowed, "four minutes a job, 4 s more a task")

    def _drain(self, job: str) -> None:
        self.slurm.drain(self.slurm.jobs("%N")[job])
        self.slurm.call("scontrol", "requeue", job)

    def _cut(self, job: str) -> None:
        self.slurm.resume()
        self.slurm.power_off()

    def disturbed(self, what: str, same: dict[str, bytes], fault: Callable[[str], object]) -> None:
        """Measure from a fault to the next start of the driver, and to the end."""
        self._put_back(what, self.submitted(what.replace(" ", "-")), "points", same, fault)

    def _put_back(self, what: str, submitted: Submitted, stage: str, same: dict[str, bytes],
                  fault: Callable[[str], object]) -> None:
        """Measure it where two parts of a stage are finished."""
        run = submitted.submit()
        submitted.wait_for(run, stage, 2)
        begin = time.time()
        fault(self.job(run))
        again = record(run, "starts/1.json")["begun"] - begin
        end = record(run, "exit.json")
        tell(what, end["time"] - begin, again=round(again, 1), starts=end["starts"], code=end["code"],
             same=contents(submitted.workspace) == same)

    def walltime(self, same: dict[str, bytes], submitted: Submitted, what: str) -> None:
        """Measure a run that needs several jobs of four minutes, each warned two to three minutes before its end."""
        begin = time.time()
        run = submitted.submit()
        end = record(run, "exit.json", seconds=3600)
        starts = int(end["starts"])
        begun = [record(run, f"starts/{number}.json")["begun"] for number in range(starts)]
        ended = [record(run, f"starts/{number}-end.json")["time"] for number in range(starts - 1)]
        tell(what, end["time"] - begin, starts=starts, code=end["code"],
             warned_after=[round(stop - start, 1) for start, stop in zip(begun, ended, strict=False)],
             between=[round(start - stop, 1) for start, stop in zip(begun[1:], ended, strict=True)],
             same=contents(submitted.workspace) == same)

    def pipeline(self) -> None:
        """Measure the pipeline of 64,000 points here and on Slurm, each in an empty workspace."""
        here, local = self.large("here"), ROOT / "cluster" / "local.yaml"
        tell("dssl run --on cluster/local.yaml", seconds_of(lambda: here.dssl("run", here.spec, "--on", local)))
        same = contents(here.workspace)

        there, begin = self.large("there"), time.time()
        run = there.submit()
        tell("dssl submit", time.time() - begin)
        end = record(run, "exit.json", seconds=1800)
        tell("from the submission to the end", end["time"] - begin, code=end["code"],
             same=contents(there.workspace) == same)

        ended = self.large("ended")
        run = ended.submit()
        ended.wait_for(run, "columns", 2)
        begin = time.time()
        self.slurm.call("scancel", self.job(run))
        ended.dssl("wait", run.name, code=4)
        end = record(ended.submit(), "exit.json", seconds=1800)
        tell("scancel by somebody, submitted again", end["time"] - begin, code=end["code"],
             same=contents(ended.workspace) == same)

        self._put_back("its node drained, and put back", self.large("drained"), "columns", same, self._drain)
        self.slurm.resume()
        self.walltime(same, self.large("time"), "four minutes a job")

    def large(self, name: str) -> Submitted:
        """Return runs of 64,000 points, not slowed down."""
        made = self.submitted(name)
        made.spec.write_text(PIPELINE.read_text())
        made.cluster.write_text(CLUSTER.replace("2GiB", "4GiB"))
        made.environment, made.options = os.environ | self.slurm.variables, ()
        return made


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        try:
            {"faults": bench.faults, "pipeline": bench.pipeline}[sys.argv[1]]()
        finally:
            bench.slurm.end()


if __name__ == "__main__":
    main()
