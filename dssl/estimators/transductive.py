"""`TransductiveSVC`: support vector machine whose boundary avoids the unlabeled points, without a graph."""

import warnings
from typing import Any, ClassVar

import numpy as np

from ..base.digest import BANDWIDTH
from ..base.errors import explain, require
from ..execution.size import budget_of
from ..execution.tasks import Execution
from ..kernels.landmarks import LandmarkParams, choose_landmarks, landmark_count
from ..learners.class_prior import LABELS, class_shares
from ..learners.linear.kernel_model import KernelModel
from ..learners.linear.transductive import Signs, TransductiveParams, fit_transductive, landmarks_that_fit, require_fit
from ..learners.target.target import Classes
from ..selection.calibration import calibration_folds
from ..storage.blocks import Rows
from .base import KernelReader
from .calibrated import ClassifierCalibratedOnRequest


class TransductiveSVC(ClassifierCalibratedOnRequest, KernelReader):
    """Transductive support vector machine by deterministic annealing, one class against the rest; any number of them.

    The labels of unlabeled points are variables of the machine: it seeks the boundary that separates labeled and
    unlabeled points widely, where each class has its share of the unlabeled ones. It suits classes with a gap between
    them, and a few labels of each; where there is no gap it can be worse than the machine of the labels alone.

    `fit(X, y)` takes all points, with y = -1 (integers), NaN (floats), None or "" (text) where there is no label; X may
    be anything that `dssl.data.inputs` reads. There is no graph: one that is given is an error. With all points labeled
    it is the squared hinge machine of the labels, with a warning.

    Parameters
    ----------
    kernel : "rbf", "laplacian", "linear", "polynomial", "cosine", or a function (X, Z) -> block.
    bandwidth : of the kernel, in units of the features: a number, "median" or a multiple such as "0.5*median".
    C : penalty of the loss, for a kernel of unit mean diagonal.
    unlabeled_weight : of the losses of all unlabeled points together, against those of the labeled ones; 0 leaves them
        out.
    landmarks : points that functions are sums over: a number, a fraction, "sqrt", "auto" (1,000, or all points where
        there are fewer, or as many as the memory budget allows), or `LandmarkParams`. The features of all points on
        them are held in memory.
    class_sizes : known sizes of the classes, counts or shares of all points, in the order of `classes_` or by class in
        a dict. None takes the shares of the labels for those of the unlabeled points.
    scale : of the features, as in `LapSVC`.
    probability : whether `fit` calibrates `predict_proba`, by up to five fits to part of the labels.
    memory_budget : bytes, or text such as "600MB", that a task may take; None is 1 GiB, or what workers allow.
    class_prior : how frequent the classes are among the points that are predicted: None or "labels", as among the
        labels; "equal"; or the share of each class, in the order of `classes_` or by class in a dict.
    class_weight : what labels weigh: None, 1 each; "balanced", the labels of each class the same in all; or a weight by
        class in a dict.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats), None or "" (text).
    random_state : of every random choice.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,). model_ : KernelModel, what prediction needs and no more.
    transduction_ : ndarray, shape (n,), the labels predicted for the points of the fit.
    evidence_ : dict. The landmarks; of each column, one of two classes: Newton `steps`, the `objective` with each
        unlabeled point of its likelier sign, the `share` of +1 among the unlabeled points that was to be reached, and
        that of positive values (`reached_share`).
    calibration_ : Calibration, with `probability=True`. n_features_in_, feature_names_in_ : as in scikit-learn.

    References
    ----------
    Sindhwani, Keerthi, Chapelle, "Deterministic annealing for semi-supervised kernel machines", ICML 2006; Joachims,
    "Transductive inference for text classification using support vector machines", ICML 1999.
    """

    groups: ClassVar[dict[str, type]] = {"landmarks": LandmarkParams}
    regressor = "LapRLSRegressor"
    model_: KernelModel

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = BANDWIDTH, C: float = 1.0,
                 unlabeled_weight: float = 1.0, landmarks: float | str | LandmarkParams = "auto",
                 class_sizes: Any = None, class_prior: Any = None, class_weight: Any = None,
                 probability: bool = False, scale: str = "auto", memory_budget: int | str | None = None,
                 unlabeled: Any = None, random_state: int = 0):
        self.kernel, self.bandwidth, self.C, self.unlabeled_weight = kernel, bandwidth, C, unlabeled_weight
        self.landmarks, self.class_sizes, self.probability = landmarks, class_sizes, probability
        self.class_prior, self.class_weight = class_prior, class_weight
        self.scale, self.memory_budget = scale, memory_budget
        self.unlabeled, self.random_state = unlabeled, random_state

    def _params(self) -> TransductiveParams:
        return TransductiveParams(C=self.C, unlabeled_weight=self.unlabeled_weight)

    def _learn(self, rows: Rows, target: Any, weight: np.ndarray | None, graph: Any, params: TransductiveParams,
               execution: Execution) -> None:
        require(graph is None, "a graph is given", why="this machine has none: unlabeled points count by their margin",
                fix="leave it out, or fit LapSVM, whose penalty is the graph's")
        n, sizes = len(rows), sizes_of(self.class_sizes, target, len(rows))
        if self.class_sizes is None and target.prior != LABELS:  # of the unlabeled points, as it is for None
            hidden = target.prior.shares(target.coded, target.names, weight) * (n - len(target.labeled))
            sizes = hidden + np.bincount(target.coded, minlength=len(target.names))
        if len(target.labeled) == n:
            warnings.warn(explain("every point is labeled", why="the machine is then that of the labels alone",
                                  fix="mark unlabeled points"), UserWarning, stacklevel=3)
        kernel = self._kernel(rows)
        columns = target.columns().shape[1]
        folds = calibration_folds(target, self.random_state, a_fit_each=True) if self.probability else []
        own = self.group("landmarks")
        width = columns * (1 + len(folds))
        most = landmarks_that_fit(n, n, width, budget_of(self.memory_budget), execution.tasks_per_process)
        count = landmark_count(own, len(target.labeled), n, most)
        require_fit(n, count, width, execution)
        landmarks = choose_landmarks(rows, kernel, count, own, execution, preferred=target.labeled)
        weights = np.ones(n)
        weights[target.labeled] = 1.0 if weight is None else weight
        signs = Signs.of(known_signs(target, n, folds), weights, None if sizes is None else np.tile(
            sizes[-columns:], 1 + len(folds)), params)
        found = fit_transductive(rows, kernel, landmarks.points, signs, execution)
        coef, intercept = target.coding.completed(found.coef[:, :columns], found.intercept[:columns])
        self.model_ = KernelModel(kernel, landmarks.points, coef, intercept, target.coding)
        self.evidence_ = {**landmarks.attributes, "n_landmarks": landmarks.points.shape[0], **{
            name: value[:columns] if isinstance(value, list) else value for name, value in found.evidence.items()}}

        def held_out() -> np.ndarray:
            values = np.empty((len(target.labeled), columns))
            for number, fold in enumerate(folds, 1):
                mine = slice(number * columns, (number + 1) * columns)
                values[fold] = found.values[target.labeled[fold], mine]
            return values

        self._calibrate_if_asked(target, held_out, weight)


