"""The commands in this process: what they print, where, and the code they end with."""

import csv
import errno
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import yaml
import zarr
from click.testing import CliRunner
from sklearn.datasets import make_blobs

from dssl import __version__
from dssl.cli.main import main
from dssl.cli.runs import _print_rows
from dssl.data.ingest import open_dataset
from dssl.data.readers.file_rows import FileRow
from dssl.execution.in_process import InProcess
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.suggested_rows import SuggestedRows
from dssl.storage.lock import host_identity

NAMES = np.array(["oak, old", "birch", 'the "elm"'])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with points.csv, new.csv, spec.yaml and the workspace `work` of one run."""
    folder = tmp_path_factory.mktemp("cli")
    X, y = make_blobs(200, n_features=3, centers=3, cluster_std=2.0, random_state=0)
    for name, labels in (("points.csv", y), ("new.csv", None)):
        with open(folder / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["a", "b", "c"] + ([] if labels is None else ["kind"]))
            for i in range(200):
                writer.writerow([*X[i]] + ([] if labels is None else [NAMES[labels[i]]]))
    spec = {"name": "trees", "data": {"source": str(folder / "points.csv"), "read": {"target": "kind"},
                                      "test": {"count": 50}},
            "labels": {"per_class": 3}, "model": {"kind": "svm", "n_landmarks": 30},
            "graph": {"n_neighbors": 5}}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    done = invoke("run", folder / "spec.yaml", "--on", "in-process", "--workspace", folder / "work", "--json")
    assert done.exit_code == 0, done.stderr
    (folder / "result.json").write_text(done.stdout)
    return folder


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.fixture
def workspace(made, tmp_path):
    return Path(shutil.copytree(made / "work", tmp_path / "work"))


def test_a_help_text_loads_no_numbers():
    code = """import sys
from click.testing import CliRunner
from dssl.cli.main import main
assert "Commands" in CliRunner().invoke(main, ["--help"]).output
print(*sorted({"numpy", "numba", "pandas", "scipy", "sklearn", "zarr", "dask", "pydantic"} & set(sys.modules)))"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


@pytest.mark.slow
def test_a_small_run_starts_no_workers_unless_it_is_asked_to(made, tmp_path, monkeypatch):
    asked = []

    @contextmanager
    def open_runtime(runtime, memory_budget):
        asked.append(runtime)
        yield InProcess(1), "workers"

    monkeypatch.setattr("dssl.runtime.start.open_runtime", open_runtime)
    command = "run", made / "spec.yaml", "--until", "labels", "--workspace"
    assert "threads of this process" in invoke(*command, tmp_path / "small").stderr
    assert not asked
    monkeypatch.setattr("dssl.pipeline.plan.plan.START_SECONDS", 0.0)
    assert "running on workers" in invoke(*command, tmp_path / "large").stderr
    assert "running on workers" in invoke(*command, tmp_path / "asked", "--on", "tcp://127.0.0.1:1").stderr
    assert asked == [None, "tcp://127.0.0.1:1"]


def test_run_prints_a_table_or_one_document(made, workspace):
    result = json.loads((made / "result.json").read_text())
    assert result["name"] == "trees"
    assert {"run", "status", "metrics", "baselines", "stages", "peak_rss_bytes", "report"} <= set(result)
    shown = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", workspace)
    assert shown.exit_code == 0
    for text in ("trees: 50 test points", "test error", "base", "shuffled", "report:"):
        assert text in shown.stdout
    assert result["verdict"][0] in " ".join(shown.stdout.split())
    assert "running on" in shown.stderr
    assert "cached" in shown.stderr
    assert "running on" not in shown.stdout
    assert re.search(r"kept: [\d.]+ [kM]B in .*; `dssl gc --intermediate --yes --workspace .*` frees [\d.]+ [kM]B",
                     shown.stdout)


def test_plan(made, workspace):
    stages = json.loads(invoke("plan", made / "spec.yaml", "--workspace", workspace, "--json").stdout)["stages"]
    assert {stage["status"] for stage in stages} == {"cached"}
    assert all({"name", "status", "why", "address", "tasks", "peak_bytes"} <= set(stage) for stage in stages)
    changed = invoke("plan", made / "spec.yaml", "--workspace", workspace, "--set", "labels.random_state=5")
    assert changed.exit_code == 0
    assert "to run" in changed.stdout
    assert "after labels" in changed.stdout
    fresh = json.loads(invoke("plan", made / "spec.yaml", "--workspace", workspace / "new", "--json").stdout)
    assert {stage["status"] for stage in fresh["stages"]} == {"to run"}
    assert [stage["address"] for stage in fresh["stages"]] == [stage["address"] for stage in stages]


@pytest.mark.slow
def test_fresh_and_budget(made, workspace):
    done = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", workspace, "--fresh", "--json",
                  "--memory-budget", "200MB")
    assert done.exit_code == 0, done.stderr
    result, before = json.loads(done.stdout), json.loads((made / "result.json").read_text())
    assert {stage["status"] for stage in result["stages"]} == {"done"}
    assert result["metrics"] == before["metrics"]


