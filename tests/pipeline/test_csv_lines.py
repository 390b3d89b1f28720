"""Text that a spreadsheet would compute, in the files that dssl writes."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dssl.cli.main import main
from dssl.storage.files import CsvLines, harmless


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
