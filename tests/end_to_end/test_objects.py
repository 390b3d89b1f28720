"""Whole runs with all in an object store: in this process, on two workers, killed and continued; no secret leaks."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import zarr
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons

from dssl import LaplaceLearning
from dssl.base.errors import DataError
from dssl.data.dataset import Dataset, open_stored
from dssl.data.ingest import open_dataset
from dssl.data.ingest_leftovers import one_writer
from dssl.estimators.predict_to import predict_to_zarr
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run
from dssl.storage.artifacts import Workspace
from dssl.storage.files import disk_bytes, read_json, resolved_path
from dssl.storage.foreign_zarr import publish_array
from dssl.storage.store import StoredParts
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


@pytest.mark.slow
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
                 for root in (resolved_path(s3), tmp_path / "work")]
    assert manifests[0] == manifests[1]


def everything(workspace):
    """Return every byte of a workspace, names too."""
    return b"\n".join(str(path).encode() + b"\n" + path.read_bytes() for path, _ in resolved_path(workspace).below())


@pytest.mark.slow
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
    assert (resolved_path(s3) / "p.csv").read_text().startswith("row,label")
    says("suggest", found["run"], "--workspace", s3, "--count", 3, "--out", f"{s3}/s.csv")
    assert len((resolved_path(s3) / "s.csv").read_text().splitlines()) == 4
    before = disk_bytes(resolved_path(s3))
    says("gc", "--intermediate", "--yes", "--workspace", s3)
    assert disk_bytes(resolved_path(s3)) < before
    says("predict", found["folder"], "two_moons", tmp_path / "p.npy", "--read", "target=none")
    assert "report.html" in says("report", "--workspace", s3)
    assert "done" in says("status", "--workspace", s3)
    says("predict", found["folder"], "two_moons", f"{s3}/p.zarr", "--read", "target=none")
    says("ingest", "two_moons", f"{s3}/data")
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
    assert not (resolved_path(s3) / "two" / "scratch").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in-process", pytest.param(str(LOCAL), id="local", marks=pytest.mark.extended)])
def test_a_run_that_is_killed_goes_on_where_it_stopped(spec, s3, tmp_path, where):
    undisturbed = run(spec, workspace=tmp_path / "work")
    command = [sys.executable, "-m", "dssl", "run", str(spec), "--workspace", s3, "--on", where, "--quiet"]
    is_killed = False
    while True:  # it is killed when three artifacts are there
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as process:
            while process.poll() is None:
                time.sleep(0.1)
                if not is_killed and len(list(resolved_path(s3).glob("artifacts/*/*/manifest.json"))) > 2:
                    os.killpg(process.pid, signal.SIGKILL)
                    is_killed = True
                    break
        if process.returncode == 0:
            break
        assert process.returncode in (None, -signal.SIGKILL)
    assert is_killed
    *_, last = sorted(resolved_path(s3).glob("runs/*/result.json"))
    result = RunResult.open(str(last))
    assert addresses(result) == addresses(undisturbed)
    assert result.metrics == undisturbed.metrics
    assert Workspace.at(s3).verify() == len(result.stages)


def test_a_second_run_is_told_who_holds_the_workspace(dssl, spec, s3):
    with Workspace.at(s3).lock():
        done = dssl("run", spec, "--workspace", s3, "--on", "in-process")
    assert done.code == 5
    assert f"process {os.getpid()} on" in done.err


def test_a_data_set_in_a_store_is_that_in_a_folder(dssl, s3, tmp_path):
    for name, rows in (("a", "1,2,0\n3,4,1\n5,6,0\n"), ("b", "7,8,1\n9,1,0\n"), ("c", "1,1,\n")):
        (tmp_path / f"{name}.csv").write_text(f"u,v,y\n{rows}")
    for folder in (f"{s3}/data", tmp_path / "data"):
        assert dssl("ingest", tmp_path / "a.csv", folder).code == 0
        assert dssl("ingest", "--append", tmp_path / "b.csv", folder).code == 0
        assert dssl("ingest", "--append", tmp_path / "b.csv", folder).err.startswith("nothing new")
    there, here = open_stored(f"{s3}/data"), open_stored(tmp_path / "data")
    assert_array_equal(there.X.read_all(), here.X.read_all())
    assert_array_equal(there.targets(), here.targets())
    assert there.attributes == here.attributes
    assert_array_equal(open_dataset(f"{s3}/data").X.read_all(), here.X.read_all())  # as a source is read
    again = dssl("ingest", tmp_path / "a.csv", f"{s3}/data")
    assert (again.code, "is not empty" in again.err) == (1, True)


def test_two_processes_do_not_write_one_data_set(dssl, s3, tmp_path):
    for folder in (resolved_path(f"{s3}/data"), tmp_path / "data"):
        with one_writer(folder):
            done = dssl("ingest", "iris", folder)
        assert (done.code, f"process {os.getpid()} on" in done.err) == (5, True)
        assert not folder.exists()  # of what was refused, nothing is left
        assert dssl("ingest", "iris", folder).code == 0
    Dataset.from_arrays(np.ones((3, 2))).save(f"{s3}/saved")
    with pytest.raises(DataError, match="is not empty"):
        Dataset.from_arrays(np.ones((3, 2))).save(f"{s3}/saved")


def test_an_ingest_that_is_refused_leaves_nothing_in_a_store(dssl, s3, tmp_path):
    (tmp_path / "bad.csv").write_text("u,y\n1,0\noak,1\n")
    assert dssl("ingest", tmp_path / "bad.csv", f"{s3}/data", "--read", "when_text=error").code == 1
    assert list(resolved_path(s3).below()) == []


def test_predictions_in_a_store_are_an_array_that_zarr_reads(s3, tmp_path):
    X, y = make_moons(300, noise=0.1, random_state=0)
    model = LaplaceLearning().fit(X, np.where(np.arange(300) < 60, y, -1)).model_
    out = resolved_path(f"{s3}/p.zarr")
    assert predict_to_zarr(model, X, out)["n"] == 300
    array = zarr.open_array(zarr.storage.ObjectStore(out.store), path=out.key, mode="r")
    predict_to_zarr(model, X, tmp_path / "p.zarr")
    here = zarr.open_array(tmp_path / "p.zarr", mode="r")
    assert_array_equal(array[:], here[:])
    assert dict(array.attrs) == dict(here.attrs)
    assert {path.parts[3] for path, _ in resolved_path(s3).below()} == {"p.zarr"}  # and no draft is left
    with pytest.raises(DataError, match="exists"):
        predict_to_zarr(model, X, out)


@pytest.mark.parametrize("differs", ["c/1", "zarr.json"])
def test_of_two_that_write_an_array_in_a_store_one_is_told(s3, differs):
    draft, target = StoredParts(f"{s3}/.draft", is_new=True), resolved_path(f"{s3}/p.zarr")
    draft.allocate("predictions", (6,), np.int64, 2)
    draft.write_range(0, {"predictions": np.arange(6)})
    source = draft.rows("predictions").path
    (target / differs).write_bytes(b"of another")
    with pytest.raises(DataError, match="exists"):
        publish_array(source, target, {"classes": ["a"]})
    assert (target / differs).read_bytes() == b"of another"
    assert (target / "c/0").read_bytes() == (source / "c/0").read_bytes()
    assert not (target / "c/2").is_file() or differs == "zarr.json"