@pytest.mark.parametrize("size", ["lots", "-5MB", "0", "5 parsecs"])
def test_a_budget_that_is_no_size(made, tmp_path, size):
    found = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", tmp_path / "w",
                   f"--memory-budget={size}")
    assert found.exit_code == 2
    assert f"'{size}' is not a size" in found.stderr
    assert not (tmp_path / "w").exists()


def test_predict_to_csv_and_npy(made, tmp_path):
    result = json.loads((made / "result.json").read_text())
    arguments = ("--read", "target=none")
    done = invoke("predict", result["model"], made / "new.csv", tmp_path / "out.csv", *arguments, "--json")
    assert done.exit_code == 0, done.stderr
    with open(tmp_path / "out.csv", newline="") as file:
        labels = np.array([row["label"] for row in csv.DictReader(file)])  # one column, whatever the names hold
    assert set(labels) <= set(NAMES)
    assert json.loads(done.stdout)["counts"] == {str(name): int((labels == name).sum()) for name in np.unique(labels)}
    shown = invoke("predict", result["model"], made / "new.csv", tmp_path / "out.npy", *arguments)
    assert "200 predictions in" in shown.stdout
    assert np.load(tmp_path / "out.npy").tolist() == labels.tolist()
    with_labels = invoke("predict", result["model"], made / "points.csv", tmp_path / "again.npy", "--read",
                         "target=kind")
    assert with_labels.exit_code == 0
    assert np.load(tmp_path / "again.npy").tolist() == labels.tolist()
    base = invoke("predict", made / "work" / "runs" / result["run"] / "result.json", made / "new.csv",
                  tmp_path / "base.npy", *arguments, "--of", "base")
    assert base.exit_code == 0
    assert np.load(tmp_path / "base.npy").tolist() != labels.tolist()


