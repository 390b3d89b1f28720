"""`LapSVM`: support vector machine with the graph as a penalty, for up to millions of points."""

from collections.abc import Sequence

from ..base.digest import BANDWIDTH
from ..data.scaling.scaling import ScalingKind
from ..graph.knn_graph import KNNGraph
from ..kernels.base import Kernel
from ..kernels.landmarks import LandmarkParams
from ..learners.laprls.params import SystemParams
from ..learners.laprls.penalties import Penalty
from ..learners.losses import SmoothLoss, smooth_loss
from ..methods.laprls.method import LAPSVM
from .arguments import Folds, PriorLike, WeightLike
from .classifier import CalibratedClassifier
from .laprls import LapRLSEstimator


class LapSVM(CalibratedClassifier, LapRLSEstimator):
    """Laplacian support vector machine on landmarks, one class against the rest.

    It shares everything with `LapRLSClassifier` but the loss and the intercept, which
    here is the one of least loss, without a penalty. There may be any number of
    classes, and up to millions of points.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result.

    Parameters
    ----------
    kernel : str or callable
        The base kernel: "rbf", "laplacian", "linear", "polynomial", "cosine", or a
        function that returns the block of its values between the rows X and Z.
    bandwidth : float or str
        The bandwidth of the base kernel: a number in units of the features,
        "median", the median distance of two points, or a multiple of it such as
        "0.5*median".
    loss : str or SmoothLoss
        The loss of the labels: "squared"; "squared_hinge"; "huber_hinge", the hinge with its
        corner rounded over 0.01 to either side; "logistic"; or a
        `dssl.learners.losses.SmoothLoss`, such as `HuberHinge(h=0.5)`.
    gamma_A : float, str or sequence
        The weight of the norm, > 0, against the mean loss of the labels: a number,
        "auto", or a multiple such as "10*auto". A sequence of values is a grid, of
        which cross-validation takes the pair of lowest error; `cv_results_` has all
        pairs.
    gamma_I : float, str or sequence
        The weight of the graph's energy, >= 0, given as `gamma_A` is; 0 leaves the
        graph out.
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
        tell of themselves, the Newton steps of each pair of penalties among it.
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
    Belkin, Niyogi, Sindhwani, "Manifold regularization", JMLR 2006, section 4.3;
    Melacci and Belkin, "Laplacian support vector machines trained in the primal", JMLR
    2011.

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import LapSVM
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = LapSVM().fit(X, y)
    >>> model.score(X, classes)
    1.0
    """

    regressor = "LapRLSRegressor"
    fit_intercept = True
    method, tie = LAPSVM, "loss"

    def __init__(self, kernel: str | Kernel = "rbf", *, bandwidth: float | str = BANDWIDTH,
                 loss: str | SmoothLoss = "squared_hinge", gamma_A: Penalty | Sequence[Penalty] = "auto",
                 gamma_I: Penalty | Sequence[Penalty] = "auto", landmarks: float | str | LandmarkParams = "auto",
                 class_prior: PriorLike = None, class_weight: WeightLike = None,
                 graph: KNNGraph | int | None = None, solver: str | SystemParams = "auto", cv: Folds = 5,
                 scale: ScalingKind = "auto", memory_budget: int | str | None = None, unlabeled: object = None,
                 random_state: int = 0):
        super().__init__(kernel, bandwidth=bandwidth, gamma_A=gamma_A, gamma_I=gamma_I, landmarks=landmarks,
                         graph=graph, solver=solver, cv=cv, scale=scale,
                         memory_budget=memory_budget, unlabeled=unlabeled, random_state=random_state)
        self.loss = loss
        self.class_prior, self.class_weight = class_prior, class_weight

    def _loss(self) -> SmoothLoss:
        return self.loss if isinstance(self.loss, SmoothLoss) else smooth_loss(self.loss)
