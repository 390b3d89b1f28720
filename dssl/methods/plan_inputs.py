"""The numbers that the costs of a plan follow from: known, or bounded until a step has found them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, Literal, TypeVar

import numpy as np

from ..base.digest import JsonObject
from ..data.dataset import chunk_rows
from ..data.ingest_params import IngestParams
from ..data.readers.base import Scan
from ..data.source_reader import block_height
from ..execution.cost import Cost
from ..storage.blocks import ArrayRows, MemoryParts, Rows
from ..storage.csr import csr_row_bytes
from ..storage.views import BlockedCsrRows
from .data_sections import OpinionKind

Bound = Literal["upper", "lower"]
Shared = Literal["", "graph", "labels"]  # by a tag and the one before
DISTINCT = "distinct points"
P = TypeVar("P")  # the parameters of a method


@dataclass(frozen=True)
class Bounded:
    """A whole number that a plan knows, or bounds until a step has found it.

    what : its name in a plan; empty where it is known. Equal bounds of a number with a name are an assumption.
    is_guess : whether it may also be larger than the upper bound.
    """

    lower: int
    upper: int
    what: str = ""
    is_guess: bool = False

    @classmethod
    def known(cls, value: int) -> "Bounded":
        return cls(int(value), int(value))

    @classmethod
    def between(cls, lower: int, upper: int, what: str) -> "Bounded":
        """Return a number with bounds; known where they agree."""
        return cls(lower, upper, what if lower != upper else "")

    def at(self, bound: Bound) -> int:
        return self.upper if bound == "upper" else self.lower

    def other(self, bound: Bound) -> int:
        """Return the other bound; of an assumption, another number."""
        value = self.at(bound)
        others = {self.lower, self.upper} - {value}
        return others.pop() if others else max(value // 2, 3 - value)


class AtBound:
    """A number of `PlanInputs` as the costs take it: the bound that these follow from; name : of its `Bounded`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, inputs: "PlanInputs", owner: type) -> int:
        assert inputs is not None, f"{self.name} is of an instance"
        number: Bounded = getattr(inputs, self.name)
        return number.at(inputs.bound)


@dataclass(frozen=True)
class Growing:
    """What is known where rows are added to those of the last run.

    attributes : of the artifacts that stages grow from, by stage. added : scan of the new files, and scan : of all,
    as far as it follows from that; None where the data set is stored.
    """

    attributes: Mapping[str, JsonObject]
    added: Scan | None = None
    scan: Scan | None = None