def test_suggest_writes_rows_to_label(made, workspace, tmp_path):
    run = json.loads((made / "result.json").read_text())["run"]
    done = invoke("suggest", run, "--workspace", workspace, "--count", 4, "--out", tmp_path / "next.csv", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    with open(tmp_path / "next.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == [row["row"] for row in found["rows"]]
    assert {row["predicted"] for row in rows} <= set(NAMES)
    assert [row["label"] for row in rows] == [""] * 4
    assert found["criterion"] == "model_change_v_optimality"
    shown = invoke("suggest", made / "spec.yaml", "--workspace", workspace, "--count", 4, "--out", tmp_path / "b.csv")
    assert "of which the model is uncertain, near many other rows" in shown.stdout
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "next.csv").read_bytes()


def test_rows_to_label_are_shown_with_brackets_and_colons_and_without_probabilities_that_there_are_not(capsys):
    suggested = SuggestedRows(np.array([7]), np.array([0.5]), [2.5], np.array([np.nan]), {}, ("note", "more"),
                              [FileRow("a.csv", 9, ("[/b] [red] :car:", "[x]"))])
    _print_rows(suggested)
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["row", "line", "score", "predicted", "note", "more"]
    assert row.split() == ["7", "9", "0.5", "2.5", "[/b]", "[red]", ":car:", "[x]"]


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["RUN", "--out", "next.txt"], 2, "ends in .txt"),
    (["RUN", "--out", "none/next.csv"], 2, "there is no folder none"),
    (["RUN", "--out", "points.csv"], 1, "is there already"),
    (["nothing", "--out", "points.csv"], 1, "is there already"),  # told before work begins
    (["RUN", "--out", "next.csv", "--criterion", "best"], 2, "criterion='best'"),
    (["RUN", "--out", "next.csv", "--count", "0"], 2, "count=0"),
    (["RUN", "--out", "next.csv", "--count", "500"], 1, "141 distinct points have no label"),
    (["nothing", "--out", "next.csv"], 1, "nothing does not exist"),
    (["spec.yaml", "--workspace", "new", "--out", "next.csv"], 1, "spec.yaml has not been run in new"),
    (["RUN"], 2, "--out"),
])
def test_what_cannot_be_suggested(made, monkeypatch, arguments, code, message):
    monkeypatch.chdir(made)
    run = json.loads((made / "result.json").read_text())["model"]
    found = invoke("suggest", *[run if argument == "RUN" else argument for argument in arguments])
    assert found.exit_code == code, found.stderr
    assert message in found.stderr
    assert not (made / "next.csv").exists()


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["MODEL", "new.csv", "out.txt"], 2, "ends in .txt"),
        (["MODEL", "new.csv", "out.csv", "--read", "target=c"], 1, "has 2 columns of features"),
    (["MODEL", "iris", "out.csv"], 1, "has 4 features"), (["work", "new.csv", "out.csv"], 1, "holds no model"),
    (["MODEL", "none.csv", "out.csv"], 1, "none.csv"),
    (["MODEL", "new.csv", "out.csv", "--of", "bass"], 1, "no model named 'bass'"),
    (["MODEL", "new.csv", "out.csv", "--read", "targt=none"], 2, "targt"),
    (["MODEL", "new.csv"], 2, "Missing argument"),
])
def test_a_prediction_that_cannot_be_made(made, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(made)
    model = json.loads((made / "result.json").read_text())["model"]
    found = invoke("predict", *[model if argument == "MODEL" else argument for argument in arguments])
    assert found.exit_code == code
    assert message in found.stderr
    assert not (made / "out.csv").exists()


def test_points_near_no_point_of_the_model_are_told_and_may_stay_without_a_label(made, tmp_path):
    model = json.loads((made / "result.json").read_text())["model"]
    (tmp_path / "far.csv").write_text((made / "new.csv").read_text() + "1e6,0,0\n0,-1e6,5\n")
    plain = invoke("predict", model, tmp_path / "far.csv", tmp_path / "out.csv", "--json")
    assert plain.exit_code == 0, plain.stderr
    found = json.loads(plain.stdout)
    assert (found["n"], found["unsupported"], sum(found["counts"].values())) == (202, 2, 202)
    assert "2 of 202 points are near no point of the model" in plain.stderr
    assert "--reject gives them no label" in plain.stderr
    done = invoke("predict", model, tmp_path / "far.csv", tmp_path / "empty.csv", "--reject", "--json")
    found = json.loads(done.stdout)
    assert (found["unsupported"], sum(found["counts"].values())) == (2, 200)
    some, whole = (pd.read_csv(tmp_path / name) for name in ("empty.csv", "out.csv"))
    assert whole.columns.tolist() == ["row", "label", some.columns[2]]
    assert some.columns.tolist()[3:4] == ["rejected"]
    assert some["label"][:200].astype(whole["label"].dtype).tolist() == whole["label"][:200].tolist()
    assert some["row"][some["rejected"]].tolist() == [200, 201]
    assert some["label"][200:].isna().all()
    near = invoke("predict", model, made / "new.csv", tmp_path / "near.csv", "--reject", "--json")
    assert json.loads(near.stdout)["unsupported"] == 0
    assert "warning" not in near.stderr
    refused = invoke("predict", model, tmp_path / "far.csv", tmp_path / "out.npy", "--reject")
    assert refused.exit_code == 2
    assert "write a .csv or .parquet file" in refused.stderr
    assert not (tmp_path / "out.npy").exists()


def test_verify(workspace, tmp_path):
    sound = invoke("verify", "--workspace", workspace)
    assert (sound.exit_code, sound.stdout) == (0, f"{len(KINDS['svm'].stages)} artifacts are as they were written\n")
    assert json.loads(invoke("verify", "--workspace", workspace, "--json").stdout) == {
        "artifacts": len(KINDS["svm"].stages), "unfinished_parts": 0}
    chunks = workspace.glob("artifacts/models/*/*/parts/000000/*/model.coef/c/**/*")
    chunk = next(path for path in chunks if path.is_file())
    chunk.unlink()
    damaged = invoke("verify", "--workspace", workspace)
    assert damaged.exit_code == 3
    assert f"{chunk} is missing" in damaged.stderr
    assert damaged.stdout == ""
    nowhere = invoke("verify", "--workspace", tmp_path / "wrok")
    assert nowhere.exit_code == 1  # a name with a slip in it is not a sound workspace
    assert "wrok" in nowhere.stderr


@pytest.mark.slow
def test_report_shows_the_newest(made, workspace):
    first = invoke("report", "--workspace", workspace).stdout.strip()
    assert Path(first).is_file()
    done = [json.loads(invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", workspace,
                              "--json").stdout) for _ in range(3)]  # perhaps within one second
    assert invoke("report", "--workspace", workspace).stdout.strip() == done[-1]["report"]
    assert invoke("report", done[0]["run"], "--workspace", workspace).stdout.strip() == done[0]["report"]
    folder = workspace / "runs" / done[0]["run"]
    for name in (done[0]["run"][:-2], folder, folder / "result.json"):  # wherever a run is named, all of these name it
        assert invoke("report", name, "--workspace", workspace).stdout.strip() == done[0]["report"]
    missing = invoke("report", "20200101T000000-abcdef", "--workspace", workspace)
    assert missing.exit_code == 1
    assert "no run 20200101T000000-abcdef" in missing.stderr
    (folder / "report.html").unlink()
    assert f"{folder} has no report" in invoke("report", folder, "--workspace", workspace).stderr


