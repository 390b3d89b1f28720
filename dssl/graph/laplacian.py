"""The graph Laplacian and its null space."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..errors import DataError, require


def _check_weights(W: sp.csr_array) -> None:
    require(W.ndim == 2 and W.shape[0] == W.shape[1], f"W has shape {W.shape}, expected (n, n)", error=DataError,
            why="weights join points of one set", fix="pass the matrix that dssl.graph.weights.weights returns")
    require(bool(np.isfinite(W.data).all()) and (W.nnz == 0 or W.data.min() >= 0),
            "W holds negative, NaN or infinite weights", error=DataError,
            why="L is positive semi-definite for non-negative weights only",
            fix="use weights that fall with the distance, such as exp(-d^2)")
    apart = abs(W - W.T)
    require(apart.nnz == 0 or apart.max() <= 1e-12 * W.max(), f"W differs from its transpose by {apart.max():.3g}",
            error=DataError, why="the energy of a function counts each pair once", fix="pass (W + W.T) / 2")


@dataclass(frozen=True)
class Laplacian:
    """`L = D - W`, or `L_norm = I - D^-1/2 W D^-1/2`, of symmetric weights.

    W : sparse (n, n), symmetric, non-negative; its diagonal is ignored, and drops out of L.
    normalized : an isolated point has the zero row in both.
    multiplicity : (n,), the points m_i that vertex i stands for; None for one each. With M = diag(m), L is then that
        of the graph of all points, in which copies have all edges of their vertex, on the functions that are equal on
        copies, in the coordinates M^1/2 f: L_norm of M W M, or M^-1/2 (D - M W M) M^-1/2 with D the degrees of M W M.

    Raises
    ------
    DataError : W is not square, not symmetric, or has a weight that is negative or not finite; a multiplicity is not
        positive.
    """

    W: sp.csr_array
    normalized: bool = True
    multiplicity: np.ndarray | None = None

    def __post_init__(self) -> None:
        W = sp.csr_array(self.W, dtype=np.float64)
        _check_weights(W)
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
                    fix="pass Vertices.multiplicity, or None where no point has a copy")
            object.__setattr__(self, "multiplicity", m)

    @property
    def n(self) -> int:
        """Return the number of points."""
        return self.W.shape[0]

    @cached_property
    def joint(self) -> np.ndarray:
        """Return the entries of M W M, in the places of those of W."""
        if self.multiplicity is None:
            return self.W.data
        rows = np.repeat(np.arange(self.n), np.diff(self.W.indptr))
        # The product of the multiplicities first: it is the same number for (i, j) and (j, i).
        return self.W.data * (self.multiplicity[rows] * self.multiplicity[self.W.indices])

    @cached_property
    def degrees(self) -> np.ndarray:
        """Return the weighted degrees, (n,), of W, or of M W M."""
        joint = sp.csr_array((self.joint, self.W.indices, self.W.indptr), shape=self.W.shape)
        return np.asarray(joint.sum(axis=1)).ravel()

    def matrix(self, ridge: float = 0.0) -> sp.csr_array:
        """Return L + ridge I or L_norm + ridge I, CSR float64 with sorted indices and a stored diagonal.

        An isolated point has `ridge` on the diagonal and nothing else. With ridge 0 the matrix is singular:
        what `vector` is on one component, and zero on the others, spans its null space.
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
        off = -self.joint
        if scale is not None:
            rows = np.repeat(np.arange(self.n), np.diff(self.W.indptr))
            # The product of the scales first: it is the same number for (i, j) and (j, i).
            off = off * (scale[rows] * scale[self.W.indices])
        L = sp.csr_array((off, self.W.indices, self.W.indptr), shape=self.W.shape)
        # coo keeps a diagonal entry that is zero.
        L = L.tocoo()
        ids = np.arange(self.n, dtype=L.row.dtype)
        L = sp.csr_array((np.concatenate([L.data, diagonal]),
                          (np.concatenate([L.row, ids]), np.concatenate([L.col, ids]))), shape=L.shape)
        L.sort_indices()
        return L

    @cached_property
    def vector(self) -> np.ndarray:
        """Return the positive null vector at ridge 0, (n,): ones for L, the root of the degrees for L_norm.

        The solvers scale by it; an isolated point has 1. With multiplicities it is sqrt(m) for L.
        """
        if not self.normalized:
            return np.ones(self.n) if self.multiplicity is None else np.sqrt(self.multiplicity)
        return np.where(self.degrees > 0, np.sqrt(self.degrees), 1.0)
