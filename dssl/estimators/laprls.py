"""`LapRLSClassifier`: Laplacian regularized least squares on landmarks; and what it shares with `LapRLSRegressor`."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import explain, require
from ..base.units import budget_of
from ..data.scaling.scaling import ScalingKind
from ..execution.tasks import Execution
from ..graph.knn_graph import KNNGraph
from ..graph.weights.rules import KERNEL_WIDTH
from ..kernels.base import BaseKernels, Kernel
from ..kernels.landmarks import LandmarkParams
from ..learners.class_prior import ClassWeight
from ..learners.laprls.params import SystemParams
from ..learners.laprls.penalties import CHOSEN, PENALTIES, Penalty, bandwidth_candidates, penalty_candidates
from ..learners.laprls.problem import LapRLSParams
from ..learners.linear.kernel_model import KernelModel
from ..learners.losses import SQUARES, SmoothLoss
from ..learners.target.target import Target
from ..methods.laprls.method import LAPRLS
from ..methods.laprls.steps import PenaltyParams
from ..methods.step import Context
from ..selection.candidates import CandidateScores, SelectionRule, cv_results
from ..selection.folds import GivenFolds, held_out_folds, require_folds
from ..selection.laprls import MostProbable
from ..storage.blocks import Rows
from .arguments import Folds, GraphLike, PriorLike, WeightLike
from .classifier import CalibratedClassifier
from .method import SearchedEstimator
from .targets import prior_of


class LapRLSEstimator(SearchedEstimator):
    """What both share; `LapRLSClassifier` describes the parameters."""

    method, vectorized = LAPRLS, PENALTIES
    tie: ClassVar[Literal["rmse", "loss"]] = "rmse"  # by what a search tells classes of equal errors apart
    groups: ClassVar[dict[str, type]] = {"landmarks": LandmarkParams, "graph": KNNGraph, "solver": SystemParams}
    defaults: ClassVar[dict[str, dict[str, float]]] = {"graph": {"width": KERNEL_WIDTH}}

    def __init__(self, kernel: str | Kernel = "rbf", *, bandwidth: float | str = CHOSEN,
                 gamma_A: Penalty | Sequence[Penalty] = CHOSEN, gamma_I: Penalty | Sequence[Penalty] = CHOSEN,
                 landmarks: float | str | LandmarkParams = "auto", graph: KNNGraph | int | None = None,
                 solver: str | SystemParams = "auto", cv: Folds = 5, fit_intercept: bool = True,
                 scale: ScalingKind = "auto", memory_budget: int | str | None = None, unlabeled: object = None,
                 random_state: int = 0):
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
        bandwidths = bandwidth_candidates(self.kernel, self.bandwidth if isinstance(self.kernel, str) else None)
        loss, landmarks, system = self._loss(), self.group("landmarks"), self.group("solver")
        laprls = LapRLSParams(
            **{name: _values_of(name, value) for name, value in given.items()}, landmarks=landmarks, system=system,
            fit_intercept=self.fit_intercept, loss=loss, budget=budget_of(self.memory_budget),
            chosen=all(np.ndim(value) == 0 for value in given.values()) and (
                CHOSEN in given.values() or len(bandwidths) > 1))
        return PenaltyParams(laprls=laprls, losses=(loss,), tie=self.tie, random_state=self.random_state,
                             kernels=BaseKernels(self.kernel, {}, bandwidths, self.random_state),
                             prior=prior_of(getattr(self, "class_prior", None), None),
                             weight=ClassWeight.of(getattr(self, "class_weight", None)))

    def _loss(self) -> SmoothLoss:
        return SQUARES

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: GraphLike | None,
               params: PenaltyParams, execution: Execution) -> None:
        if not params.laprls.chosen and params.laprls.n_pairs * len(params.numbers) > 1:
            params = replace(params, cv=GivenFolds(held_out_folds(self.cv, target, self.random_state)))
        made = self._graph(rows, graph, execution) if params.laprls.uses_graph else None
        if made is not None and len(target.labeled) == len(rows):
            warnings.warn(explain("every point is labeled", why="the graph then joins labeled points only",
                                  fix="mark unlabeled points, or set gamma_I=0"), UserWarning, stacklevel=3)
        vertices = self.group("graph").vertices(rows, execution) if made is None else None
        self._run(rows, target, weight, made, params, execution, vertices)

    def _evidence(self, context: Context, params: PenaltyParams) -> JsonObject:
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
                **({"spectral_concentration": selection["rule"]["spectral_concentration"]}
                   if params.laprls.chosen else {})}


class LapRLSClassifier(CalibratedClassifier, LapRLSEstimator):
    """Laplacian regularized least squares on landmarks, one class against the rest.

    There may be any number of classes, and up to millions of points.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result. A point
    of weight 2 counts as two equal points do.

    Parameters
    ----------
    kernel : str or callable
        The base kernel: "rbf", "laplacian", "linear", "polynomial", "cosine", or a
        function that returns the block of its values between the rows X and Z.
    bandwidth : float or str
        The bandwidth of the base kernel: a number in units of the features,
        "median", the median distance of two points, or a multiple of it such as
        "0.5*median". "chosen" takes "0.5*median" or "2*median" by what chooses the
        penalties, and "0.5*median" where labels cannot tell; a kernel without a
        bandwidth has none. The systems of the one that leads are held while those
        of the other are made.
    gamma_A : float, str or sequence
        The weight of the norm, > 0, against the mean squared residual of the
        labels: a number, "auto", a multiple such as "10*auto", or "chosen".
        "chosen" takes one of a few values, by the leave-one-out residuals of the
        labels and by the spectral concentration of the graph, which decides where
        labels are few. A sequence of values is a grid, of which cross-validation
        takes the pair of lowest error, with all values that "chosen" has of the
        other penalty and of the bandwidth; `cv_results_` has all pairs.
    gamma_I : float, str or sequence
        The weight of the graph's energy, >= 0, given as `gamma_A` is; 0 is
        regularized least squares without a graph, which is among the values of
        "chosen".
    landmarks : int, float, str or LandmarkParams
        The number of landmarks: a whole number, their share of the distinct points,
        or "sqrt", the rule of the paper, which is ceil(m^1/2) labeled points and
        ceil((n - m)^1/2) others where m of n points are labeled. "auto" is 1,000,
        or as many as "sqrt" if these are more, with the labeled points among them,
        up to half. `LandmarkParams` says which as well: uniform, centers of
        k-means, or by leverage.
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in a
        dict. Only the ratios matter.
    graph : KNNGraph, int or None
        How the graph is made from the points; an int is its `n_neighbors`, and None
        takes the defaults. A graph that is already made is passed to `fit`.
    solver : str or SystemParams
        How the systems are solved: "auto", "nystrom-direct" (Gram matrices),
        "nystrom-pcg" or "nystrom-cg"; or "direct", "pcg" or "cg", on all points
        instead of landmarks. `SystemParams` says more: the Laplacian, the
        preconditioner, whitening, precision and tolerance.
    cv : int, "leave_one_out", splitter or list
        The folds by which a grid is compared: a number of folds of the labels
        (fewer where there are fewer labels, see `evidence_`), "leave_one_out", a
        splitter of scikit-learn, repeated or not, which is given the labeled
        points; or a list of what it yields, `list(splitter.split(X_l, y_l,
        groups))` of the labeled points.
    fit_intercept : bool
        Whether targets are centered at the mean of the labels.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` holds the fitted scaling.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1
        GiB, or what the workers allow.
    unlabeled : object
        The marker of points without a label, where it is not -1 (integers), NaN
        (floats), None or "" (text).
    random_state : int
        The seed of every random choice, except those of groups of parameters that
        are given.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The classes, in ascending order.
    model_ : KernelModel
        What predicts points, and no more than that needs.
    transduction_ : ndarray, shape (n,)
        The labels predicted for the points of the fit.
    gamma_A_ : float
        The chosen weight of the norm, as a number.
    gamma_I_ : float
        The chosen weight of the graph's energy, as a number.
    bandwidth_ : float or None
        The bandwidth of the kernel, as a number; None of a kernel without one.
    cv_results_ : dict
        The candidates of a grid or of what was chosen, as scikit-learn has them;
        empty where there is one.
    evidence_ : dict
        What the graph, the landmarks, the systems and the choice of the penalties
        tell of themselves.
    calibration_ : Calibration
        What makes scores probabilities.
    by_labels_ : dict
        The errors of the model and of its supervised baseline on held-out labels.
        It is computed when it is first asked for.
    scaling_ : Scaling
        How the features are scaled.
    n_features_in_ : int
        The number of features of the fit.
    feature_names_in_ : ndarray, shape (d,)
        The names of the features, where the columns of X have names.

    Raises
    ------
    DataError
        When `fit` is called: y has no label, or labels of one class, or is in {-1, +1}.
        Since -1 marks unlabeled points, name another marker then, such as
        `unlabeled=0`.
    ParameterError
        When `fit` is called: a parameter is out of range.

    References
    ----------
    Belkin, Niyogi, Sindhwani, "Manifold regularization", JMLR 2006; Li, Liu, Yin, Wang,
    "Approximate manifold regularization: scalable algorithm and generalization
    analysis", IJCAI 2019.

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import LapRLSClassifier
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = LapRLSClassifier().fit(X, y)
    >>> model.score(X, classes)
    1.0
    """

    regressor = "LapRLSRegressor"

    def __init__(self, kernel: str | Kernel = "rbf", *, bandwidth: float | str = CHOSEN,
                 gamma_A: Penalty | Sequence[Penalty] = CHOSEN, gamma_I: Penalty | Sequence[Penalty] = CHOSEN,
                 landmarks: float | str | LandmarkParams = "auto", class_prior: PriorLike = None,
                 class_weight: WeightLike = None, graph: KNNGraph | int | None = None,
                 solver: str | SystemParams = "auto", cv: Folds = 5, fit_intercept: bool = True,
                 scale: ScalingKind = "auto", memory_budget: int | str | None = None, unlabeled: object = None,
                 random_state: int = 0):
        super().__init__(kernel, bandwidth=bandwidth, gamma_A=gamma_A, gamma_I=gamma_I, landmarks=landmarks,
                         graph=graph, solver=solver, cv=cv, fit_intercept=fit_intercept, scale=scale,
                         memory_budget=memory_budget, unlabeled=unlabeled, random_state=random_state)
        self.class_prior, self.class_weight = class_prior, class_weight


def _results(selection: JsonObject, params: PenaltyParams) -> dict[str, Any]:
    """Return `cv_results_` of a selection, with bandwidths as numbers where there are several."""
    tried = [CandidateScores.from_json(row) for row in selection.get("grid", {}).get("model", [])]
    if not tried:
        return {}
    numbers = dict(zip(params.kernels.bandwidths, selection["bandwidths"], strict=True))
    rule: SelectionRule = params.rule
    if params.laprls.chosen:
        chosen = MostProbable(**selection["rule"])
        rule = replace(chosen, of_bandwidths=tuple((numbers[name], prior) for name, prior in chosen.of_bandwidths))
    varied = {"bandwidth"} if len(numbers) > 1 else set[str]()
    parameters = [{name: numbers[value] if name == "bandwidth" else value for name, value in each.parameters.items()
                   if name in (*varied, *PENALTIES)} for each in tried]
    candidates = [replace(each, parameters=values) for each, values in zip(tried, parameters, strict=True)]
    return cv_results(candidates, [{name: values[name] for name in (*varied, *PENALTIES)} for values in parameters],
                      rule)


def _values_of(name: str, value: Any) -> tuple[Penalty, ...]:
    require(np.ndim(value) <= 1, f"a penalty has {np.ndim(value)} dimensions",
            why="a grid is a list of values, all pairs of which are tried", fix="pass a number, or a list of numbers")
    return penalty_candidates(name, value) if np.ndim(value) == 0 else tuple(value)
