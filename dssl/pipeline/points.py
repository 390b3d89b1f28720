"""The stages of the data: the data set, which of its points are used and labeled, and their scaled rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..data.dataset import Dataset
from ..data.ingest import ingest
from ..data.ingest_params import IngestParams, ingest_cost
from ..data.labels import choose_labels, sample_points, split_test
from ..data.scaling import Scaling, ScalingParams, fit_scaling, scaled_rows, scaling_cost
from ..data.told_labels import read_told_labels
from ..errors import DataError, explain, require, sentences
from ..execution.cost import Cost, cost_of
from ..learners.encoding import (
    as_whole_numbers,
    encode_labels,
    encode_values,
    keep_classes,
    map_classes,
    require_no_quantities,
)
from ..learners.target import Classes, Quantities, Target
from ..report.sections.data import data_section
from ..storage.blocks import PartWriter, Receipt, Rows, row_ranges
from ..storage.csr import csr_arrays
from ..storage.pieces import BlockedCsrRows
from .facts import Facts
from .spec import LearningTask, Spec
from .stage import Context, Stage


def make_dataset(context: Context, params: IngestParams) -> dict[str, Any]:
    """Read the source into parts."""
    dataset = ingest(context.files["source"].source, context.parts, context.execution, params,
                     progress=context.progress)
    names = [name for name in ("X", "y", "split") if getattr(dataset, name) is not None]
    attributes = {name: value for name, value in dataset.attributes.items() if name != "source"}
    described = dataset.X.describe() if isinstance(dataset.X, BlockedCsrRows) else None
    return {"arrays": names, "n": len(dataset), "d": dataset.X.shape[1], "X": described, "dataset": attributes}


def dataset_of(context: Context) -> Dataset:
    """Return the data set as it was read."""
    attributes = context.attributes("dataset")
    described = attributes["X"]  # of sparse rows, which are no shared array
    arrays: dict[str, Rows] = {name: context.rows("dataset", name) for name in attributes["arrays"]
                               if name != "X" or described is None}
    if described is not None:
        arrays["X"] = BlockedCsrRows.of(context.inputs["dataset"].parts, described)
    return Dataset(arrays["X"], arrays.get("y"), arrays.get("split"), attributes["dataset"])


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


def _official(params: SplitParams, dataset: Dataset, source: str) -> np.ndarray | None:
    """Return 0 for training and 1 for test of each row, where the spec asks for the official split."""
    if params.rows == "all" and not params.test_official:
        return None
    asked = "data.test.official" if params.test_official else "data.rows: official_train"
    require(dataset.split is not None, f"{source} has no official split", error=DataError,
            why=f"{asked} asks for it", fix="set data.test.count or data.test.fraction" if params.test_official
            else "leave data.rows out")
    assert dataset.split is not None
    return dataset.split.read_all()


def _quantities(params: SplitParams, dataset: Dataset, source: str) -> tuple[np.ndarray, Target]:
    """Return the rows in use, and their quantities."""
    assert not isinstance(params.unlabeled, str)  # the spec refuses it
    target = Quantities.of(encode_values(dataset.named_targets(), params.unlabeled))
    return np.arange(len(dataset)), target


def _in_use(params: SplitParams, dataset: Dataset, quantities: str) -> tuple[np.ndarray, Classes]:
    """Return the rows in use, and their classes; `quantities` is what to do where they are none."""
    codes, classes = encode_labels(dataset.named_targets(), params.unlabeled)
    classes, ids = as_whole_numbers(classes), np.arange(len(codes))
    if params.keep is not None:
        ids, codes, classes = keep_classes(codes, classes, params.keep)
    if params.classes is not None:
        codes, classes = map_classes(codes, classes, dict(params.classes))
    require_no_quantities(classes, quantities)
    return ids, Classes.of(codes, classes)


def _classes(params: SplitParams, dataset: Dataset, source: str) -> tuple[np.ndarray, Target]:
    """Return the rows in use, and their classes, none or two and more."""
    ids, target = _in_use(params, dataset,
                          "set data.task to regression, or map the target to classes with data.classes")
    require(len(target.names) != 1, f"{source} has 1 class(es): {target.names.tolist()}", error=DataError,
            why="a classifier tells at least two classes apart", fix="check data.keep, data.classes and the target")
    return ids, target


def _groups(params: SplitParams, dataset: Dataset, source: str) -> tuple[np.ndarray, Target | None]:
    """Return the rows in use, and the classes that clusters are compared with; none where the data set has none."""
    if dataset.y is not None:
        ids, target = _in_use(params, dataset, "where there are no classes set data.read.target to none, and name in "
                              "data.read.drop what is no feature; or make classes of the target with data.classes")
        return ids, target if len(target.labeled) else None
    require(params.keep is None and params.classes is None, f"{source} has no classes", error=DataError,
            why="data.keep and data.classes ask for them", fix="leave these out, or set data.read.target")
    return np.arange(len(dataset)), None


TARGETS: dict[str, Callable[[SplitParams, Dataset, str], tuple[np.ndarray, Target | None]]] = {
    "classification": _classes, "regression": _quantities, "clustering": _groups}


def make_split(context: Context, params: SplitParams) -> dict[str, Any]:
    """Choose classes, test points and training points; write their row numbers, and their codes or quantities."""
    dataset, source = dataset_of(context), context.files["source"].source.name
    ids, target = TARGETS[params.task](params, dataset, source)
    require(target is None or len(target.labeled) > 0, f"no point of {source} has a target", error=DataError,
            why="there is nothing to learn from", fix="check the target, and data.unlabeled, the marker of no target")
    official = _official(params, dataset, source)
    if params.rows == "official_train":
        assert official is not None
        kept = np.flatnonzero(official[ids] == 0)
        ids, target = ids[kept], None if target is None else target.among(kept)
    codes = np.zeros(len(ids), np.int64) if target is None else target.strata_among(len(ids))
    official = official[ids] if params.test_official and official is not None else None
    train, test = np.arange(len(ids)), np.arange(0)
    if params.tests:
        train, test = split_test(codes, count=params.test_count, fraction=params.test_fraction, official=official,
                                 seed=params.seed)
        test = test[codes[test] >= 0]
        require(len(test) > 0, "no test point has a label", error=DataError,
                why="there is nothing to compare predictions with",
                fix="set data.test.count or data.test.fraction, or give the test points labels")
    if params.points is not None and params.points != len(train):
        train = sample_points(train, params.points, params.seed)
    known = {} if target is None else {
        f"{name}_{key}": array for name, rows in (("train", train), ("test", test))
        for key, array in target.among(rows).spread(len(rows)).items()}
    PartWriter(context.parts, 0).write(train=ids[train], test=ids[test], **known)
    described = {} if target is None else {**target.to_arrays()[1], **target.described()}
    return {**described, "n_train": len(train), "n_test": len(test)}


def known_target(context: Context, name: str) -> Target | None:
    """Return what is known of the "train" or "test" points, as `split_target`; None where there is nothing."""
    return split_target(context, name) if "classes" in context.attributes("split") else None


def split_target(context: Context, name: str) -> Target:
    """Return what is known of the "train" or "test" points, each named by its place among them."""
    prefix = f"{name}_"
    return Target.from_arrays({key.removeprefix(prefix): array for key, array in context.arrays("split").items()
                               if key.startswith(prefix)}, context.attributes("split"))


@dataclass(frozen=True)
class ScaleTask:
    """Write the scaled rows of one range of chosen points, to a shared array, or sparse ones to the task's part."""

    rows: Rows
    ids: np.ndarray
    state: tuple[dict[str, np.ndarray], dict[str, Any]]  # of the scaling
    name: str
    start: int

    def __call__(self, out: PartWriter) -> Receipt:
        scaled = Scaling.from_arrays(*self.state).transform(self.rows.take(self.ids))
        if not self.rows.is_sparse:
            return out.write_rows(self.start, **{self.name: scaled})
        return {**out.write(**csr_arrays(scaled)), "rows": [self.start, self.start + len(self.ids)],
                "entries": int(scaled.nnz)}


