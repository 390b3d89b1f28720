"""Parameters of the systems of LapRLS, and the labeled points with their folds."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from ...base.digest import JsonObject
from ...base.errors import require
from ...graph.regularizer import LaplacianKind
from ...solvers.solver_params import Stop
from ..losses import SQUARES, SmoothLoss

CUTOFFS = {"float64": 1e-10, "float32": 1e-6}  # of whitening "auto"
FLOAT32_POINTS = 10_000  # from which float32 saves time

Precision = Literal["auto", "float64", "float32"]
Solver = Literal["auto", "nystrom-pcg", "nystrom-cg", "nystrom-direct", "pcg", "cg", "direct"]
Preconditioner = Literal["edges", "paper", "paper-5", "paper-6", "none"]
HeldOut = Literal["auto", "closed_form", "influence", "refined_influence", "refit"]
HeldOutPoints = Literal["transductive", "inductive"]


@dataclass(frozen=True, kw_only=True)
class SystemParams:
    """How the systems of LapRLS and LapSVM are formulated and solved.

    Parameters
    ----------
    solver : str
        The solver: "nystrom-direct" forms Gram matrices, "nystrom-pcg" and
        "nystrom-cg" iterate; "direct", "pcg" and "cg" are the same on all points
        instead of landmarks, equation (3). "auto" takes "nystrom-direct" or
        "nystrom-pcg", whichever costs less.
    laplacian : "normalized" or "unnormalized"
        The Laplacian of the graph's energy.
    preconditioner : "edges", "paper", "paper-5", "paper-6" or "none"
        The preconditioner of "nystrom-pcg": "edges" samples edges and labels;
        "paper" is equation (5) for m <= n^1/2 labels and (6) for more, "paper-5"
        and "paper-6" one of them.
    edges : int
        The number of edges and labels that are sampled for each landmark.
    whitening : float, "auto" or None
        The share of the largest eigenvalue of K_ss below which eigenvalues are
        dropped, or where they are few, landmarks that nearly lie in the span of the
        others; "auto" is 1e-10 in float64 and 1e-6 in float32; None solves the system
        without whitening, as in the paper.
    precision : "auto", "float64" or "float32"
        The precision of kernel blocks; their products are summed in float64. "auto"
        is float32 from 10,000 distinct points on, which takes up to half the time,
        where whitening is "auto", tol is not below its default, and every gamma_A,
        as a number, is at least 1e-7: rounding then changes a function by some
        6e-5 / gamma_A^(1/2) times the root mean square of the labels at most.
        Solvers on all points are in float64.
    tol : float
        The residual, relative to the right-hand side, at which a column ends.
    max_iter : int
        The upper bound of the iterations of a column.
    held_out : str
        How cross-validation computes held-out values. "closed_form" is exact
        without refits, for the squared loss and solvers "nystrom-direct" and
        "direct"; "refit" solves a system for each fold; "auto" takes the closed
        form where it costs less. For other losses "auto" refits; "influence" is
        the influence function, exact to first order in the weight of the labels,
        and "refined_influence" adds a Newton step for each fold. Both need solver
        "direct", "pcg" or "cg", or "nystrom-direct" with at most as many labels as
        landmarks; with more, folds are refitted.
    held_out_points : "transductive" or "inductive"
        Whether held-out points stay in the graph, unlabeled ("transductive"), or
        leave it as new points would be ("inductive"); n in gamma_I / n^2 is then
        the number of remaining points, and held-out landmarks stay landmarks.
        "inductive" needs held_out "auto", "closed_form" or "refit", any solver but
        "nystrom-pcg" and "nystrom-cg", and Gram matrices for each fold.
    random_state : int
        The seed of the preconditioner's samples.

    Raises
    ------
    ParameterError
        A value is out of range, or two of them do not go together.

    References
    ----------
    Li, Liu, Yin, Wang, "Approximate manifold regularization: scalable algorithm and
    generalization analysis", IJCAI 2019, to which the equations belong.

    Examples
    --------
    >>> from dssl import LapRLSClassifier, SystemParams
    >>> system = SystemParams(solver="nystrom-pcg", tol=1e-8)
    >>> model = LapRLSClassifier(solver=system)
    >>> model.solver.preconditioner
    'edges'
    """

    solver: Solver = "auto"
    laplacian: LaplacianKind = "normalized"
    preconditioner: Preconditioner = "edges"
    edges: int = 8
    whitening: float | Literal["auto"] | None = "auto"
    precision: Precision = "auto"
    tol: float = 1e-6
    max_iter: int = 500
    held_out: HeldOut = "auto"
    held_out_points: HeldOutPoints = "transductive"
    random_state: int = 0

    def __post_init__(self) -> None:
        for name, known, usual in (("solver", Solver, "auto"), ("laplacian", LaplacianKind, "normalized"),
                                   ("preconditioner", Preconditioner, "edges"), ("held_out", HeldOut, "auto"),
                                   ("held_out_points", HeldOutPoints, "transductive")):
            require(getattr(self, name) in get_args(known), f"{name}={getattr(self, name)!r}",
                    why=f"it is one of {', '.join(get_args(known))}", fix=f'use "{usual}"')
        whole = isinstance(self.edges, (int, np.integer)) and not isinstance(self.edges, bool)
        require(whole and self.edges >= 1, f"edges={self.edges!r}, expected a whole number >= 1",
                why="it is the number of sampled edges and labels for each landmark", fix="use 8")
        require(self.precision in get_args(Precision), f"precision={self.precision!r}, expected auto, float64 or "
                "float32", why="it is the type of kernel blocks", fix='use "auto"; float32 is faster')
        given = self.whitening if self.whitening not in (None, "auto") else 0.5
        require(isinstance(given, (int, float)) and 0 < given < 1, f"whitening={self.whitening!r}",
                why="it is a share of the largest eigenvalue", fix='use "auto", 1e-10, or None for no whitening')
        require(self.held_out != "closed_form" or self.solver in ("auto", "nystrom-direct", "direct"),
                f"held_out={self.held_out!r} with solver={self.solver!r}", why="iterations have no factor that "
                "serves all folds", fix='use solver "nystrom-direct" or "direct", or held_out "auto"')
        require("influence" not in self.held_out or self.solver not in ("nystrom-pcg", "nystrom-cg"),
                f"held_out={self.held_out!r} with solver={self.solver!r}", why="it needs the labels' Gram matrix, "
                "which iterations on landmarks do not form",
                fix='use solver "nystrom-direct", or "pcg" on all points; or held_out "auto" or "refit"')
        require(not self.inductive or self.solver not in ("nystrom-pcg", "nystrom-cg"),
                f'held_out_points="inductive" with solver={self.solver!r}', why="each fold has its own graph, and "
                "iterations share one", fix='use solver "auto" or "nystrom-direct", or "transductive"')
        require(not self.inductive or "influence" not in self.held_out,
                f'held_out_points="inductive" with held_out={self.held_out!r}', why="the influence function ignores "
                "changes of the graph", fix='use held_out "auto" or "refit", or "transductive"')
        Stop(self.tol, self.max_iter)

    @property
    def inductive(self) -> bool:
        """Return whether held-out points leave the graph."""
        return self.held_out_points == "inductive"

    @property
    def cutoff(self) -> float | None:
        """Return the relative cutoff of eigenvalues of K_ss; None without whitening."""
        return CUTOFFS[self.dtype] if self.whitening == "auto" else self.whitening

    @property
    def dtype(self) -> Literal["float64", "float32"]:
        """Return the type of kernel blocks, float64 where nothing has chosen it yet."""
        return "float64" if self.precision == "auto" else self.precision

    @property
    def itemsize(self) -> int:
        """Return the bytes of a number in a kernel block."""
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class LabelLines:
    """A table with a line for each label: `row` (m,) of its vertex, `fold`, `weight` (m,) > 0, `target` (m, c).

    Folds 0 to `n_held_out_folds` - 1 are held out in turn; labels of fold `n_held_out_folds` never are.
    """

    row: np.ndarray
    fold: np.ndarray
    weight: np.ndarray
    target: np.ndarray
    n_held_out_folds: int = 1

    @classmethod
    def of(cls, row: np.ndarray, weight: np.ndarray, target: np.ndarray,
           folds: Sequence[np.ndarray] = ()) -> "LabelLines":
        """Return the lines of labeled points; folds : the positions that each holds out."""
        fold = np.full(len(row), len(folds), np.int64)
        for number, members in enumerate(folds):
            fold[members] = number
        return cls(row, fold, weight, target, len(folds))

    @property
    def whole(self) -> "LabelLines":
        """Return the same without folds."""
        return replace(self, fold=np.zeros(len(self.fold), np.int64), n_held_out_folds=0)

    @property
    def n_folds(self) -> int:
        """Return the number of folds, one more than `n_held_out_folds` if some points are never held out."""
        return int(self.fold.max(initial=0)) + 1

    @property
    def counts(self) -> list[int]:
        return [int((self.fold == fold).sum()) for fold in range(self.n_held_out_folds)]

    @property
    def training_weights(self) -> tuple[float, ...]:
        """Return the total weight of the training labels of each fold; last, of all labels."""
        whole = float(self.weight.sum())
        return *(whole - float(self.weight[self.fold == fold].sum()) for fold in range(self.n_held_out_folds)), whole

    def intercepts(self, held_out: Sequence[int], fit: bool = True) -> np.ndarray:
        """Return the weighted means (p, c) of the training targets of folds, -1 for no fold; zeros if not `fit`."""
        if not fit:
            return np.zeros((len(held_out), self.target.shape[1]))
        means = {}
        for fold in set(held_out):
            train = self.fold != fold
            means[fold] = np.average(self.target[train], axis=0, weights=self.weight[train])
        return np.array([means[fold] for fold in held_out])

    def columns(self, held_out: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return targets and weights (m, p c), of sum 1, of p functions that hold out these folds (-1: none)."""
        weight = np.stack([np.where(self.fold == fold, 0.0, self.weight) for fold in held_out], axis=1)
        return np.tile(self.target, len(held_out)), np.repeat(weight / weight.sum(axis=0), self.target.shape[1], axis=1)

    def of_own_fold(self, values: np.ndarray) -> np.ndarray:
        """Return the held-out values (m, g, c) from values (m, g F, c) of functions that hold out the F folds in turn.

        NaN for labels that are never held out.
        """
        m, p, c = values.shape
        members = np.flatnonzero(self.fold < self.n_held_out_folds)
        held_out = np.full((m, p // self.n_held_out_folds, c), np.nan)
        of_folds = values[members].reshape(len(members), -1, self.n_held_out_folds, c)
        held_out[members] = of_folds[np.arange(len(members)), :, self.fold[members]]
        return held_out


def calibration_params(params: SystemParams, loss: SmoothLoss, lines: LabelLines) -> SystemParams:
    """Return the parameters of held-out values for probabilities: transductive, with the cheapest method.

    For other losses than the squared one, single labels take the influence function and a Newton step.
    """
    single = loss != SQUARES and max(lines.counts) == 1
    return replace(params, held_out_points="transductive", held_out="refined_influence" if single else "auto")


@dataclass(frozen=True)
class Functions:
    """Coefficients of points (p, s, c) and intercepts (p, c) of p systems, with evidence."""

    coef: np.ndarray
    intercept: np.ndarray
    evidence: JsonObject = field(default_factory=dict)
