"""The tags of the rows of a table (several labels a point), read of the columns that `data.tags` names."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import DataError, explain, require
from ..data.ingest_params import IngestParams
from ..data.readers.cell_text import TRUTH
from ..learners.tags import Tags
from ..learners.target.coding import SEPARATORS
from ..learners.target.encoding import UNLABELED
from ..methods.data_sections import TagSection
from ..methods.plan_inputs import PlanInputs
from ..methods.step import WEIGHT, Context
from ..methods.tags import OF_TAGS, parts_of_tag
from ..report.record import Attributes
from ..storage.blocks import STREAM_BYTES, PartWriter, Rows, RowStream, row_ranges
from .dataset import cells_of
from .labels_from_files import LabelWeights, weigh_labels
from .spec import Spec

TAGS = "tags"  # parts of the stage `split` with those of all rows, while it reads them
SHOWN = 60  # characters of a cell that an error shows
MAX_TAGS = 10_000  # a column with more has no tags
ENTRIES = {"1": 1, "1.0": 1, "0": 0, "0.0": 0} | {  # of the cells of a column of one tag, in lower case
    word: value for line in TRUTH for value, words in enumerate(line) for word in words}


@dataclass(frozen=True)
class TagParams:
    """Where the tags stand, and how the source is read."""

    section: TagSection
    read: IngestParams


def read_tags(context: Context, params: TagParams) -> tuple[list[str], Rows]:
    """Return the names of the tags in their order, and whether each row of the source has each, (n, c) int8.

    It is -1 where that is not known. They are written to the parts `TAGS`.

    Raises DataError: a cell is no list of tags, or neither 0 nor 1.
    """
    name, n = context.files["source"].source.name, context.attributes("dataset")["n"]
    section = params.section
    if section.columns is None:
        texts, is_joined = set[str](), False
        for rows in _lists(context, params, name):
            texts.update(tag for tags in rows for tag in tags or ())
            is_joined = is_joined or any(len(tags or ()) > 1 for tags in rows)
        names = sorted(texts)
        others = [mark for mark in SEPARATORS if section.separator and any(mark in tag for tag in names)]
        require(is_joined or not others, f"{name}: no cell of the column {section.column!r} has two tags between which "
                f"{section.separator!r} stands", why=f"cells hold {' and '.join(map(repr, others))}, which may be what "
                "separates their tags", fix="set data.tags.separator to it; if each row has one label, name it as "
                "data.read.target", error=DataError)
        require(0 < len(names) <= MAX_TAGS, f"{name}: the column {section.column!r} has {len(names):,} different tags",
                why="there is nothing to learn" if not names else "it names rows, not tags that rows share",
                error=DataError, fix="name the column of the tags in data.tags.column, and what separates them in "
                "data.tags.separator")
    else:
        names = list(section.columns)
    stream = RowStream(context.parts.within(TAGS), TAGS, n, np.int8, (len(names),))
    for block in _of_lists(context, params, name, names) if section.columns is None else _of_columns(
            context, params, name):
        stream.add(block)
    stream.close()
    return names, context.parts.within(TAGS).rows(TAGS)


def tag_count(f: PlanInputs, spec: Spec) -> int:
    """Return the number of tags, whether they can be learned or not; 0 of one label a point."""
    section = spec.data.tags
    if section is None:
        return 0
    known = f.attributes["split"]["tags"] if "split" in f.attributes else section.columns
    return f.n_tags if known is None else len(known)


def tags_in(cell: str, separator: str | None) -> list[str]:
    """Return the tags that a cell lists, each once.

    separator : of text, blanks beside which do not count; None of a list, such as `['a', 'b']`.

    Raises ValueError: it is no list.
    """
    if separator is not None:
        return list(dict.fromkeys(tag for part in cell.split(separator) if (tag := part.strip())))
    tags: Any = ast.literal_eval(cell)
    if not isinstance(tags, list):
        raise ValueError(cell)
    return list(dict.fromkeys(str(tag) for tag in tags if tag is not None))


def _lists(context: Context, params: TagParams, name: str) -> Iterator[list[list[str] | None]]:
    """Yield the tags of rows after rows, of a column that lists them."""
    section = params.section
    for begin, cells, table in cells_of(context, params.read, section.names):
        tags = list[list[str] | None]()
        for i, (cell, is_missing) in enumerate(zip(cells[0], table.missing(cells[0]), strict=True)):
            try:
                tags.append(None if is_missing else tags_in(cell, section.separator))
            except (ValueError, SyntaxError) as error:
                raise DataError(explain(
                    f"{name}: row {begin + i} of the column {section.column!r} is no list: {cell[:SHOWN]!r}",
                    why="without data.tags.separator each cell is a list of text or integers, such as ['a', 'b']",
                    fix="write the list's elements as text" if cell.startswith("[") else
                    "set data.tags.separator to what stands between two tags, such as ';'")) from error
        yield tags


def _of_lists(context: Context, params: TagParams, name: str, names: Sequence[str]) -> Iterator[np.ndarray]:
    """Yield the entries (m, c) of rows after rows, of a column that lists their tags."""
    column_of = {tag: column for column, tag in enumerate(names)}
    for rows in _lists(context, params, name):
        for start, stop in row_ranges(len(rows), max(1, STREAM_BYTES // len(names))):
            block = np.zeros((stop - start, len(names)), np.int8)
            for entries, tags in zip(block, rows[start:stop], strict=True):
                if tags is None:
                    entries[:] = UNLABELED
                else:
                    entries[[column_of[tag] for tag in tags]] = 1
            yield block


def _of_columns(context: Context, params: TagParams, name: str) -> Iterator[np.ndarray]:
    """Yield the entries (m, c) of rows after rows, of a column for each tag."""
    columns = params.section.names
    for begin, cells, table in cells_of(context, params.read, columns):
        block = np.full((len(cells[0]), len(columns)), UNLABELED, np.int8)
        for j, (column, texts) in enumerate(zip(columns, cells, strict=True)):
            known = np.flatnonzero(~table.missing(texts))
            entries = np.array([ENTRIES.get(texts[i].strip().casefold(), UNLABELED) for i in known.tolist()], np.int8)
            wrong = known[entries == UNLABELED].tolist()
            require(not wrong, error=DataError, what="" if not wrong else
                    f"{name}: row {begin + wrong[0]} of the column {column!r} is {texts[wrong[0]][:SHOWN]!r}",
                    why="a column of one tag says whether a row has it", fix="write 1 or 0, and nothing where it is "
                    "unknown; a column that lists tags is named in data.tags.column")
            block[known, j] = entries
        yield block


def write_labeled_tags(context: Context, chosen: Tags, weight: str | None, read: IngestParams) -> Attributes:
    """Write the labels of all tags, and those of each that is learned by itself; return their attributes; JSON.

    weight : the column of what they weigh.
    """
    chosen.require_learnable()
    weights, weighed = dict[str, np.ndarray](), dict[str, LabelWeights]()
    if weight is not None:
        chosen, weights[WEIGHT], weighed = weigh_labels(context, chosen, weight, {}, read)
        chosen.require_learnable()
    of_tags = []
    for number, column in enumerate(chosen.learnable.tolist()):
        tag = chosen.of_tag(column)
        of_known = {name: array[np.isin(chosen.labeled, tag.labeled)] for name, array in weights.items()}
        PartWriter(parts_of_tag(context.parts, number), 0).write(**tag.to_arrays()[0], **of_known)
        of_tags.append({"tag": chosen.names[column].item(), **tag.to_arrays()[1], **tag.described(),
                        "n_labeled": len(tag.labeled)})
    arrays, attributes = chosen.to_arrays()
    PartWriter(context.parts, 0).write(**arrays, **weights)
    return {**attributes, **chosen.described(), "n_labeled": len(chosen.labeled), **weighed, OF_TAGS: of_tags}
