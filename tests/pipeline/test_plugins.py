"""A kind of model and a kernel from outside, through every command, with no change in dssl.

`nearest_label.py` beside this file is installed as a user's package would be: a module on the path, and the metadata
that names it as an entry point.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

COMMAND = [sys.executable, "-m", "dssl"]
HERE = ("--on", "in-process")  # where it does not matter: a cluster takes ten seconds to start
REPOSITORY = Path(__file__).parents[2]
SPEC = """
name: nearest
data: {{source: {source}, test: {{count: 60}}, scale: none}}
labels: {{per_class: 3}}
graph: {{n_neighbors: 6}}
model: {{kind: nearest_label}}
"""
COMMANDS = """
import json, sys
from click.testing import CliRunner
from dssl.cli.main import main

for line in sys.stdin:
    done = CliRunner().invoke(main, json.loads(line))
    print(json.dumps([done.exit_code, done.stdout, done.stderr, repr(done.exception)]), flush=True)
"""


class Done(NamedTuple):
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str
    exception: str = ""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The environment of a user who has installed the plugin."""
    place = tmp_path_factory.mktemp("site")
    shutil.copy(Path(__file__).with_name("nearest_label.py"), place)
    info = place / "nearest_label-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nearest-label\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dssl.plugins]\nnearest = nearest_label\n")
    path = os.pathsep.join([str(place), str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def dssl(installed):
    """Run one command after the other in a process of that user: each start of a process takes seconds."""
    process = subprocess.Popen([sys.executable, "-c", COMMANDS], env=installed, text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)

    def call(*arguments):
        process.stdin.write(json.dumps([*map(str, arguments)]) + "\n")
        process.stdin.flush()
        return Done(*json.loads(process.stdout.readline()))

    yield call
    process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def fresh(installed):
    """Run one command in a process of its own."""
    def call(*arguments):
        return subprocess.run([*COMMAND, *map(str, arguments)], env=installed, capture_output=True, text=True,
                              timeout=200)
    return call


@pytest.fixture(scope="module")
def spec_file(points_file, tmp_path_factory):
    path = tmp_path_factory.mktemp("nearest") / "nearest.yaml"
    path.write_text(SPEC.format(source=points_file))
    return path


def run_of(done):
    assert done.returncode == 0, (done.stderr, done.exception)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_kind_from_outside_is_planned_killed_resumed_reported_and_predicts(dssl, fresh, installed, spec_file,
                                                                            points_file, tmp_path):
    workspace = tmp_path / "work"
    common = (spec_file, "--workspace", workspace, "--json")
    planned = run_of(dssl("plan", *common))["stages"]
    names = [stage["name"] for stage in planned]
    assert names[-3:] == ["paths", "models", "scores"]
    assert planned[names.index("paths")]["tasks"] >= 9  # as many as labels, of at most so many classes
    # Killed in the stage from outside, on a cluster of two processes ...
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("kind: local\nworkers: 2\n")
    process = subprocess.Popen([*COMMAND, "run", *map(str, common), "--on", str(cluster)], start_new_session=True,
                               env=installed | {"NEAREST_LABEL_MOST": "4"}, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    folder, receipts = workspace / "artifacts" / "paths", []
    until = time.monotonic() + 120
    while len(receipts) < 3 and time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
        receipts = list(folder.glob("*/*/receipts/*.json"))
    os.killpg(process.pid, 9)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*/*/receipts/*.json")}
    assert 3 <= len(kept) < 9
    # ... and resumed without what was finished
    assert {stage["name"]: stage["status"] for stage in run_of(dssl("plan", *common))["stages"]}["paths"] == "partial"
    result = run_of(dssl("run", *common, *HERE))
    assert all(path.stat().st_mtime_ns == changed for path, changed in kept.items())
    assert {stage["name"]: stage["status"] for stage in result["stages"]}["graph"] == "cached"
    assert result["status"] == "done"
    assert result["metrics"]["error"] < 0.4
    assert set(result["baselines"]) == {"majority"}
    page = Path(result["report"]).read_text()
    assert "nearest" in page
    assert "Graph health" in page
    # Another value of its own key makes its own stages anew
    again = run_of(dssl("run", *common, *HERE, "--set", "model.hops=true"))
    assert [stage["name"] for stage in again["stages"] if stage["status"] == "done"] == ["paths", "models", "scores"]
    # New points, in a fresh process, by a model that only the plugin knows
    with np.load(points_file) as arrays:
        np.save(tmp_path / "new.npy", arrays["X"][:40])
        true = arrays["y"][:40]
    predicted = fresh("predict", result["model"], tmp_path / "new.npy", tmp_path / "labels.npy")
    assert predicted.returncode == 0, predicted.stderr
    assert (np.load(tmp_path / "labels.npy") == true).mean() > 0.6
    assert dssl("verify", "--workspace", workspace).returncode == 0


@pytest.mark.slow
@pytest.mark.extended
def test_a_kernel_from_outside_serves_the_kinds_that_are_there(dssl, fresh, spec_file, points_file, tmp_path):
    result = run_of(dssl("run", spec_file, "--workspace", tmp_path, "--json", *HERE, "--set", "model={kind: svm}",
                         "--set", "kernel={name: rational, parameters: {width: 2.0, shape: 0.5}}", "--set",
                         "model.n_landmarks=40"))
    assert result["metrics"]["error"] < 0.4
    with np.load(points_file) as arrays:
        np.save(tmp_path / "new.npy", arrays["X"][:40])
    assert fresh("predict", result["model"], tmp_path / "new.npy", tmp_path / "labels.npy").returncode == 0


@pytest.mark.slow
def test_what_no_plugin_registers_is_refused_with_the_names_there_are(dssl, spec_file):
    refused = {"model.kind=nearest": "'clustering', 'kernel_clustering' or 'nearest_label'",
               "model={kind: svm};kernel.name=cauchy": "rbf, laplacian, linear, polynomial, cosine, rational",
               "model={kind: nearest_label, C: 3}": "multiscale and transductive have it, nearest_label has here",
               "kernel.name=linear": "kernel: model.kind is nearest_label, which has no use for it",
               "selection.cv=3": "selection: model.kind is nearest_label, which has no use for it",
               "baselines=[base]": "transductive have it, nearest_label has here name, data, labels, model"}
    for overrides, names in refused.items():
        planned = dssl("plan", spec_file, *(part for override in overrides.split(";") for part in ("--set", override)))
        assert planned.returncode == 2
        assert names in " ".join(planned.stderr.split()), planned.stderr
