"""Functions of a symmetric positive block tridiagonal matrix, such as the block Lanczos process makes (`krylov.py`)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

Inverses = dict[float, list[np.ndarray]]  # blocks (t, t) of each step by ridge: `BlockTridiagonal.block_inverses`


@dataclass(frozen=True)
class Functions:
    """Functions `(x + ridge)^-power` of eigenvalues x >= 0, one an entry of two lists (m,)."""

    ridge: tuple[float, ...]
    power: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ridge)

    def take(self, places: np.ndarray) -> "Functions":
        """Return some of the functions."""
        return Functions(tuple(self.ridge[place] for place in places), tuple(self.power[place] for place in places))

    def by_ridge(self) -> dict[float, list[int]]:
        """Return the places of the functions of each ridge."""
        return {ridge: [place for place, each in enumerate(self.ridge) if each == ridge]
                for ridge in dict.fromkeys(self.ridge)}

    def of(self, x: np.ndarray) -> np.ndarray:
        """Return the values (m, k) at x (k,)."""
        return (np.maximum(x, 0.0) + np.array(self.ridge)[:, None]) ** -np.array(self.power, np.float64)[:, None]

    def hardest(self) -> np.ndarray:
        """Return the places of the smallest ridge of each power, the last to converge."""
        return np.array([min((place for place, each in enumerate(self.power) if each == power),
                             key=self.ridge.__getitem__) for power in sorted(set(self.power))], np.int64)


@dataclass(frozen=True)
class BlockTridiagonal:
    """The matrix T, with blocks alpha (k, t, t) on the diagonal and beta[1:] below it; beta (k, t, t).

    Where a Krylov space has fewer directions than columns, rows and columns of alpha and rows of beta are zero.
    """

    alpha: np.ndarray
    beta: np.ndarray

    def first(self, steps: int) -> "BlockTridiagonal":
        """Return T after fewer steps."""
        return BlockTridiagonal(self.alpha[:steps], self.beta[:steps])

    def functions(self, functions: Functions) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the place of each function and `f(T) e_1 beta_0` (k, t, t), as long as T plus the ridge is positive."""
        for ridge, places in functions.by_ridge().items():
            powers = self.inverse_powers(ridge, max(functions.power[place] for place in places))
            for place in places if powers else ():
                yield place, powers[functions.power[place] - 1]
            powers.clear()  # before the next are made

    def combined(self, functions: Functions, coef: np.ndarray) -> np.ndarray:
        """Return the sum over functions of `f(T) e_1 beta_0 coef[f]` (k, t, c), for coef (m, t, c)."""
        total = np.zeros((*self.alpha.shape[:2], coef.shape[2]))
        for place, weights in self.functions(functions):
            total += weights @ coef[place]
        return total

    def errors(self, ridge: float, powers: Sequence[int], known: Inverses,
               solved: Sequence[np.ndarray] = ()) -> np.ndarray:
        """Return bounds (p, t) of the errors of `beta_0' (T + ridge I)^-p e_1 beta_0` on the diagonal, relative to it.

        They are differences from Gauss-Radau quadrature with a node at -ridge / 2, below all eigenvalues: the last
        block of T becomes `beta (T_(k - 1) + ridge / 2)^-1 beta' - ridge / 2`. Infinite where T is not positive.
        known : block inverses of the first steps by ridge, to which those of ridge and ridge / 2 are added. solved :
        what `inverse_powers` returns for the ridge, at least the half of `powers`; computed if empty.
        """
        errors = np.full((len(powers), self.alpha.shape[1]), np.inf)
        before = self.first(len(self.alpha) - 1)
        if len(self.alpha) < 2 or not (before.block_inverses(ridge / 2, known) and before.block_inverses(ridge, known)):
            return errors
        beta, node = self.beta[-1], known[ridge / 2][len(before.alpha) - 1]
        same = known[ridge][:len(before.alpha)]
        radau = beta @ (node - same[-1]) @ beta.T + ridge / 2 * np.eye(len(beta))
        last = _inverse(radau)
        inverses = self.block_inverses(ridge, known)
        if not inverses or last is None:
            return errors
        below = self._diagonals(solved or self._solved(inverses, _half(powers)), powers)
        above = self._diagonals(self._solved([*same, last], _half(powers)), powers)
        return np.abs(np.divide(above - below, below, where=below > 0, out=np.zeros_like(below)))

    def resolved(self, functions: Functions, tol: float, dropped: float = 0.0) -> np.ndarray:
        """Return which functions (m,) what T leaves out changes by less than `tol`.

        The basis is in float32, which moves eigenvalues x by d = 2^-24 times the largest. Directions of the length
        `dropped` that the basis leaves out move them by up to `d = dropped^2 / r`. Both change `(x + r)^-p` by the
        share `p d / (x + r)`, so it is enough that T plus r is above `p d / tol`.
        """
        diagonals = np.einsum("kii->ki", self.alpha)
        largest = 2 * float(diagonals.max(initial=0.0))
        no_direction = np.where(diagonals == 0, largest, 0.0)
        alpha = self.alpha + no_direction[:, :, None] * np.eye(self.alpha.shape[1])
        T, moved = replace(self, alpha=alpha), np.maximum(2.0**-24 * largest, dropped**2 / np.array(functions.ridge))
        bounds = np.array(functions.ridge) - np.array(functions.power) * moved / tol
        order, first = np.argsort(bounds), 0  # T plus a bound is positive for all bounds from one on
        while len(alpha) and first < len(bounds) and not T.block_inverses(bounds[order[first]]):
            first += 1
        is_resolved = np.zeros(len(bounds), bool)
        is_resolved[order[first:]] = True
        return is_resolved

    def _diagonals(self, solved: Sequence[np.ndarray], powers: Sequence[int]) -> np.ndarray:
        """Return the diagonals (p, t) of `beta_0' (T + ridge I)^-p e_1 beta_0`.

        A power is the product of two halves, so it is enough to have solved half of them.
        """
        def product(power: int) -> np.ndarray:
            if power == 1:
                return np.einsum("ij,ij->j", self.beta[0], solved[0][0])
            return np.einsum("kij,kij->j", solved[power // 2 - 1], solved[(power + 1) // 2 - 1])

        return np.array([product(power) for power in powers])

    def block_inverses(self, ridge: float, known: Inverses | None = None) -> list[np.ndarray]:
        """Return for each step the last block (t, t) of the inverse of `T + ridge I` up to it, in 5 k t^3 flops.

        The list is empty if the matrix is not positive definite. known : those of the first steps of T, by ridge, or
        none; the others are added.
        """
        inverses = [] if known is None else known.setdefault(ridge, [])
        added = ridge * np.eye(self.alpha.shape[1])
        for step in range(len(inverses), len(self.alpha)):
            S = self.alpha[step] + added
            if step:
                S -= self.beta[step] @ inverses[-1] @ self.beta[step].T
            inverse = _inverse(S)
            if inverse is None:
                return []
            inverses.append(inverse)
        return inverses[:len(self.alpha)]

    def inverse_powers(self, ridge: float, power: int, known: Inverses | None = None) -> list[np.ndarray]:
        """Return `(T + ridge I)^-p e_1 beta_0` (k, t, t) for p from 1 to `power`; none if T is not positive definite.

        known : as in `block_inverses`.
        """
        if not len(self.alpha):  # all columns lie in the null space
            return [np.zeros((0, *self.alpha.shape[1:]))] * power
        inverses = self.block_inverses(ridge, known)
        return self._solved(inverses, power) if inverses else []

    def _solved(self, inverses: Sequence[np.ndarray], power: int) -> list[np.ndarray]:
        """Return `(T + ridge I)^-p e_1 beta_0` (k, t, t) for p from 1 to `power`, by block elimination.

        inverses : what `block_inverses` returns for the ridge. A power takes 8 k t^3 flops.
        """
        k, t = self.alpha.shape[:2]
        X, powers = np.zeros((k, t, t)), list[np.ndarray]()
        X[0] = self.beta[0]
        for _ in range(power):
            X = X.copy()
            for step in range(1, k):
                X[step] -= self.beta[step] @ (inverses[step - 1] @ X[step - 1])
            X[-1] = inverses[-1] @ X[-1]
            for step in range(k - 2, -1, -1):
                X[step] = inverses[step] @ (X[step] - self.beta[step + 1].T @ X[step + 1])
            powers.append(X)
        return powers


def _half(powers: Sequence[int]) -> int:
    """Return the power whose product with itself, or with the one before, is the largest of `powers`."""
    return (max(powers) + 1) // 2


def _inverse(S: np.ndarray) -> np.ndarray | None:
    """Return the inverse of a symmetric matrix (t, t), of which the lower triangle is read; None if not positive."""
    factor, failed = dpotrf(S, lower=True)
    if failed:
        return None
    lower: np.ndarray = dpotri(factor, lower=True)[0]  # zero above the diagonal
    return lower + lower.T - np.diag(lower.diagonal())
