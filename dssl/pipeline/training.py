"""Choose parameters, fit the model and its baselines on the same labels, and score them on the same test points.

    model     the learner in the kernel deformed by the graph
    base      the same learner in the base kernel: no unlabeled data
    shuffled  the same as the model, with the graph's vertices permuted: an equal graph that says nothing
    budget    the same as the model, with a graph of the subsample alone
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score

from ..blocks import Arrays, PartWriter, Receipt, Rows, as_rows, row_ranges
from ..execution import Execution, InProcess, Progress
from ..graph.laplacian import Laplacian
from ..graph.neighbors import NeighborParams, find_neighbors
from ..graph.regularizer import RegularizerParams
from ..graph.weights import WeightParams, weights
from ..kernels.base import Kernel, kernel_from
from ..kernels.gram import block_rows, entries_of
from ..kernels.subsample import inverse_on_subsample
from ..kernels.support import largest_diagonal, supported_values
from ..models.base import LEAST_SUPPORT, KernelModel, expand
from ..models.graph_kernel import check_share, deform, shuffled
from ..models.learners import LearnerParams, fit_labels
from ..selection.folds import labeled_folds
from ..selection.search import GridParams, search_base, search_deformed
from ..solvers.solve import SolverParams


@dataclass(frozen=True)
class Training:
    """What the model and its baselines are trained on, as the tasks that search and fit need it."""

    points: Rows  # all training points, scaled
    covariance: Arrays  # `power{p}` (s, s) of each power
    chosen: Arrays  # subsample (s,)
    labels: Arrays  # labeled (l,), codes (l,)
    kernel: dict[str, Any]  # name, parameters
    kind: Literal["svm", "ridge"]
    seed: int
    budget: tuple[NeighborParams, WeightParams, RegularizerParams]

    def base(self, bandwidth: float | str | None) -> Kernel:
        """Return the base kernel with a bandwidth."""
        return kernel_from(self.kernel["name"], bandwidth, rows=self.points, seed=self.seed,
                           **self.kernel["parameters"])

    def subsample(self) -> np.ndarray:
        """Return the row numbers of the subsample (s,)."""
        return self.chosen.load()["subsample"]

    def labeled(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the row numbers (l,) and the codes (l,) of the labeled points."""
        labels = self.labels.load()
        return labels["labeled"], labels["codes"]

    def covariances(self, name: str, powers: tuple[int, ...], X_S: Any) -> dict[int, np.ndarray]:
        """Return Q^+ (s, s) on the subsample of each power, as the model of this name takes it."""
        if name == "budget":
            return subsample_graph_covariance(X_S, *self.budget, powers)
        arrays = self.covariance.load()
        return {power: shuffled(arrays[f"power{power}"], self.seed) if name == "shuffled" else arrays[f"power{power}"]
                for power in powers}


@dataclass(frozen=True)
class SearchTask:
    """Cross-validate the grid of one model at one bandwidth."""

    training: Training
    name: str  # model, base or budget
    bandwidth: float | str | None
    grid: GridParams

    def __call__(self, out: PartWriter) -> Receipt:
        subsample, (labeled, codes) = self.training.subsample(), self.training.labeled()
        X_l = self.training.points.take(labeled)
        base = self.training.base(self.bandwidth)
        folds = labeled_folds(codes, self.grid.folds, self.grid.seed)
        if self.name == "base":
            found = search_base(base, X_l, codes, self.training.kind, self.grid, folds)
        else:
            X_S = self.training.points.take(subsample)
            place = {int(row): position for position, row in enumerate(subsample)}
            position = np.array([place.get(int(row), -1) for row in labeled])
            found = search_deformed(base, X_S, X_l, codes, position,
                                    self.training.covariances(self.name, self.grid.power, X_S), self.training.kind,
                                    self.grid, folds)
        rows = [{**asdict(point), "bandwidth": self.bandwidth} for point in found]
        return {"name": self.name, "grid": rows, "folds": len(folds)}


