"""Predictions of many points, block by block, into a Zarr array: no task and no process ever holds all of them."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, require
from ..execution.on_dask import current_execution
from ..execution.tasks import Execution
from ..kernels.gram import block_rows, entries_of
from ..storage.blocks import Arrays, PartWriter, Receipt, Rows, row_ranges
from ..storage.csr import as_rows
from ..storage.store import create_array, write_range
from .kernel_model import KernelModel


@dataclass(frozen=True)
class StorePredictionsTask:
    """Write the predictions of rows [start, stop): class labels, or codes of classes that are no numbers, or values."""

    rows: Rows
    fitted: Arrays
    attributes: dict[str, Any]
    path: str
    start: int
    stop: int
    abstain: bool

    def __call__(self, out: PartWriter) -> Receipt:
        model = KernelModel.from_arrays(self.fitted.load(), self.attributes)
        values, beyond = model.block_values(self.rows.read(self.start, self.stop))
        receipt: Receipt = {"unsupported": int(beyond.sum())}
        kept = ~beyond if self.abstain else np.ones(len(beyond), bool)
        if model.coding == "values":
            found = values[:, 0] if values.shape[1] == 1 else values
            if self.abstain:
                found[beyond] = np.nan
            if kept.any():
                receipt |= {"sum": float(found[kept].sum()), "min": float(found[kept].min()),
                            "max": float(found[kept].max()), "count": int(found[kept].size)}
        else:
            codes = model.codes(values)
            receipt["counts"] = np.bincount(codes[kept], minlength=len(model.classes)).tolist()
            found = model.classes[codes] if model.classes.dtype.kind in "iufb" else codes
            if self.abstain:
                found = np.where(beyond, np.nan if found.dtype.kind == "f" else -1, found)
        write_range(Path(self.path), 0, self.start, found)
        return receipt


def predict_to_zarr(model: KernelModel, X: Any, out: str | Path, execution: Execution | None = None, *,
                    abstain: bool = False) -> dict[str, Any]:
    """Write the predictions of X (n, d) to a Zarr array (n,), or (n, c) of several targets; return what they are.

    Classes that are numbers are written as such; of others their codes are, and the attribute `classes` of the array
    names them. The array appears when all of it is written.

    Parameters
    ----------
    X : Rows, an array or a sparse matrix. out : a path that does not exist yet, on storage that every worker can open.
    abstain : whether points beyond the model's support (see `KernelModel.support`) get NaN, or -1 among integers.

    Returns
    -------
    `n`, `unsupported`, and `counts` by class, or `min`, `mean`, `max` of the values.

    Raises
    ------
    DataError : the path exists, its folder does not, or -1 is a class and abstaining asks for it.
    """
    execution, target = execution or current_execution(), Path(out)
    rows = execution.share_rows(as_rows(X))
    require(not target.exists(), f"{target} exists", why="predictions are written to a place of their own",
            fix="remove it, or name another path", error=DataError)
    require(target.parent.is_dir(), f"there is no folder {target.parent}", why="the predictions are written into it",
            fix="make it, or name another path", error=DataError)
    coded, numbers = model.coding != "values", model.classes.dtype.kind in "iufb"
    require(not (abstain and coded and numbers and model.classes.dtype.kind == "i" and -1 in model.classes),
            "-1 is a class, and would mark points without a label", why="both would read alike", error=DataError,
            fix="predict without abstaining")
    width = model.coef.shape[1]
    shape = (len(rows),) if coded or width == 1 else (len(rows), width)
    dtype = np.dtype(np.float64) if not coded else model.classes.dtype if numbers else np.dtype(np.int64)
    dtype = np.dtype(np.int64) if dtype.kind == "b" else dtype
    arrays, attributes = model.to_arrays()
    own = sum(array.nbytes for array in arrays.values())
    height = block_rows(model.kernel, rows, model.points.shape[0], execution.memory_budget, kernel_bytes=own,
                        sparse_entries=entries_of(model.points)) if len(rows) else 1
    draft = target.with_name(f".{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    names = {} if numbers or not coded else {"classes": [str(name) for name in model.classes]}
    try:
        create_array(draft, shape, dtype, height, attributes=names)
        shared = execution.share(**arrays)
        tasks = [StorePredictionsTask(rows, shared, attributes, str(draft), start, stop, abstain)
                 for start, stop in row_ranges(len(rows), height)]
        receipts = execution.map(tasks, execution.scratch())
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    found: dict[str, Any] = {"n": len(rows), "unsupported": sum(receipt["unsupported"] for receipt in receipts)}
    if coded:
        counts = np.sum([receipt["counts"] for receipt in receipts], axis=0) if receipts else []
        return found | {"counts": {str(name): int(count) for name, count in zip(model.classes, counts, strict=False)
                                   if count}}
    some = [receipt for receipt in receipts if "count" in receipt]
    if not some:
        return found | dict.fromkeys(("min", "mean", "max"))
    return found | {"min": min(part["min"] for part in some), "max": max(part["max"] for part in some),
                    "mean": sum(part["sum"] for part in some) / sum(part["count"] for part in some)}
