"""The section `selection` of a pipeline file: the same keys for every kind of model, but for what its grid may vary."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from ..graph.regularizer_params import LaplacianKind
from .spec_section import SpecSection

if TYPE_CHECKING:
    from ..selection.choice import ChoiceRule
    from ..selection.folds import FoldParams
    from ..selection.halving import Search

HeldOut = Literal["auto", "closed_form", "influence", "refined_influence", "refit"]
HeldOutPoints = Literal["transductive", "inductive"]
ScoringName = Literal["accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score", "f1", "f1_macro", "roc_auc",
                      "neg_root_mean_squared_error", "neg_mean_absolute_error"]


class GraphGrid(SpecSection):
    """Values of keys of the section `graph`; each combination is a graph with a selection of its own."""

    n_neighbors: list[int] | None = Field(default=None, min_length=1)
    metric: list[Literal["euclidean", "cosine"]] | None = Field(default=None, min_length=1)
    weights: list[Literal["binary", "heat", "self_tuned"]] | None = Field(default=None, min_length=1)
    bandwidth: list[float] | None = Field(default=None, min_length=1, description="of heat weights")
    width: list[float] | None = Field(default=None, min_length=1, description="of self_tuned weights")
    symmetrize: list[Literal["maximum", "minimum", "mean"]] | None = Field(default=None, min_length=1)
    laplacian: list[LaplacianKind] | None = Field(default=None, min_length=1)

    def values(self) -> list[dict[str, Any]]:
        """Return all combinations; one without a value where none is varied."""
        given = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return [dict(zip(given, values, strict=True)) for values in product(*given.values())]


class GridSpec(SpecSection):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them."""

    graph: GraphGrid = GraphGrid()


class KernelGrid(GridSpec):
    """The same, of models in a base kernel."""

    bandwidth: list[float | str] | None = Field(default=None, min_length=1, description="of the base kernel")


class SelectionSpec(SpecSection):
    """Parameters chosen by cross-validation on the labeled points.

    The model and each baseline that has parameters choose their own; the shuffled control takes the model's.
    """

    grid: GridSpec = GridSpec()
    search: Literal["grid", "random", "halving"] = Field(
        "grid", description="grid judges all combinations on all folds; random so many of them, drawn by the seed; "
                            "halving all on few folds, the better of them on more, and a few on all")
    n_candidates: int | None = Field(None, ge=1,
                                     description="of search random, and of halving where not all combinations "
                                                        "begin: how many are drawn")
    factor: float | None = Field(None, gt=1, allow_inf_nan=False, description="of search halving, 3 by default: a "
                                 "third of the candidates is judged on three times as many folds")
    folds: int | Literal["leave_one_out"] = Field(5, description="a number >= 2, or leave_one_out")
    repetitions: int = Field(1, ge=1, description="of the folds, each dealt anew; scores are means over them")
    held_out: HeldOut = Field(
        "auto", description="how points are predicted without their fold: closed_form, exact from one training; refit; "
                            "auto, the closed form where it costs less; of lapsvm influence and refined_influence, "
                            "from one training, approximately")
    held_out_points: HeldOutPoints = Field(
        "transductive", description="where points that are held out are meanwhile: transductive, in the graph as "
                                    "unlabeled points; inductive, in none, as new points are")
    scoring: ScoringName | None = Field(None, description="what is highest in the row that is chosen, by its name in "
                                                          "scikit-learn; null is accuracy, or of quantities "
                                                          "neg_root_mean_squared_error")
    one_standard_error: bool = Field(False, description="choose the strongest penalties among the rows within one "
                                                        "standard error of the lowest")
    random_state: int = Field(0, ge=0, description="of the folds, and of the combinations that are drawn")
    ways: ClassVar[tuple[str, ...]] = get_args(HeldOut)  # of held_out, that the kind has

    @model_validator(mode="after")
    def _keys_are_of_the_search(self) -> Self:
        if (self.n_candidates is None) == (self.search == "random") or (self.n_candidates and self.search == "grid"):
            raise ValueError(
                "search random takes n_candidates, the number of combinations that are drawn, halving may, and "
                             "grid tries all")
        if self.factor is not None and self.search != "halving":
            raise ValueError("factor is of search halving")
        if self.held_out not in self.ways:
            raise ValueError(f"held_out {self.held_out}: this kind of model has {', '.join(self.ways)}")
        return self

    def cv(self) -> FoldParams:
        """Return the parameters of the folds."""
        from ..selection.folds import FoldParams

        return FoldParams(folds=self.folds, repetitions=self.repetitions, random_state=self.random_state)

    def require_scoring(self, task: str) -> None:
        """Raise ParameterError where the scoring is none of the task."""
        from ..selection.held_out_scores import require_scoring

        require_scoring(self.scoring, classes=task == "classification")

    def rule(self) -> ChoiceRule:
        """Return which row is chosen."""
        from ..selection.choice import ChoiceRule

        return ChoiceRule(scoring=self.scoring, one_standard_error=self.one_standard_error)

    def searched(self) -> Search:
        """Return which combinations are tried, and on which folds."""
        from ..selection.halving import Search

        return Search(self.n_candidates, (self.factor or 3.0) if self.search == "halving" else None, self.random_state)


class KernelSelection(SelectionSpec):
    """The same, of models in a base kernel."""

    grid: KernelGrid = KernelGrid()
