"""The ranges of the columns of a source that has no spec yet, without far rows and cells out of range, and these."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..data.readers.base import Reader
from ..data.scaling.moments import merged, moments_of
from ..data.scaling.outliers import Outliers, Reaches, outliers_of, sampled_positions
from ..execution.tasks import Execution, Reduction, Share
from ..storage.blocks import Arrays, PartWriter, Receipt


@dataclass(frozen=True)
class Extents:
    """smallest, largest (d,) : of the columns, NaN of text. outliers : as `outliers_of`; None where there is none."""

    smallest: np.ndarray
    largest: np.ndarray
    outliers: Outliers | None


@dataclass(frozen=True)
class ExtentsTask:
    """Write the rows of one range that are `sampled` (m,), or with a `Reaches` in their place their `inliers`."""

    reader: Reader
    start: int
    stop: int
    shared: Arrays

    def __call__(self, out: PartWriter) -> Receipt:
        X, arrays = finite_in(self.reader.read(self.start, self.stop).X), self.shared.load()
        if "sampled" in arrays:
            first, last = np.searchsorted(arrays["sampled"], [self.start, self.stop])
            return out.write(sample=X[arrays["sampled"][first:last] - self.start])
        filled = np.where(np.isnan(X), arrays["median"], X)
        reaches = Reaches(arrays["median"], arrays["reach"], arrays["rare"])
        inliers, outliers = reaches.inliers(filled, np.arange(self.start, self.stop))
        return out.write(**moments_of(inliers), **outliers)


def numbers_in(X: Any) -> np.ndarray:
    """Return the cells of a block (b, d) as float64, NaN where they are no numbers."""
    if not isinstance(X, pd.DataFrame):
        return np.asarray(X, np.float64)
    columns = [X.iloc[:, j].to_numpy(np.float64, na_value=np.nan) if pd.api.types.is_numeric_dtype(X.dtypes.iloc[j])
               else np.full(len(X), np.nan) for j in range(X.shape[1])]
    return np.array(columns).T


def finite_in(X: Any) -> np.ndarray:
    """Return the cells of a block (b, d) as float64, NaN where they are no finite numbers."""
    numbers = numbers_in(X)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def extents_of(reader: Reader, ranges: Sequence[tuple[int, int]], execution: Execution) -> Extents | None:
    """Return the extents of the columns of a source, from two passes over its ranges of rows; None of sparse rows."""
    scan = reader.scan()
    if scan.nnz is not None or not scan.n_columns:
        return None

    def of(**shared: np.ndarray) -> Reduction[Share]:
        arrays = execution.share(**shared)
        return Reduction([ExtentsTask(reader.narrow(start, stop), start, stop, arrays) for start, stop in ranges],
                         joined if "sampled" in shared else merged, lambda share: share)

    sample = execution.reduce(of(sampled=sampled_positions(scan.n_rows, scan.n_columns)))["sample"]
    is_number = ~np.isnan(sample).all(axis=0)
    sample = np.where(is_number, sample, 0.0)
    reaches = Reaches.of(np.where(np.isnan(sample), np.nanmedian(sample, axis=0), sample))
    sums = execution.reduce(of(median=reaches.median, reach=reaches.reach, rare=reaches.rare))
    return Extents(np.where(is_number, sums["smallest"], np.nan), np.where(is_number, sums["largest"], np.nan),
                   outliers_of(sums) if int(sums["n_outlier_cells"]) else None)


def joined(share: Share, later: Share) -> Share:
    """Return the sampled rows of two ranges."""
    return {"sample": np.concatenate([share["sample"], later["sample"]])}
