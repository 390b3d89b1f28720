"""Data full of copies: equal rows as one vertex of the graph, against every row a vertex.

    DSSL_DATA=... python -m tests.benchmarks.copies

skin_nonskin, 245,057 rows, 8 neighbors, 100 labels drawn at random. One JSON line each.
"""

import argparse
import json
import time

import numpy as np

from dssl.data.ingest import open_dataset
from dssl.data.labels import choose_labels
from dssl.execution.in_process import InProcess
from dssl.graph.health import graph_health
from dssl.graph.vertices import Vertices, distinct_rows, find_vertices
from dssl.graph.weights.build import weights
from dssl.knn.search import NeighborParams, find_neighbors
from dssl.learners.target.encoding import encode_labels
from dssl.storage.blocks import ArrayRows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--k", type=int, default=8)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    dataset = open_dataset("skin_nonskin")
    codes, _ = encode_labels(dataset.named_targets())
    labeled = choose_labels(lambda: [codes], count=arguments.labels, random_state=0, n_classes=2)
    execution, params = InProcess(arguments.threads), NeighborParams(n_neighbors=arguments.k, method="exact")
    rows = ArrayRows(dataset.X.read_all())
    find_neighbors(ArrayRows(np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float32)), params, execution)
    find_vertices(ArrayRows(rows.array[:100]), execution)  # compiled before the clock starts
    for duplicates in ("collapse", "keep"):
        wall, cpu = time.perf_counter(), time.process_time()
        points = find_vertices(rows, execution) if duplicates == "collapse" else Vertices.distinct(len(rows))
        lists = find_neighbors(distinct_rows(rows, points, execution), params, execution)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        health = graph_health(weights(lists, execution=execution), labeled, lists, vertices=points)
        print(json.dumps({
            "duplicates": duplicates, "rows": len(rows), "vertices": len(points), "k": arguments.k,
            "components": health["components"]["count"], "unreachable_points": health["unreachable"]["count"],
            "seconds": round(wall, 2), "cpu_seconds": round(cpu, 2)}), flush=True)


if __name__ == "__main__":
    main()
