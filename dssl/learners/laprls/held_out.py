"""Values of labels by functions without their fold, for other losses than the squared one."""

import numpy as np

from ...storage.blocks import row_ranges
from ..held_out.influence import influence_of_labels
from ..linear.newton import GramOfLabels, LabelSpace, Minimum, minimize
from ..losses import SmoothLoss
from .params import LabelLines

COLUMN_BYTES = 64 << 20  # of the values of columns that are fitted side by side
REFINE = {"influence": 0, "refined_influence": 1}  # steps of Newton's method after the influence function


def without_folds(space: LabelSpace, loss: SmoothLoss, lines: LabelLines, whole: Minimum, fit_intercept: bool,
                  refine: int | None) -> np.ndarray:
    """Return the value (m, c) of each label by the function without its fold, NaN where it is never held out.

    whole : the minimum of all labels. refine : None where each fold is fitted, from there on; or else the steps that
    follow on the influence function.
    """
    (m, c), found = lines.target.shape, np.full(lines.target.shape, np.nan)
    if refine is not None and isinstance(space, GramOfLabels):
        held = [np.flatnonzero(lines.fold == fold) for fold in range(lines.n_held)]
        return influence_of_labels(space.N, lines.target, lines.weight, loss, whole.values, held,
                                   intercept=fit_intercept, refine=refine)
    for first, last in row_ranges(lines.n_held, max(1, COLUMN_BYTES // (8 * m * c))):
        y, weight = lines.columns(range(first, last))
        start = Minimum(*(np.tile(array, last - first) for array in (whole.coef, whole.intercept, whole.values,
                                                                     whole.steps)))
        values = minimize(space, loss, y, weight, fit_intercept=fit_intercept, start=start).values.reshape(m, -1, c)
        own = np.flatnonzero((lines.fold >= first) & (lines.fold < last))
        found[own] = values[own, lines.fold[own] - first]
    return found
