"""What another model says in a pipeline file counts as it does in the fit of an estimator."""


import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs

from dssl import GraphKernelRidge, SemiSupervisedClassifier, SemiSupervisedRegressor
from dssl.base.errors import DataError, SpecError
from dssl.data.ingest_params import IngestParams
from dssl.execution.in_process import InProcess
from dssl.learners.soft_labels import vector_probabilities
from dssl.methods.other_model import vectors_cost
from dssl.methods.plan_inputs import Bounded, PlanInputs
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.storage.blocks import ArrayRows
from tests.memory import traced_peak

FEATURES, NAMES = ["a", "b"], ["owl", "cat", "dog"]  # not in ascending order
COLUMNS = [f"p_{name}" for name in NAMES]
CENTERS = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
ESTIMATORS = {"automatic": SemiSupervisedClassifier, "graph": GraphKernelRidge}


@pytest.fixture(scope="module")
def table():
    """Three clusters, three labels of each, and an opinion that is right for two thirds of the points."""
    X, y = make_blobs(240, centers=CENTERS, cluster_std=0.8, random_state=0)
    rng = np.random.default_rng(0)
    said = np.where(rng.random(240) < 0.67, y, rng.integers(0, 3, 240))
    table = pd.DataFrame(X.astype(np.float32).astype(float), columns=FEATURES)
    table[COLUMNS] = 0.2 + 0.4 * np.eye(3)[said]
    table["true"] = np.array(NAMES)[y]
    shown = np.concatenate([np.flatnonzero(y == code)[:3] for code in range(3)])
    table["kind"] = table["true"].where(np.isin(np.arange(240), shown), "")
    return table


def spec_of(path, *, data=None, **model):
    return {"name": "soft", "labels": {"given": True}, "model": {"kind": "automatic", **model}, "data": {
        "source": str(path), "test": {"none": True}, "scale": "none", **(data or {})}}


def written(table, path, *, labels=True):
    table[[*FEATURES, *COLUMNS, *(["kind"] if labels else [])]].to_csv(path, index=False)
    return path


READ = {"read": {"target": "kind"}}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "form"), [("automatic", "mapping"), *(("graph", form) for form in
                                            ("list", "mapping", "file", "table"))])
def test_soft_labels_count_as_those_of_the_fit(table, tmp_path, kind, form):
    path = written(table, tmp_path / "t.csv")
    P = table[COLUMNS].to_numpy()
    np.save(tmp_path / "soft.npy", P)
    table[COLUMNS].to_csv(tmp_path / "soft.csv", index=False)
    given = {"list": {"columns": COLUMNS, "classes": NAMES}, "mapping": {"columns": dict(zip(NAMES, COLUMNS,
             strict=True))}, "file": {"file": str(tmp_path / "soft.npy"), "classes": NAMES},
             "table": {"file": str(tmp_path / "soft.csv"), "classes": NAMES}}[form]
    data = READ if form in ("list", "mapping") else {"read": {"target": "kind", "drop": COLUMNS}}
    result = run(spec_of(path, data=data, kind=kind, soft_labels=given), workspace=tmp_path, execution=InProcess(1))
    model = ESTIMATORS[kind](classes=NAMES).fit(table[FEATURES], table["kind"].to_numpy(object), soft_labels=P)
    predicted = pd.read_csv(result.folder / "predictions_all.csv")
    assert_array_equal(predicted["label"], model.transduction_)
    assert "by it alone" in result.report.read_text() or "for the other model alone" in result.report.read_text()


