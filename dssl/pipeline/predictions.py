"""What a run predicted, as a table beside its report: the test points, and of a clustering the training points."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from ..storage.artifacts import Artifact
from ..storage.blocks import Rows

FILE = "predictions.csv"
MOST = 1_000_000  # lines of the table
BLOCK = 1 << 16


def write_predictions(folder: Path, artifacts: dict[str, Artifact]) -> Path | None:
    """Write the table into a run's folder, block by block; return it, None where there is nothing, or too much, to say.

    A line a point: its row in the source, from 0; its `label` or `value` as `dssl predict` writes it, empty where the
    model says nothing; and of a test point what is `true`.
    """
    split, scores = artifacts["split"], artifacts["scores"].attributes
    classes = split.attributes.get("classes")
    if "stored" in scores:
        stored = scores["stored"]
        return _write(folder, split.parts.rows("test"), artifacts["scores"].parts.rows(stored["array"]), classes,
                      split.parts.rows("test_codes" if classes else "test_values"), stored["column"])
    clusters = artifacts["models"].attributes.get("clusters")
    return None if clusters is None else _write(
        folder, split.parts.rows("train"), artifacts["models"].parts.rows(clusters), None)


def _write(folder: Path, rows: Rows, predicted: Rows, classes: list[Any] | None,
           true: Rows | None = None, column: int = 0) -> Path | None:
    """Write the table of rows, what is predicted of them, in a column of several, and what is true."""
    if not 0 < len(rows) <= MOST:
        return None
    names = None if classes is None else np.array([*classes, ""], object)  # the last where there is none, -1

    def told(own: np.ndarray) -> list[Any]:
        return ["" if cell != cell else cell for cell in (own if names is None else names[own]).tolist()]

    with open(folder / FILE, "w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        head = "value" if classes is None and true is not None else "label"
        writer.writerow(["row", head, *([] if true is None else ["true"])])
        for start, block in predicted.blocks(BLOCK):
            stop = start + len(block)
            columns = [rows.read(start, stop).tolist(), told(block.reshape(len(block), -1)[:, column])]
            writer.writerows(zip(*columns, *([] if true is None else [told(true.read(start, stop))]), strict=True))
    return folder / FILE
