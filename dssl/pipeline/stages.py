"""The stages of a pipeline as a table: what each depends on, and the function that makes its artifact.

Each function reads the artifacts it needs, writes parts through the execution, and returns JSON attributes. The
formulas are elsewhere; here data get their names.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..blocks import BlockedCsrRows, PartWriter, Receipt, Rows, csr_arrays, row_ranges
from ..data.dataset import Dataset
from ..data.ingest import ingest
from ..data.labels import choose_labels, keep_classes, map_classes, sample_points, split_test
from ..data.readers import format_of
from ..data.scaling import Scaling, ScalingParams, fit_scaling, scaled_rows
from ..data.sources import Source, find_source, fingerprint
from ..errors import DataError, require
from ..graph.regularizer import prepare_regularizer
from ..graph.vertices import covariance_at_points
from ..kernels.subsample import multiply_factors, solve_columns, solve_evidence
from ..models.graph_kernel import draw_subsample
from ..params import digest
from ..solvers.solve import SolverParams
from .context import Context, Stage
from .graphs import graph_params, make_graph, make_health, make_neighbors, make_vertices, vertices_of, vertices_params
from .spec import Spec
from .training import (
    FitTask,
    SearchTask,
    Training,
    choose,
    classification_scores,
    predict_codes,
    unlabeled_verdict,
)


def make_dataset(context: Context) -> dict[str, Any]:
    dataset = ingest(context.source, context.parts, context.execution, context.spec.data.ingest_params(),
                     progress=context.progress)
    names = [name for name in ("X", "y", "split") if getattr(dataset, name) is not None]
    attributes = {name: value for name, value in dataset.attributes.items() if name != "source"}
    described = dataset.X.describe() if isinstance(dataset.X, BlockedCsrRows) else None
    return {"arrays": names, "n": len(dataset), "d": dataset.X.shape[1], "X": described, "dataset": attributes}


def _dataset(context: Context) -> Dataset:
    attributes = context.attributes("dataset")
    described = attributes["X"]  # of sparse rows, which are no shared array
    arrays: dict[str, Rows] = {name: context.rows("dataset", name) for name in attributes["arrays"]
                               if name != "X" or described is None}
    if described is not None:
        arrays["X"] = BlockedCsrRows.of(context.inputs["dataset"].parts, described)
    return Dataset(arrays["X"], arrays.get("y"), arrays.get("split"), attributes["dataset"])


def make_split(context: Context) -> dict[str, Any]:
    """Choose classes, test points and training points; write their row numbers and codes."""
    data, dataset = context.spec.data, _dataset(context)
    codes, classes = dataset.labels(data.unlabeled)
    ids = np.arange(len(codes))
    if data.keep is not None:
        ids, codes, classes = keep_classes(codes, classes, data.keep)
    if data.classes is not None:
        codes, classes = map_classes(codes, classes, data.classes)
    require(len(classes) >= 1, f"no point of {context.source.name} has a label", error=DataError,
            why="there is nothing to learn from", fix="check the target, and data.unlabeled, the marker of no label")
    require(len(classes) >= 2, f"{context.source.name} has {len(classes)} class(es): {classes.tolist()[:5]}",
            error=DataError,
            why="a classifier tells at least two classes apart", fix="check data.keep, data.classes and the target")
    require(len(classes) <= 1000, f"the target has {len(classes)} different values", error=DataError,
            why="that is a quantity, not a class", fix="map it to classes with data.classes")
    official = None
    if data.test.official:
        require(dataset.split is not None, "the data set has no official split", error=DataError,
                why="data.test.official asks for it", fix="set data.test.count or data.test.fraction")
        assert dataset.split is not None
        official = dataset.split.read_all()[ids]
    train, test = split_test(codes, count=data.test.count, fraction=data.test.fraction, official=official,
                             seed=data.seed)
    test = test[codes[test] >= 0]
    require(len(test) > 0, "no test point has a label", error=DataError,
            why="there is nothing to compare predictions with",
            fix="set data.test.count or data.test.fraction, or give the test points labels")
    if data.points is not None and data.points != len(train):
        train = sample_points(train, data.points, data.seed)
    k = context.spec.graph.n_neighbors
    require(len(train) > k or context.spec.graph.given is not None, error=DataError,
            what=f"{len(train)} training points and graph.n_neighbors={k}",
            why="a point has at most n - 1 neighbors", fix="lower graph.n_neighbors, or use more points")
    PartWriter(context.parts, 0).write(train=ids[train], test=ids[test], train_codes=codes[train],
                                       test_codes=codes[test])
    return {"classes": classes.tolist(), "n_train": len(train), "n_test": len(test)}


@dataclass(frozen=True)
class ScaleTask:
    """Write the scaled rows of one range of chosen points, to a shared array, or sparse ones to the task's part."""

    rows: Rows
    ids: np.ndarray
    state: tuple[dict[str, np.ndarray], dict[str, Any]]  # of the scaling
    name: str
    start: int

    def __call__(self, out: PartWriter) -> Receipt:
        scaled = Scaling.from_arrays(*self.state).transform(self.rows.take(self.ids))
        if not self.rows.is_sparse:
            return out.write_rows(self.start, **{self.name: scaled})
        return {**out.write(**csr_arrays(scaled)), "rows": [self.start, self.start + len(self.ids)],
                "entries": int(scaled.nnz)}