@pytest.mark.parametrize("kind", ["automatic", "graph"])
@pytest.mark.parametrize("test", [{"none": True}, {"fraction": 0.5}])
def test_what_the_other_model_knows_is_not_said_to_come_from_the_unlabeled_points(tmp_path, kind, test):
    """Features that are noise, of which no unlabeled point can say anything, and an opinion that is nearly right."""
    rng = np.random.default_rng(0)
    y, table = rng.integers(0, 3, 400), pd.DataFrame(rng.normal(size=(400, 2)), columns=FEATURES)
    table[COLUMNS] = 0.1 + 0.7 * np.eye(3)[np.where(rng.random(400) < 0.9, y, rng.integers(0, 3, 400))]
    table["kind"] = np.where(np.arange(400) < 120, np.array(NAMES)[y], "")
    spec = spec_of(written(table, tmp_path / "t.csv"), data={**READ, "test": test}, kind=kind, soft_labels={
        "columns": dict(zip(NAMES, COLUMNS, strict=True))})
    result = run(spec, workspace=tmp_path, execution=InProcess(1))

    by_labels = result.gain["by_labels"]
    alone, errors = by_labels["without_other"], {name: each["error"] for name, each in by_labels["scores"].items()}
    assert errors["model"] < 0.2 < errors["base"]
    assert errors["other"] < 0.2
    assert by_labels["over_base"]["p_value"] < 0.05 < alone["over_base"]["p_value"]
    assert alone["scores"]["base"]["error"] == errors["base"]
    assert alone["scores"]["model"]["error"] > 0.5
    assert by_labels["unlabeled_data"] == alone["unlabeled_data"] != "helped"
    text = " ".join(result.report.read_text().split())
    assert "The labels say that the unlabeled data helps" not in text
    assert "the unlabeled data helped" not in text
    assert "Without the other model: in " in text
    # New points have what is said of their neighbors, which here is noise.
    assert ("with both and" in text) == ("fraction" in test)
    assert ("The other model alone, without the graph." in text) == ("none" in test)


@pytest.mark.parametrize("kind", ["automatic", "graph"])
@pytest.mark.parametrize("test", [{"none": True}, {"count": 60}])
def test_with_one_label_a_class_the_gain_of_the_other_model_is_not_that_of_the_unlabeled_points(table, tmp_path, kind,
                                                                                               test):
    """No label can be held out, and test points cannot tell the two apart."""
    table = table.assign(kind=table["true"])
    labels = {"per_class": 1} if "count" in test else {"given": True}
    if "none" in test:
        table.loc[table.groupby("true").cumcount() > 0, "kind"] = ""
    spec = spec_of(written(table, tmp_path / "t.csv"), data={**READ, "test": test}, kind=kind, soft_labels={
        "columns": dict(zip(NAMES, COLUMNS, strict=True))}) | {"labels": labels}
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert result.gain["by_labels"]["n"] == result.gain["by_labels"]["without_other"]["n"] == 0
    text = " ".join(result.report.read_text().split())
    assert "The unlabeled data helped" not in text
    assert ("with both and" in text) == ("count" in test)
    assert ("so it cannot tell whether the unlabeled data helped" in text) == ("none" in test)


@pytest.mark.parametrize("kind", ["automatic", "graph"])
def test_without_a_label_soft_labels_are_all_there_is(table, tmp_path, kind):
    """No column is the target; a new table is predicted with and without the columns of soft labels."""
    path = written(table, tmp_path / "t.csv", labels=False)
    spec = spec_of(path, data={"read": {"target": "none"}}, kind=kind, soft_labels={"columns": COLUMNS,
                                                                                    "classes": NAMES})
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    predicted = pd.read_csv(result.folder / "predictions_all.csv")
    assert (predicted["label"] == table["true"]).mean() > 0.95
    assert "no labels to judge the other model" in result.report.read_text()
    table[FEATURES].to_csv(tmp_path / "new.csv", index=False)
    assert_array_equal(result.predict(tmp_path / "new.csv"), result.predict(path))
    assert (result.predict(tmp_path / "new.csv") == table["true"]).mean() > 0.95


@pytest.mark.slow
def test_class_vectors_classify_a_table_whose_targets_are_all_missing(table, tmp_path):
    blank = table.assign(kind="")
    path = written(blank, tmp_path / "t.csv")
    pd.DataFrame(CENTERS, columns=FEATURES).assign(name=NAMES).to_csv(tmp_path / "texts.csv", index=False)
    np.save(tmp_path / "texts.npy", CENTERS)
    data = {"read": {"target": "kind", "drop": COLUMNS}}
    results = [run(spec_of(path, data=data, class_embeddings={"file": str(tmp_path / name), "classes": classes}),
                   workspace=tmp_path, execution=InProcess(1))
               for name, classes in (("texts.csv", "name"), ("texts.npy", NAMES))]
    predictions = [pd.read_csv(result.folder / "predictions_all.csv")["label"] for result in results]
    assert_array_equal(*predictions)
    assert not results[0].unreachable.get("count"), "without any label that is no news of a point"
    assert not (results[0].folder / "unreachable.csv").exists()
    model = SemiSupervisedClassifier(class_embeddings=CENTERS, classes=NAMES).fit(table[FEATURES])
    assert (predictions[0] == model.transduction_).mean() > 0.99
    assert (predictions[0] == table["true"]).mean() > 0.95


