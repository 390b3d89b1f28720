"""Labels that are asked for against labels drawn at random: how many it takes to 90 and 95 % accuracy.

    DSSL_DATA=... python -m tests.benchmarks.suggest --sets usps mnist_vae letter --peer-python PATH

Each draw begins with one random label a class (with `--draw random` as many, of points at
random), the same for all criteria, and asks for a batch of `--batch` labels a class at a time, up to
`--max-labels`. The learner is the same for all, and the model whose uncertainty is asked: `ridge` is
ridge regression in one kernel of `GraphKernelRidge`, ridge 0.003 and power 2, on the `--pairs` lowest eigenpairs of the
graph, where a fit takes no time; `laplace` is Laplace learning; `family` is `GraphKernelRidge` as it is. One JSON line
a draw and criterion with the accuracy on the unlabeled points at each number of labels, then one a set and criterion:
the mean number of labels from which on it is 90 and 95 % or more and how many draws get there, the mean accuracy over
all numbers of labels, the last, and the seconds of choosing; at the end the mean over sets and the mean rank of each
criterion.

With `--cold` nothing is labeled at first; criteria that ask the model then choose the first batch by V-optimality.

`gl_v_opt` and `gl_sigma_opt` are GraphLearning's on the same weights, by the interpreter `--peer-python`
(`suggest_peer.py`): its defaults (50 eigenpairs, gamma 0.1), one at a time. Sets as in `low_labels.py`; those of
DSSL_DATA are whole.
"""

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import rankdata

import dssl
from dssl.execution.in_process import InProcess
from dssl.graph.graph import Graph
from dssl.graph.regularizer import laplacian_of
from dssl.graph.spectrum import SpectrumParams, graph_spectrum
from dssl.learners.on_graph.graph_ridge import GraphRidgeParams, fit_graph_ridge
from dssl.learners.on_graph.laplace_poisson import fit_harmonic
from dssl.learners.target.target import Classes
from dssl.selection.suggest import OF_MODEL, SuggestParams, prior_of, suggest
from dssl.solvers.solver_params import SolverParams
from dssl.storage.blocks import ArrayRows

from .draws import add_draw_option, draw_labels
from .low_labels import read

HERE = Path(__file__).parent
CRITERIA = ["random", "variance", "v_optimality", "sigma_optimality", "coverage", "uncertainty",
            "model_change_v_optimality"]
PEERS = {"gl_v_opt": "var_opt", "gl_sigma_opt": "sigma_opt"}
RIDGE, PENALTY = 3e-3, 0.1  # of the learner


def main() -> None:
    warnings.simplefilter("ignore")
    given, cells = arguments(), defaultdict[str, dict[str, float]](dict)
    for name in given.sets:
        X, y = read(name, given.points)
        begin = time.perf_counter()
        graph = dssl.KNNGraph().build(X)
        made, max_labels = time.perf_counter(), int(given.max_labels * (y.max() + 1))
        prior = prior_of(graph, max_labels, SuggestParams(), InProcess(given.threads))
        report(part="graph", set=name, points=len(y), vertices=len(graph.vertices), seconds=round(made - begin, 1),
               eigenpairs=prior.shape[1], eigenpairs_seconds=round(time.perf_counter() - made, 1))
        draws = {f"draw_{number}": draw_labels(y, 1, [1, number], given.draw) for number in range(given.draws)}
        asker = Asker(X.astype(np.float32), y, graph, prior, given)
        with tempfile.TemporaryDirectory() as folder:
            peer = Peer(given.peer_python, graph, y, draws, Path(folder), name) if given.peer_python else None
            for key, labels in draws.items():
                start = np.arange(0) if given.cold else np.flatnonzero(labels >= 0)
                for criterion in [*given.criteria, *(PEERS if peer else ())]:
                    asker.compare(name, criterion, key, start, peer)
            if peer:
                peer.close()
        for criterion, found in asker.found.items():
            cells[name][criterion] = fmean(fmean(own["accuracy"].values()) for own in found)
            report(part="mean", set=name, criterion=criterion, draw=given.draw, draws=len(found),
                   learner=given.learner,
                   **labels_until([own["accuracy"] for own in found], 90),
                   **labels_until([own["accuracy"] for own in found], 95),
                   mean=round(cells[name][criterion], 2),
                   last=round(fmean([*own["accuracy"].values()][-1] for own in found), 2),
                   seconds=round(fmean(own["seconds"] for own in found), 2))
    ranks = {name: dict(zip(cell, rankdata([-value for value in cell.values()]), strict=True))
             for name, cell in cells.items()}
    for criterion in cells[given.sets[-1]] if len(given.sets) > 1 else ():
        report(part="mean over sets", criterion=criterion,
               mean=round(fmean(cell[criterion] for cell in cells.values()), 2),
               rank=round(fmean(rank[criterion] for rank in ranks.values()), 2))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["usps", "letter", "mnist_vae"])
    parser.add_argument("--criteria", nargs="+", default=CRITERIA, choices=CRITERIA)
    parser.add_argument("--peer-python", type=Path, help="an interpreter that has graphlearning")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--batch", type=float, default=0.5, help="labels asked for at a time, a class")
    parser.add_argument("--max-labels", type=int, default=10, help="labels in all, a class")
    parser.add_argument("--learner", choices=["ridge", "laplace", "family"], default="ridge")
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--cold", action="store_true", help="begin with no label; then --learner ridge, and no peer")
    parser.add_argument("--threads", type=int, default=1)
    add_draw_option(parser)
    return parser.parse_args()


