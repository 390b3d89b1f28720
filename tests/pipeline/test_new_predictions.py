"""`dssl predict --new-only`: a table that grows is the table of all rows, whatever comes in between."""

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.datasets import make_blobs

from dssl.cli.main import main
from dssl.data import source_reader
from dssl.execution.in_process import InProcess
from dssl.pipeline.predict import new_only as new_predictions
from dssl.pipeline.run import run
from dssl.storage.files import resolved_path

NAMES = list("abc")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two result.json files, and a table of points."""
    folder = tmp_path_factory.mktemp("new_only")
    X, y = make_blobs(300, 3, centers=3, random_state=0, cluster_std=2.0)
    table = pd.DataFrame(X, columns=NAMES).assign(kind=np.array(["x", "y", "z"])[y])
    table.to_csv(folder / "train.csv", index=False)
    spec = {"name": "t", "data": {"source": str(folder / "train.csv"), "read": {"target": "kind"},
                                  "test": {"count": 60}}, "labels": {"per_class": 4},
            "model": {"kind": "svm", "n_landmarks": 40}}
    results = [run(spec, set=[f"labels.per_class={n}"], workspace=folder / "work", execution=InProcess(1))
               for n in (4, 5)]
    return [str(result.folder / "result.json") for result in results], table


def predict(model, *arguments):
    return CliRunner().invoke(main, ["predict", model, *map(str, arguments)])


def written(model, folder, out, *options):
    """Return what a prediction of all rows says, and its JSON."""
    done = predict(model, folder / "part-*.csv", out, "--new-only", "--json", *options)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def opened_files(monkeypatch):
    opened, real = [], source_reader.open_reader
    monkeypatch.setattr(source_reader, "open_reader", lambda path, *args, **kwargs: (
        opened.append(path.name), real(path, *args, **kwargs))[1])
    return opened


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.slow_cases("csv")
def test_a_table_that_grows_is_that_of_all_rows_and_only_new_files_are_read(models, tmp_path, monkeypatch, ending):
    (model, other), table = models
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[ending]
    out = tmp_path / f"out.{ending}"
    opened = opened_files(monkeypatch)
    for i, (start, stop) in enumerate([(0, 50), (50, 60), (60, 200)], start=1):
        table[start:stop].to_csv(tmp_path / f"part-{i}.csv", index=False)
        found, _ = written(model, tmp_path, out)
        assert (found["n"], found["n_before"]) == (stop - start, start)
        predict(model, tmp_path / "part-*.csv", tmp_path / f"all.{ending}")
        pd.testing.assert_frame_equal(read(out), read(tmp_path / f"all.{ending}"))
    assert opened.count("part-1.csv") == 12  # names, mark and rows: once, and thrice for the whole
    before = out.read_bytes()
    opened.clear()
    again = predict(model, tmp_path / "part-*.csv", out, "--new-only")
    assert (again.exit_code, opened, out.read_bytes()) == (0, [], before)
    assert "nothing new" in again.stdout
    assert "200 rows" in again.stdout
    os.remove(tmp_path / "part-2.csv")
    found, said = written(model, tmp_path, out)
    assert (found["n"], out.read_bytes()) == (0, before)
    assert "not in the source any more: part-2.csv" in said
    found, said = written(other, tmp_path, out)
    assert "another model" in said
    assert (found["n"], found["n_before"], len(read(out))) == (190, 0, 190)


def test_of_a_file_that_grows_the_last_rows_are_predicted(models, tmp_path):
    (model, _), table = models
    table[:50].to_csv(tmp_path / "part-1.csv", index=False)
    table[50:60].to_csv(tmp_path / "part-2.csv", index=False)
    written(model, tmp_path, tmp_path / "out.csv")
    table[60:90].to_csv(tmp_path / "part-2.csv", index=False, header=False, mode="a")
    table[90:100].to_csv(tmp_path / "part-3.csv", index=False)
    found, _ = written(model, tmp_path, tmp_path / "out.csv")
    assert found["n"] == 40
    predict(model, tmp_path / "part-*.csv", tmp_path / "all.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "all.csv").read_bytes()
    (tmp_path / "part-3.csv").write_text((tmp_path / "part-3.csv").read_text() + "\n")  # other bytes, the same rows
    for n in (0, 0):
        assert written(model, tmp_path, tmp_path / "out.csv")[0]["n"] == n
    table[1:].to_csv(tmp_path / "part-1.csv", index=False)
    refused = predict(model, tmp_path / "part-*.csv", tmp_path / "out.csv", "--new-only")
    assert refused.exit_code == 1
    assert "part-1.csv has changed" in refused.stderr
    assert "predict without --new-only" in refused.stderr
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "all.csv").read_bytes()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_prediction_that_is_killed_is_made_once(models, tmp_path, monkeypatch, when):
    """Killed before its table has its name, or after; the record tells of both."""
    (model, _), table = models
    out = tmp_path / "out.csv"
    table[:50].to_csv(tmp_path / "part-1.csv", index=False)
    written(model, tmp_path, out)
    first = out.read_bytes()
    table[50:80].to_csv(tmp_path / "part-2.csv", index=False)
    real = new_predictions.write_json

    def killed(path, value):
        real(path, value)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(new_predictions, "write_json", killed)
        assert predict(model, tmp_path / "part-*.csv", out, "--new-only").exit_code == 130
    assert out.read_bytes() == first
    if when == "after":
        predict(model, tmp_path / "part-*.csv", tmp_path / "all.csv")
        shutil.copy(tmp_path / "all.csv", out)
    assert written(model, tmp_path, out)[0]["n"] == (30 if when == "before" else 0)
    assert len(pd.read_csv(out)) == 80


def test_tables_that_cannot_be_gone_on_from_are_refused(models, tmp_path):
    (model, _), table = models
    table[:50].to_csv(tmp_path / "part-1.csv", index=False)
    source, out = tmp_path / "part-*.csv", tmp_path / "out.csv"
    assert predict(model, source, out).exit_code == 0
    for harm, name, code, message in ((lambda: None, "out.csv", 1, "no out.csv.files.json beside it"),
                                   (lambda: None, "out.npy", 2, "ends in .csv or .parquet"),
                                   (lambda: (out.unlink(), written(model, tmp_path, out), out.write_text("row\n")),
                                    "out.csv", 1, "not the table that was written")):
        harm()
        refused = predict(model, source, tmp_path / name, "--new-only")
        assert (refused.exit_code, message in refused.stderr) == (code, True), refused.stderr


def test_tables_in_an_object_store_grow_too(models, s3, tmp_path):
    (model, _), table = models
    place = resolved_path(s3)
    for i in (1, 2):
        (place / f"part-{i}.csv").write_text(table[10 * i:10 * i + 10].to_csv(index=False))
        done = predict(model, f"{s3}/part-*.csv", f"{s3}/out.csv", "--new-only", "--json")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["n"] == 10
    assert len((place / "out.csv").read_text().splitlines()) == 21
    assert "nothing new" in predict(model, f"{s3}/part-*.csv", f"{s3}/out.csv", "--new-only").stdout
