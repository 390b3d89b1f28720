"""`ClusterKernelSVC`: a linear model in a cluster kernel, whose rank a memory budget decides."""

from typing import Any, ClassVar

from ..execution.size import budget_of
from ..kernels.base import BaseKernels
from ..kernels.cluster import ClusterBasis
from ..kernels.landmarks import LandmarkParams
from ..kernels.stochastic import StochasticParams
from ..kernels.transfer import TransferParams
from ..methods.cluster import CLUSTER_KERNEL, ClusterKernel, ClusterKernelParams, ClusterModel, basis_in
from ..methods.step import Context
from .calibrated import CalibratedClassifier
from .linear import LinearEstimator
from .targets import prior_of


def base_kernels(estimator: Any) -> BaseKernels:
    """Return the base kernel of an estimator."""
    bandwidth = estimator.bandwidth if isinstance(estimator.kernel, str) else None
    return BaseKernels(estimator.kernel, {}, (bandwidth,), estimator.random_state)


class ClusterKernelSVC(CalibratedClassifier, LinearEstimator):
    """A machine in a cluster kernel of all points, of least squares or another loss; any number of classes.

    The eigenvalues of the normalized affinity of all points, labeled and unlabeled, go through a transfer function, so
    that points of one cluster become alike. No graph is made, and nothing of size n x n: the kernel's virtual samples
    follow from landmarks, as many as the memory budget lets be.

    `fit(X, y)` takes all points, with y = -1 (integers), NaN (floats), None or "" (text) where there is no label; X may
    be anything that `dssl.data.inputs` reads. It runs on the active Dask client if there is one, in threads of this
    process otherwise, with the same result.

    Parameters
    ----------
    kernel, bandwidth : base kernel, nowhere negative, as in `LapSVC`.
    approximation : "nystrom", from landmarks; "exact", of which all points are; "stochastic", eigenpairs by
        proximal steps on random Fourier features (of rbf and laplacian kernels), extended to new points by landmarks,
        or `StochasticParams`, how many steps and more; the rank is what the budget lets be;
        or "subsample", the affinity of the landmarks alone, for comparison: other unlabeled points are not used.
    transfer : what becomes of an eigenvalue: "polynomial", a random walk of 5 steps, "exponential", "linear", "step",
        "poly_step", that of the papers, or `TransferParams`.
    C : penalty of the loss against the norm; the kernel has a unit diagonal.
    loss : "squared", "squared_hinge" or "logistic", each class against the rest; or "hinge", a machine for each pair
        of classes, whose most probable class can be another than the predicted one.
    landmarks : their number, or `LandmarkParams`. "auto" takes as many as the budget lets be, at most 2,000.
    rank : of the kernel from landmarks, with what equals its last eigenvalue within a hundredth; "auto" is k of s
        landmarks with s = k log k, and all where all points are landmarks; None keeps all.
    degrees : "exact", O(n^2 d) time, "landmarks", those of the Nystrom approximation, O(n s); "auto" is exact up to
        100,000 points that are not all landmarks.
    scale : of the features, as in `LapSVC`.
    memory_budget : bytes, or text such as "600MB", that a task may take; None is 1 GiB, or what workers allow;
        landmarks follow from what is given here or 1 GiB, never from workers.
    class_prior : how frequent the classes are among the points that are predicted: None or "labels", as among the
        labels; "equal"; or the share of each class, in the order of `classes_` or by class in a dict.
    class_weight : what labels weigh: None, 1 each; "balanced", the labels of each class the same in all; or a weight by
        class in a dict.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats), None or "" (text).
    random_state : of every random choice, but for those of landmarks that are given whole.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,). model_ : SampleModel, what prediction needs and no more.
    transduction_ : ndarray, shape (n,), the labels predicted for the points of the fit.
    basis_ : ClusterBasis, the leading eigenpairs of the affinity. calibration_ : Calibration, or None.
    evidence_ : dict: `landmarks`, `rank`, `degrees`, the largest and smallest eigenvalue, the `contrast` of the first
        two in the kernel, bytes predicted, seconds.

    References
    ----------
    Chapelle, Weston, Scholkopf, "Cluster kernels for semi-supervised learning", NIPS 2002; Hou, Zhang, Zhou, "Storage
    fit learning with unlabeled data", IJCAI 2017, Algorithm 2, normalized first (`kernels/cluster.py`).
    """

    regressor = "SemiSupervisedRegressor"
    method, without_graph = CLUSTER_KERNEL, "a cluster kernel is one of all pairs of points, without a graph"
    joint = ("transfer__transfer", "transfer__leading", "transfer__exponent", "C")
    groups: ClassVar[dict[str, type]] = {"transfer": TransferParams, "landmarks": LandmarkParams}
    basis_: ClusterBasis

    def __init__(self, kernel: Any = "rbf", *,
                 bandwidth: float | str | None = ClusterKernel.bandwidth,
                 approximation: str | StochasticParams = ClusterModel.approximation,
                 transfer: str | TransferParams = ClusterModel.transfer,
                 C: float = ClusterModel.C, loss: str = ClusterModel.loss,
                 class_prior: Any = None, class_weight: Any = None,
                 landmarks: float | str | LandmarkParams = ClusterModel.landmarks,
                 rank: int | str | None = ClusterModel.rank,
                 degrees: str = ClusterModel.degrees, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None,
                 random_state: int = 0):
        self.kernel, self.bandwidth, self.approximation, self.transfer = kernel, bandwidth, approximation, transfer
        self.class_prior, self.class_weight = class_prior, class_weight
        self.C, self.loss, self.landmarks, self.rank, self.degrees = C, loss, landmarks, rank, degrees
        self.scale, self.memory_budget = scale, memory_budget
        self.unlabeled, self.random_state = unlabeled, random_state

    def _params(self) -> ClusterKernelParams:
        model = self.section(ClusterModel)
        return ClusterKernelParams(
            kernels=base_kernels(self), cluster=model.basis(budget_of(self.memory_budget)),
            transfers=(model.transferred,), learners=(model.learner,), prior=prior_of(self.class_prior, None),
            random_state=self.random_state)

    def _basis(self, context: Context, params: ClusterKernelParams) -> dict[str, Any]:
        self.basis_ = basis_in(context, params, 0)
        return self.basis_.attributes
