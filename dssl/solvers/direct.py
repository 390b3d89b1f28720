"""Sparse factorization for systems small enough that nothing iterative pays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from .method import Method, scaled_to_one

LARGEST = 3_000  # unknowns up to which `auto` factors the matrix
FILL = 60  # entries of the factor for each of the matrix: a guess, above what neighbor graphs of this size need


@dataclass(frozen=True)
class Direct(Method):
    """An LU factor of A (plus the null vectors' outer products where A is singular), made where it is used."""

    name = "direct"
    held_guess = ("fill of the factor",)

    @cached_property
    def _lu(self) -> SuperLU:
        matrix = self.A.to_scipy()
        singular = self.A.singular
        if singular.any():  # one outer product y y' a singular component; off y the solution is the same
            rows = np.flatnonzero(singular[self.A.component])
            Y = sp.csr_matrix((self.A.near_null[rows], (rows, self.A.component[rows])), (self.A.n, len(singular)))
            matrix = matrix + Y @ Y.T
        return splu(sp.csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def correct(self, R: np.ndarray, norms: np.ndarray, needed: np.ndarray,
                budget: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return `A^-1 R diag(1/norms)` (n, t) to rounding, in one iteration."""
        found = self._lu.solve(np.asfortranarray(R * scaled_to_one(norms), np.float64))
        return found, (norms > 0).astype(np.int64)

    @classmethod
    def held_bytes(cls, n: int, nnz: int) -> int:
        return 12 * min(n * n, FILL * nnz)
