"""What a solver's method is: prepared once for a matrix, it brings the residuals of many blocks of columns down."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .columns import to_float32
from .operators import ScaledMatrix
from .pcg import conjugate_gradients

DIGITS = 5e-6  # the most one float32 correction reduces a residual
ROUNDED = 0.6  # of what is needed: the true residual ends a little above that of the recursion
PREPARED_SECONDS = 2.5e-5  # a row, of eigenvectors or of a hierarchy, with the probes that choose them
VECTOR_PASSES = 8  # over vectors (n,) in an iteration: what one touches beside the matrix, in entries of it


@dataclass(frozen=True)
class SolverMethod(ABC):
    """A way to correct columns of `A X = B`; the outer loop that forms residuals in float64 is `Solver`'s."""

    A: ScaledMatrix

    name: ClassVar[str]
    description: ClassVar[str] = ""  # as the report says it
    iterates: ClassVar[bool] = True  # so that where it begins matters
    # What is not known before it is prepared, so that `stored_bytes` or `held_bytes` are guesses from above.
    stored_guess: ClassVar[tuple[str, ...]] = ()
    held_guess: ClassVar[tuple[str, ...]] = ()
    blocks32: ClassVar[int] = 4  # float32 blocks (n, t) that one correction takes
    prepare_seconds: ClassVar[float] = 0.0  # a row, on one core

    @classmethod
    def prepare(cls, A: ScaledMatrix, n_columns: int, *, n_vectors: int | None = None, random_state: int = 0) -> Self:
        """Return the method prepared for `n_columns` columns in all."""
        return cls(A)

    def deflate(self, X: np.ndarray, B: np.ndarray, R: np.ndarray, active: np.ndarray) -> None:
        """Solve exactly what the method knows of A: move the active columns of X (n, t), and the residual R."""
        return

    @abstractmethod
    def correct(self, R: np.ndarray, norms: np.ndarray, needed: np.ndarray, budget: np.ndarray, *,
                precise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return E near `A^-1 R diag(1/norms)`, and iterations; a column of norm 0 is not solved.

        `needed` (t,) is the factor by which each residual must fall, `budget` (t,) the iterations it may take.
        precise : in float64, to the end; where links are weaker than the rounding of float32, no correction in that
        makes headway. It takes up to four times the memory.
        """

    @property
    def attributes(self) -> dict[str, Any]:
        """Return what was prepared; JSON."""
        return {}

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes, those of A left out."""
        return {}

    @classmethod
    def from_arrays(cls, A: ScaledMatrix, arrays: dict[str, np.ndarray]) -> Self:
        """Return the method whose arrays `to_arrays` gave."""
        return cls(A)

    @classmethod
    def prepare_bytes(cls, n: int, nnz: int, n_columns: int) -> float:
        """Return the most bytes that preparing takes beside A, n unknowns with nnz entries."""
        return 0.0

    @classmethod
    def stored_bytes(cls, n: int, nnz: int, n_columns: int) -> int:
        """Return the bytes of the method's arrays."""
        return 0

    @classmethod
    def held_bytes(cls, n: int, nnz: int) -> int:
        """Return the most bytes that solving holds beside the stored arrays, however many columns."""
        return 0

    @classmethod
    def solve_bytes(cls, n: int, t: int, block_columns: int) -> int:
        """Return the most bytes that solving t columns takes: the solution, and the arrays of one block.

        Beside the right-hand sides and the method's own arrays: three blocks in float64, and `blocks32` in float32.
        """
        return n * (8 * t + (3 * 8 + 4 * cls.blocks32) * min(t, block_columns))

    @classmethod
    def solver_bytes(cls, n: int, nnz: int, n_columns: int, *, guess: bool) -> int:
        """Return the bytes of a prepared solver's arrays, those of A too; with what is a guess, or without."""
        guessed = not guess and cls.stored_guess
        return ScaledMatrix.stored_bytes(n, nnz) + (0 if guessed else cls.stored_bytes(n, nnz, n_columns))

    @classmethod
    def opened_bytes(cls, n: int, nnz: int, *, guess: bool) -> int:
        """Return what a solver holds beside its stored arrays: the entries in float32, and what it makes anew."""
        return 4 * nnz + (0 if not guess and cls.held_guess else cls.held_bytes(n, nnz))


def scaled_to_one(norms: np.ndarray) -> np.ndarray:
    """Return 1 / norms (t,), 0 where a norm is 0."""
    return np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)


@dataclass(frozen=True)
class Iterative(SolverMethod):
    """Conjugate gradients in float32."""

    def preconditioner(self, t: int) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return what `conjugate_gradients` takes for blocks of t columns; None for Jacobi's."""
        return None

    def correct(self, R: np.ndarray, norms: np.ndarray, needed: np.ndarray, budget: np.ndarray, *,
                precise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        scale = scaled_to_one(norms)
        if precise:  # plainly: a preconditioner in float32 is as wrong on weak links
            return conjugate_gradients(self.A, R * scale, ROUNDED * needed, budget)
        return conjugate_gradients(self.A, to_float32(R, scale), _per_correction(needed), budget,
                                   self.preconditioner(R.shape[1]))

    def entries(self) -> tuple[float, float]:
        """Return the entries that preparing touches, and an iteration for one column: the work that `auto` counts."""
        return 0.0, self.A.data.size + VECTOR_PASSES * self.A.n


@dataclass(frozen=True)
class Jacobi(Iterative):
    """Plain conjugate gradients: A has a unit diagonal, so Jacobi's preconditioner is built in."""

    name = "jacobi"
    description = "conjugate gradients with Jacobi preconditioning"


def _per_correction(needed: np.ndarray) -> np.ndarray:
    """Return how far one correction reduces each residual: evenly over as few corrections as float32 allows."""
    aim = ROUNDED * needed
    corrections = np.maximum(1, np.ceil(np.log(aim) / math.log(DIGITS)))
    return np.minimum(aim ** (1 / corrections), 0.9)
