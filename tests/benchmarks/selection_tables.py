"""Tables 1 and 2 of the second paper: what cross-validation chooses by refits, influence functions and a closed form.

    DSSL_DATA=... OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python -m tests.benchmarks.selection_tables --out FILE
    python -m tests.benchmarks.selection_tables --summary --out FILE

As in the paper: features (and the targets of regression) standardized, 70 % of the points to train on, 10 % of these
labeled, LapRLS for regression and LapSVM with the Huberized hinge, h = 0.01, for classes, no intercept, kernel
exp(-d^2 / (2 sigma)), unnormalized Laplacian. Of each grid point f is fitted on all training points, exactly, through
the kernel that the labels see (`selection_problems.label_kernels`). The parameters of the lowest held-out loss, t = 5,
10 and 20 folds:

    refit         a fit without each fold: exact t-CV. LapSVM begins at the minimum of all labels
    influence     f + eps BIF, from one fit
    refined       a step of Newton's method on each fold's own problem after it
    closed_form   LapRLS: exact, all gamma_A of one gamma_I / gamma_A at once

Points that are held out stay in the graph as unlabeled ones. With --inductive also the paper's own form, where a fold's
share of all points leaves the graph: `inductive_refit`, and `inductive_influence` on ceil(sqrt(n)) landmarks.

Seconds are of the process (CPU), which has one thread. `gram` and `graph` are needed by all; `factors` are the kernels
of labels, `fit` the functions of all labels. `alone` is a refit by a system of all points, as for each grid point and
fold where nothing is shared: the mean of a few.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lu_factor, lu_solve
from scipy.stats import ttest_rel

from dssl.base.errors import NotConverged
from dssl.kernels.base import RBF
from dssl.learners.laprls.dense import smooth_held_out
from dssl.learners.laprls.influence import influence_of_labels
from dssl.learners.laprls.params import LabelLines
from dssl.learners.linear.gram import held_out_ridge
from dssl.learners.linear.newton import LabelGram, Minimum, minimize
from dssl.learners.losses import SQUARES, HuberHinge, SmoothLoss
from dssl.selection.folds import labeled_folds
from tests.benchmarks.influence_on_graph import (
    FittedOnGraph,
    NystromSpace,
    graph_parts,
    influence_on_graph,
    whole_graph,
)

from .selection_problems import (
    CLASSIFICATION,
    REGRESSION,
    Clock,
    Sample,
    energy_of,
    graph_weights,
    label_kernels,
    sample,
)

FOLDS = (5, 10, 20)
HINGE = HuberHinge(0.01)
RAISED = 0.01  # the least gamma_A of a second choice, since the influence function takes small ones for too good
REFINE = {"refit": None, "influence": 0, "refined": 1}


@dataclass(frozen=True)
class Grid:
    """graphs : pairs of k and the factor of the bandwidth. norms, energies : values of gamma_A and gamma_I."""

    graphs: Sequence[tuple[int, float]]
    sigmas: Sequence[float]
    norms: Sequence[float]
    energies: Sequence[float]

    def by_ratio(self) -> dict[float, list[tuple[float, float]]]:
        """Return the pairs of penalties by gamma_I / gamma_A."""
        found: dict[float, list[tuple[float, float]]] = {}
        for A, B in product(self.norms, self.energies):
            found.setdefault(10.0 ** round(np.log10(B / A)), []).append((A, B))
        return found

    def __len__(self) -> int:
        return len(self.graphs) * len(self.sigmas) * len(self.norms) * len(self.energies)


def wrong_signs(values: np.ndarray, y: np.ndarray) -> float:
    """Return the share of points whose value is of another sign than y; 0 is negative."""
    return float((np.where(values > 0, 1.0, -1.0) != y).mean())


def powers(base: float, first: int, last: int, step: int) -> list[float]:
    """Return the base to the powers first, first + step, ..., last."""
    return [base**i for i in range(first, last + 1, step)]


GRIDS = {
    "full": Grid(list(product((2, 4, 8), powers(2.0, -4, 4, 2))), powers(2.0, -10, 10, 2), powers(10.0, -6, 2, 1),
                 powers(10.0, -6, 2, 1)),
    "thin": Grid([(4, 1.0)], powers(2.0, -2, 10, 4), powers(10.0, -6, 0, 2), powers(10.0, -6, 2, 2)),
}


@dataclass(frozen=True, eq=False)
class Labels:
    """The labeled points of a split: their targets (l, 1), the loss, and the folds of each t."""

    y: np.ndarray
    loss: SmoothLoss
    folds: dict[int, list[np.ndarray]]

    def lines(self, held: Sequence[np.ndarray]) -> LabelLines:
        """Return the labels as `smooth_held_out` takes them."""
        return LabelLines.of(np.arange(len(self.y)), np.ones(len(self.y)), self.y, held)

    def fit(self, N: np.ndarray) -> Minimum:
        """Return f = N c of all labels; N (l, l) over gamma_A."""
        if self.loss is SQUARES:
            coef = np.linalg.solve(N + len(N) * np.eye(len(N)), self.y)
            return Minimum(coef, np.zeros(1), N @ coef, np.ones(1, np.int64))
        return minimize(LabelGram(N), self.loss, self.y, np.full(self.y.shape, 1 / len(N)), fit_intercept=False)

    def held_out(self, way: str, N: np.ndarray, whole: Minimum, t: int) -> np.ndarray:
        """Return the values (l, 1) of each label without its fold, N over gamma_A."""
        held = self.folds[t]
        if self.loss is not SQUARES:
            return smooth_held_out(LabelGram(N), self.loss, self.lines(held), whole, False, REFINE[way])
        if way != "refit":
            return influence_of_labels(N, self.y, np.ones(len(N)), self.loss, whole.values, held, intercept=False,
                                       refine=REFINE[way] or 0)
        found = np.full(self.y.shape, np.nan)
        for fold in held:
            kept = np.setdiff1d(np.arange(len(N)), fold)
            found[fold] = N[np.ix_(fold, kept)] @ np.linalg.solve(
                N[np.ix_(kept, kept)] + len(kept) * np.eye(len(kept)), self.y[kept])
        return found

    def measures(self, values: np.ndarray) -> tuple[float, float]:
        """Return the mean loss and the share of wrong signs over labels that are held out."""
        seen = ~np.isnan(values[:, 0])
        y, f = self.y[seen], values[seen]
        return float(self.loss.value(f, y).mean()), wrong_signs(f, y)


@dataclass
class Scores:
    """Held-out measures of each way and t, (grid, 2), with the test error and the gamma_A of each grid point."""

    found: dict[tuple[str, int], list[tuple[float, float]]] = field(default_factory=dict)
    test: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)

    def add(self, way: str, t: int, measures: tuple[float, float]) -> None:
        self.found.setdefault((way, t), []).append(measures)

    def chosen(self, measure: int, min_norm: float = 0.0) -> dict[str, tuple[int, float]]:
        """Return the grid point of the lowest measure (then the lowest loss) and its test error, by way and t.

        min_norm : the smallest gamma_A that may be chosen.
        """
        found = {}
        for (way, t), rows in self.found.items():
            of = np.round(np.array(rows), 9)
            of[np.array(self.norms) < min_norm] = np.inf
            best = int(np.lexsort((of[:, 0], of[:, measure]))[0])
            found[f"{way} {t}"] = (best, self.test[best])
        return found


def measure(name: str, split: int, grid: Grid, max_points: int, n_alone: int, inductive: bool) -> dict[str, Any]:
    """Return what each way chose on a split, and its seconds."""
    data, clock = sample(name, split, max_points), Clock({})
    y = data.y[data.labeled][:, None]
    strata = (y[:, 0] > 0).astype(np.int64) if name in CLASSIFICATION else np.zeros(len(y), np.int64)
    loss = HINGE if name in CLASSIFICATION else SQUARES
    labels = Labels(y, loss, {t: labeled_folds(strata, t, split) for t in FOLDS})
    scores, failed = Scores(), dict.fromkeys(REFINE, 0)
    for k, factor in grid.graphs:
        with clock.of("graph"):
            W = graph_weights(data.X, k, factor)
        for sigma in grid.sigmas:
            of_sigma(data, labels, W, sigma, grid, scores, clock, failed)
            if inductive:
                for_inductive(data, labels, W, sigma, grid, scores, clock, split)
    chosen = {"loss": scores.chosen(0), "loss of raised": scores.chosen(0, RAISED)}
    if name in CLASSIFICATION:
        chosen["error"] = scores.chosen(1)
    return {"set": name, "split": split, "n": len(data.X), "labels": len(y), "test": len(data.y_test),
            "grid": len(grid), "folds": {t: len(held) for t, held in labels.folds.items()}, "chosen": chosen,
            "best": min(scores.test), "not_converged": failed,
            "alone": alone(data, labels, grid, n_alone, split), "seconds": clock.seconds}


def of_sigma(data: Sample, labels: Labels, W: sp.csr_array, sigma: float, grid: Grid, scores: Scores, clock: Clock,
             failed: dict[str, int]) -> None:
    """Add the measures of one bandwidth's penalties, held-out points in the graph."""
    E, ratios = energy_of(W).matrix(), grid.by_ratio()
    kernels = label_kernels(data.X, E, data.labeled, data.X_test, sigma, list(ratios), clock)
    for (N_ratio, G), pairs in zip(kernels, ratios.values(), strict=True):
        if labels.loss is SQUARES:
            for t, held in labels.folds.items():
                with clock.of(f"closed_form {t}"):
                    kept = len(labels.y) - np.array([len(fold) for fold in held])
                    values = held_out_ridge(N_ratio, labels.y, held, np.outer([A for A, _ in pairs], kept), None, False)
                for of_pair in values:
                    scores.add("closed_form", t, labels.measures(of_pair))
        for gamma_A, _ in pairs:
            N = N_ratio / gamma_A
            with clock.of("fit"):
                whole = labels.fit(N)
            f = G @ whole.coef / gamma_A
            scores.norms.append(gamma_A)
            scores.test.append(float(((f[:, 0] - data.y_test) ** 2).mean() if labels.loss is SQUARES
                                     else wrong_signs(f[:, 0], data.y_test)))
            for t, way in product(FOLDS, REFINE):
                try:
                    with clock.of(f"{way} {t}"):
                        values = labels.held_out(way, N, whole, t)
                except NotConverged:
                    failed[way] += 1
                    scores.add(way, t, (np.inf, np.inf))
                else:
                    scores.add(way, t, labels.measures(values))