def test_ingest(made, tmp_path):
    done = invoke("ingest", made / "points.csv", tmp_path / "stored", "--read", "target=kind", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["n"], facts["d"], facts["labeled"]) == (200, 3, True)
    again = invoke("ingest", made / "points.csv", tmp_path / "stored")
    assert again.exit_code == 1
    assert "is not empty" in again.stderr
    plain = invoke("ingest", "iris", tmp_path / "iris")
    assert "150 points x 4 features" in plain.stdout
    wrong = invoke("ingest", made / "points.csv", tmp_path / "other", "--read", "target=kin")
    assert wrong.exit_code == 1
    assert "kin" in wrong.stderr
    assert invoke("ingest", made / "points.csv", tmp_path / "other", "--read", "dtype=float16").exit_code == 2


def test_ingest_of_several_files_and_append(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = (made / "points.csv").read_text().splitlines(keepends=True)
    for name, lines in (("part-2.csv", rows[1:50]), ("part-10.csv", rows[50:120]), ("later.csv", rows[120:])):
        Path(name).write_text(rows[0] + "".join(lines))
    for sources, folder in ((["part-*.csv"], "one"), (["part-2.csv", "part-10.csv"], "two")):
        done = invoke("ingest", *sources, folder, "--read", "target=kind", "--json")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["n"] == 119
    added = invoke("ingest", "later.csv", "one", "--append", "--json")
    assert added.exit_code == 0, added.stderr
    facts = json.loads(added.stdout)
    assert (facts["n"], [file["rows"] for file in facts["attributes"]["files"]]) == (200, [49, 70, 81])
    again = invoke("ingest", "*r*.csv", "one", "--append")
    assert again.exit_code == 0
    assert "nothing new: one has all rows of the source" in again.stderr
    assert "200 points" in again.stdout
    whole = open_dataset(made / "points.csv", target="kind")
    assert np.array_equal(open_dataset("one").X.read_all(), whole.X.read_all())
    assert np.array_equal(open_dataset("one").targets(), whole.targets())
    model = json.loads((made / "result.json").read_text())["model"]
    for source, out in (("one", "one.npy"), (made / "points.csv", "points.npy")):
        assert invoke("predict", model, source, out).exit_code == 0
    assert np.load("one.npy").tolist() == np.load("points.npy").tolist()
    for arguments, code, message in ((["later.csv", "none", "--append"], 1, "has no dataset.json"),
                                  (["none-*.csv", "three"], 1, "no file matches none-*.csv"),
                                  (["later.csv", "one", "--append", "--read", "targt=y"], 2, "targt"),
                                  (["later.csv", "four", "--again"], 2, "--again without --append"),
                                  (["later.csv", "one"], 1, "--append"), (["later.csv"], 2, "Missing argument")):
        found = invoke("ingest", *arguments)
        assert (found.exit_code, message in found.stderr) == (code, True), found.stderr
    process = psutil.Process()
    Path("one/lock.json").write_text(json.dumps({**host_identity(), "pid": process.pid, "token": "another",
                                                 "started": process.create_time()}))
    held = invoke("ingest", "later.csv", "one", "--append")
    assert held.exit_code == 5
    assert "one data set" in held.stderr
    assert len(open_dataset("one")) == 200
def test_ingest_of_sparse_rows_and_missing_cells(tmp_path):
    (tmp_path / "wide.svm").write_text("1 7:0.5 1200:2\n0 3:1\n")
    done = invoke("ingest", tmp_path / "wide.svm", tmp_path / "wide", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["attributes"]["sparse"]
    X = open_dataset(tmp_path / "wide").X
    assert (X.is_sparse, X.shape, X.nnz) == (True, (2, 1200), 3)
    (tmp_path / "t.csv").write_text("a,b,y\n1,red,0\n,blue,1\n")
    refused = invoke("ingest", tmp_path / "t.csv", tmp_path / "t")
    assert refused.exit_code == 1
    assert "when_text: one_hot" in refused.stderr
    done = invoke("ingest", tmp_path / "t.csv", tmp_path / "t", "--read", "when_missing=impute", "--read",
                  "when_text=one_hot")
    assert done.exit_code == 0, done.stderr
    assert "2 points x 3 features" in done.stdout
    assert "1 missing cells were filled" in done.stderr
    assert open_dataset(tmp_path / "t").X.read_all().tolist() == [[1, 0, 1], [1, 1, 0]]
    unknown = invoke("ingest", tmp_path / "t.csv", tmp_path / "u", "--read", "when_text=code")
    assert unknown.exit_code == 2
    assert "one_hot" in unknown.stderr


def test_gc_lists_sizes_and_removes_when_told(made, workspace):
    kept = json.loads(invoke("gc", "--workspace", workspace, "--json").stdout)
    assert (kept["removed"], kept["items"], len(kept["kept_runs"])) == (False, [], 1)
    assert "of it is intermediate: --intermediate" in invoke("gc", "--workspace", workspace).stdout
    passing = json.loads(invoke("gc", "--workspace", workspace, "--intermediate", "--json").stdout)
    assert {item["what"] for item in passing["items"]} == {"intermediate"}
    assert passing["bytes"] == kept["intermediate_bytes"] > 0
    listed = invoke("gc", "--workspace", workspace, "--keep-runs", "0", "--dry-run")
    assert listed.exit_code == 0
    for text in ("columns", "on disk", "can be removed", "0 runs are kept", "--yes"):
        assert text in listed.stdout
    assert invoke("verify", "--workspace", workspace).exit_code == 0
    done = json.loads(invoke("gc", "--workspace", workspace, "--keep-runs", "0", "--yes", "--json").stdout)
    assert done["removed"]
    assert done["bytes"] == sum(item["bytes"] for item in done["items"]) > 0
    assert invoke("verify", "--workspace", workspace).exit_code == 1  # there is nothing
    planned = json.loads(invoke("plan", made / "spec.yaml", "--workspace", workspace, "--json").stdout)["stages"]
    assert {stage["status"] for stage in planned} == {"to run"}
    assert invoke("gc", "--workspace", workspace, "--yes", "--dry-run").exit_code == 2
    assert "there is no workspace" in invoke("gc", "--workspace", workspace / "none").stderr


@pytest.mark.slow
def test_workers_read_and_predict_what_threads_do(made, tmp_path, cluster_client, monkeypatch):
    monkeypatch.chdir(made)  # where no worker was started
    (tmp_path / "workers").mkdir()
    (tmp_path / "threads").mkdir()
    for name, place in (("threads", "in-process"), ("workers", cluster_client.scheduler.address)):
        common = ("--on", place, "--memory-budget", "100kB")
        done = invoke("ingest", "points.csv", tmp_path / name / "data", "--read", "target=kind", *common)
        assert done.exit_code == 0, done.stderr
        added = invoke("ingest", made / "points.csv", tmp_path / name / "data", "--append", "--again", *common,
                       "--json")
        assert json.loads(added.stdout)["n"] == 400
        for out in ("labels.csv", "labels.npy", "labels.zarr"):
            done = invoke("predict", "result.json", "new.csv", tmp_path / name / out, *common, "--json")
            assert done.exit_code == 0, done.stderr
            assert json.loads(done.stdout)["n"] == 200
        left = {path.name for path in (tmp_path / name).iterdir()}
        assert left == {"data", "labels.csv", "labels.npy", "labels.zarr"}
    threads, workers = tmp_path / "threads", tmp_path / "workers"
    for out in ("labels.csv", "labels.npy"):
        assert (workers / out).read_bytes() == (threads / out).read_bytes()
    for in_threads, on_workers in zip(*([zarr.open_array(folder / "labels.zarr")[:], *(
            rows.read_all() for rows in (data.X, data.y))] for folder in (threads, workers)
            for data in [open_dataset(folder / "data")]), strict=True):
        np.testing.assert_array_equal(on_workers, in_threads)


@pytest.mark.filterwarnings("always::dssl.storage.lock.WaitsForLock")
def test_a_run_waits_for_another_as_long_as_it_is_told(made, workspace):
    from dssl.storage.artifacts import Workspace
    with Workspace.at(workspace).lock():
        found = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", workspace, "--wait", "0.1")
    assert found.exit_code == 5
    assert "waiting for it" in found.stderr.replace("\n", " ")
    assert invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", workspace, "--wait").exit_code == 0


def test_schema_help_and_version():
    schema = json.loads(invoke("schema").stdout)
    for part in schema["anyOf"]:
        kind = schema["$defs"][part["$ref"].rsplit("/")[-1]]
        assert {"name", "data", "labels", "model", "memory_budget"} <= set(kind["properties"])
    shown = invoke("--help")
    for command in ("run", "plan", "ingest", "predict", "suggest", "verify", "inspect", "gc", "report", "doctor",
                    "schema", "cluster"):
        assert command in shown.stdout
        assert invoke(command, "--help").exit_code == 0
    assert invoke("--version").stdout == f"dssl, version {__version__}\n"


def test_a_cluster_that_is_not_there_is_refused_where_everything_is_cached(made, workspace):
    done = invoke("run", made / "spec.yaml", "--on", "nowhere.yaml", "--workspace", workspace)
    assert done.exit_code == 2
    assert "there is no file nowhere.yaml" in done.stderr


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["run", "none.yaml"], 2, "there is no file none.yaml"), (["rnu"], 2, "No such command"), (["run"], 2, "Missing"),
    (["run", "spec.yaml", "--set", "model.etta=3"], 2, "model.etta"),
    (["run", "spec.yaml", "--on", "none.yaml"], 2, "there is no file none.yaml"),
    (["run", "spec.yaml", "--on", "spec.yaml"], 2, "spec.yaml is not a cluster description"),
    (["run", "spec.yaml", "--on", "tcp://10.0.0.1:8786"], 4, "neither encrypted nor on this machine"),
    (["run", "spec.yaml", "--workspace", "ftp://host/work"], 2, "ftp://host/work is not supported"),
    (["run", "spec.yaml", "--workspace", "s3://key:hush@bucket/work"], 2, "credentials never belong in a URL"),
    (["plan", "spec.yaml", "--set", "data.source=none.csv"], 1, "none.csv"),
    (["run", "spec.yaml", "--from", "columns", "--fresh"], 2, "--fresh and --from columns"),
    (["run", "spec.yaml", "--from", "colums"], 2, "--from 'colums' is not a stage"),
    (["plan", "spec.yaml", "--until", "colums"], 2, "columns, covariance"),
    (["run", "spec.yaml", "--on", "in-process", "--memory-budget", "20kB"], 1, "memory budget is 20kB"),
    (["inspect", "colums"], 1, "nothing called 'colums'"),
])
def test_exit_codes(made, monkeypatch, tmp_path, arguments, code, message):
    monkeypatch.chdir(made)
    # A change, so that there is something to run, and a workspace that nothing may be written to.
    extra = ["--set", "model.eta=7"] if arguments[0] == "run" and len(arguments) > 2 else []
    found = invoke(*arguments, *extra, *([] if "--workspace" in arguments or len(arguments) < 3 else
                                         ["--workspace", tmp_path / "new"]))
    assert found.exit_code == code
    assert message in found.stderr
    assert found.stdout == ""
    assert not (tmp_path / "new").exists()


