"""The first spec of a file: what is in it, which column is the target, and what is to be said of the others.

Everything that is chosen stands in the spec with the reason, and can be changed there.
"""

import re
import tempfile
import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...base.errors import DataError, require
from ...base.yaml import yaml_of
from ...data.findings import ColumnRecord, SurveyRecord, excluded_columns, to_json
from ...data.floats import RESOLVED
from ...data.readers.base import NO_TARGET
from ...data.readers.cells import MAX_LEVELS
from ...data.readers.file_rows import FileRows
from ...data.readers.formats import FORMATS
from ...data.scaling.outliers import SHOWN as SHOWN_ROWS
from ...data.scaling.outliers import describe_outlier_rows
from ...data.sources import files_in, find_source
from ...execution.tasks import Execution
from ...pipeline.sentinels import extents_of
from ...pipeline.split import alike_classes, classes_joined
from .first_look import Labels, Look, labels_like_missing, listed, marker_of, without_unlabeled
from .first_tags import FirstTags, find_tags
from .first_target import FEW, group_remarks

Task = Literal["classification", "regression", "clustering"]
FEW_LABELS = 50  # labels below which all are learned from, and judge the result held out one by one
FEW_TESTS = 30  # test points below which an error is a rough guess
ASKED_FOR = "as asked for"
SHOWN = 6  # classes, and columns, that a comment names
WIDTH, COMMENT = 34, 80  # of what stands before a comment, and of a line of it


@dataclass(frozen=True)
class FirstSpec:
    """A spec as text, and what was seen and chosen, a line each.

    task, target : what is predicted. records : of the columns, in their order, JSON.
    """

    name: str
    text: str
    messages: list[str]
    task: Task
    target: str | None
    records: list[SurveyRecord]


def first_spec(sources: Sequence[str], options: dict[str, Any], execution: Execution, *,
               target: str | None = None) -> FirstSpec:
    """Return the spec of a source that has none yet.

    sources : names, paths, URLs or patterns; a folder of files of one format stands for all of them.
    options : of the reader, as in `data.read`. target : the column or member that is predicted, or "none"; unset, it
    is looked for. Memory: a block of rows a thread.

    Raises DataError: there is no such source, it cannot be read, or nothing in it is the target beyond doubt.
    """
    named = [files_in(source) for source in sources]
    source = find_source(named if len(named) > 1 else named[0], labels=options.get("labels"),
                         format=options.get("format"))
    given = options if target is None else {**options, "target": target}
    with tempfile.TemporaryDirectory() as scratch:
        look = Look(source, given, Path(scratch), execution)
        why = ASKED_FOR if target is not None or "target" in options else ""
        tags = find_tags(look, given.get("target"))
        if tags is not None:
            given = {**given, "target": NO_TARGET, "drop": (*listed(given.get("drop")), *tags.columns)}
            look = Look(source, given, Path(scratch), execution)
        elif not why:
            target_record, why = look.target()
            if target_record is not None:
                given = {**given, "target": target_record}
                look = Look(source, given, Path(scratch), execution)
        look.name_codes()
        look.remarks += [f"{column} says train and test; if that is the split, set test: {{column: {yaml_of(column)}}}"
                         for column in look.marks]
        look.remarks += group_remarks(look.records or ()) if look.is_table else []
        look.name_sentinels()
        return _written(named, _name_of(sources[0]), look, why, tags)


@dataclass
class _Lines:
    """The lines of a spec with their comments, and messages on them."""

    lines: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    depth: int = 0

    def add(self, body: str, comment: str = "", *, message: str | None = None) -> None:
        """Add a line; message : what the terminal says of it, if anything."""
        text = "  " * self.depth + body
        first, *more = textwrap.wrap(comment, COMMENT, break_long_words=False) or [""]
        self.lines.append(f"{text:<{WIDTH}}  # {first}" if comment else text)
        self.lines += [f"{'':<{WIDTH}}  # {line}" for line in more]
        if message is not None:
            self.messages.append(message)

    @contextmanager
    def section(self, body: str, comment: str = "") -> Iterator[None]:
        self.add(body, comment)
        self.depth += 1
        yield
        self.depth -= 1


