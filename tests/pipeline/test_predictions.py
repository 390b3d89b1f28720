"""The table of what is predicted of every row of a source, and the command that a report prints."""

import csv
import html
import io
import shlex

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from dssl.cli.main import main
from dssl.execution.in_process import InProcess
from dssl.learners.model import predict_blocks
from dssl.methods.step import Context
from dssl.pipeline.load import load_spec
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.predict.stage import PREDICTIONS, PredictionParams, make_predictions
from dssl.pipeline.run import run
from dssl.pipeline.suggestion import artifacts_behind
from dssl.report.sections.ran import predict_command
from dssl.storage.files import CsvLines, harmless

N = 60


def trees():
    """Return a table with an identifier that is text, two features, and a class that a third of the rows have."""
    rng = np.random.default_rng(0)
    kind = np.arange(N) % 2
    frame = pd.DataFrame({"code": [f"k{i:03d}" for i in rng.permutation(900)[:N]],
                          "height": rng.normal(4 * kind, 1).round(3), "width": rng.normal(kind, 1).round(3)})
    return frame.assign(kind=np.where(np.arange(N) % 3, None, np.array(["ash", "oak"], object)[kind]))


GRAPH = {"labels": {"given": True}, "model": {"kind": "graph"}}


def predicted(folder, source, data=None, **spec):
    """Return the result of a run, and its table with cells as text."""
    data = {"source": source, "test": {"count": 4}, **(data or {})}
    result = run({"name": "rows", "data": data, **(spec if "model" in spec else {**GRAPH, **spec})},
                 workspace=folder / "work", execution=InProcess(1))
    return result, pd.read_csv(result.predictions, dtype=str, keep_default_na=False) if result.predictions else None


def test_every_row_is_predicted_and_what_was_given_stands_beside_it(finished, small_spec):
    result = finished[1]
    table = pd.read_csv(result.predictions)
    source = np.load(small_spec["data"]["source"])
    assert result.predictions.name == "predictions_all.csv"
    assert table["row"].tolist() == [*range(260)]
    assert table["given"].tolist() == source["y"].tolist()
    assert table["role"].value_counts().to_dict() == {"unlabeled": 191, "test": 60, "labeled": 9}
    assert table["label"].tolist() == open_model(result.model_path).predict(source["X"]).tolist()
    tested = table[table["role"] == "test"]
    assert_allclose((tested["label"] != tested["given"]).mean(), result.metrics["error"])
    assert result.to_dict()["predictions"] == str(result.predictions)


@pytest.mark.slow
def test_rows_of_a_table_are_named_by_their_identifier_as_it_is_written(tmp_path):
    trees().to_csv(tmp_path / "trees.csv", index=False)
    _, table = predicted(tmp_path, str(tmp_path / "trees.csv"), data={"points": 40})
    assert list(table) == ["code", "row", "given", "label", "probability", "role"]
    assert table["code"].tolist() == trees()["code"].tolist()
    assert table["role"].value_counts()["unused"] == N - 44
    assert set(table["label"]) == {"ash", "oak"}  # of rows that were not drawn too
    assert (table["given"] == trees()["kind"].fillna("")).all()
    assert set(table.loc[table["given"] == "", "role"]) == {"unlabeled", "unused"}


@pytest.mark.slow
def test_rows_without_an_identifier_are_named_by_their_lines_and_a_label_of_a_file_is_given(tmp_path):
    first, second = trees()[:30].drop(columns="code"), trees()[30:].drop(columns="code")
    first.to_csv(tmp_path / "p-1.csv", index=False)
    text = second.to_csv(index=False).splitlines()
    (tmp_path / "p-2.csv").write_text("\n".join([text[0], "", *text[1:]]), encoding="utf-8")
    (tmp_path / "told.csv").write_text("row,label\n31,oak\n", encoding="utf-8")
    _, table = predicted(tmp_path, str(tmp_path / "p-*.csv"), labels={"given": True, "file": str(
        tmp_path / "told.csv")})
    assert list(table)[:3] == ["row", "file", "line"]
    assert table["line"].astype(int).tolist() == [*range(2, 32), *range(3, 33)]
    assert table["file"].iloc[[29, 30]].str[-7:].tolist() == ["p-1.csv", "p-2.csv"]
    assert table.loc[31, ["given", "role"]].tolist() == ["oak", "labeled"]


