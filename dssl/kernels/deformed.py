"""Kernels deformed by a graph: the base kernel minus what the regularizer says about the anchors.

Every deformation here has the form

    K~(x, z) = K(x, z) - V(x)' V(z),    V(x) = sqrt(eta) C^-1 F' k(x),    k(x) = (K(s_1, x), ..., K(s_m, x))

with anchors s_i, one Cholesky factor C and a root F (the identity on the subsample). It is symmetric by construction,
positive semi-definite to rounding, and needs no inverse of the regularizer.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpocon, dpotrf, dpstrf

from ..errors import DataError, IntegrityError, ParameterError, explain, require
from ..storage.blocks import Arrays
from ..storage.csr import as_rows, point_arrays, points_nbytes, points_of, stack_points
from .base import Kernel, MercerKernel, diagonal_of, kernel_from_dict

ASYMMETRY = 1e-8  # relative to the largest entry: what rounding leaves, and less than a solver's error
LARGEST_JITTER = 1e-8  # relative to the diagonal
VERSION = 1


@dataclass(frozen=True, eq=False)
class DeformedKernel:
    """The kernel of the space with inner product <h, g>_K + eta h' Q g on the anchors (eqs. 3 and 5).

    Made by `full_deformation`, `subsample_deformation` and `budget_deformation`.
    """

    kernel: Kernel
    anchors: Any  # (m, d), an array or sparse rows
    eta: float
    factor: np.ndarray | None  # (r, r), lower; None when eta or Q is 0: the kernel is then the base kernel
    root: np.ndarray | None = None  # (m, r); None stands for the identity, r = m
    jitter: float = 0.0  # what was added to the factored matrix, relative to its diagonal

    def __call__(self, X: Any, Z: Any, /, features: np.ndarray | None = None) -> np.ndarray:
        """Return K~(X, Z), shape (n, m), of arrays or sparse rows.

        With `features` of Z from `features(Z)` it costs two kernel blocks, one triangular solve with n columns
        and one matrix product; without, the block k(Z) and its solve on top. If X is Z the block is symmetric.
        """
        block = self.kernel(X, Z)
        if self.factor is None:
            return block
        V_Z = self.features(Z) if features is None else features
        V_X = V_Z if X is Z else self.features(X)
        require(V_Z.shape == (len(self.factor), Z.shape[0]),
                f"features have shape {V_Z.shape} for {Z.shape[0]} points and rank {len(self.factor)}", error=DataError,
                why="they belong to other points or another kernel", fix="pass features(Z) of this kernel and this Z")
        deformed = V_X.T @ V_Z
        np.subtract(block, deformed, out=deformed)
        if X is Z:
            np.fill_diagonal(deformed, np.maximum(np.diagonal(deformed), 0.0))
        return deformed

    def features(self, Z: Any) -> np.ndarray:
        """Return V(Z) = sqrt(eta) C^-1 F' K(anchors, Z), shape (r, m), for `features=` of repeated calls."""
        if self.factor is None:
            return np.zeros((0, Z.shape[0]))
        k = np.asarray(self.kernel(Z, self.anchors), np.float64).T
        rhs = k if self.root is None else self.root.T @ k
        return np.sqrt(self.eta) * solve_triangular(self.factor, rhs, lower=True, check_finite=False)

    def diagonal(self, X: Any) -> np.ndarray:
        """Return K~(x_i, x_i), shape (n,), clipped at 0."""
        V = self.features(X)
        return np.maximum(diagonal_of(self.kernel, X) - np.einsum("ij,ij->j", V, V), 0.0)

    def expansion(self, Z: Any, coef: np.ndarray) -> tuple[Kernel, Any, np.ndarray]:
        """Return the base kernel, points and coefficients of the function sum_i coef_i K~(z_i, .).

        It equals sum_i coef_i K(z_i, .) - sum_j b_j K(s_j, .) with b = sqrt(eta) F C^-T V(Z) coef, so evaluating it at
        many points needs no solve.
        """
        if self.factor is None:
            return self.kernel, Z, coef
        b = np.sqrt(self.eta) * solve_triangular(self.factor, self.features(Z) @ coef, lower=True, trans="T",
                                                 check_finite=False)
        b = b if self.root is None else self.root @ b
        return self.kernel, stack_points(Z, self.anchors), np.concatenate([coef, -b])

    def row_bytes(self, n_features: int, n_points: int) -> int:
        """Return the bytes one row of X takes in a call: two blocks, and k(x) as kernel, product and solution."""
        m = self.anchors.shape[0]
        base = getattr(self.kernel, "row_bytes", lambda d, n: 24 * n + 16 * d)
        return 16 * n_points + max(8 * n_points, 24 * m) + base(n_features, 0)

    @property
    def nbytes(self) -> int:
        """Bytes of the anchors, the factor and the root."""
        held = sum(array.nbytes for array in (self.factor, self.root) if array is not None)
        return points_nbytes(self.anchors) + held

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return named arrays and JSON attributes, read by `from_arrays`.

        Raises
        ------
        ParameterError : the base kernel is a plain function, which has no stored form.
        """
        if not isinstance(self.kernel, MercerKernel):
            raise ParameterError(explain(
                f"the base kernel {self.kernel!r} cannot be stored",
                why="a function is code, and models hold numbers only, so that opening one runs nothing",
                fix="use a named kernel (see dssl.kernels.base.KERNELS) for a model that is to be stored",
            ))
        held = {**point_arrays("anchors", self.anchors), "factor": self.factor, "root": self.root}
        attributes = {"type": "DeformedKernel", "version": VERSION, "kernel": self.kernel.to_dict(),
                      "eta": self.eta, "jitter": self.jitter}
        return {name: array for name, array in held.items() if array is not None}, attributes

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "DeformedKernel":
        """Return the kernel that `to_arrays` described; nothing is factored again.

        Raises
        ------
        IntegrityError : the attributes are of another noun or version, or arrays are missing or do not fit.
        """
        described = f"{attributes.get('type')} version {attributes.get('version')}"
        shapes = {name: array.shape for name, array in arrays.items()}
        anchors = points_of(arrays, "anchors") if {"anchors", "anchors.shape"} & set(arrays) else np.empty((0, 0))
        m, (r, columns) = anchors.shape[0], shapes.get("factor", (0, 0))
        fits = m > 0 and r == columns and ("factor" not in shapes or shapes.get("root", (r, r)) == (m, r))
        require(described == f"DeformedKernel version {VERSION}" and fits,
                f"{described} with arrays of shapes {shapes} is not a deformed kernel of version {VERSION}",
                error=IntegrityError, why="the arrays must be the ones that to_arrays returned",
                fix="store the model again with this version")
        return cls(kernel_from_dict(attributes["kernel"]), anchors, float(attributes["eta"]),
                   arrays.get("factor"), arrays.get("root"), float(attributes["jitter"]))


@dataclass(frozen=True)
class StoredDeformedKernel:
    """A deformed kernel whose arrays lie in storage: small in a task, opened where it is called."""

    arrays: Arrays
    attributes: dict[str, Any]

    def load(self) -> DeformedKernel:
        """Return the kernel; `Arrays` keeps what it read, and nothing is factored."""
        return DeformedKernel.from_arrays(self.arrays.load(), self.attributes)

    def __call__(self, X: Any, Z: Any, /, features: np.ndarray | None = None) -> np.ndarray:
        return self.load()(X, Z, features=features)

    def diagonal(self, X: Any) -> np.ndarray:
        """Return K~(x_i, x_i), shape (n,)."""
        return self.load().diagonal(X)

    def features(self, Z: Any) -> np.ndarray:
        """Return V(Z), as `DeformedKernel.features`."""
        return self.load().features(Z)

    def expansion(self, Z: Any, coef: np.ndarray) -> tuple[Kernel, Any, np.ndarray]:
        """Return the function in the base kernel, as `DeformedKernel.expansion`."""
        return self.load().expansion(Z, coef)

    def row_bytes(self, n_features: int, n_points: int) -> int:
        """Return the bytes one row of X takes in a call, as `DeformedKernel.row_bytes`."""
        return self.load().row_bytes(n_features, n_points)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored arrays."""
        return self.load().nbytes


