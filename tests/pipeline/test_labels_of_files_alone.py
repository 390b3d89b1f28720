"""Labels that are in files alone, beside a source without any."""

import numpy as np
import pandas as pd
import pytest

from dssl.base.errors import DataError, SpecError
from dssl.execution.in_process import InProcess
from dssl.learners.target.encoding import classes_of_texts
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run

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


def labels_of(spec, tmp_path):
    """Return the attributes of the labels of a spec, and their arrays."""
    made = plan(spec, workspace=tmp_path / "work", until="labels")
    run(made, execution=InProcess(1))
    artifact = made.artifact("labels")
    return artifact.attributes, artifact.parts.read(0)


def test_classes_come_from_the_file(spec_of, tmp_path):
    attributes, arrays = labels_of(spec_of([NAMES[KIND[row]] for row in LABELED]), tmp_path)
    assert attributes["classes"] == NAMES
    assert arrays["labeled"].tolist() == LABELED
    assert arrays["codes"].tolist() == KIND[LABELED].tolist()
    assert attributes["from_file"] == 9
    assert not {"new_classes", "changed"} & set(attributes)


@pytest.mark.parametrize("labels", [KIND[LABELED], KIND[LABELED].astype(float)])
def test_whole_numbers_are_classes(spec_of, tmp_path, labels):
    attributes, arrays = labels_of(spec_of(labels), tmp_path)
    assert attributes["classes"] == [0, 1, 2]
    assert arrays["codes"].tolist() == KIND[LABELED].tolist()


def test_spellings_of_a_class_are_joined(spec_of, tmp_path):
    attributes, _ = labels_of(spec_of(["elm", "Elm", "elm", "oak"], LABELED[:4]), tmp_path)
    assert attributes["classes"] == ["elm", "oak"]
    assert attributes["spelled"] == {"Elm": "elm"}


def test_quantities_come_from_the_file(spec_of, tmp_path):
    attributes, arrays = labels_of(spec_of(KIND[LABELED] + 0.5, task="regression"), tmp_path)
    assert attributes["target"]["known"] == 9
    assert arrays["values"].tolist() == (KIND[LABELED] + 0.5).tolist()


def test_a_column_that_is_dropped_may_name_rows(spec_of, tmp_path):
    _, arrays = labels_of(spec_of([NAMES[KIND[row]] for row in LABELED], read={"drop": ["doc"]}), tmp_path)
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
            labels_of(spec_of(*arguments, **changed), tmp_path)


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
    assert labels_of(spec, tmp_path)[0]["classes"] == ["elm", "oak"]


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
