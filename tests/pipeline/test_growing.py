"""Runs that grow: what a fresh run of all files gives, from the new files alone; and what has all rows read anew."""

import json
import os
import shutil
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError, IntegrityError, SpecError
from dssl.data import source_reader
from dssl.execution.in_process import InProcess
from dssl.pipeline import growth
from dssl.pipeline.contents import collect_garbage
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.storage.artifacts import Workspace
from dssl.storage.files import resolved_path
from dssl.storage.objects import ObjectPath

COLUMNS = list("abcd")
SHARED = {"dataset": ["X", "y"], "split": ["train", "train_codes"], "points": ["train"], "neighbors": ["ids",
          "distances"]}


def points(n=600, random_state=0, labeled=0.05):
    """Return a table of three overlapping classes, a share of whose rows has a label, and two of them copies."""
    rng = np.random.default_rng(random_state)
    kind = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) + 2 * np.eye(3, 4)[kind]
    X[n // 2 + 5], X[n - 3] = X[7], X[n // 4]  # copies in other files
    table = pd.DataFrame(X.round(4), columns=COLUMNS).assign(kind=np.array(["x", "y", "z"])[kind])
    table.loc[rng.random(n) > labeled, "kind"] = None
    return table


class Growing:
    """Files that come one after the other, and runs of them in one workspace."""

    def __init__(self, folder, **sections):
        self.folder, self.workspace = folder, Workspace(folder / "work")
        self.spec = {"name": "grown", "data": {"source": str(folder / "part-*.csv"), "grows": True, "test": {
            "none": True}}, "labels": {"given": True}, "model": {"kind": "ridge", "n_landmarks": 40},
                     "graph": {"method": "exact", "n_neighbors": 6}}
        for name, section in sections.items():
            self.spec[name] = {**self.spec.get(name, {}), **section}

    def write(self, number, table):
        table.to_csv(self.folder / f"part-{number}.csv", index=False)

    def run(self, **options):
        """Run the pipeline; keep the result, and what was said."""
        self.notes = []
        self.result = run(self.spec, workspace=self.workspace.root, execution=InProcess(1), events=lambda event: (
            self.notes.append(event["text"]) if event["event"] == "note" else None), **options)
        return self.result

    @property
    def statuses(self):
        return {stage.status for stage in self.result.stages}

    @property
    def addresses(self):
        return {stage.name: stage.address for stage in self.result.stages}

    def artifact(self, stage):
        return self.workspace.artifact_in(stage, self.addresses[stage])

    def arrays(self):
        """Return what is the same of a run that grew and of a fresh one, by stage and name."""
        return {(stage, name): self.artifact(stage).parts.rows(name).read_all()
                for stage, names in SHARED.items() for name in names}

    def labels(self):
        return self.artifact("labels").parts.read(0)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Two files that were run, and a third that comes; and a copy of all that."""
    folder, table = tmp_path_factory.mktemp("begun"), points()
    made = Growing(folder)
    made.write(1, table[:300])
    made.write(2, table[300:550])
    made.run()
    made.table = table
    made.write(10, table[550:])
    shutil.copytree(folder, folder.with_name("copy"))
    return made


@pytest.fixture
def growing(begun):
    """The same as it was at the beginning."""
    shutil.rmtree(begun.folder)
    shutil.copytree(begun.folder.with_name("copy"), begun.folder)
    return copy(begun)


def assert_same(found, expected):
    assert list(found) == list(expected)
    for name, array in found.items():
        assert_array_equal(array, expected[name], err_msg=str(name))


# What is grown


@pytest.mark.slow
def test_a_run_that_grew_is_a_fresh_run_of_all_files(growing):
    grown = growing.run()
    assert growing.notes[0].startswith("1 new file with 50 rows (part-10.csv) beside the 550 rows of run")
    assert grown.notes[0] == growing.notes[0]
    assert growing.notes[0] in grown.report.read_text()
    arrays, labels, attributes = growing.arrays(), growing.labels(), growing.artifact("dataset").attributes
    names = (grown.folder / "predictions_all.csv").exists()
    assert growing.artifact("neighbors").attributes["grown"]["rows"] == 49  # and one is a copy of an old one
    manifest = growing.artifact("neighbors").manifest
    assert growing.workspace.artifact_in("neighbors", manifest["inputs"]["base"]).attributes["n"] == 549
    assert growing.workspace.verify() > 20
    assert not list(growing.folder.glob("**/within/new"))  # new rows are copied, and their own place removed
    growing.run(fresh=True)
    assert_same(arrays, growing.arrays())
    assert_same(labels, growing.labels())
    fresh = growing.artifact("dataset").attributes
    assert attributes["n_base"] == 550
    for name in ("files", "fingerprint", "label_names", "feature_names"):
        assert attributes["dataset"][name] == fresh["dataset"][name]
    assert names == (growing.result.folder / "predictions_all.csv").exists()


@pytest.mark.slow
def test_old_files_are_not_read_and_nothing_new_is_cached(growing, monkeypatch):
    opened, real = [], source_reader.open_reader
    monkeypatch.setattr(source_reader, "open_reader", lambda path, *args, **kwargs: (
        opened.append(path.name), real(path, *args, **kwargs))[1])
    assert plan(growing.spec, workspace=growing.workspace.root).notes()[0].startswith("1 new file with 50 rows")
    growing.run(until="graph")
    assert set(opened) == {"part-10.csv"}
    growing.run()
    grown = growing.addresses
    growing.run()
    assert (growing.statuses, growing.addresses) == ({"cached"}, grown)
    assert growing.notes[0].startswith("no file is new since run")
    os.rename(growing.folder / "part-1.csv", growing.folder / "part-77.csv")  # other names, the same bytes
    growing.run()
    assert (growing.statuses, growing.addresses) == ({"cached"}, grown)


@pytest.mark.slow
def test_runs_grow_one_after_the_other_until_a_fifth_was_added(growing):
    table = growing.table
    growing.write(10, table[550:570])
    growing.run()
    growing.write(11, table[570:600])
    growing.run()
    assert growing.artifact("dataset").attributes["n_base"] == 570
    arrays = growing.arrays()
    growing.write(12, points(70, random_state=1))
    growing.run()
    assert growing.notes[0] == (f"all rows are read anew: 120 rows were added since run {first_run(growing)} read 550, "
                                "more than 20%")
    assert "n_base" not in growing.artifact("dataset").attributes
    os.remove(growing.folder / "part-12.csv")
    growing.run(fresh=True)
    assert_same(arrays, growing.arrays())


def first_run(growing):
    # Names have seconds: two runs of one second are in no order by them.
    return min(growing.workspace.root.glob("runs/*"), key=lambda run: (run / "spec.json").stat().st_mtime_ns).name


@pytest.mark.slow
def test_new_files_whose_names_come_first_are_numbered_last(growing):
    os.rename(growing.folder / "part-10.csv", growing.folder / "part-0.csv")
    growing.run()
    assert "numbered after those that were there" in growing.notes[1]
    X = growing.arrays()["dataset", "X"]
    assert_array_equal(X, growing.table[COLUMNS].to_numpy(np.float32))


@pytest.mark.slow
def test_rows_keep_their_role_and_new_ones_are_drawn(tmp_path):
    """Old test points stay test points; of the new ones a share is tested; labels that were drawn stay."""
    growing, table = Growing(tmp_path, data={"test": {"fraction": 0.5}}, labels={"given": False, "per_class": 4}), \
        points(800, labeled=1)
    known = len(table) - 100
    growing.write(1, table[:known])
    growing.run()
    before = {name: growing.artifact("split").parts.rows(name).read_all() for name in ("train", "test")}
    labels = growing.labels()["labeled"]
    growing.write(2, table[known:])
    growing.run()
    for name, rows in before.items():
        now = growing.artifact("split").parts.rows(name).read_all()
        assert_array_equal(now[now < known], rows)
        assert 30 <= (now >= known).sum() <= 70
        assert growing.artifact("split").attributes["base"][name] == len(rows)
    assert_array_equal(growing.labels()["labeled"], labels)


@pytest.mark.slow
def test_new_rows_without_a_label_are_all_trained_on(tmp_path):
    growing, table = Growing(tmp_path, data={"test": {"fraction": 0.5}}), points(600, labeled=0.2)
    for number, (start, stop) in enumerate([(0, 500), (500, 600)]):
        growing.write(number, table[start:stop])
        growing.run(until="split" if number else None)
    grown = growing.artifact("split")
    assert grown.attributes["base"]["train"] > 0
    assert grown.attributes["n_rest"] == 0
    test = grown.parts.rows("test").read_all()
    assert (test >= 500).any()
    assert table["kind"].notna()[test].all()


@pytest.mark.slow
def test_a_number_of_test_points_and_a_sample_stay_as_they_are(tmp_path):
    growing, table = Growing(tmp_path, data={"test": {"count": 20}, "points": 200}), points(labeled=0.2)
    growing.write(1, table[:500])
    growing.run()
    growing.write(2, table[500:540])
    growing.run()
    counts = [growing.artifact("split").attributes[f"n_{name}"] for name in ("train", "test", "rest")]
    assert counts == [240, 20, 280]


@pytest.mark.slow
def test_official_test_rows_and_quantities_grow(tmp_path):
    growing = Growing(tmp_path, data={"source": str(tmp_path / "*.npz"), "test": {"official": True}, "task":
                                      "regression"}, labels={"given": True})
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 3)).astype(np.float32)
    y, split = X.sum(axis=1), (np.arange(260) % 4 == 0).astype(np.uint8)
    for name, (start, stop) in {"a": (0, 240), "b": (240, 260)}.items():
        np.savez(tmp_path / f"{name}.npz", X=X[start:stop], y=y[start:stop], split=split[start:stop])
        growing.run(until=None if name == "a" else "neighbors")
    grown = growing.artifact("split")
    assert grown.attributes["base"]["test"] == 60
    for name, wanted in (("train", 0), ("test", 1)):
        assert_array_equal(grown.parts.rows(name).read_all(), np.flatnonzero(split == wanted))
        assert_array_equal(grown.parts.rows(f"{name}_values").read_all(), y[split == wanted].astype(np.float64))


@pytest.mark.slow
def test_a_new_class_is_learned_where_all_labels_are_shown(growing):
    new = growing.table[550:].assign(kind="a")  # the first in order, so that all codes change
    growing.write(10, new)
    growing.run()
    assert growing.artifact("dataset").attributes["n_base"] == 550
    arrays, labels = growing.arrays(), growing.labels()
    assert growing.artifact("split").attributes["classes"] == ["a", "x", "y", "z"]
    growing.run(fresh=True)
    assert_same(arrays, growing.arrays())
    assert_same(labels, growing.labels())


def test_runs_whose_labels_come_from_a_file_grow(tmp_path):
    table = points(200, labeled=1.0)
    table.insert(0, "doc_id", [f"d{number}" for number in range(len(table))])
    label_file = tmp_path / "labels.csv"

    def label(rows):
        table.loc[rows, ["doc_id", "kind"]].rename(columns={"kind": "label"}).to_csv(label_file, index=False)

    growing = Growing(tmp_path, data={"read": {"target": "none"}}, labels={"file": [str(label_file)]})
    label(range(0, 160, 8))
    growing.write(1, table[:180].drop(columns="kind"))
    growing.run()
    growing.write(2, table[180:].drop(columns="kind"))
    label([*range(0, 160, 8), 3, 190, 195])  # one of them of an old row
    growing.run()
    assert growing.notes[0].startswith("1 new file with 20 rows (part-2.csv) beside the 180 rows of run")
    labels = growing.labels()
    assert len(labels["labeled"]) == 23
    growing.run(until="labels", fresh=True)
    assert_same(labels, growing.labels())


@pytest.mark.slow
def test_several_graphs_grow(tmp_path):
    growing = Growing(tmp_path, model={"kind": "svm", "n_landmarks": 20}, selection={"cv": 2, "grid": {
        "eta": [1.0], "graph": {"n_neighbors": [5, 8]}}})
    growing.spec["graph"].pop("n_neighbors")
    table = points(330)
    growing.write(1, table[:300])
    growing.run()
    growing.write(2, table[300:])
    growing.run(until="selection")
    made = plan(growing.spec, workspace=growing.workspace.root)
    assert [own.artifact("neighbors").attributes["grown"]["rows"] for own in made.tried] == [29, 29]


# What has all rows read anew


@pytest.mark.slow
@pytest.mark.parametrize(("harm", "message", "counts"), [
    (lambda folder: edit(folder / "part-1.csv"), "part-1.csv changed", (1, 1 + 50)),
    (lambda folder: os.remove(folder / "part-2.csv"), "part-2.csv vanished", (250, 50)),
    (lambda folder: (edit(folder / "part-1.csv"), os.remove(folder / "part-2.csv")),
     "part-1.csv changed and part-2.csv vanished", (251, 51))])
def test_files_that_changed_or_vanished_are_told_with_their_rows(growing, harm, message, counts):
    before = growing.result.run
    harm(growing.folder)
    growing.run()
    gone, new = counts
    had = {1: 300, 250: 250, 251: 550}[gone]
    assert growing.notes[0] == f"all rows are read anew: {message} since run {before}"
    assert (f"rows of these files: {had} before, of which {had - gone} are unchanged; new or changed in changed and "
            f"new files: {new}") in growing.result.notes
    arrays = growing.arrays()
    growing.run(fresh=True)
    assert_same(arrays, growing.arrays())


def edit(path):
    """Change a number in the first row of a file."""
    table = pd.read_csv(path)
    table.loc[0, "a"] += 1
    table.to_csv(path, index=False)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "sections", "message"), [
    (lambda new: new.assign(a=new["a"] * 2.5), {"data": {"scale": "standardize"}}, "the new rows change the spread of"),
    (lambda new: new.assign(b=new["b"] + 1e3), {}, "the features have cells out of range, which the old rows do not"),
    (lambda new: new.assign(kind="new"), {"labels": {"given": False, "per_class": 3}},
     "new rows are of the class 'new', and labels are drawn of every class"),
    (lambda new: new.assign(d="much"), {"data": {"read": {"when_text": "one_hot"}}}, "has texts in the column 'd'")])
def test_rows_that_do_not_fit_the_old_ones_have_all_read_anew(tmp_path, change, sections, message):
    growing, table = Growing(tmp_path, **sections), points(500)
    if "when_text" in str(sections):
        table["d"] = np.where(table["d"] > 0, "high", "low")
    growing.write(1, table[:450])
    growing.run()
    growing.write(2, change(table[450:]))
    growing.run()
    assert any(note.startswith("all rows are read anew: ") and message in note for note in growing.result.notes), \
        growing.result.notes
    arrays = growing.arrays()
    growing.run()
    assert growing.statuses == {"cached"}
    growing.run(fresh=True)
    assert_same(arrays, growing.arrays())


@pytest.mark.slow
def test_drift_within_the_bound_is_told(tmp_path):
    growing, table = Growing(tmp_path, data={"scale": "standardize"}), points(500)
    growing.write(1, table[:450])
    growing.run()
    growing.write(2, table[450:])
    growing.run()
    assert "the scaling of the last run is kept" in growing.result.report.read_text()
    drift = growing.artifact("points").attributes["drift"]
    assert 0 < drift["factor"]["change"] < 0.1
    assert any("the new rows change mean and spread of a feature by" in note for note in growing.result.notes)
    Z = growing.artifact("points").parts.rows("train").read_all()
    old = table[COLUMNS][:450].to_numpy(np.float32).astype(np.float64)
    np.testing.assert_allclose(Z[:450], (old - old.mean(axis=0)) / old.std(axis=0), atol=1e-5)


@pytest.mark.slow
def test_new_rows_with_the_identifier_of_others_are_counted(tmp_path):
    growing = Growing(tmp_path)
    names = [f"c{row:04d}" for row in range(300)]
    table, more = points(300), points(20, 1)
    table.insert(0, "cell_id", names)
    more.insert(0, "cell_id", [*names[:9], names[1], None, None, *(f"d{row}" for row in range(8))])
    growing.write(1, table[:250])
    growing.run()
    growing.write(2, table[250:270])
    growing.run()
    assert not any("the cell_id of another row" in note for note in growing.notes)
    growing.write(3, more)
    growing.run()
    assert any(note.startswith("new rows with the cell_id of another row: 10;") for note in growing.notes)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sections", "name"), [
    ("ridge", {"solver": {"method": "gauss_seidel", "tol": 1e-9}}, "columns"),
    ("graph", {}, "vertex_values")])
@pytest.mark.extended_cases("graph-sections1-vertex_values")
def test_solves_begin_at_those_of_the_last_run_and_end_at_the_same(tmp_path, kind, sections, name):
    """All vertices are landmarks, so that it is the same as that of a fresh run."""
    model = {"learner": "laplace", "tol": 1e-9} if kind == "graph" else {"n_landmarks": 700}
    growing, table = Growing(tmp_path, model={"kind": kind, **model}, **sections), points()
    if kind == "graph":
        growing.spec["model"].pop("n_landmarks")
    growing.write(1, table[:550])
    growing.run()
    growing.write(2, table[550:])
    found = []
    for fresh in (False, True):
        growing.run(fresh=fresh)
        artifact = growing.artifact(name)
        assert ("base" in artifact.manifest["inputs"]) == (not fresh)
        values = growing.artifact("covariance").parts.read(0) if kind == "ridge" else artifact.parts.read(0, ["values"])
        found.append((next(iter(values.values())), pd.read_csv(growing.result.predictions)["label"].tolist()))
    (grown, of_grown), (expected, of_fresh) = found
    np.testing.assert_allclose(grown, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())
    assert of_grown == of_fresh


@pytest.mark.slow
def test_files_with_other_columns_are_refused(growing):
    growing.write(10, growing.table[550:].rename(columns={"b": "width"}))
    with pytest.raises(DataError, match=r"part-10\.csv and the rows of the last run have different columns"):
        growing.run()


# What is kept for the next run


@pytest.mark.slow
def test_what_the_next_run_needs_is_kept_and_its_loss_is_told(growing):
    base = growing.addresses
    collect_garbage(growing.workspace, intermediate=True)
    assert growing.artifact("dataset").exists
    growing.run(keep="results")
    assert growing.artifact("dataset").exists
    assert growing.result.intermediate_bytes == 0
    collect_garbage(growing.workspace, keep_runs=1)
    assert not growing.workspace.folder_of("dataset", base["dataset"]).exists()
    growing.artifact("neighbors").remove()
    growing.write(11, points(20, random_state=3))
    growing.run()
    assert growing.notes[0].startswith("all rows are read anew: what the last run made of the stage neighbors was "
                                       "removed")


@pytest.mark.slow
def test_a_run_that_is_interrupted_goes_on_and_keeps_what_it_grows_from(growing, monkeypatch):
    """It is ended within a stage; meanwhile everything that is not needed is removed."""
    base = growing.addresses

    def ended(event):
        if event["event"] == "stage" and event["stage"] == "neighbors":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(growing.spec, workspace=growing.workspace.root, execution=InProcess(1), events=ended)
    collect_garbage(growing.workspace, keep_runs=1)
    assert growing.workspace.artifact_in("neighbors", base["neighbors"]).exists
    growing.run()
    statuses = {stage.name: stage.status for stage in growing.result.stages}
    assert [statuses[name] for name in ("dataset", "points", "neighbors")] == ["cached", "cached", "done"]
    arrays = growing.arrays()
    growing.run(fresh=True)
    assert_same(arrays, growing.arrays())


@pytest.mark.slow
def test_a_damaged_record_is_told(growing):
    record, = (growing.workspace.root / growth.LATEST).glob("*.json")
    record.write_text(json.dumps({"run": 3}))
    with pytest.raises(IntegrityError, match="the next run then reads all rows anew"):
        growing.run()
    record.unlink()
    growing.run()
    assert "n_base" not in growing.artifact("dataset").attributes


def test_another_version_of_a_stage_has_all_rows_read_anew(growing, monkeypatch):
    kind = KINDS["ridge"]
    stages = tuple(replace(stage, version=99) if stage.name == "points" else stage for stage in kind.stages)
    monkeypatch.setitem(KINDS, kind.name, replace(kind, stages=stages))
    notes = plan(growing.spec, workspace=growing.workspace.root).notes_of_growth()
    assert notes == ["all rows are read anew: another version of dssl made the stage points of the last run"]


def test_other_specs_have_runs_of_their_own_and_a_given_graph_does_not_grow(growing):
    other = {**growing.spec, "graph": {**growing.spec["graph"], "n_neighbors": 5}}
    assert plan(other, workspace=growing.workspace.root).notes_of_growth() == []
    with pytest.raises(SpecError, match="a graph that is given has as many rows as when it was made"):
        load_spec({**growing.spec, "graph": {"given": {"weights": "W.npz"}}})


@pytest.mark.slow
def test_objects_that_were_read_are_not_downloaded(tmp_path, s3, monkeypatch):
    table, place = points(), resolved_path(s3)
    growing = Growing(tmp_path, data={"source": f"{s3}/day=*/part-*.csv"})
    for name, (start, stop) in {"day=1/part-1.csv": (0, 300), "day=2/part-1.csv": (300, 550)}.items():
        (place / name).write_text(table[start:stop].to_csv(index=False))
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "first"))
    growing.run()
    (place / "day=3" / "part-1.csv").write_text(table[550:].to_csv(index=False))
    downloaded, real = [], ObjectPath.download
    monkeypatch.setattr(ObjectPath, "download", lambda self, file: (
        downloaded.append(self.parent.name), real(self, file))[1])
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "second"))  # of another machine, or of a new container
    growing.run(until="graph")
    assert downloaded == ["day=3"]
    assert growing.artifact("dataset").attributes["n_base"] == 550