def test_a_file_that_may_not_be_written_is_1(made, tmp_path):
    (tmp_path / "file").write_text("in the way")
    found = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", tmp_path / "file" / "work")
    assert found.exit_code == 1
    assert "fix:" in found.stderr
    assert str(tmp_path / "file") in found.stderr


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="its folder takes no files, whoever writes")
def test_an_output_where_no_file_can_be_written_is_named_before_work_begins(made):
    model = json.loads((made / "result.json").read_text())["model"]
    for arguments in (("predict", model, made / "new.csv", "/proc/x.csv"),
                      ("predict", model, made / "new.csv", "/proc/x.zarr"),
                      ("suggest", model, "--count", "2", "--out", "/proc/x.csv"), ("export", model, "/proc/x.dssl.zip"),
                      ("init", made / "points.csv", "--out", "/proc/x.yaml")):
        found = invoke(*arguments)
        assert found.exit_code == 1, found.stderr
        assert f"{arguments[-1]} cannot be written: the folder /proc takes no new files" in found.stderr
        assert "finished parts" not in found.stderr


@pytest.mark.parametrize(("number", "fix"), [
    (errno.EROFS, "name a folder to write to, then run again\n"),
    (errno.ENOSPC, "free space, then run again: finished parts are kept\n"),
    (errno.ENOENT, "check that the file is there for every process that runs tasks (`dssl doctor --on`), then run "
                   "again: finished parts are kept\n")])
