"""What held-out solves would gain from the solutions of the graph before 1 % of rows were added.

    python -m tests.benchmarks.held_out_starts [POINTS ...]

Curved manifolds in 64 columns, 20 labels a class: a column a labeled vertex, solved cold, and begun at the solutions of
the smaller graph in float32, to the tolerance of values that calibrate. Prints a line of JSON a number of points:
processor seconds and mean iterations, megabytes that a run would keep, and the largest difference of the solutions.
"""

import json
import sys
import time

import numpy as np
import scipy.sparse as sp

from dssl import KNNGraph
from dssl.data.readers.manifolds import CurvedManifolds, ManifoldParams
from dssl.solvers.solve import solve_columns
from dssl.solvers.solver_params import SolverParams
from dssl.solvers.warm_start import extended

LABELS, SHARE, TOLERANCE = 20, 0.01, 1e-4


def flows(W: sp.csr_array, labeled: np.ndarray, start: np.ndarray | None) -> tuple[np.ndarray, float, float]:
    """Return the columns (n, u), one a labeled vertex, with the seconds and mean iterations of solving them."""
    free = np.setdiff1d(np.arange(W.shape[0]), labeled)
    rows, columns = W[free], np.zeros((W.shape[0], len(labeled)))
    R = sp.csr_array(sp.diags_array(np.asarray(rows.sum(axis=1)).ravel()) - rows[:, free])
    begin = time.process_time()
    begun = None if start is None else extended(start.astype(np.float64), W)[free]
    found, _ = solve_columns(R, rows[:, labeled].toarray(), SolverParams(tol=TOLERANCE), start=begun)
    columns[free], columns[labeled] = found.value, np.eye(len(labeled))
    return columns, time.process_time() - begin, float(found.iterations.mean())


def measure(n: int) -> None:
    """Measure and print."""
    more = n + max(1, round(SHARE * n))
    X, y = CurvedManifolds(ManifoldParams(points=more, columns=64)).read(0, more)
    labeled = np.sort(np.concatenate([np.flatnonzero(y[:n] == label)[:LABELS] for label in np.unique(y)]))
    small, large = (sp.csr_array(KNNGraph(n_neighbors=10).build(X[:count]).weights()) for count in (n, more))
    kept = flows(small, labeled, None)[0].astype(np.float32)
    cold, warm = flows(large, labeled, None), flows(large, labeled, kept)
    print(json.dumps({"points": n, "cold": round(cold[1], 2), "warm": round(warm[1], 2), "iterations cold": cold[2],
                      "iterations warm": warm[2], "kept MB": kept.nbytes / 1e6,
                      "largest difference": float(abs(cold[0] - warm[0]).max())}), flush=True)


if __name__ == "__main__":
    for points in sys.argv[1:] or ["20000", "50000"]:
        measure(int(points))
