"""Cross-validation of a 9 x 9 grid over 20 folds in closed form against refits.

    DSSL_DATA=... python -m tests.benchmarks.closed_form --set phishing --landmarks 1000
    DSSL_DATA=... python -m tests.benchmarks.closed_form --set abalone_scale --solver direct
    DSSL_DATA=... python -m tests.benchmarks.closed_form --set phishing --ridge

Seconds from points with a graph and labels to the held-out values of all pairs of penalties. `refits` are the systems
of all folds, from Gram matrices of each fold that one pass over the points makes; `one_by_one` are trainings of their
own, a pair and fold each: `--alone` of them spread over the grid, and their mean times all (`estimated` says so). With
--ridge, kernel ridge regression on the Gram matrix of the labeled points: nine C by the closed form and by fits. Ways
take turns in one run; best and median of `--runs`; `difference` is the largest, as a share of the largest value.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from dssl.execution.in_process import InProcess
from dssl.execution.threads import one_thread
from dssl.kernels.landmarks import LandmarkParams
from dssl.learners.laprls.params import SystemParams
from dssl.learners.laprls.problem import LapRLSParams, LapRLSProblem
from dssl.learners.linear.gram import LearnerParams, held_out_of_gram
from dssl.learners.target.target import Quantities
from dssl.selection.folds import held_out, labeled_folds
from dssl.storage.blocks import ArrayRows

from .laprls_problems import Problem, problem

GAMMAS_A, GAMMAS_I = tuple((10.0 ** np.arange(-6, 3)).tolist()), tuple((10.0 ** np.arange(-4, 5)).tolist())
CS = tuple((10.0 ** np.arange(-3, 6)).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="phishing")
    parser.add_argument("--points", type=int, default=None)
    parser.add_argument("--labels", type=float, default=0.1, help="a share of the points")
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--folds", type=int, default=20)
    parser.add_argument("--solver", default="nystrom-direct", choices=["nystrom-direct", "direct"])
    parser.add_argument("--ridge", action="store_true")
    parser.add_argument("--alone", type=int, default=10, help="trainings of their own")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    data = problem(args.set, random_state=0, points=args.points, labels=args.labels)
    folds = labeled_folds(np.zeros(data.m, np.int64), args.folds, 0)
    ways = ridge_ways(data, folds) if args.ridge else laprls_ways(data, folds, args.solver, args.landmarks)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    values = {}
    for _ in range(args.runs):
        for name, way in ways.items():
            begin = time.perf_counter()
            values[name] = way()
            seconds[name].append(time.perf_counter() - begin)
    found: dict[str, Any] = {
        "part": "closed_form", "data": args.set, "n": data.n, "labels": data.m, "folds": len(folds),
        "solver": "ridge" if args.ridge else args.solver, "landmarks": args.landmarks,
        "difference": float(np.abs(values["closed_form"] - values["refits"]).max() / np.abs(values["refits"]).max()),
        **{f"{name}_{kind}": round(of(own), 3) for name, own in seconds.items()
           for kind, of in (("best", min), ("median", median))}}
    found["refits_ratio"] = round(found["refits_best"] / found["closed_form_best"], 1)
    if not args.ridge:
        every = len(GAMMAS_A) * len(GAMMAS_I) * len(folds)
        chosen = np.linspace(0, every - 1, args.alone).round().astype(int)
        alone = [seconds_alone(data, folds, args.solver, args.landmarks, int(number)) for number in chosen]
        found |= {"one_by_one_seconds": round(float(np.mean(alone)) * every, 1),
                  "estimated": f"from {len(alone)} of {every}"}
        found["one_by_one_ratio"] = round(found["one_by_one_seconds"] / found["closed_form_best"], 1)
    print(json.dumps(found), flush=True)


def laprls_ways(data: Problem, folds: list[np.ndarray], solver: str, landmarks: int) -> dict[str, Callable[[], Any]]:
    """Return by name what gives the values (p, m, c) of all pairs of penalties."""
    def run(method: str) -> np.ndarray:
        return held_out_values(data, folds, solver, landmarks, method, GAMMAS_A, GAMMAS_I)

    return {"closed_form": lambda: run("closed_form"), "refits": lambda: run("refit")}


def held_out_values(data: Problem, folds: list[np.ndarray], solver: str, landmarks: int, method: str,
                    gammas_A: tuple[float, ...], gammas_I: tuple[float, ...]) -> np.ndarray:
    """Return the held-out values (p, m, c) of pairs of penalties, from the points."""
    execution = InProcess(memory_budget=4 << 30)
    system = SystemParams(solver=solver, held_out=method, laplacian="unnormalized")  # type: ignore[arg-type]
    params = LapRLSParams(gamma_A=gammas_A, gamma_I=gammas_I, landmarks=LandmarkParams(n_landmarks=landmarks),
                          system=system)
    lines = data.lines(folds)
    made = LapRLSProblem(data.rows, Quantities(data.split.labeled, lines.target), lines, data.graph, params,
                         len(data.points.vertex),
                         ArrayRows(data.points.multiplicity) if data.points.joined else None, folds=folds)
    return np.array([values for _, values in made.prepared(data.kernel, execution, held_out=True).held_out()])


def seconds_alone(data: Problem, folds: list[np.ndarray], solver: str, landmarks: int, number: int) -> float:
    """Return the seconds of one pair of penalties and one fold, a training of its own."""
    pair, fold = divmod(number, len(folds))
    begin = time.perf_counter()
    held_out_values(data, [folds[fold]], solver, landmarks, "refit", (GAMMAS_A[pair // len(GAMMAS_I)],),
                    (GAMMAS_I[pair % len(GAMMAS_I)],))
    return time.perf_counter() - begin


def ridge_ways(data: Problem, folds: list[np.ndarray]) -> dict[str, Callable[[], Any]]:
    """Return by name what gives the values (p, m, c) of each C."""
    X, target = data.split.X[data.split.labeled], Quantities(data.split.labeled, data.split.Y[data.split.labeled])
    K = data.kernel(X, X)

    def closed_form() -> np.ndarray:
        with one_thread():
            return held_out_of_gram(K, target, folds, CS)

    def refits() -> np.ndarray:
        with one_thread():
            return np.array([held_out([K] * len(folds), target, folds, LearnerParams(kind="ridge", C=C))[0]
                             for C in CS])

    return {"closed_form": closed_form, "refits": refits}


if __name__ == "__main__":
    main()
