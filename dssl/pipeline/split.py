"""Which rows of the data set are trained on and tested on, and what is known of them: block by block.

No more than a block of rows is held: row numbers, codes and quantities are written as shared arrays, `train`, `test`,
`rest` (in use, and neither: not drawn, or test rows without a target), and `train_codes` or `train_values` beside them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar, Literal

import numpy as np

from ..data.dataset import Dataset
from ..data.labels import DRAW_ROWS, official_test, sample_points, split_test
from ..data.targets import named_labels
from ..errors import DataError, require
from ..execution.cost import Cost, cost_of
from ..learners.encoding import (
    UNLABELED,
    as_whole_numbers,
    encode_labels,
    encode_values,
    keep_classes,
    map_classes,
    require_marker,
    require_no_quantities,
)
from ..learners.target import Classes, Target
from ..plain_yaml import yaml_of
from ..storage.blocks import Rows, RowStream
from .dataset import dataset_of
from .facts import Facts
from .spec import LearningTask, Spec
from .stage import Context, Stage

MOST_VALUES = 1 << 20  # different labels that are kept while classes are found
LEFT_OUT = -2  # the code of a row that is not used
SHOWN = 12  # classes, and groups of them, that a note names
HELD = 220  # bytes of a row of a block while it is drawn from, measured: numbers, codes, and their random order


@dataclass(frozen=True)
class SplitParams:
    """What is to be predicted, and of which rows; see `DataSpec`.

    classes : pairs of a name and its members, since keys of JSON are text, and the classes 1 and "1" are not the same.
    test : how many, which share, or whether the official rows; all None and False for no test points.
    """

    task: LearningTask
    keep: tuple[str | int | float, ...] | None
    classes: tuple[tuple[str | int, tuple[str | int | float, ...]], ...] | None
    unlabeled: str | int | float | None
    rows: Literal["all", "official_train"]
    points: int | None
    test_count: int | None
    test_fraction: float | None
    test_official: bool
    seed: int

    @property
    def tests(self) -> bool:
        """Return whether there are test points."""
        return self.test_official or self.test_count is not None or self.test_fraction is not None

    @classmethod
    def of(cls, spec: Spec) -> "SplitParams":
        data, test = spec.data, spec.data.test
        classes = None if data.classes is None else tuple(
            (name, tuple(members)) for name, members in data.classes.items())
        return cls(data.task, None if data.keep is None else tuple(data.keep), classes, data.unlabeled, data.rows,
                   data.points, test.count, test.fraction, test.official, data.seed)


@dataclass(frozen=True)
class Block:
    """rows (m,) : those in use of a block, by their number in the data set. known (m,) : codes, or quantities.

    strata (m,) : by which rows are drawn: codes; or 0 of rows with a quantity; -1 of those without.
    """

    rows: np.ndarray
    strata: np.ndarray
    known: np.ndarray | None


class KnownTarget(ABC):
    """What is known of the rows of a data set, and which of them are in use."""

    arrays: ClassVar[dict[str, Any]]  # name and type of what is written of a row beside its number

    @abstractmethod
    def of_rows(self, y: np.ndarray | None, rows: np.ndarray) -> Block:
        """Return what is known of rows whose target is y; those in use."""

    @abstractmethod
    def described(self, blocks: Iterator[Block]) -> dict[str, Any]:
        """Return JSON of the rows in use; raise DataError if none has a target."""


class KnownClasses(KnownTarget):
    """Classes: a code for each label that occurs."""

    arrays: ClassVar = {"codes": np.int64}

    def __init__(self, dataset: Dataset, params: SplitParams, quantities: str):
        labels, self._names = _labels_of(dataset, quantities), dataset.attributes.get("label_names")
        codes, classes = encode_labels(named_labels(labels, self._names), params.unlabeled)
        classes, in_use = as_whole_numbers(classes), np.arange(len(codes))
        if params.keep is not None:
            in_use, codes, classes = keep_classes(codes, classes, params.keep)
        if params.classes is not None:
            codes, classes = map_classes(codes, classes, dict(params.classes))
        require_no_quantities(classes, quantities)
        self.labels, self.classes = labels, classes
        self.code_of = np.full(len(labels), LEFT_OUT)
        self.code_of[in_use] = codes

    def of_rows(self, y: np.ndarray | None, rows: np.ndarray) -> Block:
        assert y is not None
        codes = self.code_of[np.searchsorted(self.labels, y)]
        used = codes != LEFT_OUT
        return Block(rows[used], codes[used], codes[used])

    def described(self, blocks: Iterator[Block]) -> dict[str, Any]:
        per_class = np.zeros(len(self.classes), np.int64)
        for block in blocks:
            per_class += np.bincount(block.strata[block.strata >= 0], minlength=len(self.classes))
        return {"classes": self.classes.tolist(), "per_class": per_class.tolist(), "known": int(per_class.sum())}


class KnownQuantities(KnownTarget):
    """Quantities, NaN where a row has none."""

    arrays: ClassVar = {"values": np.float64}

    def __init__(self, dataset: Dataset, params: SplitParams):
        assert not isinstance(params.unlabeled, str)  # the spec refuses it
        self._names, self.unlabeled = dataset.attributes.get("label_names"), params.unlabeled
        self._marked = False

    def of_rows(self, y: np.ndarray | None, rows: np.ndarray) -> Block:
        assert y is not None
        named = named_labels(y, self._names)
        values = encode_values(named, self.unlabeled, occurs=False, first_row=int(rows[0]) if len(rows) else 0)
        self._marked |= self.unlabeled is not None and bool((np.isnan(values) & (named == self.unlabeled)).any())
        return Block(rows, np.where(np.isnan(values), UNLABELED, 0), values)

    def described(self, blocks: Iterator[Block]) -> dict[str, Any]:
        found: list[dict[str, float]] = []
        for block in blocks:
            values = block.known[block.strata == 0] if block.known is not None else np.empty(0)
            if len(values):
                found.append({"known": len(values), "min": values.min(), "max": values.max(), "mean": values.mean(),
                              "deviation": values.std()})
        require_marker(self._marked, self.unlabeled, "target")
        if not found:
            return {"task": "regression", "target": {"known": 0}, "known": 0}
        smallest, largest = min(own["min"] for own in found), max(own["max"] for own in found)
        n = np.array([own["known"] for own in found])
        require(smallest < largest or n.sum() == 1, error=DataError,
                what=f"the target is {smallest:g} in all {n.sum():,} rows that have one",
                why="there is nothing to learn: every model predicts this number",
                fix="name another column as the target: data.read.target")
        means, deviations = (np.array([own[name] for own in found]) for name in ("mean", "deviation"))
        mean = float(n @ means / n.sum()) if len(found) > 1 else float(means[0])
        deviation = float(np.sqrt(n @ (deviations**2 + (means - mean) ** 2) / n.sum())) if len(found) > 1 \
            else float(deviations[0])
        return {"task": "regression", "known": int(n.sum()), "target": {
            "known": int(n.sum()), "min": float(smallest), "max": float(largest), "mean": mean, "deviation": deviation}}


class NothingKnown(KnownTarget):
    """No target: all rows are in use."""

    arrays: ClassVar = {}

    def of_rows(self, y: np.ndarray | None, rows: np.ndarray) -> Block:
        return Block(rows, np.zeros(len(rows), np.int64), None)

    def described(self, blocks: Iterator[Block]) -> dict[str, Any]:
        return {}


def _labels_of(dataset: Dataset, quantities: str) -> np.ndarray:
    """Return the different labels of a data set, as they are stored, ascending, NaN last; at most `MOST_VALUES`."""
    found = np.empty(0, dataset.target.dtype)
    for _, y in dataset.target.blocks(DRAW_ROWS):
        found = np.unique(np.concatenate([found, np.unique(y)]))
        if len(found) > MOST_VALUES:
            require_no_quantities(found, quantities)
    return found


def _known_target(params: SplitParams, dataset: Dataset, source: str) -> KnownTarget:
    if params.task == "regression":
        return KnownQuantities(dataset, params)
    if params.task == "classification":
        return KnownClasses(dataset, params, "set data.task to regression, or map the target to classes with "
                                             "data.classes")
    if dataset.y is not None:
        return KnownClasses(dataset, params, "where there are no classes set data.read.target to none, and name in "
                            "data.read.drop what is no feature; or make classes of the target with data.classes")
    require(params.keep is None and params.classes is None, f"{source} has no classes", error=DataError,
            why="data.keep and data.classes ask for them", fix="leave these out, or set data.read.target")
    return NothingKnown()


@dataclass(frozen=True)
class RowsInUse:
    """The rows of a data set that are in use, in blocks of `DRAW_ROWS` rows of it."""

    dataset: Dataset
    target: KnownTarget
    only_training: bool  # of the official split

    def blocks(self) -> Iterator[Block]:
        """Yield what is known of the rows of block after block."""
        for start in range(0, len(self.dataset), DRAW_ROWS):
            stop = min(start + DRAW_ROWS, len(self.dataset))
            rows = np.arange(start, stop)
            y = None if self.dataset.y is None else self.dataset.y.read(start, stop)
            if self.only_training:
                rows = rows[self._official.read(start, stop) == 0]
                y = None if y is None else y[rows - start]
            yield self.target.of_rows(y, rows)

    @property
    def _official(self) -> Rows:
        assert self.dataset.split is not None
        return self.dataset.split

    def strata(self) -> Iterator[np.ndarray]:
        return (block.strata for block in self.blocks())

    def official(self) -> Iterator[np.ndarray]:
        """Yield the official split of the rows in use."""
        return (self._official.take(block.rows) for block in self.blocks())

    def tested(self, params: SplitParams) -> tuple[np.ndarray, Callable[[], Iterator[np.ndarray]]]:
        """Return how many rows of each block are trained on and how many tested, (b, 2), and what yields which, bool.

        No row without a target is tested.
        """
        if params.tests and not params.test_official:
            drawn = split_test(self.strata, count=params.test_count, fraction=params.test_fraction, seed=params.seed)
            tests = drawn.shares.sum(axis=1)
            return np.column_stack([drawn.lengths - tests, tests]), lambda: iter(drawn)

        def told() -> Iterator[np.ndarray]:
            if params.test_official:
                return official_test(self.official())
            return (np.zeros(len(block.rows), bool) for block in self.blocks())

        return np.array([[len(block.rows) - is_test.sum(), (is_test & (block.strata >= 0)).sum()]
                         for block, is_test in zip(self.blocks(), told(), strict=True)]), told


def _require_official(params: SplitParams, dataset: Dataset, source: str) -> None:
    """Raise DataError if the spec asks for an official split that there is none of."""
    asked = "data.test.official" if params.test_official else "data.rows: official_train"
    require(dataset.split is not None or not (params.test_official or params.rows == "official_train"),
            f"{source} has no official split", error=DataError, why=f"{asked} asks for it",
            fix="set data.test.count or data.test.fraction" if params.test_official else "leave data.rows out")


def make_split(context: Context, params: SplitParams) -> dict[str, Any]:
    """Choose classes, test points and training points; write their row numbers, and their codes or quantities."""
    dataset, source = dataset_of(context), context.files["source"].source.name
    _require_official(params, dataset, source)
    used = RowsInUse(dataset, _known_target(params, dataset, source), params.rows == "official_train")
    described = used.target.described(used.blocks())
    known = described.pop("known", None)
    if known == 0 and params.task == "clustering":
        used, described = RowsInUse(dataset, NothingKnown(), used.only_training), {}
    require(known != 0 or params.task == "clustering", f"no point of {source} has a target", error=DataError,
            why="there is nothing to learn from", fix="check the target, and data.unlabeled, the marker of no target")
    sizes, tested = used.tested(params)
    n_train, n_test = sizes.sum(axis=0).tolist()
    require(n_test > 0 or not params.tests, "no test point has a label", error=DataError,
            why="there is nothing to compare predictions with",
            fix="set data.test.count or data.test.fraction, or give the test points labels")
    drawn: Iterator[np.ndarray | None] = repeat(None, len(sizes))
    if params.points is not None and params.points != n_train:
        drawn, n_train = sample_points(sizes[:, 0], params.points, params.seed), params.points
    n_rest = max(0, sum(len(block.rows) for block in used.blocks()) - n_train - n_test)  # too few are refused below
    n = {"train": n_train, "test": n_test, "rest": n_rest}
    _write(context, used, zip(used.blocks(), tested(), drawn, strict=True), n)
    return {**described, **{f"n_{name}": count for name, count in n.items()}}


def _write(context: Context, used: RowsInUse, blocks: Iterator[tuple[Block, np.ndarray, np.ndarray | None]],
           n: Mapping[str, int]) -> None:
    """Write the rows that are trained on, some of these where not all are drawn, those that are tested, and others."""
    beside = used.target.arrays
    streams = {(of, name): RowStream(context.parts, f"{of}_{name}" if name else of, count, dtype)
               for of, count in n.items() for name, dtype in {"": np.int64, **beside}.items()}
    for block, is_test, places in blocks:
        train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test & (block.strata >= 0))
        train = train if places is None else train[places]
        others = np.ones(len(block.rows), bool)
        others[train], others[test] = False, False
        for of, own in (("train", train), ("test", test), ("rest", np.flatnonzero(others))):
            streams[of, ""].add(block.rows[own])
            for name in beside:
                assert block.known is not None
                streams[of, name].add(block.known[own])
    for stream in streams.values():
        stream.close()


def known_target(context: Context, name: str) -> Target | None:
    """Return what is known of the "train" or "test" points, as `split_target`; None where there is nothing."""
    return split_target(context, name) if "classes" in context.attributes("split") else None


def split_target(context: Context, name: str) -> Target:
    """Return what is known of the "train" or "test" points, each named by its place among them.

    Its classes are those of the labels where the stage needs them: a file of labels may have brought new ones.
    """
    known = "codes" if "classes" in context.attributes("split") else "values"
    found = Target.from_arrays({known: context.rows("split", f"{name}_{known}").read_all()},
                               context.attributes("split"))
    names = context.attributes("labels").get("classes") if "labels" in context.inputs else None
    return found.of_names(np.array(names)) if isinstance(found, Classes) and names is not None else found


def training_strata(context: Context) -> Iterator[np.ndarray]:
    """Yield the classes of the training points, block by block; 0 of those with a quantity; -1 where neither is known.
    """
    if "classes" in context.attributes("split"):
        yield from (codes for _, codes in context.rows("split", "train_codes").blocks(DRAW_ROWS))
    else:
        for _, values in context.rows("split", "train_values").blocks(DRAW_ROWS):
            yield np.where(np.isnan(values), UNLABELED, 0)


def alike_classes(classes: Sequence[Any]) -> list[list[str]]:
    """Return the names of classes, of each group that differ in capitals and spaces alone, in their order."""
    groups: dict[str, list[str]] = {}
    for name in classes:
        if isinstance(name, str):
            groups.setdefault(" ".join(name.split()).casefold(), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def classes_joined(classes: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return `data.classes` that joins those that differ in capitals and spaces alone under the first of each group.
    """
    groups = {group[0]: group for group in alike_classes(classes)}
    joined = {name for group in groups.values() for name in group[1:]}
    return {name: groups.get(name, [name]) for name in classes if name not in joined}


def _split_notes(found: Mapping[str, Any]) -> list[str]:
    classes = found.get("classes") or []
    alike = alike_classes(classes)
    if not alike:
        return []
    how = f"data.classes: {yaml_of(classes_joined(classes))}" if len(classes) <= SHOWN else \
        "data.classes, with all the others"
    pairs = "; ".join(" and ".join(map(repr, group)) for group in alike[:SHOWN])
    return [f"warning: classes that differ in capitals or spaces alone: {pairs}"
            f"{f'; and {len(alike) - SHOWN} more' if len(alike) > SHOWN else ''}. They are learned as classes of their "
            f"own; to join them: {how}"]


def _split_cost(f: Facts[Any]) -> Cost:
    """Return that of passes over the labels, in the driver: a block of rows with what is known and drawn of them.

    One finds the classes, one counts them; one counts what can be tested, one all rows, one draws, and one takes the
    rows.
    """
    passes, held = 6, HELD * min(f.n_rows, DRAW_ROWS)
    return cost_of(0, passes * 9 * f.n_rows, 16 * (f.n + f.n_test), held, held)


SPLIT = Stage("split", 7, ("dataset",), SplitParams.of, make_split, _split_cost, "use a smaller file",
              files=("source",), notes=_split_notes)