def make_points(context: Context) -> dict[str, Any]:
    """Scale the training and test points, fitted on the training points only, into `train` and `test`."""
    chosen, rows = context.arrays("split"), _dataset(context).X
    scaling = fit_scaling(rows, chosen["train"], ScalingParams(kind=context.spec.data.scale), context.execution,
                          feature_names=context.attributes("dataset")["dataset"].get("feature_names"))
    row_bytes = rows.row_bytes if rows.is_sparse else rows.shape[1] * rows.dtype.itemsize
    chunk = getattr(rows, "block_rows" if rows.is_sparse else "chunk_rows", 1)
    height = scaled_rows(len(chosen["train"]), row_bytes, chunk, context.execution.memory_budget)
    tasks = {}
    for name in ("train", "test"):
        if not rows.is_sparse:
            context.parts.allocate(name, (len(chosen[name]), rows.shape[1]), rows.dtype, height)
        tasks[name] = [ScaleTask(rows, chosen[name][start:stop], scaling.to_arrays(), name, start)
                       for start, stop in row_ranges(len(chosen[name]), height)]
    receipts = context.execution.map([*tasks["train"], *tasks["test"]], context.parts, context.progress)
    PartWriter(context.parts.within("scaling"), 0).write(**scaling.to_arrays()[0])
    attributes = {"scaling": scaling.to_arrays()[1], "d": rows.shape[1]}
    if not rows.is_sparse:
        return attributes
    first, dtype = {"train": 0, "test": len(tasks["train"])}, np.result_type(rows.dtype, np.float32)
    for name, own in tasks.items():
        entries = sum(receipt["entries"] for receipt in receipts[first[name]:first[name] + len(own)])
        attributes[name] = BlockedCsrRows(context.parts, (len(chosen[name]), rows.shape[1]), dtype, height, entries,
                                          first[name]).describe()
    return attributes


def make_labels(context: Context) -> dict[str, Any]:
    """Choose the labeled points; write their places among the training points."""
    codes, labels = context.arrays("split")["train_codes"], context.spec.labels
    classes = context.attributes("split")["classes"]
    if labels.given:
        chosen = np.flatnonzero(codes >= 0)
    else:
        chosen = choose_labels(codes, count=labels.count, per_class=labels.per_class, fraction=labels.fraction,
                               seed=labels.seed, n_classes=len(classes))
    PartWriter(context.parts, 0).write(labeled=chosen, codes=codes[chosen])
    return {"n_labeled": len(chosen), "per_class": np.bincount(codes[chosen], minlength=len(classes)).tolist()}


def make_subsample(context: Context) -> dict[str, Any]:
    """Choose the vertices at which functions are measured, and a training point of each, a labeled one if any is."""
    points, rows = vertices_of(context), context.arrays("labels")["labeled"]
    labeled = points.of(rows)
    chosen = draw_subsample(labeled, len(points), context.spec.subsample.size, context.spec.subsample.seed)
    PartWriter(context.parts, 0).write(subsample=points.rows_of(chosen, rows), vertices=chosen)
    return {"n_subsample": len(chosen), "n_labeled": int(np.isin(chosen, labeled).sum())}


