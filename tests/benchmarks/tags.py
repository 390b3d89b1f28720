"""Several labels a point: macro F1, mean average precision and more on the unlabeled points.

    python -m tests.benchmarks.tags --sets digits ml20 ml100 --shares 0.02 0.05 0.1 --draws 4

One JSON line a set, share of points with labels, and model: the means over the draws, of F1 and average precision with
their standard errors. `ours_less_best` : the paired difference in mean average precision of the automatic default from
the better of the others in each draw.

Sets: `digits`, whose tags are whether a digit is even, above 4, and has a loop; `mlN`, scikit-learn's
`make_multilabel_classification` of 1,500 points with N counts, five tags of 20 counts and eight of 100, made anew in
each draw. Models: the automatic default, the same with decisions for F1, and scikit-learn's `MultiOutputClassifier` of
logistic regression on standardized columns, and of histogram gradient boosting, on the labeled points.
"""

import argparse
import json
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dssl import SemiSupervisedClassifier
from dssl.learners.tags import Tags
from dssl.selection.tag_scores import tag_scores

MODELS: dict[str, Any] = {
    "automatic": SemiSupervisedClassifier(),
    "automatic, scoring f1": SemiSupervisedClassifier(scoring="f1"),
    "logistic": MultiOutputClassifier(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))),
    "boosting": MultiOutputClassifier(HistGradientBoostingClassifier(min_samples_leaf=5))}
SCORES = ("f1_macro", "average_precision", "hamming_loss", "ranking_loss", "calibration_error")


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["digits", "ml20", "ml100"])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.02, 0.05, 0.1])
    parser.add_argument("--draws", type=int, default=4)
    given = parser.parse_args()
    for name in given.sets:
        for share in given.shares:
            scores = np.array([scores_of(name, share, draw) for draw in range(given.draws)])  # (draws, models, scores)
            means = scores.mean(axis=0)
            errors = scores.std(axis=0, ddof=1) / np.sqrt(given.draws)
            best = scores[:, 0, 1] - scores[:, 2:, 1].max(axis=1)
            for model, mean, error in zip(MODELS, means.round(3).tolist(), errors.round(3).tolist(), strict=True):
                line = dict(zip(SCORES, mean, strict=True))
                line |= {name: f"{line[name]} +- {spread}" for name, spread in zip(SCORES[:2], error, strict=False)}
                if model == "automatic":
                    line["ours_less_best"] = f"{best.mean():+.3f} +- {best.std(ddof=1) / np.sqrt(given.draws):.3f}"
                print(json.dumps({"set": name, "share": share, "model": model, **line}), flush=True)


def scores_of(name: str, share: float, draw: int) -> list[list[float]]:
    """Return the scores of all models on the unlabeled points of one draw."""
    X, Y = points_of(name, draw)
    rng = np.random.default_rng([draw, 1])
    labeled = rng.permutation(len(X))[:round(share * len(X))]
    while np.ptp(Y[labeled], axis=0).min() == 0:  # a tag at all or at none of them
        labeled = rng.permutation(len(X))[:len(labeled)]
    y = np.full_like(Y, -1)
    y[labeled] = Y[labeled]
    rest = np.setdiff1d(np.arange(len(X)), labeled)
    true, rows = Tags(rest, Y[rest], np.arange(Y.shape[1])), []
    for name_of_model, model in MODELS.items():
        model.fit(X, y) if name_of_model.startswith("automatic") else model.fit(X[labeled], Y[labeled])
        P = model.predict_proba(X[rest])
        P = np.column_stack([columns[:, 1] for columns in P]) if isinstance(P, list) else P
        scores, decided = tag_scores(true, P - 0.5, P), tag_scores(true, model.predict(X[rest]) - 0.5)
        scores |= {score: decided[score] for score in ("f1_macro", "hamming_loss")}
        rows.append([scores[score] for score in SCORES])
    return rows


def points_of(name: str, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points (n, d) and the tags (n, c) of a set."""
    if name == "digits":
        X, digit = load_digits(return_X_y=True)
        return X, np.column_stack([digit % 2 == 0, digit > 4, np.isin(digit, [0, 6, 8, 9])]).astype(int)
    d = int(name.removeprefix("ml"))
    return make_multilabel_classification(1500, d, n_classes=8 if d > 50 else 5, n_labels=2, length=d,
                                          random_state=draw)


if __name__ == "__main__":
    main()