def for_inductive(data: Sample, labels: Labels, W: sp.csr_array, sigma: float, grid: Grid, scores: Scores,
                  clock: Clock, random_state: int) -> None:
    """Add the same where points leave the graph with each fold."""
    energy, ratios, m, unused = energy_of(W), grid.by_ratio(), len(labels.y), Clock({})
    E = energy.matrix()
    with clock.of("inductive_space"):
        space = NystromSpace.of(RBF(sigma**0.5), data.X, whole_graph(energy), data.labeled, random_state=random_state)
    parts = {t: graph_parts(W, "unnormalized", data.labeled, held, random_state) for t, held in labels.folds.items()}
    for (N, G), pairs in zip(label_kernels(data.X, E, data.labeled, data.X, sigma, list(ratios), unused),
                             ratios.values(), strict=True):
        for gamma_A, gamma_I in pairs:
            fit = FittedOnGraph(data.labeled, labels.y, np.ones(m), labels.loss, gamma_A, gamma_I,
                                G @ labels.fit(N / gamma_A).coef / gamma_A)
            for t, held in labels.folds.items():
                with clock.of(f"inductive_influence {t}"):
                    values = influence_on_graph(space, fit, held, parts[t])
                scores.add("inductive_influence", t, labels.measures(values))
    for t, held in labels.folds.items():
        values = np.full((len(grid.norms) * len(grid.energies), m, 1), np.nan)
        for fold, part in zip(held, parts[t], strict=True):
            with clock.of(f"inductive_refit {t}"):
                rows, kept = np.setdiff1d(np.arange(len(data.X)), part.rows), np.setdiff1d(np.arange(m), fold)
                values[:, fold] = list(without_part(data, labels, W, sigma, ratios, rows, kept, fold))
        for of_pair in values:
            scores.add("inductive_refit", t, labels.measures(of_pair))


