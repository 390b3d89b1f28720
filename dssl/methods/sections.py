"""The sections of a pipeline file that say how a method works: frozen dataclasses, checked once.

Each key has its only default here or in the parameters that a section is made of. Its description stands in the
docstring, from which the JSON Schema of pipeline files takes it.
"""

from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from ..base.digest import require_random_state
from ..base.errors import ParameterError, SpecError, require
from ..base.sections import require_one_of
from ..graph.graph import KNNGraph
from ..graph.regularizer_params import LaplacianKind, RegularizerParams
from ..graph.weights.rules import KERNEL_WIDTH, WIDTH
from ..kernels.base import Kernel, has_bandwidth, kernel_from, kernel_type
from ..learners.class_prior import ClassPrior, ClassWeight
from ..learners.laprls.params import HeldOut, HeldOutPoints
from ..selection.choice import ChoiceRule
from ..selection.folds import FoldParams
from ..selection.halving import Search
from ..selection.held_out_scores import ScoringName

LearningTask = Literal["classification", "regression", "clustering"]


# ---- the graph


@dataclass(frozen=True, kw_only=True)
class GivenGraph:
    """A graph from a file, over all rows of the source in order, in place of the one made of the points.

    Parameters
    ----------
    weights : str or None
        scipy.sparse.save_npz of symmetric weights (n, n); the search and the weighting are then ignored.
    neighbors : str or None
        npz of ids and distances, both (n, k), with or without each row's own id; the search is then ignored,
        n_neighbors with it.
    """

    weights: str | None = None
    neighbors: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self, "weights", "neighbors")

    @property
    def kind(self) -> Literal["weights", "neighbors"]:
        """Return which of the two it is."""
        return "neighbors" if self.weights is None else "weights"

    @property
    def path(self) -> str:
        """Return the file's path or URL."""
        return str(self.neighbors if self.weights is None else self.weights)


@dataclass(frozen=True, kw_only=True)
class GraphSection(KNNGraph):
    """The neighbor graph of all training points, and its Laplacian.

    Parameters
    ----------
    given : GivenGraph or None
        A graph from a file; equal rows are then kept apart.
    laplacian : "normalized" or "unnormalized"
        The Laplacian of the graph.
    """

    given: GivenGraph | None = None
    laplacian: LaplacianKind = "normalized"

    def builder(self) -> KNNGraph:
        """Return how the graph is made of points, without what is given or made of it."""
        return KNNGraph(**{own.name: getattr(self, own.name) for own in fields(KNNGraph)})


@dataclass(frozen=True, kw_only=True)
class KernelGraph(GraphSection):
    """The neighbor graph of models in a base kernel."""

    width: float = KERNEL_WIDTH


@dataclass(frozen=True, kw_only=True)
class RegularizedGraph(KernelGraph):
    """The neighbor graph of all training points, and the regularizer Q = (L + ridge I)^power that it makes.

    Parameters
    ----------
    ridge : float
        Added to the Laplacian, > 0.
    power : int
        Of the regularizer, >= 1; larger is smoother.
    """

    ridge: float = RegularizerParams.ridge
    power: int = RegularizerParams.power

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.regularizer()  # raises where one of its parameters is out of range

    def regularizer(self) -> RegularizerParams:
        """Return the regularizer's parameters."""
        return RegularizerParams(laplacian=self.laplacian, ridge=self.ridge, power=self.power)


@dataclass(frozen=True, kw_only=True)
class ClusterGraph(RegularizedGraph):
    """The neighbor graph of all training points, and the regularizer of its kernel."""

    width: float = WIDTH


# ---- the kernel


