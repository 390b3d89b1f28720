"""What the systems of LapRLS are made of, beside penalties: how they are written and solved, labels with folds."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from ...base.errors import require
from ...graph.regularizer_params import LaplacianKind
from ...solvers.solver_params import Stop
from ..losses import SQUARES, SmoothLoss

CUTOFFS = {"float64": 1e-10, "float32": 1e-6}  # of whitening "auto"

Solver = Literal["auto", "nystrom-pcg", "nystrom-cg", "nystrom-direct", "pcg", "cg", "direct"]
Preconditioner = Literal["edges", "paper", "paper-5", "paper-6", "none"]
HeldOut = Literal["auto", "closed_form", "influence", "refined_influence", "refit"]
HeldOutPoints = Literal["transductive", "inductive"]


@dataclass(frozen=True, kw_only=True)
class SystemParams:
    """How the systems of LapRLS and LapSVM are written and solved.

    Parameters
    ----------
    solver : str
        How the systems are solved: "nystrom-direct" forms Gram matrices,
        "nystrom-pcg" and "nystrom-cg" iterate; "direct", "pcg" and "cg" are the
        same on all points instead of landmarks, equation (3). "auto" takes
        "nystrom-direct" or "nystrom-pcg", whichever costs less.
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
        dropped; "auto" is 1e-10 in float64 and 1e-6 in float32; None leaves the
        system as the paper writes it.
    precision : "float64" or "float32"
        The precision of kernel blocks, whose products are added in float64 either
        way.
    tol : float
        The residual, relative to the right-hand side, at which a column ends.
    max_iter : int
        The number of iterations of a column at most.
    held_out : str
        How cross-validation predicts points without their fold: "closed_form",
        exact from one training, of "nystrom-direct" and "direct"; "refit", by a
        system for each fold; "auto", the closed form where it costs less. Of other
        losses than the squared one "auto" is "refit"; "influence" is the influence
        function, to first order in the weight of the labels, and
        "refined_influence" a step of Newton's method for each fold after it, of
        "nystrom-direct" where there are no more labels than landmarks, or else
        "refit" again, and of "direct", "pcg" and "cg".
    held_out_points : "transductive" or "inductive"
        Where held-out points are meanwhile: "transductive", in the graph as
        unlabeled points; "inductive", in none, as new points are: the graph is the
        one among the points left (`graph/energy/vertex_removal.py`), whose number
        is that in gamma_I / n^2. Landmarks that are held out stay landmarks. It
        takes "closed_form" or "refit", and any solver but "nystrom-pcg" and
        "nystrom-cg"; each fold then has Gram matrices of its own, and in closed
        form a kernel.
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
    precision: Literal["float64", "float32"] = "float64"
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
                why="so many edges and labels are sampled, a landmark", fix="use 8")
        require(self.precision in CUTOFFS, f"precision={self.precision!r}, expected float64 or float32",
                why="kernel blocks are made of it", fix="use float64; float32 takes half the time")
        given = self.whitening if self.whitening not in (None, "auto") else 0.5
        require(isinstance(given, (int, float)) and 0 < given < 1, f"whitening={self.whitening!r}",
                why="it is a share of the largest eigenvalue", fix='use "auto", 1e-10, or None for no whitening')
        require(self.held_out != "closed_form" or self.solver in ("auto", "nystrom-direct", "direct"),
                f"held_out={self.held_out!r} with solver={self.solver!r}", why="iterations have no factor that "
                "serves all folds", fix='use solver "nystrom-direct" or "direct", or held_out "auto"')
        require("influence" not in self.held_out or self.solver not in ("nystrom-pcg", "nystrom-cg"),
                f"held_out={self.held_out!r} with solver={self.solver!r}", why="it is of the labels' Gram matrix, "
                "which iterations on landmarks do not form; they would refit",
                fix='use solver "nystrom-direct", or "pcg" on all points; or held_out "auto" or "refit"')
        require(not self.inductive or self.solver not in ("nystrom-pcg", "nystrom-cg"),
                f'held_out_points="inductive" with solver={self.solver!r}', why="each fold has a graph of its own, and "
                "iterations one for all columns", fix='use solver "auto" or "nystrom-direct", or "transductive"')
        require(not self.inductive or "influence" not in self.held_out,
                f'held_out_points="inductive" with held_out={self.held_out!r}', why="the change of the graph is in no "
                "first-order change of the labels", fix='use held_out "auto" or "refit", or "transductive"')
        Stop(self.tol, self.max_iter)

    @property
    def inductive(self) -> bool:
        """Return whether points that are held out leave the graph."""
        return self.held_out_points == "inductive"

    @property
    def cutoff(self) -> float | None:
        """Return the share of the largest eigenvalue of K_ss below which directions are dropped, None for all kept."""
        return CUTOFFS[self.precision] if self.whitening == "auto" else self.whitening

    @property
    def itemsize(self) -> int:
        """The bytes of a number of a kernel block."""
        return np.dtype(self.precision).itemsize


