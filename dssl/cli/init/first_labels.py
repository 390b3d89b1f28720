"""What a target holds that no spec names yet: how many rows have a label, and of which class."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.errors import DataError, require
from ...base.missing import missing_values
from ...data.readers.base import Reader
from ...data.readers.cells import MAX_LEVELS
from ...data.targets import number_text, whole_numbers
from ...storage.blocks import PartWriter, Receipt

UNKNOWN = {"unknown", "unlabeled", "unlabelled", "none", "missing", "no label", "-", "--", "tbd", "todo"}  # as labels


@dataclass(frozen=True)
class Labels:
    """What a target holds: the rows with and without it, and how many have each label, the most frequent first.

    counts : None where there are more than `MAX_LEVELS`.
    """

    known: int
    missing: int
    is_text: bool
    is_whole: bool
    counts: dict[Any, int] | None
    low: float | None = None
    high: float | None = None

    def require_any(self, source: str) -> None:
        """Raise DataError where no row of a source has a label."""
        require(self.known > 0, f"{source}: no row of the target has a value", why="there is nothing to learn from",
                fix="name another column with --target, or --target none for clusters", error=DataError)
        require(not self.is_whole or set(self.counts or ()) != {-1}, error=DataError,
                what=f"{source}: no row has a label (all are -1{' or empty' if self.missing else ''})",
                why="-1 marks rows without a label, and there is nothing to learn from",
                fix="label some rows of two classes or more, name another column with --target, or --target none for "
                    "clusters")


@dataclass(frozen=True)
class LabelsTask:
    """Tell what the target holds in rows [start, stop); see `labels_in`."""

    reader: Reader
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        y = self.reader.read(self.start, self.stop).y
        assert y is not None
        return labels_in(y)


def labels_in(y: np.ndarray) -> Receipt:
    """Return what labels (n,) of a block hold, JSON: `known`, `missing`, whether they are text or whole numbers.

    Text that a run takes for no label, such as a blank one, is missing.

    `range` : of numbers. `values`, `sizes` : None where there are more than `MAX_LEVELS`. `marked` : how many are -1,
    among integers, where that is no label if others are text.
    """
    is_text = y.dtype == object
    there = ~missing_values(y) if is_text else np.isfinite(y.astype(np.float64))
    labels = y[there]
    if labels.dtype.kind == "f":
        labels = whole_numbers(labels)
    values, sizes = np.unique(labels.astype(str) if is_text else labels, return_counts=True)
    few = len(values) <= MAX_LEVELS
    return {"known": len(labels), "missing": len(y) - len(labels), "is_text": is_text,
            "is_whole": labels.dtype.kind != "f",
            "marked": int((y == -1).sum()) if y.dtype.kind == "i" else 0,
            "range": None if is_text or not len(labels) else [float(labels.min()), float(labels.max())],
            "values": values.tolist() if few else None, "sizes": sizes.tolist() if few else None}


def joined_labels(blocks: Sequence[Receipt], names: Sequence[str] | None) -> Labels:
    """Return what the labels of all blocks hold; names : of the whole numbers from 0 on, or None."""
    known, missing = (sum(block[name] for block in blocks) for name in ("known", "missing"))
    is_text = any(block["is_text"] for block in blocks)  # text in one block is text in all
    is_whole = not is_text and all(block["is_whole"] for block in blocks if block["known"])
    counts: dict[Any, int] | None = {}
    for block in blocks:
        marked = block["marked"] if is_text else 0
        known, missing = known - marked, missing + marked
        if counts is None or block["values"] is None:
            counts = None
            continue
        for value, size in zip(block["values"], block["sizes"], strict=True):
            if not (marked and value == -1):
                label = number_text(value) if is_text and not block["is_text"] else value
                counts[label] = counts.get(label, 0) + size
        counts = counts if len(counts) <= MAX_LEVELS else None
    if counts is not None:
        counts = dict(sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))))
        if names and is_whole:
            counts = {names[value] if 0 <= value < len(names) else value: size for value, size in counts.items()}
    ends = [] if is_text else [end for block in blocks if block["range"] for end in block["range"]]
    return Labels(known, missing, is_text or bool(names), is_whole, counts,
                  min(ends, default=None), max(ends, default=None))


def marker_of(labels: Labels, *, has_nulls: bool = False) -> tuple[Any, str] | None:
    """Return the label that stands for none, or one that does not occur where -1 is a class, and why.

    has_nulls : whether the format has nulls: where there are some, these mark rows without a label, and no text does.
    """
    counts = labels.counts or {}
    if -1 in counts and labels.is_whole:
        if set(counts) == {-1, 1}:  # beside any other class alone, -1 marks rows without a label
            return 0, "0 does not occur: -1 is a class here, where there are two"
        return (-1, "-1 marks rows without a label") if labels.missing else None
    if has_nulls and labels.missing:
        return None
    unknown = [value for value in counts if isinstance(value, str) and value.strip().lower() in UNKNOWN]
    if len(unknown) == 1 and len(counts) > 2:
        return unknown[0], f"{counts[unknown[0]]:,} rows say so; remove the line if it is a class"
    return None


def without_unlabeled(labels: Labels, marker: tuple[Any, str] | None) -> Labels:
    """Return the labels with those that stand for none among the missing: a marker, or -1 among whole numbers."""
    hidden = marker[0] if marker is not None else -1 if labels.is_whole else None
    counts = dict(labels.counts or {})
    gone = counts.pop(hidden, 0)
    return replace(labels, known=labels.known - gone, missing=labels.missing + gone, counts=counts)
