"""The cases: every reader, every marker of unlabeled points, every misuse."""

import bz2
import gzip
import lzma
import struct
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pandas as pd
import yaml
import zarr
from numcodecs.zstd import Zstd
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, make_blobs

from dssl import LapKernelRidge, LapSVC, SemiSupervisedClassifier, TransductiveSVC
from dssl.data.dataset import Dataset
from dssl.storage.artifacts import Workspace
from dssl.storage.csr import as_csr

from .table import Outcome, case, command, fitted, ingested, pipeline, ran

N = 120


def blobs(n: int = N, random_state: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return points of two overlapping classes."""
    X, y = make_blobs(n, n_features=3, centers=2, cluster_std=2.0, random_state=random_state)
    return X.astype(np.float32), y


def npz(folder: Path, name: str = "points.npz", **changes: object) -> Path:
    """Write an npz file of the points, with arrays changed or (None) left out."""
    X, y = blobs()
    arrays = {key: value for key, value in {"X": X, "y": y, **changes}.items() if value is not None}
    np.savez(folder / name, **arrays)
    return folder / name


def frame() -> pd.DataFrame:
    """Return the points as a table with names and a column of labels."""
    X, y = blobs()
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=np.where(y == 1, "cat", "dog"))


def csv(folder: Path, table: pd.DataFrame | str, name: str = "points.csv", **options: object) -> Path:
    """Write a table, or a text, as a CSV file."""
    path = folder / name
    if isinstance(table, str):
        path.write_text(table)
    else:
        table.to_csv(path, index=False, **options)  # type: ignore[call-overload]
    return path


def spoiled(value: float, row: int = 7, column: int = 1) -> np.ndarray:
    """Return the points with one bad value."""
    X = blobs()[0]
    X[row, column] = value
    return X


def semi(unlabeled: object = -1, dtype: object = np.int64, labeled: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Return points and labels of which most are hidden."""
    X, y = blobs()
    hidden = np.full(N, unlabeled, dtype=object if dtype is object else dtype)
    hidden[:labeled] = y[:labeled]
    return X, hidden


def score(model: Any, X: np.ndarray) -> str:
    """Return a sentence on a fitted classifier."""
    assert (model.predict(X) == blobs()[1]).mean() > 0.8
    return f"fits; {len(model.classes_)} classes"


def ingest(folder: Path, source: Path, *options: str) -> Outcome:
    """Run `dssl ingest`."""
    return command(folder, "ingest", str(source), str(folder / "out"), "--json",
                   *(part for option in options for part in ("--read", option)), ok=ingested)


def noted(document: dict) -> str:
    """Return the first note on the data of a run."""
    return f"runs; {document['notes'][0]}"


def wide(folder: Path) -> Path:
    """Write a sparse svmlight file of many columns; a class has its own."""
    rng, (_, y) = np.random.default_rng(0), blobs()
    columns = rng.integers(0, 40, size=(N, 8)) + 40 * y[:, None]
    X = sparse.csr_array((np.ones(8 * N), (np.repeat(np.arange(N), 8), columns.ravel())), shape=(N, 5000))
    X.sum_duplicates()
    dump_svmlight_file(as_csr(X), y, str(folder / "wide.svm"))
    with open(folder / "wide.svm", "a", encoding="utf-8") as file:
        file.write("1 45:1 4999:1\n")
    return folder / "wide.svm"


def given_graph(folder: Path, *, n: int = N, symmetric: bool = True) -> str:
    """Write a ring as a sparse matrix of weights."""
    ring = sparse.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n)).tolil()
    ring[0, n - 1] = 1.0
    W = sparse.csr_matrix(ring + ring.T if symmetric else ring)
    sparse.save_npz(folder / "W.npz", W)
    return str(folder / "W.npz")


# ---- readers

case("Readers", "npz with X and y", 0, "120 points, 3 features")(
    lambda folder: ingest(folder, npz(folder)))


