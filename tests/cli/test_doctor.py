"""What doctor finds: a sound machine, and one fault after the other."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from distributed.versions import _version_cached

from dssl.cli import doctor
from dssl.cli.doctor import check_cluster, check_settings, check_source_on_workers, check_workers, examine, worst
from dssl.execution.on_dask import ClusterSettings, OnDask
from dssl.storage.files import resolved_path


def levels(checks):
    return {check.name: check.level for check in checks}


def one(checks, name):
    return next(check for check in checks if check.name == name)


def test_this_machine_and_a_new_workspace(tmp_path, monkeypatch):
    monkeypatch.delenv("DSSL_DATA", raising=False)
    checks = list(examine(tmp_path / "work"))
    assert {"Python", "libraries", "machine", "threads", "compiled code", "DSSL_DATA", "workspace", "disk",
            "file system", "extra cloud"} <= set(levels(checks))
    assert worst(checks) != "problem"
    assert "numpy" in one(checks, "libraries").state
    assert all(check.fix for check in checks if check.level != "ok")
    assert not (tmp_path / "work").exists()


def test_a_library_that_is_too_old_or_missing(monkeypatch):
    monkeypatch.setattr(doctor, "requirements", lambda: [doctor.Requirement("numpy>=99"),
                                                         doctor.Requirement("no-such-library>=1")])
    checks = list(doctor.check_libraries())
    assert one(checks, "numpy").level == one(checks, "no-such-library").level == "problem"
    assert 'pip install "numpy>=99"' in one(checks, "numpy").fix
    assert worst(checks) == "problem"


@pytest.mark.slow
def test_compiled_code_is_kept_where_numba_keeps_it(tmp_path):
    asked = subprocess.run([sys.executable, "-m", "dssl", "doctor", "--json", "--workspace", tmp_path / "work"],
                           env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}, capture_output=True,
                           text=True)
    found, = (check["state"] for check in json.loads(asked.stdout)["checks"] if check["name"] == "compiled code")
    assert found.startswith(f"is kept in folders such as {tmp_path / 'cache'}")


@pytest.mark.slow
def test_compiled_code_that_can_be_kept_nowhere():
    refuse = ("import tempfile\ndef refuse(*args, **named): raise PermissionError(13, 'no')\n"
              "tempfile.TemporaryFile = refuse\nfrom dssl.cli.main import main\nmain(['doctor'])")
    asked = subprocess.run([sys.executable, "-c", refuse], capture_output=True, text=True)
    assert asked.returncode == 1
    assert asked.stderr.startswith("error: compiled functions can be stored nowhere\n  why: ")
    assert "NUMBA_CACHE_DIR" in asked.stderr
    assert "Traceback" not in asked.stderr


def test_threads_that_are_no_number(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "many")
    assert doctor.check_threads().level == "problem"
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    assert doctor.check_threads().level == "ok"


def test_a_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("DSSL_DATA", str(tmp_path / "none"))
    assert doctor.check_data().level == "warning"
    (tmp_path / "points.npz").write_bytes(b"PK")
    monkeypatch.setenv("DSSL_DATA", str(tmp_path))
    assert doctor.check_data().state.endswith("1 data sets")


def test_a_workspace_that_is_in_the_way_or_elsewhere(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert one(list(doctor.check_workspace(tmp_path / "file" / "work")), "workspace").level == "problem"
    assert one(list(doctor.check_workspace("ftp://host/work")), "workspace").level == "problem"


def test_memory_that_is_short():
    assert doctor.check_machine(1 << 50).level == "warning"


HAS_NAMESPACES = shutil.which("unshare") is not None and subprocess.run(
    ["unshare", "-rm", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not HAS_NAMESPACES, reason="mounts in a namespace of its own, which this system does not allow")
def test_the_limits_of_a_container_are_those_of_its_machine(tmp_path):
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "memory.max").write_text(f"{3 << 30}\n")
    (tmp_path / "memory.current").write_text(f"{2 << 30}\n")
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {1 << 29}\n")
    said = subprocess.run(["unshare", "-rm", "sh", "-c", f'mount --bind {tmp_path} /sys/fs/cgroup && exec "$@"', "sh",
                           sys.executable, "-c", "from dssl.cli.doctor import check_machine; print(check_machine())"],
                          check=True, capture_output=True, text=True).stdout
    assert "1 core, 3.0 GiB of memory, 1.5 GiB of it free" in said
    assert "level='ok'" in said


def test_a_cluster_that_is_not_there(tmp_path):
    (tmp_path / "gone.yaml").write_text("kind: address\naddress: tcp://127.0.0.1:9\ntimeout: 1\n")
    check, = check_cluster(tmp_path / "gone.yaml", tmp_path)
    assert check.level == "problem"
    assert "no scheduler answers" in check.state
    assert "dask scheduler" in check.fix


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_are_compared(cluster_client, tmp_path):
    checks = list(check_workers(OnDask(cluster_client), tmp_path / "work"))
    assert levels(checks) == {"versions": "ok", "memory of workers": "ok", "workspace on workers": "ok"}
    assert "2 workers can open" in one(checks, "workspace on workers").state
    large = OnDask(cluster_client, memory_budget=1 << 40)
    assert one(list(check_workers(large, tmp_path)), "memory of workers").level == "problem"


@pytest.mark.cluster
def test_what_a_cluster_does_about_workers_that_stop(cluster_client, monkeypatch):
    execution = OnDask(cluster_client)
    found = list(check_settings(execution))
    assert levels(found) == {"worker-ttl": "warning", "allowed-failures": "ok", "pausing": "warning"}  # Dask's own
    assert "after 300 seconds" in one(found, "worker-ttl").state
    assert "at 80% of" in one(found, "pausing").state
    monkeypatch.setattr(execution, "settings", lambda: ClusterSettings(60.0, 0, ()))
    assert levels(check_settings(execution)) == {"worker-ttl": "ok", "allowed-failures": "warning", "pausing": "ok"}
    monkeypatch.setattr(execution, "settings", lambda: ClusterSettings(None, 0, ()))
    assert "forever" in one(list(check_settings(execution)), "worker-ttl").state


@pytest.mark.cluster
def test_a_source_that_is_not_there_is_told_without_a_cluster(tmp_path):
    for source, level in ((tmp_path / "missing.csv", "problem"), ("manifolds:100x4", "ok")):
        assert {check.name: check.level for check in examine(tmp_path, None, str(source))}["source"] == level


def test_a_source_that_workers_see_otherwise(cluster_client, tmp_path, monkeypatch):
    execution, path = OnDask(cluster_client), tmp_path / "points.csv"
    path.write_text("a,b\n1,2\n")
    assert check_source_on_workers(execution, str(path)).level == "ok"
    monkeypatch.setattr(execution, "ask_workers", lambda question, paths: {"w1": [None], "w2": [3], "w3": [8]})
    found = check_source_on_workers(execution, str(path))
    assert found.level == "problem"
    assert found.state == f"w1: {path} is not there, here 8; w2: {path} has 3 bytes, here 8"


@pytest.mark.cluster
def test_a_worker_of_another_version(cluster_client, tmp_path, monkeypatch):
    monkeypatch.setattr("distributed.versions._version_cached", lambda name: "9.9.9" if name == "numpy" else
                        _version_cached(name))
    found = one(list(check_workers(OnDask(cluster_client), tmp_path)), "versions")
    assert found.level == "problem"
    assert "here 9.9.9" in found.state
    assert os.listdir(tmp_path) == []


def test_a_workspace_in_an_object_store(s3, cluster_client):
    assert one(list(doctor.check_workspace(s3)), "workspace").level == "ok"
    assert one(list(doctor.check_workspace("s3://nobody-made-it/work")), "workspace").level == "problem"
    cluster_client.run(os.environ.update, {name: os.environ[name] for name in os.environ if name.startswith("AWS_")})
    found = one(list(doctor.check_workers(OnDask(cluster_client), resolved_path(s3))), "workspace on workers")
    assert (found.level, found.state) == ("ok", f"2 workers can open {s3}")
    assert not resolved_path(s3).is_dir()


def test_every_install_line_works_without_dssl_in_a_package_index():
    """An index that has no dssl refuses "dssl[cloud]"; the extras are installed from a clone, or a library by its name.
    """
    root = Path(__file__).parents[2]
    texts = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.rglob("cluster/**/*.yaml"), *root.rglob("dssl/**/*.py")]
    lines = [line for text in texts for line in text.read_text().splitlines() if re.search("pip install", line)]
    assert any('-e ".[cloud]"' in line for line in lines)
    assert [line for line in lines if re.search(r"""pip install[^`]*[\s"']dssl""", line)] == []
