"""Nystrom LapRLS without a graph against Falkon on the CPU: seconds, test error and memory on covtype, 7 targets.

    DSSL_DATA=... python -m tests.benchmarks.laprls_falkon --falkon-python PATH --landmarks 1000 2000

PATH is an interpreter that has falkon (see `falkon_peer.py`). One JSON line a fit, then one a solver with the best and
the median of its fits, then the ratio to Falkon. Every fit has a process of its own, and solvers take turns within a
run, so that other load on the machine meets all of them. All get the same split (seed 0, features standardized by the
moments of the training points), sigma, penalty and number of threads; landmarks are drawn by each for itself.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dssl.base.profiler import process_peak
from dssl.base.units import size_of

HERE = Path(__file__).parent
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
FALKON, STORED = "falkon", "falkon, stored kernel"


def main() -> None:
    given = arguments()
    if given.fit_ours:
        fit_ours(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "covtype.npz"
        n_test = write_data(data, given.train, is_binary=given.binary)
        for M in given.landmarks:
            compare(data, M, n_test, given)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--falkon-python", type=Path, help="default: no peer")
    parser.add_argument("--solvers", nargs="*", default=["auto", "auto/float32"],
                        help="ours, by name, such as auto or nystrom-pcg/float32; none: the peer alone")
    parser.add_argument("--landmarks", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--train", type=int, default=406_708, help="training points; the rest is the test set")
    parser.add_argument("--binary", action="store_true", help="two classes: lodgepole pine (2) against the others")
    parser.add_argument("--sigma", type=float, default=3.0)
    parser.add_argument("--penalty", type=float, default=1e-6)
    parser.add_argument("--iterations", type=int, default=20, help="of Falkon's conjugate gradients")
    parser.add_argument("--runs", type=int, default=3, help="fits of each solver; run r has seed r")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", type=size_of, default=1 << 30, help="memory budget of ours, such as 8GB")
    parser.add_argument("--store-kernel", action="store_true", help="measure Falkon with its kernel kept in memory too")
    parser.add_argument("--fit-ours", type=Path, help=argparse.SUPPRESS)  # the process of one fit of ours: its data
    parser.add_argument("--random-state", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def report(**record: Any) -> None:
    print(json.dumps(record), flush=True)


def write_data(path: Path, n_train: int, *, is_binary: bool = False) -> int:
    """Write the split that both read, in float32 with one-hot targets; return the number of test points."""
    with np.load(Path(os.environ["DSSL_DATA"]) / "covtype.npz") as held:
        X, kinds = held["X"].astype(np.float64), held["y"]
    y = np.unique(kinds == 2 if is_binary else kinds, return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:n_train], order[n_train:]
    X -= X[train].mean(axis=0)
    X /= np.maximum(X[train].std(axis=0), 1e-12)
    X = X.astype(np.float32)
    np.savez(path, X_train=X[train], Y_train=np.eye(y.max() + 1, dtype=np.float32)[y[train]],
             X_test=X[test], Y_test=y[test])
    return len(test)


def compare(data: Path, M: int, n_test: int, given: argparse.Namespace) -> None:
    """Report every fit, every solver's best and median, and the best Falkon's seconds over each of ours."""
    peers = [FALKON, *[STORED] * given.store_kernel] if given.falkon_python else []
    fits: dict[str, list[dict[str, Any]]] = {name: [] for name in [*peers, *given.solvers]}
    for run in range(given.runs):
        for name in fits:
            fit = one_fit(name, data, M, run, given)
            fits[name].append(fit)
            report(part="fit", run=run, **{**fit, "solver": name})
    common = {"n": given.train, "test": n_test, "landmarks": M, "sigma": given.sigma, "penalty": given.penalty,
              "runs": given.runs, "threads": given.threads}
    best = {name: min(fit["fit_seconds"] for fit in found) for name, found in fits.items()}
    error = {name: median(fit["test_error"] for fit in found) for name, found in fits.items()}
    for name, found in fits.items():
        report(part="laprls_falkon", solver=name, **common, best=round(best[name], 2),
               median=round(median(fit["fit_seconds"] for fit in found), 2), test_error=round(error[name], 5),
               peak_rss_bytes=max(fit["peak_rss_bytes"] for fit in found))
    for name in given.solvers if peers else ():
        against = min(peers, key=lambda peer: best[peer])
        report(part="ratio", solver=name, against=against, **common, ratio=round(best[against] / best[name], 2),
               error_above_peer=round(error[name] - error[against], 5))


def one_fit(name: str, data: Path, M: int, random_state: int, given: argparse.Namespace) -> dict[str, Any]:
    """Fit one solver in a process of its own and return what it printed."""
    common = [f"--sigma={given.sigma}", f"--penalty={given.penalty}", f"--random-state={random_state}",
              f"--threads={given.threads}"]
    if name in (FALKON, STORED):
        command = [given.falkon_python, HERE / "falkon_peer.py", data, f"--landmarks={M}", *common,
                   f"--iterations={given.iterations}", *["--store-kernel"] * (name == STORED)]
    else:
        command = [sys.executable, "-m", "tests.benchmarks.laprls_falkon", "--fit-ours", data, "--solvers", name,
                   f"--landmarks={M}", f"--budget={given.budget}", *common]
    environment = {**os.environ, **dict.fromkeys(THREADS, str(given.threads))}
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True,
                          cwd=HERE.parents[1], env=environment)
    return json.loads(done.stdout.splitlines()[-1])  # the last line: libraries print warnings of their own before


def fit_ours(given: argparse.Namespace) -> None:
    """Fit ours on the points of `--fit-ours` and print one JSON line with the names that `falkon_peer.py` prints."""
    import dssl

    with np.load(given.fit_ours) as held:
        X, y, X_test, truth = held["X_train"], held["Y_train"].argmax(axis=1), held["X_test"], held["Y_test"]

    solver, _, precision = given.solvers[0].partition("/")

    def model(M: int) -> Any:
        return dssl.LapRLSClassifier(
            bandwidth=given.sigma, gamma_A=given.penalty, gamma_I=0.0, landmarks=M, random_state=given.random_state,
            memory_budget=given.budget,
            solver=dssl.SystemParams(solver=solver, precision=precision or "float64", random_state=given.random_state))

    few = np.sort(np.concatenate([np.flatnonzero(y == code)[:100] for code in np.unique(y)]))
    model(50).fit(X[few], y[few])  # compiles
    loaded, fitted = process_peak(), model(given.landmarks[0])
    load, begin, cpu = os.getloadavg()[0], time.perf_counter(), time.process_time()
    fitted.fit(X, y)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    after_fit, begin = process_peak(), time.perf_counter()
    codes = fitted.predict(X_test)
    report(rows=len(X), landmarks=given.landmarks[0], random_state=given.random_state, threads=given.threads,
           fit_seconds=round(seconds, 3), fit_cpu_seconds=round(cpu, 3),
           predict_seconds=round(time.perf_counter() - begin, 3), test_error=round(float((codes != truth).mean()), 5),
           loaded_bytes=loaded, peak_rss_bytes=after_fit, load_before=round(load, 2))


if __name__ == "__main__":
    main()
