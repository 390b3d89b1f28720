"""LapSVM against LapRLS and LapSVC on the same points, labels and graph: test error, seconds of a fit, steps.

    DSSL_DATA=... python -m tests.benchmarks.lapsvm usps letter covtype --points 100000

70 % of the points to train on, 10 % of these labeled, standardized but for usps. The graph is made once, for all;
seconds are those of a fit on it, the methods take turns within a run. One JSON line a method and set: seconds best and
median, test error mean over `--draws` draws of labels, Newton steps and passes over the points those of the last draw.
"""

import argparse
import json
import os
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from scipy import sparse

from dssl import KNNGraph, LapRLSClassifier, LapSVC, LapSVM, SystemParams
from dssl.graph.weights.rules import KERNEL_WIDTH
from dssl.kernels.base import median_bandwidth
from dssl.storage.blocks import ArrayRows

from .draws import add_draw_option, draw_labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["usps", "letter", "covtype"])
    parser.add_argument("--points", type=int, default=100_000, help="at most; a random sample of larger sets")
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--labels", type=float, default=0.1, help="share of the training points")
    parser.add_argument("--draws", type=int, default=3)
    add_draw_option(parser, "random")
    parser.add_argument("--methods", nargs="*", help="by name; default: all")
    args = parser.parse_args()
    for name in args.sets:
        compare(name, args)


def methods(bandwidth: float, n_landmarks: int, n_labels: int) -> dict[str, Any]:
    """Return the estimators by name, with penalties that are equal in the paper's scale."""
    common: dict[str, Any] = {"bandwidth": bandwidth, "landmarks": n_landmarks, "gamma_A": "auto", "gamma_I": "auto"}
    found: dict[str, Any] = {
        f"LapRLS {solver}": LapRLSClassifier(solver=SystemParams(solver=solver), **common)  # type: ignore[arg-type]
        for solver in ("nystrom-pcg", "nystrom-direct")}
    for loss in ("squared_hinge", "huber_hinge", "logistic"):
        found[f"LapSVM {loss}"] = LapSVM(loss=loss, solver="nystrom-direct", **common)
    found["LapSVM squared_hinge, nystrom-pcg"] = LapSVM(solver="nystrom-pcg", **common)
    if n_labels <= 3000:  # one dense machine a pair of classes on all labels
        found["LapSVC"] = LapSVC(bandwidth=bandwidth, loss="hinge", eta=10.0, n_landmarks=max(1000, 2 * n_labels))
    return found


def compare(name: str, args: argparse.Namespace) -> None:
    with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as held:
        X = held["X"] if "X" in held else sparse.csr_matrix(
            (held["data"], held["indices"], held["indptr"]), tuple(held["shape"])).toarray()
        X, y = X.astype(np.float32), np.unique(held["y"], return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(X))[:args.points]
    train, test = np.split(order, [round(0.7 * len(order))])
    if name != "usps":
        scale = X[train].std(axis=0)
        X = (X - X[train].mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    begin = time.perf_counter()
    graph = KNNGraph(width=KERNEL_WIDTH).build(X[train])
    made = time.perf_counter() - begin
    bandwidth = 0.5 * median_bandwidth(ArrayRows(X[train]), random_state=0)
    n_labels = round(args.labels * len(train))
    estimators = methods(bandwidth, args.landmarks, n_labels)
    chosen = args.methods or list(estimators)
    seconds: dict[str, list[float]] = {method: [] for method in chosen}
    errors: dict[str, list[float]] = {method: [] for method in chosen}
    for number in range(args.draws):
        known = draw_labels(y[train], n_labels / (y.max() + 1), [number, 1], args.draw)
        for method in chosen:
            begin = time.perf_counter()
            fitted = estimators[method].fit(X[train], known, graph=graph)
            seconds[method].append(time.perf_counter() - begin)
            errors[method].append(float((fitted.predict(X[test]) != y[test]).mean()))
    for method in chosen:
        evidence = estimators[method].evidence_
        print(json.dumps({
            "part": "lapsvm", "data": name, "n": len(train), "labels": n_labels, "landmarks": args.landmarks,
            "method": method, "seconds_best": round(min(seconds[method]), 2),
            "seconds_median": round(median(seconds[method]), 2), "graph_seconds": round(made, 1),
            "error": round(mean(errors[method]), 4), "steps": evidence.get("newton_steps"),
            "passes": evidence.get("passes"), "draw": args.draw, "draws": args.draws}), flush=True)


if __name__ == "__main__":
    main()
