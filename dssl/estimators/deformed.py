"""Estimators in the kernel deformed by the graph of all points: `LapSVC` and `LapKernelRidge`."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..errors import explain
from ..execution.size import budget_of
from ..execution.tasks import Execution
from ..graph.graph import KNNGraph
from ..graph.regularizer_params import RegularizerParams
from ..kernels.eta import Eta, require_eta
from ..learners.deformed import GraphKernelParams, graph_covariance
from ..learners.eta import deform_by
from ..learners.kernel_model import expand
from ..learners.ridge_and_svm import LearnerParams, fit_gram, learner_of
from ..learners.target import Target
from ..params import BANDWIDTH
from ..selection.calibration import out_of_fold_values
from ..selection.search import VERSIONS, GridParams, Held, search_base, search_deformed
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Rows
from .base import KernelEstimator, PointRegressor
from .calibrated import CLASS_FREQUENCIES, CalibratedClassifier


class DeformedKernelEstimator(KernelEstimator):
    """What the estimators in a deformed kernel share.

    Parameters
    ----------
    kernel : base kernel: "rbf", "laplacian", "linear", "polynomial", "cosine", or a function (X, Z) -> block.
    bandwidth : of the base kernel, in units of the features: a number, "median" or a multiple such as "0.5*median".
    C : penalty of the loss, for a kernel of unit mean diagonal.
    eta : weight of the graph against the base kernel, 0 to 1e8; relative, see `dssl.kernels.deformed.deform`. 0 is the
        base kernel. "auto" is the mean of the kernels of 0, 10 and 100, each as much as exact leave-one-out on the
        labels, and the structure of the graph, say (`dssl.learners.eta`).
    graph : how the graph is made, a `KNNGraph`; None is the default one. A graph made before goes to `fit`.
    regularizer : `RegularizerParams` of `Q = (L + ridge I)^power`; None is the normalized Laplacian, ridge
        0.01 and power 2.
    n_subsample : points at which functions are measured; the labeled ones are among them. "auto" is 1,000, or what a
        budget below 192 MB lets be. All points where there are
        fewer. At the other points of the fit functions follow the graph, and at new ones the base kernel.
    tolerance : relative residual of the solves.
    scale : of the features: "auto", which standardizes columns whose ranges differ and leaves those of one unit, as
        pixels and embeddings, "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or "none"
        (`dssl.graph.scaling`); `scaling_` is what it came to.
    memory_budget : bytes, or text such as "600MB", that a task may take; None is 1 GiB, or what workers allow.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats), None or "" (text).
    seed : of every random choice, but for those of a graph that is given.
    """

    joint, versions = ("regularizer__power", "eta", "C"), VERSIONS
    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph, "regularizer": RegularizerParams}
    eta: Any
    C: Any

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = BANDWIDTH, C: float = 10.0,
                 eta: Eta = "auto", graph: KNNGraph | None = None, regularizer: RegularizerParams | None = None,
                 n_subsample: int | str = "auto", tolerance: float = 1e-6, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, seed: int = 0):
        self.kernel, self.bandwidth, self.C, self.eta, self.scale = kernel, bandwidth, C, eta, scale
        self.graph, self.regularizer, self.n_subsample, self.tolerance = graph, regularizer, n_subsample, tolerance
        self.memory_budget, self.unlabeled, self.seed = memory_budget, unlabeled, seed

    def _params(self) -> tuple[GraphKernelParams, LearnerParams]:
        require_eta(self.eta)
        learner = LearnerParams(kind=self._learner(), C=self.C)
        return GraphKernelParams(
            regularizer=self.group("regularizer"), n_subsample=self.n_subsample, seed=self.seed,  # type: ignore[arg-type]
            budget=budget_of(self.memory_budget),
            solver=SolverParams(tolerance=self.tolerance, seed=self.seed)), learner

    def _learner(self) -> Literal["svm", "ridge"]:
        return "ridge"

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: Any,
               execution: Execution) -> None:
        own, learner = params
        if len(target.labeled) >= own.size and len(rows) > own.size:
            warnings.warn(explain(
                f"{len(target.labeled)} labeled points and n_subsample={own.size}",
                why="functions are measured at labeled points alone, so the graph says little about the others",
                fix=f"raise n_subsample to {2 * len(target.labeled)} or more" + (
                    ", or memory_budget" if own.n_subsample == "auto" else "")), UserWarning, stacklevel=3)
        base = self._kernel(rows)
        covariance = graph_covariance(self._graph(rows, graph, execution), target.labeled, own, execution)
        power, points = own.regularizer.power, rows.take(target.labeled)
        X_S = rows.take(covariance.subsample)
        deformed = deform_by(self.eta, base, X_S, covariance.powers[power], points, target, weight,
                             covariance.structure[power])
        learner = replace(learner, free=deformed.free)
        coef, intercept, coding = fit_gram(deformed.K, target, learner, weight)
        self.model_ = expand(deformed.kernel, points, coef, intercept, coding)
        off, at_subsample = deformed.off_the_subsample(X_S, points, coef)
        self._on_graph: Any = None
        if len(covariance.vertices) > len(covariance.subsample) and at_subsample.any():
            self._on_graph = (expand(off, points, coef, intercept, coding), covariance.of_least_energy(
                at_subsample, power, execution), covariance.vertices.vertex)
        self.subsample_ = covariance.subsample
        self.evidence_ = {**covariance.attributes, "n_subsample": len(self.subsample_), "eta": deformed.described(),
                          "structure": covariance.structure[power]}
        self._judge(deformed.K, target, weight, learner)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_on_graph"}

    def _transduced(self, X: Any) -> np.ndarray:
        if self._on_graph is None:
            return super()._transduced(X)
        off, values, vertex = self._on_graph
        self._on_graph = None
        execution = self._execution()
        return off.coding.labels(off.values(self._new_rows(X, execution), execution) + values[vertex])

    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None,
                      repetitions: Sequence[Sequence[np.ndarray]], tried: Sequence[dict[str, Any]],
                      scoring: str | None, execution: Execution, kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """As the base class says: solves of one graph for all kernels, one factor of a kernel for all folds and C."""
        own, _ = self._params()
        usual = {"regularizer__power": own.regularizer.power, "eta": self.eta, "C": self.C}
        chosen = [{**usual, **values} for values in tried]
        power, eta, C = (tuple(dict.fromkeys(values[name] for values in chosen)) for name in self.joint)
        key = replace(own, regularizer=replace(own.regularizer, power=1))
        if key not in kept or not set(power) <= set(kept[key].powers):
            kept[key] = graph_covariance(kept["graph"], target.labeled, own, execution, power)
        subsample, base = kept[key].subsample, self._kernel(rows)
        place = {int(row): number for number, row in enumerate(subsample)}
        position = np.array([place.get(int(row), -1) for row in target.labeled])
        X_S, X_l, found = rows.take(subsample), rows.take(target.labeled), list[dict[str, Any]]()
        held = Held(target, repetitions, self._learner(), weight, scoring)
        if positive := tuple(value for value in eta if value != 0):
            found += search_deformed(base, X_S, X_l, position, kept[key].powers, kept[key].structure,
                                     GridParams(power=power, eta=positive, C=C), held)
        if 0 in eta:
            plain = search_base(base, X_l, GridParams(C=C), held)
            found += [{**row, "power": each, "eta": 0.0} for each in power for row in plain]
        rows_of = {(row["power"], row["eta"], row["C"]): row for row in found}
        return [{name: value for name, value in rows_of[tuple(values[name] for name in self.joint)].items()
                 if name not in ("power", "eta")} for values in chosen]

    def _judge(self, K: np.ndarray, target: Any, weight: np.ndarray | None, learner: LearnerParams) -> None:
        """Keep what else the Gram matrix (l, l) of the labeled points says."""


class LapSVC(CalibratedClassifier, DeformedKernelEstimator):
    """Support vector machine in the kernel deformed by the graph of all points; any number of classes.

    With the squared loss a least-squares machine, one class against the rest, and with the hinge loss one for each
    pair of classes.

    `fit(X, y)` takes all points, with y = -1 (integers), NaN (floats), None or "" (text) where there is no label. It
    runs on the active Dask client if there is one, in threads of this process otherwise, with the same result. X may
    be anything that `dssl.data.inputs` reads. `docs/estimators.md` has recipes for grids, pipelines and edge cases.

    y in {-1, +1} is an error, since -1 marks unlabeled points: name another marker, such as `unlabeled=0`. No label,
    or labels of one class, is an error. With all points labeled the graph is one of labeled points, and `evidence_`
    says 0 unlabeled. A class with one label is fitted, but not calibrated. More labels than `n_subsample` give a
    warning, and so do n <= n_neighbors, which is lowered; points that are all equal are an error.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,). model_ : KernelModel, what prediction needs and no more.
    transduction_ : ndarray, shape (n,), the labels predicted for the points of the fit, which follow the graph where
    `n_subsample` are fewer, as `predict` cannot. subsample_ : ndarray, shape (s,).
    evidence_ : dict, what the graph and the solves say of themselves; `eta`: what each eta counts for.
    calibration_ : Calibration, or None where a class has one label. scaling_ : Scaling, of the features.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    References
    ----------
    Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS 2012, eq. 6; Suykens,
    Vandewalle, "Least squares support vector machine classifiers", Neural Processing Letters 1999.
    """

    __doc__ += (DeformedKernelEstimator.__doc__ or "") + """loss : "squared", or "hinge", whose intercept gives too
        little to the class of the lonelier label where there are few.
