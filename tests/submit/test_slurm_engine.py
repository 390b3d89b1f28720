"""What Slurm is given, and how much of it a worker takes; a real Slurm is in `test_slurm.py`."""

import pytest
import yaml

from dssl.errors import SpecError
from dssl.runtime.description import BESIDE
from dssl.runtime.slurm import SlurmRuntime
from dssl.runtime.start import load_runtime

FIELDS = {"kind": "slurm", "workers": 2, "memory_limit": "2GiB", "time": "00:30:00"}


@pytest.mark.parametrize("limit", ["auto", "512MiB"])
def test_a_job_needs_an_amount_of_memory(tmp_path, limit):
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(FIELDS | {"memory_limit": limit}))
    with pytest.raises(SpecError, match=f"memory_limit: {limit}"):
        load_runtime(tmp_path / "s.yaml")


def test_a_worker_has_less_than_its_process(monkeypatch):
    monkeypatch.delenv("SLURM_MEM_PER_CPU", raising=False)
    assert SlurmRuntime(**FIELDS).worker_memory() == (2 << 30) - BESIDE
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "1024")
    assert SlurmRuntime(**FIELDS).worker_memory() == (1 << 30) - BESIDE, "what Slurm has granted"
    assert SlurmRuntime(**FIELDS | {"threads_per_worker": 3}).worker_memory() == (2 << 30) - BESIDE
