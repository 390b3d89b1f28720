"""`ClusterKernelSVC`: a machine in a cluster kernel, whose rank a memory budget decides."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..errors import explain, require
from ..execution.size import budget_of
from ..execution.tasks import Execution
from ..kernels.cluster import ClusterBasis
from ..kernels.cluster_params import ClusterParams, basis_of
from ..kernels.landmarks import LandmarkParams
from ..kernels.stochastic import StochasticParams
from ..kernels.transfer import TransferParams
from ..learners.target import Target
from ..learners.virtual_samples import SampleLearner, sample_model
from ..selection.calibration import calibration_folds
from ..selection.cluster import rows_of_samples
from ..storage.blocks import Rows
from .base import KernelEstimator
from .calibrated import CalibratedClassifier

ALIKE = 1e-4  # the contrast below which a machine of the usual C says next to nothing


def cluster_params(estimator: Any) -> ClusterParams:
    """Return how the eigenpairs are found; raise ParameterError where a parameter is out of range."""
    given = estimator.approximation
    stochastic = isinstance(given, StochasticParams)
    steps = given if stochastic else StochasticParams(seed=estimator.seed)
    return ClusterParams(
        approximation="stochastic" if stochastic else given, landmarks=estimator.group("landmarks"),
        rank=estimator.rank, degrees=estimator.degrees, steps=steps, budget=budget_of(estimator.memory_budget))


class ClusterKernelSVC(CalibratedClassifier, KernelEstimator):
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
    seed : of every random choice, but for those of landmarks that are given whole.

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
    joint = ("transfer__transfer", "transfer__leading", "transfer__exponent", "C")
    versions: ClassVar[dict[str, int]] = {"cluster": 4}
    groups: ClassVar[dict[str, type]] = {"transfer": TransferParams, "landmarks": LandmarkParams}
    defaults: ClassVar[dict[str, dict[str, Any]]] = {}
    basis_: ClusterBasis

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = "0.25*median",
                 approximation: str | StochasticParams = "nystrom", transfer: str | TransferParams = "polynomial",
                 C: float = 10.0, loss: str = "squared", class_prior: Any = None, class_weight: Any = None,
                 landmarks: float | str | LandmarkParams = "auto", rank: int | str | None = "auto",
                 degrees: str = "auto", scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, seed: int = 0):
        self.kernel, self.bandwidth, self.approximation, self.transfer = kernel, bandwidth, approximation, transfer
        self.class_prior, self.class_weight = class_prior, class_weight
        self.C, self.loss, self.landmarks, self.rank, self.degrees = C, loss, landmarks, rank, degrees
        self.scale, self.memory_budget, self.unlabeled, self.seed = scale, memory_budget, unlabeled, seed

    def _params(self) -> tuple[ClusterParams, SampleLearner]:
        learner = SampleLearner(loss=self.loss, C=self.C)
        return cluster_params(self), learner

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: Any,
               execution: Execution) -> None:
        require(graph is None, "graph is given", why="a cluster kernel is one of all pairs of points, without a graph",
                fix="leave it out, or use LapSVC or LapRLSClassifier")
        own, learner = params
        self.basis_ = basis_of(rows, self._kernel(rows), own, target.labeled, execution)
        samples = self.basis_.samples(self.group("transfer"), len(target.labeled))
        learner.require_fits(len(target.labeled), samples.width, execution.memory_budget)
        F = samples.of_rows(rows, target.labeled, execution.memory_budget)
        self.model_ = sample_model(samples, *learner.fit(F, target, weight))
        contrast = self.basis_.contrast(self.group("transfer"), len(target.labeled))
        self.evidence_ = {**self.basis_.attributes, "features": samples.width, "contrast": contrast}
        if contrast < ALIKE:
            warnings.warn(explain(
                "all points are nearly alike in the cluster kernel", why=f"its second eigenvalue is {contrast:.1g} of "
                "its first, and the loss counts little against it", fix="use a smaller bandwidth or exponent, or "
                "another transfer function; a much larger C may do"), UserWarning, stacklevel=3)
        self._calibrate(target, lambda: learner.held_out(
            F, target, calibration_folds(target, self.seed, a_fit_each=self.loss != "squared"), weight)[0], weight)

    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None,
                      repetitions: Sequence[Sequence[np.ndarray]], tried: Sequence[dict[str, Any]],
                      scoring: str | None, execution: Execution, kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """As the base class says: the eigenpairs of a kernel serve all transfer functions, C and losses."""
        own, learner = self._params()
        key = ("basis", self._kernel(rows), own)
        if key not in kept:
            kept[key] = basis_of(rows, key[1], own, target.labeled, execution)
        usual, found = self.get_params(), list[dict[str, Any]]()
        samples: dict[TransferParams, np.ndarray] = {}
        for values in tried:
            given = {name.removeprefix("transfer__"): values.get(name, usual[name]) for name in self.joint}
            machine = SampleLearner(loss=learner.loss, C=given.pop("C"))
            transfer = TransferParams(**given)
            if transfer not in samples:
                mapped = kept[key].samples(transfer, len(target.labeled))
                samples[transfer] = mapped.of_rows(rows, target.labeled, execution.memory_budget)
            found += rows_of_samples(samples[transfer], target, [machine], repetitions, scoring, weight)
        return found

    def uses_graph(self, tried: Iterable[dict[str, Any]]) -> bool:
        return False
