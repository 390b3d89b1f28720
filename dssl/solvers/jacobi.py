"""Plain conjugate gradients: A has a unit diagonal, so Jacobi's preconditioner is built in."""

from dataclasses import dataclass
from typing import Self

from .method import Iterative
from .operators import ScaledMatrix


@dataclass(frozen=True)
class Jacobi(Iterative):
    """Nothing is prepared."""

    name = "jacobi"

    @classmethod
    def prepare(cls, A: ScaledMatrix, n_columns: int, *, n_vectors: int | None = None, seed: int = 0) -> Self:
        return cls(A)
