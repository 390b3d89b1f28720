"""An exported model predicts with NumPy alone what dssl predicts."""

import csv
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs

import dssl
from dssl import (
    GraphKernelRidge,
    KernelKMeans,
    KNNGraph,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    LapSVM,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
    TransductiveSVC,
)
from dssl.base.errors import DataError, ParameterError
from dssl.cli.main import main
from dssl.estimators import numpy_model, onnx_model
from dssl.execution.in_process import InProcess

X, CODES = make_blobs(400, 5, centers=3, cluster_std=3.0, random_state=0)
X[:, 0] *= 30  # scaled
Y = np.array(["owl", "cat", "dog"])[CODES]
NEW = np.concatenate([X[:5], X[:60] + np.random.default_rng(0).normal(0, 0.5, (60, 5))])  # five of the fit
LABELED = np.arange(400) % 16 == 0
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of weights that were raised, and points out of range


def exported(model, path):
    assert model.export(path / "m.dssl.zip") == path / "m.dssl.zip"
    return numpy_model.load(path / "m.dssl.zip")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [
    SemiSupervisedClassifier, GraphKernelRidge, LapSVC, LapRLSClassifier,
    lambda: SemiSupervisedClassifier(class_sizes=[134, 133, 133]),
    lambda: GraphKernelRidge(graph=KNNGraph(metric="cosine", weights="heat"), scale="none"),
    lambda: LapSVC("laplacian", loss="hinge", scale="unit_range"), lambda: LapSVC("polynomial", scale="unit_norm"),
    lambda: LapRLSClassifier("cosine", gamma_A=1e-3, gamma_I=1e-3)], ids=[
    "automatic", "graph", "svc", "laprls", "sizes", "cosine", "laplacian", "polynomial", "cosine kernel"])
def test_classes_and_probabilities_are_those_of_the_estimator(make, dtype, tmp_path):
    points, new = X.astype(dtype), NEW.astype(dtype)
    model = make().fit(points, np.where(LABELED, Y, ""))
    other = exported(model, tmp_path)
    assert_array_equal(other.classes, model.classes_)
    assert_array_equal(other.predict(new), model.predict(new))
    assert_allclose(other.predict_proba(new), model.predict_proba(new), atol=1e-6)


@pytest.mark.slow
def test_two_classes_quantities_and_unreachable_points(tmp_path):
    two = np.where(LABELED & (CODES < 2), CODES, -1)
    model = GraphKernelRidge(graph=KNNGraph(n_neighbors=4)).fit(X, two)
    other = exported(model, tmp_path)
    assert_array_equal(other.predict(NEW), model.predict(NEW))
    assert_allclose(other.predict_proba(NEW), model.predict_proba(NEW), atol=1e-6)
    targets = np.where(LABELED, X[:, 1] + CODES, np.nan)
    for regressor in (SemiSupervisedRegressor(), LapRLSRegressor()):
        regressor.fit(X, targets)
        assert_allclose(exported(regressor, tmp_path).predict(NEW), regressor.predict(NEW), rtol=1e-5, atol=1e-5)
    far = np.concatenate([X, 1e4 + X[:20] / 30])  # a piece of the graph without a label
    model = GraphKernelRidge(scale="none").fit(far, np.concatenate([np.where(LABELED, CODES, -1), np.full(20, -1)]))
    predicted = exported(model, tmp_path).predict(far)
    assert_array_equal(predicted, model.predict(far))
    assert (predicted[-20:] == -1).all()
    other, probabilities = exported(model, tmp_path), model.predict_proba(far)
    assert np.isnan(probabilities[-20:]).all()
    assert_allclose(other.predict_proba(far), probabilities, atol=1e-6)


