"""Kernels of a graph side by side, the amplified resistance kernel among them, and resistances of all edges.

    python -m tests.benchmarks.resistances kernels edges

Prints one JSON document a line. `kernels`: error in percent on the unlabeled points, a support vector machine on 20
labels a class in each kernel, scaled to a mean diagonal of 1, C = 10; sets of the first paper's table, landmarks of
those that are larger. `edges`: of the 70,000 points of MNIST, one thread, against exact resistances of a few edges.
Data come from $DSSL_DATA.
"""

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from dssl.graph.graph import Graph
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.laplacian import Laplacian
from dssl.kernels.base import RBF
from dssl.kernels.landmark_inverse import inverse_at_landmarks
from dssl.kernels.resistance import amplified_resistance_kernel, effective_resistances

from .draws import add_draw_option, draw_labels

SETS = {"letter D/O": ("letter", (3, 14), 1250), "letter O/Q": ("letter", (14, 16), 1250),
        "mnist 2/3": ("mnist", (2, 3), 1500), "mnist 3/8": ("mnist", (3, 8), 1500),
        "mnist 4/9": ("mnist", (4, 9), 1500)}
LABELS = 20  # a class


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("kernels", "edges"))
    parser.add_argument("--draws", type=int, default=10)
    add_draw_option(parser)
    args = parser.parse_args()
    with threadpool_limits(1):
        if "kernels" in args.parts:
            for name in SETS:
                compare(name, args)
        if "edges" in args.parts:
            edges()


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    loaded = np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz", allow_pickle=True)
    return loaded["X"].astype(np.float32), loaded["y"]


def compare(name: str, args: argparse.Namespace) -> None:
    """Report the mean error of each kernel, and its standard error."""
    source, classes, max_points = SETS[name]
    X, y = data(source)
    chosen = np.flatnonzero(np.isin(y, np.unique(y)[list(classes)]))
    errors: dict[str, list[float]] = {}
    rng = np.random.default_rng(0)
    for number in range(args.draws):
        own = rng.permutation(chosen)[:max_points]
        kernels, t = grams(X[own]), np.unique(y[own], return_inverse=True)[1]
        labels = draw_labels(t, LABELS, [LABELS, number], args.draw)
        labeled, rest = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
        for kernel, K in kernels.items():
            machine = SVC(C=10, kernel="precomputed").fit(K[np.ix_(labeled, labeled)], t[labeled])
            wrong = machine.predict(K[np.ix_(rest, labeled)]) != t[rest]
            errors.setdefault(kernel, []).append(100 * float(wrong.mean()))
    for kernel, found in errors.items():
        print(json.dumps({"set": name, "draw": args.draw, "kernel": kernel, "error": round(float(np.mean(found)), 1),
                          "standard_error": round(float(np.std(found, ddof=1) / np.sqrt(args.draws)), 1)}), flush=True)


def grams(X: np.ndarray) -> dict[str, np.ndarray]:
    """Return the Gram matrices of all points, of mean diagonal 1."""
    graph = KNNGraph(duplicates="keep").build(X)
    laplacian, points = Laplacian(graph.weights()), np.arange(len(X))
    apart = np.linalg.norm(X[::7, None] - X[None, ::7], axis=2)
    found = {"RBF": RBF(float(np.median(apart)) / 2)(X, X)}
    inverse = inverse_at_landmarks(laplacian.matrix(0.01), points, (1, 2, 4), vector=laplacian.vector)
    found |= {f"L_norm, p = {p}": A for p, A in inverse.powers.items()}
    found["amplified resistance"] = within(graph, points)
    return {name: K / K.diagonal().mean() for name, K in found.items()}


def within(graph: Graph, points: np.ndarray) -> np.ndarray:
    """Return the amplified resistance kernel, a block for each component."""
    _, component = connected_components(graph.weights(), directed=False)
    K = np.zeros((len(points), len(points)))
    for number in np.unique(component):
        own = points[component == number]
        if len(own) > 1:
            K[np.ix_(own, own)] = amplified_resistance_kernel(graph, own)
    return K


def edges() -> None:
    """Report the seconds of 200 projections, and their errors on the edges among 300 points."""
    X, _ = data("mnist")
    graph = KNNGraph().build(X / np.float32(255))
    begin, busy = time.perf_counter(), time.process_time()
    found = effective_resistances(graph)
    seconds, busy = time.perf_counter() - begin, time.process_time() - busy
    points = np.unique(graph.weights()[:30].indices)
    exact, own = effective_resistances(graph, points), found[points][:, points].tocoo()
    errors = own.data / exact[own.row, own.col] - 1
    print(json.dumps({"edges": found.nnz // 2, "seconds": round(seconds, 1), "of_the_core": round(busy, 1),
                      "compared": own.nnz // 2, "rms_error": round(float(np.sqrt((errors**2).mean())), 4),
                      "largest_error": round(float(np.abs(errors).max()), 3)}), flush=True)


if __name__ == "__main__":
    main()
