"""How far a graph's covariance reaches, which no label is needed for: whether the graph has clusters to tell of.

    rho_i = ((R^-p)_ii - what the constant function has in it) (R_ii)^p,    q = median(rho)^(2 / p)

In a random graph all eigenvalues of L_norm but one lie in a semicircle around 1, of the variance v that is the mean
over vertices of the sum of squared `w_ij / sqrt(d_i d_j)`, and q is the mean of 1 / eigenvalue^2:

    q_0 = (1 / sqrt(1 - 4 v) - 1) / (2 v),    structure = (q - 1) / (q_0 - 1)

So it is 1 where neighbors are those of noise, and slow eigenvectors, those of clusters and of thin sheets, raise it.

References
----------
Wigner, "On the distribution of the roots of certain symmetric matrices", Annals of Mathematics 1958.
"""

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from ..solvers.operators import places_of
from ..storage.store import whole_bytes

SOLVER_ARRAYS = tuple(f"A-{name}" for name in ("order", "scale", "component", "near_null", "data"))  # of a solver
MOST_VARIANCE = 0.24  # beyond 1/4 the semicircle reaches 0; so it does on graphs of fewer than four neighbors


def structure_of(diagonal: np.ndarray, chosen: np.ndarray, solver: Mapping[str, np.ndarray], ridge: float,
                 power: int) -> float:
    """Return the structure of a graph, >= 0, from `(R^-power)_ii` (s,) of some vertices, chosen (s,).

    solver : its arrays of R = L + ridge I or L_norm + ridge I, of which `SOLVER_ARRAYS` are read (`Solver.to_arrays`).
    """
    order, scale, component, near_null, data = (solver[name] for name in SOLVER_ARRAYS)
    at = places_of(order)[chosen]
    null = _constant((near_null * scale) ** 2, component)[at]
    return _structure((diagonal - null / ridge**power) / scale[at] ** (2 * power), float(data @ data) / len(order),
                      power)


def structure_bytes(n: int, nnz: int) -> int:
    """Return what `structure_of` of n vertices and nnz weights takes, `SOLVER_ARRAYS` included."""
    return 8 * nnz + int(max(72 * n, 32 * n + whole_bytes(8 * nnz)))


def structure_of_matrix(diagonal: np.ndarray, chosen: np.ndarray, R: sp.csr_array, vector: np.ndarray, ridge: float,
                        power: int) -> float:
    """Return the same of R (n, n) without a solver's form; vector (n,) : the null vector of R - ridge I."""
    of_diagonal, squared = R.diagonal(), R.power(2)
    component = csgraph.connected_components(R, directed=False)[1]
    null = _constant(vector**2, component)[chosen]
    among = float((1 / of_diagonal) @ (squared @ (1 / of_diagonal))) / len(of_diagonal) - 1
    return _structure((diagonal - null / ridge**power) * of_diagonal[chosen] ** power, among, power)


def _constant(squares: np.ndarray, component: np.ndarray) -> np.ndarray:
    """Return what the constant function has in `(R^-1)_ii` times the ridge (n,), from the squares of null vectors.

    One function of all components together: what tells components apart is structure.
    """
    return squares * (np.bincount(component) / len(squares) / np.bincount(component, squares))[component]


def _structure(rho: np.ndarray, variance: float, power: int) -> float:
    q = max(float(np.median(rho)), 0.0) ** (2 / power)
    variance = min(max(variance, 1e-6), MOST_VARIANCE)
    at_random = (1 / np.sqrt(1 - 4 * variance) - 1) / (2 * variance)
    return max(q - 1, 0.0) / (at_random - 1)
