"""False alarms and power of the test of drift, on tables of a folder.

`python -m tests.benchmarks.drift FOLDER` reads every npz file of numbers X and classes y there. A table is divided at
random into training rows (half, at most 5,000) and a batch of the rest (at most 1,000), 400 times. Each batch is
compared as it is (false alarms), and changed: one column, drawn at random among those with more than ten values, or
all, moved by some standard deviations or spread about its mean; or only the rows of the most frequent class. Beside the
test of dssl the one that lost: Welch's test of each mean and the F test of each variance, with the same correction.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import stats

from dssl.data.scaling.drift import FALSE_ALARMS, Drift, Usual, counted

TRAINING, BATCH, DRAWS = 5000, 1000, 400


def drift(train, new):
    """Return the drift of new rows."""
    smallest, largest = train.min(axis=0), train.max(axis=0)
    usual = Usual.of(train, smallest, largest)
    return Drift.between(usual, len(new), *counted(new, usual.quartiles, smallest, largest))


def moments_alarm(train, new):
    """Return whether a mean or a variance differs, by Welch's test and the F test."""
    varied = train.std(axis=0) > 0
    train, new = train[:, varied], new[:, varied]
    with np.errstate(all="ignore"):
        means = stats.ttest_ind(train, new, equal_var=False).pvalue
        ratio = new.var(axis=0, ddof=1) / train.var(axis=0, ddof=1)
        tails = stats.f(len(new) - 1, len(train) - 1)
        variances = 2 * np.minimum(tails.cdf(ratio), tails.sf(ratio))
    return bool(np.nanmin(2 * train.shape[1] * np.minimum(means, variances)) < FALSE_ALARMS)


def changes(new, train, y_new, rng):
    """Yield changed batches by name."""
    deviation, mean = train.std(axis=0), train.mean(axis=0)
    wide = [j for j in range(train.shape[1]) if len(np.unique(train[:, j])) > 10]
    if wide:
        one = np.zeros(train.shape[1])
        one[rng.choice(wide)] = 1
        for size in (0.1, 0.25, 0.5):
            yield f"one_column_by_{size}", new + size * one * deviation
        yield "all_columns_by_0.25", new + 0.25 * deviation
        yield "one_column_spread_1.5", mean + (new - mean) * (1 + 0.5 * one)
    largest = np.bincount(y_new).argmax()
    yield "one_class", new[y_new == largest]


def measured(path):
    """Return the share of alarms by what was done to the batch, of the test and of the one that lost."""
    with np.load(path) as stored:
        X, y = np.asarray(stored["X"], np.float64), np.unique(stored["y"], return_inverse=True)[1]
    rng, alarms, others = np.random.default_rng(0), dict[str, list[bool]](), dict[str, list[bool]]()
    n = min(len(X) // 2, TRAINING)
    for draw in range(DRAWS):
        order = rng.permutation(len(X))
        train, batch = X[order[:n]], order[n:][:BATCH]
        batches = {"same": X[batch]}
        if draw < DRAWS // 4:
            batches |= changes(X[batch], train, y[batch], rng)
        for name, new in batches.items():
            alarms.setdefault(name, []).append(drift(train, new).alarm)
            others.setdefault(name, []).append(moments_alarm(train, new))
    return {"data": path.stem, "n": n, "batch": len(batch), "d": X.shape[1],
            **{name: round(float(np.mean(values)), 4) for name, values in alarms.items()},
            "moments_same": round(float(np.mean(others["same"])), 4)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for path in sorted(parser.parse_args().folder.glob("*.npz")):
        print(json.dumps(measured(path)), flush=True)


if __name__ == "__main__":
    main()
