"""Fit GraphLearning's learners on a graph and print one JSON line each; for an interpreter that has it, without dssl.

    PEER_PYTHON tests/benchmarks/graphlearning_peer.py PROBLEM.npz

PROBLEM.npz holds the weights of n points as `data`, `indices` and `indptr`, classes `y` (n,), and labeled points in
arrays of any names. Every line of standard input is a method, `laplace` or `poisson`, and the name of such an array.
"""

import contextlib
import io
import json
import os
import sys
import time
from typing import Any

import numpy as np


def main() -> None:
    with contextlib.redirect_stdout(io.StringIO()):  # what it lacks, it says there
        import graphlearning
        from scipy.sparse import csr_matrix

    with np.load(sys.argv[1]) as held:
        problem = {name: held[name] for name in held.files}
    y = problem["y"]
    W = csr_matrix((problem["data"], problem["indices"], problem["indptr"]), shape=(len(y), len(y)))
    answer(ready=True)
    for line in sys.stdin:
        method, name = line.split()
        labeled = problem[name]
        load, begin = os.getloadavg()[0], time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            model = getattr(graphlearning.ssl, method)(W)
            predicted = model.fit_predict(labeled, y[labeled])
        seconds = time.perf_counter() - begin
        rest = np.setdiff1d(np.arange(len(y)), labeled)
        answer(seconds=round(seconds, 3), accuracy=float((predicted[rest] == y[rest]).mean()), load=round(load, 2))


def answer(**record: Any) -> None:
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
