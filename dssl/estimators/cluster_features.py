"""`ClusterKernelFeatures`: the virtual samples of a cluster kernel, as a transformer of scikit-learn."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..base.digest import require_random_state
from ..data.scaling.rows import scaled
from ..execution.size import budget_of
from ..kernels.cluster import ClusterBasis
from ..kernels.cluster_params import basis_of
from ..kernels.landmarks import LandmarkParams
from ..kernels.stochastic import StochasticParams
from ..kernels.transfer import TransferParams
from ..learners.linear.features import SampleModel, sample_model
from ..learners.target.coding import Values
from ..methods.cluster import ClusterKernel, ClusterModel
from .base import KernelReader, require_unequal


class ClusterKernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelReader):
    """The virtual samples of a cluster kernel of all points: a linear machine on them is one in that kernel.

    `fit(X)` takes all points and no labels; `transform(X)` makes k features of any point, of unit length, or zero where
    it is far from all points of the fit. A machine of scikit-learn is fitted on those of the labeled points alone:
    `LinearSVC().fit(features.transform(X[labeled]), y[labeled])`.

    Parameters
    ----------
    kernel, bandwidth, approximation, transfer, landmarks, rank, degrees, scale, memory_budget, random_state : as in
        `ClusterKernelSVC`; without labels, `leading="auto"` of a transfer function is `BESIDE_LABELS` eigenvalues.

    Attributes
    ----------
    model_ : SampleModel, the features as functions of a point. basis_ : ClusterBasis, the eigenpairs.
    evidence_ : dict, as of `ClusterKernelSVC`. n_features_in_ : d.

    References
    ----------
    Hou, Zhang, Zhou, "Storage fit learning with unlabeled data", IJCAI 2017, Proposition 1.
    """

    groups: ClassVar[dict[str, type]] = {"transfer": TransferParams, "landmarks": LandmarkParams}
    model_: SampleModel
    basis_: ClusterBasis

    def __init__(self, kernel: Any = "rbf", *,
                 bandwidth: float | str | None = ClusterKernel.bandwidth,
                 approximation: str | StochasticParams = ClusterModel.approximation,
                 transfer: str | TransferParams = ClusterModel.transfer,
                 landmarks: float | str | LandmarkParams = ClusterModel.landmarks,
                 rank: int | str | None = ClusterModel.rank,
                 degrees: str = ClusterModel.degrees, scale: str = "auto",
                 memory_budget: int | str | None = None, random_state: int = 0):
        self.kernel, self.bandwidth, self.approximation, self.transfer = kernel, bandwidth, approximation, transfer
        self.landmarks, self.rank, self.degrees, self.scale = landmarks, rank, degrees, scale
        self.memory_budget, self.random_state = memory_budget, random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the eigenpairs of all points X (n, d), or any input that `dssl.data.inputs.rows_of` reads; return self.

        y : not read. Raises ParameterError: a parameter is out of range. BudgetError, DataError : see `cluster_basis`.
        """
        require_random_state(self.random_state)
        execution, model = self._execution(), self.section(ClusterModel)
        rows = self._points(X, execution, reset=True)
        require_unequal(rows)
        self.scaling_ = self._scaling_of(X, rows, execution)
        rows = scaled(rows, self.scaling_, execution)
        self.basis_ = basis_of(rows, self._kernel(rows), model.basis(budget_of(self.memory_budget)), np.arange(0),
                               execution)
        samples = self.basis_.samples(model.transferred, 0)
        self.model_ = sample_model(samples, np.eye(samples.width), np.zeros(samples.width), Values())
        self.evidence_ = {**self.basis_.attributes, "features": samples.width}
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the virtual samples of points, shape (n, k), float64."""
        return self._values(X)

    @property
    def _n_features_out(self) -> int:
        return self.model_.n_columns
