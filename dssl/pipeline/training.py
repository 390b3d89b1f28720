"""Fit the model and its baselines on the same labels, and score them on the same test points.

    model     the learner in the kernel deformed by the graph
    base      the same learner in the base kernel: no unlabeled data
    shuffled  the same as the model, with the graph's vertices permuted: an equal graph that says nothing
    budget    the same as the model, with a graph of the subsample alone
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score

from ..blocks import ArrayRows, Arrays, PartWriter, Receipt, Rows, row_ranges
from ..execution import Execution, InProcess, Progress
from ..graph.laplacian import Laplacian
from ..graph.neighbors import NeighborParams, find_neighbors
from ..graph.regularizer import RegularizerParams
from ..graph.weights import WeightParams, weights
from ..kernels.base import kernel_from
from ..kernels.gram import apply_kernel, block_rows
from ..kernels.subsample import inverse_on_subsample
from ..models.base import KernelModel, expand
from ..models.graph_kernel import deform, shuffled
from ..models.learners import LearnerParams, fit_labels
from ..solvers.solve import SolverParams


@dataclass(frozen=True)
class FitTask:
    """Fit the model and its baselines; write one model a name, `NAME.ARRAY`."""

    points: Rows  # all training points, scaled
    covariance: Arrays  # A (s, s)
    chosen: Arrays  # subsample (s,)
    labels: Arrays  # labeled (l,), codes (l,)
    classes: tuple[Any, ...]
    kernel: dict[str, Any]  # name, bandwidth, parameters
    learner: LearnerParams
    eta: float
    seed: int
    baselines: tuple[str, ...]
    budget: tuple[NeighborParams, WeightParams, RegularizerParams]

    def __call__(self, out: PartWriter) -> Receipt:
        A, subsample = self.covariance.load()["A"], self.chosen.load()["subsample"]
        labeled, codes = self.labels.load()["labeled"], self.labels.load()["codes"]
        X_S, X_l = self.points.take(subsample), self.points.take(labeled)
        base = kernel_from(self.kernel["name"], self.kernel["bandwidth"], rows=self.points, seed=self.seed,
                           **self.kernel["parameters"])
        kernels = {"model": deform(base, X_S, A, self.eta)}
        for name in self.baselines:
            if name == "base":
                kernels[name] = base  # type: ignore[assignment]
            elif name == "shuffled":
                kernels[name] = deform(base, X_S, shuffled(A, self.seed), self.eta)
            else:
                kernels[name] = deform(base, X_S, subsample_graph_covariance(X_S, *self.budget), self.eta)
        arrays: dict[str, np.ndarray] = {}
        receipt: Receipt = {"models": {}}
        for name, kernel in kernels.items():
            K = kernel(X_l, X_l)
            coef, intercept, coding = fit_labels(K, codes, len(self.classes), self.learner)
            facts = {"name": name, "n_labeled": len(labeled), "training_error": 0.0}
            model = expand(kernel, X_l, coef, intercept, coding, np.array(self.classes), facts)
            facts["training_error"] = float((model.codes(K @ coef + intercept) != codes).mean())
            described, attributes = model.to_arrays()
            arrays |= {f"{name}.{key}": array for key, array in described.items()}
            receipt["models"][name] = attributes
        out.write(**arrays)
        return receipt


def subsample_graph_covariance(X_S: np.ndarray, neighbors: NeighborParams, weighting: WeightParams,
                               regularizer: RegularizerParams) -> np.ndarray:
    """Return Q^-1 (s, s) of the graph of the subsample alone, the paper's "budget" baseline (section 5.1)."""
    lists = find_neighbors(ArrayRows(X_S), neighbors, InProcess(1))
    W = weights(lists, weighting.kind, bandwidth=weighting.bandwidth, symmetrize=weighting.symmetrize,
                execution=InProcess(1))
    laplacian = Laplacian(W, regularizer.laplacian == "normalized")
    found = inverse_on_subsample(laplacian.matrix(regularizer.ridge), np.arange(len(X_S)), (regularizer.power,),
                                 params=SolverParams(method="direct"), vector=laplacian.vector, execution=InProcess(1))
    return found.powers[regularizer.power]


def load_model(arrays: dict[str, np.ndarray], models: dict[str, Any], name: str) -> KernelModel:
    """Return one of the models that `FitTask` wrote."""
    own = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
    return KernelModel.from_arrays(own, models[name])


@dataclass(frozen=True)
class PredictTask:
    """Write the codes that each model predicts for one range of rows."""

    rows: Rows
    fitted: Arrays
    models: dict[str, Any]
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.fitted.load()
        X = self.rows.read(self.start, self.stop)
        codes = []
        for name in self.models:
            model = load_model(arrays, self.models, name)
            codes.append(model.codes(apply_kernel(model.kernel, X, model.points, model.coef) + model.intercept))
        return out.write_rows(self.start, codes=np.stack(codes, axis=1))


def predict_codes(rows: Rows, fitted: Arrays, models: dict[str, Any], execution: Execution, parts: Any,
                  progress: Progress | None = None) -> np.ndarray:
    """Return the predicted codes (n, n_models) of every model for every row, in blocks."""
    arrays = fitted.load()
    largest = max((load_model(arrays, models, name) for name in models), key=lambda model: len(model.points))
    own = sum(array.nbytes for array in arrays.values())
    height = block_rows(largest.kernel, rows, len(largest.points), execution.memory_budget, kernel_bytes=own)
    parts.allocate("codes", (len(rows), len(models)), np.int64, height)
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

