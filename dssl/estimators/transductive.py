"""`TransductiveSVC`: support vector machine whose boundary avoids the unlabeled points, without a graph."""

import warnings
from typing import ClassVar

import numpy as np

from ..base.digest import BANDWIDTH, JsonObject
from ..base.errors import explain, require
from ..base.units import budget_of
from ..data.scaling.scaling import ScalingKind
from ..execution.tasks import Execution
from ..kernels.base import Kernel
from ..kernels.landmarks import LandmarkParams
from ..learners.class_prior import ClassWeight
from ..learners.linear.kernel_model import KernelModel
from ..learners.target.target import Target
from ..methods.step import Context
from ..methods.transductive.method import TRANSDUCTIVE, TransductiveModel
from ..methods.transductive.steps import TransductiveKernelParams
from ..storage.blocks import Rows
from .arguments import GraphLike, PriorLike, SizesLike, WeightLike, base_kernels
from .classifier import ClassifierCalibratedOnRequest
from .method import SearchedEstimator
from .targets import prior_of


class TransductiveSVC(ClassifierCalibratedOnRequest, SearchedEstimator):
    """Transductive support vector machine by deterministic annealing.

    The labels of unlabeled points are variables of the optimization: the boundary has a
    wide margin to labeled and unlabeled points, with a given share of the unlabeled
    points in each class. It suits classes with a gap between them and a few labels of
    each; without a gap it can be worse than the supervised baseline. There may be any
    number of classes, each against the rest.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result. There
    is no graph: one that is given is an error. With all points labeled it is the
    supervised support vector machine with the squared hinge loss, with a warning.

    Parameters
    ----------
    kernel : str or callable
        The base kernel: "rbf", "laplacian", "linear", "polynomial", "cosine", or a
        function that returns the block of its values between the rows X and Z.
    bandwidth : float or str
        The bandwidth of the base kernel: a number in units of the features,
        "median", the median distance of two points, or a multiple of it such as
        "0.5*median".
    C : float
        The penalty of the loss, for a kernel of unit mean diagonal.
    unlabeled_weight : float
        The weight of the losses of all unlabeled points together, against those of
        the labeled ones; 0 leaves them out.
    landmarks : int, float, str or LandmarkParams
        The points over which functions are sums: their number, their share of the
        points, "sqrt", "auto" (1,000, or all points where there are fewer, or as
        many as the memory budget allows), or `LandmarkParams`. The features of all
        points on them are held in memory.
    class_sizes : list, dict, "balanced" or None
        The known sizes of the classes, counts or shares of all points, in the order
        of `classes_` or by class in a dict; for intervals of shares (low, high), the
        point at the same fraction of each is taken. None takes the shares of the
        labels for those of the unlabeled points.
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in a
        dict. Only the ratios matter.
    probability : bool
        Whether `fit` calibrates `predict_proba`, by up to five fits to part of the
        labels.
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
        The seed of every random choice.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The classes, in ascending order.
    model_ : KernelModel
        What predicts points, and no more than that needs.
    transduction_ : ndarray, shape (n,)
        The labels predicted for the points of the fit.
    evidence_ : dict
        The landmarks; and of each column, one for two classes, the Newton `steps`,
        the `objective` with each unlabeled point of its likelier sign, the `share`
        of +1 among the unlabeled points that was to be reached, and that of
        positive values (`achieved_share`).
    calibration_ : Calibration or None
        What makes scores probabilities, with `probability=True`.
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
    Sindhwani, Keerthi, Chapelle, "Deterministic annealing for semi-supervised kernel
    machines", ICML 2006; Joachims, "Transductive inference for text classification
    using support vector machines", ICML 1999.

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import TransductiveSVC
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = TransductiveSVC().fit(X, y)
    >>> model.score(X, classes)
    0.995
    """

    method, vectorized = TRANSDUCTIVE, ("C", "unlabeled_weight")
    groups: ClassVar[dict[str, type]] = {"landmarks": LandmarkParams}
    regressor = "LapRLSRegressor"
    model_: KernelModel

    def __init__(self, kernel: str | Kernel = "rbf", *, bandwidth: float | str = BANDWIDTH,
                 C: float = TransductiveModel.C, unlabeled_weight: float = TransductiveModel.unlabeled_weight,
                 landmarks: float | str | LandmarkParams = "auto", class_sizes: SizesLike = None,
                 class_prior: PriorLike = None, class_weight: WeightLike = None,
                 probability: bool = False, scale: ScalingKind = "auto", memory_budget: int | str | None = None,
                 unlabeled: object = None, random_state: int = 0):
        self.kernel, self.bandwidth, self.C, self.unlabeled_weight = kernel, bandwidth, C, unlabeled_weight
        self.landmarks, self.class_sizes, self.probability = landmarks, class_sizes, probability
        self.class_prior, self.class_weight = class_prior, class_weight
        self.scale, self.memory_budget = scale, memory_budget
        self.unlabeled, self.random_state = unlabeled, random_state

    def _params(self) -> TransductiveKernelParams:
        model = self.section(TransductiveModel)
        return TransductiveKernelParams(
            kernels=base_kernels(self),
            penalties=(model.penalties,), landmarks=model.landmarks, budget=budget_of(self.memory_budget),
            probability=self.probability, prior=prior_of(self.class_prior, self.class_sizes),
            weight=ClassWeight.of(self.class_weight), random_state=self.random_state)

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: GraphLike | None,
               params: TransductiveKernelParams, execution: Execution) -> None:
        require(graph is None, "a graph is given", why="TransductiveSVC uses the margins of unlabeled points, no graph",
                fix="leave it out, or fit LapSVM, which penalizes by the graph")
        if len(target.labeled) == len(rows):
            warnings.warn(explain("every point is labeled", why="the model is then supervised",
                                  fix="mark unlabeled points"), UserWarning, stacklevel=3)
        self._run(rows, target, weight, None, params, execution)

    def _evidence(self, context: Context, params: TransductiveKernelParams) -> JsonObject:
        evidence: JsonObject = context.attributes("models")["evidence"]
        return {**context.attributes("landmarks"), **evidence}
