"""Examples that show every task of the package at work; what must hold for all tasks is in `test_task_contract.py`.

An example is a function of an execution and an empty folder. It calls what a user calls, on so few points that it takes
a second or two, and returns the arrays that it found. The name of what a new task does belongs into one of them, or
into an example of its own.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask.array as da
import numpy as np
import pandas as pd
import zarr
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from dssl import ClusterKernelSVC, KernelKMeans, KNNGraph, LapKernelRidge, LapSVC, MultiscaleKernelClassifier
from dssl.base.errors import DataError
from dssl.base.units import MEMORY_BUDGET
from dssl.cli.init.first_look import Look
from dssl.data.append import append
from dssl.data.findings import to_json
from dssl.data.ingest import ingest
from dssl.data.readers.manifolds import CurvedManifolds, ManifoldParams
from dssl.data.scaling.scaling import ScalingParams, fit_scaling
from dssl.data.sources import find_source
from dssl.execution.exchange.halo_rows import bring_halos
from dssl.execution.exchange.ordered import ordered
from dssl.execution.tasks import Execution
from dssl.graph import functions as functions_module
from dssl.graph.components import find_components
from dssl.graph.energy.blocks import StoredGraph
from dssl.graph.energy.permuted_blocks import energy_blocks
from dssl.graph.functions import graph_functions
from dssl.graph.health import stored_health, unreachable_points
from dssl.graph.solved_functions import FunctionParams
from dssl.graph.spectrum import SpectrumParams, graph_spectrum
from dssl.graph.vertices import VertexRows, find_vertex_rows
from dssl.graph.weights.build import weigh, weights
from dssl.graph.weights.rules import WeightParams
from dssl.kernels.base import RBF
from dssl.kernels.resistance import amplified_resistance_kernel, effective_resistances
from dssl.kernels.stochastic import StochasticParams, stochastic_eigensystem
from dssl.knn.grow import grow_neighbors
from dssl.knn.search import NeighborParams, neighbors
from dssl.learners import kmeans as kmeans_module
from dssl.learners.class_prior import ClassBounds
from dssl.learners.on_graph.class_sizes import fit_class_sizes
from dssl.learners.on_graph.graph_ridge import GraphRidgeParams, fit_graph_ridge
from dssl.learners.on_graph.held_out import held_out_harmonic, held_out_poisson
from dssl.learners.on_graph.laplace_poisson import fit_harmonic, fit_poisson
from dssl.learners.on_graph.model import VertexLabels
from dssl.learners.on_graph.pooled import smoothed
from dssl.learners.target.target import Classes
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.pipeline.sentinels import extents_of, find_sentinels
from dssl.solvers.block_tridiagonal import Functions
from dssl.solvers.solver_params import SolverParams
from dssl.storage.artifacts import parts_in
from dssl.storage.blocks import ArrayRows, write_dense
from dssl.storage.csr import as_csr, as_rows, csr_arrays
from dssl.storage.store import StoredParts
from tests.knn.made_lists import made_lists
from tests.supported import predict_supported

GRID = {"grid": {"gamma_A": ["auto", "10*auto"], "gamma_I": [0, "auto"]}}
Found = dict[str, Any]  # arrays and other values to compare, by name


@dataclass(frozen=True)
class Example:
    """What to run, and the bytes that a task of it may take."""

    name: str
    show: Callable[[Execution, Path], Found]
    memory_budget: int = MEMORY_BUDGET


EXAMPLES: list[Example] = []


def example(memory_budget: int = MEMORY_BUDGET) -> Callable[..., Any]:
    """Register a function as an example."""
    def register(show: Callable[[Execution, Path], Found]) -> Callable[[Execution, Path], Found]:
        EXAMPLES.append(Example(show.__name__, show, memory_budget))
        return show
    return register


def points(n: int = 600, d: int = 4, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) float32 with a few equal rows, and the classes (n,)."""
    rng = np.random.default_rng([n, d])
    y = np.arange(n) % n_classes
    X = (rng.normal(size=(n, d)) + 2 * y[:, None]).astype(np.float32)
    X[n // 2:n // 2 + 9] = X[:9]
    y[n // 2:n // 2 + 9] = y[:9]
    return X, y


def words(n: int = 200, d: int = 300) -> tuple[sparse.csr_array, np.ndarray]:
    """Return sparse X (n, d) float32 of about 3 % entries, and the classes (n,)."""
    rng = np.random.default_rng([n, d])
    y = np.arange(n) % 2
    X = (rng.random((n, d)) < 0.02) * rng.integers(1, 5, (n, d))
    X[np.arange(n), y * (d // 2) + rng.integers(0, d // 2, n)] += 3
    return as_csr(X.astype(np.float32)), y


def table(n: int = 120) -> pd.DataFrame:
    """Return a table with missing cells and text."""
    rng = np.random.default_rng(n)
    kind = rng.choice(["oak", "ash", "elm"], n)
    frame = pd.DataFrame({"height": rng.normal(10, 3, n).round(4), "kind": kind, "age": rng.integers(0, 90, n) * 1.0,
                          "label": (kind == "oak").astype(int)})
    for column in ("height", "kind", "age"):
        frame.loc[rng.random(n) < 0.2, column] = None
    return frame


def pipeline(source: Path, execution: Execution, folder: Path, **fields: Any) -> Found:
    """Run a pipeline and have its model predict its source; return metrics, baselines and predictions."""
    spec = {"name": "example", "data": {"source": str(source), "read": {"block_rows": 150}, "test": {"count": 40}},
            "labels": {"per_class": 8}, "graph": {"n_neighbors": 5},
            "model": {"kind": "svm", "n_landmarks": 30}} | fields
    result = run(spec, workspace=folder / "work", execution=execution)
    model = open_model(result.model_path)
    rows = model.dataset_of(str(source), execution).X
    model.write(rows, folder / "labels.zarr", execution)
    return {"metrics": result.metrics, "baselines": result.baselines, "labels": model.predict(rows, execution),
            "stored labels": zarr.open_array(folder / "labels.zarr")[:],
            "support": predict_supported(model, rows, execution)[1], **parts_in(Path(result.model_path)).read(0)}


def stored_points(folder: Path) -> Path:
    """Return a file of dense points."""
    X, y = points()
    np.savez(folder / "points.npz", X=X, y=y)
    return folder / "points.npz"


def stored_words(folder: Path) -> Path:
    """Return a file of sparse points."""
    X, y = words()
    np.savez(folder / "words.npz", **csr_arrays(X), shape=X.shape, y=y)
    return folder / "words.npz"


@example()
def deformed_kernel(execution: Execution, folder: Path) -> Found:
    return pipeline(stored_points(folder), execution, folder, baselines=["base", "shuffled", "landmark_graph"],
                    solver={"method": "gauss_seidel", "block_columns": 8},
                    selection={"cv": 3, "grid": {"power": [1, 2], "eta": [1, 10]}})


@example()
def deformed_kernel_of_a_table(execution: Execution, folder: Path) -> Found:
    """Missing cells and text, joined files, standardized columns, quantities."""
    frame = table()
    frame["label"] = np.random.default_rng(0).normal(size=len(frame)).round(3)
    for name, rows in (("1.csv", frame[:50]), ("2.csv", frame[50:])):
        rows.to_csv(folder / name, index=False)
    return pipeline(folder / "*.csv", execution, folder, labels={"count": 30},
                    model={"kind": "ridge", "n_landmarks": 30}, data={
        "source": str(folder / "*.csv"), "task": "regression", "test": {"count": 20}, "scale": "standardize",
        "read": {"block_rows": 30, "when_missing": "impute", "when_text": "one_hot", "target": "label"}})


@example()
def cells_that_are_no_numbers(execution: Execution, folder: Path) -> Found:
    """Text and missing cells, which are refused with all of their columns."""
    table().to_csv(folder / "t.csv", index=False)
    try:
        ingest(folder / "t.csv", StoredParts(folder / "data"), execution, block_rows=50)
    except DataError as error:
        return {"refused": str(error).replace(str(folder), "")}
    raise AssertionError("the table was taken")


@example()
def first_look_at_a_table(execution: Execution, folder: Path) -> Found:
    """Labels that are numbers in one block and text in another, the ranges of the columns, and a code in some cells."""
    frame = table()
    frame.iloc[[3, 70, 100], 0] = -999
    frame["label"] = ["1", "2", "-1"] * 30 + ["a", "", "2"] * 10
    frame.to_csv(folder / "t.csv", index=False)
    look = Look(find_source(folder / "t.csv"), {"block_rows": 50}, folder, execution)
    extents = extents_of(look.reader, look.ranges, execution)
    sentinels = find_sentinels(look.reader, look.ranges, execution)
    return {"labels": asdict(look.labels()), "columns": to_json(look.records), "extents": asdict(extents),
            "sentinels": asdict(sentinels)}


@example()
def a_pipeline_that_grows(execution: Execution, folder: Path) -> Found:
    """Of two files, the second of which comes after the first run: rows of the first are copied."""
    X, y = points(330)
    cells = pd.DataFrame(X, columns=list("abcd")).assign(label=y)
    cells.loc[cells.index % 10 > 0, "label"] = None
    spec = {"name": "grown", "data": {"source": str(folder / "*.csv"), "grows": True, "test": {"none": True}},
            "labels": {"given": True}, "graph": {"n_neighbors": 5}, "model": {
            "kind": "ridge", "n_landmarks": 30}}
    cells[:300].to_csv(folder / "0.csv", index=False)
    run(spec, workspace=folder / "work", execution=execution)
    cells[300:].to_csv(folder / "1.csv", index=False)
    result = run(spec, workspace=folder / "work", execution=execution)
    return {"labels": result.predict(folder / "1.csv"), **parts_in(Path(result.model_path)).read(0)}


@example()
def deformed_kernel_of_sparse_rows(execution: Execution, folder: Path) -> Found:
    source = stored_words(folder)
    return pipeline(source, execution, folder, kernel={"bandwidth": 1.0}, data={
        "source": str(source), "test": {"count": 40}, "scale": "unit_norm",
        "read": {"block_rows": 150, "sparse": True}})


@example()
def deformed_kernel_on_a_given_graph(execution: Execution, folder: Path) -> Found:
    X, _ = points()
    sparse.save_npz(folder / "W.npz", weights(neighbors(X, 5), "binary"))
    return pipeline(stored_points(folder), execution, folder, graph={"given": {"weights": str(folder / "W.npz")}},
                    solver={"form": "restriction"})


@example()
def deformed_kernel_on_given_neighbors(execution: Execution, folder: Path) -> Found:
    X, _ = points()
    np.savez(folder / "lists.npz", **neighbors(X, 5).to_arrays())
    return pipeline(stored_points(folder), execution, folder, graph={"given": {"neighbors": str(folder / "lists.npz")}})


def laprls(stored: Callable[[Path], Path], method: str, solver: str, kind: str = "laprls",
           grid: dict[str, Any] | None = None) -> None:
    """Register the example of a way to choose landmarks and of one to solve."""
    def show(execution: Execution, folder: Path) -> Found:
        source = stored(folder)
        return pipeline(source, execution, folder, selection={"cv": 3, **(GRID if grid is None else grid)}, data={
            "source": str(source), "read": {"block_rows": 150}, "test": {"count": 40}, "scale": "none"}, model={
                "kind": kind, "solver": solver, "tol": 1e-2, "landmarks": {"n_landmarks": 40, "method": method}})

    show.__name__ = f"{kind}_of_{stored.__name__}_{method}_{solver}"
    example()(show)


laprls(stored_points, "uniform", "direct")
laprls(stored_points, "leverage", "pcg")
laprls(stored_points, "kmeans", "nystrom-pcg")
laprls(stored_words, "kmeans", "nystrom-direct")
laprls(stored_words, "leverage", "nystrom-pcg")
laprls(stored_points, "uniform", "nystrom-direct", "lapsvm", {**GRID, "held_out_points": "inductive"})
laprls(stored_words, "uniform", "nystrom-pcg", "lapsvm", {})


@example()
def laprls_by_default(execution: Execution, folder: Path) -> Found:
    """The spectral concentration of the graph, and labels held out one by one."""
    return pipeline(stored_points(folder), execution, folder, model={"kind": "laprls"})


def learner(name: str, stored: Callable[[Path], Path] = stored_points, **fields: Any) -> None:
    """Register the example of a learner on the graph."""
    def show(execution: Execution, folder: Path) -> Found:
        source = stored(folder)
        return pipeline(source, execution, folder, model={"kind": "graph", "learner": name, **fields}, data={
            "source": str(source), "read": {"block_rows": 150}, "test": {"count": 40}, "scale": "none"})

    show.__name__ = f"{name}_on_the_graph_of_{stored.__name__}"
    example()(show)


learner("ridge", class_sizes=[1, 1, 1])
learner("laplace", stored_words)


@example()
def files(execution: Execution, folder: Path) -> Found:
    """Formats that are read by blocks, several files as one, an array of another program, and rows that are appended.
    """
    X, y = words(300, 20)
    frame = pd.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(20)]).assign(y=y)
    frame.to_csv(folder / "t.csv.gz", index=False)
    for number, rows in enumerate((frame[:110], frame[110:])):
        rows.to_parquet(folder / f"{number}.parquet")
    dump_svmlight_file(X, y, str(folder / "t.svm"))
    zarr.create_array(folder / "z", data=X.toarray(), chunks=(70, 9))
    actual = {}
    for name in ("t.csv.gz", "*.parquet", "t.svm", "z"):
        data = ingest(folder / name, StoredParts(folder / "out" / name[:-1]), execution, block_rows=40)
        actual |= {name: data.X.read_all(), f"attributes of {name}": data.attributes["feature_names"]}
        if name == "t.svm":
            data.save(folder / "d")
    actual["appended"] = append(folder / "t.svm", folder / "d", execution).X.read_all()
    return actual


@example(memory_budget=1 << 16)
def sums_that_tasks_combine(execution: Execution, folder: Path) -> Found:
    """The shares of a reduction are more than a sixteenth of the budget."""
    X, _ = points(60, 200)
    actual = fit_scaling(execution.share_rows(as_rows(X)), None, ScalingParams(kind="standardize"), execution)
    compared = actual.seen.compare(as_rows(3 * X), execution)
    return {"shift": actual.shift, "factor": actual.factor, "outliers": compared.is_outlier.read_all(),
            "above": [item.above for item in compared.columns]}


@example()
def estimators(execution: Execution, folder: Path) -> Found:
    """On the active client, if there is one; X comes in pieces that its workers make, or as a Zarr array."""
    X, y = points(120)
    rows, stored = da.from_array(X, chunks=(50, 4)), zarr.create_array(folder / "X.zarr", data=X, chunks=(30, 4))
    labels = np.where(np.arange(120) < 20, y, -1)
    svc = LapSVC().fit(rows, da.from_array(labels, chunks=50))
    ridge = LapKernelRidge().fit(X, np.where(labels < 0, np.nan, labels))
    few = LapKernelRidge(n_landmarks=30).fit(X, np.where(labels < 0, np.nan, labels))
    return {"scores": svc.decision_function(rows), "labels": svc.predict(stored), "values": ridge.predict(rows),
            "on the graph": few.transduction_}


@example()
def learners_on_a_graph(execution: Execution, folder: Path) -> Found:
    """Some columns are by the Lanczos process, combined by polynomials or solvers, and others solved.

    Graphs of so few points would all be factored, were it not for a largest size of 0.
    """
    X, y = points(400)
    graph = KNNGraph(n_neighbors=5).build(X, execution)
    target = Classes(np.arange(0, 60), y[:60], np.arange(3))
    actual = {"harmonic": fit_harmonic(graph, target, None, SolverParams(), execution).values,
             "poisson": fit_poisson(graph, target, None, SolverParams(), execution).values}
    params = GraphRidgeParams(ridge=(0.01, 0.1), power=(1, 2))
    ridge = fit_graph_ridge(graph, target, None, params, execution)
    actual |= {"ridge": ridge.values, "held out": ridge.held_out}
    folds, solver = [[np.arange(number, 60, 20) for number in range(20)]], SolverParams()
    actual |= {"harmonic without folds": held_out_harmonic(graph, target, None, folds, solver, execution)[0].values,
              "poisson without folds": held_out_poisson(graph, target, None, folds, solver, execution)[0].values}
    sized = fit_class_sizes(graph, ridge, VertexLabels.of(graph.vertices, target, target.indicators()),
                            ClassBounds(np.array([0.3, 0.3, 0.4]), np.array([0.3, 0.3, 0.4])), execution)
    actual["cut"] = sized.values
    actual["smoothed"], = smoothed(graph, [ridge.values], 0, execution)
    columns, functions = np.arange(0, 60, 3), Functions((0.5, 0.5), (1, 2))
    with patch.object(functions_module, "MAX_BY_SOLVERS", 0):
        whole = graph_functions(graph, columns, columns, functions, FunctionParams(block_columns=8), execution)
        coef = np.random.default_rng(1).normal(size=(2, len(columns), 1))
        actual |= {"functions": whole.values, "combined": whole.combined(coef)}
        with patch.object(functions_module, "rounding", lambda polynomial: np.full(polynomial.shape[2], np.inf)):
            actual["combined by solvers"] = whole.combined(coef)
    return actual


@example()
def clusters_and_their_number(execution: Execution, folder: Path) -> Found:
    with patch.object(kmeans_module, "SAMPLE", 100):
        fitted = KernelKMeans("gap", feature_map="base", n_landmarks=20, n_init=2, max_clusters=3).fit(points(200)[0])
    return {"labels": fitted.labels_, "gaps": np.array(fitted.evidence_["chosen"]["gaps"])}


@example(memory_budget=1 << 16)
def equal_rows(execution: Execution, folder: Path) -> Found:
    """Copies in other blocks, of dense and of sparse rows."""
    X = np.random.default_rng(0).normal(size=(900, 3))
    X[600:] = X[:300]
    actual = {}
    for name, rows in (("dense", ArrayRows(X)), ("sparse", as_rows(sparse.csr_array(X)))):
        vertices = find_vertex_rows(rows, execution, StoredParts(folder / name))
        actual |= {f"{name}.{key}": array for key, array in vertices.load().to_arrays().items()}
    return actual


@example(memory_budget=2 << 20)
def graph_in_blocks(execution: Execution, folder: Path) -> Found:
    """Lists of so many entries that their median is sought in passes; the graph and its points in another order."""
    n, rng, parts = 7000, np.random.default_rng(0), StoredParts(folder / "W")
    described = weigh(made_lists(n, reach=20).shared(execution), WeightParams(), execution, parts)
    order, m = (execution.share_rows(ArrayRows(array)) for array in (rng.permutation(n), rng.integers(1, 3, n)))
    blocks = energy_blocks(StoredGraph(parts, "normalized", m), n, 2000, execution, execution.scratch(), order)
    X = write_dense(ArrayRows(rng.normal(size=(n, 2))), StoredParts(folder / "X"), "X", 900)
    E = {f"{name}{index}": array for index in range(len(blocks.ranges))
         for name, array in blocks.parts.read(index).items()}
    near = bring_halos(X, blocks.parts, len(blocks.ranges), "halo", round(blocks.halo * n), execution, few_bytes=0)
    assert near is not None
    listed, components = execution.scratch(), execution.scratch()
    health = stored_health(parts, VertexRows(None, n, n), execution, listed, np.arange(0))  # no label reaches any point
    find_components(parts, n, parts.receipt(0)["rows"][1], m, execution.within(1 << 17), components)  # by ranges
    return {**described, **E, "relabeled_mean": blocks.relabeled_mean, "health": health,
            "unreachable": np.concatenate([rows for rows, _ in unreachable_points(listed, n)]),
            "X": ordered(X, blocks.positions, execution).read_all(),
            "halos": np.concatenate([rows for index in range(len(blocks.ranges))
                                     for rows in near.pieces(index, 0, 900)]),
            **{name: components.rows(name).read_all() for name in ("component", "points", "isolated")}}


@example()
def spectrum(execution: Execution, folder: Path) -> Found:
    """Of a graph in two pieces with copies."""
    X, _ = points(300, n_classes=2)
    X[::2] += 50
    graph = KNNGraph(n_neighbors=5).build(X, execution)
    actual = graph_spectrum(graph, 9, SpectrumParams(method="filtered"), execution)
    return {"values": actual.values, "vectors": actual.vectors, "evidence": actual.attributes}


@example()
def resistances(execution: Execution, folder: Path) -> Found:
    """Between some points with copies, and of all edges by projections in several blocks."""
    X, _ = points(300)
    graph, solver = KNNGraph(n_neighbors=5).build(X, execution), SolverParams(block_columns=8)
    return {"between": effective_resistances(graph, np.arange(0, 300, 9), solver=solver, execution=execution),
            "edges": effective_resistances(graph, n_projections=20, solver=solver, execution=execution),
            "kernel": amplified_resistance_kernel(graph, np.arange(9), execution=execution)}


@example(memory_budget=1 << 18)
def stochastic_affinity(execution: Execution, folder: Path) -> Found:
    """In several blocks, stored."""
    X, _ = points(300)
    kernel, rows = RBF(2.0), execution.share_rows(as_rows(X))
    degrees, params = kernel(X, X).sum(axis=1), StochasticParams(n_features=10, rank=12, steps=7)
    actual = stochastic_eigensystem(rows, kernel, degrees, params, execution, StoredParts(folder / "affinity"))
    return {"values": actual.values, "vectors": actual.vectors.read_all(), "change": actual.evidence["change"]}


@example()
def cluster_kernels(execution: Execution, folder: Path) -> Found:
    """Degrees are exact, in tiles, or sums over landmarks."""
    X, y = points(300)
    labels = np.where(np.arange(300) < 20, y, -1)
    actual = {}
    for degrees in ("exact", "landmarks"):
        fitted = ClusterKernelSVC(landmarks=60, degrees=degrees).fit(X, labels)
        actual |= {f"{degrees}: scores": fitted.decision_function(X), f"{degrees}: values": fitted.basis_.values}
    return actual


@example()
def multiscale_kernels(execution: Execution, folder: Path) -> Found:
    """Eigenvalues of each scale, and eigenvectors of those that are chosen."""
    X, y = points(200)
    fitted = MultiscaleKernelClassifier(n_landmarks=40, q=0.5).fit(X, np.where(np.arange(200) < 20, y, -1))
    return {"scores": fitted.decision_function(X), "vectors": fitted.map_.vectors, "values": fitted.map_.values}


@example()
def partitioned_neighbors(execution: Execution, folder: Path) -> Found:
    """In three leaves that overlap, and joined across their borders; with the order of the rows."""
    X = CurvedManifolds(ManifoldParams(points=3000, columns=8, dimension=5)).read(0, 3000)[0]
    rows = execution.share_rows(as_rows(X))
    parts = StoredParts(folder / "lists")
    actual = neighbors(rows, 5, method="partitioned", recall=0.98, execution=execution.within(2 << 20), parts=parts)
    assert actual.attributes["joins"] > 0
    return {**actual.to_arrays(), "order": parts.rows("order").read_all()}


@example()
def neighbor_lists_that_grow(execution: Execution, folder: Path) -> Found:
    """Of whole numbers, so that old entries are measured again; a block holds old and new rows."""
    X = np.random.default_rng(0).integers(0, 4, (1300, 3)).astype(np.float32)
    base = neighbors(X[:1210], 5, method="exact")
    rows = execution.share_rows(as_rows(X))
    return grow_neighbors(rows, base, NeighborParams(n_neighbors=5), execution).to_arrays()


@example()
def nn_descent(execution: Execution, folder: Path) -> Found:
    rows = execution.share_rows(as_rows(np.random.default_rng(0).normal(size=(600, 5)).astype(np.float32)))
    return neighbors(rows, 5, method="descent", execution=execution).to_arrays()