def report(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def labels_until(curves: list[dict[int, float]], goal: float) -> dict[str, Any]:
    """Return how many curves get to an accuracy, and the mean number of labels from which on they are there.

    A curve that does not get there counts as one that would with the next batch, so that the mean is from below.
    """
    found, short = [], 0
    for curve in curves:
        counts = [*curve]
        below = [place for place, accuracy in enumerate(curve.values()) if accuracy < goal]
        first = max(below, default=-1) + 1
        short += first == len(counts)
        found.append([*counts, 2 * counts[-1] - counts[-2]][first])
    return {f"labels_to_{goal}": round(fmean(found), 1), f"draws_to_{goal}": len(curves) - short}


class Asker:
    """The curves of all criteria on one set, `found` by criterion, one a draw."""

    def __init__(self, X: np.ndarray, y: np.ndarray, graph: Graph, prior: np.ndarray, given: argparse.Namespace):
        self.rows, self.y, self.graph, self.prior, self.given = ArrayRows(X), y, graph, prior, given
        self.execution, classes = InProcess(given.threads), int(y.max()) + 1
        self.batch, self.max_labels = max(1, round(given.batch * classes)), int(given.max_labels * classes)
        self.found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        if given.learner == "ridge":
            pairs = min(given.pairs, len(graph.vertices))
            spectrum = graph_spectrum(graph, pairs, SpectrumParams(tol=1e-4), self.execution)
            degrees = laplacian_of(graph.stored, graph.shared_vertices(self.execution), "normalized").degrees
            self.kernel = spectrum.vectors / (spectrum.values + RIDGE) / np.sqrt(np.maximum(degrees, 1e-12))[:, None]

    def compare(self, name: str, criterion: str, key: str, start: np.ndarray, peer: "Peer | None") -> None:
        """Report the curve of one criterion from the first labels on."""
        labeled, curve, seconds = start, dict[int, float](), 0.0
        chosen = np.arange(0)  # what is known before any of it has a label
        while True:
            scores = None
            if len(labeled):
                scores, curve[len(labeled)] = self.fitted(labeled)
            count = min(self.batch, self.max_labels - len(labeled))
            if count <= 0:
                break
            if len(chosen) == 0:
                begin = time.perf_counter()
                chosen = self.asked(criterion, key, labeled, scores, count, peer)
                seconds += time.perf_counter() - begin
            labeled, chosen = np.append(labeled, chosen[:count]), chosen[count:]
        self.found[criterion].append({"accuracy": curve, "seconds": seconds})
        report(set=name, criterion=criterion, draw=key, seconds=round(seconds, 2), accuracy=curve)

    def asked(self, criterion: str, key: str, labeled: np.ndarray, scores: np.ndarray | None,
              count: int, peer: "Peer | None") -> np.ndarray:
        """Return the next points: a batch where the model is asked, or else all there will be."""
        rest = self.max_labels - len(labeled)
        if criterion == "random":
            order = np.random.default_rng([len(labeled), int(key.removeprefix("draw_"))]).permutation(len(self.y))
            return order[~np.isin(order, labeled)][:rest]
        if criterion in PEERS:
            assert peer is not None
            return peer.ask(PEERS[criterion], key, rest)
        params = SuggestParams(count=count if criterion in OF_MODEL else rest,
                               criterion="auto" if scores is None and criterion in OF_MODEL else criterion)
        return suggest(self.graph.vertices, self.graph, self.rows, labeled, params, self.execution, scores,
                       self.prior).ids

    def fitted(self, labeled: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the scores (v, c) of classes, and the accuracy on the other points in percent."""
        own = np.sort(labeled)
        target = Classes(own, self.y[own], np.unique(self.y))
        if self.given.learner == "ridge":
            found = self.ridge(target)
        elif self.given.learner == "laplace":
            found = fit_harmonic(self.graph, target, None, SolverParams(tol=1e-4), self.execution).values
        else:
            found = fit_graph_ridge(self.graph, target, None, GraphRidgeParams(), self.execution).values
        rest = np.setdiff1d(np.arange(len(self.y)), labeled)
        predicted = found.argmax(axis=1)[self.graph.vertices.vertex]
        return found, round(100 * float((predicted == self.y)[rest].mean()), 2)

    def ridge(self, target: Classes) -> np.ndarray:
        """Return ridge regression (v, c) in a kernel of the eigenpairs; see `dssl.learners.on_graph.graph_ridge`."""
        B, Y = self.kernel, target.each_column()
        own = B[self.graph.vertices.vertex[target.labeled]]
        K = own @ own.T
        scale = K.diagonal().mean()
        found = B @ (own.T @ np.linalg.solve(K / scale + PENALTY * np.eye(len(K)), Y - Y.mean(axis=0)))
        found -= found.mean(axis=0)
        found[:, np.bincount(target.coded, minlength=found.shape[1]) == 0] = found.min()  # not seen yet
        return found


class Peer:
    """A process of GraphLearning that chooses vertices of one graph."""

    def __init__(self, python: Path, graph: Graph, y: np.ndarray, draws: dict[str, np.ndarray], folder: Path,
                 name: str):
        W, self.first, vertex = graph.weights(), graph.vertices.first, graph.vertices.vertex
        starts = {key: vertex[np.flatnonzero(labels >= 0)] for key, labels in draws.items()}
        np.savez(folder / "problem.npz", data=W.data, indices=W.indices, indptr=W.indptr, y=y[self.first], **starts)
        self.process = subprocess.Popen([python, HERE / "suggest_peer.py", folder / "problem.npz"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        report(part="graphlearning", set=name, eigenpairs=50, **self.answer())

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, criterion: str, key: str, count: int) -> np.ndarray:
        """Return the first rows of the vertices that a criterion chooses, one at a time."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{criterion} {key} {count}\n")
        self.process.stdin.flush()
        return self.first[self.answer()["ids"]]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    main()
