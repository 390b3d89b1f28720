"""The digits through the command line: first run, cache, predictions, and the exit codes."""

import csv
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dssl.pipeline.kinds import KINDS

from ..stored import contents
from .conftest import COMMAND, LOCAL, REPOSITORY, outcome

DIGITS = (REPOSITORY / "pipelines" / "digits_svm.yaml", "--set", "model.n_landmarks=120")  # of 500
STAGES = KINDS["svm"].names


@pytest.fixture(scope="module")
def digits(process, tmp_path_factory):
    """The first run of the digits, a process with two worker processes: (workspace, outcome)."""
    workspace = tmp_path_factory.mktemp("digits")
    return workspace, process("run", *DIGITS, "--on", LOCAL, "--workspace", workspace, "--json")


@pytest.fixture
def workspace(digits, tmp_path):
    """A copy of the digits's workspace."""
    return Path(shutil.copytree(digits[0], tmp_path / "work"))


def statuses(result):
    return {stage["name"]: stage["status"] for stage in result["stages"]}


@pytest.mark.cluster
def test_the_first_run_prints_one_document(digits):
    workspace, run = digits
    assert run.code == 0, run.err
    result = run.document  # nothing but JSON on standard output
    assert {"run", "status", "metrics", "baselines", "stages", "peak_rss_bytes", "report"} <= set(result)
    assert result["status"] == "done"
    assert [stage["name"] for stage in result["stages"]] == STAGES
    assert all(set(stage) >= {"name", "status", "seconds", "address"} for stage in result["stages"])
    assert isinstance(result["peak_rss_bytes"], int)
    assert Path(result["report"]).is_file()
    assert Path(result["report"]).is_relative_to(workspace)
    assert "2 local processes" in run.err
    for stage in STAGES:
        assert stage in run.err  # the log is on standard error
    assert "Warning" not in run.err
    assert "Traceback" not in run.err
    assert result["metrics"]["error"] < 0.15
    assert result["baselines"]["base"]["error"] - result["metrics"]["error"] > 0.08
    assert result["gain"]["unlabeled_data"] == "helped"


@pytest.mark.slow
def test_a_second_run_finds_everything_and_another_eta_the_graph(digits, workspace, dssl):
    result = digits[1].document
    again = dssl("run", *DIGITS, "--on", "in-process", "--workspace", workspace, "--json")
    assert again.code == 0, again.err
    assert set(statuses(again.document).values()) == {"cached"}
    assert outcome(again.document) == outcome(result)
    other = dssl("run", *DIGITS, "--on", "in-process", "--workspace", workspace, "--set", "model.eta=100", "--json")
    assert other.code == 0, other.err
    found = statuses(other.document)
    assert [name for name in STAGES if found[name] != "cached"] == [
        "selection", "models", "sample", "scores", "predictions"]
    assert other.document["run"] != again.document["run"]


@pytest.mark.slow
@pytest.mark.cluster
def test_threads_and_processes_give_the_same_result(digits, tmp_path, dssl):
    run = dssl("run", *DIGITS, "--on", "in-process", "--workspace", tmp_path, "--json")
    assert run.code == 0, run.err
    assert outcome(run.document) == outcome(digits[1].document)
    assert contents(tmp_path) == contents(digits[0])


def test_the_model_predicts_a_file(digits, tmp_path, dssl):
    X, y = load_digits(return_X_y=True)
    np.savetxt(tmp_path / "new.csv", X, fmt="%g", delimiter=",", header=",".join(f"p{i}" for i in range(64)),
               comments="")
    model = digits[1].document["model"]
    done = dssl("predict", model, tmp_path / "new.csv", tmp_path / "labels.csv", "--read", "target=none", "--json")
    assert done.code == 0, done.err
    with open(tmp_path / "labels.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert header == ["row", "label", "probability"]
    assert [int(row[0]) for row in rows] == list(range(len(y)))
    found = np.array([int(row[1]) for row in rows])
    assert len(found) == len(y)
    assert np.mean(found == y) > 0.85
    assert done.document["n"] == len(y)
    assert sum(done.document["counts"].values()) == len(y)
    assert dssl("verify", "--workspace", digits[0], "--json").document == {
        "artifacts": len(STAGES), "unfinished_parts": 0}


# Exit codes


@pytest.mark.slow
def test_a_process_ends_with_the_code_and_one_message(tmp_path, process):
    (tmp_path / "bad.yaml").write_text("name: bad\ndata: {source: digits}\nlabels: {per_clas: 2}\n")
    bad = process("run", tmp_path / "bad.yaml", "--workspace", tmp_path / "work", "--json")
    assert bad.code == bad.document["exit_code"] == 2
    assert "labels.per_clas" in bad.err
    assert "Traceback" not in bad.err
    assert not (tmp_path / "work").exists()


def test_damage_is_3(workspace, dssl):
    chunk = next(path for path in workspace.glob("artifacts/points/*/*/shared/train/c/**/*") if path.is_file())
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 4
    chunk.write_bytes(data)
    found = dssl("run", *DIGITS, "--on", "in-process", "--set", "model.eta=3", "--workspace", workspace, "--json")
    assert found.code == found.document["exit_code"] == 3
    assert str(chunk) in found.err
    assert "Traceback" not in found.err


def test_no_cluster_is_4(tmp_path, dssl):
    where = tmp_path / "gone.yaml"
    where.write_text("kind: address\naddress: tcp://127.0.0.1:9\ntimeout: 1\n")
    found = dssl("run", *DIGITS, "--on", where, "--workspace", tmp_path / "work", "--json")
    assert found.code == found.document["exit_code"] == 4
    assert "no scheduler answers at tcp://127.0.0.1:9" in found.err
    assert "Traceback" not in found.err


@pytest.mark.slow
def test_a_held_workspace_is_5(tmp_path, dssl, environment):
    hold = "import sys; from dssl.storage.artifacts import Workspace\n" \
           "with Workspace.at(sys.argv[1]).lock():\n    print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen([COMMAND[0], "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, env=environment)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        found = dssl("run", *DIGITS, "--on", "in-process", "--workspace", tmp_path, "--json")
    finally:
        holder.communicate("")
    assert found.code == found.document["exit_code"] == 5
    assert f"process {holder.pid}" in found.err