def subsample_deformation(kernel: Kernel, X_S: Any, inverse_on_subsample: np.ndarray,
                          eta: float) -> DeformedKernel:
    """Return the kernel of eq. 6, K(x, z) - eta k_S(x)' (A + eta K_SS)^-1 k_S(z), with A = Q^+ on the subsample.

    Parameters
    ----------
    X_S : points of the subsample, shape (s, d): Rows, an array or a sparse matrix.
    inverse_on_subsample : A = Q^+_SS, shape (s, s), symmetric positive semi-definite; it depends on neither eta nor
        the kernel, so one A serves a whole grid.
    eta : weight of the regularizer; 0 returns K itself.

    Returns
    -------
    DeformedKernel; s^3/3 flops and 3 s^2 floats to make.

    Raises
    ------
    ParameterError : eta < 0 or not finite.
    DataError : shapes, NaN, asymmetry, or A + eta K_SS that is not positive definite even with jitter.

    Notes
    -----
    Equal to the printed form with Q_hat = A^+ whenever A is positive definite, as it is for Q = (L + ridge I)^p. Where
    A has a null direction v, the printed form leaves v'h free, and this one, its limit for A + e I, holds v'h at
    zero: a Laplacian without a ridge and a component that lies wholly in S. Pass `pinv(A)` to `full_deformation` there.

    References
    ----------
    Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS 2012, eqs. 6 and 7.
    """
    anchors = _anchors(X_S)
    A = _symmetric("inverse_on_subsample", inverse_on_subsample, anchors.shape[0])
    _require_eta(eta)
    if eta == 0:
        return DeformedKernel(kernel, anchors, 0.0, None)
    factor, jitter = _cholesky(A + eta * _anchor_gram(kernel, anchors))
    return DeformedKernel(kernel, anchors, float(eta), factor, jitter=jitter)


