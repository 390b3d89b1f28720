"""`LapRLSClassifier` and `LapRLSRegressor`: Laplacian regularized least squares for up to millions of points."""

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from ..errors import explain, require
from ..execution.on_dask import current_execution
from ..execution.tasks import Execution
from ..graph.vertices import Vertices, find_vertices
from ..kernels.base import kernel_from
from ..kernels.landmarks import LandmarkParams
from ..learners.laprls.params import SystemParams
from ..learners.laprls.penalties import Penalty
from ..learners.laprls.problem import LapRLSParams, LapRLSProblem
from ..learners.target import Target
from ..selection.folds import held_out_folds, require_folds
from ..selection.laprls import fit_laprls
from ..storage.blocks import Rows
from .base import KernelEstimator, KernelRegressor, require_unequal


class LapRLSEstimator(KernelEstimator):
    """What the two estimators share.

    Parameters
    ----------
    kernel, bandwidth : base kernel, as in `LapSVC`.
    gamma_A : weight of the norm, > 0. gamma_I : weight of the graph's energy, >= 0; 0 is plain RLS, without a graph.
        Both against the mean squared residual of the labels, numbers, "auto" or multiples such as "10*auto"; see
        `dssl.learners.laprls.penalties`. A sequence of values of either is a grid, of which cross-validation takes the
        pair of lowest error: `cv_results_`.
    n_landmarks : a number, a fraction of the distinct points, or "sqrt", the paper's: ceil(m^1/2) labeled points and
        ceil((n - m)^1/2) others, m of n points labeled. "auto" is 1,000, or as many as "sqrt" if these are more.
    landmarks : "uniform", "kmeans" (centers) or "leverage" (by ridge leverage scores).
    solver : "auto", "nystrom-direct" (Gram matrices), "nystrom-pcg", "nystrom-cg"; or, on all points instead of
        landmarks, "direct", "pcg", "cg".
    preconditioner, whitening, precision, tolerance, max_iterations : see `SystemParams`.
    n_neighbors, metric, weights, symmetrize, method, laplacian : the graph; see `NeighborParams`, `WeightParams`.
    cv : folds of the labels, for a grid; fewer where there are fewer labels, see `evidence_`.
    fit_intercept : whether targets are centered at the mean of the labels.
    duplicates : "collapse" makes equal rows one vertex that counts as many, "keep" one vertex each.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats) or None (objects).
    seed : of every random choice.
    """

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = "0.5*median",
                 gamma_A: Penalty | Sequence[Penalty] = "auto", gamma_I: Penalty | Sequence[Penalty] = "auto",
                 n_landmarks: float | str = "auto", landmarks: str = "uniform", solver: str = "auto",
                 preconditioner: str = "edges", whitening: float | str | None = "auto", precision: str = "float64",
                 tolerance: float = 1e-6, max_iterations: int = 500, n_neighbors: int = 10,
                 metric: str = "euclidean", weights: str = "self_tuned", symmetrize: str = "maximum",
                 method: str = "auto", laplacian: str = "normalized", cv: int = 5, fit_intercept: bool = True,
                 duplicates: str = "collapse", unlabeled: Any = None, seed: int = 0):
        self.kernel, self.bandwidth, self.gamma_A, self.gamma_I = kernel, bandwidth, gamma_A, gamma_I
        self.n_landmarks, self.landmarks, self.solver, self.preconditioner = (
            n_landmarks, landmarks, solver, preconditioner)
        self.whitening, self.precision, self.tolerance = whitening, precision, tolerance
        self.max_iterations, self.n_neighbors, self.metric, self.weights = max_iterations, n_neighbors, metric, weights
        self.symmetrize, self.method, self.laplacian, self.cv = symmetrize, method, laplacian, cv
        self.fit_intercept, self.duplicates, self.unlabeled, self.seed = fit_intercept, duplicates, unlabeled, seed

    def _laprls(self) -> LapRLSParams:
        return LapRLSParams(
            gamma_A=_values_of(self.gamma_A), gamma_I=_values_of(self.gamma_I),
            landmarks=LandmarkParams(n_landmarks=self.n_landmarks, method=self.landmarks,  # type: ignore[arg-type]
                                     seed=self.seed),
            system=SystemParams(solver=self.solver, preconditioner=self.preconditioner,  # type: ignore[arg-type]
                                whitening=self.whitening, precision=self.precision,  # type: ignore[arg-type]
                                tolerance=self.tolerance, max_iterations=self.max_iterations, seed=self.seed),
            laplacian=self.laplacian, fit_intercept=self.fit_intercept)  # type: ignore[arg-type]

    def _solve(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: LapRLSParams,
               execution: Execution) -> None:
        """Set the model and the evidence of its fit."""
        require_folds(self.cv)
        require(isinstance(self.fit_intercept, (bool, np.bool_)), f"fit_intercept={self.fit_intercept!r}",
                why="it is a choice of two", fix="use True or False")
        require_unequal(rows)
        several, labeled = params.n_pairs > 1, target.labeled
        held = held_out_folds(self.cv, target, self.seed) if several else []
        kernel = kernel_from(self.kernel, self.bandwidth if isinstance(self.kernel, str) else None, rows=rows,
                             seed=self.seed)
        made = self._graph(rows, graph, execution) if params.uses_graph else None
        points = made.vertices if made is not None else find_vertices(rows, execution) if (
            self.duplicates == "collapse") else Vertices.distinct(len(rows))
        if made is not None and len(labeled) == len(rows):
            warnings.warn(explain("every point is labeled", why="the graph then joins labeled points only",
                                  fix="mark unlabeled points, or set gamma_I=0"), UserWarning, stacklevel=3)
        problem = LapRLSProblem.of(rows, target, params, execution, graph=made, vertices=points, weight=weight,
                                   folds=held)
        found = fit_laprls(problem, kernel, execution)
        self.evidence_ = {**(made.attributes if made else {}), **found.evidence, "folds": len(held),
                          "n_labeled": len(labeled), "n_unlabeled": len(rows) - len(labeled)}
        self.cv_results_ = found.rows
        chosen = found.functions["model"].chosen
        self.gamma_A_, self.gamma_I_, self.model_ = chosen.gamma_A, chosen.gamma_I, found.model("model")


