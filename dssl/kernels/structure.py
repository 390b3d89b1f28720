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

import numpy as np

from ..solvers.operators import ScaledMatrix, places_of

MOST_VARIANCE = 0.24  # beyond 1/4 the semicircle reaches 0; so it does on graphs of fewer than four neighbors


def structure_of(diagonal: np.ndarray, chosen: np.ndarray, A: ScaledMatrix, ridge: float, power: int) -> float:
    """Return the structure of a graph, >= 0, from `(R^-power)_ii` (s,) of some vertices, chosen (s,).

    A : the solver's form of R = L + ridge I or L_norm + ridge I.
    """
    sizes = np.bincount(A.component, minlength=len(A.energy))
    null = (A.near_null * A.scale) ** 2
    null *= (sizes / A.n / np.bincount(A.component, null, len(A.energy)))[A.component]
    at = places_of(A.order)[chosen]
    rho = (diagonal - null[at] / ridge**power) / A.scale[at] ** (2 * power)
    q = max(float(np.median(rho)), 0.0) ** (2 / power)
    variance = min(max(float(A.data @ A.data) / A.n, 1e-6), MOST_VARIANCE)
    at_random = (1 / np.sqrt(1 - 4 * variance) - 1) / (2 * variance)
    return max(q - 1, 0.0) / (at_random - 1)
