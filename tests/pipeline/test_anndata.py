"""Runs on AnnData from end to end: labels of some cells in, labels of all cells out."""

import json
import shutil

import h5py
import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.neighbors import KNeighborsTransformer

from dssl import Graph, neighbors, open_dataset
from dssl.base.errors import DataError, SpecError
from dssl.cli.main import main
from dssl.execution.in_process import InProcess
from dssl.learners.target.coding import TagCoding
from dssl.pipeline.graphs import given_file
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.to_file import columns_of_cells
from dssl.pipeline.run import run
from dssl.storage.objects import object_path

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


@pytest.mark.slow
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
                                                        "dssl_rejected"]


def test_a_copy_needs_one_file_to_copy(cells):
    folder, model = cells[0], result_of(cells)
    wrong = command("predict", model, folder / "cells.zarr", folder / "out.h5ad", code=2)
    assert "a copy of the source" in wrong.output
    spec = {"name": "a", "data": {"source": "iris"}, "labels": {"given": True}, "predictions": {"format": "h5ad"}}
    with pytest.raises(SpecError, match=r"data\.source is no single \.h5ad file"):
        load_spec(spec)


def test_several_files_have_no_copy_which_is_said_before_the_run(cells, tmp_path):
    for name in ("a1", "b1", "b2"):
        shutil.copy(cells[0] / "cells.h5ad", tmp_path / f"{name}.h5ad")
    with h5py.File(tmp_path / "b2.h5ad", "r+") as file:
        file["obs/age"][0] = 9  # other bytes
    spec = yaml.safe_load((cells[0] / "cells.yaml").read_text())
    spec["data"]["source"] = str(tmp_path / "b*.h5ad")
    with pytest.raises(SpecError, match=r"b\*\.h5ad' matches 2 files"):
        plan(spec, workspace=tmp_path / "work")
    spec["data"]["source"] = str(tmp_path / "a*.h5ad")
    plan(spec, workspace=tmp_path / "work")


@pytest.mark.parametrize("verb", ["predict", "neighbors"])
def test_no_other_file_is_replaced(cells, tmp_path, verb):
    shutil.copy(cells[0] / "cells.h5ad", tmp_path / "precious.h5ad")
    before = (tmp_path / "precious.h5ad").read_bytes()
    model = [result_of(cells)] if verb == "predict" else []
    refused = command(verb, *model, cells[0] / "cells.h5ad", tmp_path / "precious.h5ad", code=2)
    assert "precious.h5ad exists" in refused.output
    assert (tmp_path / "precious.h5ad").read_bytes() == before


def test_cells_of_an_object_store_are_labeled_in_a_copy(cells, s3, tmp_path):
    object_path(f"{s3}/cells.h5ad").put((cells[0] / "cells.h5ad").read_bytes())
    command("predict", result_of(cells), f"{s3}/cells.h5ad", tmp_path / "out.h5ad", "--quiet")
    with h5py.File(tmp_path / "out.h5ad") as file:
        assert (column(file, "dssl_label") == TYPES).all()


def test_columns_of_obs_have_names_without_slashes():
    block = {name: np.zeros(1) for name in ("probability a/c", "probability a c", "probability b")}
    coding = TagCoding(np.array(["a/c", "a c", "b"]))
    assert [*columns_of_cells(block, coding)] == ["dssl_probability_a_c", "dssl_probability_a_c_", "dssl_probability_b"]


@pytest.mark.slow
def test_a_graph_goes_into_obsp_and_from_there_into_a_run(cells):
    folder, path = cells[0], cells[0] / "graph.h5ad"
    command("neighbors", folder / "cells.h5ad", path, "--read", "matrix=obsm/X_pca", "--n-neighbors", 7, "--quiet")
    command("neighbors", path, path, "--read", "matrix=obsm/X_pca", "--n-neighbors", 5, "--quiet")  # in place
    points = open_dataset(path, matrix="obsm/X_pca").X.read_all()
    with h5py.File(path) as file:
        distances, weights = (sparse.csr_array(tuple(file[f"obsp/{name}/{part}"][:] for part in (
            "data", "indices", "indptr")), shape=(N, N)) for name in ("distances", "connectivities"))
        assert file["uns/neighbors/params/use_rep"].asstr()[()] == "X_pca"
    assert_allclose(distances.toarray(), KNeighborsTransformer(n_neighbors=5).fit(points).kneighbors_graph(
        mode="distance").toarray(), rtol=1e-5)
    assert_allclose(weights.toarray(), Graph.of(neighbors(points, 5)).weights().toarray(), rtol=1e-6)
    sparse.save_npz(folder / "weights.npz", sparse.csr_matrix(weights))
    spec = yaml.safe_load((folder / "cells.yaml").read_text())
    tables = []
    for given in (path, folder / "weights.npz"):
        spec |= {"graph": {"given": {"weights": str(given)}}, "predictions": {"format": "csv"}}
        tables.append(run(spec, workspace=folder / "work", execution=InProcess(1)).predictions.read_text())
    assert tables[0] == tables[1]


@pytest.mark.parametrize(("change", "message"), [
    (lambda obsp: obsp.move("connectivities", "other"), r"no .*connectivities'\]\n.*obsp holds other"),
    (lambda obsp: obsp["connectivities"].attrs.update({"encoding-type": "csc_matrix"}), "stored as csc_matrix")])
def test_a_file_without_the_weights_is_refused_before_the_run(cells, tmp_path, change, message):
    write_anndata(tmp_path / "cells.h5ad", np.ones((5, 2)), pd.DataFrame({"y": ["a"] * 5}),
                  obsp={"connectivities": sparse.eye_array(5, format="csr")})
    with h5py.File(tmp_path / "cells.h5ad", "r+") as file:
        change(file["obsp"])
    with pytest.raises(DataError, match=message):
        given_file("weights", str(tmp_path / "cells.h5ad"))
    with pytest.raises(DataError, match=r"set graph\.given\.weights"):
        given_file("neighbors", str(tmp_path / "cells.h5ad"))


def result_of(cells):
    """Return the path of the result of the run."""
    return cells[0] / "work" / "runs" / cells[1]["run"] / "result.json"
