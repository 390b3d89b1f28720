"""`GridSearch` against scikit-learn's `GridSearchCV` over the same estimator: seconds, and what is chosen.

    DSSL_DATA=... python -m tests.benchmarks.grid_search digits usps --peer-candidates 12

4 graphs (n_neighbors) x 3 bandwidths x 5 gamma_A x 5 gamma_I and 5 folds, `LapRLSClassifier`. scikit-learn fits every
candidate and fold anew, with `LabeledKFold` of the same folds; of the 300 candidates it is given `--peer-candidates`,
evenly spread, in a search of its own each, and its seconds are their mean times 300 (`estimated` says so).
`same_choice` is whether both find the same one of these the best. One JSON line a set.

    DSSL_DATA=... python -m tests.benchmarks.grid_search digits usps --on-graph --peer-candidates 3 --runs 1

The same of `GraphKernelRidge`: 4 graphs x 3 ridges x 3 powers x 3 penalties; `--cv leave_one_out` is without a peer.

    DSSL_DATA=... python -m tests.benchmarks.grid_search usps --halving --runs 1

`GridSearch(factor=3)` against the search of all candidates on all folds: 3 bandwidths x 5 x 5 penalties, of `LapSVM`,
whose folds are refits, and of `LapRLSClassifier`, whose folds are of a closed form; 5 folds, 10, and 10 three times.
The graph is made before; the searches take turns. One JSON line a search, with the test error of its choice.
"""

import argparse
import json
import os
import time
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold

from dssl import GraphKernelRidge, GridSearch, KNNGraph, LabeledKFold, LapRLSClassifier, LapSVM

GRID: dict[str, list[Any]] = {
    "graph__n_neighbors": [5, 10, 15, 20], "bandwidth": ["0.25*median", "0.5*median", "median"],
    "gamma_A": [f"{factor}*auto" for factor in (0.01, 0.1, 1, 10, 100)],
    "gamma_I": [f"{factor}*auto" for factor in (0.01, 0.1, 1, 10, 100)]}
ON_GRAPH: dict[str, list[Any]] = {
    "graph__n_neighbors": [5, 10, 15, 20], "ridge": [None, 1e-3, 1e-2], "power": [1, 2, (1, 2, 3)],
    "penalty": [0.01, 0.1, 1.0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["digits", "usps"])
    parser.add_argument("--labels", type=int, default=20, help="a class")
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--peer-candidates", type=int, default=12)
    parser.add_argument("--runs", type=int, default=2, help="of ours")
    parser.add_argument("--on-graph", action="store_true", help="of `GraphKernelRidge`")
    parser.add_argument("--cv", default=5, type=lambda text: text if text == "leave_one_out" else int(text))
    parser.add_argument("--halving", action="store_true", help="instead")
    args = parser.parse_args()
    for name in args.sets:
        (halve if args.halving else compare)(name, args)


def points(name: str, labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X and y with -1 where unlabeled, of 80 % of the points, and the rest."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as held:
            X, y = held["X"].astype(np.float64), np.unique(held["y"], return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.split(order, [round(0.8 * len(order))])
    known = np.full(len(train), -1)
    for code in np.unique(y):
        known[np.flatnonzero(y[train] == code)[:labels]] = code
    return X[train], known, X[test], y[test]


def compare(name: str, args: argparse.Namespace) -> None:
    X, y, X_test, y_test = points(name, args.labels)
    estimator, grid = (GraphKernelRidge(), ON_GRAPH) if args.on_graph else (
        LapRLSClassifier(landmarks=args.landmarks), GRID)
    n_candidates, seconds = int(np.prod([len(values) for values in grid.values()])), []
    for _ in range(args.runs):
        begin = time.perf_counter()
        ours = GridSearch(estimator, grid, cv=args.cv).fit(X, y)
        seconds.append(time.perf_counter() - begin)
    candidates = ours.cv_results_["params"]
    some = np.linspace(0, n_candidates - 1, args.peer_candidates if args.cv == 5 else 0).round().astype(int)
    peers, scores = [], []
    for index in some:
        one = {name: [value] for name, value in candidates[index].items()}
        begin = time.perf_counter()
        peer = GridSearchCV(estimator, one, cv=LabeledKFold(5), refit=False).fit(X, y)
        peers.append(time.perf_counter() - begin)
        scores.append(float(peer.cv_results_["mean_test_score"][0]))
    mine = ours.cv_results_["mean_test_score"][some]
    found = {
        "part": "grid_search", "data": name, "n": len(X), "labels": int((y >= 0).sum()), "candidates": n_candidates,
        "estimator": type(estimator).__name__, "cv": args.cv, "ours_best": round(min(seconds), 2),
        "ours_median": round(median(seconds), 2), "best": ours.best_params_,
        "test_error": round(float((ours.predict(X_test) != y_test).mean()), 4)}
    if not peers:
        print(json.dumps(found), flush=True)
        return
    print(json.dumps({
        **found, "peer_seconds": round(mean(peers) * n_candidates, 1),
        "estimated": f"from {len(some)} of {n_candidates} candidates",
        "ratio": round(mean(peers) * n_candidates / min(seconds), 1),
        "same_choice": bool(np.argmax(mine) == np.argmax(scores)),
        "largest_difference_of_scores": round(float(np.abs(mine - scores).max()), 4)}), flush=True)


def halve(name: str, args: argparse.Namespace) -> None:
    X, y, X_test, y_test = points(name, args.labels)
    graph, grid = KNNGraph().build(X), {name: values for name, values in GRID.items() if "graph" not in name}
    for estimator in (LapSVM(landmarks=args.landmarks), LapRLSClassifier(landmarks=args.landmarks)):
        for folds, repetitions in ((5, 1), (10, 1), (10, 3)):
            cv = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repetitions, random_state=0)
            seconds: dict[int | None, list[float]] = {None: [], 3: []}
            for _, factor in product(range(args.runs), seconds):
                begin = time.perf_counter()
                search = GridSearch(estimator, grid, cv=cv, factor=factor, refit=False).fit(X, y, graph=graph)
                seconds[factor].append(time.perf_counter() - begin)
                best = clone(estimator).set_params(**search.best_params_).fit(X, y, graph=graph)
                print(json.dumps({
                    "part": "halving", "data": name, "estimator": type(estimator).__name__,
                    "folds": search.n_resources_, "candidates": search.n_candidates_, "factor": factor,
                    "seconds": round(min(seconds[factor]), 2),
                    "best": search.best_params_, "accuracy": round(search.best_score_, 4),
                    "test_error": round(float((best.predict(X_test) != y_test).mean()), 4)}), flush=True)


if __name__ == "__main__":
    main()
