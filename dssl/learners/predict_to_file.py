"""Predictions of many points, block by block, into a table or a file of one array: no process holds all of them."""

import csv
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, require
from ..execution.tasks import Execution
from ..storage.blocks import Rows, row_ranges
from ..storage.csr import as_rows
from ..storage.files import draft_of
from ..storage.store import StoredParts
from .coding import ClassCoding, Coding, margins_of
from .model import Model, Output, predict_blocks, withheld_rows
from .probabilities import Calibration

LINES = 1 << 14  # of a table that are made at a time


@dataclass(frozen=True)
class Answers(Output):
    """The codes or quantities that one model predicts, which points get none, and the probabilities of the classes.

    abstain : whether points that the model says nothing about have no prediction. calibration : None for no
    probabilities. far : which other points have none, bool (n,), or None.
    """

    abstain: bool
    calibration: Calibration | None
    far: Rows | None = None

    def arrays(self, models: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], Any]]:
        model, = models.values()
        found = _found(model.coding, np.zeros((1, model.n_columns)))
        arrays: dict[str, tuple[tuple[int, ...], Any]] = {"found": (found.shape[1:], found.dtype), "empty": ((), bool)}
        if self.calibration is not None:
            arrays["probabilities"] = ((len(model.coding.classes),), np.float64)
        return arrays

    def __call__(self, models: Mapping[str, Any], X: Any, start: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        model, = models.values()
        coding, (values, beyond) = model.coding, model.block_values(X)
        empty = withheld_rows(beyond & self.abstain, self.far, start)
        arrays = {"found": _found(coding, values), "empty": empty}
        if self.calibration is not None:
            arrays["probabilities"] = np.where(
                empty[:, None], np.nan, self.calibration.probabilities(margins_of(values, coding)))
        return arrays, {"unsupported": int(beyond.sum()), "left_out": int(empty.sum()),
                        "summary": coding.summary(coding.entries(values)[~empty])}


def _found(coding: Coding, values: np.ndarray) -> np.ndarray:
    """Return the codes of classes, or quantities."""
    return coding.codes(values) if isinstance(coding, ClassCoding) else np.asarray(coding.labels(values), np.float64)


def predict_to_file(model: Model, X: Any, out: Path, execution: Execution, *, abstain: bool = False,
                    calibration: Calibration | None = None, far: Rows | None = None) -> dict[str, Any]:
    """Write the predictions of X (n, d) to a .csv or .npy file, all or none; return what `predict_to_zarr` does.

    Points without a prediction have an empty cell; in an array NaN among floats, -1 among integers. With `calibration`
    a table has a column a class beside the label, an array (n, n_classes) of the probabilities takes its place.

    The tasks write blocks beside the file, on storage that every worker can open, each prediction into a folder of
    its own; then they are put together here, one after the other, and the file gets its name.

    Raises DataError: some point has no prediction, and the array no room to say so.
    """
    coding = model.coding
    draft = StoredParts(out.with_name(f".{out.name}.{uuid.uuid4().hex}"))
    try:
        rows = execution.share_rows(as_rows(X))
        receipts = predict_blocks(rows, model.shared(execution), Answers(abstain, calibration, far), execution, draft)
        left_out = sum(receipt["left_out"] for receipt in receipts)
        require(out.suffix == ".csv" or calibration is not None or coding.has_room or not left_out, error=DataError,
                what=f"{left_out} points get no label, with {out} and classes such as {coding.classes[:3].tolist()}",
                why="an array has room for no label only as -1 among other integers", fix="write a .csv file")
        write = write_table if out.suffix == ".csv" else write_array
        write(out, draft, coding, has_probabilities=calibration is not None)
    finally:
        draft.remove()
    return {"n": len(rows), "unsupported": sum(receipt["unsupported"] for receipt in receipts),
            **coding.total([receipt["summary"] for receipt in receipts])}


def _blocks(parts: StoredParts, names: tuple[str, ...]) -> Iterator[list[np.ndarray]]:
    """Yield the named arrays, a chunk of their rows at a time."""
    rows = [parts.rows(name) for name in names]
    for start, stop in row_ranges(len(rows[0]), rows[0].chunk_rows):
        yield [own.read(start, stop) for own in rows]


def _labels(coding: Coding, found: np.ndarray) -> np.ndarray:
    return coding.classes[found] if isinstance(coding, ClassCoding) else found


def write_table(out: Path, parts: StoredParts, coding: Coding, *, has_probabilities: bool) -> None:
    """Write predictions that `Answers` made as delimited text: the label or value, and the probabilities if any."""
    heads = [f"probability {name}" for name in coding.classes] if has_probabilities else []
    names = ("found", "empty", *(("probabilities",) if heads else ()))
    with draft_of(out) as draft, open(draft, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow([coding.written_as, *heads])
        for found, empty, *more in _blocks(parts, names):
            for start, stop in row_ranges(len(found), LINES):
                labels = _labels(coding, found[start:stop]).tolist()
                others = more[0][start:stop].tolist() if more else [[]] * len(labels)
                table.writerows(["" if none else label, *("" if value != value else repr(value) for value in row)]
                                for label, none, row in zip(labels, empty[start:stop].tolist(), others, strict=True))


def write_array(out: Path, parts: StoredParts, coding: Coding, *, has_probabilities: bool) -> None:
    """Write predictions that `Answers` made as one array in NumPy's format; or the probabilities in their place."""
    name = "probabilities" if has_probabilities else "found"
    like = parts.rows(name).read(0, 0) if has_probabilities else _labels(coding, parts.rows(name).read(0, 0))
    nothing = np.nan if like.dtype.kind == "f" else -1
    header = np.lib.format.header_data_from_array_1_0(like) | {"shape": (len(parts.rows(name)), *like.shape[1:])}
    with draft_of(out) as draft, open(draft, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for found, empty in _blocks(parts, (name, "empty")):
            block = found if has_probabilities else _labels(coding, found)
            if not has_probabilities and block.ndim == 1 and empty.any():
                block = np.where(empty, nothing, block)
            file.write(np.ascontiguousarray(block, like.dtype).tobytes())