def _name_of(source: str) -> str:
    """Return the name of a spec, from that of its source."""
    plain = Path(re.sub(r"[*?\[\]]+", "", source).rstrip("/")).name.lower().split(".")[0]
    return re.sub(r"[^a-z0-9_-]+", "-", plain).strip("-_")[:60] or "mine"


def _written(named: Sequence[str], name: str, look: Look, why: str, tags: FirstTags | None = None) -> FirstSpec:
    """Return the spec of what was seen; tags : several labels a point, in place of a target."""
    scan, labels = look.scan, look.labels()
    records = look.records or []
    require(not records or any(record.finding != "constant" for record in records), error=DataError,
            what=f"{look.source.name}: every column is constant", why="all rows are equal, so that no model can tell "
            "them apart", fix="check that the columns were read correctly")
    task = "classification" if tags is not None else _task(labels, look.source.name)
    has_nulls = FORMATS.named(look.format).is_typed
    marker = marker_of(labels, has_nulls=has_nulls) if labels is not None and task == "classification" else None
    if labels is not None and task == "classification":
        labels = without_unlabeled(labels, marker)
    out = _Lines()
    shown = " ".join(named)
    columns = f"{scan.n_columns:,} columns" + (" (sparse)" if scan.nnz is not None else "")
    out.messages.append(f"{shown}: {look.format}, {scan.n_rows:,} rows, {columns}")
    out.add(f"# What `dssl init {shown}` found: {scan.n_rows:,} rows, {columns}. Change what is wrong; a line that is")
    out.add("# left out takes the default. `dssl schema` prints all keys with their meaning.")
    out.add(f"name: {yaml_of(name)}")
    with out.section("data:"):
        _data(out, named, look, labels, task, marker, why, records, tags)
    if task == "clustering":
        with out.section("model:"):
            out.add("kind: clustering")
            out.add("n_clusters: eigengap", "their number, or eigengap: chosen where the eigenvalues fall most")
    else:
        few = "{per_class: 10}" if tags is None else "{count: 100}"
        out.add("labels: {given: true}", f"all labels except those of the test points; {few} takes only so many")
        out.add("model: {kind: automatic}", "nothing to tune: it averages kernels with and without the graph, weighted "
                                            "by leave-one-out errors; soft_labels adds the predictions of another "
                                            "model")
    return FirstSpec(name, "\n".join(out.lines) + "\n", out.messages, task,
                     ", ".join(tags.columns) if tags is not None else scan.target, to_json(records))


def _task(labels: Labels | None, source: str) -> Task:
    if labels is None:
        return "clustering"
    labels.require_any(source)
    if labels.is_text or (labels.is_whole and labels.counts is not None and len(labels.counts) <= FEW):
        require(labels.counts is not None, f"{source}: the target has more than {MAX_LEVELS:,} different texts",
                why="it names rows, not classes", fix="name another column with --target", error=DataError)
        require(len(labels.counts or ()) >= 2 or labels.missing > 0, f"{source}: the target has one value",
                why="classes are told apart from two on", fix="name another column with --target", error=DataError)
        return "classification"
    require(labels.low != labels.high or labels.known == 1, error=DataError,
            what=f"{source}: the target is {labels.low:g} in all {labels.known:,} rows that have one",
            why="there is nothing to learn: every model predicts this number",
            fix="name another column with --target, or --target none for clusters")
    return "regression"