def make_points(context: Context, params: ScalingParams) -> dict[str, Any]:
    """Scale the training and test points, fitted on the training points only, into `train` and `test`."""
    chosen, rows = context.arrays("split"), dataset_of(context).X
    scaling = fit_scaling(rows, chosen["train"], params, context.execution,
                          feature_names=context.attributes("dataset")["dataset"].get("feature_names"))
    chunk = getattr(rows, "block_rows" if rows.is_sparse else "chunk_rows", 1)
    height = scaled_rows(len(chosen["train"]), rows.row_bytes, chunk, context.execution.memory_budget)
    tasks = {}
    for name in ("train", "test"):
        if not rows.is_sparse:
            context.parts.allocate(name, (len(chosen[name]), rows.shape[1]), rows.dtype, height)
        tasks[name] = [ScaleTask(rows, chosen[name][start:stop], scaling.to_arrays(), name, start)
                       for start, stop in row_ranges(len(chosen[name]), height)]
    receipts = context.execution.map([*tasks["train"], *tasks["test"]], context.parts, context.progress)
    PartWriter(context.parts.within("scaling"), 0).write(**scaling.to_arrays()[0])
    attributes = {"scaling": scaling.to_arrays()[1], "d": rows.shape[1]}
    if not rows.is_sparse:
        return attributes
    first, dtype = {"train": 0, "test": len(tasks["train"])}, np.result_type(rows.dtype, np.float32)
    for name, own in tasks.items():
        entries = sum(receipt["entries"] for receipt in receipts[first[name]:first[name] + len(own)])
        attributes[name] = BlockedCsrRows(context.parts, (len(chosen[name]), rows.shape[1]), dtype, height, entries,
                                          first[name]).describe()
    return attributes