@dataclass(frozen=True)
class LabelLines:
    """Labeled points: `row` (m,) among the vertices, `fold` (m,) from 0, `weight` (m,) > 0, `target` (m, c).

    The first `n_held` folds are held out in turn; points of another are never held out.
    """

    row: np.ndarray
    fold: np.ndarray
    weight: np.ndarray
    target: np.ndarray
    n_held: int = 1

    @classmethod
    def of(cls, row: np.ndarray, weight: np.ndarray, target: np.ndarray,
           held: Sequence[np.ndarray] = ()) -> "LabelLines":
        """Return the lines of labeled points whose folds are these lists of positions."""
        fold = np.full(len(row), len(held), np.int64)
        for number, members in enumerate(held):
            fold[members] = number
        return cls(row, fold, weight, target, len(held))

    @property
    def whole(self) -> "LabelLines":
        """Return the same without folds."""
        return replace(self, fold=np.zeros(len(self.fold), np.int64), n_held=0)

    @property
    def n_folds(self) -> int:
        """Return the number of folds, one more than `n_held` if some points are never held out."""
        return int(self.fold.max(initial=0)) + 1

    @property
    def counts(self) -> list[int]:
        """Return the number of points of each fold that is held out."""
        return [int((self.fold == fold).sum()) for fold in range(self.n_held)]

    @property
    def weights_without(self) -> tuple[float, ...]:
        """Return the weight of the points without each fold that is held out; last, of all."""
        whole = float(self.weight.sum())
        return *(whole - float(self.weight[self.fold == fold].sum()) for fold in range(self.n_held)), whole

    def intercepts(self, held: Sequence[int], fit: bool = True) -> np.ndarray:
        """Return the weighted means of the targets without one of these folds each (-1 for none), (p, c); or zeros."""
        if not fit:
            return np.zeros((len(held), self.target.shape[1]))
        means = {}
        for fold in set(held):
            seen = self.fold != fold
            means[fold] = np.average(self.target[seen], axis=0, weights=self.weight[seen])
        return np.array([means[fold] for fold in held])

    def columns(self, held: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return targets and weights (m, p c) of p functions, each without one of these folds (-1: none).

        The weights of a column sum to 1.
        """
        weight = np.stack([np.where(self.fold == fold, 0.0, self.weight) for fold in held], axis=1)
        return np.tile(self.target, len(held)), np.repeat(weight / weight.sum(axis=0), self.target.shape[1], axis=1)

    def of_own_fold(self, values: np.ndarray) -> np.ndarray:
        """Return values (m, g, c), each of the function without the point's fold; NaN at points that none is without.

        values : (m, g F, c), of groups of F functions, the folds held out in turn.
        """
        m, p, c = values.shape
        held = np.flatnonzero(self.fold < self.n_held)
        of_fold = np.full((m, p // self.n_held, c), np.nan)
        of_fold[held] = values[held].reshape(len(held), -1, self.n_held, c)[np.arange(len(held)), :, self.fold[held]]
        return of_fold


def params_left_out(params: SystemParams, loss: SmoothLoss, lines: LabelLines) -> SystemParams:
    """Return how labels are left out of one pair of penalties, for probabilities: they stay in the graph, unlabeled.

    Of other losses than the squared one, single points by the influence function and a step of Newton's method.
    """
    single = loss != SQUARES and max(lines.counts) == 1
    return replace(params, held_out_points="transductive", held_out="refined_influence" if single else "auto")


@dataclass(frozen=True)
class Functions:
    """Coefficients of points (p, s, c) and intercepts (p, c) of p systems, with the evidence (JSON)."""

    coef: np.ndarray
    intercept: np.ndarray
    evidence: dict[str, Any] = field(default_factory=dict)
