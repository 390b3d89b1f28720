"""How often 95 % intervals of an error, of other metrics and of paired differences hold what is true of new points.

    python -m tests.benchmarks.coverage

A JSON line a number of test points. Of classes exact, the mean and the least over errors from 1 to 50 %, for Wilson's
interval, Clopper and Pearson's, and one standard error times 1.96; of paired shares exact too, over shares of points
that one model alone classifies correctly. Of quantities by simulation, for the studentized bootstrap, and the standard
error times 1.96, with residuals of three distributions; so are metrics of classes with a rare one, mean absolute
errors, R², and differences of two models in each of these.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy.special import log_softmax
from scipy.stats import beta, binom, multinomial

from dssl.base.wilson import interval_of_share
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.comparison import LEVEL, compare, compare_in_scoring, interval_of_paired_shares
from dssl.selection.interval import interval_of_rmse, sign_test
from dssl.selection.scores import scores_of
from dssl.selection.scoring import KEYS, Predicted

Z = 1.96
ERRORS = np.arange(1, 51) / 100
ONE_ALONE = (0.02, 0.05, 0.1, 0.2)  # shares of points that one model alone classifies correctly, of either model
FREQUENCIES = {2: [0.8, 0.2], 3: [0.6, 0.3, 0.1]}  # of the classes
SIGNALS = (1.6, 1.2)  # of the margins of the true class, of two models
SHARED = 0.7  # of the noise of both models
MANY = 1_000_000  # points that stand for all
SCORINGS = ("balanced_accuracy", "f1_macro", "roc_auc", "neg_log_loss")
RESIDUALS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=n), "laplace": lambda rng, n: rng.laplace(size=n) / np.sqrt(2),
    "t5": lambda rng, n: rng.standard_t(5, size=n) / np.sqrt(5 / 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[10, 20, 30, 50, 100, 500])
    parser.add_argument("--repetitions", type=int, default=1000)
    given = parser.parse_args()
    for n in given.points:
        for line in (*of_errors(n), of_paired_shares(n), *of_rmse(n, given.repetitions),
                     *of_quantities(n, given.repetitions), *of_metrics(n, given.repetitions)):
            print(json.dumps(line), flush=True)


def of_errors(n: int) -> Iterator[dict[str, Any]]:
    """Return the coverage of three intervals of an error, exact."""
    counts = np.arange(n + 1)
    ends = {
        "wilson": np.array([interval_of_share(k / n, n) for k in counts]),
        "clopper_pearson": np.stack([np.where(counts > 0, beta.ppf(0.025, counts, n - counts + 1), 0),
                                     np.where(counts < n, beta.ppf(0.975, counts + 1, n - counts), 1)], axis=1),
        "standard_error": (counts / n)[:, None] + Z * np.sqrt(counts / n * (1 - counts / n) / n)[:, None] * [-1, 1]}
    for name, (low, high) in ((name, own.T) for name, own in ends.items()):
        covered = np.array([binom.pmf(counts, n, p)[(low <= p) & (p <= high)].sum() for p in ERRORS])
        yield {"of": "classes", "points": n, "interval": name, **_summary(covered)}


def of_paired_shares(n: int) -> dict[str, Any]:
    """Return the coverage of the interval of a difference of two errors, exact up to pairs of probability 1e-9."""
    covered, ends = [], dict[tuple[int, int], list[float]]()
    for gained, lost in product(ONE_ALONE, repeat=2):
        counts = [np.arange(*np.clip(binom.interval(1 - 1e-9, n, p) + np.array([0, 1]), 0, n + 1).astype(int))
                  for p in (gained, lost)]
        total = 0.0
        for pair in product(*(own.tolist() for own in counts)):
            if sum(pair) <= n:
                if pair not in ends:
                    ends[pair] = interval_of_paired_shares(*pair, n, significant=sign_test(*pair) < LEVEL)
                low, high = ends[pair]
                if low <= gained - lost <= high:
                    total += float(multinomial.pmf([*pair, n - sum(pair)], n, [gained, lost, 1 - gained - lost]))
        covered.append(total)
    return {"of": "differences of errors", "points": n, **_summary(np.array(covered))}


def of_rmse(n: int, repetitions: int) -> Iterator[dict[str, Any]]:
    """Return the coverage of two intervals of an rmse."""
    for name, draw in RESIDUALS.items():
        covered = np.array([_covers(draw(np.random.default_rng([repetition, n]), n))
                            for repetition in range(repetitions)]).mean(axis=0)
        yield {"of": "quantities", "points": n, "residuals": name, "bootstrap": round(float(covered[0]), 3),
               "standard_error": round(float(covered[1]), 3)}


def of_quantities(n: int, repetitions: int) -> Iterator[dict[str, Any]]:
    """Return the coverage of the intervals of MAE and R², and of the difference of two rmse, 1 and 1.25."""
    for name, draw in RESIDUALS.items():
        mae = float(np.abs(draw(np.random.default_rng(0), MANY)).mean())
        covered = []
        for repetition in range(repetitions):
            rng = np.random.default_rng([repetition, n, 1])
            y, ours, its = 2 * rng.normal(size=n), draw(rng, n), draw(rng, n)
            true = Quantities(np.arange(n), y)
            other = 1.25 * (SHARED * ours + np.sqrt(1 - SHARED**2) * its)
            scores = scores_of(true, {"values": y + ours})
            pair = compare(true, {"values": y + ours}, {"values": y + other})
            assert pair is not None
            covered.append([_holds(scores["mae_interval"], mae), _holds(scores["r2_interval"], 0.75),
                            _holds(pair.interval, 0.25)])
        yield {"of": "metrics of quantities", "points": n, "residuals": name, **dict(zip(
            ("mae", "r2", "difference_of_rmse"), np.round(np.mean(covered, axis=0), 3).tolist(), strict=True))}


def of_metrics(n: int, repetitions: int) -> Iterator[dict[str, Any]]:
    """Return the coverage of the intervals of metrics of classes, and of those of the differences of two models."""
    for n_classes in FREQUENCIES:
        models = _predicted(np.random.default_rng(0), MANY, n_classes)
        losses = {scoring: [model.loss(scoring) for model in models] for scoring in SCORINGS}
        covered = {scoring: np.zeros((repetitions, 2)) for scoring in SCORINGS}
        for repetition in range(repetitions):
            ours, other = _predicted(np.random.default_rng([repetition, n, 2]), n, n_classes)
            for scoring, (loss, other_loss) in losses.items():
                pair = compare_in_scoring(scoring, ours, other)
                covered[scoring][repetition] = (
                    pair is not None and _holds(ours.loss_interval(scoring), loss),
                    pair is not None and (pair.interval is None or _holds(pair.interval, other_loss - loss)))
        for scoring, each in covered.items():
            yield {"of": "metrics of classes", "points": n, "classes": n_classes, "metric": KEYS[scoring],
                   "coverage": round(float(each[:, 0].mean()), 3), "of_difference": round(float(each[:, 1].mean()), 3)}


def _predicted(rng: np.random.Generator, n: int, n_classes: int) -> list[Predicted]:
    """Return the predictions of two models of n points, at least one of each class."""
    codes = np.r_[np.arange(n_classes), rng.choice(n_classes, n - n_classes, p=FREQUENCIES[n_classes])]
    true = Classes(np.arange(n), codes, np.arange(n_classes))
    noise, models = rng.normal(size=(n, n_classes)), []
    for signal in SIGNALS:
        mixed = SHARED * noise + np.sqrt(1 - SHARED**2) * rng.normal(size=(n, n_classes))
        margins = mixed + signal * (codes[:, None] == np.arange(n_classes)) + np.log(FREQUENCIES[n_classes])
        predicted = {"codes": margins.argmax(axis=1), "log_losses": -log_softmax(margins, axis=1)[np.arange(n), codes],
                     "margins": margins[:, 1:] - margins[:, :1] if n_classes == 2 else margins}
        models.append(Predicted.of_predictions(true, predicted))
    return models


def _holds(interval: list[float] | None, value: float) -> bool:
    return interval is not None and interval[0] <= value <= interval[1]


def _summary(covered: np.ndarray) -> dict[str, float]:
    return {name: round(float(of(covered)), 3) for name, of in (("mean", np.mean), ("min", np.min), ("max", np.max))}


def _covers(residuals: np.ndarray) -> tuple[bool, bool]:
    """Return whether each interval of the rmse holds 1, the true one."""
    squared = residuals**2
    interval = interval_of_rmse(squared)
    assert interval is not None
    rmse = np.sqrt(squared.mean())
    return interval[0] <= 1 <= interval[1], abs(rmse - 1) <= Z * squared.std() / (2 * rmse * np.sqrt(len(squared)))


if __name__ == "__main__":
    main()
