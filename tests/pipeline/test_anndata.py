"""Runs on AnnData from end to end: labels of some cells in, labels of all cells out."""

import json
import shutil

import h5py
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import SpecError
from dssl.cli.main import main
from dssl.pipeline.load import load_spec

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
predictions: {{format: h5ad}}
model: {{kind: graph}}
""", encoding="utf-8")
    result = command("run", folder / "cells.yaml", "--workspace", folder / "work", "--json")
    return folder, json.loads(result.stdout)


def command(*arguments, code=0):
    """Return the result of a command that ends with this code."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def column(file, name):
    """Return a column of `obs`; categories by their names, None where there is none."""
    cells = file["obs"][name]
    if isinstance(cells, h5py.Dataset):
        return cells[:]
    return np.array([*cells["categories"].asstr()[:], None], object)[cells["codes"][:]]


def test_a_run_labels_the_cells_in_a_copy_of_the_file(cells):
    folder, result = cells
    with h5py.File(result["predictions"]) as file, h5py.File(folder / "cells.h5ad") as source:
        assert (column(file, "dssl_label") == TYPES).all()
        assert np.unique(column(file, "dssl_role"), return_counts=True)[1].tolist() == [12, 6, 42]
        assert [*file["obs"].attrs["column-order"]] == ["cell_type", "age", "dssl_label", "dssl_probability",
                                                        "dssl_role"]
        assert file["obs"]["dssl_label"].attrs["encoding-type"] == "categorical"
        assert_array_equal(file["obsm/X_pca"][:], source["obsm/X_pca"][:])


def test_the_same_cells_of_zarr_are_predicted_from_the_same_embedding(cells):
    folder, model = cells[0], result_of(cells)
    for ending in ("h5ad", "zarr"):
        command("predict", model, folder / f"cells.{ending}", folder / f"{ending}.csv", "--quiet")
    assert (folder / "h5ad.csv").read_text() == (folder / "zarr.csv").read_text()


def test_predictions_go_into_the_file_itself_where_it_is_named_twice(cells):
    folder, model = cells[0], result_of(cells)
    path = folder / "again.h5ad"
    shutil.copy(folder / "cells.h5ad", path)
    for _ in range(2):  # columns of these names are replaced
        command("predict", model, path, path, "--probabilities", "--quiet")
    with h5py.File(path) as file:
        probabilities = file["obsm/dssl_probabilities"][:]
        assert_allclose(probabilities.max(axis=1), column(file, "dssl_probability"))
        assert (file["obs/dssl_label/categories"].asstr()[:][probabilities.argmax(axis=1)] == TYPES).all()
        assert [*file["obs"].attrs["column-order"]] == ["cell_type", "age", "dssl_label", "dssl_probability",
                                                        "dssl_abstained"]


def test_a_copy_needs_one_file_to_copy(cells):
    folder, model = cells[0], result_of(cells)
    wrong = command("predict", model, folder / "cells.zarr", folder / "out.h5ad", code=2)
    assert "a copy of one .h5ad file" in wrong.output
    spec = {"name": "a", "data": {"source": "iris"}, "labels": {"given": True}, "predictions": {"format": "h5ad"}}
    with pytest.raises(SpecError, match=r"data\.source is no single \.h5ad file"):
        load_spec(spec)


def result_of(cells):
    """Return the path of the result of the run."""
    return cells[0] / "work" / "runs" / cells[1]["run"] / "result.json"
