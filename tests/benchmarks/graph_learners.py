"""Learners on the graph against GraphLearning on the same weights and labels: accuracy and seconds.

    DSSL_DATA=... python -m tests.benchmarks.graph_learners --peer-python PATH --sets usps mnist_vae

PATH is an interpreter that has graphlearning 1.7.5 (see `graphlearning_peer.py`). One JSON line a fit, then one a
learner and rate with the mean accuracy on the unlabeled points in percent, and the best and the median of its seconds;
then what ours differs by, and how many times faster it is. Fits take turns, so that other load on the machine meets
both, and run r has labels of its own, the same for all. Seconds are of a fit on a graph that is given.
"""

import argparse
import json
import os
import select
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

import dssl
from dssl.execution.in_process import InProcess
from dssl.graph.graph import Graph
from dssl.learners.on_graph.graph_ridge import GraphRidgeParams, fit_graph_ridge
from dssl.learners.on_graph.laplace_poisson import fit_harmonic, fit_poisson
from dssl.learners.target.target import Classes
from dssl.solvers.solver_params import SolverParams

from .draws import add_draw_option, draw_labels

HERE = Path(__file__).parent
PATIENCE = 300  # seconds that a fit of the peer may take
PEERS = {"harmonic": "laplace", "poisson": "poisson"}


def main() -> None:
    given = arguments()
    for name in given.sets:
        with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as held:
            X, y = held["X"].astype(np.float32), np.unique(held["y"], return_inverse=True)[1]
        begin = time.perf_counter()
        graph = dssl.KNNGraph(n_neighbors=given.neighbors).build(X)
        report(part="graph", set=name, points=len(y), neighbors=given.neighbors, edges=graph.weights().nnz // 2,
               seconds=round(time.perf_counter() - begin, 2))
        compare(name, graph, y, given)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", type=Path, help="default: no peer")
    parser.add_argument("--sets", nargs="+", default=["usps", "mnist_vae"])
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 5, 10, 50], help="a class")
    parser.add_argument("--learners", nargs="+", default=["harmonic", "poisson", "ridge"])
    parser.add_argument("--neighbors", type=int, default=10)
    parser.add_argument("--tolerance", type=float, default=1e-5, help="of the solver; the estimators' default")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    add_draw_option(parser)
    return parser.parse_args()


def report(**record: Any) -> None:
    print(json.dumps(record), flush=True)


def compare(name: str, graph: Graph, y: np.ndarray, given: argparse.Namespace) -> None:
    """Report every fit on one graph, and what they come to."""
    draws = {f"labeled_{per_class}_{run}": np.flatnonzero(
        draw_labels(y, per_class, [run, per_class], given.draw) >= 0)
        for per_class in given.labels for run in range(given.runs)}
    fits: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        ours(given.learners, graph, y, draws[f"labeled_{given.labels[0]}_0"], given)  # compiles
        peer = Peer(given.peer_python, graph, y, draws, Path(folder)) if given.peer_python else None
        for run in range(given.runs):
            for per_class in given.labels:
                key = f"labeled_{per_class}_{run}"
                found = ours(given.learners, graph, y, draws[key], given)
                for learner in given.learners:
                    if peer and learner in PEERS:
                        its = peer.fit(PEERS[learner], key)
                        found.update({f"graphlearning {PEERS[learner]}": its} if its else {})
                for learner, fit in found.items():
                    fits[learner, per_class].append(fit)
                    report(part="fit", set=name, learner=learner, labels=per_class, draw=given.draw, run=run, **fit)
        if peer:
            peer.close()
    summary = {}
    for (learner, per_class), own in fits.items():
        seconds = [fit["seconds"] for fit in own]
        summary[learner, per_class] = fmean(fit["accuracy"] for fit in own) * 100, min(seconds), median(seconds)
        accuracy, best, middle = summary[learner, per_class]
        report(part="graph_learners", set=name, learner=learner, labels=per_class, draw=given.draw, runs=given.runs,
               threads=given.threads, accuracy=round(accuracy, 3), best=best, median=middle)
    for learner, per_class in fits:
        other = summary.get((f"graphlearning {PEERS.get(learner)}", per_class))
        if other:
            own_summary = summary[learner, per_class]
            report(part="ratio", set=name, learner=learner, labels=per_class,
                   difference=round(own_summary[0] - other[0], 3), best=round(other[1] / own_summary[1], 2),
                   median=round(other[2] / own_summary[2], 2))


def ours(learners: list[str], graph: Graph, y: np.ndarray, labeled: np.ndarray,
         given: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the seconds and the accuracy of each learner."""
    names, coded = np.unique(y[labeled], return_inverse=True)
    target, execution = Classes(labeled, coded, names), InProcess(given.threads)
    solver, rest = SolverParams(tol=given.tolerance), np.setdiff1d(np.arange(len(y)), labeled)
    fits = {"harmonic": lambda: fit_harmonic(graph, target, None, solver, execution),
            "poisson": lambda: fit_poisson(graph, target, None, solver, execution),
            "ridge": lambda: fit_graph_ridge(graph, target, None, GraphRidgeParams(), execution)}
    found = {}
    for learner in learners:
        load, begin = os.getloadavg()[0], time.perf_counter()
        predicted = names[fits[learner]().values[graph.vertices.vertex].argmax(axis=1)]
        seconds = time.perf_counter() - begin
        found[learner] = {"seconds": round(seconds, 3), "accuracy": float((predicted[rest] == y[rest]).mean()),
                          "load": round(load, 2)}
    return found


class Peer:
    """A process of GraphLearning that fits one graph as it is asked.

    A method that once took too long is not asked again: Poisson learning does not converge on a graph in pieces.
    """

    def __init__(self, python: Path, graph: Graph, y: np.ndarray, draws: dict[str, np.ndarray], folder: Path):
        self.python, self.folder, self.stalled = python, folder, set[str]()
        W = graph.weights()[graph.vertices.vertex][:, graph.vertices.vertex]
        np.savez(folder / "problem.npz", data=W.data, indices=W.indices, indptr=W.indptr, y=y, **draws)
        self.start()

    def start(self) -> None:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2")
        self.process = subprocess.Popen(
            [self.python, HERE / "graphlearning_peer.py", self.folder / "problem.npz"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**threads, **os.environ})
        self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def fit(self, method: str, key: str) -> dict[str, Any] | None:
        """Return the seconds and the accuracy of a method with the labels of this name, None where it took too long."""
        assert self.process.stdin is not None
        if method in self.stalled:
            return None
        self.process.stdin.write(f"{method} {key}\n")
        self.process.stdin.flush()
        if select.select([self.process.stdout], [], [], PATIENCE)[0]:
            return self.answer()
        self.stalled.add(method)
        self.process.kill()
        self.close()
        self.start()
        return None

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    main()