def choose(receipts: list[Receipt], names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the chosen parameters of each model: lowest error, then lowest loss, then the first of the grid."""
    choices = {}
    for name in names:
        rows = [row for receipt in receipts if receipt["name"] == name for row in receipt["grid"]]
        choices[name] = min(rows, key=lambda row: (row["error"], row["loss"]))
    if "shuffled" not in choices:
        choices["shuffled"] = choices["model"]
    return choices


@dataclass(frozen=True)
class FitTask:
    """Fit the model and its baselines; write one model a name, `NAME.ARRAY`."""

    training: Training
    classes: tuple[Any, ...]
    names: tuple[str, ...]  # model, and the baselines
    choices: dict[str, dict[str, Any]]  # by name: power, eta, C, bandwidth

    def __call__(self, out: PartWriter) -> Receipt:
        training = self.training
        labeled, codes = training.labeled()
        X_S, X_l = training.points.take(training.subsample()), training.points.take(labeled)
        arrays: dict[str, np.ndarray] = {}
        receipt: Receipt = {"models": {}}
        for name in self.names:
            chosen = self.choices[name]
            base = training.base(chosen["bandwidth"])
            kernel: Any = base
            if name != "base":
                A = training.covariances(name, (chosen["power"],), X_S)[chosen["power"]]
                kernel = deform(base, X_S, A, chosen["eta"])
            K = kernel(X_l, X_l)
            check_share(K, base, X_l, chosen["eta"] or 0.0)
            coef, intercept, coding = fit_labels(K, codes, len(self.classes),
                                                 LearnerParams(kind=training.kind, C=chosen["C"]))
            parameters = {key: chosen[key] for key in ("power", "eta", "C", "bandwidth")}
            facts = {"name": name, "n_labeled": len(labeled), "training_error": 0.0, "parameters": parameters}
            model = expand(kernel, X_l, coef, intercept, coding, np.array(self.classes), facts)
            facts["training_error"] = float((model.codes(K @ coef + intercept) != codes).mean())
            described, attributes = model.to_arrays()
            arrays |= {f"{name}.{key}": array for key, array in described.items()}
            receipt["models"][name] = attributes
        out.write(**arrays)
        return receipt


def subsample_graph_covariance(X_S: Any, neighbors: NeighborParams, weighting: WeightParams,
                               regularizer: RegularizerParams, powers: tuple[int, ...]) -> dict[int, np.ndarray]:
    """Return Q^-1 (s, s) by power of the graph of the subsample alone, the paper's "budget" baseline (section 5.1)."""
    lists = find_neighbors(as_rows(X_S), neighbors, InProcess(1))
    W = weights(lists, weighting.kind, bandwidth=weighting.bandwidth, symmetrize=weighting.symmetrize,
                execution=InProcess(1))
    laplacian = Laplacian(W, regularizer.laplacian == "normalized")
    found = inverse_on_subsample(laplacian.matrix(regularizer.ridge), np.arange(len(lists)), powers,
                                 params=SolverParams(method="direct"), vector=laplacian.vector, execution=InProcess(1))
    return found.powers


def load_model(arrays: dict[str, np.ndarray], models: dict[str, Any], name: str) -> KernelModel:
    """Return one of the models that `FitTask` wrote."""
    own = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
    return KernelModel.from_arrays(own, models[name])


@dataclass(frozen=True)
class PredictTask:
    """Write the codes that each model predicts for one range of rows, and which rows are beyond its support."""

    rows: Rows
    fitted: Arrays
    models: dict[str, Any]
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.fitted.load()
        X = self.rows.read(self.start, self.stop)
        codes, beyond = [], []
        for name in self.models:
            model = load_model(arrays, self.models, name)
            values, largest = supported_values(model.kernel, X, model.points, model.coef)
            codes.append(model.codes(values + model.intercept))
            beyond.append(largest < LEAST_SUPPORT * largest_diagonal(model.kernel, model.points))
        return out.write_rows(self.start, codes=np.stack(codes, axis=1), unsupported=np.stack(beyond, axis=1))


def predict_codes(rows: Rows, fitted: Arrays, models: dict[str, Any], execution: Execution, parts: Any,
                  progress: Progress | None = None) -> np.ndarray:
    """Return the predicted codes (n, n_models) of every model for every row, in blocks.

    `parts` then holds, beside them, `unsupported` (n, n_models) bool: the rows beyond each model's support.
    """
    arrays = fitted.load()
    largest = max((load_model(arrays, models, name) for name in models), key=lambda model: model.points.shape[0])
    own = sum(array.nbytes for array in arrays.values())
    height = block_rows(largest.kernel, rows, largest.points.shape[0], execution.memory_budget, kernel_bytes=own,
                        sparse_entries=entries_of(largest.points))
    parts.allocate("codes", (len(rows), len(models)), np.int64, height)
    parts.allocate("unsupported", (len(rows), len(models)), bool, height)
    tasks = [PredictTask(rows, fitted, models, start, stop) for start, stop in row_ranges(len(rows), height)]
    execution.map(tasks, parts, progress)
    return parts.rows("codes").read_all()


def classification_scores(predicted: np.ndarray, true: np.ndarray, classes: list[Any]) -> dict[str, Any]:
    """Return the scores of predicted codes (n,) against the true ones."""
    wrong = predicted != true
    error = float(wrong.mean())
    present = np.unique(true)
    return {"error": error, "accuracy": 1 - error, "standard_error": float(np.sqrt(error * (1 - error) / len(true))),
            "balanced_accuracy": float(balanced_accuracy_score(true, predicted)) if len(present) > 1 else 1 - error,
            "macro_f1": float(f1_score(true, predicted, average="macro", labels=present, zero_division=0)),
            "n_test": len(true),
            "confusion": confusion_matrix(true, predicted, labels=np.arange(len(classes))).tolist()}


def unlabeled_verdict(codes: dict[str, np.ndarray], true: np.ndarray) -> dict[str, Any]:
    """Return whether the unlabeled data helped, on the same test points: gains in error and a paired test.

    The p-value is McNemar's exact test on the points that one of the two gets right. "helped" asks for a lower error
    than both the base kernel and the shuffled graph, and p < 0.05 against the base kernel.
    """
    verdict: dict[str, Any] = {}
    right = {name: found == true for name, found in codes.items()}
    for name in codes:
        if name == "model":
            continue
        gained, lost = int((right["model"] & ~right[name]).sum()), int((~right["model"] & right[name]).sum())
        p_value = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
        verdict[f"over_{name}"] = {"gain": (gained - lost) / len(true), "p_value": p_value}
    base, control = verdict["over_base"], verdict["over_shuffled"]
    if base["gain"] > 0 and base["p_value"] < 0.05 and control["gain"] > 0:
        verdict["unlabeled_data"] = "helped"
    elif base["gain"] < 0 and base["p_value"] < 0.05:
        verdict["unlabeled_data"] = "hurt"
    else:
        verdict["unlabeled_data"] = "no clear difference"
    return verdict

