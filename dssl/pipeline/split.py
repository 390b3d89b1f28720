"""Which rows of the data set are trained on and tested on, and what is known of them: block by block.

No more than a block of rows is held: row numbers, codes and quantities are written as shared arrays, `train`, `test`,
`rest` (in use, and neither: not drawn, or test rows without a target), and `train_codes` or `train_values` beside them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np

from ..base.errors import BudgetError, DataError, require
from ..base.units import size_setting
from ..base.yaml import yaml_of
from ..data.columns import folded
from ..data.dataset import Dataset
from ..data.labels import DRAW_ROWS, sample_points
from ..data.source_reader import PARSED_SECONDS
from ..execution.cost import Cost, cost_of
from ..learners.tags import Tags
from ..learners.target.encoding import UNLABELED
from ..learners.target.target import Classes, Target
from ..methods.plan_inputs import PlanInputs
from ..methods.step import Context
from ..storage.artifacts import Artifact
from ..storage.blocks import RowStream, block_rng
from ..storage.views import counts_below
from .dataset import dataset_of
from .marked_tests import MARKED, OF_GROUP, marked_rows, tested_groups
from .rows_in_use import (
    Block,
    Described,
    KnownTags,
    KnownTarget,
    NoTarget,
    RowsInUse,
    SplitParams,
    known_target_of,
)
from .spec import Spec
from .stage import Stage
from .tags import TAGS, read_tags, tag_count

GROWN = 4  # the random stream by which new rows are tested; those of `data.labels` are 1 to 3
SHOWN = 12  # classes, and groups of them, that a note names
SPLIT_SECONDS = 5e-7  # of a row, on one core, in all passes over the labels; measured
HELD = 220  # bytes of a row of a block while it is drawn from, measured: numbers, codes, and their random order
OF_TAG = 4  # bytes of a row of a block in addition, for each tag; measured, 3.2


def _require_official(params: SplitParams, dataset: Dataset, source: str) -> None:
    """Raise DataError if the spec asks for an official split that there is none of."""
    asked = "data.test.official" if params.test.official else "data.rows: official_train"
    require(dataset.split is not None or not (params.test.official or params.rows == "official_train"),
            f"{source} has no official split", error=DataError, why=f"{asked} asks for it",
            fix="set data.test.column, where a column of a table says train and test, or data.test.fraction"
            if params.test.official else "leave data.rows out")


class SplitAttributes(Described, total=False):
    """The rows in use, and how many are training points, test points, and neither; `base` : of the last run."""

    n_train: int
    n_test: int
    n_rest: int
    base: Mapping[str, int]


def make_split(context: Context, params: SplitParams) -> SplitAttributes:
    """Choose classes, test points and training points; write their row numbers, and their codes or quantities.

    Where the split grows, rows of the base stay what they are there.
    """
    dataset, source = dataset_of(context), context.files["source"].source.name
    _require_official(params, dataset, source)
    if params.tags is not None:
        names, tags = read_tags(context, params.tags)
        _require_room(context.execution.memory_budget, len(dataset), len(names))
        dataset = replace(dataset, y=tags)
        target: KnownTarget = KnownTags(names)
    else:
        target = known_target_of(params, dataset, source)
    used = RowsInUse(dataset, target, params.rows == "official_train")
    described = used.target.described(used.blocks())
    known = described.pop("known", None)
    if known == 0 and params.task == "clustering":
        used, described = RowsInUse(dataset, NoTarget(), used.only_training), {}
    require(known != 0 or params.task == "clustering" or params.test.none, f"no point of {source} has a target",
            error=DataError, why="there is nothing to learn from or to test with",
            fix="check the target, and data.unlabeled, the marker of no target; where all labels are in labels.file, "
                "or there are soft labels alone, set data.test: {none: true}")
    used, of_groups = _tested(context, used, params)
    described |= of_groups
    if context.base is not None:
        return {**described, **_grown(context, used, params, context.base)}
    sizes, tested = used.tested(params)
    n_train, n_test = sizes.sum(axis=0).tolist()
    require(n_test > 0 or params.test.none, "no test point has a label", error=DataError,
            why="there is nothing to compare predictions with",
            fix="set data.test.count or data.test.fraction, or give the test points labels")
    require(n_train > 0, "all rows are test rows", error=DataError, why="there is nothing to learn from",
            fix="check the split of the source, or set data.test.fraction")
    drawn: Iterator[np.ndarray | None] = repeat(None, len(sizes))
    if params.points is not None and params.points != n_train:
        drawn, n_train = sample_points(sizes[:, 0], params.points, params.random_state), params.points
    n_rest = max(0, sum(len(block.rows) for block in used.blocks()) - n_train - n_test)  # too few are refused below
    n = {"train": n_train, "test": n_test, "rest": n_rest}
    _write(context, used, _drawn_places(zip(used.blocks(), tested(), drawn, strict=True)), n)
    for name in (TAGS, MARKED):
        context.parts.within(name).remove()
    return {**described, "n_train": n_train, "n_test": n_test, "n_rest": n_rest}


def _tested(context: Context, used: RowsInUse, params: SplitParams) -> tuple[RowsInUse, Described]:
    """Return the rows in use with which of them are tested, where the source says so, and what it says of groups."""
    if params.test.official:
        return replace(used, tests=used.dataset.split), {}
    if params.read is None:
        return used, {}
    if params.test.column is not None:
        return replace(used, tests=marked_rows(context, params.test, params.read, used)), {}
    groups = tested_groups(context, params.test, params.read, used, params.random_state)
    return replace(used, tests=groups.rows), {"groups": groups.described}


Places = tuple[Block, np.ndarray, np.ndarray]  # of rows of a block that are trained on, and that are tested


def _drawn_places(blocks: Iterator[tuple[Block, np.ndarray, np.ndarray | None]]) -> Iterator[Places]:
    """Yield the rows that are trained on, some of those that are not tested where not all are drawn."""
    for block, is_test, places in blocks:
        train = np.flatnonzero(~is_test)
        yield block, train if places is None else train[places], np.flatnonzero(is_test & (block.strata >= 0))


def _grown(context: Context, used: RowsInUse, params: SplitParams, base: Artifact) -> SplitAttributes:
    """Write what rows of the base are there, and what new ones are; return how many of each there are.

    Of new rows with a target the share `fraction` is tested, each as likely as another; official test
    rows, those that a column marks, and those of tested groups; or none. All others are trained on, also where the base
    is a sample; such test rows without a target are not.
    """
    n_base = context.attributes("dataset")["n_base"]
    n_new = len(used.dataset) - n_base
    before = {name: base.parts.rows(name) for name in ("train", "test")}
    edges = np.array([*range(0, len(used.dataset), DRAW_ROWS), len(used.dataset)])
    begin = {name: counts_below(rows, edges) for name, rows in before.items()}
    drawn = block_rng(params.random_state, GROWN, n_base).random(n_new) < (params.test.fraction or 0)

    def places() -> Iterator[Places]:
        for i, block in enumerate(used.blocks()):
            train, test = (np.isin(block.rows, rows.read(*begin[name][i:i + 2].tolist()))
                           for name, rows in before.items())
            new = np.flatnonzero(block.rows >= n_base)
            is_known = block.strata[new] >= 0
            is_test = drawn[block.rows[new] - n_base] & is_known
            if used.tests is not None:
                is_test = used.is_test(block.rows[new])
            train[new], test[new] = ~is_test, is_test & is_known
            yield block, np.flatnonzero(train), np.flatnonzero(test)

    sizes = np.sum([[len(train), len(test), len(block.rows)] for block, train, test in places()], axis=0)
    n_train, n_test, n_all = sizes.tolist()
    n = {"train": n_train, "test": n_test, "rest": n_all - n_train - n_test}
    _write(context, used, places(), n)
    context.parts.within(MARKED).remove()
    return {"n_train": n_train, "n_test": n_test, "n_rest": n_all - n_train - n_test,
            "base": {name: base.attributes[f"n_{name}"] for name in n}}


def _write(context: Context, used: RowsInUse, blocks: Iterator[Places], n: Mapping[str, int]) -> None:
    """Write the rows that are trained on, those that are tested, and the others."""
    beside = used.target.arrays
    streams = {(of, name): RowStream(context.parts, f"{of}_{name}" if name else of, count, dtype,
                                          used.target.shape if name else ())
               for of, count in n.items() for name, dtype in {"": np.int64, **beside}.items()}
    for block, train, test in blocks:
        others = np.ones(len(block.rows), bool)
        others[train], others[test] = False, False
        for of, rows in (("train", train), ("test", test), ("rest", np.flatnonzero(others))):
            streams[of, ""].add(block.rows[rows])
            for name in beside:
                assert block.known is not None
                streams[of, name].add(block.known[rows])
    for stream in streams.values():
        stream.close()


def known_target(context: Context, name: str) -> Target | None:
    """Return what is known of the "train" or "test" points, as `split_target`; None where there is nothing."""
    if "classes" not in context.attributes("split"):
        return None
    target = split_target(context, name)
    assert isinstance(target, Target)
    return target


def split_target(context: Context, name: str) -> Target | Tags:
    """Return what is known of the "train" or "test" points, each named by its place among them.

    Its classes are those of the labels where the stage needs them: a file of labels may have brought new ones.
    """
    if "tags" in context.attributes("split"):
        return Tags.from_arrays({"tags": context.rows("split", f"{name}_tags").read_all()},
                                context.attributes("split"))
    known = "codes" if "classes" in context.attributes("split") else "values"
    target = Target.from_arrays({known: context.rows("split", f"{name}_{known}").read_all()},
                               context.attributes("split"))
    names = context.attributes("labels").get("classes") if "labels" in context.inputs else None
    return target.of_names(np.array(names)) if isinstance(target, Classes) and names is not None else target


def training_strata(context: Context) -> Iterator[np.ndarray]:
    """Yield the classes of the training points, block by block; 0 of those with a quantity or a tag; -1 of others."""
    if "tags" in context.attributes("split"):
        for _, tags in context.rows("split", "train_tags").blocks(DRAW_ROWS):
            yield np.where((tags != UNLABELED).any(axis=1), 0, UNLABELED)
    elif "classes" in context.attributes("split"):
        yield from (codes for _, codes in context.rows("split", "train_codes").blocks(DRAW_ROWS))
    else:
        for _, values in context.rows("split", "train_values").blocks(DRAW_ROWS):
            yield np.where(np.isnan(values), UNLABELED, 0)


def alike_classes(classes: Sequence[Any]) -> list[list[str]]:
    """Return the names of classes, of each group that differ in capitals and spaces alone, in their order."""
    groups: dict[str, list[str]] = {}
    for name in classes:
        if isinstance(name, str):
            groups.setdefault(folded(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def classes_joined(classes: Sequence[Any]) -> dict[Any, list[Any]]:
    """Return `data.classes` that joins those that differ in capitals and spaces alone under the first of each group."""
    groups = {group[0]: group for group in alike_classes(classes)}
    joined = {name for group in groups.values() for name in group[1:]}
    return {name: groups.get(name, [name]) for name in classes if name not in joined}


def _split_notes(attributes: Mapping[str, Any]) -> list[str]:
    classes = attributes.get("classes") or []
    notes = []
    if groups := attributes.get("groups"):
        share, fraction = attributes["n_test"] / groups["n_labeled"], groups["fraction"]
        asked = f", {fraction:.0%} was asked for" if abs(share - fraction) > fraction / 4 else ""
        notes = [f"the {attributes['n_test']:,} test points ({share:.0%} of the labeled rows{asked}) are those of "
                 f"{groups['n_tested']:,} of {groups['n']:,} groups by {groups['column']!r}; rows of a group are "
                 "alike, so that intervals are too narrow, and held-out labels say nothing of new groups"]
    alike = alike_classes(classes)
    if not alike:
        return notes
    how = f"data.classes: {yaml_of(classes_joined(classes))}" if len(classes) <= SHOWN else \
        "data.classes, with all the others"
    pairs = "; ".join(" and ".join(map(repr, group)) for group in alike[:SHOWN])
    return [*notes, f"warning: classes that differ in capitals or spaces alone: {pairs}"
            f"{f'; and {len(alike) - SHOWN} more' if len(alike) > SHOWN else ''}. They are learned as classes of their "
            f"own; to join them: {how}"]


def _held_bytes(n_rows: int, n_tags: int) -> int:
    """Return the peak memory of drawing rows; n_tags : 0 of one label a point."""
    return (HELD + OF_TAG * n_tags) * min(n_rows, DRAW_ROWS)


def _require_room(budget: int, n_rows: int, n_tags: int) -> None:
    """Raise BudgetError if the tags do not fit; a plan knew their number only where each has a column."""
    held = _held_bytes(n_rows, n_tags)
    require(held <= budget, f"{n_tags:,} tags of {n_rows:,} rows need {size_setting(held, up=True)} while rows are "
            f"drawn, the memory budget is {size_setting(budget, up=False)}", error=BudgetError,
            why=f"a block of {min(n_rows, DRAW_ROWS):,} rows is held with all their tags",
            fix=f"raise memory_budget to {size_setting(held, up=True)}, in the spec or by --memory-budget, or leave "
                "out tags that few rows have")


def _split_cost(f: PlanInputs, spec: Spec) -> Cost:
    """Return that of passes over the labels, in the driver: a block of rows with what is known and drawn of them.

    One finds the classes, one counts them; one counts what can be tested, one all rows, one draws, and one takes the
    rows.
    """
    passes, c = 6, tag_count(f, spec)
    held = _held_bytes(f.n_rows, c)
    test = spec.data.test
    columns = [column for column in (test.column, test.groups) if column is not None]
    again = f.n_rows * f.source_row_bytes * (len(columns) + (spec.data.tags is not None))
    grouped = OF_GROUP * f.n_rows if test.groups is not None and f.bound == "upper" else 0
    written = 16 * (f.n + f.n_test) + (2 * c + 9 * len(columns)) * f.n_rows
    return cost_of(0, passes * (9 + c) * f.n_rows + again, written, held + grouped, held,
                   SPLIT_SECONDS * f.n_rows + PARSED_SECONDS * again)


SPLIT = Stage("split", 8, ("dataset",), SplitParams.of, make_split, _split_cost, "use a smaller file",
              files=("source",), notes=_split_notes, grows=True)