def test_only_where_parts_can_be_written_are_finished_ones_said_to_be_kept(monkeypatch, number, fix):
    def fail():
        raise OSError(number, os.strerror(number), "file")

    monkeypatch.setattr("dssl.pipeline.load.schema", fail)
    found = invoke("schema")
    assert found.exit_code == 1
    assert found.stderr.endswith(f"fix: {fix}")


def test_the_plan_shows_what_a_stage_takes(made, workspace):
    shown = invoke("plan", made / "spec.yaml", "--workspace", workspace / "new")
    assert shown.exit_code == 0
    for text in ("tasks", "peak memory", "< ", "<: an upper bound", "entries of W", "MB"):
        assert text in shown.stdout
    partly = invoke("plan", made / "spec.yaml", "--workspace", workspace, "--from", "covariance", "--until", "models")
    assert "asked to be made anew" in partly.stdout
    assert "scores" not in partly.stdout
    document = json.loads(invoke("plan", made / "spec.yaml", "--workspace", workspace, "--json", "--memory-budget",
                                 "300MB").stdout)
    assert document["memory_budget"] == 300_000_000


@pytest.mark.slow
def test_a_plan_for_a_shape_and_workers(made, workspace):
    asked = ("plan", made / "spec.yaml", "--set", "data.source=nowhere.npz", "--columns", "64",
             "--workspace", workspace)
    shown = invoke(*asked, "--points", "1e5", "--workers", "8", "--memory", "4GiB")
    assert shown.exit_code == 0, shown.stderr
    for text in ("one core", "8 workers", "in all", "to run"):
        assert text in shown.stdout
    found = invoke(*asked, "--points", "1e8", "--memory", "4GiB", "--dtype", "float64", "--json")
    assert found.exit_code == 1
    document = json.loads(found.stdout)
    refused = {stage["name"]: stage["refused"] for stage in document["stages"] if stage["refused"]}
    assert "bytes" in refused["columns"]
    assert document["stages"][0]["read_bytes"] == 10**8 * 64 * 8
    assert document["total"]["core_seconds"] == pytest.approx(
        sum(stage["core_seconds"] or 0 for stage in document["stages"]))
    assert document["task_limit"] < 4 << 30
    assert "refused: stage columns" in invoke(*asked, "--points", "100_000_000").stdout


