"""Cluster kernels: the tables of "Storage fit learning with unlabeled data" (IJCAI 2017), and what a budget does.

    DSSL_DATA=... python -m tests.benchmarks.storage_fit table3 --draws 30
    DSSL_DATA=... python -m tests.benchmarks.storage_fit table2 --sets a9a w8a --budgets 200 400 600
    DSSL_DATA=... python -m tests.benchmarks.storage_fit figure2 --sets a9a --labels 1000 --draws 3
    DSSL_DATA=... python -m tests.benchmarks.storage_fit forest --budgets 2147

`table3`: AUC on the unlabeled points, 10 % of them labeled; bandwidth, transfer function and C by 5-fold
cross-validation on the labels, of the cluster kernels and of the plain machine alike. The eigenpairs of a kernel serve
all draws. "ClusK of a fifth" is that of the labeled points and a tenth of all points beside them, and the transductive
machine has its defaults. Class mass normalization of two classes has the order of the harmonic function, and so its
AUC.

`table2`: AUC on the unlabeled points with a kernel of sigma 0.55, transfer function and C by cross-validation, and of
the defaults, with the seconds of their whole fit and predictions, in a process of its own a budget (MB), and the peak
of the process beyond what the interpreter and the data take, and the predicted one.

`figure2`: AUC against the seconds of a fit, of SoCK by its steps and NysCK by its landmarks, chosen as in `table2`.

`forest`: accuracy on the unlabeled points of covtype, all 581,012, 1 % labeled, beside LapRLS of the same budget.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dssl import (
    ClusterKernelSVC,
    LaplaceLearning,
    LapRLSClassifier,
    SemiSupervisedClassifier,
    TransductiveSVC,
    TransferParams,
)
from dssl.base.profiler import process_peak
from dssl.execution.in_process import InProcess
from dssl.execution.threads import one_thread
from dssl.kernels.base import kernel_from
from dssl.kernels.cluster import ClusterBasis
from dssl.kernels.cluster_params import ClusterParams, basis_of
from dssl.kernels.landmarks import LandmarkParams
from dssl.kernels.stochastic import StochasticParams
from dssl.learners.linear.features import FeatureLearner
from dssl.learners.linear.kernel_model import sample_model
from dssl.learners.target.target import Classes
from dssl.methods.linear import base_map, linear_scores
from dssl.selection.candidates import CandidateScores, SelectionRule
from dssl.selection.folds import held_out_folds
from dssl.storage.csr import as_rows

from .draws import add_draw_option, draw_labels, target_of
from .low_labels import TOYS
from .low_labels import read as read_toy

SETS = ["australian", "credit_a", "diabetes_pima", "german_numer", "kr_vs_kp", "splice", "svmguide3"]
BANDWIDTHS = ("0.125*median", "0.25*median", "0.5*median", "median", "2*median")
TRANSFERS = ("linear", "poly_step", "polynomial")
PENALTIES = (0.1, 1.0, 10.0, 100.0)
RULE = SelectionRule(scoring="roc_auc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["table3", "table2", "figure2", "forest", "one"])
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--labels", type=int, nargs="+", default=[1000, 3000])
    parser.add_argument("--budgets", type=int, nargs="+", default=[200, 400, 600], help="MB")
    add_draw_option(parser, "random")
    parser.add_argument("--landmarks", type=float, default=0.2, help="of table 3, a share of the points")
    parser.add_argument("--threshold", type=float, default=StochasticParams.threshold, help="of SoCK in table 3")
    parser.add_argument("--rank", default="auto", type=lambda text: None if text == "none" else text, help="of NysCK")
    given = parser.parse_args()
    {"table3": table3, "table2": table2, "figure2": figure2, "forest": forest, "one": one}[given.what](given)


def report(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def read(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features (n, d), categories as columns of their own, standardized, and codes (n,) of the training rows.

    Of the sets of `low_labels.py` that need no download, 800 points.
    """
    if name in TOYS:
        X, y = read_toy(name, 800)
        return X, np.unique(y, return_inverse=True)[1]
    with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as held:
        X = held["X"].astype(np.float64) if "X" in held else sparse.csr_matrix(
            (held["data"], held["indices"], held["indptr"]), tuple(held["shape"])).toarray()
        y, categorical = held["y"], held["is_categorical"].astype(bool) if "is_categorical" in held else None
        if name in ("a9a", "w8a"):
            X, y = X[held["split"] == 0], y[held["split"] == 0]
    kept = np.isfinite(X).all(axis=1)
    X, y = X[kept], y[kept]
    if categorical is not None:
        coded = OneHotEncoder(sparse_output=False, drop="if_binary").fit_transform(X[:, categorical])
        X = np.column_stack([X[:, ~categorical], coded])
    X = X if name in ("a9a", "w8a") else StandardScaler().fit_transform(X)
    return X[:, np.ptp(X, axis=0) > 0], np.unique(y, return_inverse=True)[1]


