"""Which values count as missing, in the cells of a table and in labels."""

import numpy as np
from numpy.typing import ArrayLike

MISSING = ("", "NA", "N/A", "n/a", "n.a.", "N.A.", "#N/A", "NaN", "nan", "NULL", "null", "<NA>", "?")


def is_missing_text(text: str) -> bool:
    """Return whether a text is blank or one of `MISSING`."""
    return text.strip() in MISSING


def missing_values(values: ArrayLike) -> np.ndarray:
    """Return a boolean mask of missing values: NaN, None, pandas.NA, blank text, or one of `MISSING`."""
    import pandas as pd  # takes a quarter of a second; a wrong spec is refused before that

    values = np.asarray(values)
    if values.dtype.kind not in "OUT":
        return np.asarray(pd.isna(values), bool)
    is_text = [isinstance(value, str) and is_missing_text(value) for value in values.ravel().tolist()]
    return np.asarray(pd.isna(values), bool) | np.array(is_text, bool).reshape(values.shape)
