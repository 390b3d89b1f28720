"""Several labels a point (`data.tags`): read of three forms, learned as in Python, scored, predicted and reported."""

import json
from contextlib import suppress
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import dssl
from dssl import LaplaceLearning, LapRLSClassifier, LapSVC, SemiSupervisedClassifier
from dssl.base.errors import BudgetError, DataError, SpecError
from dssl.cli.init.first_spec import first_spec
from dssl.cli.main import main
from dssl.estimators import numpy_model
from dssl.execution.in_process import InProcess
from dssl.learners.target.coding import TagCoding
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.pipeline.suggestion import suggest_rows
from dssl.pipeline.tags import tags_in
from dssl.storage.blocks import STREAM_BYTES, MemoryParts, RowStream

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
NAMES = ["sea", "sky", "sun"]
FEATURES = ["a", "b", "c"]
FORMS = {"text.csv": {"column": "topics", "separator": ";"}, "lists.parquet": {"column": "topics"},
         "columns.csv": {"columns": NAMES}}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder with the same 160 points in three forms, 60 of them with tags; the points, and y."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3)).astype(np.float32)
    tags = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(160, 3)) * 0.3 > 0).astype(int)
    y = np.where((np.arange(160) % 8 < 3)[:, None], tags, -1)
    folder = tmp_path_factory.mktemp("tables")
    points = pd.DataFrame(X.astype(float), columns=FEATURES)
    known = y[:, 0] >= 0
    lists = [[name for name, has in zip(NAMES, row, strict=True) if has] if here else None
             for row, here in zip(tags, known, strict=True)]
    points.assign(topics=["" if each is None else "; ".join(each) or ";" for each in lists]).to_csv(
        folder / "text.csv", index=False)
    points.assign(topics=lists).to_parquet(folder / "lists.parquet")
    points.assign(**{name: pd.array(np.where(known, tags[:, j], -1)).astype("Int64") for j, name in enumerate(NAMES)}
                  ).replace(-1, pd.NA).to_csv(folder / "columns.csv", index=False)
    return folder, X, tags, y


def spec_of(tables, form="text.csv", *, test=None, labels=None, **model):
    return {"name": "tagged", "labels": labels or {"given": True}, "model": model or {"kind": "graph",
                                                                                     "learner": "laplace"},
            "data": {"source": str(tables[0] / form), "tags": FORMS[form], "test": test or {"none": True}}}


def of_sky(tables, **model):
    """A spec that learns one of the tags alone."""
    source = {"source": str(tables[0] / "columns.csv"), "read": {"target": "sky", "drop": ["sea", "sun"]}}
    return {**spec_of(tables, "columns.csv", **model), "data": {**source, "test": {"none": True}}}


def result_of(spec, folder, **options):
    return run(spec, workspace=folder, execution=InProcess(memory_budget=1 << 28), **options)


def predicted(result):
    """The probabilities of all rows, and whether each tag is predicted."""
    table = pd.read_csv(result.predictions)
    has = [[name in str(cell).split(";") for name in NAMES] for cell in table["tags"]]
    return table[[f"probability {name}" for name in NAMES]].to_numpy(), np.array(has, int), table


@pytest.fixture(scope="module")
def whole(tables, tmp_path_factory):
    """Return a function that returns the result of the run of a form of the table, made once."""
    return cache(lambda form: result_of(spec_of(tables, form), tmp_path_factory.mktemp("whole")))


@pytest.fixture(scope="module")
def tested(tables, tmp_path_factory):
    """A run with test points."""
    folder = tmp_path_factory.mktemp("tested")
    return result_of(spec_of(tables, test={"fraction": 0.3}), folder)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.extended_cases("columns.csv", "lists.parquet")
def test_a_run_finds_what_the_estimator_finds_in_each_form(tables, whole, form):
    _, X, _, y = tables
    probabilities, has, table = predicted(whole(form))
    model = LaplaceLearning().fit(X, y)
    assert_allclose(probabilities, model.predict_proba(X), atol=1e-8)
    assert_array_equal(has, model.transduction_)
    assert_array_equal(table["given"].isna(), y[:, 0] < 0)
    assert_array_equal(table["role"], np.where(y[:, 0] < 0, "unlabeled", "labeled"))


