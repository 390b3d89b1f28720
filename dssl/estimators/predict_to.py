"""Predictions of many points, block by block, into a Zarr array: no task and no process ever holds all of them."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from ..base.digest import JsonObject
from ..base.errors import DataError, require
from ..base.types import Matrix, MatrixLike
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..learners.model import Model, Output, predict_blocks, rejected_rows
from ..learners.probabilities import Calibration, TagCalibration
from ..learners.target.coding import margins_of
from ..storage.blocks import Receipt, Rows
from ..storage.csr import as_rows
from ..storage.files import has_folder, path_at
from ..storage.foreign_zarr import publish_array
from ..storage.lease import require_exclusive
from ..storage.objects import ObjectPath
from ..storage.store import StoredParts


@dataclass(frozen=True)
class Entries(Output):
    """The predictions of one model as an array holds them, and receipts that tell what they are.

    reject : whether points that the model says nothing about have no prediction. outliers : which others have none,
    bool (n,), or None.
    """

    reject: bool
    outliers: Rows | None = None

    def arrays(self, models: Mapping[str, Model]) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
        model, = models.values()
        shape = model.coding.entries(np.zeros((1, model.n_columns))).shape[1:]
        return {"predictions": (shape, model.coding.entry_type)}

    def __call__(self, models: Mapping[str, Model], X: Matrix, start: int) -> tuple[dict[str, np.ndarray], Receipt]:
        model, = models.values()
        values, unsupported = model.block_values(X)
        entries, empty = model.coding.entries(values), rejected_rows(unsupported & self.reject, self.outliers, start)
        summary = model.coding.summary(entries[~empty])
        if empty.any():
            entries = entries.copy()
            entries[empty] = model.coding.missing_entry
        return {"predictions": entries}, {"unsupported": int(unsupported.sum()), "rejected": int(empty.sum()),
                                        "summary": summary}


@dataclass(frozen=True)
class Probabilities(Output):
    """The probabilities of the classes of one model, NaN where a point has no prediction; receipts as of `Entries`."""

    reject: bool
    calibration: Calibration | TagCalibration
    outliers: Rows | None = None

    def arrays(self, models: Mapping[str, Model]) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
        model, = models.values()
        return {"predictions": ((len(model.coding.classes),), np.float64)}

    def __call__(self, models: Mapping[str, Model], X: Matrix, start: int) -> tuple[dict[str, np.ndarray], Receipt]:
        model, = models.values()
        values, unsupported = model.block_values(X)
        empty = rejected_rows(unsupported & self.reject, self.outliers, start)
        probabilities = self.calibration.probabilities(margins_of(values, model.coding))
        probabilities[empty] = np.nan
        return {"predictions": probabilities}, {
            "unsupported": int(unsupported.sum()), "rejected": int(empty.sum()),
            "summary": model.coding.summary(model.coding.entries(values)[~empty])}


def predict_to_zarr(model: Model, X: MatrixLike | Rows, out: str | Path, execution: Execution | None = None, *,
                    reject: bool = False, calibration: Calibration | TagCalibration | None = None,
                    outliers: Rows | None = None) -> JsonObject:
    """Write the predictions of X (n, d) to a Zarr array (n,), or (n, c) of several targets.

    Classes that are numbers are written as such; of others their codes are, and the attribute `classes` of the array
    names them. The array appears when all of it is written. Returns `n`, `unsupported`, `rejected` (points without a
    prediction), and `counts` by class, or `values` with `min`, `mean`, `max`.

    X : Rows, an array or a sparse matrix. out : a path *.zarr that does not exist yet, on storage that every worker can
    open, or such a URL of an object store.
    reject : whether points that the model says nothing about get NaN, or -1 among integers. outliers : which other
    points get it, bool (n,), or None. calibration : by which the probabilities of the classes are written instead,
    (n, n_classes), whose order the attribute `classes` tells.

    Raises DataError: the path exists or has another ending, its folder does not exist, or rejection asks for -1 where
    it is a class, or unsigned.
    ClusterError: the store lets two writers write one object.
    """
    execution, target, coding = execution or current_execution(), path_at(out), model.coding
    rows = execution.share_rows(as_rows(X))
    require(target.suffix == ".zarr", f"{target} ends in {target.suffix or 'nothing'}", error=DataError,
            why="predictions are written as a Zarr array",
            fix="name a path that ends in .zarr; of a table, write what `predict` returns, or use `dssl predict`")
    require(not target.exists(), f"{target} exists", why="predictions are written to a place of their own",
            fix="remove it, or name another path", error=DataError)
    require(has_folder(target), f"there is no folder {target.parent}", why="the predictions are written into it",
            fix="make it, or name another path", error=DataError)
    withholds = reject or outliers is not None
    require(calibration is not None or not (withholds and coding.classes.dtype.kind in "iu") or coding.can_mark_missing,
            error=DataError,
            what="-1 is a class, or cannot be among unsigned ones, and would mark points without a label",
            why="it would read as another label", fix="write a .csv file, or fit signed classes")
    if isinstance(target, ObjectPath):
        require_exclusive(target.parent)
    draft = StoredParts(target.with_name(f".{target.name}.{uuid.uuid4().hex}"))
    try:
        written, names = (Entries(reject, outliers), coding.entry_names) if calibration is None else (
            Probabilities(reject, calibration, outliers), coding.classes.tolist())
        receipts = predict_blocks(rows, model.shared(execution), written, execution, draft)
        publish_array(draft.rows("predictions").path, target, {"classes": names} if names else {})
    finally:
        draft.remove()
    totals = {name: sum(receipt[name] for receipt in receipts) for name in ("unsupported", "rejected")}
    return {"n": len(rows), **totals, **coding.total([receipt["summary"] for receipt in receipts])}