@pytest.mark.slow
def test_predicted_targets_count_in_a_regression(table, tmp_path):
    y = table["a"] + table["b"]
    shown = y.where(np.arange(len(y)) % 8 == 0)
    said = y + np.random.default_rng(0).normal(size=len(y))
    table[FEATURES].assign(y=shown, said=said).to_csv(tmp_path / "t.csv", index=False)
    result = run(spec_of(tmp_path / "t.csv", data={"task": "regression", "read": {"target": "y"}},
                         soft_labels={"columns": ["said"]}), workspace=tmp_path, execution=InProcess(1))
    model = SemiSupervisedRegressor().fit(table[FEATURES], shown, soft_labels=said)
    assert_allclose(pd.read_csv(result.folder / "predictions_all.csv")["value"], model.transduction_, rtol=1e-5)


def test_a_changed_file_and_changed_names_make_the_labels_again(table, tmp_path):
    path = written(table, tmp_path / "t.csv")
    P = table[COLUMNS].to_numpy()
    np.save(tmp_path / "soft.npy", P)
    spec = spec_of(path, data={"read": {"target": "kind", "drop": COLUMNS}},
                   soft_labels={"file": str(tmp_path / "soft.npy"), "classes": NAMES})

    def addresses(spec):
        return {item.stage.name: item.artifact.address for item in plan(spec, workspace=tmp_path / "work").stages}

    before = addresses(spec)
    assert addresses(spec) == before
    renamed = {**spec, "model": {**spec["model"], "soft_labels": {**spec["model"]["soft_labels"],
                                                                  "classes": NAMES[::-1]}}}
    np.save(tmp_path / "soft.npy", P[:, ::-1])
    for other in (addresses(spec), addresses(renamed)):
        assert other["split"] == before["split"]
        assert {other[name] != before[name] for name in ("labels", "models")} == {True}


def test_the_plan_counts_soft_labels(table, tmp_path):
    path = written(table, tmp_path / "t.csv")
    np.save(tmp_path / "soft.npy", table[COLUMNS].to_numpy())
    data = {"read": {"target": "kind", "drop": COLUMNS}}
    with_file = {"soft_labels": {"file": str(tmp_path / "soft.npy"), "classes": NAMES}}
    np.save(tmp_path / "vectors.npy", CENTERS)
    with_vectors = {"class_embeddings": {"file": str(tmp_path / "vectors.npy"), "classes": NAMES}}
    plain, soft, vectors = (
        {row["name"]: row for row in plan(spec_of(path, data=data, **model), workspace=tmp_path).records()}
        for model in ({}, with_file, with_vectors))
    for stage in ("labels", "models"):
        assert soft[stage]["read_bytes"] > plain[stage]["read_bytes"]
    # Two passes over 240 points of two columns in float32: their mean, and their similarities.
    assert vectors["models"]["read_bytes"] - soft["models"]["read_bytes"] == 2 * 240 * 2 * 4


def test_similarities_to_class_vectors_take_the_memory_that_is_planned():
    rows, vectors = ArrayRows(np.ones((40_000, 256), np.float32)), np.eye(5, 256)
    held = 8 * 40_000 * 5
    f = PlanInputs(1 << 30, IngestParams(), 40_000, Bounded.known(256), None, *map(Bounded.known, (
        256, 40_000, 0, 5, 0, 40_000, 0)), False, opinion="class_embeddings")
    planned = vectors_cost(f, 3 * held).peak
    peak = traced_peak(lambda: vector_probabilities(rows, vectors), planned)
    assert peak <= planned <= 2 * peak


def test_all_mistakes_are_told_at_once_with_their_lines(tmp_path):
    (tmp_path / "s.yaml").write_text("""name: soft
data: {source: t.csv, read: {target: p_cat}, grows: true}
labels: {given: true}
model:
  kind: automatic
  soft_labels: {columns: [p_cat, p_dog], classes: [cat]}
  class_embeddings: {file: v.npy, classes: [cat]}
  base_estimator: boosting
""")
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path / "s.yaml")
    message = str(caught.value)
    for line, says in ((6, "and 1 classes"), (7, "classes=")):
        assert f"line {line}: " in message
        assert says in message
    model = {"soft_labels": {"columns": ["p", "q"]}, "class_embeddings": {"file": "v.npy", "classes": "name"},
             "base_estimator": "boosting"}
    with pytest.raises(SpecError) as caught:
        load_spec(spec_of("t.csv", data={"read": {"target": "p"}}, **model))
    for says in ("model.class_embeddings, and model.soft_labels", "model.base_estimator, and model.soft_labels",
                 "model.soft_labels names no classes", "data.read.target is that column"):
        assert says in str(caught.value)
    for task, model, says in (
            ("regression", {"soft_labels": {"columns": {"a": "p", "b": "q"}}}, "data.task is regression"),
            ("regression", {"class_embeddings": {"file": "v.npy", "classes": "name"}}, "data.task is regression"),
            ("classification", {"kind": "svm", "soft_labels": {"file": "p.npy"}}, "soft_labels")):
        with pytest.raises(SpecError, match=says):
            load_spec(spec_of("t.csv", data={"task": task}, **model))
    with pytest.raises(SpecError, match=r"data.grows, and model.soft_labels.file"):
        load_spec(spec_of("t.csv", data={"grows": True}, soft_labels={"file": "p.npy", "classes": NAMES}))