@dataclass(frozen=True)
class PlanInputs:
    """The numbers that tasks, bytes and memory are functions of.

    budget : bytes that one task may take. read : how the source is read. n_rows : of the source.
    columns : of X. sparse_entries : of X where it is stored as CSR, else None. sparse_width : then the columns of a
    dense row of as many bytes; no cost of sparse rows is measured, so that this is an assumption.
    training_points, test_points, classes, labeled_points : of the split and the labels; distinct_points, entries : of
    the vertices and of W. scan : of the source; None where the data set is stored.
    attributes : of finished steps by name. growing : where rows are added, what is known of the others.
    opinion : how another model says something of the points, None where none does. tags : how many are learned of
    several labels a point, each as two classes; 1 of one label a point. in_lists : whether a row has all tags or none
    known, so that all have the same labeled points. follows : what a tag shares with the one before, the "graph" or
    the graph and the "labels"; "" of the first, and of one label a point.
    bound : of numbers that are not known, the one that the costs follow from.
    """

    budget: int
    read: IngestParams
    n_rows: int
    columns: Bounded
    sparse_entries: int | None
    sparse_width: Bounded
    training_points: Bounded
    test_points: Bounded
    classes: Bounded
    labeled_points: Bounded
    distinct_points: Bounded
    entries: Bounded
    is_regression: bool
    scan: Scan | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    growing: Growing | None = None
    opinion: OpinionKind | None = None
    tags: Bounded = Bounded(1, 1)
    in_lists: bool = False
    follows: Shared = ""
    bound: Bound = "upper"

    d = AtBound("columns")
    n = AtBound("training_points")
    n_test = AtBound("test_points")
    n_classes = AtBound("classes")
    n_tags = AtBound("tags")
    n_labeled = AtBound("labeled_points")
    vertices = AtBound("distinct_points")
    nnz = AtBound("entries")  # of W

    def others(self) -> Iterator[tuple[str, "PlanInputs"]]:
        """Yield the name of each number that is not known, and the inputs with another value of it alone."""
        for name, value in vars(self).items():
            if isinstance(value, Bounded) and value.what:
                other: dict[str, Any] = {name: Bounded.known(value.other(self.bound))}
                yield value.what, replace(self, **other)

    @property
    def guesses(self) -> set[str]:
        """Return the names of the numbers that may be larger than their upper bounds."""
        return {value.what for value in vars(self).values() if isinstance(value, Bounded) and value.is_guess}

    def attribute(self, step: str, name: str, otherwise: int) -> int:
        """Return what a finished step has found, or otherwise another number."""
        return int(self.attributes[step][name]) if step in self.attributes else otherwise

    def one_of(self, costs: Iterable[Cost], what: str) -> Cost:
        """Return the cost of one of several methods, which one is not known yet: the bound of each figure.

        But for the seconds, which are those of the fastest. what : the name of the choice in a plan.
        """
        several = list(costs)
        pick = max if self.bound == "upper" else min
        bound = Cost(*(pick(figures) for figures in zip(*(cost.figures for cost in several), strict=True)))
        guesses = {name for cost in several for name in cost.guesses} | ({what} if len(several) > 1 else set())
        return replace(bound, seconds=min(cost.seconds for cost in several), guesses=frozenset(guesses))

    def each_tag(self) -> list["PlanInputs"]:
        """Return the inputs for each tag, with what finished steps found for it; themselves for one label a point."""
        labels = self.attributes.get("labels", {})
        known = labels.get("of_tags")
        if known is None:
            follows: Shared = "labels" if self.in_lists or self.bound == "lower" else "graph"
            return [self] + [replace(self, follows=follows)] * (self.n_tags - 1)
        counts = [tag["n_labeled"] for tag in known]
        # Equal counts of some of the points with tags may be of others.
        shared: list[Shared] = ["", *("labels" if before == count == labels["n_labeled"] else "graph"
                                      for before, count in pairwise(counts))]
        return [replace(self, labeled_points=Bounded.known(count), follows=follows, attributes={
            name: made["of_tags"][number] if "of_tags" in made else made
            for name, made in self.attributes.items()}) for number, (count, follows) in enumerate(
                zip(counts, shared, strict=True))]

    def cost_of_tags(self, cost: Callable[["PlanInputs"], Cost]) -> Cost:
        """Return the cost for all tags, from that for one of them."""
        return reduce(add, map(cost, self.each_tag()))

    @property
    def n_outputs(self) -> int:
        """Return the columns of a model that has one a class, or one a quantity."""
        return 1 if self.is_regression else self.n_classes

    @property
    def n_values(self) -> int:
        """Return the columns of what the model of a run says of a point: one a tag, a class, or a quantity."""
        return self.n_tags if self.n_tags > 1 else self.n_outputs

    @property
    def training_values_bytes(self) -> int:
        """Return what a step holds that reads the values of the model at all training points, from those at vertices.
        """
        return self.n * (32 * self.n_values + 76)

    @property
    def class_sizes(self) -> list[int]:
        """Return the labeled points of each class, as many of each until they are known; of quantities all."""
        known = self.attributes.get("labels", {}).get("per_class")
        classes = 1 if self.is_regression else max(1, self.n_classes)
        whole, rest = divmod(self.n_labeled, classes)
        return known or [whole + 1] * rest + [whole] * (classes - rest)

    # ---- rows of X

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.read.dtype)

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one stored row of X."""
        if self.sparse_entries is None:
            return self.d * self.dtype.itemsize
        return csr_row_bytes(self.sparse_entries, self.n_rows, self.dtype)

    @property
    def source_row_bytes(self) -> int:
        """Return the bytes of one row of the source."""
        return self.row_bytes if self.scan is None else self.scan.row_bytes

    @property
    def width(self) -> int:
        """Return the columns of a dense row of as many bytes."""
        return self.d if self.sparse_entries is None else min(self.d, self.sparse_width.at(self.bound))

    @property
    def x_chunk(self) -> int:
        """Return the rows of a chunk of X."""
        if self.scan is not None:
            return block_height(self.scan, self.read, self.budget)
        described = self.attributes["dataset"]["X"]
        return chunk_rows(self.n_rows, self.row_bytes) if described is None else int(described["block_rows"])

    def dense(self, n: int, d: int) -> ArrayRows:
        """Return rows (n, d) of zeros, a shape without bytes."""
        return ArrayRows(np.broadcast_to(np.zeros(1, self.dtype), (n, d)))

    @property
    def rows(self) -> Rows:
        """Return the shape of all rows of the source, in the chunks in which they are stored."""
        if self.sparse_entries is not None:
            return BlockedCsrRows(MemoryParts(), (self.n_rows, self.d), self.dtype, self.x_chunk, self.sparse_entries)
        rows = self.dense(self.n_rows, self.d)
        rows.chunk_rows = self.x_chunk
        return rows

    def points(self, n: int) -> Rows:
        """Return rows of the shape, type and entries of so many points, without bytes."""
        if self.sparse_entries is None:
            return self.dense(n, self.d)
        entries = -(-self.sparse_entries * n // max(self.n_rows, 1))
        return BlockedCsrRows(MemoryParts(), (n, self.d), self.dtype, 1, entries)

    @property
    def distinct(self) -> Rows:
        """Return the shape of the distinct training points."""
        return self.points(self.vertices)


def guessed_by(inputs: PlanInputs, figures: Callable[[PlanInputs], Any]) -> set[str]:
    """Return the names of the numbers that are not known and that figures follow from: of those that change them."""
    known = figures(inputs)
    return {what for what, others in inputs.others() if figures(others) != known}


def guessing_unless(is_known: Callable[[PlanInputs, P], bool], what: str) -> Callable[
        [Callable[[PlanInputs, P], Cost]], Callable[[PlanInputs, P], Cost]]:
    """Return what makes the cost of a step name a number of the method that it guesses, as long as it is not known.

    what : the name of the number in a plan.
    """
    def named(cost: Callable[[PlanInputs, P], Cost]) -> Callable[[PlanInputs, P], Cost]:
        return lambda f, params: cost(f, params) if is_known(f, params) else cost(f, params).guessing(what)

    return named
