"""`MultiscaleKernelClassifier` and `MultiscaleKernelRegressor`: linear models in the multi-scale eigen kernel."""

from typing import Any

from ..execution.size import budget_of
from ..kernels.base import BaseKernels
from ..kernels.multiscale import MultiscaleMap
from ..methods.multiscale import MULTISCALE_KERNEL, MultiscaleKernelParams, MultiscaleModel, map_in
from ..methods.step import Context
from .base import PointRegressor
from .calibrated import CLASS_FREQUENCIES, CalibratedClassifier
from .linear import LinearEstimator
from .targets import prior_of


class MultiscaleKernelEstimator(LinearEstimator):
    """What both estimators share.

    Parameters
    ----------
    eps_0 : the first scale, in squared units of the features, a number; "auto" is half the squared median distance.
    q : of the scales, one to the next, in (0, 1).
    threshold : of the second eigenvalue of the graph Laplacian, below which there are no further scales.
    n_eigenpairs : of the kernel beside the constant; "auto" is an eighth of the carriers, or 100, or all of
        fewer carriers.
    n_carriers : points whose graph Laplacians are decomposed, drawn at random, the labeled ones among them as long as
        these are no more than half; the others have extended eigenfunctions, as new points. "auto" is as many as the
        budget lets be, 2,000 at most, and all points where there are fewer.
    unit_diagonal : whether the kernel is scaled to unit diagonal, so that no point weighs more than others; False is
        the paper's.
    C : 1 / alpha, penalty of the loss against the norm, of a kernel whose diagonal, or its median, is 1; the paper's
        rule is to interpolate (`dssl.learners.linear.multiscale`), which C=1e6 does.
    scale : of the features, as in `LapSVC`.
    memory_budget : bytes, or text such as "600MB", that a task may take; None is 1 GiB, or what workers allow; carriers
        follow from what is given here or 1 GiB, never from workers.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats), None or "" (text).
    random_state : of the carriers, and of folds.
    """

    method, without_graph = MULTISCALE_KERNEL, "the kernel is one of graphs of its own, of several scales"
    joint = ("C",)
    C: float
    map_: MultiscaleMap

    def __init__(self, *, eps_0: float | str = MultiscaleModel.eps_0,
                 q: float = MultiscaleModel.q, threshold: float = MultiscaleModel.threshold,
                 n_eigenpairs: int | str = MultiscaleModel.n_eigenpairs,
                 n_carriers: int | str = MultiscaleModel.n_carriers,
                 unit_diagonal: bool = MultiscaleModel.unit_diagonal,
                 C: float = MultiscaleModel.C, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None,
                 random_state: int = 0):
        self.eps_0, self.q, self.threshold, self.n_eigenpairs = eps_0, q, threshold, n_eigenpairs
        self.n_carriers, self.unit_diagonal, self.C, self.memory_budget = n_carriers, unit_diagonal, C, memory_budget
        self.scale, self.unlabeled, self.random_state = scale, unlabeled, random_state

    def _params(self) -> MultiscaleKernelParams:
        model = self.section(MultiscaleModel)
        return MultiscaleKernelParams(
            kernels=BaseKernels("rbf", {}, (None,), self.random_state),
            multiscale=model.multiscale(budget_of(self.memory_budget)), learners=(model.learner,),
            prior=prior_of(model.class_prior, None), random_state=self.random_state)

    def _basis(self, context: Context, params: MultiscaleKernelParams) -> dict[str, Any]:
        self.map_ = map_in(context)
        return self.map_.attributes


ATTRIBUTES = """
    Attributes
    ----------
    map_ : MultiscaleMap, the features, whose kernel is that of the paper. model_ : MultiscaleModel, what prediction
        needs and no more. transduction_ : ndarray, shape (n,), or of a regressor (n,) or (n, c), what is predicted for
        the points of the fit.
    evidence_ : dict: `carriers`, `eigenpairs`, the `scales` eps_j and the `second` eigenvalue of each; of each `index`
        k the number j of the `chosen` scale and the `eigenvalues`; indices whose first choice was `passed_over` for a
        scale with sound denominators, those `unsound` at all scales, those `left_out` with an eigenvalue 0, and the
        `unsound_share` of points and indices in a sample of the points of the fit.

    References
    ----------
    Mhaskar, Pereverzyev, Semenov, Semenova, "Data based construction of kernels for classification", 2018.
    """


class MultiscaleKernelClassifier(CalibratedClassifier, MultiscaleKernelEstimator):
    """A machine in the multi-scale eigen kernel of all points, of least squares or another loss.

    Graph Laplacians of all points, labeled and unlabeled, at a sequence of scales; of each index the eigenfunction at
    the scale where its eigenvalue changes least makes the kernel, so that two points are alike where paths of short
    steps join them. It suits a few labels of classes that gaps divide; each outlying point takes an eigenfunction.

    `fit(X, y)` takes all points, with y = -1 (integers), NaN (floats), None or "" (text) where there is no label; X may
    be anything that `dssl.data.inputs` reads. It runs on the active Dask client if there is one, in threads of this
    process otherwise, with the same result.

    """

    __doc__ += (MultiscaleKernelEstimator.__doc__ or "").split("\n\n", 1)[1].rstrip() + """
    loss : "squared", "squared_hinge" or "logistic", each class against the rest; or "hinge", a machine for each pair.
""" + CLASS_FREQUENCIES + ATTRIBUTES
    regressor = "MultiscaleKernelRegressor"

    def __init__(self, *, eps_0: float | str = MultiscaleModel.eps_0,
                 q: float = MultiscaleModel.q, threshold: float = MultiscaleModel.threshold,
                 n_eigenpairs: int | str = MultiscaleModel.n_eigenpairs,
                 n_carriers: int | str = MultiscaleModel.n_carriers,
                 unit_diagonal: bool = MultiscaleModel.unit_diagonal,
                 C: float = MultiscaleModel.C, loss: str = MultiscaleModel.loss,
                 class_prior: Any = None, class_weight: Any = None, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None,
                 random_state: int = 0):
        super().__init__(eps_0=eps_0, q=q, threshold=threshold, n_eigenpairs=n_eigenpairs, n_carriers=n_carriers,
                         unit_diagonal=unit_diagonal, C=C, scale=scale, memory_budget=memory_budget,
                         unlabeled=unlabeled, random_state=random_state)
        self.loss = loss
        self.class_prior, self.class_weight = class_prior, class_weight


class MultiscaleKernelRegressor(PointRegressor, MultiscaleKernelEstimator):
    """Ridge regression in the multi-scale eigen kernel of all points; the targets of unlabeled points are NaN.

    `fit(X, y)` takes y (n,) or (n, c); a row with a NaN is unlabeled. Points as in `MultiscaleKernelClassifier`.

    """

    __doc__ += (MultiscaleKernelEstimator.__doc__ or "").split("\n\n", 1)[1].rstrip() + "\n" + ATTRIBUTES