def test_columns_and_files_that_do_not_fit_are_refused_before_the_run(table, tmp_path):
    path = written(table, tmp_path / "t.csv")
    np.save(tmp_path / "short.npy", np.full((9, 3), 1 / 3))
    for given, message in (({"columns": ["p_owl", "p_cta"], "classes": NAMES[:2]},
                            r"model.soft_labels.columns='p_cta': .*no such column(?s:.*)did you mean p_cat"),
                           ({"file": str(tmp_path / "short.npy"), "classes": NAMES}, r"\(9, 3\), expected \(240, 3\)"),
                           ({"file": str(tmp_path / "none.npy"), "classes": NAMES}, "none.npy")):
        with pytest.raises(DataError, match=message):
            plan(spec_of(path, data=READ, soft_labels=given), workspace=tmp_path / "work")


@pytest.mark.parametrize(("change", "classes", "message"), [
    ({"p_owl": 0.9}, NAMES, "no probabilities, first row 4"), ({"p_owl": np.nan}, NAMES, "not finite, first row 4"),
    ({}, ["owl", "cat", "cow"], r"the target has the classes \['dog'\]")])
def test_soft_labels_that_are_none_are_refused(table, tmp_path, change, classes, message):
    wrong = table.copy()
    for name, value in change.items():
        wrong.loc[4, name] = value
    path = written(wrong, tmp_path / "t.csv")
    with pytest.raises(DataError, match=message):
        run(spec_of(path, data=READ, soft_labels={"columns": COLUMNS, "classes": classes}), workspace=tmp_path,
            execution=InProcess(1), until="labels")


def test_without_labels_and_soft_labels_there_is_nothing_to_learn_from(table, tmp_path):
    path = written(table, tmp_path / "t.csv", labels=False)
    for test, message in (({"none": True}, "no training point has a target"), ({"count": 9}, "has no target")):
        with pytest.raises(DataError, match=message):
            run(spec_of(path, data={"read": {"target": "none"}, "test": test}), workspace=tmp_path,
                execution=InProcess(1), until="labels")
    with pytest.raises(SpecError, match=r"data.test, and data.read.target is none"):
        load_spec(spec_of(path, data={"read": {"target": "none"}, "test": {"count": 9}},
                          soft_labels={"columns": COLUMNS, "classes": NAMES}))


@pytest.mark.slow
def test_columns_of_a_table_are_matched_by_name(table, tmp_path):
    path = written(table, tmp_path / "t.csv")
    data = {"read": {"target": "kind", "drop": COLUMNS}}
    table[COLUMNS].to_csv(tmp_path / "soft.csv", index=False)
    table[COLUMNS].set_axis(NAMES, axis=1)[["dog", "owl", "cat"]].to_csv(tmp_path / "named.csv", index=False)
    vectors = pd.DataFrame(CENTERS, columns=FEATURES).assign(name=NAMES)
    vectors.to_csv(tmp_path / "v.csv", index=False)
    vectors[["name", "b", "a"]].to_csv(tmp_path / "turned.csv", index=False)
    models = [{"soft_labels": {"file": str(tmp_path / name), "classes": NAMES}} for name in ("soft.csv", "named.csv")]
    models += [{"class_embeddings": {"file": str(tmp_path / name), "classes": "name"}}
               for name in ("v.csv", "turned.csv")]
    labels = [pd.read_csv(run(spec_of(path, data=data, **model), workspace=tmp_path, execution=InProcess(1)).folder
                          / "predictions_all.csv")["label"] for model in models]
    assert_array_equal(labels[0], labels[1])
    assert_array_equal(labels[2], labels[3])
    vectors.rename(columns={"b": "c"}).to_csv(tmp_path / "v.csv", index=False)
    with pytest.raises(DataError, match=r"v.csv lacks the columns \['b'\] of the features, and has \['c'\]"):
        run(spec_of(path, data=data, **models[2]), workspace=tmp_path, execution=InProcess(1), until="labels")


