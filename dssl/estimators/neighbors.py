"""Nearest neighbors as a transformer of scikit-learn, for what takes a matrix of precomputed distances."""

from collections.abc import Callable, Mapping

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..base.errors import DataError, require
from ..base.types import MatrixLike
from ..execution.current import current_execution
from ..knn.index import NeighborIndex
from ..knn.lists import distance_matrix
from ..knn.metric import Euclidean, check_rows
from ..knn.search import NeighborParams, find_neighbors, lowered_neighbors
from ..storage.blocks import Rows
from ..storage.csr import as_rows
from .saved import SavedEstimator


class NeighborTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SavedEstimator):
    """The distances of points to their nearest neighbors, as a sparse matrix.

    It gives what scikit-learn's `KNeighborsTransformer` gives, by the searches of
    `neighbors`, which certify their recall and run on the active Dask client if there
    is one. Estimators with `metric="precomputed"`, UMAP, cleanlab and scanpy take it.

    Parameters
    ----------
    n_neighbors : int
        The number of neighbors of each point, itself not counted.
    metric : str or function
        The distance, as in `neighbors`.
    metric_params : dict or None
        The parameters of the metric, as in `neighbors`.
    method : "auto", "exact", "descent" or "partitioned"
        The search among the points of the fit. Other points are searched exactly.
    recall : float
        The share of true neighbors that an approximate search has to find.
    random_state : int
        The seed of the approximate searches and of the sample that certifies them.

    Attributes
    ----------
    index_ : NeighborIndex
        The points of the fit.
    n_features_in_ : int
        The number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dssl import NeighborTransformer
    >>> graph = NeighborTransformer(n_neighbors=1).fit_transform(np.array([[0.0], [1.0], [3.0]]))
    >>> graph.toarray()
    array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 2., 0.]], dtype=float32)
    """

    def __init__(self, n_neighbors: int = 10, *, metric: str | Callable[..., float] = Euclidean.name,
                 metric_params: Mapping[str, ArrayLike] | None = None,
                 method: str = "auto", recall: float = 0.95, random_state: int = 0):
        self.n_neighbors, self.metric, self.metric_params, self.method = n_neighbors, metric, metric_params, method
        self.recall, self.random_state = recall, random_state

    def _search(self, n: int) -> NeighborParams:
        """Return how the neighbors of n points are found."""
        return lowered_neighbors(NeighborParams(**self.get_params()), n, "points")

    def _index(self, rows: Rows, search: NeighborParams) -> None:
        """Index the points of a fit."""
        check_rows(rows, search.n_neighbors, search.distance)
        self.index_ = NeighborIndex.of(rows, search.distance, current_execution())
        self.n_features_in_ = rows.shape[1]

    @property
    def _n_features_out(self) -> int:
        return len(self.index_)

    def fit(self, X: MatrixLike | Rows, y: object = None) -> "NeighborTransformer":
        """Index points, so that `transform` finds the neighbors of others among them.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            The points, which are not scaled.
        y : None
            Not read.

        Returns
        -------
        NeighborTransformer
            The fitted transformer.

        Raises
        ------
        ParameterError
            A parameter is out of range, or X is a single row.
        DataError
            X is not finite, or has rows that the metric is not defined for.

        Warns
        -----
        UserWarning
            `n_neighbors` was lowered, since there are no more points.
        """
        rows = as_rows(X)
        self._index(rows, self._search(len(rows)))
        return self

    def transform(self, X: MatrixLike | Rows) -> sp.csr_array:
        """Return the distances of points to their nearest points of the fit, exactly.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (m, d)
            The points.

        Returns
        -------
        csr_array, shape (m, n)
            `n_neighbors` + 1 distances a row, ascending; of a point of the fit the first
            is that to itself, or to a point that equals it.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            `fit` was not called.
        DataError
            X has another number of columns than the points of the fit, or is not finite.
        """
        check_is_fitted(self, "index_")
        rows = as_rows(X)
        require(len(rows.shape) == 2 and rows.shape[1] == self.n_features_in_, error=DataError,
                what=f"X has shape {rows.shape}, and the points of the fit have {self.n_features_in_} columns",
                why="distances compare equal columns", fix="pass the columns of the fit, in their order")
        distances, ids = self.index_.nearest(rows.read_all(), min(self.n_neighbors + 1, len(self.index_)))
        return distance_matrix(ids, distances.astype(np.float32), len(self.index_))

    def fit_transform(self, X: MatrixLike | Rows, y: object = None) -> sp.csr_array:
        """Return the distances of points to their nearest other points, by the search `method`.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            The points, which are not scaled.
        y : None
            Not read.

        Returns
        -------
        csr_array, shape (n, n)
            `n_neighbors` + 1 distances a row, ascending, beginning with the point itself
            at distance 0.
        """
        rows = as_rows(X)
        search = self._search(len(rows))
        self._index(rows, search)
        return find_neighbors(rows, search, current_execution()).to_scipy(with_self=True)
