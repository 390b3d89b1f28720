"""What is known of the rows of a data set, and which of them are in use: block by block."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypedDict, cast

import numpy as np

from ..base.errors import DataError, require
from ..data.dataset import Dataset
from ..data.ingest_params import IngestParams
from ..data.labels import DRAW_ROWS, official_test, split_test
from ..data.targets import named_labels
from ..learners.target.encoding import (
    UNLABELED,
    as_whole_numbers,
    encode_labels,
    encode_values,
    keep_classes,
    map_classes,
    require_marker,
    require_no_quantities,
)
from ..methods.data_sections import TestSplit
from ..storage.blocks import Rows
from .spec import LearningTask, Spec
from .tags import TagParams

MAX_VALUES = 1 << 20  # different labels that are kept while classes are found
UNUSED = -2  # the code of a row that is not used


@dataclass(frozen=True)
class SplitParams:
    """What is to be predicted, and of which rows; see `DataSection`.

    classes : pairs of a name and its members, since keys of JSON are text, and the classes 1 and "1" are not the same.
    read : the source, where a column of it says something of the test rows.
    """

    task: LearningTask
    keep: tuple[str | int | float, ...] | None
    classes: tuple[tuple[str | int, tuple[str | int | float, ...]], ...] | None
    unlabeled: str | int | float | None
    rows: Literal["all", "official_train"]
    points: int | None
    test: TestSplit
    random_state: int
    tags: TagParams | None = None
    read: IngestParams | None = None

    @classmethod
    def of(cls, spec: Spec) -> "SplitParams":
        data, test = spec.data, spec.data.test
        has_column = test.column is not None or test.groups is not None
        classes = None if data.classes is None else tuple(
            (name, tuple(members)) for name, members in data.classes.items())
        return cls(data.task, None if data.keep is None else tuple(data.keep), classes, data.unlabeled, data.rows,
                   data.points, test, data.random_state,
                   None if data.tags is None else TagParams(data.tags, spec.read), spec.read if has_column else None)


@dataclass(frozen=True)
class Block:
    """rows (m,) : those in use of a block, by their number in the data set. known (m,) : codes, or quantities.

    strata (m,) : by which rows are drawn: codes; or 0 of rows with a quantity; -1 of those without.
    """

    rows: np.ndarray
    strata: np.ndarray
    known: np.ndarray | None


class Described(TypedDict, total=False):
    """What is known of the rows in use: how many have a target, and the classes, or the range of the quantities.

    groups : the `column` of groups, how many have a label, `n`, how many test, `n_tested`, their labeled rows,
        `n_labeled`, and the `fraction` of these that was asked for.
    """

    task: str
    known: int
    classes: list[Any]
    per_class: list[int]
    tags: list[str]
    with_tag: list[int]
    target: Mapping[str, float]
    groups: Mapping[str, Any]


class KnownTarget(ABC):
    """What is known of the rows of a data set, and which of them are in use."""

    arrays: Mapping[str, type]  # name and type of what is written of a row beside its number
    shape: tuple[int, ...] = ()  # of what is written of a row

    @abstractmethod
    def of_rows(self, y: np.ndarray | None, rows: np.ndarray) -> Block:
        """Return what is known of rows whose target is y; those in use."""

    @abstractmethod
    def described(self, blocks: Iterator[Block]) -> Described:
        """Return JSON of the rows in use; raise DataError if none has a target."""


class KnownClasses(KnownTarget):
    """Classes: a code for each label that occurs."""

    def __init__(self, dataset: Dataset, params: SplitParams, quantities: str):
        labels, self._names = _labels_of(dataset, quantities), dataset.attributes.get("label_names")
        codes, classes = encode_labels(named_labels(labels, self._names), params.unlabeled)
        classes, in_use = as_whole_numbers(classes), np.arange(len(codes))
        if params.keep is not None:
            in_use, codes, classes = keep_classes(codes, classes, params.keep)
        if params.classes is not None:
            codes, classes = map_classes(codes, classes, dict(params.classes))
        require_no_quantities(classes, quantities)
        self.arrays = {"codes": np.int64}
        self.labels, self.classes = labels, classes
        self.code_of = np.full(len(labels), UNUSED)
        self.code_of[in_use] = codes

    def of_rows(self, y: np.ndarray | None, rows: np.ndarray) -> Block:
        assert y is not None
        codes = self.code_of[np.searchsorted(self.labels, y)]
        used = codes != UNUSED
        return Block(rows[used], codes[used], codes[used])

    def described(self, blocks: Iterator[Block]) -> Described:
        per_class = np.zeros(len(self.classes), np.int64)
        for block in blocks:
            per_class += np.bincount(block.strata[block.strata >= 0], minlength=len(self.classes))
        return {"classes": self.classes.tolist(), "per_class": per_class.tolist(), "known": int(per_class.sum())}


class KnownQuantities(KnownTarget):
    """Quantities, NaN where a row has none."""

    def __init__(self, dataset: Dataset, params: SplitParams):
        assert not isinstance(params.unlabeled, str)  # the spec refuses it
        _ = dataset.target  # raises without targets
        self._names, self.unlabeled = dataset.attributes.get("label_names"), params.unlabeled
        self._marked = False
        self.arrays = {"values": np.float64}

    def of_rows(self, y: np.ndarray | None, rows: np.ndarray) -> Block:
        assert y is not None
        named = named_labels(y, self._names)
        values = encode_values(named, self.unlabeled, occurs=False, first_row=int(rows[0]) if len(rows) else 0)
        self._marked |= self.unlabeled is not None and bool((np.isnan(values) & (named == self.unlabeled)).any())
        return Block(rows, np.where(np.isnan(values), UNLABELED, 0), values)

    def described(self, blocks: Iterator[Block]) -> Described:
        receipts: list[dict[str, float]] = []
        for block in blocks:
            values = block.known[block.strata == 0] if block.known is not None else np.empty(0)
            if len(values):
                receipts.append({"known": len(values), "min": values.min(), "max": values.max(), "mean": values.mean(),
                              "deviation": values.std()})
        require_marker(self._marked, self.unlabeled, "target")
        if not receipts:
            return {"task": "regression", "target": {"known": 0}, "known": 0}
        smallest, largest = min(receipt["min"] for receipt in receipts), max(receipt["max"] for receipt in receipts)
        n = np.array([receipt["known"] for receipt in receipts])
        require(smallest < largest or n.sum() == 1, error=DataError,
                what=f"the target is {smallest:g} in all {n.sum():,} rows that have one",
                why="there is nothing to learn: every model predicts this number",
                fix="name another column as the target: data.read.target")
        means, deviations = (np.array([receipt[name] for receipt in receipts]) for name in ("mean", "deviation"))
        mean = float(n @ means / n.sum()) if len(receipts) > 1 else float(means[0])
        deviation = float(np.sqrt(n @ (deviations**2 + (means - mean) ** 2) / n.sum())) if len(receipts) > 1 \
            else float(deviations[0])
        return {"task": "regression", "known": int(n.sum()), "target": {
            "known": int(n.sum()), "min": float(smallest), "max": float(largest), "mean": mean, "deviation": deviation}}


class KnownTags(KnownTarget):
    """Tags (several labels a point): for each whether a row has it, -1 where that is not known."""

    def __init__(self, names: Sequence[str]):
        self.arrays = {"tags": np.int8}
        self.names = list(names)
        self.shape = (len(names),)

    def of_rows(self, y: np.ndarray | None, rows: np.ndarray) -> Block:
        assert y is not None
        return Block(rows, np.where((y != UNLABELED).any(axis=1), 0, UNLABELED), y)

    def described(self, blocks: Iterator[Block]) -> Described:
        known, with_tag = 0, np.zeros(len(self.names), np.int64)
        for block in blocks:
            assert block.known is not None
            known += int((block.strata == 0).sum())
            with_tag += (block.known == 1).sum(axis=0)
        return {"tags": self.names, "with_tag": with_tag.tolist(), "known": known}


class NoTarget(KnownTarget):
    """No target: of points whose classes or quantities another model or a file of labels knows, or that have none.

    empty : what is written of a row; None where nothing is, since all rows are in use without a target.
    """

    def __init__(self, arrays: Mapping[str, type] = MappingProxyType({}), empty: float | None = None,
                 **described: Any):
        self.arrays, self.empty, self._described = arrays, empty, described

    def of_rows(self, y: np.ndarray | None, rows: np.ndarray) -> Block:
        if self.empty is None:
            return Block(rows, np.zeros(len(rows), np.int64), None)
        return Block(rows, np.full(len(rows), UNLABELED), np.full(len(rows), self.empty))

    def described(self, blocks: Iterator[Block]) -> Described:
        return cast(Described, dict(self._described))


def _labels_of(dataset: Dataset, quantities: str) -> np.ndarray:
    """Return the different labels of a data set, as they are stored, ascending, NaN last; at most `MAX_VALUES`."""
    values = np.empty(0, dataset.target.dtype)
    for _, y in dataset.target.blocks(DRAW_ROWS):
        values = np.unique(np.concatenate([values, np.unique(y)]))
        if len(values) > MAX_VALUES:
            require_no_quantities(values, quantities)
    return values


def known_target_of(params: SplitParams, dataset: Dataset, source: str) -> KnownTarget:
    if params.task == "regression":
        if dataset.y is None and params.test.none:
            return NoTarget({"values": np.float64}, np.nan, task="regression", target={"known": 0}, known=0)
        return KnownQuantities(dataset, params)
    if params.task == "classification":
        if dataset.y is None and params.test.none and params.keep is params.classes is None:
            return NoTarget({"codes": np.int64}, UNLABELED, classes=[], per_class=[], known=0)
        return KnownClasses(dataset, params, "set data.task to regression, or map the target to classes with "
                                             "data.classes")
    if dataset.y is not None:
        return KnownClasses(dataset, params, "where there are no classes set data.read.target to none, and name in "
                            "data.read.drop what is no feature; or make classes of the target with data.classes")
    require(params.keep is None and params.classes is None, f"{source} has no classes", error=DataError,
            why="data.keep and data.classes ask for them", fix="leave these out, or set data.read.target")
    return NoTarget()


@dataclass(frozen=True)
class RowsInUse:
    """The rows of a data set that are in use, in blocks of `DRAW_ROWS` rows of it.

    tests (n,) : 1 of rows that are tested, where that is known of each; None where test rows are drawn, or none.
    """

    dataset: Dataset
    target: KnownTarget
    only_training: bool  # of the official split
    tests: Rows | None = None

    def blocks(self) -> Iterator[Block]:
        """Yield what is known of the rows of block after block."""
        for start in range(0, len(self.dataset), DRAW_ROWS):
            stop = min(start + DRAW_ROWS, len(self.dataset))
            rows = np.arange(start, stop)
            y = None if self.dataset.y is None else self.dataset.y.read(start, stop)
            if self.only_training:
                assert self.dataset.split is not None
                rows = rows[self.dataset.split.read(start, stop) == 0]
                y = None if y is None else y[rows - start]
            yield self.target.of_rows(y, rows)

    def strata(self) -> Iterator[np.ndarray]:
        return (block.strata for block in self.blocks())

    def is_test(self, rows: np.ndarray) -> np.ndarray:
        """Return which of some rows are tested, where that is known of each."""
        assert self.tests is not None
        return next(official_test([self.tests.take(rows)]))

    def tested(self, params: SplitParams) -> tuple[np.ndarray, Callable[[], Iterator[np.ndarray]]]:
        """Return how many rows of each block are trained on and how many tested, (b, 2), and what yields which, bool.

        No row without a target is tested.
        """
        test = params.test
        if not test.none and self.tests is None:
            drawn = split_test(self.strata, count=test.count, fraction=test.fraction,
                               random_state=params.random_state)
            tests = drawn.shares.sum(axis=1)
            return np.column_stack([drawn.lengths - tests, tests]), lambda: iter(drawn)

        def test_blocks() -> Iterator[np.ndarray]:
            none = self.tests is None
            return (np.zeros(len(block.rows), bool) if none else self.is_test(block.rows) for block in self.blocks())

        return np.array([[len(block.rows) - is_test.sum(), (is_test & (block.strata >= 0)).sum()]
                         for block, is_test in zip(self.blocks(), test_blocks(), strict=True)]), test_blocks