def make_system(context: Context) -> dict[str, Any]:
    """Prepare the solver: scaled matrix, method, eigenvectors or hierarchy."""
    spec = context.spec
    n_columns = _system_params(spec)["n_columns"]
    counted = context.attributes("vertices")["largest_multiplicity"] > 1
    copies = context.inputs["vertices"].parts.arrays(0) if counted else None
    _, chosen, attributes = prepare_regularizer(context.inputs["graph"].parts, spec.graph.regularizer(), n_columns,
                                                spec.solver.params(), context.execution, context.parts, copies)
    return {**attributes, "params": asdict(chosen)}


def make_columns(context: Context) -> dict[str, Any]:
    """Solve the columns of the subsample."""
    system, spec = context.attributes("system"), context.spec
    params = SolverParams(**{**system["params"], "block_columns": spec.solver.block_columns})
    receipts = solve_columns(context.inputs["system"].parts.arrays(0), params, system["n"],
                             context.arrays("subsample")["vertices"], spec.powers, context.execution,
                             context.parts, form=spec.solver.form, progress=context.progress)
    return {**solve_evidence(receipts, system["solver"]), "n_blocks": len(receipts)}


def make_covariance(context: Context) -> dict[str, Any]:
    """Multiply the solved columns to Q^+ on the subsample."""
    spec, system = context.spec, context.attributes("system")
    subsample = context.arrays("subsample")["vertices"]
    found = multiply_factors(context.inputs["columns"].parts, system["n"], subsample, spec.powers, context.execution,
                             context.parts.within("shares"), form=spec.solver.form,
                             n_blocks=context.attributes("columns")["n_blocks"], progress=context.progress)
    m = vertices_of(context).multiplicity[subsample]
    found = {power: covariance_at_points(A, m) for power, A in found.items()}
    PartWriter(context.parts, 0).write(**{f"power{power}": A for power, A in found.items()})
    return {"mean_diagonal": {str(power): float(np.trace(A)) / len(A) for power, A in found.items()}}


def _training(context: Context) -> Training:
    spec = context.spec
    neighbors = spec.graph.neighbors()
    n_subsample = context.attributes("subsample")["n_subsample"]
    small = replace(neighbors, n_neighbors=max(1, min(neighbors.n_neighbors, n_subsample - 1)))
    return Training(
        points=context.points("train"), covariance=context.inputs["covariance"].parts.arrays(0),
        chosen=context.inputs["subsample"].parts.arrays(0), labels=context.inputs["labels"].parts.arrays(0),
        kernel=spec.kernel.model_dump(include={"name", "parameters"}), kind=spec.model.kind, seed=spec.subsample.seed,
        budget=(small, spec.graph.weighting(), spec.graph.regularizer()))


def make_selection(context: Context) -> dict[str, Any]:
    """Choose power, eta, bandwidth and C of each model by cross-validation; without a grid, take those given."""
    spec = context.spec
    grid = spec.grid()
    if grid is None:
        given = {"power": spec.graph.power, "eta": spec.model.eta, "C": spec.model.C,
                 "bandwidth": spec.kernel.bandwidth}
        return {"choices": dict.fromkeys(("model", *spec.baselines), given), "folds": 0}
    searched = tuple(name for name in ("model", *spec.baselines) if name != "shuffled")
    training = _training(context)
    tasks = [SearchTask(training, name, kernel.bandwidth, grid) for name in searched for kernel in spec.kernels()]
    receipts = context.execution.map(tasks, context.parts, context.progress)
    return {"choices": choose(receipts, searched), "folds": receipts[0]["folds"],
            "grid": {name: [row for receipt in receipts if receipt["name"] == name for row in receipt["grid"]]
                     for name in searched}}


def make_models(context: Context) -> dict[str, Any]:
    """Fit the model and its baselines."""
    task = FitTask(_training(context), tuple(context.attributes("split")["classes"]),
                   ("model", *context.spec.baselines), context.attributes("selection")["choices"])
    receipt, = context.execution.map([task], context.parts)
    return {"models": receipt["models"]}


def make_scores(context: Context) -> dict[str, Any]:
    """Predict the test points with every model, and compare."""
    models, classes = context.attributes("models")["models"], context.attributes("split")["classes"]
    true = context.arrays("split")["test_codes"]
    predicted = predict_codes(context.points("test"), context.inputs["models"].parts.arrays(0), models,
                              context.execution, context.parts, context.progress)
    codes = {name: predicted[:, column] for column, name in enumerate(models)}
    beyond = context.parts.rows("unsupported").read_all().sum(axis=0).tolist()
    scores = {name: {**classification_scores(found, true, classes), "unsupported": beyond[column]}
              for column, (name, found) in enumerate(codes.items())}
    return {"metrics": scores.pop("model"), "baselines": scores, "gain": unlabeled_verdict(codes, true)}


