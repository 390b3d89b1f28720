"""The influence function among the labels against that of all points, and of landmarks in their place (the paper's).

    DSSL_DATA=... python -m tests.benchmarks.influence --set usps --points 2000 --full
    DSSL_DATA=... python -m tests.benchmarks.influence --set letter --points 20000 --solver pcg

Logistic loss, half of the classes against the others, one pair of penalties, 10 folds of 200 labels. `gram` are the
seconds of the Gram matrix of the labels, which a fit makes too; the ways begin with the fit. Differences are root mean
squares over the labels: `step` of what refits change, `first_order` and `refined` of what the influence function and a
Newton step after it are off by, and `landmarks` of what the approximation is off the influence function itself.
"""

import argparse
import json
import time
from collections.abc import Callable
from math import ceil, sqrt
from typing import Any

import numpy as np

from dssl import KNNGraph, open_dataset
from dssl.graph.energy.blocks import GraphEnergy
from dssl.kernels.base import RBF
from dssl.learners.laprls.dense import DenseSystems, FullKernel, smooth_held_out
from dssl.learners.laprls.influence import influence_of_labels
from dssl.learners.laprls.params import LabelLines, SystemParams
from dssl.learners.laprls.penalties import Penalties, PenaltyScale
from dssl.learners.linear.newton import LabelGram, minimize
from dssl.learners.losses import Logistic
from dssl.selection.folds import labeled_folds
from tests.benchmarks.influence_on_graph import FittedOnGraph, FullSpace, NystromSpace, influence_on_graph, whole_graph

LABELS, FOLDS, GAMMA_A = 200, 10, 1e-2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="usps")
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--solver", choices=["direct", "pcg"], default="direct")
    parser.add_argument("--full", action="store_true", help="the system of all points too")
    args = parser.parse_args()
    source, rng = open_dataset(args.set), np.random.default_rng(0)
    assert source.y is not None
    chosen = rng.permutation(source.X.shape[0])[:args.points]
    X = np.asarray(source.X.read_all(), np.float64)[chosen]
    codes = np.unique(source.y.read_all(), return_inverse=True)[1]
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    n, y = len(X), np.where(codes[chosen] % 2, 1.0, -1.0)
    labeled = np.sort(rng.choice(n, LABELS, replace=False))
    folds, Y, weight = labeled_folds(y[labeled] > 0, FOLDS, 0), y[labeled][:, None], np.ones(LABELS)
    kernel = RBF(float(np.median(np.linalg.norm(X[:500, None] - X[None, :500], axis=2))) / 2)
    energy = GraphEnergy.of(KNNGraph(duplicates="keep").build(X).weights(), "normalized")
    K, pair = FullKernel(kernel, X, 8 << 30), Penalties(GAMMA_A, 0.1 * n**2 / LABELS, scale=PenaltyScale((LABELS,), n))
    system = DenseSystems(K, energy.matrix(), (0.0, 0.0), np.zeros((n, 1)), (pair,))
    landmarks = np.sort(rng.choice(n, 3 * ceil(sqrt(n)), replace=False)) if args.solver == "pcg" else None
    begin = time.perf_counter()
    Z, N, _ = system.label_kernel(0, labeled, SystemParams(solver=args.solver), landmarks)
    found: dict[str, Any] = {"part": "influence", "data": args.set, "n": n, "solver": args.solver,
                             "gram_seconds": round(time.perf_counter() - begin, 3)}
    scale = LABELS / pair.lambda_A
    space, loss = LabelGram(scale * N), Logistic()
    lines = LabelLines.of(labeled, weight, Y, folds)
    minimum = minimize(space, loss, *lines.columns([-1]), fit_intercept=True)
    fit = FittedOnGraph(labeled, Y, weight, loss, GAMMA_A, pair.gamma_I,
                        K(scale * (Z @ minimum.coef)) + minimum.intercept, minimum.intercept)
    graph = whole_graph(energy)
    some = np.sort(rng.choice(n, ceil(sqrt(n)), replace=False))

    def among_labels(refine: int) -> np.ndarray:
        return influence_of_labels(space.N, Y, weight, loss, minimum.values, folds, intercept=True, refine=refine)

    ways: dict[str, Callable[[], np.ndarray]] = {
        "refits": lambda: smooth_held_out(space, loss, lines, minimum, True, None), "labels": lambda: among_labels(0),
        "refined": lambda: among_labels(1), "landmarks": lambda: influence_on_graph(
            NystromSpace.of(kernel, X, graph, labeled, some), fit, folds)}
    if args.full:
        ways["all_points"] = lambda: influence_on_graph(FullSpace(K.K, graph, labeled), fit, folds)
    values = {}
    for name, way in ways.items():
        begin = time.perf_counter()
        values[name] = way()
        found[f"{name}_seconds"] = round(time.perf_counter() - begin, 4)

    def apart(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.sqrt(((one - other) ** 2).mean()))

    found |= {"step": apart(values["refits"], minimum.values), "first_order": apart(values["labels"], values["refits"]),
              "refined": apart(values["refined"], values["refits"]),
              "landmarks": apart(values["landmarks"], values["labels"]),
              **({"all_points": apart(values["all_points"], values["labels"])} if args.full else {})}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
