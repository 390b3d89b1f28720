"""A split and its labels, drawn block by block: the same rows in use, the shares of classes, no block left out."""

import numpy as np
import pytest
import yaml

from dssl.base.errors import DataError
from dssl.data import labels
from dssl.execution.in_process import InProcess
from dssl.pipeline import points, rows_in_use, split
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run

from .split_arrays import split_arrays

N = 1000


@pytest.fixture
def blocks(monkeypatch):
    """Hold no more than 90 rows of a split."""
    for module in (labels, split, rows_in_use, points):
        monkeypatch.setattr(module, "DRAW_ROWS", 90)


def made(tmp_path, y, **data):
    np.savez(tmp_path / "points.npz", X=np.arange(2.0 * N).reshape(N, 2), y=y, split=(np.arange(N) % 4 == 0))
    how = data.pop("labels", {"count": 30})
    data = {"source": str(tmp_path / "points.npz"), "test": {"count": 200}, **data}
    spec = {"name": "split", "data": data, "labels": how, "model": {"kind": "laprls"}}
    run(spec, workspace=tmp_path / "work", execution=InProcess(1), until="labels")
    made = plan(spec, workspace=tmp_path / "work")
    shown = made.artifact("labels").parts.read(0)
    return split_arrays(made.artifact("split").parts), made.artifact("split").attributes, shown


def test_classes_keep_their_shares_and_every_block_is_drawn_from(tmp_path, blocks):
    y = np.where(np.arange(N) % 5 == 0, "few", "many")
    found, attributes, shown = made(tmp_path, y, labels={"count": 60}, points=700)
    assert attributes["per_class"] == [200, 800]
    assert (attributes["n_train"], attributes["n_test"]) == (700, 200)
    assert np.bincount(found["test_codes"]).tolist() == [40, 160]
    assert len(np.unique(np.concatenate([found["train"], found["test"]]))) == 900
    for name in ("train", "test"):
        assert (np.diff(found[name]) > 0).all()
        assert (np.array(["few", "many"])[found[f"{name}_codes"]] == y[found[name]]).all()
        assert np.bincount(found[name] // 90, minlength=12)[:11].min() > 9
    rows = found["train"][shown["labeled"]]
    assert (np.array(["few", "many"])[shown["codes"]] == y[rows]).all()
    assert np.bincount(rows // 90, minlength=11)[:11].min() >= 1


def test_rows_that_are_left_out_or_unlabeled(tmp_path, blocks):
    y = np.arange(N) % 4 - 1  # -1 marks no label
    found, attributes, shown = made(tmp_path, y, keep=[0, 2], rows="official_train", labels={"given": True})
    official = np.arange(N) % 4 != 0
    used = official & (y != 1)
    assert set(found["train"]) | set(found["test"]) == set(np.flatnonzero(used))
    assert attributes["classes"] == [0, 2]
    assert (y[found["test"]] >= 0).all()
    assert (found["train"][shown["labeled"]] == found["train"][found["train_codes"] >= 0]).all()


def test_classes_that_differ_in_capitals_or_spaces_are_told_with_what_joins_them(tmp_path):
    y = np.array(["Ham", "ham ", "spam", "eggs"])[np.arange(N) % 4]
    np.savez(tmp_path / "points.npz", X=np.arange(2.0 * N).reshape(N, 2), y=y)
    spec = {"name": "split", "data": {"source": str(tmp_path / "points.npz"), "test": {"count": 200}},
            "labels": {"count": 40}, "model": {"kind": "laprls"}}
    recorded = []
    run(spec, workspace=tmp_path / "work", execution=InProcess(1), until="split", events=recorded.append)
    note, = [event["text"] for event in recorded if event["event"] == "note" and event["stage"] == "split"]
    assert note.startswith("warning: classes that differ in capitals or spaces alone: 'Ham' and 'ham '. ")
    joined = note.partition("data.classes: ")[2]
    spec["data"]["classes"] = yaml.safe_load(joined)
    recorded.clear()
    run(spec, workspace=tmp_path / "work", execution=InProcess(1), until="split", events=recorded.append)
    assert not [event for event in recorded if event["event"] == "note" and event["stage"] == "split"]
    assert plan(spec, workspace=tmp_path / "work").artifact("split").attributes["per_class"] == [500, 250, 250]


def test_many_classes_that_are_alike():
    names = [f"{case}{number}" for number in range(20) for case in "aA"]
    note, = split.SPLIT.notes({"classes": names})
    assert "'a11' and 'A11'; and 8 more. They" in note
    assert note.endswith("data.classes, with all the others")
    assert split.SPLIT.notes({"classes": [1, 2, "a", "b"]}) == split.SPLIT.notes({}) == []


def test_official_test_rows(tmp_path, blocks):
    y = np.arange(N) % 3
    found, _, _ = made(tmp_path, y, test={"official": True})
    assert (found["test"] == np.arange(0, N, 4)).all()
    assert (found["test_codes"] == y[::4]).all()


def test_quantities(tmp_path, blocks):
    y = np.linspace(-2, 5, N)
    y[::7] = np.nan
    found, attributes, shown = made(tmp_path, y, task="regression", labels={"count": 50})
    known = y[~np.isnan(y)]
    assert attributes["target"] == {"known": len(known), "min": known.min(), "max": known.max(),
                                    "mean": pytest.approx(known.mean()), "deviation": pytest.approx(known.std())}
    np.testing.assert_array_equal(found["train_values"], y[found["train"]])
    assert not np.isnan(found["test_values"]).any()
    np.testing.assert_array_equal(shown["values"], y[found["train"][shown["labeled"]]])


@pytest.mark.parametrize(("y", "message"), [
    (np.where(np.arange(N) == 500, 1e200, 1.0), r"beyond 1e\+150: 1; the first is 1e\+200 in row \[500\]"),
    (np.full(N, np.nan), "no point of .* has a target")])
def test_quantities_that_are_refused(tmp_path, blocks, y, message):
    with pytest.raises(DataError, match=message):
        made(tmp_path, y, task="regression")
