"""What the cost functions of all kinds of model share."""

import numpy as np

from ..execution.cost import Cost, cost_of, count
from ..kernels.gram import block_rows
from ..storage.blocks import ArrayRows
from .facts import Facts


def of_those(f: Facts, found: list[Cost]) -> Cost:
    """Return the cost of one of several methods, which one is not known yet: the largest or the least figures."""
    pick = max if f.bound == "most" else min
    return Cost(*(pick(values) for values in zip(*(
        (cost.tasks, cost.read, cost.written, cost.peak, cost.least) for cost in found), strict=True)))


def scores_of(f: Facts, m: int, outputs: int, predicted: int) -> Cost:
    """Return the cost of predicting the test points with models of m points.

    A block of the kernel between test points and the points of a model, and all models; what they predict.

    outputs : columns of a model. predicted : bytes that are written a point; codes or values are 8, one-vs-rest
    models write their differences from the codes too.
    """
    d, n_test = f.width, f.n_test
    own = (len(f.spec.baselines) + 1) * m * (f.row_bytes + 8 * outputs)
    kernel = f.spec.kernels()[0].check()
    rows = ArrayRows(np.broadcast_to(np.zeros(1, f"f{f.itemsize}"), (max(n_test, 1), d)))  # a shape without bytes
    height = block_rows(kernel, rows, m, f.budget, kernel_bytes=own)
    each = 8 * m + 16 * d + f.row_bytes
    written = n_test * (predicted + 1) * (len(f.spec.baselines) + 1)
    return cost_of(count(n_test, height), n_test * f.row_bytes + own, written,
                   min(height, n_test) * each + 24 * m * d + own, 24 * m * d + own)
