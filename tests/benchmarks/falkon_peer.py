"""Fit Falkon on the CPU and print what it took as one JSON line; for an interpreter that has falkon, without dssl.

    FALKON_PYTHON tests/benchmarks/falkon_peer.py DATA.npz --landmarks 1000 --sigma 5 --penalty 1e-7

DATA.npz holds X_train (n, d) and Y_train (n, t), both float32, X_test (m, d) float32, and Y_test (m,), the column of
Y_train that is right for each test point. The kernel is exp(-||x - z||^2 / (2 sigma^2)); Falkon minimizes
||f - Y||^2 / n + penalty ||f||^2 over the span of its landmarks, drawn uniformly. Seconds are of `fit` alone, after a
small fit that loads what Falkon loads at first use; reading the data is outside, drawing the landmarks inside.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Return the most bytes this process has held; Linux lets `ru_maxrss` begin at what the parent held."""
    for line in STATUS.read_text(encoding="ascii").splitlines() if STATUS.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--landmarks", type=int, required=True)
    parser.add_argument("--sigma", type=float, required=True)
    parser.add_argument("--penalty", type=float, required=True)
    parser.add_argument("--iterations", type=int, default=20, help="of conjugate gradients, at most")
    parser.add_argument("--random-state", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, help="train on the first rows only")
    parser.add_argument("--store-kernel", action="store_true",
                        help="keep the (n, landmarks) kernel in memory, which Falkon by default does from d = 1200 on")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # before torch is loaded
        os.environ[name] = str(given.threads)
    import falkon
    import numpy as np
    import torch

    torch.set_num_threads(given.threads)
    with np.load(given.data) as held:
        X, Y, X_test = (torch.from_numpy(held[name]) for name in ("X_train", "Y_train", "X_test"))
        truth = held["Y_test"]
    X, Y = X[:given.rows], Y[:given.rows]
    options = falkon.FalkonOptions(use_cpu=True, **({"store_kernel_d_threshold": 0} if given.store_kernel else {}))

    def model(M: int, iterations: int) -> "falkon.Falkon":
        return falkon.Falkon(kernel=falkon.kernels.GaussianKernel(given.sigma, opt=options), penalty=given.penalty,
                             M=M, maxiter=iterations, seed=given.random_state, error_every=None,
                             options=options)

    model(50, 2).fit(X[:500], Y[:500])
    loaded = peak_bytes()
    fitted = model(given.landmarks, given.iterations)
    load, begin, cpu = os.getloadavg()[0], time.perf_counter(), time.process_time()
    fitted.fit(X, Y)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    after_fit, begin = peak_bytes(), time.perf_counter()
    codes = fitted.predict(X_test).argmax(dim=1).numpy()
    print(json.dumps({
        "solver": f"falkon {falkon.__version__}", "stored_kernel": given.store_kernel, "rows": len(X),
        "features": X.shape[1], "targets": Y.shape[1], "landmarks": given.landmarks, "sigma": given.sigma,
        "penalty": given.penalty, "iterations": given.iterations, "random_state": given.random_state,
        "threads": given.threads, "fit_seconds": round(seconds, 3), "fit_cpu_seconds": round(cpu, 3),
        "predict_seconds": round(time.perf_counter() - begin, 3),
        "test_error": round(float((codes != truth).mean()), 5),
        "loaded_bytes": loaded, "peak_rss_bytes": after_fit, "load_before": round(load, 2), "torch": torch.__version__,
    }), flush=True)


if __name__ == "__main__":
    main()
