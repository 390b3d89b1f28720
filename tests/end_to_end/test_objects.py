"""Whole runs with all in an object store: in this process, on two workers, killed and continued; no secret leaks."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run
from dssl.storage.artifacts import Workspace
from dssl.storage.files import disk_bytes, place_of, read_json
from tests.objects import KEY, SECRET

from .conftest import LOCAL

SPEC = """name: small
data: {source: SOURCE, points: 200, test: {count: 60}}
labels: {per_class: 3}
model: {kind: graph}
"""


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC.replace("SOURCE", "two_moons"))
    return tmp_path / "spec.yaml"


def addresses(result):
    return {stage.name: stage.address for stage in result.stages}


def test_a_run_in_a_store_is_that_in_a_folder(spec, s3, tmp_path):
    there, here = run(spec, workspace=s3), run(spec, workspace=tmp_path / "work")
    assert addresses(there) == addresses(here)
    assert there.metrics == here.metrics
    assert there.predictions.read_bytes() == here.predictions.read_bytes()
    again = run(spec, workspace=s3)
    assert {stage.status for stage in again.stages} == {"cached"}
    opened = RunResult.open(str(there.folder))
    assert opened.model_path == there.model_path
    assert opened.report.read_text().startswith("<!doctype html>")
    for workspace in (Workspace.at(s3), Workspace.at(tmp_path / "work")):
        assert workspace.verify() == len(there.stages)
    manifests = [{path.relative_to(root).as_posix(): read_json(path)["attributes"]
                  for path in root.glob("artifacts/*/*/manifest.json")}
                 for root in (place_of(s3), tmp_path / "work")]
    assert manifests[0] == manifests[1]


def everything(workspace):
    """Return every byte of a workspace, names too."""
    return b"\n".join(str(path).encode() + b"\n" + path.read_bytes() for path, _ in place_of(workspace).below())


def test_commands_work_there_and_no_secret_is_written_or_said(dssl, spec, s3, tmp_path):
    said = []

    def says(*arguments, code=0):
        done = dssl(*arguments)
        said.append(done.out + done.err)
        assert done.code == code, said[-1]
        return done.out

    found = json.loads(says("run", spec, "--workspace", s3, "--on", "in-process", "--json"))
    assert found["folder"].startswith(s3)
    says("verify", "--workspace", s3)
    assert "Paths" in says("inspect", found["run"], "--workspace", s3)
    assert "points" in says("inspect", "points", "--workspace", s3)
    says("predict", f"{found['folder']}/result.json", "two_moons", f"{s3}/p.csv", "--read", "target=none")
    assert (place_of(s3) / "p.csv").read_text().startswith("row,label")
    says("suggest", found["run"], "--workspace", s3, "--count", 3, "--out", f"{s3}/s.csv")
    assert len((place_of(s3) / "s.csv").read_text().splitlines()) == 4
    before = disk_bytes(place_of(s3))
    says("gc", "--intermediate", "--yes", "--workspace", s3)
    assert disk_bytes(place_of(s3)) < before
    says("predict", found["folder"], "two_moons", tmp_path / "p.npy", "--read", "target=none")
    assert "report.html" in says("report", "--workspace", s3)
    assert "done" in says("status", "--workspace", s3)
    says("predict", found["folder"], "two_moons", f"{s3}/p.zarr", code=2)
    says("ingest", "two_moons", f"{s3}/data", code=2)
    says("submit", spec, "--on", LOCAL, "--workspace", s3, code=2)
    written = everything(s3) + "".join(said).encode()
    assert SECRET.encode() not in written
    assert KEY.encode() not in written


@pytest.mark.parametrize("url", ["https://user:hush@127.0.0.1:9/p.csv", "https://127.0.0.1:9/p.csv?X-Amz-Signature=hush",
                                 "s3://KEY:hush@bucket/p.csv"])
def test_a_secret_in_a_url_is_neither_written_nor_said(dssl, spec, tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    spec.write_text(SPEC.replace("SOURCE", f"'{url}'"))
    commands = [("run", spec, "--workspace", "work"), ("plan", spec), ("submit", spec, "--on", LOCAL),
                ("doctor", spec), ("ingest", url, "data"), ("init", url, "--out", "new.yaml"),
                ("run", "quickstart", "--set", f"data.source={url}"), ("plan", "quickstart", "--set", url),
                ("predict", "work/runs/none", url, "p.csv"), ("ingest", "iris", "data", "--read", f"labels={url}")]
    said = ""
    for command in commands:
        done = dssl(*command)
        assert done.code != 0, command
        said += done.out + done.err
    assert "hush" not in said
    spec.unlink()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and b"hush" in path.read_bytes()] == []


@pytest.mark.cluster
@pytest.mark.slow
def test_workers_write_what_one_process_writes(spec, s3, cluster_client):
    with cluster_client.as_current():
        cluster_client.run(os.environ.update, {name: os.environ[name] for name in os.environ if name[:4] == "AWS_"})
        shared = run(spec, workspace=f"{s3}/two")
    alone = run(spec, workspace=f"{s3}/one")
    assert addresses(shared) == addresses(alone)
    assert shared.metrics == alone.metrics
    assert not (place_of(s3) / "two" / "scratch").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in-process", str(LOCAL)])
def test_a_run_that_is_killed_goes_on_where_it_stopped(spec, s3, tmp_path, where):
    undisturbed = run(spec, workspace=tmp_path / "work")
    command = [sys.executable, "-m", "dssl.cli", "run", str(spec), "--workspace", s3, "--on", where, "--quiet"]
    seen = kills = 0
    while True:  # killed twice, when three more artifacts are there
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as process:
            while process.poll() is None:
                time.sleep(0.1)
                found = len(list(place_of(s3).glob("artifacts/*/*/manifest.json")))
                if kills < 2 and found > seen + 2:
                    os.killpg(process.pid, signal.SIGKILL)
                    seen, kills = found, kills + 1
                    break
        if process.returncode == 0:
            break
        assert process.returncode in (None, -signal.SIGKILL)
    assert kills == 2
    *_, last = sorted(place_of(s3).glob("runs/*/result.json"))
    result = RunResult.open(str(last))
    assert addresses(result) == addresses(undisturbed)
    assert result.metrics == undisturbed.metrics
    assert Workspace.at(s3).verify() == len(result.stages)


def test_a_second_run_is_told_who_holds_the_workspace(dssl, spec, s3):
    with Workspace.at(s3).lock():
        done = dssl("run", spec, "--workspace", s3, "--on", "in-process")
    assert done.code == 5
    assert f"process {os.getpid()} on" in done.err
