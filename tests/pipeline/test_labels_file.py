"""`labels.file`: labels that are told beside the data, or in files alone."""

import numpy as np
import pandas as pd
import pytest

from dssl.base.errors import DataError, SpecError
from dssl.cli.init.first_spec import first_spec
from dssl.data.label_files import spelled_as
from dssl.execution.in_process import InProcess
from dssl.learners.target.encoding import classes_of_texts
from dssl.pipeline.labels_from_files import labels_notes
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run

from ..moons import moons_spec
from .split_arrays import split_arrays


@pytest.fixture
def with_labels(tmp_path):
    """Return a function that makes the plan of a run whose labels of rows are told, and the plan without them."""
    spec = moons_spec(tmp_path, 200)
    plain = plan(spec, workspace=tmp_path / "work", until="labels")
    run(plain, execution=InProcess(1))

    def planned(rows, labels, **data):
        path = tmp_path / "told.csv"
        pd.DataFrame({"row": rows, "label": labels}).to_csv(path, index=False)
        own = {**spec, "data": {**spec["data"], **data}, "labels": {**spec["labels"], "file": str(path)}}
        return plan(own, workspace=tmp_path / "work", until="labels")

    return planned, plain


def labels_of(made):
    """Return the rows of the source and the codes of the labeled points."""
    found = made.artifact("labels").parts.read(0)
    rows = split_arrays(made.artifact("split").parts)["train"][found["labeled"]]
    return dict(zip(rows.tolist(), found["codes"].tolist(), strict=True)), found["labeled"]


def test_labels_of_a_file_are_shown_beside_the_others(with_labels):
    planned, plain = with_labels
    train, (before, _) = split_arrays(plain.artifact("split").parts)["train"], labels_of(plain)
    wrong = next(iter(before))  # is corrected, not doubled
    new = np.setdiff1d(train, [*before])[:2]
    made = planned([new[1], wrong, new[0]], ["up", "down" if before[wrong] else "up", "down"])
    assert [item.status for item in made.selected] == ["cached", "cached", "to run"]  # points are split as before
    run(made, execution=InProcess(1))
    after, labeled = labels_of(made)
    names = made.artifact("labels").attributes["classes"]
    assert after == {**before, int(new[1]): names.index("up"), int(new[0]): names.index("down"),
                     wrong: 1 - before[wrong]}
    assert (np.diff(labeled) > 0).all()
    assert made.artifact("labels").attributes["from_file"] == 3
    assert made.artifact("labels").attributes["n_labeled"] == 12
    changed = planned([new[0]], ["up"])
    assert changed.artifact("labels").address != made.artifact("labels").address


def test_labels_that_cannot_be_used_are_refused(with_labels):
    planned, plain = with_labels
    split = split_arrays(plain.artifact("split").parts)
    for rows, labels, message in (([split["test"][0]], ["up"],
                                   r"1 of 1 rows are no training points: .*told.csv, line 2: '\d+'"),
                                  ([split["train"][0], 10**6], ["up", "up"],
                                   "1 of 2 rows do not exist: .*told.csv, line 3: '1000000'; the last row")):
        with pytest.raises(DataError, match=message):
            run(planned(rows, labels), execution=InProcess(1))