@case("Readers", "npz with the parts of a CSR matrix", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    csr = sparse.csr_array(np.where(np.abs(X) > 1, X, 0))
    np.savez(folder / "csr.npz", data=csr.data, indices=csr.indices, indptr=csr.indptr, shape=csr.shape, y=y)
    return ingest(folder, folder / "csr.npz")


case("Readers", "npz without X", 1, "expected X")(
    lambda folder: ingest(folder, npz(folder, X=None, points=blobs()[0])))


@case("Readers", "npz cut short", 1, "is not a .npz archive")
def _(folder: Path) -> Outcome:
    path = npz(folder)
    path.write_bytes(path.read_bytes()[:900])
    return ingest(folder, path)


@case("Readers", "npy, memory-mapped, labels in a second file", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return ingest(folder, folder / "X.npy", f"labels={folder / 'y.npy'}")


@case("Readers", "npy of Python objects", 1, "objects")
def _(folder: Path) -> Outcome:
    np.save(folder / "X.npy", np.array([[object()], [object()]]), allow_pickle=True)
    return ingest(folder, folder / "X.npy")


@case("Readers", "svmlight", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    dump_svmlight_file(*blobs(), str(folder / "points.svm"))
    return ingest(folder, folder / "points.svm")


@case("Readers", "svmlight, compressed with bz2", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    dump_svmlight_file(*blobs(), str(folder / "points.svm"))
    (folder / "points.svm.bz2").write_bytes(bz2.compress((folder / "points.svm").read_bytes()))
    return ingest(folder, folder / "points.svm.bz2")


@case("Readers", "svmlight with a bad pair", 1, "line 2")
def _(folder: Path) -> Outcome:
    (folder / "points.svm").write_text("1 1:0.5 2:1\n0 1:x 2:3\n")
    return ingest(folder, folder / "points.svm")


case("Readers", "CSV with a header and text labels", 0, "120 points, 3 features")(
    lambda folder: ingest(folder, csv(folder, frame())))


@case("Readers", "CSV, semicolons and decimal commas, gzipped", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    path = csv(folder, frame(), sep=";", decimal=",")
    (folder / "points.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    return ingest(folder, folder / "points.csv.gz", "decimal=','")


case("Readers", "CSV with a row that lacks a field", 1, "line 3")(
    lambda folder: ingest(folder, csv(folder, "a,b,label\n1,2,x\n3,y\n")))


@case("Readers", "CSV that is not UTF-8", 1, "is not utf-8 text")
def _(folder: Path) -> Outcome:
    (folder / "points.csv").write_bytes("a,label\n1,caf\xe9\n2,th\xe9\n".encode("latin-1"))
    return ingest(folder, folder / "points.csv")


case("Readers", "CSV, the target named wrongly", 1, "has no column")(
    lambda folder: ingest(folder, csv(folder, frame()), "target=lable"))


@case("Readers", "IDX images and labels", 0, "5 points, 4 features")
def _(folder: Path) -> Outcome:
    (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 5, 2, 2) + bytes(range(20)))
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 5) + bytes([0, 1, 0, 1, 0]))
    return ingest(folder, folder / "train-images-idx3-ubyte")


@case("Readers", "a file compressed with xz that is cut short", 1, "is damaged")
def _(folder: Path) -> Outcome:
    packed = lzma.compress(csv(folder, frame()).read_bytes())
    (folder / "points.csv.xz").write_bytes(packed[:len(packed) // 2])
    return ingest(folder, folder / "points.csv.xz")


case("Readers", "an empty file", 1, "is empty")(
    lambda folder: ingest(folder, csv(folder, "")))
case("Readers", "a path where nothing is", 1, "no data set")(
    lambda folder: ingest(folder, folder / "digits.npz"))


@case("Readers", "an ending that nobody knows", 1, "stands for no format")
def _(folder: Path) -> Outcome:
    (folder / "points.dat").write_text("1,2\n")
    return ingest(folder, folder / "points.dat")


case("Readers", "a URL that answers nothing", 1, "cannot download")(
    lambda folder: command(folder, "ingest", "http://127.0.0.1:9/points.csv", str(folder / "out")))


@case("Readers", "Parquet, row group by row group", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    frame().to_parquet(folder / "points.parquet", row_group_size=50)
    return ingest(folder, folder / "points.parquet")


@case("Readers", "Parquet with a list column, an embedding", 0, "120 points, 4 features")
def _(folder: Path) -> Outcome:
    table = frame()
    vectors = table[["b", "c", "a"]].to_numpy().tolist()
    table.drop(columns=["b", "c"]).assign(embedding=vectors).to_parquet(folder / "points.parquet")
    return ingest(folder, folder / "points.parquet", "target=label")


@case("Readers", "Arrow (Feather)", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    frame().to_feather(folder / "points.feather")
    return ingest(folder, folder / "points.feather")


case("Readers", "CSV with two columns of one name", 1, "several columns named 'b'")(
    lambda folder: ingest(folder, csv(folder, frame().to_csv(index=False).replace("a,b,c", "a,b,b", 1))))


@case("Readers", "Parquet with a date", 1, "of type timestamp")
def _(folder: Path) -> Outcome:
    frame().assign(a=pd.Timestamp("2020-01-01")).to_parquet(folder / "points.parquet")
    return ingest(folder, folder / "points.parquet")


@case("Readers", "Parquet cut short", 1, "cannot be read as Parquet")
def _(folder: Path) -> Outcome:
    frame().to_parquet(folder / "points.parquet")
    (folder / "points.parquet").write_bytes((folder / "points.parquet").read_bytes()[:-40])
    return ingest(folder, folder / "points.parquet")


@case("Readers", "a Zarr group with X and y", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    group = zarr.open_group(str(folder / "points.zarr"), mode="w")
    for name, values in zip(("X", "y"), blobs(), strict=True):
        group.create_array(name, data=values, chunks=(40, *values.shape[1:]))
    return ingest(folder, folder / "points.zarr")


@case("Readers", "a chunk of Zarr that unpacks to more than it may hold", 1, "decompresses to more than")
def _(folder: Path) -> Outcome:
    zarr.create_array(str(folder / "points.zarr"), data=np.ones((40, 3)), compressors=zarr.codecs.ZstdCodec())
    (folder / "points.zarr" / "c" / "0" / "0").write_bytes(Zstd().encode(bytes(1 << 24)))
    return ingest(folder, folder / "points.zarr")


@case("Readers", "a folder that `dssl ingest` wrote", 0, "runs")
def _(folder: Path) -> Outcome:
    ingest(folder, npz(folder))
    return pipeline(folder, folder / "out")


@case("Readers", "several files by a pattern", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    for number, start in enumerate(range(0, N, 40)):
        csv(folder, frame()[start:start + 40], f"part-{number}.csv")
    return ingest(folder, folder / "part-*.csv")


case("Readers", "a pattern that matches nothing", 1, "no file matches")(
    lambda folder: ingest(folder, folder / "part-*.csv"))


@case("Readers", "several files with other columns", 1, "have different columns")
def _(folder: Path) -> Outcome:
    csv(folder, frame(), "part-0.csv")
    csv(folder, frame().rename(columns={"b": "width"}), "part-1.csv")
    return ingest(folder, folder / "part-*.csv")


@case("Readers", "`dssl ingest --append` of more rows", 0, "240 points, 3 features")
def _(folder: Path) -> Outcome:
    ingest(folder, csv(folder, frame()))
    more = csv(folder, frame()[::-1], "more.csv")
    return command(folder, "ingest", str(more), str(folder / "out"), "--append", "--json", ok=ingested)


@case("Readers", "`--append` of a file that was read before", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    source = csv(folder, frame())
    ingest(folder, source)
    return command(folder, "ingest", str(source), str(folder / "out"), "--append", "--json", ok=ingested)


@case("Readers", "`--append` of a file that has changed", 1, "has changed")
def _(folder: Path) -> Outcome:
    source = csv(folder, frame())
    ingest(folder, source)
    csv(folder, frame()[:50])
    return command(folder, "ingest", str(source), str(folder / "out"), "--append", "--json", ok=ingested)


@case("Readers", "`--append` of other columns", 1, "have different columns")
def _(folder: Path) -> Outcome:
    ingest(folder, csv(folder, frame()))
    other = csv(folder, frame().drop(columns="c"), "other.csv")
    return command(folder, "ingest", str(other), str(folder / "out"), "--append", "--json", ok=ingested)


case("Readers", "sparse text of 5,000 columns, scaled by unit length", 0, "runs")(
    lambda folder: pipeline(folder, wide(folder), data={"scale": "unit_norm"}))
case("Readers", "sparse text of 5,000 columns, to be standardized", 1, "unit_norm")(
    lambda folder: pipeline(folder, wide(folder), data={"scale": "standardize"}))


# ---- values

@case("Values", "missing cells and `when_missing: impute`", 0, "runs")
def _(folder: Path) -> Outcome:
    table = frame()
    table.loc[::9, "b"] = np.nan
    return pipeline(folder, csv(folder, table), data={"read": {"when_missing": "impute"}})


case("Values", "a column that is missing throughout and `impute`", 1, "are missing")(
    lambda folder: pipeline(folder, csv(folder, frame().assign(b="")), data={"read": {"when_missing": "impute"}}))


@case("Values", "a column of text and `when_text: one_hot`", 0, "5 features")
def _(folder: Path) -> Outcome:
    table = frame().assign(b=np.where(np.arange(N) % 3, np.where(np.arange(N) % 2, "red", "blue"), "green"))
    return ingest(folder, csv(folder, table), "when_text=one_hot")


@case("Values", "a column of more than 1,000 names and `when_text: one_hot`", 0, "1200 points, 2 features")
def _(folder: Path) -> Outcome:
    table = pd.concat([frame()] * 10, ignore_index=True)
    names = [f"name {max(i, 1)}" for i in range(len(table))]
    return ingest(folder, csv(folder, table.assign(b=names)), "when_text=one_hot")


@case("Values", "amounts such as $1,200.50, percent, and n.a. for a missing cell", 0, "120 points, 3 features")
def _(folder: Path) -> Outcome:
    table = frame()
    money = [f"${1000 * value:,.2f}" for value in table.b]
    return ingest(folder, csv(folder, table.assign(b=["n.a.", *money[1:]], c=[f"{value:.1f}%" for value in table.c])),
                  "when_missing=impute")


@case("Values", "three other texts in a column of numbers", 1, "if 'see note' marks a missing cell")
def _(folder: Path) -> Outcome:
    cells = frame().b.astype(object)
    cells[[5, 50, 100]] = "see note"
    return ingest(folder, csv(folder, frame().assign(b=cells)))


case("Values", "a column of names, none of which comes twice", 0, "left out, as identifiers: 'key'")(
    lambda folder: pipeline(folder, csv(folder, frame().assign(key=[f"name {i}" for i in range(N)])), ok=noted,
                            data={"read": {"target": "label"}}))


@case("Values", "row numbers among the columns", 0, "left out, as identifiers: 'id'")
def _(folder: Path) -> Outcome:
    return pipeline(folder, csv(folder, frame().assign(id=np.arange(N))), ok=noted, data={"read": {"target": "label"}})


case("Values", "row numbers, and `keep_ids: true`", 0, "identifiers among the features: 'id'")(
    lambda folder: pipeline(folder, csv(folder, frame().assign(id=np.arange(N))), ok=noted,
                            data={"read": {"target": "label", "keep_ids": True}}))
case("Values", "`keep_ids` names no column", 1, "no column 'idd' (keep_ids)")(
    lambda folder: ingest(folder, csv(folder, frame().assign(id=np.arange(N))), "target=label", "keep_ids=[idd]"))
case("Values", "the labels a second time, as numbers", 0, "the target in disguise?")(
    lambda folder: pipeline(folder, csv(folder, frame().assign(animal=blobs()[1])), ok=noted,
                            data={"read": {"target": "label"}}))
case("Values", "numbers near 1e9 that differ by 1, as float32", 1, "float64")(
    lambda folder: pipeline(folder, npz(folder, X=1e9 + blobs()[0].astype(np.float64))))
case("Values", "a bandwidth that makes every weight vanish", 2, "the median weight is")(
    lambda folder: pipeline(folder, npz(folder), graph={"weights": "heat", "bandwidth": 1e-9}))
case("Values", "a given graph", 0, "runs")(
    lambda folder: pipeline(folder, npz(folder), graph={"given": {"weights": given_graph(folder)}}))
case("Values", "a given graph that is not symmetric", 1, "differ from their transpose")(
    lambda folder: pipeline(folder, npz(folder), graph={"given": {"weights": given_graph(folder, symmetric=False)}}))
case("Values", "a given graph of other points", 1, "for 120 points")(
    lambda folder: pipeline(folder, npz(folder), graph={"given": {"weights": given_graph(folder, n=N - 1)}}))
case("Values", "NaN in X", 1, "missing cell")(
    lambda folder: pipeline(folder, npz(folder, X=spoiled(np.nan))))
case("Values", "infinity in X", 1, "is inf in row 7")(
    lambda folder: pipeline(folder, npz(folder, X=spoiled(np.inf))))


@case("Values", "a missing cell in a CSV file", 1, "missing cell")
def _(folder: Path) -> Outcome:
    table = frame()
    table.loc[3, "b"] = np.nan
    return pipeline(folder, csv(folder, table))


case("Values", "a column of text", 1, "holds text")(
    lambda folder: pipeline(folder, csv(folder, frame().assign(b="blue"))))
case("Values", "complex numbers", 1, "complex")(
    lambda folder: pipeline(folder, npz(folder, X=blobs()[0] + 0j)))


@case("Values", "a constant column", 0, "runs")
def _(folder: Path) -> Outcome:
    X = blobs()[0]
    X[:, 2] = 5.0
    return pipeline(folder, npz(folder, X=X))


@case("Values", "every point three times", 0, "runs")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    return pipeline(folder, npz(folder, X=np.repeat(X, 3, axis=0), y=np.repeat(y, 3)))


case("Values", "all points equal", 1, "training points are equal")(
    lambda folder: pipeline(folder, npz(folder, X=np.ones((N, 3), np.float32))))


@case("Values", "a row of zeros under the cosine metric", 1, "zero")
def _(folder: Path) -> Outcome:
    X = blobs()[0]
    X[5] = 0
    return pipeline(folder, npz(folder, X=X), graph={"metric": "cosine"}, data={"scale": "none"})


@case("Values", "two groups far apart, one without a label", 0, "points are unreachable from any label")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    far = X[:40] * 0.05 + 1e4
    given = np.concatenate([y, np.full(40, -1)])
    return pipeline(folder, npz(folder, X=np.vstack([X, far]), y=given),
                    ok=lambda result: f"runs; {result['unreachable']['count']} points are unreachable from any label")


@case("Values", "fewer points than neighbors", 0, "as many neighbors as there are others")
def _(folder: Path) -> Outcome:
    return pipeline(folder, npz(folder, X=blobs()[0][:12], y=blobs()[1][:12]), graph={"n_neighbors": 50},
                    labels={"per_class": 2}, ok=lambda result: "runs with as many neighbors as there are others, and "
                    "a warning")


# ---- labels

case("Labels", "a pipeline on labels -1 and +1, no marker named", 1, "labels are -1 and +1 throughout")(
    lambda folder: pipeline(folder, npz(folder, y=2 * blobs()[1] - 1)))
case("Labels", "labels -1 and +1 with `data.unlabeled: 0`", 0, "runs")(
    lambda folder: pipeline(folder, npz(folder, y=2 * blobs()[1] - 1), data={"unlabeled": 0}))
case("Labels", "unlabeled points are -1 among integers", 0, "runs")(
    lambda folder: pipeline(folder, npz(folder, y=np.where(np.arange(N) % 3, blobs()[1], -1))))
case("Labels", "unlabeled points are NaN among floats", 0, "runs")(
    lambda folder: pipeline(folder, npz(folder, y=np.where(np.arange(N) % 3, blobs()[1], np.nan))))


@case("Labels", "unlabeled points are empty cells of text", 0, "runs")
def _(folder: Path) -> Outcome:
    table = frame()
    table.loc[::3, "label"] = ""
    return pipeline(folder, csv(folder, table))


case("Labels", "one class", 1, "has one class, 0")(
    lambda folder: pipeline(folder, npz(folder, y=np.zeros(N, np.int64))))
case("Labels", "no label at all", 1, "label")(
    lambda folder: pipeline(folder, npz(folder, y=np.full(N, -1))))
case("Labels", "no target in the file", 1, "has no target")(
    lambda folder: pipeline(folder, npz(folder, y=None)))


@case("Labels", "npy without a file of labels", 1, "data.read.labels")
def _(folder: Path) -> Outcome:
    np.save(folder / "X.npy", blobs()[0])
    return pipeline(folder, folder / "X.npy")


@case("Labels", "a quantity as the target", 1, "different values")
def _(folder: Path) -> Outcome:
    X = np.random.default_rng(0).normal(size=(1500, 2)).astype(np.float32)
    return pipeline(folder, npz(folder, X=X, y=X[:, 0].astype(np.float64)))


case("Labels", "fractions as the target", 1, "different values")(
    lambda folder: pipeline(folder, npz(folder, y=blobs()[1] + 0.5)))
case("Labels", "more labels asked for than there are", 1, "labeled points a class asked for")(
    lambda folder: pipeline(folder, npz(folder), labels={"per_class": 500}))
case("Labels", "every training point labeled", 0, "runs")(
    lambda folder: pipeline(folder, npz(folder), labels={"given": True}, model={"n_landmarks": 90}))
case("Labels", "a class to keep that does not exist", 1, "no class is 7")(
    lambda folder: pipeline(folder, npz(folder), data={"keep": [0, 7]}))


@case("Labels", "`labels.file` names a row that the source does not have", 1, "1 of 1 rows do not exist")
def _(folder: Path) -> Outcome:
    labels_file = csv(folder, "row,label\n1000,0\n", "told.csv")
    return pipeline(folder, npz(folder), labels={"per_class": 5, "file": str(labels_file)})


# ---- laprls

def laprls(folder: Path, *options: str, ok: object = None, **sections: object) -> Outcome:
    """Run a pipeline of kind laprls."""
    spec: dict = {"name": "case", "data": {"source": str(npz(folder)), "test": {"fraction": 0.25}},
                  "labels": {"per_class": 6}, "graph": {"n_neighbors": 5},
                  "model": {"kind": "laprls", **sections.pop("model", {})}, **sections}  # type: ignore[dict-item]
    (folder / "case.yaml").write_text(yaml.safe_dump(spec))
    return command(folder, "run", str(folder / "case.yaml"), "--workspace", str(folder / "work"), "--on", "in-process",
                   "--json", *options, ok=ok or ran)  # type: ignore[arg-type]


case("LapRLS", "`model: {kind: laprls}`", 0, "30 test points")(
    lambda folder: laprls(folder))
case("LapRLS", "`selection:` with gamma_A, gamma_I and bandwidth", 0, "30 test points")(
    lambda folder: laprls(folder, selection={"cv": 3, "grid": {
                "gamma_A": ["10*auto", "100*auto"], "gamma_I": [0, "auto"], "bandwidth": ["median", "2*median"]}}))
case("LapRLS", "more landmarks than distinct points", 0, "30 test points")(
    lambda folder: laprls(folder, model={"landmarks": {"n_landmarks": 500}}))
case("LapRLS", "`gamma_A: 0`", 2, "expected a number > 0")(
    lambda folder: laprls(folder, model={"gamma_A": 0}))
case("LapRLS", "`landmarks: {n_landmarks: many}`", 2, "model.landmarks.n_landmarks")(
    lambda folder: laprls(folder, model={"landmarks": {"n_landmarks": "many"}}))
case("LapRLS", "`eta` under `model`", 2, "model.eta")(
    lambda folder: laprls(folder, model={"eta": 1}))
case("LapRLS", "`selection: {grid: {eta: ...}}`", 2, "model.kind is laprls, which has no use for it")(
    lambda folder: laprls(folder, selection={"grid": {"eta": [1, 10]}}))
case("LapRLS", "a section `solver`", 2, "model.kind is laprls, which has no use for it")(
    lambda folder: laprls(folder, solver={"method": "amg"}))
case("LapRLS", "`baselines: [base, shuffled, landmark_graph]`", 2, "Input should be 'base' or 'shuffled'")(
    lambda folder: laprls(folder, baselines=["base", "shuffled", "landmark_graph"]))
case("LapRLS", "`--until columns`, a stage of other kinds", 2, "is not a stage of model.kind laprls")(
    lambda folder: laprls(folder, "--until", "columns"))
case("LapRLS", "`data: {rows: official_train}` without an official split", 1, "no official split")(
    lambda folder: laprls(folder, "--set", "data.rows=official_train"))


# ---- transductive

def transductive(folder: Path, **selection: object) -> Outcome:
    """Run a pipeline of kind transductive."""
    spec: dict = {"name": "case", "data": {"source": str(npz(folder)), "test": {"fraction": 0.25}},
                  "labels": {"per_class": 6}, "model": {"kind": "transductive"}, "selection": selection}
    (folder / "case.yaml").write_text(yaml.safe_dump(spec))
    return command(folder, "run", str(folder / "case.yaml"), "--workspace", str(folder / "work"), "--on", "in-process",
                   "--json", ok=ran)


case("Transductive SVM", "`selection:` with bandwidth, C and unlabeled_weight", 0, "30 test points")(
    lambda folder: transductive(folder, cv=3, grid={
        "bandwidth": ["median", "2*median"], "C": [0.1, 1.0], "unlabeled_weight": [0.1, 1.0]}))
case("Transductive SVM", "`selection: {grid: {unlabeled_weight: [-1]}}`", 2, "unlabeled_weight=-1.0")(
    lambda folder: transductive(folder, grid={"unlabeled_weight": [-1.0]}))
case("Transductive SVM", "`selection: {grid: {graph: ...}}`, where there is no graph", 2,
     "which has no use for it")(
    lambda folder: transductive(folder, grid={"graph": {"n_neighbors": [5, 10]}}))


# ---- learners on the graph

def learner(folder: Path, source: Path | None = None, ok: object = None, **sections: object) -> Outcome:
    """Run a pipeline of kind graph."""
    data = {"source": str(source or npz(folder)), "test": {"fraction": 0.25},
            **sections.pop("data", {})}  # type: ignore[dict-item]
    spec: dict = {"name": "case", "data": data, "labels": {"per_class": 2}, "graph": {"n_neighbors": 5},
                  "model": {"kind": "graph", **sections.pop("model", {})}, **sections}  # type: ignore[dict-item]
    (folder / "case.yaml").write_text(yaml.safe_dump(spec))
    return command(folder, "run", str(folder / "case.yaml"), "--workspace", str(folder / "work"), "--on", "in-process",
                   "--json", ok=ok or ran)  # type: ignore[arg-type]


case("Learners on the graph", "`model: {kind: graph}`", 0, "30 test points")(
    lambda folder: learner(folder))


@case("Learners on the graph", "points far from all others, without a label among them", 0, "no prediction")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    X[:8] += 1000
    source = npz(folder, X=X, y=np.where(np.arange(len(y)) < 8, -1, y))
    return learner(folder, source, data={"unlabeled": -1}, ok=lambda result: (
        f"{ran(result)}; {result['unreachable']['handled']} of the points unreachable from any label"))


case("Learners on the graph", "`class_sizes` of three classes, where there are two", 2, "for 2 classes")(
    lambda folder: learner(folder, model={"class_sizes": [1, 1, 1]}))
case("Learners on the graph", "`learner: poisson` for quantities", 2, "it tells classes apart")(
    lambda folder: learner(folder, data={"task": "regression"}, labels={"count": 20}, model={"learner": "poisson"}))
case("Learners on the graph", "`penalty` with `learner: laplace`", 2, "penalty, and learner is laplace")(
    lambda folder: learner(folder, model={"learner": "laplace", "penalty": 1.0}))


# ---- the automatic choice

def automatic(folder: Path, source: Path | None = None, **sections: object) -> Outcome:
    """Run a pipeline of kind automatic."""
    return learner(folder, source, model={"kind": "automatic", **sections.pop("model", {})},  # type: ignore[dict-item]
                   **sections)


case("The automatic choice", "`model: {kind: automatic}`", 0, "30 test points")(
    lambda folder: automatic(folder))


@case("The automatic choice", "quantities", 0, "30 test points")
def _(folder: Path) -> Outcome:
    return automatic(folder, npz(folder, y=blobs()[0][:, 0]), data={"task": "regression"}, labels={"count": 20})


case("The automatic choice", "`kernel: {name: rbf}`", 2, "automatic, which has no use for it")(
    lambda folder: automatic(folder, kernel={"name": "rbf"}))


# ---- regression

def quantities(folder: Path, y: object = None, **sections: object) -> Outcome:
    """Run a regression of the points' first feature, or of `y`."""
    X, _ = blobs()
    data = {"task": "regression", **sections.pop("data", {})}  # type: ignore[dict-item]
    return pipeline(folder, npz(folder, y=X[:, 0] if y is None else y), **{
        "labels": {"count": 20}, "model": {"kind": "ridge"}, "data": data, **sections}, ok=regressed)


def regressed(result: dict) -> str:
    """Return a sentence on a run that predicts quantities."""
    assert result["metrics"]["r2"] > 0.8
    return ran(result)


case("Regression", "`data.task: regression` and a target of quantities", 0, "30 test points")(
    lambda folder: quantities(folder))


@case("Regression", "NaN for half of the targets, `labels: {given: true}`", 0, "15 test points")
def _(folder: Path) -> Outcome:
    y = blobs()[0][:, 0].astype(np.float64)
    y[::2] = np.nan
    return quantities(folder, y, labels={"given": True})


case("Regression", "one value throughout", 1, "the target is 2.5 in all")(
    lambda folder: quantities(folder, np.full(N, 2.5)))
case("Regression", "an infinite target", 1, "infinite in row 7")(
    lambda folder: quantities(folder, np.where(np.arange(N) == 7, np.inf, 1.0)))
case("Regression", "a target beyond 1e150", 1, "their squares are not finite")(
    lambda folder: quantities(folder, np.where(np.arange(N) == 7, -1e200, 1.0)))
case("Regression", "no target at all", 1, "has a target")(
    lambda folder: quantities(folder, np.full(N, np.nan)))
case("Regression", "a target of text", 1, "a regression predicts numbers")(
    lambda folder: quantities(folder, np.array(["a", "b"])[np.arange(N) % 2]))
case("Regression", "two targets a point", 1, "y")(
    lambda folder: quantities(folder, blobs()[0][:, :2]))
case("Regression", "`labels: {per_class: 3}`", 2, "quantities have no classes")(
    lambda folder: quantities(folder, labels={"per_class": 3}))
case("Regression", "`data.keep`, or `data.classes`", 2, "quantities have no classes")(
    lambda folder: quantities(folder, data={"keep": [0, 1]}))
case("Regression", "`model: {kind: svm}`", 2, "set model.kind to automatic or ridge")(
    lambda folder: quantities(folder, model={"kind": "svm"}))
case("Regression", "`selection` with one label", 1, "leave selection out")(
    lambda folder: quantities(folder, labels={"count": 1}, selection={"grid": {"eta": [1, 10]}}))


# ---- specs and commands

case("Specs and commands", "a key that the spec does not know", 2, "graph.neighbours")(
    lambda folder: pipeline(folder, npz(folder), graph={"neighbours": 5}))
case("Specs and commands", "a value out of range", 2, "ridge=-1")(
    lambda folder: pipeline(folder, npz(folder), graph={"ridge": -1}))


@case("Specs and commands", "a spec that is not YAML", 2, "is not YAML")
def _(folder: Path) -> Outcome:
    (folder / "case.yaml").write_text("name: [")
    return command(folder, "run", str(folder / "case.yaml"))


case("Specs and commands", "a spec file that is not there", 2, "there is no file")(
    lambda folder: command(folder, "run", str(folder / "none.yaml")))
case("Specs and commands", "`--set model.eta` without a value", 2, "not of the form key.key=value")(
    lambda folder: pipeline(folder, npz(folder), "--set", "model.eta"))
case("Specs and commands", "one label a class and cross-validation asked for", 1, "no class has two")(
    lambda folder: pipeline(folder, npz(folder), labels={"per_class": 1}, selection={"grid": {"eta": [1.0, 10.0]}}))
case("Specs and commands", "a memory budget that one row exceeds", 1, "memory budget")(
    lambda folder: pipeline(folder, npz(folder), "--memory-budget", "100"))


@case("Specs and commands", "predict with a column missing", 1, "lacks the column b")
def _(folder: Path) -> Outcome:
    source = csv(folder, frame())
    pipeline(folder, source)
    result = next((folder / "work" / "runs").glob("*/result.json"))
    new = csv(folder, frame().drop(columns=["b", "label"]), "new.csv")
    return command(folder, "predict", str(result), str(new), str(folder / "labels.csv"))


@case("Specs and commands", "predict, the columns in another order", 0, "120 predictions")
def _(folder: Path) -> Outcome:
    source = csv(folder, frame())
    pipeline(folder, source)
    result = next((folder / "work" / "runs").glob("*/result.json"))
    new = csv(folder, frame()[["c", "a", "b"]], "new.csv")
    return command(folder, "predict", str(result), str(new), str(folder / "labels.csv"), "--json",
                   ok=lambda facts: f"{facts['n']} predictions")


@case("Specs and commands", "predict a point far from all, with `--reject`", 0, "1 without a label")
def _(folder: Path) -> Outcome:
    pipeline(folder, csv(folder, frame()))
    result = next((folder / "work" / "runs").glob("*/result.json"))
    new = csv(folder, pd.DataFrame({"a": [0.0, 1e6], "b": [0.0, 0.0], "c": [0.0, 0.0]}), "new.csv")
    return command(folder, "predict", str(result), str(new), str(folder / "labels.csv"), "--reject", "--json",
                   ok=lambda facts: f"{facts['n']} predictions, {facts['unsupported']} without a label")


@case("Specs and commands", "`dssl suggest`, and its rows filled in as `labels.file`", 0, "runs")
def _(folder: Path) -> Outcome:
    source, labels_file = csv(folder, frame()), folder / "next.csv"
    pipeline(folder, source, labels={"per_class": 5})
    result = next((folder / "work" / "runs").glob("*/result.json"))
    command(folder, "suggest", str(result), "--count", "4", "--out", str(labels_file))
    table = pd.read_csv(labels_file)
    csv(folder, table.assign(label=frame()["label"].to_numpy()[table["row"]]), "next.csv")
    return pipeline(folder, source, labels={"per_class": 5, "file": str(labels_file)})


@case("Specs and commands", "`dssl suggest` more rows than have no label", 1, "distinct points have no label")
def _(folder: Path) -> Outcome:
    pipeline(folder, npz(folder))
    result = next((folder / "work" / "runs").glob("*/result.json"))
    return command(folder, "suggest", str(result), "--count", "500", "--out", str(folder / "next.csv"))


case("Specs and commands", "`--from` a stage that there is not", 2, "is not a stage")(
    lambda folder: pipeline(folder, npz(folder), "--from", "kernels"))
case("Specs and commands", "`--until graph`", 0, "stopped after graph")(
    lambda folder: pipeline(folder, npz(folder), "--until", "graph",
                            ok=lambda result: f"{result['status']} after {result['stages'][-1]['name']}"))
case("Specs and commands", "`dssl plan` of a run that cannot fit", 1, "budget")(
    lambda folder: pipeline(folder, npz(folder), "--memory-budget", "40kB", model={"n_landmarks": 90}))
case("Specs and commands", "`dssl inspect` of nothing", 1, "nothing called")(
    lambda folder: command(folder, "inspect", "nothing", "--workspace", str(folder / "work")))


# ---- machines and storage

@case("Machines and storage", "a scheduler that does not answer", 4, "no scheduler answers")
def _(folder: Path) -> Outcome:
    (folder / "where.yaml").write_text(yaml.safe_dump({"kind": "address", "address": "tcp://127.0.0.1:9",
                                                       "timeout": 1}))
    spec = {"name": "case", "data": {"source": str(npz(folder))}, "labels": {"per_class": 4}}
    (folder / "case.yaml").write_text(yaml.safe_dump(spec))
    return command(folder, "run", str(folder / "case.yaml"), "--workspace", str(folder / "work"), "--on",
                   str(folder / "where.yaml"))


@case("Machines and storage", "another run is at work in the workspace", 5, "is using")
def _(folder: Path) -> Outcome:
    with Workspace.at(folder / "work").lock():
        outcome = pipeline(folder, npz(folder))
    return Outcome(outcome.code, "process …" + "".join(outcome.text.partition(" is using")[1:]))


@case("Machines and storage", "a flipped byte in a stored chunk", 3, "damaged")
def _(folder: Path) -> Outcome:
    pipeline(folder, npz(folder))
    chunk = next(path for path in (folder / "work" / "artifacts" / "points").glob("*/*/shared/train/c/0/*"))
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    return command(folder, "verify", "--workspace", str(folder / "work"))


@case("Machines and storage", "a deleted chunk", 3, "is missing")
def _(folder: Path) -> Outcome:
    pipeline(folder, npz(folder))
    next(path for path in (folder / "work" / "artifacts" / "points").glob("*/*/shared/train/c/0/*")).unlink()
    return command(folder, "verify", "--workspace", str(folder / "work"))


@case("Machines and storage", "the same run again", 0, "stages cached")
def _(folder: Path) -> Outcome:
    source = npz(folder)
    pipeline(folder, source)
    return pipeline(folder, source, ok=lambda result: f"{sum(s['status'] == 'cached' for s in result['stages'])} of "
                    f"{len(result['stages'])} stages cached")


@case("Machines and storage", "ingest into a folder that holds something", 1, "is not empty")
def _(folder: Path) -> Outcome:
    (folder / "out").mkdir()
    (folder / "out" / "mine.txt").write_text("mine")
    return ingest(folder, npz(folder))


# ---- estimators

@case("Estimators", "LapSVC on y in {-1, +1}", None, "labels are -1 and +1 throughout")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    return fitted(folder, lambda: score(LapSVC().fit(X, 2 * y - 1), X))


@case("Estimators", "LapSVC, -1 marks the unlabeled", None, "fits; 2 classes")
def _(folder: Path) -> Outcome:
    X, y = semi()
    return fitted(folder, lambda: score(LapSVC().fit(X, y), X))


@case("Estimators", "LapSVC, NaN marks the unlabeled", None, "fits; 2 classes")
def _(folder: Path) -> Outcome:
    X, y = semi(np.nan, np.float64)
    return fitted(folder, lambda: score(LapSVC().fit(X, y), X))


@case("Estimators", "LapSVC, None marks the unlabeled", None, "fits; 2 classes")
def _(folder: Path) -> Outcome:
    X, y = semi(None, object)
    return fitted(folder, lambda: score(LapSVC().fit(X, y), X))


@case("Estimators", "LapSVC, `unlabeled=9` named", None, "fits; 2 classes")
def _(folder: Path) -> Outcome:
    X, y = semi(9)
    return fitted(folder, lambda: score(LapSVC(unlabeled=9).fit(X, y), X))


@case("Estimators", "LapSVC, a marker that does not occur", None, "no label is the marker")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    return fitted(folder, lambda: score(LapSVC(unlabeled=9).fit(X, y), X))


case("Estimators", "LapSVC, one class", None, "y has one class")(
    lambda folder: fitted(folder, lambda: score(LapSVC().fit(blobs()[0], np.zeros(N, int)), blobs()[0])))


@case("Estimators", "LapSVC, no unlabeled points", None, "fits; 2 classes")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    return fitted(folder, lambda: score(LapSVC().fit(X, y), X))


@case("Estimators", "SemiSupervisedClassifier, a class with one label of 13 that is no rarer", None, "fits; 2 classes")
def _(folder: Path) -> Outcome:
    X, y = semi(labeled=24)
    y[:24][np.flatnonzero(y[:24] == 1)[1:]] = -1
    return fitted(folder, lambda: score(SemiSupervisedClassifier(class_prior="equal").fit(X, y), X))


@case("Estimators", "LapSVC, labels of two types", None, "kinds")
def _(folder: Path) -> Outcome:
    y = np.array(["a", 1, None] * 40, object)
    return fitted(folder, lambda: score(LapSVC().fit(blobs()[0], y), blobs()[0]))


@case("Estimators", "LapSVC, NaN in X", None, "contains NaN")
def _(folder: Path) -> Outcome:
    X, y = semi()
    X = X.copy()
    X[3, 0] = np.nan
    return fitted(folder, lambda: score(LapSVC().fit(X, y), X))


@case("Estimators", "LapSVC, n smaller than k", None, "n_neighbors=10 is lowered to 7")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    return fitted(folder, lambda: f"fits; {len(LapSVC().fit(X[:8], y[:8]).classes_)} classes")


@case("Estimators", "LapKernelRidge, integers with -1 among them", None, "y holds integers")
def _(folder: Path) -> Outcome:
    X, y = semi()
    return fitted(folder, lambda: str(LapKernelRidge().fit(X, y)))


@case("Estimators", "LapKernelRidge, NaN where the target is unknown", None, "fits")
def _(folder: Path) -> Outcome:
    X, y = semi(np.nan, np.float64)
    return fitted(folder, lambda: f"fits; predictions of shape {LapKernelRidge().fit(X, y).predict(X).shape}")


@case("Estimators", "LapKernelRidge, infinite targets", None, "infinite targets")
def _(folder: Path) -> Outcome:
    X, y = semi(np.inf, np.float64)
    return fitted(folder, lambda: str(LapKernelRidge().fit(X, y)))


@case("Estimators", "Dataset.from_arrays of a table with NaN", None, "a missing cell in row 3")
def _(folder: Path) -> Outcome:
    table = frame().drop(columns="label")
    table.loc[3, "b"] = np.nan
    return fitted(folder, lambda: str(Dataset.from_arrays(table)))


@case("Estimators", "LapSVC on a dask array", None, "fits; 2 classes")
def _(folder: Path) -> Outcome:
    X, y = semi()
    return fitted(folder, lambda: score(LapSVC().fit(dask.array.from_array(X, chunks=(50, 2)), y), X))


@case("Estimators", "LapSVC on a pandas table with text", None, "holds text: 'blue'")
def _(folder: Path) -> Outcome:
    X, y = semi()
    return fitted(folder, lambda: score(LapSVC().fit(frame().drop(columns="label").assign(b="blue"), y), X))


@case("Estimators", "LapSVC on a CSR matrix", None, "fits; 2 classes")
def _(folder: Path) -> Outcome:
    X, y = semi()
    return fitted(folder, lambda: score(LapSVC().fit(sparse.csr_array(X), y), X))


@case("Estimators", "LapSVC, a weight below 0", None, "finite numbers >= 0")
def _(folder: Path) -> Outcome:
    X, y = semi()
    return fitted(folder, lambda: score(LapSVC().fit(X, y, sample_weight=-np.ones(N)), X))


@case("Estimators", "TransductiveSVC, `predict_proba` without `probability=True`", None, "no attribute")
def _(folder: Path) -> Outcome:
    X, y = semi()
    return fitted(folder, lambda: str(TransductiveSVC().fit(X, y).predict_proba(X)))


@case("Estimators", "LapSVC, eta=1e10", None, "eta")
def _(folder: Path) -> Outcome:
    X, y = semi()
    return fitted(folder, lambda: score(LapSVC(eta=1e10).fit(X, y), X))


@case("Estimators", "LapSVC, `loss=\"logistic\"`", None, "loss")
def _(folder: Path) -> Outcome:
    X, y = semi()
    return fitted(folder, lambda: score(LapSVC(loss="logistic").fit(X, y), X))


@case("Estimators", "LapSVC, more labels than `n_landmarks`", None, "fits; 2 classes; ")
def _(folder: Path) -> Outcome:
    X, y = blobs()
    return fitted(folder, lambda: score(LapSVC(n_landmarks=50).fit(X, y), X))