def sizes_of(class_sizes: Any, target: Classes, n: int) -> np.ndarray | None:
    """Return how many of n points are of each class, (n_classes,), None where it is not told.

    Raises ParameterError: not one number > 0 a class, or fewer points than are labeled, by half a point or more.
    """
    if class_sizes is None:
        return None
    sizes, labeled = class_shares(class_sizes, target.names) * n, np.bincount(target.coded, minlength=len(target.names))
    few = np.flatnonzero(sizes <= labeled - 0.5)
    require(not len(few), f"class_sizes leaves {sizes[few[:1]].round(1).tolist()} of {n} points to class "
            f"{target.names[few[:1]].tolist()}, of which {labeled[few[:1]].tolist()} are labeled",
            why="sizes are those of all points, labeled and unlabeled",
            fix="correct class_sizes, or leave it out to take the shares of the labels")
    return sizes


def known_signs(target: Classes, n: int, folds: list[np.ndarray]) -> np.ndarray:
    """Return the signs (n, t) of the columns of all labels, and of those without each fold; 0 where none is known."""
    columns = target.columns()
    found = np.zeros((n, (1 + len(folds)) * columns.shape[1]))
    found[target.labeled] = np.tile(columns, 1 + len(folds))
    for number, fold in enumerate(folds, 1):
        found[target.labeled[fold], number * columns.shape[1]:(number + 1) * columns.shape[1]] = 0.0
    return found