@dataclass(frozen=True)
class LabelParams:
    """Which training points are labeled: a number, so many a class, a share, or all that have a label."""

    count: int | None
    per_class: int | None
    fraction: float | None
    given: bool
    seed: int


def _told(context: Context, chosen: Target) -> tuple[Target, dict[str, Any]]:
    """Return the chosen target with the labels of `labels.file`, and how many these are; JSON."""
    if "labels" not in context.files:
        return chosen, {}
    source, train = context.files["labels"].source, context.arrays("split")["train"]
    rows, texts = read_told_labels([file.path for file in source.files])
    strangers = np.setdiff1d(rows, train)
    require(len(strangers) == 0, f"{source.name}: {len(strangers)} of {len(rows)} rows are no training points, such as "
            f"{strangers[:5].tolist()}", why="test points and points that are not used are not learned from",
            fix="leave data as it was when the rows were suggested, or delete these lines", error=DataError)
    order = np.argsort(train)
    try:
        target = chosen.told(order[np.searchsorted(train, rows, sorter=order)], texts)
    except DataError as error:
        what, why, fix = sentences(str(error))
        raise DataError(explain(f"{source.name}: {what}", why=why, fix=fix)) from error
    return target, {"told": len(rows)}


def make_labels(context: Context, labels: LabelParams) -> dict[str, Any]:
    """Choose the labeled points, add those of a file; write their places among the training points."""
    known = split_target(context, "train")
    if labels.given:
        chosen = known
        require("labels" in context.files or len(chosen.labeled) > 0, "no training point has a target", error=DataError,
                why="there is nothing to learn from", fix="keep fewer points for the test, or give more a target")
    else:
        rows = choose_labels(known.strata_among(context.attributes("split")["n_train"]), count=labels.count,
                             per_class=labels.per_class, fraction=labels.fraction, seed=labels.seed,
                             n_classes=known.n_strata)
        chosen = known.take(np.searchsorted(known.labeled, rows))
    chosen, told = _told(context, chosen)
    arrays, attributes = chosen.to_arrays()
    PartWriter(context.parts, 0).write(**arrays)
    return {**attributes, **chosen.described(), "n_labeled": len(chosen.labeled), **told}


def labeled_target(context: Context) -> Target:
    """Return the labeled training points with their classes or quantities."""
    return Target.from_arrays(context.arrays("labels"), context.attributes("labels"))


def _dataset_cost(f: Facts[Any]) -> Cost:
    assert f.scan is not None
    return ingest_cost(f.scan, f.read, f.row_bytes, f.budget)


DATASET = Stage("dataset", 3, (), lambda spec: spec.data.ingest_params(), make_dataset, _dataset_cost,
                "read fewer columns (data.read.drop)", files=("source",))
# In the driver, arrays of 8 bytes a row: labels as they are read, as text and sorted, their codes and row numbers, and
# permutations of these, at most 12 at a time for the split and 7 for the labels. Read: labels, and the official split.
SPLIT = Stage("split", 4, ("dataset",), SplitParams.of, make_split,
              lambda f: cost_of(0, 9 * f.n_rows, 16 * (f.n + f.n_test), 100 * f.n_rows, 100 * f.n_rows),
              "use a smaller file", files=("source",))
LABELS = Stage("labels", 2, ("split",),
               lambda spec: LabelParams(**spec.labels.model_dump(exclude={"file"})), make_labels,
               lambda f: cost_of(0, 16 * (f.n + f.n_test), 16 * f.n_labeled, 60 * f.n + 16 * f.n_test, 60 * f.n),
               "lower data.points", files=("labels",))
POINTS = Stage("points", 2, ("dataset", "split"), lambda spec: spec.data.scaling, make_points,
               lambda f: scaling_cost(f.spec.data.scale, (f.n, f.n_test, f.n_rows), f.d, f.row_bytes, f.width,
                                      f.x_chunk, f.budget, is_sparse=f.sparse_entries is not None),
               "read fewer columns, or lower data.read.block_rows", section=data_section)
