"""`LapSVM`: support vector machine with the graph as a penalty, for up to millions of points."""

from collections.abc import Sequence
from typing import Any

from ..base.digest import BANDWIDTH
from ..graph.graph import KNNGraph
from ..kernels.landmarks import LandmarkParams
from ..learners.laprls.params import SystemParams
from ..learners.laprls.penalties import Penalty
from ..learners.losses import SmoothLoss, loss_of
from ..methods.laprls.method import LAPSVM
from .calibrated import CalibratedClassifier
from .laprls import LapRLSEstimator


class LapSVM(CalibratedClassifier, LapRLSEstimator):
    """Laplacian support vector machine on landmarks, one against the rest; any number of classes.

    `fit(X, y)` as in `LapRLSClassifier`, with which it shares everything but the loss, and the intercept: here it is
    the one of least loss, without a penalty.

    Parameters
    ----------
    loss : "squared_hinge", "huber_hinge" (the hinge with its corner rounded over 0.01 to either side), "logistic", or
        a `dssl.learners.losses.SmoothLoss`, such as `HuberHinge(h=0.5)`.
    gamma_A, gamma_I, landmarks, class_prior, class_weight, graph, solver, cv, kernel, bandwidth, scale, memory_budget,
        unlabeled, random_state : as in `LapRLSClassifier`, but that none is "chosen"; penalties weigh against the mean
        loss of the labels.

    Attributes
    ----------
    classes_, model_, transduction_, gamma_A_, gamma_I_, bandwidth_, cv_results_, evidence_ : as in `LapRLSClassifier`;
        the evidence has the Newton steps of each pair of penalties as well.

    References
    ----------
    Belkin, Niyogi, Sindhwani, "Manifold regularization", JMLR 2006, section 4.3; Melacci and Belkin, "Laplacian support
    vector machines trained in the primal", JMLR 2011.
    """

    regressor = "LapRLSRegressor"
    fit_intercept = True
    method, tie = LAPSVM, "loss"

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = BANDWIDTH,
                 loss: str | SmoothLoss = "squared_hinge", gamma_A: Penalty | Sequence[Penalty] = "auto",
                 gamma_I: Penalty | Sequence[Penalty] = "auto", landmarks: float | str | LandmarkParams = "auto",
                 class_prior: Any = None, class_weight: Any = None, graph: KNNGraph | None = None,
                 solver: str | SystemParams = "auto", cv: Any = 5, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        super().__init__(kernel, bandwidth=bandwidth, gamma_A=gamma_A, gamma_I=gamma_I, landmarks=landmarks,
                         graph=graph, solver=solver, cv=cv, scale=scale,
                         memory_budget=memory_budget, unlabeled=unlabeled, random_state=random_state)
        self.loss = loss
        self.class_prior, self.class_weight = class_prior, class_weight

    def _loss(self) -> SmoothLoss:
        return self.loss if isinstance(self.loss, SmoothLoss) else loss_of(self.loss)