def full_deformation(kernel: Kernel, X: Any, Q: Any, eta: float) -> DeformedKernel:
    """Return the kernel of eq. 4, K(x, z) - eta k_x' (I + eta Q K)^-1 Q k_z, measuring functions at every row of X.

    With a pivoted Cholesky root Q = F F' it is K(x, z) - eta k_x' F (I + eta F' K F)^-1 F' k_z, so Q may be singular.

    Parameters
    ----------
    X : points, shape (n, d): Rows, an array or a sparse matrix.
    Q : regularizer, shape (n, n), symmetric positive semi-definite; an array, a sparse matrix or an operator.
    eta : weight of the regularizer; 0 returns K itself.

    Returns
    -------
    DeformedKernel; O(n^3) time, 5 n^2 floats to make and 2 n^2 to keep.

    Raises
    ------
    ParameterError : eta < 0 or not finite.
    DataError : shapes, NaN, or Q that is not symmetric positive semi-definite.

    References
    ----------
    Sindhwani, Niyogi, Belkin, "Beyond the point cloud", ICML 2005, Proposition 2.2.
    """
    anchors = _anchors(X)
    dense = Q if isinstance(Q, np.ndarray) else Q @ np.eye(Q.shape[1])
    Q = _symmetric("Q", dense, anchors.shape[0])
    _require_eta(eta)
    if eta == 0:
        return DeformedKernel(kernel, anchors, 0.0, None)
    F = psd_root(Q)
    if F.shape[1] == 0:
        return DeformedKernel(kernel, anchors, float(eta), None)
    inner = eta * (F.T @ _anchor_gram(kernel, anchors) @ F)
    factor, jitter = _cholesky(np.eye(F.shape[1]) + 0.5 * (inner + inner.T))
    return DeformedKernel(kernel, anchors, float(eta), factor, root=F, jitter=jitter)


def budget_deformation(kernel: Kernel, X_S: Any, Q_S: Any, eta: float) -> DeformedKernel:
    """Return the "budget" baseline of section 5.1: eq. 4 on the subsample alone.

    `Q_S`, shape (s, s), comes from a graph built on the subsample only, so every other unlabeled point is discarded.
    Parameters, cost and errors as in `full_deformation`.
    """
    return full_deformation(kernel, X_S, Q_S, eta)


