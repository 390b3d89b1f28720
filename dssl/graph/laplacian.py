"""The graph Laplacian and its null space."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..base.errors import DataError, require

ROUNDING = 1e-12  # relative asymmetry that is accepted as rounding


def check_weights(W: sp.csr_array, n: int) -> None:
    """Raise DataError unless weights are (n, n), finite, non-negative and symmetric."""
    require(W.shape == (n, n), f"the weights have shape {W.shape} for {n} points, expected ({n}, {n})", error=DataError,
            why="row i holds the edges of point i", fix="pass the graph of exactly these points, in their order")
    bad = int((~np.isfinite(W.data)).sum())
    require(bad == 0, f"{bad} of {W.nnz} weights are NaN or infinite", error=DataError,
            why="one such weight spoils every solution", fix="leave these edges out, or give them a finite weight")
    bad = int((W.data < 0).sum())
    require(bad == 0, f"{bad} of {W.nnz} weights are negative, the lowest {W.data.min(initial=0):.3g}",
            error=DataError,
            why="the Laplacian is positive semi-definite for non-negative weights only",
            fix="pass similarities such as exp(-d^2), not distances or correlations below 0")
    apart = abs(W - W.T)
    worst = float(apart.max() if apart.nnz else 0)
    require(worst <= ROUNDING * W.data.max(initial=0), f"the weights differ from their transpose by up to {worst:.3g}, "
            f"in {apart.nnz // 2} pairs", error=DataError, why="the energy of a function counts each pair once",
            fix="pass W.maximum(W.T), which keeps every edge, or (W + W.T) / 2")


def scaled_entries(W: sp.csr_array, scale: np.ndarray) -> np.ndarray:
    """Return the entries s_i w_ij s_j, in the order of those of W."""
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    # The product of the scales first: it is the same number for (i, j) and (j, i).
    return W.data * (scale[rows] * scale[W.indices])


@dataclass(frozen=True)
class Laplacian:
    """The graph Laplacian of symmetric weights, normalized or not.

    Parameters
    ----------
    W : sparse matrix, shape (n, n)
        Symmetric, non-negative weights. The diagonal is ignored, since it drops out of
        L.
    normalized : bool
        Whether it is L_norm or L. An isolated point has a row of zeros in both.
    multiplicity : ndarray, shape (n,), or None
        The number m_i of points that vertex i stands for; None is one point each.

    Raises
    ------
    DataError
        W is not a matrix, not square or not symmetric, or has a weight that is negative
        or not finite; or a multiplicity is not positive.

    Notes
    -----
    With D the diagonal matrix of the degrees::

        L = D - W
        L_norm = I - D^-1/2 W D^-1/2

    With multiplicities and M = diag(m), L is that of the graph of all points, in which
    duplicates have all edges of their vertex, on the functions that are equal on
    duplicates, in the coordinates M^1/2 f: L_norm of M W M, or
    M^-1/2 (D - M W M) M^-1/2 with D the degrees of M W M.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from dssl import Laplacian
    >>> path = sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> Laplacian(path, normalized=False).matrix().toarray()
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """

    W: sp.csr_array
    normalized: bool = True
    multiplicity: np.ndarray | None = None

    def __post_init__(self) -> None:
        require(np.ndim(self.W) == 2, f"W is of type {type(self.W).__name__}", error=DataError,
                why="L is made of a matrix of weights", fix="pass one of shape (n, n); of a graph, graph.weights()")
        W = sp.csr_array(self.W, dtype=np.float64)
        check_weights(W, W.shape[0])
        if W.diagonal().any():
            W = sp.csr_array(W - sp.diags_array(W.diagonal()))
        W.eliminate_zeros()
        W.sort_indices()
        object.__setattr__(self, "W", W)
        if self.multiplicity is not None:
            m = np.asarray(self.multiplicity, np.float64)
            require(m.shape == (self.n,) and bool((m > 0).all()) and bool(np.isfinite(m).all()), error=DataError,
                    what=f"multiplicity has shape {m.shape} and values from {m.min(initial=np.inf):g}, expected "
                         f"({self.n},) and > 0", why="each vertex stands for at least one point",
                    fix="pass Vertices.multiplicity, or None if no point has a duplicate")
            object.__setattr__(self, "multiplicity", m)

    @property
    def n(self) -> int:
        """The number of vertices."""
        return self.W.shape[0]

    @cached_property
    def point_weights(self) -> sp.csr_array:
        """The weights between vertices summed over their points, M W M."""
        if self.multiplicity is None:
            return self.W
        scaled = scaled_entries(self.W, self.multiplicity)
        combined = sp.csr_array((scaled, self.W.indices, self.W.indptr), self.W.shape)
        combined.has_sorted_indices = True
        return combined

    @cached_property
    def degrees(self) -> np.ndarray:
        """The weighted degrees of W, or of M W M; shape (n,)."""
        return np.asarray(self.point_weights.sum(axis=1)).ravel()

    def matrix(self, ridge: float = 0.0) -> sp.csr_array:
        """Return L + ridge I, or L_norm + ridge I.

        An isolated point has `ridge` on the diagonal and nothing else. With ridge 0 the
        matrix is singular: the functions that are `vector` on one component and zero on
        the others span its null space.

        Parameters
        ----------
        ridge : float
            What is added to the diagonal, >= 0.

        Returns
        -------
        sparse array, shape (n, n)
            CSR, float64, with sorted indices and a stored diagonal.

        Raises
        ------
        ParameterError
            The ridge is negative or not finite.
        """
        require(0 <= ridge < np.inf, f"ridge={ridge}, expected >= 0", why="L minus a multiple of I is not definite",
                fix="use 0, or a small number such as 1e-3")
        linked = self.degrees > 0
        scale = None
        if self.normalized:
            scale = np.divide(1.0, np.sqrt(self.degrees), out=np.zeros(self.n), where=linked)
            diagonal = linked + ridge
        elif self.multiplicity is None:
            diagonal = self.degrees + ridge
        else:
            scale = 1 / np.sqrt(self.multiplicity)
            diagonal = self.degrees / self.multiplicity + ridge
        off = self.point_weights.data if scale is None else scaled_entries(self.point_weights, scale)
        coo = self.W.tocoo()  # it keeps a diagonal entry that is zero
        ids = np.arange(self.n, dtype=coo.row.dtype)
        L = sp.csr_array((np.concatenate([-off, diagonal]),
                          (np.concatenate([coo.row, ids]), np.concatenate([coo.col, ids]))), shape=coo.shape)
        L.sort_indices()
        return L

    @cached_property
    def vector(self) -> np.ndarray:
        """The positive null vector at ridge 0, by which the solvers scale; shape (n,).

        It is constant 1 for L, sqrt(m) with multiplicities, and the root of the degrees
        for L_norm, where an isolated point has 1.
        """
        if not self.normalized:
            return np.ones(self.n) if self.multiplicity is None else np.sqrt(self.multiplicity)
        return np.where(self.degrees > 0, np.sqrt(self.degrees), 1.0)
