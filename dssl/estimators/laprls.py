"""`LapRLSClassifier` and `LapRLSRegressor`: Laplacian regularized least squares for up to millions of points."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from ..base.errors import explain, require
from ..execution.size import budget_of
from ..execution.tasks import Execution
from ..graph.graph import KNNGraph
from ..kernels.base import Kernel, kernel_from
from ..kernels.landmarks import LandmarkParams
from ..learners.laprls.chosen import CHOSEN, bandwidths_of, values_of
from ..learners.laprls.params import SystemParams
from ..learners.laprls.penalties import PENALTIES, Penalty
from ..learners.laprls.problem import LapRLSParams, LapRLSProblem, PreparedLapRLS
from ..learners.losses import SQUARES, SmoothLoss
from ..learners.measures import SQUARED, PointMeasure
from ..learners.target.target import Target
from ..selection.calibration import calibration_folds
from ..selection.choice import LOWEST, ChoiceRule, cv_results
from ..selection.chosen import ProbablePair, folds_to_choose
from ..selection.folds import held_out_folds, require_folds
from ..selection.laprls import VERSIONS, fit_laprls, search_penalties
from ..storage.blocks import Rows
from .base import KernelEstimator, PointRegressor
from .calibrated import CLASS_FREQUENCIES, CalibratedClassifier


class LapRLSEstimator(KernelEstimator):
    """What the two estimators share.

    Parameters
    ----------
    kernel, bandwidth : base kernel, as in `LapSVC`. "chosen" takes "0.5*median" or "2*median", by what chooses the
        penalties, and nothing of a kernel without a bandwidth; where labels cannot tell, "0.5*median". The systems of
        the one that leads are held while those of the other are made.
    gamma_A : weight of the norm, > 0. gamma_I : weight of the graph's energy, >= 0; 0 is plain RLS, without a graph.
        Both against the mean squared residual of the labels, numbers, "auto" or multiples such as "10*auto"; see
        `dssl.learners.laprls.penalties`. "chosen" takes one of a few values, without the graph among them, by
        leave-one-out residuals of the labels and by the structure of the graph, which decides where labels are few
        (`dssl.learners.laprls.chosen`). A sequence of values of either is a grid, of which cross-validation takes the
        pair of lowest error, with all values that "chosen" has of the other and of the bandwidth. `cv_results_` has
        all pairs.
    landmarks : how many: a number, a fraction of the distinct points, or "sqrt", the paper's: ceil(m^1/2) labeled
        points and ceil((n - m)^1/2) others, m of n points labeled. "auto" is 1,000, or as many as "sqrt" if these are
        more, with the labeled points among them, up to half. `LandmarkParams` says which as well: uniform, k-means
        centers, or by leverage.
    graph : how the graph is made, a `KNNGraph`; None is the default one. A graph made before goes to `fit`.
    solver : "auto", "nystrom-direct" (Gram matrices), "nystrom-pcg", "nystrom-cg"; or, on all points instead of
        landmarks, "direct", "pcg", "cg". `SystemParams` says more: Laplacian, preconditioner, whitening, precision,
        tolerance.
    cv : of a grid: a number of folds of the labels (fewer where there are fewer labels, see `evidence_`),
        "leave_one_out", a splitter of scikit-learn, repeated or not, which is given the labeled points; or a list of
        what it yields, `list(splitter.split(X_l, y_l, groups))` of the labeled points.
    fit_intercept : whether targets are centered at the mean of the labels.
    scale : of the features: "auto", which standardizes columns whose ranges differ and leaves those of one unit, as
        pixels and embeddings, "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or "none"
        (`dssl.data.scaling.scaling`); `scaling_` is what it came to.
    memory_budget : bytes, or text such as "600MB", that a task may take; None is 1 GiB, or what workers allow.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats), None or "" (text).
    random_state : of every random choice, but for those of groups that are given.
    """

    joint, versions = PENALTIES, VERSIONS
    groups: ClassVar[dict[str, type]] = {"landmarks": LandmarkParams, "graph": KNNGraph, "solver": SystemParams}
    tie: ClassVar[PointMeasure] = SQUARED  # what parts equals in a search, one for all that it may compare

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = CHOSEN,
                 gamma_A: Penalty | Sequence[Penalty] = CHOSEN, gamma_I: Penalty | Sequence[Penalty] = CHOSEN,
                 landmarks: float | str | LandmarkParams = "auto", graph: KNNGraph | None = None,
                 solver: str | SystemParams = "auto", cv: Any = 5, fit_intercept: bool = True, scale: str = "auto",
                 memory_budget: int | str | None = None,
                 unlabeled: Any = None, random_state: int = 0):
        self.kernel, self.bandwidth, self.gamma_A, self.gamma_I = kernel, bandwidth, gamma_A, gamma_I
        self.landmarks, self.graph, self.solver = landmarks, graph, solver
        self.cv, self.fit_intercept, self.scale = cv, fit_intercept, scale
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _params(self) -> LapRLSParams:
        if isinstance(self.cv, str) or not (hasattr(self.cv, "split") or np.iterable(self.cv)):
            require_folds(self.cv)
        require(isinstance(self.fit_intercept, (bool, np.bool_)), f"fit_intercept={self.fit_intercept!r}",
                why="it is a choice of two", fix="use True or False")
        given = {name: getattr(self, name) for name in PENALTIES}
        return LapRLSParams(
            **{name: _values_of(name, value) for name, value in given.items()}, landmarks=self.group("landmarks"),
            system=self.group("solver"), fit_intercept=self.fit_intercept, loss=self._loss(),
            budget=budget_of(self.memory_budget),
            chosen=all(np.ndim(value) == 0 for value in given.values()) and (
                CHOSEN in given.values() or len(bandwidths_of(self.kernel, self.bandwidth)) > 1))

    def _loss(self) -> SmoothLoss:
        return SQUARES

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: LapRLSParams,
               execution: Execution) -> None:
        kernels = self._kernels(rows)
        if params.chosen:
            repetitions = [folds_to_choose(target, params.system, self.random_state)]
        else:
            several = params.n_pairs * len(kernels) > 1
            repetitions = held_out_folds(self.cv, target, self.random_state) if several else [[]]
        folds, *further = repetitions
        made = self._graph(rows, graph, execution) if params.uses_graph else None
        if made is not None and len(target.labeled) == len(rows):
            warnings.warn(explain("every point is labeled", why="the graph then joins labeled points only",
                                  fix="mark unlabeled points, or set gamma_I=0"), UserWarning, stacklevel=3)
        problem = LapRLSProblem.of(
            rows, target, params, execution, graph=made, weight=weight, folds=folds,
            vertices=self.group("graph").vertices(rows, execution) if made is None else None)
        rule: ChoiceRule = LOWEST
        if params.chosen:
            rule = ProbablePair.of(problem, execution, [getattr(kernel, "bandwidth", None) for kernel in kernels])
        found, tables, prepared = fit_laprls(problem, kernels, execution, further, self.tie, rule)
        self.model_ = found.models["model"]
        self.bandwidth_ = getattr(self.model_.kernel, "bandwidth", None)
        tried = [row for table in tables for row in table.rows]
        self.cv_results_ = cv_results(tried, [
            {name: row[name] for name in ("bandwidth", *PENALTIES) if name in row} for row in tried], rule)
        chosen = found.chosen["model"]
        self.gamma_A_, self.gamma_I_ = chosen.gamma_A, chosen.gamma_I
        self._calibrate(target, lambda: prepared.left_out(chosen, calibration_folds(
            target, self.random_state, a_fit_each=not prepared.solver.at_once)), weight)
        self.evidence_ = {**(made.attributes if made else {}), **found.evidence, "folds": len(folds),
                          "repetitions": 1 + len(further)}
        if isinstance(rule, ProbablePair):
            self.evidence_["structure"] = rule.structure

    def _kernels(self, rows: Rows) -> list[Any]:
        """Return the base kernel with each bandwidth that is tried."""
        return [kernel_from(self.kernel, own, rows=rows, random_state=self.random_state)
                for own in bandwidths_of(self.kernel, self.bandwidth if isinstance(self.kernel, str) else None)]

    def _calibrate(self, target: Any, held_out: Callable[[], np.ndarray], weight: np.ndarray | None) -> None:
        """Keep what probabilities are made of."""

    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None,
                      repetitions: Sequence[Sequence[np.ndarray]], tried: Sequence[dict[str, Any]],
                      scoring: str | None, execution: Execution, kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """As the base class says: one pass over the points for all pairs of penalties and all folds.

        The row of a penalty or a bandwidth that is "chosen" is that of its best value.
        """
        asked = [{name: values_of(name, values.get(name, getattr(self, name))) for name in PENALTIES}
                 for values in tried]
        lists = {name: list(dict.fromkeys(value for own in asked for value in own[name])) for name in PENALTIES}
        params = clone(self).set_params(**lists)._params()
        rule, tables = ChoiceRule(scoring=scoring), []
        for kernel in self._kernels(rows):
            prepared = self._prepared(rows, target, weight, repetitions[0], params, kernel, execution, kept)
            table = search_penalties(prepared, execution, rule, repetitions[1:], tie=self.tie)
            found = dict(zip(prepared.problem.tried, table.rows, strict=True))
            tables.append({pair: found[system] for pair, system in zip(
                product(*lists.values()), prepared.problem.allowed["model"], strict=True)})
        return [dict(rule.choose([table[pair] for table in tables for pair in product(*own.values())]))
                for own in asked]

    def _prepared(self, rows: Rows, target: Target, weight: np.ndarray | None, folds: Sequence[np.ndarray],
                  params: LapRLSParams, kernel: Kernel, execution: Execution, kept: dict[Any, Any]) -> PreparedLapRLS:
        """Return the systems of a kernel: those that an earlier search left, or new ones."""
        known = replace(params, gamma_A=(1.0,), gamma_I=(1.0,)), kernel
        prepared = next((own for of, own in kept.get("prepared", ()) if of == known), None)
        if prepared is not None:
            return prepared.narrowed(params).refolded(folds, execution)
        made = kept.get("graph")
        if made is None and "vertices" not in kept:
            kept["vertices"] = self.group("graph").vertices(rows, execution)
        prepared = LapRLSProblem.of(
            rows, target, params, execution, graph=made, weight=weight, folds=folds,
            vertices=kept.get("vertices")).prepared(kernel, execution, held_out=True)
        if kept.get("again", False):
            kept.setdefault("prepared", []).append((known, prepared))
        return prepared

    def uses_graph(self, tried: Iterable[dict[str, Any]]) -> bool:
        return any(values.get("gamma_I", self.gamma_I) != 0 for values in tried)


class LapRLSClassifier(CalibratedClassifier, LapRLSEstimator):
    """Laplacian regularized least squares on landmarks, one against the rest; any number of classes.

    `fit(X, y)` takes all points, with y = -1 (integers), NaN (floats), None or "" (text) where there is no label; X may
    be anything that `dssl.data.inputs` reads. It runs on the active Dask client if there is one, in threads of this
    process otherwise, with the same result. A point of weight 2 counts as two equal points do.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,). model_ : KernelModel, what prediction needs and no more.
    transduction_ : ndarray, shape (n,), the labels predicted for the points of the fit.
    gamma_A_, gamma_I_ : the penalties of the model, numbers; bandwidth_ : that of its kernel, None of one without.
    cv_results_ : dict of arrays as in scikit-learn, an entry a pair of penalties and a bandwidth, empty where one of
    each is given: see `dssl.selection.choice.cv_results`.
    evidence_ : dict, what graph, landmarks and solver say of themselves. n_features_in_, feature_names_in_ : as in
    scikit-learn.

    References
    ----------
    Li, Liu, Yin, Wang, "Approximate manifold regularization: scalable algorithm and generalization analysis",
    IJCAI 2019.
    """

    __doc__ += (LapRLSEstimator.__doc__ or "").rstrip() + "\n" + CLASS_FREQUENCIES
    regressor = "LapRLSRegressor"

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = CHOSEN,
                 gamma_A: Penalty | Sequence[Penalty] = CHOSEN, gamma_I: Penalty | Sequence[Penalty] = CHOSEN,
                 landmarks: float | str | LandmarkParams = "auto", class_prior: Any = None, class_weight: Any = None,
                 graph: KNNGraph | None = None, solver: str | SystemParams = "auto", cv: Any = 5,
                 fit_intercept: bool = True, scale: str = "auto", memory_budget: int | str | None = None,
                 unlabeled: Any = None, random_state: int = 0):
        super().__init__(kernel, bandwidth=bandwidth, gamma_A=gamma_A, gamma_I=gamma_I, landmarks=landmarks,
                         graph=graph, solver=solver, cv=cv, fit_intercept=fit_intercept, scale=scale,
                         memory_budget=memory_budget, unlabeled=unlabeled, random_state=random_state)
        self.class_prior, self.class_weight = class_prior, class_weight


class LapRLSRegressor(PointRegressor, LapRLSEstimator):
    """Laplacian regularized least squares on landmarks; one or several targets, NaN where unknown.

    `fit(X, y)` takes y (n,) or (n, c); a row with a NaN is unlabeled. Points, weights and graph as in `LapSVC`.

    Attributes
    ----------
    model_ : KernelModel. transduction_ : ndarray, shape (n,) or (n, c), what is predicted for the points of the fit.
    gamma_A_, gamma_I_, bandwidth_, cv_results_, evidence_ : as in `LapRLSClassifier`.
    """

    __doc__ += LapRLSEstimator.__doc__ or ""


def _values_of(name: str, value: Any) -> tuple[Penalty, ...]:
    require(np.ndim(value) <= 1, f"a penalty has {np.ndim(value)} dimensions",
            why="a grid is a list of values, all pairs of which are tried", fix="pass a number, or a list of numbers")
    return values_of(name, value) if np.ndim(value) == 0 else tuple(value)
