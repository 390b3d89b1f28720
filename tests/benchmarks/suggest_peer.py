"""Choose points by GraphLearning's active learning and print them; for an interpreter that has it, without dssl.

    PEER_PYTHON tests/benchmarks/suggest_peer.py PROBLEM.npz

PROBLEM.npz holds the weights of n points as `data`, `indices` and `indptr`, classes `y` (n,), and labeled points in
arrays of any names. Every line of standard input is a criterion, `var_opt` or `sigma_opt`, the name of such an array,
and how many points to choose, one at a time. The first answer tells the seconds of its 50 eigenpairs.
"""

import contextlib
import io
import json
import sys
import time
from types import SimpleNamespace
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
    begin = time.perf_counter()
    values, vectors = graphlearning.graph(W).eigen_decomp(normalization="normalized", k=50)
    answer(seconds=round(time.perf_counter() - begin, 1))
    # Neither criterion asks the model, so that it need not be fitted after each point.
    model = SimpleNamespace(fit=lambda *_: None, graph=SimpleNamespace(num_nodes=len(y)))
    for line in sys.stdin:
        criterion, name, count = line.split()
        begin = time.perf_counter()
        learner = graphlearning.active_learning.active_learner(
            model, getattr(graphlearning.active_learning, criterion), problem[name], y[problem[name]],
            C=np.diag(1 / (values + 1e-11)), V=vectors.copy())
        for _ in range(int(count)):
            chosen = learner.select_queries()
            learner.update(chosen, y[chosen])
        answer(ids=learner.labeled_ind[len(problem[name]):].tolist(), seconds=round(time.perf_counter() - begin, 2))


def answer(**record: Any) -> None:
    print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
