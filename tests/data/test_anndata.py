"""AnnData as a source: what is read of .h5ad files and folders of Zarr, and what is refused before the work starts."""

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl import open_dataset
from dssl.base.errors import DataError, ParameterError
from dssl.data.anndata import write_cells
from dssl.data.readers.formats import folder_format, open_reader
from dssl.storage.hdf5 import Original, opened

from ..anndata_files import write_anndata
from .reading import dense

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of Zarr, about text
N = 30
RNG = np.random.default_rng(0)
COUNTS = sparse.random_array((N, 7), density=0.3, rng=RNG, format="csr", dtype=np.float32)
PCA = RNG.normal(size=(N, 3)).astype(np.float32)
TYPES = np.array(["B", "NK", "T"], object)[np.arange(N) % 3]
OBS = pd.DataFrame({
    "cell_type": pd.Categorical(np.where(np.arange(N) < 12, TYPES, None)),
    "text": np.where(np.arange(N) < 12, TYPES, ""),
    "leiden": pd.Categorical(np.arange(N) % 3 * 2),
    "leiden_missing": pd.Categorical([None, *(np.arange(1, N) % 3)]),
    "age": np.where(np.arange(N) % 5 == 0, np.nan, np.arange(N) / 2),
    "donor": pd.array([1, 2, None] * (N // 3), dtype="Int64"),
    "is_alive": pd.array([True, False, None] * (N // 3), dtype="boolean"),
    "is_test": np.arange(N) % 4 == 0})


@pytest.fixture(scope="module", params=["h5ad", "zarr"])
def path(request, tmp_path_factory):
    return write_anndata(tmp_path_factory.mktemp("anndata") / f"cells.{request.param}", COUNTS, OBS,
                         obsm={"X_pca": PCA}, layers={"log": COUNTS.toarray(), "columns": COUNTS.tocsc()})


def test_the_points_are_x_a_layer_or_an_embedding(path):
    genes = [f"gene{j}" for j in range(7)]
    for options, points, names in (({}, COUNTS.toarray(), genes), ({"matrix": "layers/log"}, COUNTS.toarray(), genes),
                                   ({"matrix": "obsm/X_pca"}, PCA, None)):
        dataset = open_dataset(path, **options)
        assert_array_equal(dataset.X.read_all(), points)
        assert dataset.feature_names == names
        assert dataset.y is None
    stored = open_dataset(path, sparse=True)
    assert stored.X.is_sparse
    assert_array_equal(stored.X.read(3, 20).toarray(), COUNTS[3:20].toarray())


@pytest.mark.parametrize(("column", "names", "values"), [
    ("cell_type", ["B", "NK", "T"], np.where(np.arange(N) < 12, np.arange(N) % 3, -1)),
    ("text", ["B", "NK", "T"], np.where(np.arange(N) < 12, np.arange(N) % 3, -1)),
    ("leiden", None, np.arange(N) % 3 * 2),
    ("leiden_missing", None, np.array([np.nan, *(np.arange(1, N) % 3)])),
    ("age", None, OBS["age"]), ("donor", None, np.array([1, 2, np.nan] * (N // 3))),
    ("is_alive", None, np.array([1, 0, np.nan] * (N // 3)))])
def test_any_column_of_obs_is_a_target(path, column, names, values):
    dataset = open_dataset(path, target=column, split="is_test", block_rows=7)
    assert dataset.attributes["label_names"] == names
    assert_array_equal(dataset.y.read_all(), values)
    assert_array_equal(dataset.split.read_all(), OBS["is_test"])


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(height=st.integers(1, N), matrix=st.sampled_from(["X", "layers/log"]))
@pytest.mark.slow_cases("zarr")
def test_blocks_of_any_height_give_the_same_rows(path, tmp_path, height, matrix):
    reader = open_reader(path, scratch=tmp_path, target="cell_type", matrix=matrix)
    blocks = [dense(reader.read(start, min(start + height, N))) for start in range(0, N, height)]
    assert_array_equal(np.concatenate([block.X for block in blocks]), COUNTS.toarray())
    assert [label for block in blocks for label in block.y] == [*TYPES[:12], *[None] * (N - 12)]


def test_a_file_of_the_package_anndata():
    dataset = open_dataset(Path(__file__).with_name("anndata_0_12.h5ad.gz"), target="cell_type")
    assert_array_equal(dataset.X.read_all(), np.arange(60).reshape(20, 3) % 4)
    assert dataset.feature_names == ["g0", "g1", "g2"]
    assert_array_equal(dataset.y.read_all(), [0, 1, 0, 1, 0, 1, *[-1] * 14])


def test_cells_may_have_equal_names(tmp_path):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS, names=["cell"] * N)
    assert_array_equal(open_dataset(path).X.read_all(), COUNTS.toarray())


def test_a_task_carries_the_path_alone(path, tmp_path):
    reader = open_reader(path, scratch=tmp_path, target="cell_type")
    reader.scan()
    task = pickle.dumps(reader.narrow(2, 4))
    assert len(task) < 4000
    block = pickle.loads(task).read(2, 4)
    assert_array_equal(block.X.toarray(), COUNTS[2:4].toarray())
    assert block.y.tolist() == ["T", "B"]


def test_several_files_are_read_as_one(tmp_path):
    for i in range(2):
        write_anndata(tmp_path / f"batch{i}.h5ad", COUNTS, OBS, names=[f"{i}-{j}" for j in range(N)])
    dataset = open_dataset(str(tmp_path / "batch*.h5ad"), target="cell_type")
    assert_array_equal(dataset.X.read_all(), np.vstack([COUNTS.toarray()] * 2))


def test_an_embedding_is_advised_where_nothing_is_said(path, tmp_path):
    advice = open_reader(path, scratch=tmp_path).advice()
    assert advice.startswith("the points are X; the file has obsm/X_pca")
    assert open_reader(path, scratch=tmp_path, matrix="obsm/X_pca").advice() == ""


def test_a_folder_is_recognized_by_its_tables(tmp_path):
    assert folder_format(write_anndata(tmp_path / "cells.zarr", COUNTS, OBS)) == "anndata"


@pytest.mark.parametrize(("options", "message"), [
    ({"target": "celltype"}, "no column 'celltype' in obs, it has age, cell_type"),
    ({"split": "nothing"}, "no column 'nothing' in obs"), ({"split": "text"}, r"\['obs/text'\] is text"),
    ({"matrix": "layers/raw"}, "no matrix 'layers/raw'(.|\n)*layers/columns, layers/log, obsm/X_pca"),
    ({"matrix": "obsm/X_umap"}, "no matrix"), ({"matrix": "obs/age"}, "no matrix"), ({"matrix": "obsm"}, "no matrix"),
    ({"matrix": "layers/columns"}, r"stored by columns \(CSC\)(.|\n)*tocsr")])
def test_what_is_not_there_is_refused_with_what_is(path, options, message):
    with pytest.raises(DataError, match=message):
        open_dataset(path, **options)


def test_other_layouts_are_refused(tmp_path):
    for root in ({}, {"encoding-type": "raw"}):
        old = write_anndata(tmp_path / "old.h5ad", COUNTS, OBS, root=root)
        with pytest.raises(DataError, match=r"before version 0\.8(.|\n)*adata\.write"):
            open_dataset(old)
    with h5py.File(tmp_path / "no.h5ad", "w") as file:
        file["X"] = PCA
    with pytest.raises(DataError, match=r"holds X\n.*obs and var"):
        open_dataset(tmp_path / "no.h5ad")
    (tmp_path / "cut.h5ad").write_bytes(old.read_bytes()[:5000])
    with pytest.raises(DataError, match="cannot be read as HDF5"):
        open_dataset(tmp_path / "cut.h5ad")
    np.save(tmp_path / "a.npy", PCA)
    with pytest.raises(ParameterError, match="matrix='X' does not apply"):
        open_dataset(tmp_path / "a.npy", matrix="X")


def test_points_of_other_cells_are_refused(tmp_path):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS, obsm={"X_pca": PCA[1:]})
    with pytest.raises(DataError, match="30 cells in obs, and 29 rows in obsm/X_pca"):
        open_dataset(path, matrix="obsm/X_pca")


@pytest.mark.parametrize("damage", [
    lambda file: file["obs"].attrs.pop("column-order"), lambda file: file["obs"].attrs.pop("_index"),
    lambda file: file["obs/cell_type/codes"].write_direct(np.full(N, 9, np.int8)), lambda file: file.pop("X/indices"),
    lambda file: file["X"].attrs.pop("shape"), lambda file: file["obs/cell_type"].attrs.pop("encoding-type")])
def test_a_damaged_layout_is_named(tmp_path, damage):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS)
    with h5py.File(path, "r+") as file:
        damage(file)
    with pytest.raises(DataError, match=r"is damaged|cannot be read as HDF5"):
        open_dataset(path, target="cell_type")


def test_a_file_that_is_being_written_is_refused(tmp_path):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS)
    program = "import h5py, sys; file = h5py.File(sys.argv[1], 'r+'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdin=-1, stdout=-1) as writer:
        writer.stdout.readline()
        with pytest.raises(DataError, match="open for writing elsewhere"):
            open_dataset(path)
        writer.communicate(b"\n")
    assert len(open_dataset(path)) == N


@pytest.mark.parametrize(("code", "error", "message"), [
    (errno.EIO, OSError, "Input/output error"), (errno.ESTALE, OSError, "Stale file handle"),
    (errno.EACCES, PermissionError, "Permission denied"), (errno.EAGAIN, DataError, "open for writing elsewhere"),
    (errno.ENOLCK, DataError, "HDF5_USE_FILE_LOCKING=FALSE"), (errno.ENOENT, DataError, "cannot be read as HDF5")])
def test_a_failing_disk_is_not_a_damaged_file(tmp_path, code, error, message):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS)
    with pytest.raises(error, match=message), opened(path, "cells"):
        raise OSError(code, os.strerror(code))


def test_h5py_is_optional(tmp_path, monkeypatch):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ParameterError, match="pip install h5py"):
        open_dataset(path)


# ---- writing


def test_columns_are_written_into_a_copy_block_by_block(tmp_path):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS)
    before = path.read_bytes()
    types = pd.Categorical(["b", None, "a/c"], categories=["a/c", "b"])
    blocks = [(np.array([0, 2, 3]), {"type": types, "sure": np.array([0.5, 1, np.nan]), "age": np.array([1, 2, 3.0])}),
              (np.array([20]), {"type": types[:1], "sure": np.array([0.25]), "age": np.array([4.0])})]
    write_cells(Original.of(path), tmp_path / "out.h5ad", blocks)
    assert path.read_bytes() == before
    types = open_dataset(tmp_path / "out.h5ad", target="type")
    assert types.attributes["label_names"] == ["a/c", "b"]
    expected = np.full(N, -1)
    expected[[0, 3, 20]] = 1, 0, 1
    assert_array_equal(types.y.read_all(), expected)
    ages = open_dataset(tmp_path / "out.h5ad", target="age").y.read_all()  # replaced
    assert_array_equal(ages[[0, 2, 3, 20]], [1, 2, 3, 4])
    assert np.isnan(ages).sum() == N - 4


def test_text_is_written_as_text(tmp_path):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS)
    blocks = [(np.array([0, 2]), {"tags": np.array(["a;b", ";"])}), (np.array([1]), {"tags": np.array(["long;text"])})]
    write_cells(Original.of(path), path, blocks)
    expected = ["a;b", "long;text", ";", *[None] * (N - 3)]
    with h5py.File(path) as file:
        assert file["obs/tags"].attrs["encoding-type"] == "string-array"
    assert open_reader(path, scratch=tmp_path, target="tags").read(0, N).y.tolist() == expected


def test_earlier_predictions_are_removed(tmp_path):
    obs = OBS.assign(dssl_label=TYPES, dssl_score_a=1.0, dssl_donor=1, dssl=2)
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, obs, obsm={"X_pca": PCA, "dssl_probabilities": PCA})
    write_cells(Original.of(path), path, [(np.arange(N), {"dssl_label": np.arange(N)})])
    with h5py.File(path) as file:
        columns = [*OBS, "dssl_donor", "dssl", "dssl_label"]
        assert file["obs"].attrs["column-order"].tolist() == columns
        assert {*file["obs"]} == {*columns, "_index"}
        assert {*file["obsm"]} == {"X_pca"}


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_has_changed_since_it_was_opened_is_not_replaced(tmp_path, when):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS)
    original = Original.of(path)
    os.utime(path, ns=(0, 0) if when == "before" else (original.modified, original.modified))
    before = path.read_bytes()

    def blocks():
        yield np.arange(N), {"dssl_label": np.arange(N)}
        os.utime(path, ns=(0, 0))

    with pytest.raises(DataError, match="has changed since it was opened"):
        write_cells(original, path, blocks())
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.slow
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path):
    path = write_anndata(tmp_path / "cells.h5ad", COUNTS, OBS)
    before = path.read_bytes()
    program = f"""
import resource, signal, sys
from pathlib import Path
import numpy as np
from dssl.data.anndata import write_cells
from dssl.storage.hdf5 import Original
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 100},) * 2)
path = Path(sys.argv[1])
write_cells(Original.of(path), path, [(np.arange({N}), dict(wide=np.ones(({N}, 100))))])
"""
    failed = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert failed.returncode == 1
    assert "OSError" in failed.stderr.splitlines()[-1]
    assert "File too large" in failed.stderr.splitlines()[-1]
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]
