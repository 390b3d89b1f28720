"""Sparse factorization of small systems."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from .method import SolverMethod, scaled_to_one

MAX_DIRECT = 3_000  # unknowns, up to which `auto` factors the matrix
FILL = 60  # entries of the factor for each of the matrix: an upper bound for neighbor graphs of this size


@dataclass(frozen=True)
class Direct(SolverMethod):
    """An LU factor of A, made where it is used; 1 is added at one vertex of each singular component, its ground.

    For right-hand sides orthogonal to the null vector the solution is then a solution of the singular system.
    """

    name = "direct"
    description = "a sparse factorization, made once"
    iterates = False
    held_guess = ("fill of the factor",)

    @cached_property
    def _lu(self) -> SuperLU:
        matrix = self.A.to_scipy()
        if self.A.singular.any():
            matrix += sp.diags_array(self._grounds(), format="csr")
        return splu(sp.csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def _grounds(self) -> np.ndarray:
        """Return 1 where the null vector of a singular component is largest, and 0 elsewhere (n,)."""
        component, grounds = self.A.component, np.zeros(self.A.n)
        ascending = np.lexsort((self.A.near_null, component))
        last = np.append(component[ascending][1:] != component[ascending][:-1], True)
        grounds[ascending[last]] = self.A.singular[component[ascending[last]]]
        return grounds

    def correct(self, R: np.ndarray, norms: np.ndarray, needed: np.ndarray, budget: np.ndarray, *,
                precise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return `A^-1 R diag(1/norms)` (n, t) to rounding, in one iteration."""
        solved = self._lu.solve(np.asfortranarray(R * scaled_to_one(norms), np.float64))
        return solved, (norms > 0).astype(np.int64)

    @classmethod
    def held_bytes(cls, n: int, nnz: int) -> int:
        return 12 * min(n * n, FILL * nnz)
