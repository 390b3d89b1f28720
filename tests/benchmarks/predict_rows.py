"""Peak memory and seconds of `dssl predict` on very many rows, in a process of its own.

`python -m tests.benchmarks.predict_rows --rows 10000000` fits a model of 70,000 made-up points of 20 columns, 30 labels
a class, and predicts rows near them, float32, from an .npy file into Parquet.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_classification

import dssl

POINTS, COLUMNS, BLOCK = 70_000, 20, 500_000


def make(folder, n):
    """Write the points of the fit and n new ones."""
    X, classes = make_classification(POINTS, COLUMNS, n_informative=10, n_redundant=4, n_classes=3,
                                     n_clusters_per_class=3, class_sep=1.5, random_state=0)
    X, rng = X.astype(np.float32), np.random.default_rng(0)
    labels = np.full(POINTS, -1)
    for each in range(3):
        labels[rng.choice(np.flatnonzero(classes == each), 30, replace=False)] = each
    np.savez(folder / "train.npz", X=X, y=labels)
    new = np.lib.format.open_memmap(folder / "new.npy", "w+", np.float32, (n, COLUMNS))
    for start in range(0, n, BLOCK):
        rows = min(BLOCK, n - start)
        new[start:start + rows] = X[rng.integers(0, POINTS, rows)] + 0.1 * rng.standard_normal((rows, COLUMNS))


def measured(kind, n):
    """Return the seconds and the peak memory of a prediction of n rows."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(folder, n)
        result = dssl.run({"name": kind, "data": {"source": str(folder / "train.npz")}, "labels": {"given": True},
                           "model": {"kind": kind}}, workspace=folder / "work")
        command = [sys.executable, "-m", "dssl", "predict", result.folder, folder / "new.npy",
                   folder / "out.parquet", "--quiet"]
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        return {"kind": kind, "rows": n, "seconds": round(time.perf_counter() - begun),
                "peak_mib": round(usage.ru_maxrss / 1024)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--kinds", nargs="+", default=["automatic", "svm"])
    args = parser.parse_args()
    for kind in args.kinds:
        for n in args.rows:
            print(json.dumps(measured(kind, n)), flush=True)


if __name__ == "__main__":
    main()