@pytest.mark.slow
def test_a_table_is_left_out_or_written_as_parquet_where_the_spec_says_so(tmp_path, finished):
    trees().to_parquet(tmp_path / "trees.parquet")
    result, _ = predicted(tmp_path, str(tmp_path / "trees.parquet"), predictions={"format": "none"})
    assert result.predictions is None
    spec = {**result.spec, "predictions": {"format": "parquet"}}
    table = pd.read_parquet(run(spec, workspace=tmp_path / "work", execution=InProcess(1)).predictions)
    assert table["code"].tolist() == trees()["code"].tolist()
    assert table["given"].isna().sum() == N * 2 // 3
    assert load_spec({**spec, "predictions": {}}).predictions.limit == 10_000_000


def test_more_rows_than_a_limit_are_not_predicted_and_the_run_says_so(finished):
    folder, = (finished[0] / "artifacts" / "predictions").iterdir()
    context = Context(artifacts_behind(folder), {}, InProcess(1).scratch(), InProcess(1))
    made = make_predictions(context, PredictionParams(259))
    assert made == {"n": 260, "made": False, "limit": 259}
    assert "260 rows, more than the 259" in PREDICTIONS.notes(made)[0]
    assert not PREDICTIONS.notes(make_predictions(context, PredictionParams(0)))


def test_test_points_that_are_scored_are_not_predicted_again(finished, monkeypatch):
    folder, = (finished[0] / "artifacts" / "predictions").iterdir()
    behind, lengths, found = artifacts_behind(folder), [], []

    def counted(rows, *others):
        lengths.append(len(rows))
        return predict_blocks(rows, *others)

    monkeypatch.setattr("dssl.pipeline.predict.stage.predict_blocks", counted)
    for inputs in (behind, {name: made for name, made in behind.items() if name != "scores"}):
        context = Context(inputs, {}, InProcess(1).scratch(), InProcess(1))
        make_predictions(context, PredictionParams(None))
        parts = context.parts.within("test")
        found.append({name: parts.rows(name).read_all() for name in ("predicted", "sure", "empty")})
    assert lengths == [200, 200, 60]
    for name, array in found[0].items():
        assert_allclose(array, found[1][name], rtol=1e-12)


def test_clusters_of_all_rows(tmp_path):
    trees().drop(columns="kind").to_csv(tmp_path / "trees.csv", index=False)
    _, table = predicted(tmp_path, str(tmp_path / "trees.csv"), model={
        "kind": "kernel_clustering", "n_clusters": 2}, data={
            "task": "clustering", "test": {"none": True}, "read": {"target": "none"}})
    assert list(table)[:3] == ["code", "row", "label"]
    assert table["label"].nunique() > 1
    assert "role" not in table


def as_csv(frame, folder):
    frame.to_csv(folder / "it's mine.csv", index=False)
    return str(folder / "it's mine.csv")


def as_files(frame, folder):
    for i, rows in enumerate((frame[:20], frame[20:])):
        rows.to_csv(folder / f"p {i}.csv", index=False)
    return [str(folder / "p 0.csv"), str(folder / "p 1.csv")]


def as_pattern(frame, folder):
    as_files(frame, folder)
    return str(folder / "p *.csv")


def as_npz(frame, folder):
    np.savez(folder / "s.npz", X=frame[["height", "width"]].to_numpy(), y=frame["kind"].map(
        {"ash": 0, "oak": 1}).fillna(-1).astype(int))
    return str(folder / "s.npz")


def as_parquet(frame, folder):
    frame.to_parquet(folder / "s.parquet")
    return str(folder / "s.parquet")


@pytest.mark.parametrize("made", [as_pattern, as_parquet, *(pytest.param(made, marks=pytest.mark.extended) for made in (
    as_csv, as_files, as_npz, "two_moons", "manifolds:80x4"))])
