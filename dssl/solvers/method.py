"""The interface of a solver: prepared once for a matrix, it reduces the residuals of many blocks of columns.

A sparse factorization of small systems stands here; the others have files of their own.
"""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import SuperLU, splu

from ..base.digest import JsonObject
from ..storage.cache import FACTORS
from .columns import to_float32
from .operators import ScaledMatrix
from .pcg import conjugate_gradients

DIGITS = 5e-6  # largest reduction of a residual by one float32 correction
ROUNDED = 0.6  # of the needed reduction: the true residual ends slightly above that of the recursion
PRECISE = 0.9  # the same in float64
PREPARED_SECONDS = 2.5e-5  # a row, of eigenvectors or of a hierarchy, with the probes that choose them
VECTOR_PASSES = 8  # over vectors (n,) in an iteration, in entries of the matrix
MAX_DIRECT = 3_000  # unknowns, up to which `auto` may factor the matrix exactly
LU_BYTES = 12  # of an entry of a factor
FILL = 60  # entries of the factor for each of the matrix: an upper bound for neighbor graphs of this size


@dataclass(frozen=True)
class SolverMethod(ABC):
    """Corrects columns of `A X = B`; the outer loop with float64 residuals is in `Solver`."""

    A: ScaledMatrix

    name: ClassVar[str]
    description: ClassVar[str] = ""  # for the report
    iterates: ClassVar[bool] = True  # so that a start matters
    # Unknown before the preparation, so that `stored_bytes` or `held_bytes` are upper bounds.
    stored_guess: ClassVar[tuple[str, ...]] = ()
    held_guess: ClassVar[tuple[str, ...]] = ()
    blocks32: ClassVar[int] = 4  # float32 blocks (n, t) of a correction
    prepare_seconds: ClassVar[float] = 0.0  # a row, on one core

    @classmethod
    def prepare(cls, A: ScaledMatrix, n_columns: int, *, n_vectors: int | None = None, random_state: int = 0) -> Self:
        """Return the method prepared for `n_columns` columns in all."""
        return cls(A)

    def deflate(self, X: np.ndarray, R: np.ndarray, active: np.ndarray) -> None:
        """Correct the active columns of X (n, t) and the residual R in the subspace that the method solves exactly."""
        return

    @abstractmethod
    def correct(self, R: np.ndarray, norms: np.ndarray, needed: np.ndarray, budget: np.ndarray, *,
                precise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return E near `A^-1 R diag(1/norms)`, and iterations; a column of norm 0 is not solved.

        needed (t,) : the factor by which each residual must fall. budget (t,) : the maximal iterations.
        precise : in float64, for weights below the rounding of float32; up to four times the memory.
        """

    def width(self, block_columns: int) -> int:
        """Return how many columns are solved side by side, at most `block_columns`."""
        return block_columns

    @property
    def attributes(self) -> JsonObject:
        """Return the evidence of the preparation; JSON."""
        return {}

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays for `from_arrays`, without those of A."""
        return {}

    @classmethod
    def from_arrays(cls, A: ScaledMatrix, arrays: dict[str, np.ndarray]) -> Self:
        """Return the method whose arrays `to_arrays` gave."""
        return cls(A)

    @classmethod
    def prepare_bytes(cls, n: int, nnz: int, n_columns: int) -> float:
        """Return an upper bound of the bytes of the preparation beside A, n unknowns with nnz entries."""
        return 0.0

    @classmethod
    def stored_bytes(cls, n: int, nnz: int, n_columns: int) -> int:
        """Return the bytes of the method's arrays."""
        return 0

    @classmethod
    def held_bytes(cls, n: int, nnz: int) -> int:
        """Return an upper bound of the bytes that solving holds beside the stored arrays, for any number of columns."""
        return 0

    @classmethod
    def solve_bytes(cls, n: int, t: int, block_columns: int) -> int:
        """Return the bytes of solving t columns: the solution, three float64 blocks, and `blocks32` float32 blocks.

        Or one float64 block, and what a quarter of its columns, which float64 alone solves, takes: 100 bytes a value.
        """
        width = min(t, block_columns)
        return n * (16 + 8 * t + max((3 * 8 + 4 * cls.blocks32) * width, 8 * width + 100 * -(-width // 4)))

    @classmethod
    def solver_bytes(cls, n: int, nnz: int, n_columns: int, *, guess: bool) -> int:
        """Return the bytes of the arrays of a prepared solver and of A; guess : whether upper bounds are included."""
        guessed = not guess and cls.stored_guess
        return ScaledMatrix.stored_bytes(n, nnz) + (0 if guessed else cls.stored_bytes(n, nnz, n_columns))

    @classmethod
    def opened_bytes(cls, n: int, nnz: int, *, guess: bool) -> int:
        """Return the bytes that a solver holds beside its stored arrays: the float32 entries, and `held_bytes`."""
        return 4 * nnz + (0 if not guess and cls.held_guess else cls.held_bytes(n, nnz))


def scaled_to_one(norms: np.ndarray) -> np.ndarray:
    """Return 1 / norms (t,), 0 where a norm is 0."""
    return np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)


@dataclass(frozen=True)
class Iterative(SolverMethod):
    """Conjugate gradients, in float32 unless more is asked for."""

    correction_iterations: ClassVar[float] = math.inf  # in float32, after which rounding is what stops a column

    def preconditioner(self, t: int, dtype: type = np.float32) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return what `conjugate_gradients` takes for blocks of t columns; None for the unit diagonal of A."""
        return None

    def _off_null(self, dtype: type, t: int) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return the preconditioner without the null space of A, where its rounding errors would grow."""
        precondition = self.preconditioner(t, dtype)
        if precondition is None or not self.A.singular.any():
            return precondition

        def projected(B: np.ndarray) -> np.ndarray:
            X = precondition(B)
            self.A.project_null(X)
            return X

        return projected

    def correct(self, R: np.ndarray, norms: np.ndarray, needed: np.ndarray, budget: np.ndarray, *,
                precise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        scale = scaled_to_one(norms)
        reduction = per_correction(needed, precise=precise)
        if precise:
            return self.gradients(R * scale, reduction, budget)
        return self.gradients(to_float32(R, scale), reduction, np.minimum(budget, self.correction_iterations))

    def gradients(self, R: np.ndarray, reduction: np.ndarray, budget: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what `conjugate_gradients` returns of R (n, t), float32 or float64, which is overwritten."""
        return conjugate_gradients(self.A, R, reduction, budget, partial(self._off_null, R.dtype.type))

    def entries(self) -> tuple[float, float]:
        """Return the entries that the preparation touches, and an iteration for one column: the work for `auto`."""
        return 0.0, plain_entries(self.A)


def plain_entries(A: ScaledMatrix) -> float:
    """Return the entries that an iteration without a preconditioner touches for one column."""
    return A.data.size + VECTOR_PASSES * A.n


def per_correction(needed: np.ndarray, *, precise: bool = False) -> np.ndarray:
    """Return the reduction of each residual by one of the fewest possible float32 corrections, or by one in float64."""
    if precise:
        return PRECISE * needed
    aim = ROUNDED * needed
    corrections = np.maximum(1, np.ceil(np.log(aim) / math.log(DIGITS)))
    return np.minimum(aim ** (1 / corrections), 0.9)


@dataclass(frozen=True)
class Direct(SolverMethod):
    """An LU factor of A, made where it is used; 1 is added at one vertex of each singular component, its ground.

    Tasks of one thread share it, as far as the cache for factors has room.

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
        matrix = sp.csc_matrix(matrix)
        content = hashlib.sha256()
        for array in (matrix.indptr, matrix.indices, matrix.data):
            content.update(array)

        def factored() -> tuple[SuperLU, int]:
            lu = splu(matrix, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
            return lu, LU_BYTES * lu.nnz

        lu: SuperLU = FACTORS.get(content.digest(), factored)
        return lu

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
        return LU_BYTES * min(n * n, FILL * nnz)