def test_the_file_needs_numpy_alone(tmp_path):
    model = SemiSupervisedClassifier().fit(X, np.where(LABELED, Y, ""))
    path = model.export(tmp_path / "m.dssl.zip")
    np.save(tmp_path / "new.npy", NEW)
    code = f"""
import sys
sys.path.insert(0, {str(path)!r})
for name in ("dssl", "scipy", "sklearn", "pandas", "numba"):
    sys.modules[name] = None
import dssl_model, numpy as np
print(" ".join(dssl_model.load({str(path)!r}).predict(np.load({str(tmp_path / 'new.npy')!r}))))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == model.predict(NEW).tolist()


@pytest.mark.slow
def test_the_model_of_a_run_is_exported_by_the_command(tmp_path):
    table = pd.DataFrame(NEW, columns=list("abcde")).assign(kind=np.where(np.arange(65) % 4 == 0, "x", ""))
    table.loc[::8, "kind"] = "y"
    table.to_csv(tmp_path / "t.csv", index=False)
    data = {"source": str(tmp_path / "t.csv"), "read": {"target": "kind"}, "test": {"none": True}}
    result = dssl.run({"name": "t", "data": data, "labels": {"given": True}}, workspace=tmp_path / "w",
                      execution=InProcess(1))
    done = CliRunner().invoke(main, ["export", str(result.folder / "result.json"), str(tmp_path / "m.dssl.zip")])
    assert done.exit_code == 0, done.output
    other = numpy_model.load(tmp_path / "m.dssl.zip")
    assert other.feature_names == list("abcde")
    points = NEW.astype(np.float32)
    assert_array_equal(other.predict(points), result.predict(points))
    assert_allclose(other.predict_proba(points), result.predict_proba(points), atol=1e-6)


def people(n, decimal, seed=0):
    """Return rows of a table of text, units, yes and no, gaps, and codes, as the text of their cells."""
    draw, swapped = np.random.default_rng(seed), str.maketrans(",.", ".," if decimal == "," else ",.")
    rows = []
    for number in range(n):
        age, kind = draw.integers(20, 70), number % 2
        rows.append({
            "age": str(age) if draw.random() > 0.1 else draw.choice(["", "NA", "-"]),
            "height": f"{draw.normal(170 + 9 * kind, 3):.2f}".replace(".", decimal) + [" cm", "cm"][number % 3 % 2],
            "color": str(draw.choice(["red", " Red", "blue", "dark green", ""])), "member": "yes" if age > 40 else "no",
            "income": f"{draw.normal(2e4 + 5e3 * kind, 1e3):,.2f}".translate(swapped),
            "zone": str(draw.integers(1, 4)), "kind": ["cat", "dog"][kind]})
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("decimal", [".", ","])
def test_the_model_of_a_table_reads_all_forms_of_numbers(decimal, tmp_path):
    """Currencies, percent, parentheses, bounds, sizes, codes, and missing cells where training had none."""
    draw, swapped = np.random.default_rng(0), str.maketrans(",.", ".," if decimal == "," else ",.")
    rows = [{"price": f"{draw.normal(2e3 + 500 * (row % 2), 200):,.2f} €", "share": f"{draw.normal(40, 5):.1f} %",
             "balance": [f"({draw.uniform(1, 9):.2f})", f"\u2212{draw.uniform(1, 9):.2f}"][row % 3 % 2],
             "dose": ["<0.5", f"{draw.uniform(0.5, 9):.3f}"][row % 5 > 0],
             "weight": f"{draw.uniform(1, 3):.3f} \u03bcg",
             "size": f"{draw.integers(1, 9)}x{draw.integers(10, 90)} mm" if row != 7 else "",
             "code": str(draw.choice(["5411", "5812.0"])), "color": str(draw.choice(["red", "blue"])),
             "kind": ["cat", "dog"][row % 2] if row < 60 else ""} for row in range(240)]
    rows = [{name: cell.translate(swapped) for name, cell in row.items()} for row in rows]
    table = pd.DataFrame(rows)
    table[:200].to_csv(tmp_path / "t.csv", index=False, sep=";")
    new = table[200:].drop(columns="kind").reset_index(drop=True)
    new.loc[3, ["price", "size", "color"]] = ""
    new.to_csv(tmp_path / "new.csv", index=False, sep=";")
    read = {"target": "kind", "when_text": "one_hot", "when_missing": "impute", "categories": ["code"]}
    result = dssl.run({"name": "t", "data": {"source": str(tmp_path / "t.csv"), "read": read, "test": {"none": True}},
                       "labels": {"given": True}}, workspace=tmp_path / "w", execution=InProcess(1))
    fitted = result.model()
    expected = fitted.predict_proba(fitted.dataset_of(tmp_path / "new.csv", InProcess(1)).X)
    model = numpy_model.load(result.export(tmp_path / "m.dssl.zip"))
    assert {"size[0]", "size[1]"} <= set(model.feature_names)
    for given in (new, new.to_dict("records")):
        with pytest.warns(UserWarning, match=r"'color' holds texts that it did not in training, such as \[''\]"):
            assert_allclose(model.predict_proba(given), expected, atol=1e-6)
    assert_allclose(result.predict_proba(new), expected, atol=1e-6)
    with pytest.raises(DataError, match="column 'size' holds text: '3x4 cm' in row 0"):
        result.predict(new.assign(size="3x4 cm".translate(swapped)))
    as_decimals = new.assign(price=[Decimal(f"{number:.2f}") if text else None for number, text in zip(
        fitted.rows_of(new, InProcess(1)).read_all()[:, 0], new["price"], strict=True)])
    assert_allclose(result.predict_proba(as_decimals), expected, atol=1e-6)
    amount = float(new["price"][4].removesuffix(" €").translate(str.maketrans("", "", ",."))) / 100
    mixed = new[4:].to_dict("records")
    mixed[0] |= {"price": Decimal(f"{amount:.2f}")}  # among texts
    mixed[1] |= {"code": float(new["code"][5].replace(",", "."))}
    assert_allclose(model.predict_proba({name: [row[name] for row in mixed] for name in new}), expected[4:], atol=1e-6)
    for column, cell in (("size", "3x4x5 mm"), ("size", "3x4 cm"), ("price", "1_000"), ("weight", "2 g")):
        with pytest.raises(ValueError, match=f"column '{column}.* holds .* in row 0, where training had numbers"):
            model.predict([mixed[2] | {column: cell}])


@pytest.mark.slow
@pytest.mark.parametrize("decimal", [".", ","])
def test_the_model_of_a_table_of_numbers_alone_reads_them_as_the_table_wrote_them(decimal, tmp_path):
    """Thousands, a decimal comma, currencies, percent, and a code of missing cells, without anything set for these."""
    draw, swapped = np.random.default_rng(0), str.maketrans(",.", ".," if decimal == "," else ",.")
    rows = [{"price": f"{draw.normal(2e3 + 500 * (row % 2), 200):,.2f} €", "share": f"{draw.normal(40, 5):.1f} %",
             "weight": f"{draw.uniform(1, 3):.3f} vol", "kind": str(row % 2) if row < 60 else ""} for row in range(240)]
    table = pd.DataFrame([{name: cell.translate(swapped) for name, cell in row.items()} for row in rows])
    table["plain"] = [str(number) for number in draw.integers(10_000, 99_999, 240)]
    for columns, wrong in ((["price", "share", "plain"], ("share", "x")),
                           (["price", "weight"], ("weight", "9.8 % vol"))):
        table[:200][[*columns, "kind"]].to_csv(tmp_path / "t.csv", index=False, sep=";")
        new = table[200:][columns]
        new.to_csv(tmp_path / "new.csv", index=False, sep=";")
        result = dssl.run({"name": "t", "data": {"source": str(tmp_path / "t.csv"), "read": {"target": "kind"},
                                                 "test": {"none": True}}, "labels": {"given": True}},
                          workspace=tmp_path / "w", execution=InProcess(1))
        fitted = result.model()
        expected = fitted.predict_proba(fitted.dataset_of(tmp_path / "new.csv", InProcess(1)).X)
        model = numpy_model.load(result.export(tmp_path / "m.dssl.zip"))
        for given in (new, new.to_dict("records"), new.to_numpy(), dict(new)):
            assert_allclose(model.predict_proba(given), expected, atol=1e-6)
        assert_allclose(result.predict_proba(new), expected, atol=1e-6)
        column, cell = wrong
        with pytest.raises(ValueError, match=f"column '{column}' holds .* in row 0, where training had numbers"):
            model.predict([dict(new.iloc[0]) | {column: cell}])


@pytest.mark.slow
def test_the_model_of_lists_and_codes_reads_them_from_any_container(tmp_path):
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(200, 2)) + 3 * (np.arange(200) % 2)[:, None]
    table = pd.DataFrame({"v": list(vectors), "zone": draw.choice([1, 2, -999], 200),
                          "kind": [["a", "b"][row % 2] if row < 40 else None for row in range(200)]})
    table.to_parquet(tmp_path / "t.parquet", index=False)
    read = {"target": "kind", "when_text": "one_hot", "when_missing": "impute", "categories": ["zone"],
            "missing": ["-999"]}
    data = {"source": str(tmp_path / "t.parquet"), "read": read, "test": {"none": True}}
    result = dssl.run({"name": "t", "data": data, "labels": {"given": True}}, workspace=tmp_path / "w",
                      execution=InProcess(1))
    fitted = result.model()
    expected = fitted.predict_proba(fitted.dataset_of(tmp_path / "t.parquet", InProcess(1)).X)
    model, new = numpy_model.load(result.export(tmp_path / "m.dssl.zip")), table[["v", "zone"]]
    assert_allclose(result.predict_proba(new), expected, atol=1e-6)
    lists = [vector.tolist() for vector in vectors]
    rows = [{"v": vector, "zone": zone} for vector, zone in zip(lists, table["zone"].astype(float), strict=True)]
    for given in (new, rows, {"v": lists, "zone": table["zone"].tolist()}):
        assert_allclose(model.predict_proba(given), expected, atol=1e-6)
    mixed = new.assign(zone=[None if zone == -999 else [float(zone), str(zone)][row % 2]
                             for row, zone in enumerate(table["zone"])])
    for predict_proba in (model.predict_proba, result.predict_proba):
        assert_allclose(predict_proba(mixed), expected, atol=1e-6)
    assert model.predict([{"v": None, "zone": 1}, {"v": lists[0], "zone": 1}]).shape == (2,)
    for cell in (10, "10", [1.0], [1.0, 2.0, 3.0]):
        with pytest.raises(ValueError, match=r"column 'v' holds .* in row 0, where training had numbers, 2 a cell"):
            model.predict([{"v": cell, "zone": 1}])


def test_a_table_of_no_rows_a_single_cell_and_columns_of_two_lengths(tmp_path):
    model = exported(GraphKernelRidge().fit(pd.DataFrame(X, columns=list("abcde")), np.where(LABELED, CODES, -1)),
                     tmp_path)
    assert model.predict([]).shape == (0,)
    assert model.predict_proba({name: [] for name in "abcde"}).shape == (0, 3)
    with pytest.raises(ValueError, match=r"X\['a'\] is a single cell: pass a list of rows"):
        model.predict(dict(zip("abcde", NEW[0], strict=True)))
    with pytest.raises(ValueError, match="differ in length"):
        model.predict({name: [1.0, 2.0][:1 + (name == "c")] for name in "abcde"})
    with pytest.raises(ValueError, match="X holds nan in row 1, column 'd'"):
        model.predict([dict.fromkeys("abcde", 1.0), dict.fromkeys("abce", 1.0)])


@pytest.mark.slow
@pytest.mark.parametrize("decimal", [".", ","])
def test_the_model_of_a_table_reads_tables(decimal, tmp_path):
    rows = people(240, decimal)
    for number, row in enumerate(rows):
        row["kind"] = row["kind"] if number < 60 else ""
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False, sep=";")
    read = {"target": "kind", "when_text": "one_hot", "when_missing": "impute", "categories": ["zone"],
            "missing": ["999"]}
    result = dssl.run({"name": "t", "data": {"source": str(tmp_path / "t.csv"), "read": read, "test": {"none": True}},
                       "labels": {"given": True}}, workspace=tmp_path / "w", execution=InProcess(1))
    attributes = result.dataset.attributes
    assert {column["kind"] for column in attributes["columns"]} == {"number", "truth", "category"}
    assert [column.get("unit") for column in attributes["columns"]] == [None, "cm", None, None, None, None]
    assert attributes["decimal"] == decimal
    new = people(60, decimal, 1)
    new[3] |= {"age": "999", "color": "BLUE"}
    frame = pd.DataFrame(new).drop(columns="kind")
    frame.to_csv(tmp_path / "new.csv", index=False, sep=";")
    fitted = result.model()
    expected = fitted.predict_proba(fitted.dataset_of(tmp_path / "new.csv", InProcess(1)).X)
    model = numpy_model.load(result.export(tmp_path / "m.dssl.zip"))
    assert model.feature_names == ["age", "height", "color", "member", "income", "zone"]
    with open(tmp_path / "new.csv", encoding="utf-8") as file:
        lines = list(csv.DictReader(file, delimiter=";"))
    for given in (new, lines, frame, frame[frame.columns[::-1]], dict(frame), frame.to_numpy(),
                  frame.to_numpy().tolist()):
        assert_allclose(model.predict_proba(given), expected, atol=1e-6)
    assert_allclose(result.predict_proba(frame[frame.columns[::-1]]), expected, atol=1e-6)
    numbers = frame.assign(age=pd.to_numeric(frame["age"], errors="coerce"), member=frame["member"] == "yes",
                           zone=frame["zone"].astype(float))
    assert_allclose(model.predict_proba(numbers), expected, atol=1e-6)
    assert_allclose(result.predict_proba(numbers.assign(age=numbers["age"].fillna(999))), expected, atol=1e-6)
    with pytest.warns(UserWarning, match=r"'color' holds texts that it did not in training, such as \['pink'\]"):
        model.predict([new[0] | {"color": "pink"}])
    for column, cell, message in (("age", "old", "column 'age' holds 'old' in row 0, where training had numbers"),
                                  ("member", "maybe", "where training had yes and no")):
        with pytest.raises(ValueError, match=message):
            model.predict([new[0] | {column: cell}])
        with pytest.raises(DataError, match=f"column '{column}' holds text: '{cell}' in row 0"):
            result.predict(frame.assign(**{column: cell}))
    with pytest.raises(ValueError, match=r"X lacks the columns \['age'\]"):
        model.predict(frame.drop(columns="age"))


@pytest.mark.slow
def test_a_model_of_tags_predicts_in_several_threads_at_once(tmp_path):
    """Models of several tags share the neighbors of a block, and no others."""
    X, y = make_blobs(300, n_features=4, centers=6, random_state=0)
    Y = np.where(np.arange(300)[:, None] < 60, y[:, None] == np.arange(6), -1)
    model = numpy_model.load(GraphKernelRidge().fit(X, Y).export(tmp_path / "tags.zip"))
    blocks = [X[start:start + 20] for start in range(0, 300, 20)]
    expected = [model.predict(block) for block in blocks]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as threads:
            for actual, wanted in zip(threads.map(model.predict, blocks * 8), expected * 8, strict=True):
                assert_array_equal(actual, wanted)
    finally:
        sys.setswitchinterval(interval)


def test_what_the_file_cannot_hold_is_refused(tmp_path):
    y = np.where(LABELED, CODES, -1)
    for model, message in ((GraphKernelRidge(graph=KNNGraph(metric="manhattan")), "metric manhattan"),
                           (LapSVC(lambda A, B: A @ B.T), "kernel=")):
        with pytest.raises(ParameterError, match=message):
            model.fit(X, y).export(tmp_path / "m.dssl.zip")
    with pytest.raises(ParameterError, match=r"name a path that ends in \.zip or \.onnx"):
        KernelKMeans(3).fit(X).export(tmp_path / "m.pickle")
    assert not list(tmp_path.iterdir())


def test_what_is_wrong_with_the_points_is_said(tmp_path):
    other = exported(GraphKernelRidge().fit(X, np.where(LABELED, CODES, -1)), tmp_path)
    with pytest.raises(ValueError, match=r"shape \(2, 4\), the model was fitted on 5 features"):
        other.predict(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="NaN"):
        other.predict(np.full((2, 5), np.nan))
    with pytest.raises(ValueError, match="column 0 holds 'x' in row 0"):
        other.predict(np.full((2, 5), "x", dtype=object))
    assert other.predict(np.empty((0, 5))).shape == (0,)
    cosine = GraphKernelRidge(graph=KNNGraph(metric="cosine"), scale="none").fit(X, np.where(LABELED, CODES, -1))
    with pytest.raises(ValueError, match="zero rows"):
        exported(cosine, tmp_path).predict(np.zeros((2, 5)))


@pytest.mark.slow
def test_a_missing_number_in_onnx_is_the_mean_of_its_column(tmp_path):
    table = pd.DataFrame(X, columns=list("abcde")).assign(kind=np.where(LABELED, Y, ""))
    table.loc[::9, "b"] = np.nan
    spec = {"name": "t", "data": {"source": str(tmp_path / "t.csv"), "test": {"none": True},
                                  "read": {"target": "kind", "when_missing": "impute", "when_text": "one_hot"}},
            "labels": {"given": True}, "model": {"kind": "svm"}}
    table.to_csv(tmp_path / "t.csv", index=False)
    result = dssl.run(spec, workspace=tmp_path / "w", execution=InProcess(1))
    new = NEW.astype(np.float32)
    new[::7, 1] = np.nan
    model = numpy_model.load(result.export(tmp_path / "m.dssl.zip"))
    assert_array_equal(model.predict(new), result.predict(pd.DataFrame(new, columns=list("abcde"))))
    assert_array_equal(by_onnx(result.export(tmp_path / "m.onnx"), new)["label"], model.predict(new))
    table.assign(color=np.where(X[:, 1] > 0, "red", "blue")).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ParameterError, match="columns of text, such as 'color', cannot be written as ONNX"):
        dssl.run(spec, workspace=tmp_path / "w", execution=InProcess(1)).export(tmp_path / "m.onnx")


def test_columns_with_names_are_taken_by_name(tmp_path):
    table = pd.DataFrame(X, columns=list("abcde"))
    model = GraphKernelRidge().fit(table, np.where(LABELED, CODES, -1))
    other, new = exported(model, tmp_path), pd.DataFrame(NEW, columns=list("abcde"))
    assert_array_equal(other.predict(new[list("edcba")]), model.predict(new))
    with pytest.raises(ValueError, match=r"lacks the columns \['c'\]"):
        other.predict(new.drop(columns="c"))


def test_an_export_that_fails_leaves_the_file_that_was_there(tmp_path):
    y = np.where(LABELED, CODES, -1)
    path = GraphKernelRidge().fit(X, y).export(tmp_path / "m.dssl.zip")
    before = path.read_bytes()
    days = np.datetime64("2026-01-01") + CODES.astype("timedelta64[D]")
    with pytest.raises(ParameterError, match="classes of type"):
        GraphKernelRidge().fit(X, pd.Series(np.where(LABELED, days, np.datetime64("NaT")))).export(path)
    assert path.read_bytes() == before
    with pytest.raises(ParameterError, match="there is no folder"):
        GraphKernelRidge().fit(X, y).export(tmp_path / "none" / "m.dssl.zip")


@pytest.mark.parametrize("ending", [".zip", pytest.param(".onnx", marks=pytest.mark.skipif(
    find_spec("onnx") is None, reason="needs onnx"))])
def test_an_export_replaces_an_export_alone(ending, tmp_path):
    model, path = dssl.LapSVC().fit(X, np.where(LABELED, CODES, -1)), tmp_path / f"m{ending}"
    path.write_text("row,label")
    with pytest.raises(ParameterError, match=r"(?s)cannot be recognized as exported models.*--overwrite"):
        model.export(path)
    assert path.read_text() == "row,label"
    model.export(path, overwrite=True)
    assert model.export(path) == path
    (tmp_path / f"folder{ending}").mkdir()
    with pytest.raises(ParameterError, match="is a folder"):
        model.export(tmp_path / f"folder{ending}", overwrite=True)


def by_onnx(path, rows):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": rows}), strict=True))


def require_equal_in_onnx(model, names, missing, path):
    points, new = X.astype(np.float32), NEW.astype(np.float32)
    model.fit(points, np.where(LABELED, names[CODES], missing))
    said = by_onnx(model.export(path / "m.onnx"), new)
    assert_array_equal(said["label"], model.predict(new))
    if "probabilities" in said:
        assert_allclose(said["probabilities"], model.predict_proba(new), atol=1e-5)
    else:
        assert_allclose(said["scores"], model.decision_function(new), atol=1e-5)


@pytest.mark.parametrize("make", [
    LapSVC, LapRLSClassifier, LapSVM, TransductiveSVC, lambda: LapSVC(loss="hinge", scale="unit_norm"),
    lambda: LapSVC("polynomial", scale="unit_range"), lambda: LapSVC("linear", n_landmarks=50),
    lambda: LapRLSClassifier("cosine", gamma_A=1e-3, gamma_I=1e-3, scale="none")], ids=[
    "svc", "laprls", "lapsvm", "transductive", "unit norm", "polynomial", "landmarks", "cosine"])
def test_an_onnx_graph_predicts_what_the_estimator_predicts(make, tmp_path):
    require_equal_in_onnx(make(), np.unique(Y), "", tmp_path)


@pytest.mark.parametrize(("names", "missing"), [([7, -3, 12], -1), ([1.0, 0.0, 2.0], np.nan)])
def test_classes_that_are_numbers_in_onnx(names, missing, tmp_path):
    require_equal_in_onnx(LapSVC(), np.array(names), missing, tmp_path)


def test_two_classes_quantities_and_clipped_outliers_in_onnx(tmp_path):
    points, new = X.astype(np.float32), NEW.astype(np.float32)
    points[11, 2] = 1e6
    two = LapSVC().fit(points, np.where(LABELED & (CODES < 2), CODES, -1))
    assert two.scaling_.cuts
    said = by_onnx(two.export(tmp_path / "two.onnx"), np.concatenate([new, points[11:12]]))
    assert_array_equal(said["label"], two.predict(np.concatenate([new, points[11:12]])))
    assert_allclose(said["probabilities"][:-1], two.predict_proba(new), atol=1e-5)
    targets = np.where(LABELED, X[:, 1] + CODES, np.nan)
    for y in (targets, np.column_stack([targets, -targets])):
        model = LapRLSRegressor().fit(points, y)
        said = by_onnx(model.export(tmp_path / "r.onnx"), new)["values"]
        assert_allclose(said, model.predict(new).reshape(said.shape), rtol=1e-5, atol=1e-5)
    assert by_onnx(tmp_path / "r.onnx", new[:0])["values"].shape == (0, 2)


@pytest.mark.slow
def test_what_onnx_cannot_say_is_refused_by_name(tmp_path, monkeypatch):
    y = np.where(LABELED, CODES, -1)
    for model, message in ((SemiSupervisedClassifier(), "type 'blend'"), (GraphKernelRidge(), "type 'graph'"),
                           (LapSVC("laplacian"), "a laplacian kernel")):
        with pytest.raises(ParameterError, match=message):
            model.fit(X, y).export(tmp_path / "m.onnx")
    monkeypatch.setattr(onnx_model, "LARGEST", 1000)
    with pytest.raises(ParameterError, match=r"(?s)bytes of numbers.*2 GiB"):
        LapSVC().fit(X, y).export(tmp_path / "m.onnx")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ParameterError, match="pip install onnx"):
        LapSVC().fit(X, y).export(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
