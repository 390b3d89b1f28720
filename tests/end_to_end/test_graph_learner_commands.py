"""A learner on the graph through the command line: killed on two processes, resumed in this one; predictions."""

import csv
import os
import signal
import time

import numpy as np
import psutil
import pytest

from dssl.pipeline.kinds import KINDS

from .conftest import LOCAL, outcome
from .test_disasters import alive, same_group

pytestmark = [pytest.mark.slow]
SPEC = """
name: few_labels
data: {source: SOURCE, unlabeled: -1, test: {count: 200}, scale: none}
labels: {per_class: 3}
model: {kind: graph}
"""


@pytest.fixture(scope="module")
def few_labels(tmp_path_factory):
    """A spec of two moons in the plane, and 30 points far from them of which none has a label: (spec, source)."""
    folder = tmp_path_factory.mktemp("moons")
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, np.pi, 4000)
    upper = np.c_[np.cos(angle[:2000]), np.sin(angle[:2000])]
    lower = np.c_[1 - np.cos(angle[2000:]), 0.5 - np.sin(angle[2000:])]
    X = np.r_[upper, lower, np.full((30, 2), 50.0)] + 0.08 * rng.normal(size=(4030, 2))
    np.savez(folder / "moons.npz", X=X.astype(np.float32), y=np.repeat([0, 1, -1], [2000, 2000, 30]))
    (folder / "few_labels.yaml").write_text(SPEC.replace("SOURCE", str(folder / "moons.npz")))
    return folder / "few_labels.yaml", folder / "moons.npz"


@pytest.fixture(scope="module")
def undisturbed(dssl, few_labels, tmp_path_factory):
    """The run when nothing happens to it."""
    done = dssl("run", few_labels[0], "--workspace", tmp_path_factory.mktemp("work"), "--on", "in-process", "--json")
    assert done.code == 0, done.err
    return done.document


def test_both_accuracies_and_the_baselines(undisturbed):
    metrics, transductive = undisturbed["metrics"], undisturbed["transductive"]
    assert metrics["error"] < 0.05
    assert transductive["error"] < 0.05
    assert transductive["n_test"] == 4000 - 200 - 6
    assert metrics["error"] < min(own["error"] for own in undisturbed["baselines"].values())
    assert undisturbed["gain"]["unlabeled_data"] == "helped"
    assert 0 < undisturbed["unreachable"]["count"] <= 30
    assert undisturbed["unreachable"]["handled"] == "no prediction"


@pytest.mark.cluster
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path, start, dssl, few_labels, undisturbed):
    run = start("run", few_labels[0], "--workspace", tmp_path, "--on", LOCAL, "--json")
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("artifacts/health/*/manifest.json")):
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < deadline, "the learner was not reached"
        time.sleep(0.02)
    group = [process for process in psutil.process_iter() if same_group(process, run.pid)]
    os.killpg(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    while any(alive(process) for process in group):
        time.sleep(0.02)
    again = dssl("run", few_labels[0], "--workspace", tmp_path, "--on", "in-process", "--json")
    assert again.code == 0, again.err
    names = KINDS["graph"].names
    done = {stage["name"]: stage["status"] for stage in again.document["stages"]}
    cached = {name for name in names if done[name] == "cached"}
    assert set(names[:names.index("selection")]) <= cached  # which has nothing to choose, and may have ended too
    assert cached <= set(names[:names.index("vertex_values")])
    assert outcome(again.document)[:3] == outcome(undisturbed)[:3]
    assert again.document["transductive"] == undisturbed["transductive"]
    assert dssl("verify", "--workspace", tmp_path, "--json").document == {"artifacts": len(names),
                                                                          "unfinished_parts": 0}


@pytest.mark.parametrize("options", [(), ("--reject",)])
def test_points_that_no_label_reaches_have_no_label(undisturbed, few_labels, tmp_path, dssl, options):
    with np.load(few_labels[1]) as arrays:
        y = arrays["y"]
    for name in ("labels.npy", "labels.csv", "labels.zarr"):
        done = dssl("predict", undisturbed["model"], few_labels[1], tmp_path / name, *options, "--json")
        assert done.code == 0, done.err
        assert done.document["unsupported"] == 30
        assert "30 of 4030 points have no neighbor that a label or a cluster reaches, so they get none" in done.err
    found = np.load(tmp_path / "labels.npy")
    assert ((found == -1) == (y == -1)).all()
    assert (found == y).mean() > 0.95
    with open(tmp_path / "labels.csv", newline="") as file:
        cells = [row["label"] for row in csv.DictReader(file)]
    assert [cell or "-1" for cell in cells] == [str(label) for label in found]
