"""Tables 2 and 3 of the fourth paper: RMSE, iterations and seconds of RLS, LapRLS and Nystrom LapRLS on its data sets.

    DSSL_DATA=... python -m tests.benchmarks.laprls_tables madelon abalone_scale phishing a8a a9a ijcnn1 skin_nonskin

As in the paper: 70 % of the points to train on, 10 % of them labeled, landmarks 10 % of the (distinct) points, 8-NN
with weights exp(-d^2/4), unnormalized Laplacian, Gaussian kernel; the same splits for all methods; 10 repetitions up to
25,000 points, 3 beyond. sigma, lambda_A and lambda_I by 10-fold cross-validation of the labels, for RLS and for LapRLS
each: those of the lowest error summed over the first three splits, with at most 1,000 landmarks; features standardized,
or raw where they are binary or scaled as published. The methods:

    RLS-CG, LapRLS-CG, LapRLS-PCG    all points: conjugate gradients in the inner product of K, without and with the
                                     two-level preconditioner on the landmarks (`learners/laprls/dense.py`)
    Nystrom-CG, Nystrom-PCG          equation (4) as printed, without and with the paper's (5) or (6)
    ours                             whitened, preconditioned by sampled edges
    ours, auto                       what solver="auto" chooses

to a relative residual of 1e-6, or 300 iterations, as in the paper. One JSON line a method: mean and standard deviation
of the test RMSE (against +-1 codes for classes), of iterations and of seconds (landmarks, blocks and solve; the graph,
which all but RLS share, is `graph_seconds`), and the p-value of a paired t-test against the lowest mean.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.kernels.landmarks import uniform_rows
from dssl.learners.laprls.dense import DenseTask
from dssl.learners.laprls.gram import gram_system, solve_from_gram
from dssl.learners.laprls.iterations import solve_by_products
from dssl.learners.laprls.params import Functions, SystemParams
from dssl.learners.laprls.penalties import Penalties, with_folds
from dssl.learners.laprls.solve import held_out_values, solver_method
from dssl.learners.linear.kernel_model import KernelModel
from dssl.learners.target.coding import Values
from dssl.selection.folds import labeled_folds
from dssl.storage.blocks import ArrayRows

from .laprls_problems import Problem, problem

SIGMAS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # of the median distance
LAMBDAS_A = [2.0**i for i in range(-15, 16, 3)]
LAMBDAS_I = [0.0, *(2.0**i for i in range(-15, 10, 3))]
SHARE = 0.1
MOST = 300
OURS = SystemParams(max_iter=MOST)
PRINTED = SystemParams(whitening=None, preconditioner="paper", max_iter=MOST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["madelon", "abalone_scale", "phishing", "a8a", "a9a", "ijcnn1",
                                                    "skin_nonskin"])
    parser.add_argument("--dense-points", type=int, default=25_000, help="most training points of the methods on all")
    parser.add_argument("--repetitions", type=int, help="in place of 10, or 3 beyond 25,000 points")
    parser.add_argument("--choose-landmarks", type=int, default=1000, help="most landmarks while parameters are chosen")
    parser.add_argument("--choose-splits", type=int, default=3, help="splits whose cross-validation chooses parameters")
    args = parser.parse_args()
    for name in args.sets:
        measure(name, args)


def measure(name: str, args: argparse.Namespace) -> None:
    execution = InProcess(memory_budget=6 << 30)
    begin = time.perf_counter()
    first = problem(name, random_state=0)
    graph_seconds = time.perf_counter() - begin
    size = round(first.n / 0.7)
    repetitions = args.repetitions or (10 if size <= 25_000 else 3)
    splits = [first, *(problem(name, random_state) for random_state in range(1, args.choose_splits))]
    chosen = choose(splits, args.choose_landmarks, execution)
    print(json.dumps({"part": "chosen", "data": name, "n": first.n, "labels": first.m, "vertices": len(first.rows),
                      "graph_seconds": round(graph_seconds, 1), **{
                          key: {"sigma": sigma, "lambda_A": own.lambda_A, "lambda_I": own.lambda_I,
                                "cv_rmse": round(rmse, 4)} for key, (sigma, own, rmse) in chosen.items()}}), flush=True)
    dense = first.n <= args.dense_points
    found: dict[str, list[dict[str, Any]]] = {}
    for repetition in range(repetitions):
        data = splits[repetition] if repetition < len(splits) else problem(name, random_state=repetition)
        for method, run in methods(data, chosen, dense, repetition, execution).items():
            begin = time.perf_counter()
            functions, points, kernel = run()
            seconds = time.perf_counter() - begin
            model = KernelModel(kernel, points, functions.coef[0], functions.intercept[0], Values())
            rmse = float(np.sqrt(((model.values(data.split.X_test, execution) - data.split.Y_test) ** 2).mean()))
            found.setdefault(method, []).append({
                "rmse": rmse, "seconds": seconds, "iterations": (functions.evidence.get("iterations") or [0])[0],
                "not_converged": functions.evidence.get("not_converged", 0),
                "method": functions.evidence["method"]})
    best = min(found, key=lambda method: np.mean([run["rmse"] for run in found[method]]))
    for method, runs in found.items():
        own, lowest = ([run["rmse"] for run in of] for of in (runs, found[best]))
        print(json.dumps({
            "part": "laprls_tables", "data": name, "n": first.n, "labels": first.m, "method": method,
            "repetitions": repetitions, "rmse": round(float(np.mean(own)), 4), "sd": round(float(np.std(own)), 4),
            "iterations": float(np.mean([run["iterations"] for run in runs])),
            "seconds": round(float(np.mean([run["seconds"] for run in runs])), 3),
            "best_seconds": round(min(run["seconds"] for run in runs), 3),
            "not_converged": sum(run["not_converged"] > 0 for run in runs), "solver": runs[0]["method"],
            "best": best, "p_value": None if own == lowest else float(ttest_rel(own, lowest).pvalue)}), flush=True)


def choose(splits: list[Problem], max_landmarks: int,
           execution: InProcess) -> dict[str, tuple[float, Penalties, float]]:
    """Return sigma, penalties and RMSE by 10-fold cross-validation on these splits, of "rls" and of "laprls"."""
    pairs = [Penalties(a, i) for a in LAMBDAS_A for i in LAMBDAS_I]
    found = {factor: np.mean([held_out_squares(data, factor, max_landmarks, pairs, execution)
                              for data in splits], axis=0)
             for factor in SIGMAS}
    width = 2 * np.mean([data.bandwidth for data in splits])  # a problem's own is half the median
    best: dict[str, tuple[float, Penalties, float]] = {}
    for factor, squares in found.items():
        for pair, square in zip(pairs, squares, strict=True):
            for key in (("rls", "laprls") if pair.lambda_I == 0 else ("laprls",)):
                if key not in best or square < best[key][2] ** 2:
                    best[key] = (factor * width, pair, float(np.sqrt(square)))
    return best


def held_out_squares(data: Problem, factor: float, max_landmarks: int, pairs: list[Penalties],
                     execution: InProcess) -> np.ndarray:
    """Return the mean squared residual of each pair of penalties at held-out labels of one split."""
    labeled = data.split.labeled
    codes = (data.split.Y[labeled].argmax(axis=1) if data.split.Y.shape[1] > 1 else
             (data.split.Y[labeled, 0] > 0).astype(np.int64))
    held = labeled_folds(codes if data.split.coded else np.zeros(len(labeled), np.int64), 10, 0)
    count = max(1, min(max_landmarks, round(SHARE * len(data.rows))))
    system = data.system(count, OURS, execution, held=held, bandwidth=2 * factor * data.bandwidth)
    systems = with_folds(pairs, len(held))
    functions = solve_from_gram(gram_system(system, systems, execution), systems, execution)
    values = np.concatenate(list(held_out_values(system, functions, systems, execution)), axis=1)
    seen = np.concatenate(held)
    return ((values[seen] - system.lines.target[seen][:, None]) ** 2).mean(axis=(0, 2))


Run = Callable[[], tuple[Functions, Any, RBF]]


def methods(data: Problem, chosen: dict[str, tuple[float, Penalties, float]], dense: bool, random_state: int,
            execution: InProcess) -> dict[str, Run]:
    """Return the methods by name, in the order of the tables."""
    (rls_sigma, rls, _), (sigma, laprls, _) = chosen["rls"], chosen["laprls"]

    def nystrom(params: SystemParams, preconditioned: bool, solver: str = "nystrom-pcg") -> Run:
        def run() -> tuple[Functions, Any, RBF]:
            system = data.system(SHARE, replace(params, solver=solver), execution, bandwidth=sigma,
                                 random_state=random_state)
            if solver_method(system, [laprls], execution)[0] == "nystrom-direct":
                functions = solve_from_gram(gram_system(system, [laprls], execution), [laprls], execution)
            else:
                functions = solve_by_products(system, [laprls], execution, preconditioned=preconditioned,
                                              required=False)
            return functions, system.problem.landmarks.load()["Z"], system.problem.kernel
        return run

    def whole(method: str, width: float, system: Penalties) -> Run:
        def run() -> tuple[Functions, Any, RBF]:
            kernel, lines, points = RBF(width), data.lines(), data.rows.array
            graph, copies = data.graph, execution.share_rows(ArrayRows(
                data.points.multiplicity)) if data.points.joined else None
            if system.lambda_I == 0:
                labeled = np.unique(lines.row)
                points, graph, copies = points[labeled], None, None
                lines = replace(lines, row=np.searchsorted(labeled, lines.row))
            landmarks = uniform_rows(len(points), max(1, round(SHARE * len(points))), random_state)
            shared = execution.share(row=lines.row, fold=lines.fold, weight=lines.weight, target=lines.target)
            task = DenseTask(ArrayRows(points), kernel, graph, copies, "unnormalized", shared, lines.n_held_out_folds,
                             landmarks, (system,), replace(OURS, solver=method), True, 24 << 30)
            parts = execution.scratch()
            receipt, = execution.map([task], parts)
            arrays = parts.read(0)
            return Functions(arrays["coef"], arrays["intercept"], receipt["evidence"]), points, kernel
        return run

    found: dict[str, Run] = {"RLS-CG": whole("cg", rls_sigma, rls)}
    if dense:
        found |= {"LapRLS-CG": whole("cg", sigma, laprls), "LapRLS-PCG": whole("pcg", sigma, laprls)}
    return found | {
        "Nystrom-CG": nystrom(replace(PRINTED, preconditioner="none"), False),
        "Nystrom-PCG": nystrom(PRINTED, True), "ours": nystrom(OURS, True), "ours, auto": nystrom(OURS, True, "auto")}


if __name__ == "__main__":
    main()