""" + CLASS_FREQUENCIES
    regressor = "LapKernelRidge"

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = BANDWIDTH, C: float = 10.0,
                 eta: Eta = "auto", loss: str = "squared", class_prior: Any = None, class_weight: Any = None,
                 graph: KNNGraph | None = None, regularizer: RegularizerParams | None = None,
                 n_subsample: int | str = "auto", tolerance: float = 1e-6, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, seed: int = 0):
        super().__init__(kernel, bandwidth=bandwidth, C=C, eta=eta, graph=graph, regularizer=regularizer,
                         n_subsample=n_subsample, tolerance=tolerance, scale=scale, memory_budget=memory_budget,
                         unlabeled=unlabeled, seed=seed)
        self.loss = loss
        self.class_prior, self.class_weight = class_prior, class_weight

    def _learner(self) -> Literal["svm", "ridge"]:
        return learner_of(self.loss)

    def _judge(self, K: np.ndarray, target: Any, weight: np.ndarray | None, learner: LearnerParams) -> None:
        self._calibrate(target, lambda: out_of_fold_values(K, target, learner, weight, self.seed)[0], weight)

    def _move(self, offset: np.ndarray) -> None:
        super()._move(offset)
        if self._on_graph is not None:
            off, *others = self._on_graph
            self._on_graph = (off.moved(offset), *others)


class LapKernelRidge(PointRegressor, DeformedKernelEstimator):
    """Kernel ridge regression in the kernel deformed by the graph; the targets of unlabeled points are NaN.

    `fit(X, y)` takes y (n,) or (n, c); a row with a NaN is unlabeled. Points, weights and graph as in `LapSVC`.

    Attributes
    ----------
    model_ : KernelModel. transduction_ : ndarray, shape (n,) or (n, c), what is predicted for the points of the fit.
    subsample_ : ndarray, shape (s,). evidence_ : dict. All as in `LapSVC`.
    """

    __doc__ += DeformedKernelEstimator.__doc__ or ""