@pytest.mark.extended_cases("as_parquet")
def test_the_command_that_the_report_prints_works_as_printed(tmp_path, monkeypatch, made):
    named = isinstance(made, str)
    source = made if named else made(trees(), tmp_path)
    result, table = predicted(tmp_path, source, labels={"per_class": 3} if named else {"given": True}, data={
        "points": 60} if named else {})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    command = predict_command(str(result.folder / "result.json"), result.spec["data"]["source"])
    assert command in html.unescape(result.report.read_text())
    done = CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert pd.read_csv("predicted.csv", dtype=str)["label"].tolist() == table["label"].tolist()


@pytest.mark.parametrize("shift", [0.0, -1.0])
def test_negative_predictions_are_noted_where_no_label_is_negative(tmp_path, shift):
    X = np.random.default_rng(0).uniform(-1, 1, (80, 2))
    y = np.maximum(X[:, 0], 0.0) + shift
    y[np.random.default_rng(1).permutation(80)[12:]] = np.nan
    np.savez(tmp_path / "z.npz", X=X, y=y)
    result, table = predicted(tmp_path, str(tmp_path / "z.npz"), {"task": "regression", "test": {"none": True}},
                              labels={"given": True}, model={"kind": "automatic"})
    smallest = table["value"].astype(float).min()
    assert smallest < 0
    noted = [note for note in result.notes if note.startswith("predictions go down to")]
    assert noted == ([] if shift else [
        f"predictions go down to {smallest:.6g}, and no label is negative: if the target cannot be, clip them at 0, or "
        "let the source hold a logarithm of it"])


# Text that a spreadsheet would compute, in the files that dssl writes


@pytest.mark.parametrize(("cell", "shown"), [
    ("=1+1", "'=1+1"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"), ("-2+3", "'-2+3"), ("@SUM(A1)", "'@SUM(A1)"),
    ("\t=1", "'\t=1"), ("-1.5", "-1.5"), ("+3e2", "+3e2"), (-1.5, -1.5), ("a=b", "a=b"), ("", ""), (None, None)])
def test_formulas_become_text_and_numbers_stay(cell, shown):
    assert harmless(cell) == shown


def test_only_where_asked():
    for safe, first in ((False, "=1"), (True, "'=1")):
        file = io.StringIO()
        CsvLines(file, safe).write_all([["=1", -1]])
        assert next(csv.reader([file.getvalue()])) == [first, "-1"]


def dssl(*command):
    done = CliRunner().invoke(main, [str(word) for word in command], catch_exceptions=False)
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_every_file_of_a_table_is_safe(tmp_path):
    """Classes, identifiers and cells that begin a formula, through run, predict and suggest."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 6])
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.insert(0, "id", [f"={number}+1" for number in range(80)])
    frame["label"] = np.where(np.arange(80) % 8 == 0, np.where(np.arange(80) < 40, "-low", "@high"), "")
    frame.to_csv(tmp_path / "t.csv", index=False)
    spec = tmp_path / "t.yaml"
    spec.write_text(f"name: t\ndata: {{source: {tmp_path}/t.csv, read: {{drop: [id]}}}}\nlabels: {{given: true}}\n"
                    "predictions: {safe_csv: true}\n")
    work = tmp_path / "work"
    dssl("run", spec, "--workspace", work, "--on", "in-process")
    made = next(work.glob("runs/*/result.json"))
    for command in (("predict", made, tmp_path / "t.csv", tmp_path / "p.csv"),
                    ("suggest", spec, "--workspace", work, "--out", tmp_path / "s.csv")):
        dssl(*command, "--safe-csv")
    for path in (made.parent / "predictions_all.csv", tmp_path / "p.csv", tmp_path / "s.csv"):
        with open(path, newline="", encoding="utf-8") as file:
            cells = [cell for line in csv.reader(file) for cell in line]
        assert any(cell.startswith(("'-low", "'@high")) for cell in cells), path
        assert path.name != "s.csv" or any(cell.startswith("'=") for cell in cells)  # the other column of its rows
        assert not [cell for cell in cells if cell.startswith(("=", "@"))], path
