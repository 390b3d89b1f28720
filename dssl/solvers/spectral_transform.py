"""Functions of a Laplacian that are largest at its lowest eigenvalues, for the Lanczos process."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from .amg import Multigrid
from .chebyshev import ChebyshevFilter, filter_degree
from .lanczos import SingularMatrix
from .method import Direct
from .solve import Solver, prepare
from .solver_params import SolverParams

GAIN = 1500.0  # of the filter at 0
THIN = 50  # times n: mean square distance to the diagonal, up to which a factor stays sparse
COLUMNS = 100  # to which an inverse is applied, approximately


def largest_eigenvalue(A: SingularMatrix) -> float:
    """Return an upper bound: by `A v = 0` the rows of `V^-1 |A| V` sum to twice the diagonal; 1 for A = 0."""
    return 2 * float(A.diagonal.max()) or 1.0


class Transform(ABC):
    """A function F of A whose largest values are those at A's lowest eigenvalues off the null space."""

    @abstractmethod
    def __call__(self, V: np.ndarray) -> np.ndarray:
        """Return F V for V (n, b)."""

    @abstractmethod
    def at(self, value: float) -> float:
        """Return F at an eigenvalue of A."""

    @abstractmethod
    def contrast(self, value: float) -> float:
        """Return the ratio of F at an eigenvalue of A to F on most vectors."""

    @abstractmethod
    def per_residual(self, theta: np.ndarray) -> np.ndarray:
        """Return an upper bound of the relative residual of A for a unit residual of F at values theta of F."""

    @abstractmethod
    def sharper(self, low: float) -> "Transform":
        """Return a function that separates eigenvalues below about `low` better from those above."""


@dataclass(frozen=True)
class Filtered(Transform):
    """The Chebyshev filter.

    With x an eigenvalue of F's pair and y another: |x - y| <= high where y is in the interval, whose values are within
    [-1, 1]; below it F is convex, with a slope of at least degree^2 / half its length. Products are in the precision of
    the filter's entries, float32 at first: half the bytes, and an error of a few 1e-8 of F at the lowest eigenvalue.
    """

    A: SingularMatrix
    polynomial: ChebyshevFilter

    @classmethod
    def of(cls, A: SingularMatrix, low: float, degree: int, dtype: type[np.floating]) -> "Filtered":
        polynomial = ChebyshevFilter.of(A.diagonal.astype(dtype), A.indptr, A.indices, A.data.astype(dtype), low,
                                        largest_eigenvalue(A), degree)
        return cls(A, polynomial)

    def __call__(self, V: np.ndarray) -> np.ndarray:
        return self.polynomial(V.astype(self.polynomial.data.dtype)).astype(np.float64)

    def at(self, value: float) -> float:
        return self.polynomial.at(value)

    def contrast(self, value: float) -> float:
        return self.at(value)

    def per_residual(self, theta: np.ndarray) -> np.ndarray:
        return np.maximum(1 / np.maximum(theta - 1, 1e-12), 0.5 / self.polynomial.degree**2)

    def sharper(self, low: float) -> "Filtered":
        degree = max(filter_degree(low, self.polynomial.high, GAIN), int(1.5 * self.polynomial.degree) + 1)
        return Filtered.of(self.A, low, degree, np.float64)


@dataclass(frozen=True)
class Inverse(Transform):
    """A power p of L^+. With x and y as above, |x - y| <= |x^-p - y^-p| x^p high."""

    solver: Solver
    linked: np.ndarray  # the vertices with an edge, which the solver is of
    typical: float  # eigenvalue: their mean
    power: int = 1

    @classmethod
    def of(cls, A: SingularMatrix, tol: float) -> "Inverse":
        """Return the first power, by a factor if rows are near the diagonal in their order, or else by multigrid."""
        linked = np.flatnonzero(A.diagonal > 0)
        L = A.matrix()[linked][:, linked]
        below = np.maximum(np.arange(len(linked)) - L.indices[L.indptr[:-1]], 0.0)
        method = Direct.name if float((below**2).mean()) <= THIN * len(linked) else Multigrid.name
        # The error of the largest values of F must be small relative to the smallest that are computed.
        params = SolverParams(method=method, tol=max(1e-3 * tol, 1e-13))
        return cls(prepare(L, COLUMNS, params, A.null[linked]), linked, float(A.diagonal[linked].mean()))

    def __call__(self, V: np.ndarray) -> np.ndarray:
        linked = V[self.linked]
        for _ in range(self.power):
            linked = self.solver.solve(linked).value
        W = np.zeros_like(V)
        W[self.linked] = linked
        return W

    def at(self, value: float) -> float:
        return value**-self.power

    def contrast(self, value: float) -> float:
        return float((self.typical / value) ** self.power)

    def per_residual(self, theta: np.ndarray) -> np.ndarray:
        return 1 / np.maximum(theta, 1e-300)

    def sharper(self, low: float) -> "Inverse":
        return replace(self, power=self.power + 1)