def _regularizer(spec: Spec) -> dict[str, Any]:
    return {"laplacian": spec.graph.laplacian, "ridge": spec.graph.ridge}


def _split_params(spec: Spec) -> dict[str, Any]:
    data = spec.data.model_dump(include={"keep", "unlabeled", "points", "test", "seed"})
    # As pairs: the keys of a JSON mapping are text, and the classes 1 and "1" are not the same.
    classes = None if spec.data.classes is None else [[name, members] for name, members in spec.data.classes.items()]
    return {**data, "classes": classes}


def _system_params(spec: Spec) -> dict[str, Any]:
    # The number of columns decides how much preparation pays; the powers only through it.
    chains = (max(spec.powers) + 1) // 2
    return {**_regularizer(spec), "n_columns": spec.subsample.size * chains,
            **spec.solver.model_dump(include={"method", "tolerance", "max_iterations"})}


def _columns_params(spec: Spec) -> dict[str, Any]:
    return {"powers": spec.powers, **spec.solver.model_dump(include={"block_columns", "form"})}


def _training_params(spec: Spec) -> dict[str, Any]:
    budget = {"graph": spec.graph.model_dump(exclude={"duplicates", "given"})} if "budget" in spec.baselines else {}
    return {"kernel": spec.kernel.model_dump(include={"name", "parameters"}), "kind": spec.model.kind,
            "baselines": list(spec.baselines), "seed": spec.subsample.seed, **budget}


def _selection_params(spec: Spec) -> dict[str, Any]:
    grid = spec.grid()
    if grid is None:
        return {"power": spec.graph.power, "eta": spec.model.eta, "C": spec.model.C,
                "bandwidth": spec.kernel.bandwidth, "baselines": list(spec.baselines)}
    return {**_training_params(spec), "grid": grid, "bandwidths": [kernel.bandwidth for kernel in spec.kernels()]}


STAGES: tuple[Stage, ...] = (
    Stage("dataset", 2, (), lambda spec: {"read": spec.data.read}, make_dataset),
    Stage("split", 1, ("dataset",), _split_params, make_split),
    Stage("labels", 1, ("split",), lambda spec: spec.labels.model_dump(), make_labels),
    Stage("points", 1, ("dataset", "split"), lambda spec: {"scale": spec.data.scale}, make_points),
    Stage("vertices", 1, ("points",), vertices_params, make_vertices),
    Stage("subsample", 2, ("labels", "vertices"), lambda spec: spec.subsample.model_dump(), make_subsample),
    Stage("neighbors", 2, ("dataset", "split", "points", "vertices"),
          graph_params("n_neighbors", "method", "metric", "seed", given="neighbors"), make_neighbors),
    Stage("graph", 2, ("dataset", "split", "neighbors"),
          graph_params("weights", "bandwidth", "symmetrize", given="weights"), make_graph),
    Stage("health", 2, ("split", "vertices", "neighbors", "graph", "labels"), lambda spec: {}, make_health),
    Stage("system", 2, ("vertices", "graph"), _system_params, make_system),
    Stage("columns", 2, ("system", "subsample"), _columns_params, make_columns),
    Stage("covariance", 3, ("vertices", "system", "subsample", "columns"), lambda spec: {"powers": spec.powers},
          make_covariance),
    Stage("selection", 1, ("points", "labels", "subsample", "covariance"), _selection_params, make_selection),
    Stage("models", 2, ("split", "points", "labels", "subsample", "covariance", "selection"), _training_params,
          make_models),
    Stage("scores", 2, ("split", "points", "models"), lambda spec: {}, make_scores),
)


def source_of(spec: Spec) -> tuple[Source, str]:
    """Return the local file of a spec's source, and the digest of its bytes and of the format they are read in."""
    params = spec.data.ingest_params()
    source = find_source(spec.data.source, labels=params.labels, format=params.format)
    return source, digest({"bytes": fingerprint(source), "format": format_of(source.path, params.format)})
