"""The lowest eigenpairs of a normalized Laplacian: ours, and those of SciPy and pyamg, on the same graph.

    python -m tests.benchmarks.eigen mnist mnist_vae --cache FOLDER

Prints one JSON document a line. Every contender computes in a process of its own, one thread, that is ended after
`--limit` seconds; the time is that of the computation alone, after a small one that compiles and imports, and beside it
what it had of the core, which other work on the machine makes no longer. The residual is the largest
`||L v - value v|| / 2`, recomputed. Data come from $DSSL_DATA; graphs are kept in the cache folder.
"""

import argparse
import json
import multiprocessing.connection
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyamg
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh, lobpcg
from threadpoolctl import threadpool_limits

from dssl.graph.knn_graph import KNNGraph
from dssl.graph.laplacian import Laplacian
from dssl.solvers.eigen import lowest_eigenpairs

TOLERANCE = 1e-6
Pairs = tuple[np.ndarray, np.ndarray]  # values (m,), vectors (n, m)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", help="data sets, or grid-SIDE, or ring-N")
    parser.add_argument("--cache", type=Path, required=True, help="folder for graphs")
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--limit", type=float, default=300, help="seconds of a contender")
    parser.add_argument("--memory", type=float, default=6e9, help="bytes of a contender")
    parser.add_argument("--runs", type=int, default=2, help="times that ours is measured; the best counts")
    parser.add_argument("--only", nargs="*", choices=CONTENDERS, default=list(CONTENDERS))
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    for name in args.graphs:
        W = graph(name, args.cache)
        print(json.dumps({"graph": name, "n": W.shape[0], "nonzeros": W.nnz, "pairs": args.pairs}), flush=True)
        for contender in args.only:
            for _ in range(args.runs if contender == "dssl" else 1):
                record = limited(contender, W, args)
                print(json.dumps({"graph": name, "contender": contender, **record}), flush=True)


def graph(name: str, cache: Path) -> sp.csr_array:
    """Return the weights of a data set's 10-NN graph, self-tuned, or of a grid or ring."""
    kind, _, size = name.partition("-")
    if size:
        ones = np.ones(int(size) - 1)
        path = sp.diags_array([ones, ones], offsets=[-1, 1], format="csr")
        if kind == "ring":
            return sp.csr_array(path + sp.csr_array(([1.0, 1.0], ([0, len(ones)], [len(ones), 0])), path.shape))
        return sp.csr_array(sp.kronsum(path, path))
    file = cache / f"{name}.npz"
    if not file.exists():
        X = np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz")["X"].astype(np.float32)
        sp.save_npz(file, sp.csr_matrix(KNNGraph().build(X / np.float32(255) if name == "mnist" else X).weights()))
    return sp.csr_array(sp.load_npz(file))


def limited(contender: str, W: sp.csr_array, args: argparse.Namespace) -> dict[str, object]:
    """Return what a contender's process says, or that it was ended."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=measured, args=(contender, W, args.pairs, args.memory, theirs))
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(args.limit) else {"ended": f"after {args.limit:.0f} s"}
    except EOFError:
        found = {"ended": f"at {args.memory / 1e9:.0f} GB"}
    process.kill()
    process.join()
    return found


def measured(contender: str, W: sp.csr_array, m: int, memory: float, pipe: multiprocessing.connection.Connection,
             ) -> None:
    """Send the seconds, residual and last value of a contender."""
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    compute, L, vector = CONTENDERS[contender], Laplacian(W).matrix(), Laplacian(W).vector
    with threadpool_limits(1):
        small = Laplacian(sp.csr_array(sp.diags_array([np.ones(1999)] * 2, offsets=[-1, 1])))
        compute(small.matrix(), small.vector, 3)
        before, begin, busy = peak(), time.perf_counter(), time.process_time()
        try:
            values, X = compute(L, vector, m)
        except MemoryError:
            pipe.send({"ended": f"at {memory / 1e9:.0f} GB"})
            return
        seconds, busy, after = time.perf_counter() - begin, time.process_time() - busy, peak()
    residual = np.linalg.norm(L @ X - X * values, axis=0) / 2
    pipe.send({"seconds": round(seconds, 2), "of_the_core": round(busy, 2), "residual": float(f"{residual.max():.2e}"),
               "megabytes": round(after - before), "last": float(f"{np.sort(values)[-1]:.8g}")})


def peak() -> float:
    """Return the most megabytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours(L: sp.csr_array, vector: np.ndarray, m: int) -> Pairs:
    found = lowest_eigenpairs(L, vector, m, tol=TOLERANCE)
    return found.values, found.vectors


def arpack(n_vectors: int | None) -> Callable[[sp.csr_array, np.ndarray, int], Pairs]:
    """Return plain Lanczos; of 2 I - L, whose large eigenvalues meet a tolerance relative to them sooner."""
    def compute(L: sp.csr_array, vector: np.ndarray, m: int) -> Pairs:
        A = sp.csr_matrix(2 * sp.eye_array(L.shape[0]) - L)
        values, X = eigsh(A, m, which="LA", tol=TOLERANCE, ncv=n_vectors and max(n_vectors, 2 * m + 1),
                          v0=np.random.default_rng(0).standard_normal(L.shape[0]))
        return 2 - values, X
    return compute


def shift_invert(L: sp.csr_array, vector: np.ndarray, m: int) -> Pairs:
    start = np.random.default_rng(0).standard_normal(len(vector))
    return eigsh(sp.csc_matrix(L), m, sigma=-1e-3, tol=TOLERANCE, v0=start)


def amg_lobpcg(L: sp.csr_array, vector: np.ndarray, m: int) -> Pairs:
    R = sp.csr_matrix(L + 1e-6 * sp.eye_array(L.shape[0]))
    levels = pyamg.smoothed_aggregation_solver(R, B=vector[:, None])
    start = np.random.default_rng(0).standard_normal((L.shape[0], m))
    start[:, 0] = vector
    return lobpcg(sp.csr_matrix(L), start, M=levels.aspreconditioner(), tol=2 * TOLERANCE, largest=False, maxiter=300)


CONTENDERS = {"dssl": ours, "eigsh": arpack(None), "eigsh, ncv=200": arpack(200), "pyamg + LOBPCG": amg_lobpcg,
              "eigsh, shift-invert": shift_invert}

if __name__ == "__main__":
    main()