def without_part(data: Sample, labels: Labels, W: sp.csr_array, sigma: float,
                 ratios: dict[float, list[tuple[float, float]]], rows: np.ndarray, kept: np.ndarray,
                 fold: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the values (f, 1) of a fold's points by fits on these rows and the kept labels, of each pair."""
    E = energy_of(sp.csr_array(W[rows][:, rows])).matrix()
    own = Labels(labels.y[kept], labels.loss, {})
    kernels = label_kernels(data.X[rows], E, np.searchsorted(rows, data.labeled[kept]), data.X[data.labeled[fold]],
                            sigma, list(ratios), Clock({}))
    for (N, G), pairs in zip(kernels, ratios.values(), strict=True):
        for gamma_A, _ in pairs:
            yield G @ own.fit(N / gamma_A).coef / gamma_A


def alone(data: Sample, labels: Labels, grid: Grid, count: int, random_state: int) -> dict[str, float]:
    """Return the mean CPU seconds of a refit of a random grid point and fold by a system of all points, given K."""
    rng, clock, n = np.random.default_rng([random_state, 2]), Clock({}), len(data.X)
    k, factor = grid.graphs[0]
    E = energy_of(graph_weights(data.X, k, factor)).matrix()
    for _ in range(count):
        sigma, gamma_A, gamma_I = (values[int(rng.integers(len(values)))] for values in (
            grid.sigmas, grid.norms, grid.energies))
        fold = labels.folds[20][rng.integers(len(labels.folds[20]))]
        kept = np.setdiff1d(np.arange(len(labels.y)), fold)
        K, own = RBF(sigma**0.5)(data.X, data.X), Labels(labels.y[kept], labels.loss, {})
        with clock.of("refit"):
            rows = data.labeled[kept]
            A = gamma_I / n**2 * (E @ K)
            A[np.diag_indices_from(A)] += gamma_A
            if labels.loss is SQUARES:
                A[rows] += K[rows] / len(kept)
                right = np.zeros((n, 1))
                right[rows] = own.y / len(kept)
                K @ lu_solve(lu_factor(A, overwrite_a=True, check_finite=False), right, check_finite=False)
            else:
                right = np.zeros((n, len(rows)))
                right[rows, np.arange(len(rows))] = 1
                own.fit(K[rows] @ lu_solve(lu_factor(A, overwrite_a=True, check_finite=False), right,
                                           check_finite=False))
    return {"refits": count, "seconds": clock.seconds["refit"] / count}


def compile_once() -> None:
    """Search and weigh a few points, so that no clock counts compilation."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    E = energy_of(graph_weights(X, 4, 1.0)).matrix()
    next(label_kernels(X, E, np.arange(6), X[:2], 1.0, [1.0], Clock({})))


def summaries(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the mean test error of each way on each set, its p-value against refits of the same t, and mean seconds."""
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name]
        found: dict[str, Any] = {key: own[0][key] for key in ("set", "n", "labels", "grid", "folds")}
        found |= {"splits": len(own), "best": float(np.mean([line["best"] for line in own])), "chosen": {}}
        for kind in own[0]["chosen"]:
            tests = {key: np.array([line["chosen"][kind][key][1] for line in own]) for key in own[0]["chosen"][kind]}
            points = {key: np.array([line["chosen"][kind][key][0] for line in own]) for key in tests}
            for key, values in tests.items():
                way, t = key.split()
                base = f"{'inductive_' if way.startswith('inductive') else ''}refit {t}"
                equal = np.array_equal(values, tests[base])
                found["chosen"][f"{kind}, {key}"] = {
                    "mean": float(values.mean()), "sd": float(values.std(ddof=1)),
                    "difference": float((values - tests[base]).mean()),
                    "p": None if equal else float(ttest_rel(values, tests[base]).pvalue),
                    "same_point": int((points[key] == points[base]).sum())}
        found["seconds"] = {key: float(np.mean([line["seconds"][key] for line in own])) for key in own[0]["seconds"]}
        found["alone"] = float(np.mean([line["alone"]["seconds"] for line in own]))
        found["not_converged"] = {way: sum(line["not_converged"][way] for line in own) for way in REFINE}
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=[*REGRESSION, *CLASSIFICATION])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--grid", choices=list(GRIDS), default="thin")
    parser.add_argument("--max-points", type=int, default=3000, help="most points to train on")
    parser.add_argument("--alone", type=int, default=2, help="refits of a split that are measured one by one")
    parser.add_argument("--inductive", nargs="*", default=[], help="sets that the paper's own form is measured on, too")
    parser.add_argument("--out", type=Path, required=True, help="file of lines; what it holds is not measured again")
    parser.add_argument("--summary", action="store_true", help="print a line a set of what the file holds")
    args = parser.parse_args()
    lines = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    if args.summary:
        for line in summaries(lines):
            print(json.dumps(line))
        return
    done = {(line["set"], line["split"]) for line in lines}
    compile_once()
    for name, split in product(args.sets, range(args.splits)):
        if (name, split) not in done:
            found = measure(name, split, GRIDS[args.grid], args.max_points, args.alone, name in args.inductive)
            with args.out.open("a") as out:
                out.write(json.dumps(found) + "\n")
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