class LapRLSClassifier(ClassifierMixin, LapRLSEstimator):
    """Laplacian regularized least squares on landmarks, one against the rest; any number of classes.

    `fit(X, y)` takes all points, with y = -1 (integers), NaN (floats) or None (objects) where there is no label; X may
    be anything that `dssl.inputs` reads. It runs on the active Dask client if there is one, in threads of this process
    otherwise, with the same result.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,). model_ : KernelModel, what prediction needs and no more.
    gamma_A_, gamma_I_ : the penalties of the model, numbers. cv_results_ : list of dict, a line a pair, empty without a
    grid. evidence_ : dict, what graph, landmarks and solver say of themselves. n_features_in_, feature_names_in_ : as
    in scikit-learn.

    References
    ----------
    Li, Liu, Yin, Wang, "Approximate manifold regularization: scalable algorithm and generalization analysis",
    IJCAI 2019.
    """

    __doc__ += LapRLSEstimator.__doc__ or ""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, graph: Any = None) -> Self:
        """Fit on all points X (n, d) with their labels y (n,); return self.

        X, y, sample_weight and graph as in `LapSVC.fit`; a point of weight 2 counts as two equal points do.

        Raises
        ------
        ParameterError : a parameter is out of range. DataError : y is of another length, has fewer than two classes, or
            is a quantity; a grid, and no class has two labels. NotConverged : a solve ended above its tolerance.
            BudgetError : the landmarks do not fit in the memory budget. ValueError : X is not finite (an array: from
            scikit-learn).
        """
        execution, params = current_execution(), self._laprls()
        rows, target, weight = self._classified(X, y, sample_weight, execution, "LapRLSRegressor")
        self._solve(rows, target, weight, graph, params, execution)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return one score a class, shape (n, n_classes), or for two classes one score, shape (n,)."""
        return self.model_.coding.decision(self._values(X))


class LapRLSRegressor(KernelRegressor, LapRLSEstimator):
    """Laplacian regularized least squares on landmarks; one or several targets, NaN where unknown.

    Attributes
    ----------
    model_ : KernelModel. gamma_A_, gamma_I_, cv_results_, evidence_ : as in `LapRLSClassifier`.
    """

    __doc__ += LapRLSEstimator.__doc__ or ""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, graph: Any = None) -> Self:
        """Fit on all points X (n, d) with targets y (n,) or (n, c); return self. A row with a NaN is unlabeled.

        Parameters and errors as in `LapRLSClassifier.fit`; a target that is infinite is an error.
        """
        execution, params = current_execution(), self._laprls()
        rows, target, weight = self._measured(X, y, sample_weight, execution)
        self._solve(rows, target, weight, graph, params, execution)
        return self


def _values_of(value: Any) -> tuple[Penalty, ...]:
    require(np.ndim(value) <= 1, f"a penalty has {np.ndim(value)} dimensions",
            why="a grid is a list of values, all pairs of which are tried", fix="pass a number, or a list of numbers")
    return (value,) if np.ndim(value) == 0 else tuple(value)
