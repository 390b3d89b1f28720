"""`TransductiveSVC`: support vector machine whose boundary avoids the unlabeled points, without a graph."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..base.digest import BANDWIDTH
from ..base.errors import explain, require
from ..execution.size import budget_of
from ..execution.tasks import Execution
from ..kernels.base import BaseKernels
from ..kernels.landmarks import LandmarkParams
from ..learners.linear.kernel_model import KernelModel
from ..learners.measures import HINGE
from ..learners.target.target import Target
from ..methods.memory import MemoryWorkspace
from ..methods.step import Context, Fit
from ..methods.transductive import TRANSDUCTIVE, MachineParams, TransductiveModel, fit_machine
from ..selection.held_out_scores import HeldOut, held_out_scores
from ..storage.blocks import Rows
from .base import KernelReader, SearchedEstimator
from .calibrated import ClassifierCalibratedOnRequest
from .method import MethodEstimator
from .targets import prior_of


class TransductiveSVC(ClassifierCalibratedOnRequest, MethodEstimator, SearchedEstimator, KernelReader):
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

    method = TRANSDUCTIVE
    groups: ClassVar[dict[str, type]] = {"landmarks": LandmarkParams}
    regressor = "LapRLSRegressor"
    model_: KernelModel

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = BANDWIDTH, C: float = TransductiveModel.C,
                 unlabeled_weight: float = TransductiveModel.unlabeled_weight,
                 landmarks: float | str | LandmarkParams = "auto",
                 class_sizes: Any = None, class_prior: Any = None, class_weight: Any = None,
                 probability: bool = False, scale: str = "auto", memory_budget: int | str | None = None,
                 unlabeled: Any = None, random_state: int = 0):
        self.kernel, self.bandwidth, self.C, self.unlabeled_weight = kernel, bandwidth, C, unlabeled_weight
        self.landmarks, self.class_sizes, self.probability = landmarks, class_sizes, probability
        self.class_prior, self.class_weight = class_prior, class_weight
        self.scale, self.memory_budget = scale, memory_budget
        self.unlabeled, self.random_state = unlabeled, random_state

    def _params(self) -> MachineParams:
        model = self.section(TransductiveModel)
        bandwidth = self.bandwidth if isinstance(self.kernel, str) else None
        return MachineParams(
            kernels=BaseKernels(self.kernel, {}, (bandwidth,), self.random_state), machine=model.machine,
            landmarks=model.landmarks, budget=budget_of(self.memory_budget), probability=self.probability,
            prior=prior_of(self.class_prior, self.class_sizes), random_state=self.random_state)

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: MachineParams,
               execution: Execution) -> None:
        require(graph is None, "a graph is given", why="this machine has none: unlabeled points count by their margin",
                fix="leave it out, or fit LapSVM, whose penalty is the graph's")
        if len(target.labeled) == len(rows):
            warnings.warn(explain("every point is labeled", why="the machine is then that of the labels alone",
                                  fix="mark unlabeled points"), UserWarning, stacklevel=3)
        self._run(rows, target, weight, None, params, execution)

    def _told(self, context: Context, params: MachineParams) -> dict[str, Any]:
        evidence: dict[str, Any] = context.attributes("models")["evidence"]
        return {**context.attributes("landmarks"), **evidence}

    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None,
                      repetitions: Sequence[Sequence[np.ndarray]], tried: Sequence[dict[str, Any]],
                      scoring: str | None, execution: Execution, kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """As the base class says: a fit with columns for all folds of a repetition."""
        params = replace(self._params(), probability=False, baselines=())
        made = MemoryWorkspace(Fit(rows, target, weight), execution)
        made.run(self.method.steps[:1], params)
        context, (kernel,) = made.context(), params.kernels.on(rows)
        held = [HeldOut(target, target.coding, fit_machine(context, params, params.machine, folds, kernel).values,
                        folds, weight) for folds in repetitions]
        row = {"C": self.C, **held_out_scores(held, HINGE, scoring)}
        return [row for _ in tried]

    def uses_graph(self, tried: Iterable[dict[str, Any]]) -> bool:
        return False
