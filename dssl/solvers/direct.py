"""Sparse factorization for systems small enough that nothing iterative pays."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from .operators import ScaledMatrix

LARGEST = 3_000  # unknowns up to which `auto` factors the matrix


@dataclass(frozen=True)
class Factor:
    """An LU factor of A (plus the null vectors' outer products where A is singular), made where it is used."""

    A: ScaledMatrix

    @cached_property
    def _lu(self) -> SuperLU:
        matrix = self.A.to_scipy()
        singular = self.A.singular
        if singular.any():  # one outer product y y' a singular component; off y the solution is the same
            rows = np.flatnonzero(singular[self.A.component])
            Y = sp.csr_matrix((self.A.near_null[rows], (rows, self.A.component[rows])), (self.A.n, len(singular)))
            matrix = matrix + Y @ Y.T
        return splu(sp.csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def correct(self, R: np.ndarray) -> np.ndarray:
        """Return `A^-1 R` (n, t) to rounding."""
        return self._lu.solve(np.asfortranarray(R, np.float64))
