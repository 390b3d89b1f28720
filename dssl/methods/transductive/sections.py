"""The sections of a pipeline file that say how a transductive support vector machine is made."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import ClassVar, Literal

from ...base.errors import DsslError, require
from ...kernels.base import BaseKernels
from ...kernels.landmarks import LandmarkParams
from ...learners.linear.transductive import TransductiveParams
from ...selection.candidates import LOWEST_ERROR
from ...selection.halving import ALL
from ..sections import KernelSection, Sections, SizedModel, baseline_mistakes, scoring_mistakes
from ..selection_sections import Grid, Selection
from .steps import TransductiveKernelParams


@dataclass(frozen=True, kw_only=True)
class TransductiveModel(SizedModel):
    """A support vector machine in which the labels of unlabeled points are variables.

    Parameters
    ----------
    C : float
        The penalty of the loss, for a kernel of unit mean diagonal.
    unlabeled_weight : float
        The weight of the losses of all unlabeled points together, against those of
        the labeled ones; 0 leaves them out.
    landmarks : LandmarkParams
        The points over which functions are sums: their number, their share of the
        points, "sqrt", or "auto".
    class_sizes : list, dict, "balanced" or None
        The known sizes of the classes, counts or shares of all points, in the order
        of the classes or by class; for intervals of shares [low, high], the point at
        the same fraction of each is taken. null takes the shares of the labels for
        those of the unlabeled points.
    """

    kind: Literal["transductive"] = "transductive"
    C: float = TransductiveParams.C
    unlabeled_weight: float = TransductiveParams.unlabeled_weight
    landmarks: LandmarkParams = LandmarkParams()

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.penalties  # raises where a value is out of range

    @property
    def penalties(self) -> TransductiveParams:
        """Return the penalties."""
        return TransductiveParams(C=self.C, unlabeled_weight=self.unlabeled_weight)


@dataclass(frozen=True, kw_only=True)
class TransductiveGrid(Grid):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them.

    Parameters
    ----------
    bandwidth : list of float or str, or None
        Of the base kernel.
    C : list of float or None
        Of the loss.
    unlabeled_weight : list of float or None
        Of the losses of the unlabeled points; the baseline has 0.
    """

    bandwidth: tuple[float | str, ...] | None = None
    C: tuple[float, ...] | None = None
    unlabeled_weight: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, values in (("bandwidth", self.bandwidth), ("C", self.C), ("unlabeled_weight", self.unlabeled_weight)):
            require(len(set(values or ())) == len(values or ()), f"{name}={list(values or ())} names a value twice",
                    why="it would do work twice", fix="name each value once")
        for C in self.C or ():
            TransductiveParams(C=C)  # raises where a value is out of range
        for weight in self.unlabeled_weight or ():
            TransductiveParams(unlabeled_weight=weight)


@dataclass(frozen=True, kw_only=True)
class TransductiveSelection(Selection):
    """Parameters chosen by cross-validation; held-out points stay among the unlabeled points.

    The model and the baseline choose their own; the baseline tries the same bandwidths and C.
    """

    grid: TransductiveGrid = TransductiveGrid()
    held_out_points: Literal["transductive"] = "transductive"
    ways: ClassVar[tuple[str, ...]] = ("auto", "refit")


@dataclass(frozen=True, kw_only=True)
class TransductiveSections(Sections):
    """The sections of a transductive support vector machine, without a graph.

    Parameters
    ----------
    kernel : KernelSection
        The base kernel.
    selection : Selection or None
        Parameters that are chosen by cross-validation; null takes those that are given.
    baselines : list of str
        Models that the report compares with.
    """

    kernel: KernelSection = KernelSection()
    model: TransductiveModel
    selection: TransductiveSelection | None = None
    baselines: tuple[Literal["base"], ...] = ("base",)

    def kernels(self) -> tuple[KernelSection, ...]:
        """Return the base kernel with each bandwidth that is tried."""
        return self.kernel.with_bandwidths(self.selection.grid.bandwidth if self.selection else None)

    def penalties(self) -> tuple[TransductiveParams, ...]:
        """Return the penalties that are tried; those that are given, where there is nothing to choose."""
        grid, model = self.selection.grid if self.selection else TransductiveGrid(), self.model
        return tuple(TransductiveParams(C=C, unlabeled_weight=weight) for C, weight in product(
            grid.C or (model.C,), grid.unlabeled_weight or (model.unlabeled_weight,)))

    @cached_property
    def params(self) -> TransductiveKernelParams:
        model, kernel, chosen = self.model, self.kernel, self.selection
        bandwidths = tuple(each.bandwidth for each in self.kernels())
        return TransductiveKernelParams(
            kernels=BaseKernels(kernel.name, kernel.parameters, bandwidths, model.random_state),
            penalties=self.penalties(), landmarks=model.landmarks, budget=self.budget, prior=self.prior,
            weight=self.weight, random_state=model.random_state, baselines=self.baselines,
            cv=chosen.folds() if chosen else None, rule=chosen.rule() if chosen else LOWEST_ERROR,
            search=chosen.searched() if chosen else ALL)

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from baseline_mistakes(self.baselines, ("base",))
        if self.selection is not None:
            yield from scoring_mistakes(self.selection, self.task)
        try:
            _ = self.kernels()
        except DsslError as error:
            yield "selection.grid", error