@pytest.mark.slow
def test_weights_count_in_each_tag(tables, tmp_path):
    folder, X, _, y = tables
    weight = np.where(np.arange(160) % 3, 1.0, 0.25)
    weight[np.flatnonzero(y[:, 0] >= 0)[:2]] = 0
    pd.read_csv(folder / "text.csv").assign(weight=weight).to_csv(tmp_path / "weighed.csv", index=False)
    spec = spec_of(tables, labels={"given": True, "weight": "weight"})
    spec["data"]["source"] = str(tmp_path / "weighed.csv")
    result = result_of(spec, tmp_path / "ws")
    model = LaplaceLearning().fit(X, y, sample_weight=weight)
    assert_allclose(predicted(result)[0], model.predict_proba(X), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "estimator"), [
    ("automatic", SemiSupervisedClassifier()), ("svm", LapSVC()), ("laprls", LapRLSClassifier())])
@pytest.mark.extended_cases("laprls-estimator2")
def test_other_kinds_learn_tags_as_their_estimators_do(tables, kind, estimator, tmp_path):
    _, X, _, y = tables
    result = result_of(spec_of(tables, "columns.csv", kind=kind), tmp_path)
    estimator.fit(X, y)
    assert_allclose(result.model().model.values(result.model()._scaled(X, None)), estimator.decision_function(X),
                    rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["cluster", pytest.param("multiscale", marks=pytest.mark.slow),
                                  pytest.param("transductive", marks=pytest.mark.slow),
                                  pytest.param("lapsvm", marks=pytest.mark.slow),
                                  pytest.param("ridge", marks=pytest.mark.slow)])
@pytest.mark.extended_cases("lapsvm", "ridge", "multiscale", "transductive")
def test_each_tag_is_learned_as_in_a_run_of_its_own(tables, kind, tmp_path):
    whole = result_of(spec_of(tables, "columns.csv", kind=kind), tmp_path).model().model
    single = result_of(of_sky(tables, kind=kind), tmp_path).model()
    X = single._scaled(tables[1], None)
    assert_allclose(whole.values(X)[:, 1], single.model.coding.margins(single.model.values(X))[:, 1], rtol=1e-6)


@pytest.mark.slow
def test_the_graph_is_that_of_a_run_of_one_tag(tables, whole, tmp_path):
    single = result_of(of_sky(tables), tmp_path)
    _, _, table = predicted(whole("columns.csv"))
    other = pd.read_csv(single.predictions)
    assert_allclose(table["probability sky"], np.where(other["label"] == 1, other["probability"],
                                                       1 - other["probability"]), atol=1e-8)


@pytest.mark.slow
def test_scores_are_those_of_scikit_learn(tables, tested):
    from sklearn.metrics import average_precision_score, f1_score, hamming_loss

    _, _, tags, _ = tables
    probabilities, has, table = predicted(tested)
    test = np.flatnonzero(table["role"] == "test")
    assert tested.metrics["n_test"] == len(test) == 18
    assert_allclose(tested.metrics["hamming_loss"], hamming_loss(tags[test], has[test]))
    assert_allclose(tested.metrics["f1_macro"], f1_score(tags[test], has[test], average="macro"))
    assert_allclose(tested.metrics["average_precision"], average_precision_score(tags[test], probabilities[test]))
    assert [tag["tag"] for tag in tested.metrics["by_tag"]] == NAMES
    assert set(tested.baselines) == {"base", "nearest", "majority"}
    assert tested.gain["unlabeled_data"] in ("helped", "hurt", "no clear difference", "too few points to tell")
    assert "Hamming loss" in tested.verdict[0]


