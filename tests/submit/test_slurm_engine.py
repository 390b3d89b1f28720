"""What Slurm is given, and how much of it a worker takes; a real Slurm is in `test_slurm.py`."""

import os
from pathlib import Path

import pytest
import yaml

from dssl.base.errors import ClusterError, SpecError
from dssl.runtime.description import OTHER_BYTES
from dssl.runtime.engine import Job
from dssl.runtime.slurm import SlurmRuntime
from dssl.runtime.start import load_runtime

FIELDS = {"kind": "slurm", "workers": 2, "memory_limit": "2GiB", "time": "00:30:00"}


@pytest.mark.parametrize("limit", ["auto", "512MiB"])
def test_a_job_needs_an_amount_of_memory(tmp_path, limit):
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(FIELDS | {"memory_limit": limit}))
    with pytest.raises(SpecError, match=f"memory_limit: {limit}"):
        load_runtime(tmp_path / "s.yaml")


def test_paths_with_spaces_and_percent_signs_are_paths(tmp_path):
    folder = Path("/work/a b%j#c/runs/1")
    job = Job(name="dssl-1", folder=folder, command=("true",), settle=("true",), cwd=folder, ranks=4)
    script = SlurmRuntime(**FIELDS).engine().render(job)
    assert '#SBATCH --output="/work/a b%%j#c/runs/1/logs/job.log"' in script.splitlines()
    assert "--output='/work/a b%%j#c/runs/1/logs'/rank-%t.log" in script


def test_a_path_that_slurm_cannot_read_is_refused():
    job = Job(name="dssl-1", folder=Path('/work/"a"/runs/1'), command=(), settle=(), cwd=Path("/work"), ranks=4)
    with pytest.raises(SpecError, match="has a quotation mark"):
        SlurmRuntime(**FIELDS).engine().render(job)


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return a function that writes a command of Slurm."""
    def write(name, script):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return write


def test_a_job_does_not_inherit_that_from_which_it_is_submitted(commands, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "1024")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    monkeypatch.setenv("SBATCH_PARTITION", "normal")
    commands("sbatch", f"env > {tmp_path}/variables; echo '7;cluster'")
    assert SlurmRuntime(**FIELDS).engine().submit(None, tmp_path / "job.sh") == {"job": "7"}
    variables = (tmp_path / "variables").read_text().splitlines()
    assert {"SLURM_CONF=/etc/slurm/slurm.conf", "SBATCH_PARTITION=normal"} <= set(variables)
    assert "SLURM_MEM_PER_NODE=1024" not in variables


@pytest.mark.parametrize(("answer", "known"), [
    ("echo RUNNING", True), ("echo PENDING", True), ("echo COMPLETED", False), ("true", False),
    ('echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1', False)])
def test_one_job_is_asked_for(commands, answer, known):
    commands("squeue", f'case " $* " in *" --jobs=7 "*) {answer} ;; *) echo "a long list"; esac')
    assert SlurmRuntime(**FIELDS).engine().knows({"job": "7"}) == known


def test_a_slurm_that_cannot_be_asked_does_not_mean_that_a_job_is_gone(commands):
    commands("squeue", 'echo "Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(ClusterError, match="Unable to contact"):
        SlurmRuntime(**FIELDS).engine().knows({"job": "7"})


def test_a_worker_has_less_than_its_process(monkeypatch):
    monkeypatch.delenv("SLURM_MEM_PER_CPU", raising=False)
    assert SlurmRuntime(**FIELDS).worker_memory() == (2 << 30) - OTHER_BYTES
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "1024")
    assert SlurmRuntime(**FIELDS).worker_memory() == (1 << 30) - OTHER_BYTES, "what Slurm has granted"
    assert SlurmRuntime(**FIELDS | {"threads_per_worker": 3}).worker_memory() == (2 << 30) - OTHER_BYTES
