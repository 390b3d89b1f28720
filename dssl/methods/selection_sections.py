"""The section `selection` of a pipeline file: the same keys for every method, but for what its grid may vary."""

from dataclasses import dataclass, fields
from itertools import product
from typing import Any, ClassVar, Literal, get_args

from ..base.digest import require_random_state
from ..base.errors import require
from ..graph.regularizer import LaplacianKind
from ..graph.weights.rules import WeightsName
from ..knn.search import MetricName, MetricValues
from ..learners.laprls.params import HeldOut, HeldOutPoints
from ..selection.candidates import SelectionRule
from ..selection.folds import FoldParams
from ..selection.halving import Search
from ..selection.held_out_scores import ScoringName


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Values of parameters that are tried, in place of the one given elsewhere; all combinations of them."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            require(not isinstance(value, tuple) or len(value) > 0, f"{item.name}=[]", why="nothing would be tried",
                    fix="name a value, or leave the key out")

    def values(self) -> list[dict[str, Any]]:
        """Return all combinations of the lists of this section; one without a value where none is varied."""
        given = {item.name: value for item in fields(self) if isinstance(value := getattr(self, item.name), tuple)}
        return [dict(zip(given, values, strict=True)) for values in product(*given.values())]


@dataclass(frozen=True, kw_only=True)
class GraphGrid(Grid):
    """Values of keys of the section `graph`; each combination is a graph with a selection of its own."""

    n_neighbors: tuple[int, ...] | None = None
    metric: tuple[MetricName, ...] | None = None
    metric_params: tuple[MetricValues, ...] | None = None
    weights: tuple[WeightsName, ...] | None = None
    bandwidth: tuple[float, ...] | None = None
    width: tuple[float, ...] | None = None
    symmetrize: tuple[Literal["maximum", "minimum", "mean"], ...] | None = None
    laplacian: tuple[LaplacianKind, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class RegularizedGrid(GraphGrid):
    """Values of keys of the section `graph`, the ridge of the regularizer among them."""

    ridge: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ModelGrid(Grid):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them."""

    graph: GraphGrid = GraphGrid()


@dataclass(frozen=True, kw_only=True)
class KernelGrid(ModelGrid):
    """The values that are tried, of models in a base kernel.

    Parameters
    ----------
    bandwidth : list of float or str, or None
        Of the base kernel.
    """

    bandwidth: tuple[float | str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Parameters chosen by cross-validation on the labeled points.

    The model and each baseline that has parameters choose their own; the shuffled control takes the model's.

    Parameters
    ----------
    grid : Grid
        The values that are tried.
    search : "grid", "random" or "halving"
        grid evaluates all combinations on all folds; random evaluates n_candidates of them, drawn by the seed;
        halving evaluates all on few folds, the better ones on more, and a few on all. The kinds cluster and multiscale
        have grid alone.
    n_candidates : int or None
        Of search random, and of halving where not all combinations begin: how many are drawn.
    factor : float or None
        Of search halving, 3 by default: a third of the candidates is evaluated on three times as many folds.
    cv : int or "leave_one_out"
        The folds: a number >= 2, or leave_one_out.
    repetitions : int
        Of the folds, each dealt anew; scores are means over them.
    held_out : str
        How points are predicted without their fold: closed_form, exact from one training; refit; auto, the closed form
        where it costs less; of lapsvm influence and refined_influence, from one training, approximately. Not every
        kind has every way.
    held_out_points : "transductive" or "inductive"
        Where held-out points are meanwhile: transductive, in the graph as unlabeled points; inductive, in none, as new
        points are.
    scoring : str or None
        What is highest in the row that is chosen, by its name in scikit-learn; null is accuracy, or of quantities
        neg_root_mean_squared_error.
    one_standard_error : bool
        Choose the strongest penalties among the rows within one standard error of the lowest.
    random_state : int
        Of the folds, and of the combinations that are drawn.
    """

    grid: Grid = ModelGrid()
    search: Literal["grid", "random", "halving"] = "grid"
    n_candidates: int | None = None
    factor: float | None = None
    cv: int | Literal["leave_one_out"] = FoldParams.folds
    repetitions: int = FoldParams.repetitions
    held_out: HeldOut = "auto"
    held_out_points: HeldOutPoints = "transductive"
    scoring: ScoringName | None = None
    one_standard_error: bool = False
    random_state: int = 0
    ways: ClassVar[tuple[str, ...]] = get_args(HeldOut)  # of held_out, that the method has

    def __post_init__(self) -> None:
        require((self.n_candidates is not None) == (self.search == "random") or (
            self.search == "halving"), f"search={self.search!r} with n_candidates={self.n_candidates}",
            why="search random takes n_candidates, the number of combinations that are drawn, halving may, and grid "
                "tries all", fix="give n_candidates with random or halving alone")
        require(self.n_candidates is None or self.n_candidates >= 1, f"n_candidates={self.n_candidates}, expected >= 1",
                why="so many combinations are drawn", fix="use 20, or search grid")
        require(self.factor is None or self.search == "halving", f"factor={self.factor}, and search is {self.search}",
                why="factor is of search halving", fix="leave factor out")
        require(self.held_out in self.ways, f"held_out={self.held_out!r}",
                why=f"this kind of model has {', '.join(self.ways)}", fix="leave held_out out")
        require_random_state(self.random_state)
        _ = self.folds(), self.searched()  # raises where one of their parameters is out of range

    def folds(self) -> FoldParams:
        return FoldParams(folds=self.cv, repetitions=self.repetitions, random_state=self.random_state)

    def rule(self) -> SelectionRule:
        return SelectionRule(scoring=self.scoring, one_standard_error=self.one_standard_error)

    def searched(self) -> Search:
        halved = self.search == "halving"
        return Search(self.n_candidates, (3.0 if self.factor is None else self.factor) if halved else None,
                      self.random_state)


@dataclass(frozen=True, kw_only=True)
class KernelSelection(Selection):
    """Parameters of models in a base kernel chosen by cross-validation on the labeled points."""

    grid: KernelGrid = KernelGrid()