def test_the_report_has_each_tag(tested):
    page = Path(tested.report).read_text(encoding="utf-8")
    for words in ("Each tag", "test Hamming loss", "mean average precision", "sea", "tags"):
        assert words in page


def test_new_rows_are_predicted_in_every_format(tables, tested, tmp_path):
    folder, X, _, _ = tables
    new = tmp_path / "new.csv"
    pd.DataFrame(X[:20].astype(float), columns=FEATURES).to_csv(new, index=False)
    wanted = tested.predict_proba(X[:20])
    labels = tested.predict(X[:20])
    model = str(tested.folder)
    for ending in ("csv", "parquet", "zarr", "npy"):
        out = tmp_path / f"out.{ending}"
        done = CliRunner().invoke(main, ["predict", model, str(new), str(out)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        if ending in ("csv", "parquet"):
            table = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
            assert_allclose(table[[f"probability {name}" for name in NAMES]], wanted, atol=1e-8)
            assert_array_equal([[name in str(cell).split(";") for name in NAMES] for cell in table["tags"]], labels)
        else:
            assert_array_equal(zarr.open_array(out, mode="r")[:] if ending == "zarr" else np.load(out), labels)
    with_tags = tested.model().dataset_of(folder / "text.csv", InProcess())  # the column of the tags is no feature
    assert with_tags.X.shape == (160, 3)


def test_a_run_of_tags_is_exported_and_compares_new_points(tables, tested, tmp_path):
    _, X, _, _ = tables
    loaded = dssl.load(tested.folder)
    exported = numpy_model.load(loaded.export(tmp_path / "model.zip"))
    assert exported.classes.tolist() == NAMES
    new = X[:20] + np.random.default_rng(1).normal(0, 0.1, (20, 3)).astype(np.float32)
    assert_array_equal(exported.predict(new), loaded.predict(new))
    assert_allclose(exported.predict_proba(new), loaded.predict_proba(new), atol=1e-6)
    assert not loaded.drift(X).alarm
    assert loaded.drift(X + 5).alarm


def test_suggestions_are_refused_with_a_way_out(tested):
    with pytest.raises(DataError, match="several labels a point"):
        suggest_rows(tested.folder, InProcess())


def test_a_plan_counts_what_all_tags_take(tables, tmp_path):
    def costs(spec):
        made = plan(spec, workspace=tmp_path)
        return {item.stage.name: item.cost for item in made.stages}, made

    several, _ = costs(spec_of(tables, "columns.csv"))
    one, _ = costs(of_sky(tables))
    assert several["graph"].figures == one["graph"].figures
    assert several["vertex_values"].tasks == 3 * one["vertex_values"].tasks
    assert several["models"].read == 3 * one["models"].read
    assert several["predictions"].tasks == one["predictions"].tasks
    guessed, made = costs(spec_of(tables))
    assert any(note.startswith("~") and "number of tags" in note for note in made.notes())
    assert {row["bound"] for row in made.records() if "number of tags" in row["estimated"]} == {"guess"}
    assert guessed["vertex_values"].seconds > several["vertex_values"].seconds


@pytest.mark.slow
def test_a_rare_tag_is_said_and_predicted_as_its_labels_say(tables, tmp_path):
    folder, X, _, y = tables
    rare = pd.read_csv(folder / "columns.csv").assign(rare=np.where(y[:, 0] < 0, np.nan, 0))
    rare.to_csv(tmp_path / "rare.csv", index=False)
    spec = spec_of(tables)
    spec["data"] = {"source": str(tmp_path / "rare.csv"), "tags": {"columns": [*NAMES, "rare"]},
                    "test": {"fraction": 0.3}}
    result = result_of(spec, tmp_path / "ws")
    assert any("no labeled point has: 'rare'" in note for note in result.notes)
    assert_array_equal(result.predict(X)[:, 3], 0)
    assert not {"rare"} & set(result.selection)


def test_everything_of_one_label_is_refused_at_once(tables):
    spec = spec_of(tables, kind="automatic", class_sizes=[0.5, 0.5])
    spec["data"] |= {"read": {"target": "a"}, "keep": [1], "unlabeled": -1, "grows": True}
    spec["labels"] = {"per_class": 2}
    with pytest.raises(SpecError) as refused:
        load_spec(spec)
    for key in ("data.read.target", "data.keep", "data.unlabeled", "data.grows", "labels.per_class",
                "model.class_sizes"):
        assert f"{key}, and data.tags" in str(refused.value)
    with pytest.raises(SpecError, match=r"data\.task is clustering"):
        load_spec({"name": "x", "data": {"source": "x.csv", "tags": FORMS["columns.csv"]},
                   "model": {"kind": "clustering", "n_clusters": 2}})


@pytest.mark.parametrize(("tags", "message"), [
    ({"column": "topics"}, "is no list"),
    ({"column": "topics", "separator": ","}, "(?s)two tags between which ',' stands.*cells hold ';'"),
    ({"columns": ["a", "topics"]}, "a column of one tag says"),
    ({"column": "topic", "separator": ";"}, "did you mean topics")])
def test_columns_that_hold_no_tags_are_refused(tables, tags, message, tmp_path):
    spec = spec_of(tables)
    spec["data"]["tags"] = tags
    with pytest.raises(DataError, match=message):
        result_of(spec, tmp_path)


@pytest.mark.parametrize(("lists", "message"), [
    ([[1.5, 2.0], [3.0]], r"lists of numbers in 'topics'\n.*\n.*as text"),
    ([[date(2020, 1, 1)], []], "row 0 .* is no list.*\n.*list of text.*\n.*as text")], ids=["numbers", "dates"])
def test_lists_of_other_than_text_and_integers_are_refused_with_the_reason(lists, message, tmp_path):
    pd.DataFrame({"a": np.arange(40.0), "topics": lists * 20}).to_parquet(tmp_path / "lists.parquet")
    spec = spec_of((tmp_path,), "lists.parquet")
    with pytest.raises(DataError, match=message):
        result_of(spec, tmp_path / "ws")


@pytest.mark.slow
def test_many_tags_need_no_more_memory_than_planned_or_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    n, c = 3000, 2000
    lists = [[f"t{j}" for j in row] for row in rng.integers(0, c, (n, 5)).tolist()]
    pd.DataFrame({"a": rng.normal(size=n), "topics": lists}).to_parquet(tmp_path / "lists.parquet")
    spec = spec_of((tmp_path,), "lists.parquet", labels={"count": 100})
    with pytest.raises(BudgetError, match="2,000 tags of 3,000 rows"):
        run(spec, workspace=tmp_path / "ws", execution=InProcess(memory_budget=20 << 20), until="split")
    run(spec, workspace=tmp_path / "ws", execution=InProcess(memory_budget=64 << 20), until="split")
    made = plan(spec, workspace=tmp_path / "ws", memory_budget=64 << 20)
    assert next(item for item in made.stages if item.stage.name == "labels").cost.peak > 2 * c * n
    stream = RowStream(MemoryParts(), "tags", 70_000, np.int8, (3000,))
    assert stream.height * 3000 <= STREAM_BYTES


@pytest.mark.parametrize(("tags", "message"), [
    ({"column": "x", "columns": ["a", "b"]}, "column"), ({"columns": ["a"]}, "one alone is a target"),
    ({"columns": ["a", "b"], "separator": ";"}, "separator"), ({"columns": ["a", "a"]}, "once")])
def test_sections_that_say_two_things_are_refused(tags, message):
    with pytest.raises(SpecError, match=message):
        load_spec({"name": "x", "data": {"source": "x.csv", "tags": tags}, "labels": {"given": True}})


@given(st.lists(st.lists(st.text("ab ;|,'\"", min_size=1).map(str.strip).filter(bool), unique=True), min_size=1))
def test_what_is_written_is_read_again(rows):
    names = sorted({tag for row in rows for tag in row}) or ["a"]
    codes = np.array([[name in row for name in names] for row in rows], int)
    coding = TagCoding(np.array(names))
    assert [set(tags_in(text, coding.separator)) for text in coding.texts(codes)] == [set(row) for row in rows]
    assert [set(tags_in(repr(row), None)) for row in rows] == [set(row) for row in rows]


@pytest.mark.extended
def test_a_column_of_one_tag_says_yes_and_no_as_a_feature_does(tables, tmp_path):
    columns = pd.read_csv(tables[0] / "columns.csv").replace({name: {1: "Ja", 0: "nein"} for name in NAMES})
    columns.to_csv(tmp_path / "words.csv", index=False)
    spec = spec_of(tables, "columns.csv")
    words = {**spec, "data": {**spec["data"], "source": str(tmp_path / "words.csv")}}
    assert_array_equal(*(predicted(result_of(each, tmp_path / name))[1] for name, each in
                         (("numbers", spec), ("words", words))))


@pytest.mark.slow
def test_the_order_of_rows_and_of_blocks_changes_nothing(tables, tmp_path):
    spec = spec_of(tables, test={"fraction": 0.3})
    whole, _, _ = predicted(result_of(spec, tmp_path / "whole"))
    spec["data"]["read"] = {"block_rows": 7}
    again = run(spec, workspace=tmp_path / "blocks", execution=InProcess(2, memory_budget=1 << 26))
    assert_allclose(predicted(again)[0], whole, atol=1e-9)


@pytest.mark.slow
def test_a_run_of_tags_on_a_cluster_of_two_processes(tables, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps(spec_of(tables, test={"fraction": 0.3}, kind="automatic")), encoding="utf-8")
    outcomes = []
    for cluster in ("kind: in-process\n", "kind: local\nworkers: 2\n"):
        workspace, on = tmp_path / f"ws{len(outcomes)}", tmp_path / "on.yaml"
        on.write_text(cluster, encoding="utf-8")
        done = CliRunner().invoke(main, ["run", str(spec), "--workspace", str(workspace), "--on", str(on), "--json"],
                                  catch_exceptions=False)
        assert done.exit_code == 0, done.output
        outcomes.append(json.loads(done.stdout))
    first, second = (pd.read_csv(outcome["predictions"]) for outcome in outcomes)
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert outcomes[0]["metrics"] == outcomes[1]["metrics"]
    assert outcomes[1]["gain"]["by_labels"]["scores"]["model"]["hamming_loss"] < 0.5


# ---- dssl init


@pytest.mark.parametrize("form", FORMS)
def test_init_writes_where_the_tags_are(tables, form, tmp_path):
    first = first_spec([str(tables[0] / form)], {}, InProcess())
    path = tmp_path / "spec.yaml"
    path.write_text(first.text, encoding="utf-8")
    spec = load_spec(path)
    assert spec.data.tags is not None
    assert {name: value for name, value in vars(spec.data.tags).items() if value is not None} == {
        name: tuple(value) if isinstance(value, list) else value for name, value in FORMS[form].items()}
    assert spec.model.kind == "automatic"
    assert "60 of 160 rows" in first.text
    assert plan(spec, workspace=tmp_path).inputs.d == 3


@pytest.mark.parametrize(("cells", "why"), [
    (["Oslo, Norway", "Bergen, Norway", "Lund, Sweden"] * 20, "each has as many"), (["red", "blue"] * 30, "one each"),
    ([f"row {i}; {i * i}; x" if i % 2 else f"row {i}" for i in range(30)] * 2, "each is of few rows"),
    (["Arts, Culture", "Sports", "Business"] * 20, "no part is in two classes"),
    (["Oslo, Norway", "Bergen, Norway", "Lund, Sweden", "Remote"] * 15, "fewer classes than parts")],
    ids=["pairs", "single", "unlike", "comma in a name", "places"])
def test_init_takes_no_other_text_for_tags(cells, why, tmp_path):
    for name, options in (("labels", {}), ("labels", {"target": "labels"}), ("place", {})):
        pd.DataFrame({"a": np.arange(60.0), "b": np.arange(60.0) ** 2, name: cells}).to_csv(
            tmp_path / "table.csv", index=False)
        with suppress(DataError):  # nothing is the target beyond doubt
            assert "tags:" not in first_spec([str(tmp_path / "table.csv")], options, InProcess()).text, why


def tags_by_init(table, path):
    """Write a table; return what a first spec says of its tags."""
    table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
    first = first_spec([str(path)], {}, InProcess())
    spec = path.with_suffix(".yaml")
    spec.write_text(first.text, encoding="utf-8")
    loaded = load_spec(spec)
    assert plan(loaded, workspace=path.parent).inputs.d == 3
    return None if loaded.data.tags is None else {
        name: value for name, value in vars(loaded.data.tags).items() if value is not None}


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.extended_cases("feather")
def test_lists_of_integers_are_tags_named_by_them(tables, whole, tmp_path, ending):
    _, X, tags, y = tables
    lists = [np.flatnonzero(row).tolist() if known else None for row, known in zip(tags, y[:, 0] >= 0, strict=True)]
    table = pd.DataFrame(X.astype(float), columns=FEATURES).assign(codes=lists)
    assert tags_by_init(table, tmp_path / "lists.parquet") == {"column": "codes"}
    path = tmp_path / f"lists.{ending}"
    table.to_parquet(path) if ending == "parquet" else table.to_feather(path)
    spec = spec_of(tables)
    spec["data"] |= {"source": str(path), "tags": {"column": "codes"}}
    result = result_of(spec, tmp_path / "ws")
    assert result.classes.tolist() == ["0", "1", "2"]
    assert_array_equal(result.predict(path), whole("text.csv").predict(X))


@pytest.mark.slow
def test_init_knows_tags_by_their_cells(tables, tmp_path):
    _, X, tags, y = tables
    points, known = pd.DataFrame(X.astype(float), columns=FEATURES), y[:, 0] >= 0
    for mark, names in ((";", NAMES), ("|", NAMES), (",", NAMES), (";", ["red wine", "beer"])):
        cells = [mark.join(name for name, has in zip(names, row, strict=False) if has) or mark if here else ""
                 for row, here in zip(tags, known, strict=True)]
        for place in (0, 3):
            table = points.copy()
            table.insert(place, "drinks", cells)
            assert tags_by_init(table, tmp_path / "table.csv") == {"column": "drinks", "separator": mark}
    places = np.array(["Oslo, Norway", "Oslo, Sweden", "Lund, Norway", "Lund, Sweden", "Norway"])
    with suppress(DataError):
        assert "tags:" not in first_spec_of(points.assign(place=places[np.arange(160) % 5]), tmp_path / "table.csv")
    twice = first_spec_of(points.assign(spoken=cells, drinks=cells), tmp_path / "table.csv")
    assert "tags:" not in twice  # which of both?
    with pytest.raises(DataError, match="beyond doubt"):  # another column has the name of a target
        first_spec_of(points.assign(drinks=cells, label=tags[:, 0]), tmp_path / "table.csv")


def first_spec_of(table, path):
    table.to_csv(path, index=False)
    return first_spec([str(path)], {}, InProcess()).text


def test_init_knows_columns_of_tags_with_single_empty_cells(tables, tmp_path):
    folder, *_ = tables
    table = pd.read_csv(folder / "columns.csv").astype(dict.fromkeys(NAMES, "Int64"))
    for j, name in enumerate(NAMES):
        table.loc[8 * j, name] = pd.NA
    assert tags_by_init(table, tmp_path / "table.csv") == {"columns": tuple(NAMES)}
    assert "single cells" in first_spec_of(table, tmp_path / "table.csv")
    table.loc[~table["sea"].isna(), "sun"] = pd.NA  # known where the others are not
    table.loc[table["sea"].isna(), "sun"] = np.arange(len(table))[table["sea"].isna()] % 2
    assert "tags:" not in first_spec_of(table, tmp_path / "other.csv")
