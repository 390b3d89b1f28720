"""Runs on AnnData from end to end: labels of some cells in, labels of all cells out."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dssl.cli.main import main

from ..anndata_files import write_anndata

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of Zarr, about text
N = 60
TYPES = np.array(["B", "NK", "T"], object)[np.arange(N) % 3]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """Return a folder with cells.h5ad, the same cells as cells.zarr, and the result of `dssl run` on the former."""
    folder = tmp_path_factory.mktemp("cells")
    rng = np.random.default_rng(0)
    pca = (rng.normal(size=(N, 4)) + 8 * np.eye(4)[np.arange(N) % 3]).astype(np.float32)
    obs = pd.DataFrame({"cell_type": pd.Categorical(np.where(np.arange(N) < 18, TYPES, None)), "age": np.arange(N) / 2})
    for ending in ("h5ad", "zarr"):
        write_anndata(folder / f"cells.{ending}", rng.poisson(1, (N, 5)).astype(np.float32), obs, obsm={"X_pca": pca})
    (folder / "cells.yaml").write_text(f"""
name: cells
data:
  source: {folder}/cells.h5ad
  read: {{matrix: obsm/X_pca, target: cell_type}}
  test: {{count: 6}}
labels: {{given: true}}
model: {{kind: graph}}
""", encoding="utf-8")
    result = command("run", folder / "cells.yaml", "--workspace", folder / "work", "--json")
    return folder, json.loads(result.stdout)


def command(*arguments, code=0):
    """Return the result of a command that ends with this code."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def test_a_run_labels_the_cells(cells):
    table = pd.read_csv(cells[1]["predictions"], keep_default_na=False)
    assert (table["label"] == TYPES).all()
    assert (table["given"] != "").sum() == 18


def test_the_same_cells_of_zarr_are_predicted_from_the_same_embedding(cells):
    folder, result = cells
    for ending in ("h5ad", "zarr"):
        command("predict", folder / "work" / "runs" / result["run"] / "result.json", folder / f"cells.{ending}",
                folder / f"{ending}.csv", "--quiet")
    assert (folder / "h5ad.csv").read_text() == (folder / "zarr.csv").read_text()