@pytest.mark.parametrize("names", [["a", "b "], ["7", "10"]])
def test_all_labels_may_stand_in_a_file_beside_a_source_without_a_target(tmp_path, names):
    kind = np.arange(60) % 2
    frame = pd.DataFrame(np.random.default_rng(0).normal(6 * kind[:, None], 1, (60, 3)), columns=["u", "v", "w"])
    frame.insert(0, "doc_id", [f"d{k:03}" for k in range(60)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    labels = pd.DataFrame({"doc_id": frame["doc_id"], "label": np.array(names)[kind]})[::6]
    labels.to_csv(tmp_path / "l.csv", index=False)
    pd.DataFrame({"doc_id": ["d001", "d003"], "label": names[1]}).to_csv(tmp_path / "more.csv", index=False)
    spec = {"name": "t", "data": {"source": str(tmp_path / "t.csv"), "read": {"target": "none"},
                                  "test": {"none": True}},
            "labels": {"given": True, "file": [str(tmp_path / "l.csv"), str(tmp_path / "more.csv")]}}
    made = plan(spec, workspace=tmp_path / "work", until="labels")
    run(made, execution=InProcess(1))
    attributes = made.artifact("labels").attributes
    assert attributes["classes"] == ([7, 10] if names[0] == "7" else ["a", "b"])
    assert attributes["from_file"] == attributes["n_labeled"] == 12
    assert "new_classes" not in attributes
    assert "changed" not in attributes
    after, _ = labels_of(made)
    assert after == {**dict.fromkeys(range(0, 60, 6), 0), 1: 1, 3: 1}


@pytest.mark.slow
def test_a_new_class_of_a_file_becomes_a_class(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.arange(90) % 3
    frame = pd.DataFrame({"a": rng.normal(8 * kind, 1), "b": rng.normal(kind, 1),
                          "kind": np.array(["elm", None, "oak"], object)[kind]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "told.csv").write_text("row,label\n1,fir\n4,fir\n7,fir\n", encoding="utf-8")
    spec = {"name": "told", "data": {"source": str(tmp_path / "t.csv"), "test": {"count": 6}},
            "labels": {"given": True, "file": str(tmp_path / "told.csv")}, "model": {"kind": "graph"}}
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(1))
    table = pd.read_csv(result.predictions)
    assert result.classes.tolist() == ["elm", "fir", "oak"]
    assert result.metrics["error"] == 0
    assert (table["label"] == np.array(["elm", "fir", "oak"])[kind]).all()
    assert table.loc[4, ["given", "role"]].tolist() == ["fir", "labeled"]
    assert "'fir'" in " ".join(result.notes)


def test_a_class_of_a_file_may_be_spelled_in_other_ways(with_labels):
    planned, plain = with_labels
    train = split_arrays(plain.artifact("split").parts)["train"]
    new = np.setdiff1d(train, [*labels_of(plain)[0]])[:5]
    made = planned(new, [" Up", "DOWN", "far up", "Far  Up", "far up"])
    run(made, execution=InProcess(1))
    names = made.artifact("labels").attributes["classes"]
    assert names == ["down", "far up", "up"]
    assert [names[labels_of(made)[0][row]] for row in new] == ["up", "down", "far up", "far up", "far up"]
    assert "read are 'DOWN' as 'down', 'Far  Up' as 'far up', 'Up' as 'up'" in " ".join(
        labels_notes(made.artifact("labels").attributes))


@pytest.mark.parametrize("of_classes", [True, False])
def test_labels_that_a_file_changes_are_told(tmp_path, of_classes):
    rng, kind = np.random.default_rng(0), np.arange(40) % 2
    known = np.array(["elm", "oak"])[kind] if of_classes else (kind + 0.5).astype(str)
    known = np.where(np.arange(40) % 4 < 2, known, "")
    pd.DataFrame({"a": rng.normal(8 * kind, 1), "y": known}).to_csv(tmp_path / "t.csv", index=False)
    oak, elm = ("oak", "elm") if of_classes else ("1.5", "0.5")
    (tmp_path / "told.csv").write_text(f"row,label\n0,{elm}\n1,{elm}\n2,{elm}\n4,{oak}\n", encoding="utf-8")
    spec = {"name": "told", "data": {"source": str(tmp_path / "t.csv"), "test": {"none": True}},
            "labels": {"given": True, "file": str(tmp_path / "told.csv")}, "model": {"kind": "graph"}}
    if not of_classes:
        spec["data"]["task"] = "regression"
        spec["model"]["learner"] = "laplace"
    recorded = []
    run(spec, workspace=tmp_path / "work", execution=InProcess(1), until="labels", events=recorded.append)
    notes = " ".join(event["text"] for event in recorded if event["event"] == "note")
    assert f"gives 2 rows another label than the source, first row 1 (counted from 0): {elm} in place of {oak}" in notes


def test_labels_that_may_be_either_of_two_classes_are_new_ones():
    assert spelled_as(["No", "NO", "no", "Yes"], ["No", "no", "yes"]) == ["No", "NO", "no", "yes"]


@pytest.mark.slow
def test_labels_of_one_class_wait_for_a_file_that_brings_another(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.arange(60) % 2
    pd.DataFrame({"who": [f"u{row}" for row in range(60)], "a": rng.normal(8 * kind, 1), "b": rng.normal(size=60),
                  "kind": np.where((kind == 0) & (np.arange(60) < 20), "elm", None)}).to_csv(tmp_path / "t.csv",
                                                                                         index=False)
    execution = InProcess(1)
    spec = first_spec([str(tmp_path / "t.csv")], {}, execution)
    assert any("all labels are 'elm'" in line for line in spec.messages)
    (tmp_path / "t.yaml").write_text(spec.text, encoding="utf-8")
    with pytest.raises(DataError, match=r"(?s)has one class, 'elm'.*labels\.file"):
        run(tmp_path / "t.yaml", workspace=tmp_path / "work", execution=execution)
    (tmp_path / "told.csv").write_text("who,label\nu1,fir\nu3,fir\n", encoding="utf-8")
    result = run(tmp_path / "t.yaml", workspace=tmp_path / "work", execution=execution,
                 set=[f"labels.file={tmp_path / 'told.csv'}"])
    table = pd.read_csv(result.predictions)
    assert (table["label"] == np.where(kind == 0, "elm", "fir")).all()
    assert (table["role"] == "labeled").sum() == 12
    assert set(table.loc[table["role"] == "labeled", "who"]) >= {"u1", "u3"}


def test_labels_of_a_file_are_quantities_in_a_regression(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "points.npz", X=rng.normal(size=(60, 2)), y=np.where(np.arange(60) < 30, rng.normal(size=60),
                                                                            np.nan))
    data = {"source": str(tmp_path / "points.npz"), "task": "regression", "test": {"count": 5}}
    spec = {"name": "told", "data": data,
            "labels": {"given": True, "file": [str(tmp_path / "told.csv")]}}
    (tmp_path / "told.csv").write_text("row,label\n40,2.5\n", encoding="utf-8")
    made = plan(spec, workspace=tmp_path / "work", until="labels")
    run(made, execution=InProcess(1))
    found, train = made.artifact("labels").parts.read(0), split_arrays(made.artifact("split").parts)["train"]
    assert found["values"][train[found["labeled"]] == 40].tolist() == [2.5]
    assert len(found["values"]) == 26
    (tmp_path / "told.csv").write_text("row,label\n40,many\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"labels such as \['many'\]"):
        run(spec, workspace=tmp_path / "work", until="labels", execution=InProcess(1))


def test_a_file_alone_says_not_which_labels_are_shown(tmp_path):
    with pytest.raises(SpecError, match="set exactly one of count, per_class, fraction and given"):
        load_spec({**moons_spec(tmp_path, 100), "labels": {"file": "told.csv"}})


# Labels that are in files alone, beside a source without any


KIND = np.arange(60) % 3
NAMES = ["elm", "fir", "oak"]
LABELED = [0, 1, 2, 12, 13, 14, 24, 25, 26]  # three rows of each kind


@pytest.fixture(params=["none", "text", "number"])
def spec_of(request, tmp_path):
    """Return a function that makes the spec of a source without labels: without a target, or with an empty one."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"doc": [f"d{row}" for row in range(60)], "a": rng.normal(8 * KIND, 1),
                          "b": rng.normal(size=60)})
    if request.param != "none":
        frame["kind"] = pd.Series([None] * 60, dtype="string" if request.param == "text" else float)
    frame.to_parquet(tmp_path / "t.parquet")
    target = "none" if request.param == "none" else "kind"

    def make(labels, rows=LABELED, labels_section=None, read=None, **data):
        pd.DataFrame({"doc": [f"d{row}" for row in rows], "label": labels}).to_csv(tmp_path / "l.csv", index=False)
        return {"name": "alone", "data": {"source": str(tmp_path / "t.parquet"), "read": {"target": target,
                **(read or {})}, "test": {"none": True}, **data},
                "labels": {**(labels_section or {"given": True}), "file": [str(tmp_path / "l.csv")]},
                "model": {"kind": "graph"}}

    return make


def labels_made(spec, tmp_path):
    """Return the attributes of the labels of a spec, and their arrays."""
    made = plan(spec, workspace=tmp_path / "work", until="labels")
    run(made, execution=InProcess(1))
    artifact = made.artifact("labels")
    return artifact.attributes, artifact.parts.read(0)


def test_classes_come_from_the_file(spec_of, tmp_path):
    attributes, arrays = labels_made(spec_of([NAMES[KIND[row]] for row in LABELED]), tmp_path)
    assert attributes["classes"] == NAMES
    assert arrays["labeled"].tolist() == LABELED
    assert arrays["codes"].tolist() == KIND[LABELED].tolist()
    assert attributes["from_file"] == 9
    assert not {"new_classes", "changed"} & set(attributes)


@pytest.mark.parametrize("labels", [KIND[LABELED], KIND[LABELED].astype(float)])
def test_whole_numbers_are_classes(spec_of, tmp_path, labels):
    attributes, arrays = labels_made(spec_of(labels), tmp_path)
    assert attributes["classes"] == [0, 1, 2]
    assert arrays["codes"].tolist() == KIND[LABELED].tolist()


def test_spellings_of_a_class_are_joined(spec_of, tmp_path):
    attributes, _ = labels_made(spec_of(["elm", "Elm", "elm", "oak"], LABELED[:4]), tmp_path)
    assert attributes["classes"] == ["elm", "oak"]
    assert attributes["spelled"] == {"Elm": "elm"}


def test_quantities_come_from_the_file(spec_of, tmp_path):
    attributes, arrays = labels_made(spec_of(KIND[LABELED] + 0.5, task="regression"), tmp_path)
    assert attributes["target"]["known"] == 9
    assert arrays["values"].tolist() == (KIND[LABELED] + 0.5).tolist()


def test_a_column_that_is_dropped_may_name_rows(spec_of, tmp_path):
    _, arrays = labels_made(spec_of([NAMES[KIND[row]] for row in LABELED], read={"drop": ["doc"]}), tmp_path)
    assert arrays["labeled"].tolist() == LABELED


def test_what_a_file_alone_cannot_give_is_refused(spec_of, tmp_path):
    names = [NAMES[KIND[row]] for row in LABELED]
    for arguments, changed, message in (
            ((names,), {"test": {"fraction": 0.2}}, r"(?s)test.*set data\.test: \{none: true\}"),
            ((names, LABELED, {"count": 6}), {}, r"(?s)set labels(\.given: true|: \{given: true\})"),
            ((KIND[LABELED] + 0.5,), {}, r"(?s)l\.csv: Unknown label type: continuous.*data\.task to regression"),
            ((names,), {"task": "regression"}, r"labels such as \['elm'"),
            ((["elm", "elm"], [0, 3]), {}, "has one class, 'elm'"),
            ((names[:2], [70, 80]), {}, r"2 of 2 identifiers name no row of the source: .*'d70'; line 3: 'd80'")):
        with pytest.raises((DataError, SpecError), match=message):
            labels_made(spec_of(*arguments, **changed), tmp_path)


def test_a_file_that_names_no_rows_is_refused_before_the_source_is_read(spec_of, tmp_path):
    spec = spec_of(["elm", "oak"], [0, 1])
    (tmp_path / "l.csv").write_text("document,label\nd0,elm\nd1,oak\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"l\.csv has the columns document, label"):
        plan(spec, workspace=tmp_path / "work")


def test_a_source_without_labels_has_no_test_points_for_a_plan(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 2)))
    (tmp_path / "l.csv").write_text("row,label\n0,elm\n1,oak\n", encoding="utf-8")
    spec = {"name": "alone", "data": {"source": str(tmp_path / "x.npy"), "test": {"count": 5}},
            "labels": {"given": True, "file": str(tmp_path / "l.csv")}, "model": {"kind": "graph"}}
    with pytest.raises(DataError, match=r"x\.npy has no target, and data\.test asks for test points"):
        plan(spec, workspace=tmp_path / "work")
    spec["data"]["test"] = {"none": True}
    assert plan(spec, workspace=tmp_path / "work").inputs.classes.upper == 2
    assert labels_made(spec, tmp_path)[0]["classes"] == ["elm", "oak"]


def test_texts_are_whole_numbers_or_names():
    assert classes_of_texts(["10", "9", "9"]).tolist() == [9, 10]
    assert classes_of_texts(["007", "7"]).tolist() == ["007", "7"]
    assert classes_of_texts(["1.5", "oak"]).tolist() == ["1.5", "oak"]
    for quantities in (["1.5", "2", "0.5"], ["1.0", "2", "-0.5"]):
        with pytest.raises(DataError, match="Unknown label type: continuous"):
            classes_of_texts(quantities)
    with pytest.raises(DataError, match="-1 is among the labels"):
        classes_of_texts(["-1", "1"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "automatic"])
def test_a_run_learns_from_a_file_alone(spec_of, tmp_path, kind):
    spec = {**spec_of([NAMES[KIND[row]] for row in LABELED]), "model": {"kind": kind}}
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(1))
    table = pd.read_csv(result.predictions)
    assert result.classes.tolist() == NAMES
    assert (table["label"] == np.array(NAMES)[KIND]).all()
    assert table.loc[LABELED, "role"].tolist() == ["labeled"] * 9
    assert "9 of the 9 labels come from labels.file" in " ".join(result.notes)
    assert "the source does not have" not in " ".join(result.notes)