def _data(out: _Lines, named: Sequence[str], look: Look, labels: Labels | None, task: Task,
          marker: tuple[Any, str] | None, why: str, records: Sequence[ColumnRecord], tags: FirstTags | None) -> None:
    """Add the section `data`."""
    out.add(f"source: {yaml_of(list(named) if len(named) > 1 else named[0])}")
    if task != "classification":
        about = "no target: rows are grouped" if labels is None else (
            f"numbers from {labels.low:g} to {labels.high:g}; classification if they are codes of classes")
        if labels is None and "labels" in look.reader.options:
            about += "; --read labels=FILE names a file of labels"
        elif labels is None and why not in ("", ASKED_FOR):
            about += f"; {why}"
        out.add(f"task: {task}", about, message=f"task: {task}: {about}")
    excluded = _excluded(records, look)
    if tags is not None:
        look.without(tags.columns)
        out.add(f"tags: {yaml_of(tags.section)}", tags.in_words, message=f"data.tags: {tags.in_words}")
    _read(out, look, labels, why, records, excluded)
    if marker is not None:
        out.add(f"unlabeled: {yaml_of(marker[0])}", marker[1], message=f"data.unlabeled: {marker[0]!r}: {marker[1]}")
    unknown = labels_like_missing(labels) if labels is not None and task == "classification" else []
    if labels is not None and len(unknown) > 1:
        about = "if they stand for no label, " + (
            f"add {yaml_of(unknown)} to data.read.missing, which marks them as empty cells, in all columns"
            if look.is_table else "make them None or empty texts")
        each = ", ".join(f"{value}: {(labels.counts or {})[value]:,} rows" for value in unknown)
        out.add(f"# {each}", about, message=f"{each}; {about}")
    classes = list(labels.counts or ()) if labels is not None and task == "classification" else []
    if alike := alike_classes(classes):
        pairs = "; ".join(" and ".join(map(repr, group)) for group in alike[:SHOWN])
        about = f"joined, since they differ in capitals or spaces alone: {pairs}"
        out.add(f"classes: {yaml_of(classes_joined(classes))}", about, message=f"data.classes: {about}")
    if labels is not None and task == "classification" and labels.counts and len(labels.counts) == 1:
        only = next(iter(labels.counts))
        one = f"all labels are {only!r}: a classifier needs two classes, so label some rows of another one"
        out.add(f"# {one}", message=one)
    if tags is not None:
        labels = Labels(tags.n_known, tags.n_rows - tags.n_known, True, False, {"": tags.n_known})
    if labels is not None:
        _test(out, look, labels, task)
    for remark in look.remarks:
        out.add(f"# {remark}", message=remark)
    if look.sentinels.counts and (rows := look.sentinels.rows):
        places = "; ".join(look.reader.places(rows[:SHOWN])) + (
            f"; and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else "")
        codes = " and ".join(map(str, look.sentinels.counts))
        empty = f"every number is {codes}, so nothing is known of the row: {places}; leave it out of the file"
        out.add(f"# {empty}", message=empty)
    extents = extents_of(look.reader, look.ranges, look.execution)
    spans = [] if extents is None else [
        float(extents.largest[j] - extents.smallest[j]) for j, record in enumerate(records)
        if record.name not in excluded and record.kind in ("number", "integer")
        and extents.largest[j] > extents.smallest[j]]
    sizes = np.zeros(len(records)) if extents is None else np.maximum(np.abs(extents.smallest), np.abs(extents.largest))
    large = [f"{record.name} (up to {size:.2g})" for record, size in zip(records, sizes, strict=False)
             if size > np.finfo(np.float32).max and record.name not in excluded]
    if large:
        refused = f"a run refuses numbers too large for float32: {_some(large)}; correct them, or leave the columns out"
        out.add(f"# {refused}", message=refused)
    if extents is not None and extents.outliers and extents.outliers["n_rows"]:
        identifier = next((record.name for record in records if record.finding == "identifier"), None)
        file_rows = FileRows.of(look.reader, look.scan.n_rows)
        called = [] if file_rows is None else file_rows.called(extents.outliers["rows"][:SHOWN_ROWS], identifier)
        outliers = describe_outlier_rows(extents.outliers, look.scan.feature_names, called)
        out.messages.append(f"{outliers}; if that is a code of a missing cell, mark it as missing")
    chosen = "ranges of the columns" if task == "clustering" else "ranges of the columns and the labels"
    scale = f"the run chooses it from the {chosen}"
    if spans:
        ratio = max(spans) / min(spans)
        shown = f"{ratio:,.1f}" if ratio < 1e9 else f"{ratio:.2g}"
        scale += f"; the widest range of a column is {shown} times the narrowest"
    out.add("# scale: auto", scale, message=f"data.scale: auto: {scale}")


def _excluded(records: Sequence[ColumnRecord], look: Look) -> dict[str, str]:
    """Return the columns of a table that are no features, with the reason; none where no other is left."""
    if not look.is_table:
        return {}
    keep = look.options.get("keep_ids", False)
    kept = {record.name for record in records if record.finding == "identifier"
            and (keep is True or record.name in listed(keep))}
    columns = look.reader.column_names()  # one side of a column of sizes cannot be left out
    reasons = {record.name: record.why or record.finding for record in records
             if record.finding is not None and record.name not in kept and (not columns or record.name in columns)}
    reasons |= {record.name: f"{record.why}; if new rows have it too, it is a feature" for record in records
              if record.finding == "target"}
    return reasons if len(reasons) < len(records) else {}


def _identifiers(records: Sequence[ColumnRecord], look: Look) -> dict[str, str]:
    """Return the columns that a run leaves out by itself, identifiers and free text, with the reason."""
    names = look.scan.feature_names
    if not look.is_table or names is None or len(set(names)) < len(names):
        return {}
    return {records[j].name: str(records[j].why)
            for j in sorted(excluded_columns(records, look.options.get("keep_ids", False)))}


def _read(out: _Lines, look: Look, labels: Labels | None, why: str, records: Sequence[ColumnRecord],
          excluded: dict[str, str]) -> None:
    """Add the section `data.read`."""
    used = [record for record in records if record.name not in excluded]

    def named(record: ColumnRecord) -> str:
        return record.name if look.scan.feature_names else f"column {record.name}"

    given = {key: value for key, value in look.options.items() if key not in ("target", "drop")}
    texts = [record for record in used if record.kind in ("category", "text", "time")]
    empty = [record for record in used if record.missing]
    narrow = [record for record in used if _is_narrow(record)]
    settable = "target" in look.reader.options and (labels is not None or "target" in look.options)
    identifiers = _identifiers(records, look)
    dropped = dict.fromkeys(listed(look.options.get("drop")), ASKED_FOR) | look.unusable | {
        column: reason for column, reason in excluded.items() if column not in identifiers}
    if "categories" in given:  # which are features
        categories = [column for column in listed(given.pop("categories")) if column not in dropped]
        given |= {"categories": categories} if categories else {}
    is_plain = not (given or texts or empty or narrow or dropped) and not settable
    if labels is not None:
        counted = _counted(labels)
        reason = f"; {why}" if why else ""
        out.messages.append(f"target: {look.scan.target}{reason}; {counted}")
    if is_plain:
        return
    with out.section("read:"):
        if settable:
            out.add(f"target: {yaml_of(look.options.get('target', look.scan.target))}",
                    f"{why}; {counted}" if labels is not None else "no column is the target")
        for key, value in given.items():
            as_yaml = yaml_of(list(value) if isinstance(value, tuple) else value)
            out.add(f"{key}: {as_yaml}", look.reasons.get(key, ASKED_FOR))
            if key in look.reasons:
                out.messages.append(f"data.read.{key}: {as_yaml}: {look.reasons[key]}")
        if identifiers:
            each = "; ".join(f"{column}: {reason}" for column, reason in identifiers.items())
            naming = next((record.name for record in records
                           if record.finding == "identifier" and record.name in identifiers), None)
            out.add(f"# keep_ids: {yaml_of([*identifiers])}", f"{each}: left out of the features by itself"
                    + (f"; dssl predict names rows by {naming}" if naming else ""))
            out.messages += [f"left out: {column}: {reason}" for column, reason in identifiers.items()]
        if dropped:
            with out.section("drop:", "columns that are no features; without its line a column is one"):
                for column, reason in dropped.items():
                    out.add(f"- {yaml_of(column)}", reason, message=f"left out: {column}: {reason}")
        if empty:
            shown = _some([f"{named(record)}: {record.missing:,}" for record in empty])
            out.add("when_missing: impute", f"empty cells: {shown}; a number takes the mean of its column",
                    message=f"data.read.when_missing: impute: empty cells: {shown}")
        written = {records[j].name: text for j, text in look.scan.written.items() if j < len(records)}
        if shown := _some([f"{name} ({text})" for name, text in written.items() if name not in excluded]):
            out.add("# read as numbers", shown, message=f"read as numbers: {shown}")
        if bounds := _bounds(look, excluded):
            out.add("# numbers with a bound", f"read as the bound: {bounds}", message=f"read as its bound: {bounds}")
        if texts:
            shown = _some([f"{record.name} ({record.levels} different)" for record in texts])
            out.add("when_text: one_hot", f"text: {shown}; a column of 0 and 1 for each",
                    message=f"data.read.when_text: one_hot: text: {shown}")
        if narrow:
            shown = _some([named(record) for record in narrow])
            out.add("dtype: float64", f"float32 would lose digits of {shown}",
                    message=f"data.read.dtype: float64: float32 would lose digits of {shown}")


def _bounds(look: Look, excluded: Collection[str]) -> str:
    """Return which cells of the features have a bound, such as <5, a few with their places."""
    names, texts = look.scan.feature_names, []
    for j, cells in look.scan.bounds.items():
        label = names[j] if names else str(j)
        if label not in excluded:
            places = look.reader.places([row for row, _ in cells.shown])
            shown = ", ".join(f"{text!r} in {place}" for (_, text), place in zip(cells.shown, places, strict=True))
            texts.append(f"{label} ({cells.texts:,}: {shown})")
    return _some(texts)


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - SHOWN
    return ", ".join(texts[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def _is_narrow(record: ColumnRecord) -> bool:
    """Return whether float32 may not tell the values of a column apart."""
    if record.min is None or record.max is None or record.kind not in ("number", "integer"):
        return False
    largest = max(abs(record.min), abs(record.max))
    if record.kind == "integer" and largest <= 1 << 24:
        return False
    return 0 < record.max - record.min < RESOLVED * float(np.spacing(np.float32(min(largest, 1e38))))


def _counted(labels: Labels) -> str:
    """Return how many rows have a label, and how many each class has."""
    known = "1 row has one" if labels.known == 1 else f"{labels.known:,} rows have one"
    rows = f"{known}, {labels.missing:,} do not" if labels.missing else f"all {known}"
    few = labels.counts is not None and (labels.is_text or (labels.is_whole and len(labels.counts) <= FEW))
    each = _some([f"class {value}: {count:,} {'row' if count == 1 else 'rows'}"
                  for value, count in (labels.counts or {}).items()]) if few else ""
    return f"{rows}: {each}" if each else rows


def _test(out: _Lines, look: Look, labels: Labels, task: Task) -> None:
    """Add the test points: a fifth of the labeled rows, or as many as leave a label of each class."""
    if look.scan.has_split:
        out.add("test: {official: true}", "the split that the source comes with")
        return
    sizes = list((labels.counts or {}).values()) if task == "classification" else [labels.known]
    known = sum(sizes)
    max_test = sum(size - 1 for size in sizes)
    if max_test < 1:
        require(labels.missing > labels.known, f"no class has two labels: {_counted(labels)}", error=DataError,
                why="if nearly every row has a label of its own, the column names rows, not classes",
                fix="name another column with --target, or label two rows of a class or more")
        reason = "the model learns from all labels; no class has two, so none can be held out and nothing judges the " \
                 "result: label a second row of each class" if task == "classification" else \
                 "one row has a target, and a run needs two: give a second row one"
    elif known < FEW_LABELS:
        reason = f"the model learns from all {known:,} labels, and leave-one-out cross-validation judges it"
    if max_test < 1 or known < FEW_LABELS:
        out.add("test: {none: true}", reason, message=f"data.test: none: {reason}")
        return
    count = max(1, round(known / 5))
    body = "test: {fraction: 0.2}" if count <= max_test else f"test: {{count: {max_test}}}"
    n_test = min(count, max_test)
    rough = ", so few that the test error is a rough estimate" if n_test < FEW_TESTS else ""
    out.add(body, f"{n_test:,} of the {known:,} labeled rows are test points{rough}",
            message=f"data.test: {n_test:,} of the {known:,} labeled rows judge the result{rough}")