@pytest.mark.parametrize("number", ["many", "0", "1.5", "-3", "1e999"])
def test_a_number_of_points_that_is_none(made, number):
    wrong = invoke("plan", made / "spec.yaml", "--points", number, "--columns", "3")
    assert wrong.exit_code == 2
    assert "such as 1e8" in wrong.stderr


def test_from_and_until(made, workspace):
    stopped = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", workspace, "--from", "landmarks",
                     "--until", "columns", "--json")
    assert stopped.exit_code == 0, stopped.stderr
    result = json.loads(stopped.stdout)
    assert result["status"] == "stopped"
    assert (result["metrics"], result["report"]) == ({}, None)
    assert [stage["name"] for stage in result["stages"] if stage["status"] == "done"] == ["landmarks", "columns"]
    shown = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", workspace, "--until", "split")
    assert shown.stdout == "trees: stopped after split\n"
    no_model = invoke("predict", workspace / "runs" / result["run"] / "result.json", made / "new.csv", "out.csv")
    assert no_model.exit_code == 1
    assert "was stopped before" in no_model.stderr


def test_quiet(made, workspace):
    done = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", workspace, "--quiet", "--json")
    assert done.exit_code == 0
    assert done.stderr == ""
    assert json.loads(done.stdout)["status"] == "done"


def test_inspect(made, workspace):
    shown = invoke("inspect", "graph", "--workspace", workspace)
    assert shown.exit_code == 0
    for text in ("artifact", "self_tuned", "parts/000000/data", "float64", "bytes_on_disk"):
        assert text in shown.stdout
    run = json.loads((made / "result.json").read_text())["run"]
    found = json.loads(invoke("inspect", run, "--workspace", workspace, "--json").stdout)
    assert (found["kind"], found["name"]) == ("run", "trees")
    text = invoke("inspect", run, "--workspace", workspace).stdout
    assert text.startswith(f"run {run} of trees: done in ")
    for part in ("majority", "McNemar's test", "test error", "on disk", "covariance", "n_landmarks: 30", "runs/" + run,
                 "intermediate"):
        assert part in text
    assert "duplicates" not in text  # a default
    assert "{" not in text
    listed, = json.loads(invoke("inspect", "--workspace", workspace, "--json").stdout)
    assert (listed["run"], listed["name"], listed["status"]) == (run, "trees", "done")
    assert listed["disk_bytes"] > listed["intermediate_bytes"] > 0
    assert run in invoke("inspect", "--workspace", workspace).stdout
    failed = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", workspace, "--set",
                    "solver.method=gauss_seidel", "--set", "solver.max_iter=1", "--json")
    text = invoke("inspect", json.loads(failed.stdout)["run"], "--workspace", workspace).stdout
    for part in ("of trees: failed in stage columns", "NotConverged: ", "fix: ", "max_iter: 1"):
        assert part in text


def test_doctor(tmp_path):
    sound = invoke("doctor", "--workspace", tmp_path / "work")
    assert sound.exit_code == 0, sound.stdout
    assert "ok  Python: 3." in sound.stdout
    (tmp_path / "file").write_text("in the way")
    found = invoke("doctor", "--workspace", tmp_path / "file" / "work", "--json")
    assert found.exit_code == 1
    document = json.loads(found.stdout)
    assert document["status"] == "problem"
    assert all(set(check) == {"name", "level", "state", "fix"} for check in document["checks"])


def test_a_moved_workspace_predicts(made, workspace, tmp_path):
    moved = workspace.rename(tmp_path / "moved")
    run = json.loads((made / "result.json").read_text())["run"]
    done = invoke("predict", moved / "runs" / run / "result.json", made / "new.csv", tmp_path / "out.npy", "--read",
                  "target=none")
    assert done.exit_code == 0, done.stderr


def test_from_after_until_is_refused_and_nothing_is_deleted(made, workspace):
    before = sorted(path.name for path in workspace.glob("artifacts/*/*"))
    done = invoke("run", made / "spec.yaml", "--workspace", workspace, "--from", "scores", "--until", "graph")
    assert done.exit_code == 2
    assert "scores comes after graph" in done.stderr
    assert sorted(path.name for path in workspace.glob("artifacts/*/*")) == before


def test_what_comes_after_until_is_kept(made, workspace):
    before = sorted(path.name for path in workspace.glob("artifacts/*/*"))
    done = invoke("run", made / "spec.yaml", "--workspace", workspace, "--on", "in-process", "--json",
                  "--from", "points", "--until", "graph")
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in workspace.glob("artifacts/*/*")) == before