@dataclass(frozen=True, kw_only=True)
class KernelSection:
    """The base kernel, on the scaled features.

    Parameters
    ----------
    name : str
        rbf, laplacian, linear, polynomial, cosine, or one that a plugin registers.
    bandwidth : float, str or None
        A number, "median" or a multiple such as "0.5*median"; null is 0.5*median.
    parameters : dict
        Other parameters of the kernel, such as degree.
    """

    name: str = "rbf"
    bandwidth: float | str | None = None
    parameters: dict[str, int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            kernel_type(self.name)
        except ParameterError as error:
            raise SpecError(f"kernel.name: {error}") from error
        for kernel in self.tried():
            _ = kernel.kernel()  # raises where there is none of this name, or it lacks a parameter

    def tried(self) -> tuple[Self, ...]:
        """Return the base kernel with each bandwidth that is tried."""
        return (self,)

    def kernel(self) -> Kernel:
        """Return the kernel with these parameters; two points stand in for the data that give a median its value."""
        parameters: dict[str, Any] = dict(self.parameters)
        return kernel_from(self.name, self.bandwidth, rows=np.array([[0.0], [1.0]]), **parameters)

    def with_bandwidths(self, bandwidths: tuple[float | str, ...] | None) -> tuple[Self, ...]:
        """Return the kernel with each of some bandwidths; as it is tried where there are none."""
        if bandwidths is None:
            return self.tried()
        require(has_bandwidth(self.name), error=SpecError, fix="leave selection.grid.bandwidth out",
                what=f"selection.grid.bandwidth={list(bandwidths)}, and kernel.name is {self.name}",
                why="that kernel has no bandwidth")
        return tuple(kernel for own in bandwidths for kernel in replace(self, bandwidth=own).tried())


# ---- the selection


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Values of parameters that are tried, in place of the one given elsewhere; all combinations of them."""

    def __post_init__(self) -> None:
        for own in fields(self):
            value = getattr(self, own.name)
            require(not isinstance(value, tuple) or len(value) > 0, f"{own.name}=[]", why="nothing would be tried",
                    fix="name a value, or leave the key out")

    def values(self) -> list[dict[str, Any]]:
        """Return all combinations of the lists of this section; one without a value where none is varied."""
        given = {own.name: value for own in fields(self) if isinstance(value := getattr(self, own.name), tuple)}
        return [dict(zip(given, values, strict=True)) for values in product(*given.values())]


@dataclass(frozen=True, kw_only=True)
class GraphGrid(Grid):
    """Values of keys of the section `graph`; each combination is a graph with a selection of its own."""

    n_neighbors: tuple[int, ...] | None = None
    metric: tuple[Literal["euclidean", "cosine"], ...] | None = None
    weights: tuple[Literal["binary", "heat", "self_tuned"], ...] | None = None
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
        grid judges all combinations on all folds; random so many of them, drawn by the seed; halving all on few folds,
        the better of them on more, and a few on all.
    n_candidates : int or None
        Of search random, and of halving where not all combinations begin: how many are drawn.
    factor : float or None
        Of search halving, 3 by default: a third of the candidates is judged on three times as many folds.
    folds : int or "leave_one_out"
        A number >= 2, or leave_one_out.
    repetitions : int
        Of the folds, each dealt anew; scores are means over them.
    held_out : str
        How points are predicted without their fold: closed_form, exact from one training; refit; auto, the closed form
        where it costs less; of lapsvm influence and refined_influence, from one training, approximately.
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
    folds: int | Literal["leave_one_out"] = FoldParams.folds
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
        _ = self.cv(), self.searched()  # raises where one of their parameters is out of range

    def cv(self) -> FoldParams:
        """Return the parameters of the folds."""
        return FoldParams(folds=self.folds, repetitions=self.repetitions, random_state=self.random_state)

    def rule(self) -> ChoiceRule:
        """Return which row is chosen."""
        return ChoiceRule(scoring=self.scoring, one_standard_error=self.one_standard_error)

    def searched(self) -> Search:
        """Return which combinations are tried, and on which folds."""
        halved = self.search == "halving"
        return Search(self.n_candidates, (3.0 if self.factor is None else self.factor) if halved else None,
                      self.random_state)


@dataclass(frozen=True, kw_only=True)
class KernelSelection(Selection):
    """Parameters of models in a base kernel chosen by cross-validation on the labeled points."""

    grid: KernelGrid = KernelGrid()


# ---- the model


@dataclass(frozen=True, kw_only=True)
class ModelSection:
    """What is fitted: its kind, and what that kind asks for.

    Parameters
    ----------
    kind : str
        The kind of model.
    """

    kind: str


@dataclass(frozen=True, kw_only=True)
class ClassModel(ModelSection):
    """A model of classes, of which it is said how frequent they are, and what their labels weigh; or of quantities.

    Parameters
    ----------
    class_prior : "labels", "equal", list or dict, or None
        How frequent the classes are among the points that are predicted: labels, as they are; equal; or shares in the
        order of the classes, or by class. null is labels, or equal where labels.per_class draws as many of each.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: null, 1 each; balanced, the labels of each
        class the same in all; or a weight by class.
    """

    class_prior: Literal["labels", "equal"] | list[float] | dict[str | int | float, float] | None = None
    class_weight: Literal["balanced"] | dict[str | int | float, float] | None = None

    def __post_init__(self) -> None:
        _ = ClassPrior.of(self.class_prior), ClassWeight.of(self.class_weight)
