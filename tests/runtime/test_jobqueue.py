"""Pools of workers that a batch system starts: what each system is asked for, and what is refused."""

import os
import subprocess
import time
from contextlib import ExitStack

import pytest

from dssl.base.errors import ClusterError, SpecError
from dssl.runtime import jobqueue
from dssl.runtime.description import OTHER_BYTES
from dssl.runtime.jobqueue import CLUSTERS, JobqueueRuntime
from dssl.runtime.start import load_runtime

from ..faults.machines import wait_until

ASKED = {  # of two gibibytes, ninety minutes, a queue and an account
    "slurm": ("#SBATCH -p short", "#SBATCH -A acme", "#SBATCH --mem=2G", "#SBATCH -t 01:30:00"),
    "pbs": ("#PBS -q short", "#PBS -A acme", "mem=2048MB", "#PBS -l walltime=01:30:00"),
    "lsf": ("#BSUB -q short", '#BSUB -P "acme"', "#BSUB -M 2147484", "#BSUB -W 01:30"),
    "sge": ("#$ -q short", "#$ -P acme", "#$ -l h_rt=01:30:00"),
    "htcondor": ("MY.DaskWorkerMemory = 2147483648",),
    "oar": ("#OAR -q short", "#OAR --project acme", "walltime=01:30:00")}
SBATCH = """#!/bin/bash
cd {folder}
[ -e refused ] && {{ echo "sbatch: error: invalid partition" >&2; exit 1; }}
cp "$1" $$.sh
setsid sh -c "sleep {queue}; exec bash $$.sh" > $$.log 2>&1 < /dev/null &
echo $! >> jobs
echo "Submitted batch job $!"
"""


@pytest.mark.filterwarnings("ignore:OAR Job memory reserved")
@pytest.mark.parametrize("system", CLUSTERS)
def test_a_system_is_asked_for_jobs_of_one_worker(system, tmp_path, monkeypatch):
    """Its command need only be there: no job is handed over."""
    for name in ("sbatch", "qsub", "bsub", "condor_submit", "oarsub"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    named = {} if system == "htcondor" else {"queue": "short", "account": "acme"}
    runtime = JobqueueRuntime(system=system, workers=4, memory_limit="2GiB", walltime="90m",
                              shared_folder=str(tmp_path), prologue=["module load python"], **named)
    with ExitStack() as stack:
        cluster = runtime.pool(stack)
        script = cluster.job_script()
        assert cluster.scheduler_address.startswith("tls://")
        keys = list(tmp_path.glob(".dask-jobqueue.worker.*"))
        assert len(keys) == 3
        assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
        text = "".join(path.read_text() for path in keys)
        assert "PRIVATE KEY" in text
    for line in (*ASKED[system], "module load python", "export NUMBA_NUM_THREADS=1", "--nthreads 1", "--nanny",
                 f"--memory-limit {(2 << 30) - OTHER_BYTES} --lifetime 4860s", "--lifetime-stagger 270s",
                 "--no-dashboard", "--protocol tls://"):
        assert line in script
    assert "PRIVATE KEY" not in script


@pytest.mark.parametrize(("fields", "said"), [
    ("walltime: 90s", "four minutes or more"), ("walltime: soon", "a number and a unit"), ("workers: 0", "workers"),
    ("memory_limit: lots", "lots"), ("memory_limit: 512MiB", "1GiB or more"), ("system: cron", "system"),
    ("system: htcondor\nqueue: short", "this system has neither")])
def test_what_no_pool_can_be_is_refused(tmp_path, fields, said):
    known = {"system": "slurm", "workers": "2", "memory_limit": "2GiB"}
    given = dict(line.split(": ") for line in fields.splitlines())
    path = tmp_path / "pool.yaml"
    path.write_text("kind: jobqueue\n" + "".join(f"{key}: {value}\n" for key, value in (known | given).items()))
    with pytest.raises(SpecError, match=said):
        load_runtime(path)


def test_a_machine_without_the_commands_of_the_system_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    runtime = JobqueueRuntime(system="pbs", workers=1, memory_limit="2GiB", shared_folder=str(tmp_path))
    with pytest.raises(ClusterError, match="this machine has no command qsub"), runtime.start(1 << 28):
        pass


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """Two commands of Slurm: jobs wait for some seconds, and are refused while there is a file `refused`."""
    def made(seconds):
        commands = {"sbatch": SBATCH.format(folder=tmp_path, queue=seconds), "scancel": "#!/bin/bash\nkill -- -$1\n"}
        (tmp_path / "bin").mkdir()
        for name, text in commands.items():
            (tmp_path / "bin" / name).write_text(text)
            (tmp_path / "bin" / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
        return tmp_path

    yield made
    for job in (tmp_path / "jobs").read_text().split() if (tmp_path / "jobs").exists() else ():
        subprocess.run(["pkill", "-KILL", "-g", job], check=False)


def pool_in(folder, **fields):
    return JobqueueRuntime(**{"system": "slurm", "workers": 2, "memory_limit": "1GiB", "shared_folder": str(folder),
                              "join_timeout": 90, **fields})


def test_who_waited_for_the_first_worker_waits_as_long_for_the_next():
    assert pool_in(".").patience == 90
    assert pool_in(".", patience=7).patience == 7
    with pytest.raises(ValueError, match="min_workers: 3"):
        pool_in(".", min_workers=3)


@pytest.mark.cluster
@pytest.mark.slow
def test_jobs_may_wait_in_the_queue(queue):
    """Longer than the three seconds after which adapting withdraws a worker without a task; then and in between."""
    with pool_in(queue(6), idle_timeout=1).start(1 << 28) as (execution, where):
        assert where == "up to 2 workers by jobs of slurm"
        client = execution.client
        assert client.submit(int, "7").result(30) == 7
        limits = [worker["memory_limit"] for worker in client.scheduler_info()["workers"].values()]
        assert limits == [(1 << 30) - OTHER_BYTES], "dask-jobqueue names the memory of the job first"
        wait_until(lambda: not client.nthreads(), "the worker without a task to go")
        assert client.submit(int, "8").result(60) == 8


@pytest.mark.cluster
def test_a_job_that_is_refused_is_named_at_once(queue):
    folder = queue(0)
    (folder / "refused").touch()
    with pytest.raises(ClusterError, match=r"slurm refuses the job of a worker\n  why: sbatch: error: invalid part"), \
            pool_in(folder).start(1 << 28):
        pass


@pytest.mark.cluster
@pytest.mark.slow
def test_a_job_that_is_refused_later_is_asked_for_again(queue, monkeypatch):
    monkeypatch.setattr(jobqueue, "RETRY_SECONDS", 0.5)
    folder = queue(0)
    with pool_in(folder, idle_timeout=1).start(1 << 28) as (execution, _):
        client = execution.client
        wait_until(lambda: not client.nthreads(), "the worker without a task to go")
        (folder / "refused").touch()
        future = client.submit(int, "7")
        with pytest.warns(UserWarning, match="submits it again: sbatch: error: invalid partition"):
            time.sleep(3)
        (folder / "refused").unlink()
        assert future.result(60) == 7
