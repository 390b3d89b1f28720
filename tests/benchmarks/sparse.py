"""Exact neighbors and a semi-supervised SVM on sparse rows such as TF-IDF gives; prints one JSON line.

    python -m tests.benchmarks.sparse --rows 20000 --columns 30000 --words 74

Columns follow Zipf's law within 20 topics; rows have unit length. Seconds are of the processor, over all threads.
"""

import argparse
import json
import resource
import time

import numpy as np
from scipy import sparse

from dssl.estimators.deformed import LapSVC
from dssl.execution.in_process import InProcess
from dssl.graph.knn_graph import KNNGraph
from dssl.knn.exact.blocks import plan_exact
from dssl.knn.search import NeighborParams, find_neighbors
from dssl.storage.csr import CsrRows, as_csr, unit_rows


def documents(n_rows: int, n_columns: int, n_words: int, random_state: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    """Return unit rows (n, d), float32, and the topic of each; the 200 commonest columns are those of all topics."""
    rng = np.random.default_rng(random_state)
    share = np.cumsum(1 / np.arange(1, n_columns + 1))
    share /= share[-1]
    order = [np.concatenate([np.arange(200), 200 + rng.permutation(n_columns - 200)]) for _ in range(20)]
    topic = rng.integers(0, 20, n_rows)
    columns = np.concatenate([order[t][np.searchsorted(share, rng.random(n_words))] for t in topic])
    rows = sparse.coo_array((np.ones(len(columns)), (np.repeat(np.arange(n_rows), n_words), columns)),
                            shape=(n_rows, n_columns))
    X = as_csr(rows)
    held = np.bincount(X.indices, minlength=n_columns)
    X.data = (1 + np.log(X.data)) * (np.log(n_rows / np.maximum(held, 1))[X.indices] + 0.1)
    return unit_rows(X).astype(np.float32), topic


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rows", 20_000), ("columns", 30_000), ("words", 74), ("neighbors", 10), ("labels", 400)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    X, topic = documents(options.rows, options.columns, options.words)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    params = NeighborParams(n_neighbors=options.neighbors, method="exact")
    find_neighbors(CsrRows(X[:300]), params, InProcess())  # compiled or read from the cache before it is measured
    _, predicted = plan_exact(CsrRows(X), options.neighbors, "euclidean", InProcess())
    result = {"rows": options.rows, "columns": options.columns, "entries_a_row": round(X.nnz / options.rows, 1),
              "predicted_seconds": round(predicted, 2)}
    begin = time.process_time()
    find_neighbors(CsrRows(X), params, InProcess())
    result["neighbors_cpu_seconds"] = round(time.process_time() - begin, 2)
    result["neighbors_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    true = (topic < 10).astype(int)
    y = np.full(options.rows, -1)
    labeled = np.random.default_rng(0).permutation(options.rows)[:options.labels]
    y[labeled] = true[labeled]
    begin = time.process_time()
    model = LapSVC(bandwidth="median", graph=KNNGraph(n_neighbors=options.neighbors)).fit(X, y)
    result["fit_cpu_seconds"] = round(time.process_time() - begin, 2)
    begin = time.process_time()
    result["accuracy"] = float((model.predict(X)[y < 0] == true[y < 0]).mean())
    result["predict_cpu_seconds"] = round(time.process_time() - begin, 2)
    result["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(result))


if __name__ == "__main__":
    main()