@pytest.mark.extended
def test_a_class_of_soft_labels_needs_no_label(table, tmp_path):
    """The baselines of `kind: graph` never predict it."""
    classes, columns = [*NAMES, "emu"], [*COLUMNS, "p_emu"]
    with_emu = table.assign(p_emu=0.1, kind=table["true"])
    with_emu[columns] = with_emu[columns].div(with_emu[columns].sum(axis=1), axis=0)
    with_emu[[*FEATURES, *columns, "kind"]].to_csv(tmp_path / "t.csv", index=False)
    spec = spec_of(tmp_path / "t.csv", data={**READ, "test": {"count": 60}}, kind="graph",
                   soft_labels={"columns": columns, "classes": classes})
    result = run({**spec, "labels": {"per_class": 5}}, workspace=tmp_path, execution=InProcess(1))
    predicted = pd.read_csv(result.folder / "predictions_all.csv")["label"]
    assert (predicted == table["true"]).mean() > 0.9
    for name in ("base", "nearest"):
        assert {*result.predict(tmp_path / "t.csv", model=name)} == {*NAMES}


def test_vectors_and_names_of_classes_that_do_not_fit_are_refused(table, tmp_path):
    path, data = written(table, tmp_path / "t.csv"), {"read": {"target": "kind", "drop": COLUMNS}}
    vectors = pd.DataFrame(CENTERS, columns=FEATURES).assign(name=NAMES)
    vectors.assign(name=["owl", "", "dog"]).to_csv(tmp_path / "unnamed.csv", index=False)
    vectors.assign(a=[0.0, np.nan, 0.0]).to_csv(tmp_path / "empty.csv", index=False)
    for name, message in (("unnamed.csv", "no class in 1 rows, first row 1"),
                          ("empty.csv", r"a(?s:.*)correct these cells in the file")):
        with pytest.raises(DataError, match=message) as caught:
            run(spec_of(path, data=data, class_embeddings={"file": str(tmp_path / name), "classes": "name"}),
                workspace=tmp_path, execution=InProcess(1), until="labels")
        assert "when_missing" not in str(caught.value)
    np.save(tmp_path / "wide.npy", np.ones((3, 5)))
    for classes, message in ((NAMES, r"\(3, 5\), expected \(3, 2\)"), (NAMES[:2], r"expected \(2, 2\)")):
        with pytest.raises(DataError, match=message):
            plan(spec_of(path, data=data, class_embeddings={"file": str(tmp_path / "wide.npy"), "classes": classes}),
                 workspace=tmp_path / "work")


def test_labels_that_are_drawn_and_regressions_need_targets(table, tmp_path):
    path = written(table.assign(kind=""), tmp_path / "t.csv")
    soft = {"columns": COLUMNS, "classes": NAMES}
    with pytest.raises(DataError, match=r"no point has a label(?s:.*)set labels: \{given: true\}"):
        run({**spec_of(path, data=READ, soft_labels=soft), "labels": {"per_class": 2}}, workspace=tmp_path,
            execution=InProcess(1), until="labels")
    table[FEATURES].assign(y=[1.0] + 239 * [np.nan], said=1.0).to_csv(tmp_path / "q.csv", index=False)
    soft = {"columns": ["said"]}
    with pytest.raises(DataError, match="1 training points have a target"):
        run(spec_of(tmp_path / "q.csv", data={"task": "regression", "read": {"target": "y"}}, soft_labels=soft),
            workspace=tmp_path, execution=InProcess(1), until="labels")
    for spec, message in (
            (spec_of("q.csv", data={"task": "regression", "read": {"target": "none"}}, soft_labels=soft),
             "data.read.target is none, and data.task is regression"),
            (spec_of("q.csv", data={"task": "regression"}, soft_labels={"columns": []}), "columns is empty"),
            (spec_of("t.csv", soft_labels={"columns": COLUMNS, "classes": [1, "1", "dog"]}), r"\[1, '1', 'dog'\]"),
            ({**spec_of("t.csv", soft_labels={"columns": COLUMNS, "classes": NAMES}),
              "labels": {"given": True, "weight": "p_owl"}}, "labels.weight='p_owl', and model.soft_labels.columns")):
        with pytest.raises(SpecError, match=message):
            load_spec(spec)