def psd_root(Q: np.ndarray) -> np.ndarray:
    """Return F, shape (n, rank), with F F' = Q, by Cholesky with pivots.

    Raises
    ------
    DataError : Q is not positive semi-definite: F F' misses it by more than rounding.
    """
    n = len(Q)
    lower, pivots, rank, _ = dpstrf(Q, lower=1)
    F = np.empty((n, rank))
    F[pivots - 1] = np.tril(lower)[:, :rank]
    largest = np.abs(Q).max(initial=0.0)
    missed = np.abs(Q - F @ F.T).max(initial=0.0)
    require(missed <= 1e-10 * largest, f"Q is not positive semi-definite: its root misses it by {missed:.3g} "
            f"of {largest:.3g}", error=DataError,
            why="h'Qh would be negative for some h, so that no space of functions has this norm",
            fix="check the sign and the powers of Q; for Q = L^p take p >= 0 and symmetric weights >= 0")
    return F


def factor_positive(B: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of B = A + eta K_SS, with jitter as for the deformations; B is overwritten."""
    return _cholesky(B)[0]


def _cholesky(B: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the lower factor of B, and the jitter it took, relative to the diagonal of B; 0 for most.

    Jitter is added where the factorization fails, or where the reciprocal condition is at rounding level: anchors that
    are equal, for example, whose kernel values are equal too, so that the jitter does not change the kernel.
    """
    rounding = len(B) * np.finfo(float).eps
    diagonal = np.diagonal(B).copy()
    norm = np.abs(B).sum(0).max()
    jitter = 0.0
    while jitter <= LARGEST_JITTER:
        np.fill_diagonal(B, diagonal * (1.0 + jitter))
        factor, failed = dpotrf(B, lower=1, clean=1)
        if not failed and (jitter or dpocon(factor, norm, uplo="L")[0] > rounding):
            return factor, jitter
        jitter = max(rounding, 10 * jitter)
    raise DataError(explain(
        f"the matrix to factor ({len(B)} x {len(B)}) is not positive definite, even with {LARGEST_JITTER:g} "
        "of its diagonal added",
        why="the kernel or the inverse on the subsample has negative eigenvalues, beyond rounding",
        fix="solve for the inverse with a smaller tolerance, and check that the kernel is positive semi-definite",
    ))


def _anchors(X: Any) -> Any:
    """Return the anchors as one array or as sparse rows, shape (m, d), after checking that they are points."""
    anchors: Any = as_rows(X).read_all()
    require(anchors.ndim == 2 and anchors.shape[0] > 0, f"anchors have shape {anchors.shape}", error=DataError,
            why="functions are measured at the anchors, one row each",
            fix="pass an array of shape (n_anchors, n_features)")
    values = anchors.data if sparse.issparse(anchors) else anchors
    require(bool(np.isfinite(values).all()), "the anchors hold NaN or infinite values", error=DataError,
            why="every value of the kernel would be NaN", fix="drop or impute these rows first")
    return anchors


def _anchor_gram(kernel: Kernel, anchors: Any) -> np.ndarray:
    """Return K on the anchors, checked and made exactly symmetric."""
    return _symmetric(f"the Gram matrix of {kernel!r}", kernel(anchors, anchors), anchors.shape[0])


def _symmetric(what: str, M: Any, n: int) -> np.ndarray:
    """Return M as a float64 array that is exactly symmetric.

    Raises
    ------
    DataError : another shape than (n, n), values that are not finite, or asymmetry beyond rounding.
    """
    M = np.asarray(M, np.float64)
    require(M.shape == (n, n), f"{what} has shape {M.shape}, expected ({n}, {n})", error=DataError,
            why="it has one row and one column per anchor",
            fix="pass the rows and columns of the anchors, in their order")
    require(bool(np.isfinite(M).all()), f"{what} holds NaN or infinite values", error=DataError,
            why="the deformed kernel would be NaN everywhere",
            fix="look for solves that did not converge, weights that overflow, and features that are not finite")
    largest, asymmetry = np.abs(M).max(), np.abs(M - M.T).max()
    require(asymmetry <= ASYMMETRY * largest,
            f"{what} is not symmetric: entries differ by {asymmetry:.3g}, the largest is {largest:.3g}",
            error=DataError, why="an inner product is symmetric",
            fix="symmetrize it first if the difference is a solver's tolerance")
    return 0.5 * (M + M.T)


def _require_eta(eta: float) -> None:
    require(0 <= eta < np.inf, f"eta={eta!r}, expected a finite number >= 0",
            why="a negative weight rewards functions that are rough on the graph",
            fix="use eta=0 for the base kernel, and values such as 0.01 to 100 for more and more of the graph")