def test_predictions_do_not_take_the_place_of_the_points(made, workspace, tmp_path):
    result = next(workspace.glob("runs/*/result.json"))
    points = Path(shutil.copy(made / "new.csv", tmp_path / "new.csv"))
    before = points.read_bytes()
    for out, words in ((points, "is the source itself"), (tmp_path / "none" / "p.csv", "there is no folder")):
        done = invoke("predict", result, points, out)
        assert done.exit_code == 2
        assert words in done.stderr
    assert points.read_bytes() == before
    assert invoke("predict", result, points, tmp_path / "p.csv").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["new.csv", "p.csv"]


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "npy"])
def test_predictions_replace_predictions_alone(made, workspace, tmp_path, ending):
    result, out = next(workspace.glob("runs/*/result.json")), tmp_path / f"p.{ending}"
    for content in (b"id,value\n1,2\n", b"\xff\xfe", b""):
        out.write_bytes(content)
        done = invoke("predict", result, made / "new.csv", out)
        assert done.exit_code == 2, done.stderr
        assert "cannot be recognized as predictions" in done.stderr
        assert "--overwrite" in done.stderr
        assert out.read_bytes() == content
    done = invoke("predict", result, made / "new.csv", out, "--overwrite")
    assert done.exit_code == 0, done.stderr
    first = out.read_bytes()
    done = invoke("predict", result, made / "new.csv", out)
    assert done.exit_code == (2 if ending == "npy" else 0), done.stderr  # an array does not say what it is
    assert out.read_bytes() == first
    out.unlink()
    out.mkdir()
    done = invoke("predict", result, made / "new.csv", out, "--overwrite")
    assert done.exit_code == 2
    assert "is a folder" in done.stderr


def test_lists_of_neighbors_have_no_other_ending(made, tmp_path):
    done = invoke("neighbors", made / "new.csv", tmp_path / "lists.csv")
    assert done.exit_code == 2
    assert "ends in .csv" in done.stderr


# --json of what fails


@pytest.mark.parametrize(("arguments", "code", "message"), [
    (["run", "none.yaml", "--json"], 2, "there is no file none.yaml"),
    (["run", "spec.yaml", "--workers", "3", "--json"], 2, "No such option"),
    (["predict", "work", "new.csv", "out.csv", "--json"], 1, "holds no model"),
    (["verify", "--workspace", "none", "--json"], 1, "holds no artifacts"),
])
def test_what_fails_is_one_document_too(made, monkeypatch, tmp_path, arguments, code, message):
    monkeypatch.chdir(made)
    found = invoke(*arguments, *(["--workspace", tmp_path / "new"] if arguments[0] == "run" else []))
    document = json.loads(found.stdout)
    assert (found.exit_code, document["exit_code"], document["status"]) == (code, code, "failed")
    assert message in document["error"]["what"]
    assert document["error"]["why"]
    assert document["error"]["fix"]
    assert message in found.stderr  # for whoever reads along


def test_a_run_that_fails_says_where_and_what_is_done(made, tmp_path):
    found = invoke("run", made / "spec.yaml", "--on", "in-process", "--workspace", tmp_path, "--json", "--set",
                   "solver.method=gauss_seidel", "--set", "solver.max_iter=1")
    document = json.loads(found.stdout)
    assert (found.exit_code, document["status"], document["stage"]) == (1, "failed", "columns")
    assert document["error"]["type"] == "NotConverged"
    assert [stage["name"] for stage in document["stages"]] == KINDS["svm"].names[:KINDS["svm"].names.index("columns")]
    assert Path(document["folder"]) == tmp_path / "runs" / document["run"]


def test_an_error_that_nobody_expects_is_a_document_and_a_traceback(made, monkeypatch, tmp_path):
    def broken(*arguments, **options):
        raise ZeroDivisionError("a slip")

    monkeypatch.setattr("dssl.pipeline.run.run", broken)
    arguments = ["run", str(made / "spec.yaml"), "--on", "in-process", "--workspace", str(tmp_path), "--json"]
    found = CliRunner().invoke(main, arguments)
    assert isinstance(found.exception, ZeroDivisionError)
    assert json.loads(found.stdout)["error"] == {"type": "ZeroDivisionError", "what": "a slip", "why": "", "fix": ""}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root writes everywhere")
def test_a_folder_that_may_not_be_written_is_named_with_other_places(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,label\n" + "1.5,2.5,x\n0.5,1.5,y\n" * 20, encoding="utf-8")
    tmp_path.chmod(0o555)
    rights = "-dac_override,-dac_read_search"
    as_others = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"] if os.geteuid() == 0 else []
    done = subprocess.run([*as_others, sys.executable, "-m", "dssl", "init", "t.csv"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    tmp_path.chmod(0o755)
    assert done.returncode == 1
    assert "t.yaml cannot be written: the folder . takes no new files (Permission denied)" in done.stderr
    assert "name a path in a folder that you may write to" in done.stderr


def test_the_status_of_a_workspace_without_runs_says_so(tmp_path):
    shown = CliRunner().invoke(main, ["status", "--workspace", str(tmp_path / "wrong")], catch_exceptions=False)
    assert shown.exit_code == 0
    assert shown.stdout == f"{tmp_path}/wrong has no runs; --workspace names another workspace\n"
