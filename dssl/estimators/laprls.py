"""`LapRLSClassifier` and `LapRLSRegressor`: Laplacian regularized least squares for up to millions of points."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import clone

from ..base.errors import explain, require
from ..execution.size import budget_of
from ..execution.tasks import Execution
from ..graph.graph import KNNGraph
from ..graph.weights.rules import KERNEL_WIDTH
from ..kernels.base import BaseKernels
from ..kernels.landmarks import LandmarkParams
from ..learners.laprls.params import SystemParams
from ..learners.laprls.penalties import CHOSEN, PENALTIES, Penalty, bandwidths_of, values_of
from ..learners.laprls.problem import LapRLSParams
from ..learners.linear.kernel_model import KernelModel
from ..learners.losses import SQUARES, SmoothLoss
from ..learners.target.target import Target
from ..methods.laprls.method import LAPRLS
from ..methods.laprls.steps import PenaltyParams
from ..methods.memory import MemoryWorkspace
from ..methods.step import Context, Fit
from ..selection.choice import ChoiceRule, cv_results
from ..selection.chosen import ProbablePair
from ..selection.folds import GivenFolds, held_out_folds, require_folds
from ..storage.blocks import Rows
from .base import KernelReader, PointRegressor, SearchedEstimator
from .calibrated import CLASS_FREQUENCIES, CalibratedClassifier
from .method import MethodEstimator
from .targets import prior_of


class LapRLSEstimator(MethodEstimator, SearchedEstimator, KernelReader):
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
        (`dssl.learners.laprls.penalties`). A sequence of values of either is a grid, of which cross-validation takes
        the pair of lowest error, with all values that "chosen" has of the other and of the bandwidth. `cv_results_` has
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

    method, joint = LAPRLS, PENALTIES
    tie: ClassVar[Literal["rmse", "loss"]] = "rmse"  # by what a search tells classes of equal errors apart
    groups: ClassVar[dict[str, type]] = {"landmarks": LandmarkParams, "graph": KNNGraph, "solver": SystemParams}
    defaults: ClassVar[dict[str, dict[str, Any]]] = {"graph": {"width": KERNEL_WIDTH}}

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

    def _params(self) -> PenaltyParams:
        if isinstance(self.cv, str) or not (hasattr(self.cv, "split") or np.iterable(self.cv)):
            require_folds(self.cv)
        require(isinstance(self.fit_intercept, (bool, np.bool_)), f"fit_intercept={self.fit_intercept!r}",
                why="it is a choice of two", fix="use True or False")
        given = {name: getattr(self, name) for name in PENALTIES}
        bandwidths = bandwidths_of(self.kernel, self.bandwidth if isinstance(self.kernel, str) else None)
        loss, landmarks, system = self._loss(), self.group("landmarks"), self.group("solver")
        laprls = LapRLSParams(
            **{name: _values_of(name, value) for name, value in given.items()}, landmarks=landmarks, system=system,
            fit_intercept=self.fit_intercept, loss=loss, budget=budget_of(self.memory_budget),
            chosen=all(np.ndim(value) == 0 for value in given.values()) and (
                CHOSEN in given.values() or len(bandwidths) > 1))
        return PenaltyParams(laprls=laprls, losses=(loss,), tie=self.tie, random_state=self.random_state,
                             kernels=BaseKernels(self.kernel, {}, bandwidths, self.random_state),
                             prior=prior_of(getattr(self, "class_prior", None), None))

    def _loss(self) -> SmoothLoss:
        return SQUARES

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: PenaltyParams,
               execution: Execution) -> None:
        if not params.laprls.chosen and params.laprls.n_pairs * len(params.numbers) > 1:
            params = replace(params, cv=GivenFolds(held_out_folds(self.cv, target, self.random_state)))
        made = self._graph(rows, graph, execution) if params.laprls.uses_graph else None
        if made is not None and len(target.labeled) == len(rows):
            warnings.warn(explain("every point is labeled", why="the graph then joins labeled points only",
                                  fix="mark unlabeled points, or set gamma_I=0"), UserWarning, stacklevel=3)
        vertices = self.group("graph").vertices(rows, execution) if made is None else None
        self._run(rows, target, weight, made, params, execution, vertices)

    def _told(self, context: Context, params: PenaltyParams) -> dict[str, Any]:
        selection, models = context.attributes("selection"), context.attributes("models")
        assert isinstance(self.model_, KernelModel)
        self.bandwidth_ = getattr(self.model_.kernel, "bandwidth", None)
        chosen = models["models"]["model"]["parameters"]
        self.gamma_A_, self.gamma_I_ = chosen["gamma_A"], chosen["gamma_I"]
        self.cv_results_ = _results(selection, params)
        evidence, = models["evidence"]
        solved = {name: value for name, value in evidence.items() if name not in ("bandwidth", "models")}
        return {**(context.graph().attributes if context.has_graph else {}), **solved, "folds": selection["folds"],
                "repetitions": selection.get("repetitions", 1),
                **({"scores": selection["scores"]} if "scores" in selection else {}),
                **({"structure": selection["rule"]["structure"]} if params.laprls.chosen else {})}

    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None,
                      repetitions: Sequence[Sequence[np.ndarray]], tried: Sequence[dict[str, Any]],
                      scoring: str | None, execution: Execution, kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """As the base class says: the step `selection`, a pass over the points for all pairs and folds.

        The row of a penalty or a bandwidth that is "chosen" is that of its best value.
        """
        asked = [{name: values_of(name, values.get(name, getattr(self, name))) for name in PENALTIES}
                 for values in tried]
        lists = {name: list(dict.fromkeys(value for own in asked for value in own[name])) for name in PENALTIES}
        rule = ChoiceRule(scoring=scoring)
        params = replace(clone(self).set_params(**lists)._params(), cv=GivenFolds(repetitions), rule=rule,
                         baselines=())
        landmarks, selection, _ = self.method.steps
        known = replace(params.laprls, gamma_A=(1.0,), gamma_I=(1.0,)), params.kernels
        made = next((own for of, own in kept.get("made", ()) if of == known), None)
        if made is None:
            if "graph" not in kept and "vertices" not in kept:
                kept["vertices"] = self.group("graph").vertices(rows, execution)
            made = MemoryWorkspace(Fit(rows, target, weight, kept.get("graph"), kept.get("vertices")), execution)
            made.run([landmarks], params)
            if kept.get("again", False):
                kept.setdefault("made", []).append((known, made))
        made.run([selection], params)
        found = {(row["bandwidth"], row["gamma_A"], row["gamma_I"]): row
                 for row in made.artifacts["selection"].attributes["grid"]["model"]}
        numbers = dict(zip(product(*lists.values()), params.problem(made.context(), target).allowed["model"],
                           strict=True))

        def row_of(bandwidth: Any, system: Any) -> dict[str, Any]:
            row = found[bandwidth, system.gamma_A, system.gamma_I]
            return {name: value for name, value in row.items() if name != "bandwidth"}

        return [dict(rule.choose([row_of(bandwidth, numbers[pair]) for bandwidth in params.kernels.bandwidths
                                  for pair in product(*own.values())])) for own in asked]

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


def _results(selection: dict[str, Any], params: PenaltyParams) -> dict[str, Any]:
    """Return the rows of a selection as scikit-learn has them, their bandwidths as numbers where there are several."""
    tried: list[dict[str, Any]] = selection.get("grid", {}).get("model", [])
    if not tried:
        return {}
    numbers = dict(zip(params.kernels.bandwidths, selection["bandwidths"], strict=True))
    rule: ChoiceRule = params.rule
    if params.laprls.chosen:
        chosen = ProbablePair(**selection["rule"])
        rule = replace(chosen, of_bandwidths=tuple((numbers[name], prior) for name, prior in chosen.of_bandwidths))
    own = {"bandwidth"} if len(numbers) > 1 else set[str]()
    rows = [{**{name: numbers[row[name]] for name in own}, **{name: value for name, value in row.items()
                                                             if name != "bandwidth"}} for row in tried]
    return cv_results(rows, [{name: row[name] for name in (*own, *PENALTIES)} for row in rows], rule)


def _values_of(name: str, value: Any) -> tuple[Penalty, ...]:
    require(np.ndim(value) <= 1, f"a penalty has {np.ndim(value)} dimensions",
            why="a grid is a list of values, all pairs of which are tried", fix="pass a number, or a list of numbers")
    return values_of(name, value) if np.ndim(value) == 0 else tuple(value)