def drawn(y: np.ndarray, count: int, number: int, draw: str) -> np.ndarray:
    """Return labels (n,), -1 but for `count` points, of each class at least 5 (the folds)."""
    return draw_labels(y, count / (y.max() + 1), [count, number], draw, fewest_per_class=5)


def auc(y: np.ndarray, scores: np.ndarray, free: np.ndarray) -> float:
    """Return that on the points without labels, of which those that a learner rejects from are in its middle."""
    return float(roc_auc_score(y[free], np.where(np.isnan(scores), np.nanmedian(scores), scores)[free]))


def table3(given: argparse.Namespace) -> None:
    cells: dict[str, dict[str, list[float]]] = {}
    for name in given.sets:
        X, y = read(name)
        rows, begin = as_rows(X), time.perf_counter()
        kernels = [kernel_from("rbf", own, rows=rows) for own in BANDWIDTHS]
        few = LandmarkParams(n_landmarks=given.landmarks)
        forms = {"ClusK": ClusterParams(approximation="exact", budget=1 << 34),
                 "NysCK": ClusterParams(landmarks=few, degrees="exact", rank=given.rank),
                 "SoCK": ClusterParams(approximation="stochastic", landmarks=few, budget=1 << 34,
                                       steps=StochasticParams(steps=60, threshold=given.threshold))}
        count = round(0.1 * len(y))
        bases = {form: [basis_of(rows, kernel, params, np.arange(0), InProcess(2, 1 << 34)) for kernel in kernels]
                 for form, params in forms.items()}
        report(part="eigenpairs", set=name, points=X.shape, seconds=round(time.perf_counter() - begin, 1))
        samples = {form: {(bandwidth, transfer): basis.samples(TransferParams(transfer=transfer), count)(X)
                          for bandwidth, basis in zip(BANDWIDTHS, own, strict=True) for transfer in TRANSFERS}
                   for form, own in bases.items()}
        found: dict[str, list[float]] = defaultdict(list)
        for number in range(given.draws):
            labels = drawn(y, count, number, given.draw)
            target, free = target_of(labels), labels < 0
            scores = {form: chosen(maps, target) for form, maps in samples.items()}
            X_l = X[target.labeled]
            others = np.random.default_rng(number).choice(np.flatnonzero(free), len(y) // 10, replace=False)
            drawn_rows = as_rows(X[np.concatenate([target.labeled, others])])
            alone = ClusterParams(approximation="landmarks", landmarks=LandmarkParams(n_landmarks=1.0))
            parts = [basis_of(drawn_rows, kernel, alone, np.arange(count), InProcess(1)) for kernel in kernels]
            scores["ClusK of a fifth"] = chosen({
                (bandwidth, transfer): basis.samples(TransferParams(transfer=transfer), count)(X)
                for bandwidth, basis in zip(BANDWIDTHS, parts, strict=True) for transfer in TRANSFERS}, target)
            scores["SVM"] = chosen({(bandwidth, "none"): base_map(kernel, X_l)(X)
                                    for bandwidth, kernel in zip(BANDWIDTHS, kernels, strict=True)}, target)
            scores["1-NN"] = KNeighborsClassifier(1).fit(X_l, target.coded).predict(X)
            for learner, made in (("harmonic", LaplaceLearning()), ("TSVM", TransductiveSVC()),
                                  ("automatic", SemiSupervisedClassifier(scale="none"))):
                scores[learner] = made.fit(X, labels).decision_function(X)
            for learner, own in scores.items():
                found[learner].append(auc(y, own, free))
            report(part="draw", set=name, draw=given.draw, number=number,
                   **{key: round(own[-1], 4) for key, own in found.items()})
        cells[name] = found
        report(part="table 3", set=name, labels=count, draw=given.draw, draws=given.draws, **{
            learner: [round(fmean(own), 4), round(pstdev(own) / len(own)**0.5, 4)] for learner, own in found.items()})
    ranks = [dict(zip(own, rankdata([-fmean(values) for values in own.values()]), strict=True))
             for own in cells.values()]
    report(part="mean rank", **{learner: round(fmean(rank[learner] for rank in ranks), 2) for learner in ranks[0]})


def chosen(maps: dict[tuple[str, str], np.ndarray], target: Classes) -> np.ndarray:
    """Return the scores (n,) of the machine on the features that cross-validation chooses, with its C."""
    learners = [FeatureLearner(loss="hinge", C=C) for C in PENALTIES]
    repetitions, rows, keys = held_out_folds(5, target), list[CandidateScores](), list[Any]()
    with one_thread():
        for key, F in maps.items():
            rows += linear_scores(F[target.labeled], target, learners, repetitions, "roc_auc")
            keys += [(key, learner) for learner in learners]
        key, learner = keys[RULE.index(rows)]
        b, intercept, coding = learner.fit(maps[key][target.labeled], target)
    return coding.decision(maps[key] @ b + intercept)


def table2(given: argparse.Namespace) -> None:
    for name in given.sets:
        for labels in given.labels:
            for budget in given.budgets:
                subprocess.run([sys.executable, "-m", "tests.benchmarks.storage_fit", "one", "--sets", name, "--labels",
                                str(labels), "--budgets", str(budget), "--draws", str(given.draws),
                                "--draw", given.draw, "--rank", "none" if given.rank is None else given.rank],
                               check=True)


def one(given: argparse.Namespace) -> None:
    """One cell of table 2: all draws in this process, of which the first is timed and measured."""
    name, labels, budget = given.sets[0], given.labels[0], given.budgets[0] * 10**6
    X, y = read(name)
    X = X.astype(np.float32)
    ClusterKernelSVC(landmarks=20).fit(X[:200], np.where(np.arange(200) < 100, np.arange(200) % 2, -1))  # imports
    before, found, usual, seconds, rows = process_peak(), list[float](), list[float](), 0.0, as_rows(X)
    for number in range(given.draws):
        known = drawn(y, labels, number, given.draw)
        begin = time.perf_counter()
        fitted = ClusterKernelSVC(bandwidth=0.55, memory_budget=budget, rank=given.rank).fit(X, known)
        usual.append(auc(y, fitted.decision_function(X), known < 0))
        if number == 0:
            seconds, peak = time.perf_counter() - begin, process_peak() - before
        found.append(auc(y, chosen_on(fitted.basis_, rows, known, budget), known < 0))
    report(part="table 2", set=name, labels=labels, budget_mb=given.budgets[0], draw=given.draw, draws=given.draws,
        auc=round(fmean(found), 4), standard_error=round(pstdev(found) / len(found)**0.5, 4), auc_of_defaults=round(
        fmean(usual), 4), seconds=round(seconds, 1),
        landmarks=fitted.evidence_["landmarks"], rank=fitted.evidence_["rank"], peak_mb=round(peak / 1e6, 1),
        predicted_mb=round(fitted.evidence_["predicted_peak_bytes"] / 1e6, 1))


def chosen_on(basis: ClusterBasis, rows: Any, known: np.ndarray, budget: int) -> np.ndarray:
    """Return the scores (n,) of least squares with the transfer function and C that cross-validation chooses."""
    target, learners = target_of(known), [FeatureLearner(C=10.0**power) for power in range(-3, 3)]
    repetitions, found, keys = held_out_folds(5, target), list[CandidateScores](), list[Any]()
    for transfer in TRANSFERS:
        samples = basis.samples(TransferParams(transfer=transfer), len(target.labeled))
        F = samples.of_rows(rows, target.labeled, budget)
        found += linear_scores(F, target, learners, repetitions, "roc_auc")
        keys += [(samples, F, learner) for learner in learners]
    samples, F, learner = keys[RULE.index(found)]
    return sample_model(samples, *learner.fit(F, target)).values(rows)[:, -1]


def figure2(given: argparse.Namespace) -> None:
    forms = [("SoCK", steps, {"approximation": StochasticParams(steps=steps, tol=0.0)})
             for steps in (5, 10, 20, 40, 80)]
    forms += [("NysCK", landmarks, {"landmarks": landmarks}) for landmarks in (50, 100, 200, 500, 1000, 2000)]
    for name in given.sets:
        X, y = read(name)
        rows = as_rows(X.astype(np.float32))
        ClusterKernelSVC(landmarks=20).fit(X[:200], np.where(np.arange(200) < 100, np.arange(200) % 2, -1))  # imports
        for learner, size, form in forms:
            found, seconds = list[float](), list[float]()
            for number in range(given.draws):
                known, begin = drawn(y, given.labels[0], number, given.draw), time.perf_counter()
                fitted = ClusterKernelSVC(bandwidth=0.55, **form).fit(rows, known)
                seconds.append(time.perf_counter() - begin)
                found.append(auc(y, chosen_on(fitted.basis_, rows, known, 1 << 30), known < 0))
            report(part="figure 2", set=name, labels=given.labels[0], draw=given.draw, learner=learner, size=size,
                auc=round(fmean(found), 4), standard_error=round(pstdev(found) / len(found)**0.5, 4),
                best=round(min(seconds), 2), median=round(median(seconds), 2))


def forest(given: argparse.Namespace) -> None:
    with np.load(Path(os.environ["DSSL_DATA"]) / "covtype.npz") as held:
        X, y = StandardScaler().fit_transform(held["X"].astype(np.float32)), held["y"].astype(np.int64)
    known = np.where(np.random.default_rng(1).random(len(y)) < 0.01, y, -1)
    for budget in given.budgets:
        for learner, made in (("NysCK", ClusterKernelSVC(memory_budget=budget * 10**6)),
                              ("LapRLS", LapRLSClassifier(landmarks=2000, memory_budget=budget * 10**6))):
            begin = time.perf_counter()
            right = made.fit(X, known).predict(X)[known < 0] == y[known < 0]
            report(part="forest", learner=learner, budget_mb=budget, accuracy=round(float(right.mean()), 4),
                   seconds=round(time.perf_counter() - begin, 1), peak_mb=round(process_peak() / 1e6))


if __name__ == "__main__":
    main()
