"""Estimators in the kernel deformed by the graph of all points: `LapSVC` and `LapKernelRidge`."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..base.digest import BANDWIDTH
from ..base.errors import explain
from ..execution.size import budget_of
from ..execution.tasks import Execution
from ..graph.graph import KNNGraph
from ..graph.health import graph_health
from ..graph.regularizer_params import RegularizerParams
from ..graph.weights.rules import KERNEL_WIDTH
from ..kernels.base import BaseKernels
from ..kernels.eta import Eta
from ..learners.deformed import GraphCovariance
from ..learners.linear.kernel_model import KernelModel, expand
from ..learners.target.target import Target
from ..methods.deformed.covariance import covariance_of
from ..methods.deformed.method import DEFORMED_RIDGE, DEFORMED_SVM, learning_of
from ..methods.deformed.models import Expansion, problem_of, search_rows
from ..methods.deformed.sections import DeformedKernelParams, DeformedModel, RidgeModel, SvmModel
from ..methods.memory import MemoryWorkspace
from ..methods.step import Context, Fit
from ..selection.search import GridParams, Held
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Rows
from .base import KernelReader, PointRegressor
from .calibrated import CLASS_FREQUENCIES, CalibratedClassifier
from .method import MethodEstimator
from .targets import prior_of


class DeformedKernelEstimator(MethodEstimator, KernelReader):
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
        (`dssl.data.scaling.scaling`); `scaling_` is what it came to.
    memory_budget : bytes, or text such as "600MB", that a task may take; None is 1 GiB, or what workers allow.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats), None or "" (text).
    random_state : of every random choice, but for those of a graph that is given.
    """

    method, joint = DEFORMED_SVM, ("regularizer__power", "eta", "C")
    sections: ClassVar[type[DeformedModel]] = RidgeModel
    kept_steps = ("system",)
    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph, "regularizer": RegularizerParams}
    defaults: ClassVar[dict[str, dict[str, Any]]] = {"graph": {"width": KERNEL_WIDTH}}
    model_: KernelModel
    eta: Any
    C: Any

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = BANDWIDTH,
                 C: float = DeformedModel.C, eta: Eta = DeformedModel.eta,
                 graph: KNNGraph | None = None, regularizer: RegularizerParams | None = None,
                 n_subsample: int | str = DeformedModel.n_subsample,
                 tolerance: float = SolverParams.tolerance, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None,
                 random_state: int = 0):
        self.kernel, self.bandwidth, self.C, self.eta, self.scale = kernel, bandwidth, C, eta, scale
        self.graph, self.regularizer, self.n_subsample, self.tolerance = graph, regularizer, n_subsample, tolerance
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _params(self) -> DeformedKernelParams:
        model = self.section(self.sections)
        bandwidth = self.bandwidth if isinstance(self.kernel, str) else None
        return DeformedKernelParams(
            kernels=BaseKernels(self.kernel, {}, (bandwidth,), self.random_state), learner=model.learner,
            regularizer=self.group("regularizer"), n_subsample=model.size(budget_of(self.memory_budget)), C=model.C,
            eta=model.eta, solver=SolverParams(tolerance=self.tolerance, random_state=self.random_state),
            random_state=self.random_state, prior=prior_of(model.class_prior, None))

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: DeformedKernelParams,
               execution: Execution) -> None:
        if len(target.labeled) >= params.n_subsample and len(rows) > params.n_subsample:
            warnings.warn(explain(
                f"{len(target.labeled)} labeled points and n_subsample={params.n_subsample}",
                why="functions are measured at labeled points alone, so the graph says little about the others",
                fix=f"raise n_subsample to {2 * len(target.labeled)} or more" + (
                    ", or memory_budget" if self.n_subsample == "auto" else "")), UserWarning, stacklevel=3)
        self._run(rows, target, weight, self._graph(rows, graph, execution), params, execution)

    def _told(self, context: Context, params: DeformedKernelParams) -> dict[str, Any]:
        graph, covariance = context.graph(), covariance_of(context, params.powers)
        self.subsample_ = covariance.subsample
        assert context.fit is not None
        self._on_graph = self._off_the_subsample(context, context.fit.kept["model"], covariance,
                                                 params.regularizer.power)
        health = graph_health(graph.weights(), context.target().labeled, vertices=graph.vertices)
        model = context.attributes("models")["models"]["model"]
        return {**graph.attributes, "regularizer": {**context.attributes("system"), "power": params.regularizer.power},
                **{name: health[name] for name in ("vertices", "components", "unreached")},
                "solves": context.attributes("columns"), "n_subsample": len(self.subsample_), "eta": model["eta"],
                "structure": covariance.structure[params.regularizer.power]}

    def _off_the_subsample(self, context: Context, function: Expansion, covariance: GraphCovariance,
                           power: int) -> Any:
        """Return what predicts the points of the fit that are not in the subsample; None where all are.

        A model at points off the subsample, the values of least energy at the vertices, and the vertex of each point.
        """
        model = self.model_
        off, values = function.deformation.off_the_subsample(
            context.points("train").take(covariance.subsample), function.points, function.coef)
        if len(covariance.vertices) <= len(covariance.subsample) or not values.any():
            return None
        return (expand(off, function.points, function.coef, model.intercept, model.coding),
                covariance.of_least_energy(values, power, context.execution), covariance.vertices.vertex)

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
        params = self._params()
        usual = {"regularizer__power": params.regularizer.power, "eta": self.eta, "C": self.C}
        chosen = [{**usual, **values} for values in tried]
        power, eta, C = (tuple(dict.fromkeys(values[name] for values in chosen)) for name in self.joint)
        key = "covariance", params.n_subsample, params.solver, replace(params.regularizer, power=1), params.random_state
        if key not in kept or not set(power) <= kept[key][0]:
            solved = replace(params, grid=GridParams(power=tuple(sorted(power))))
            kept[key] = set(power), MemoryWorkspace(Fit(rows, target, weight, kept["graph"]), execution)
            kept[key][1].run(self.method.steps[:4], solved)
        problem, found = problem_of(kept[key][1].context(), learning_of(params)), list[dict[str, Any]]()
        held = Held(target, repetitions, params.learner, weight, scoring)
        bandwidth = params.kernels.bandwidths[0]
        if positive := tuple(value for value in eta if value != 0):
            found += search_rows(problem, "model", bandwidth, GridParams(power=power, eta=positive, C=C), held)
        if 0 in eta:
            plain = search_rows(problem, "base", bandwidth, GridParams(C=C), held)
            found += [{**row, "power": each, "eta": 0.0} for each in power for row in plain]
        rows_of = {(row["power"], row["eta"], row["C"]): row for row in found}
        return [{name: value for name, value in rows_of[tuple(values[name] for name in self.joint)].items()
                 if name not in ("power", "eta")} for values in chosen]


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
    sections, regressor = SvmModel, "LapKernelRidge"

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = BANDWIDTH,
                 C: float = DeformedModel.C, eta: Eta = DeformedModel.eta,
                 loss: str = SvmModel.loss, class_prior: Any = None, class_weight: Any = None,
                 graph: KNNGraph | None = None, regularizer: RegularizerParams | None = None,
                 n_subsample: int | str = DeformedModel.n_subsample,
                 tolerance: float = SolverParams.tolerance, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None,
                 random_state: int = 0):
        super().__init__(kernel, bandwidth=bandwidth, C=C, eta=eta, graph=graph, regularizer=regularizer,
                         n_subsample=n_subsample, tolerance=tolerance, scale=scale, memory_budget=memory_budget,
                         unlabeled=unlabeled, random_state=random_state)
        self.loss = loss
        self.class_prior, self.class_weight = class_prior, class_weight


class LapKernelRidge(PointRegressor, DeformedKernelEstimator):
    """Kernel ridge regression in the kernel deformed by the graph; the targets of unlabeled points are NaN.

    `fit(X, y)` takes y (n,) or (n, c); a row with a NaN is unlabeled. Points, weights and graph as in `LapSVC`.

    Attributes
    ----------
    model_ : KernelModel. transduction_ : ndarray, shape (n,) or (n, c), what is predicted for the points of the fit.
    subsample_ : ndarray, shape (s,). evidence_ : dict. All as in `LapSVC`.
    """

    __doc__ += DeformedKernelEstimator.__doc__ or ""
    method = DEFORMED_RIDGE
