"""Classes that are not equally frequent, with labels drawn at random: ours and what else one would try.

    DSSL_DATA=... python -m tests.benchmarks.unequal --out unequal.jsonl --draws 10
    python -m tests.benchmarks.unequal --out unequal.jsonl --table 150

Of at most `--points` points a quarter is new: the others are those of the fit, and `--labels` of
these have a label, drawn at random. All learners of a draw see the same labels; ours take the
features as they are, and scikit-learn's, standardized, the labels alone. Metrics are of all points
without a label. Classes that no draw gives a label are errors of everyone.

One JSON line a draw and learner goes to `--out`: error and balanced error in percent, AUC (one
against all others), log loss, the mean probability of each class beside its share, and seconds.
What is in the file is not measured again, so that a run goes on where another ended. `--table`
prints the means of so many labels in Markdown and measures nothing: the error of each learner with
its standard error over the draws; balanced error, AUC and log loss; and the mean probability of the
rarest class beside its share. An error is bold where it is above the lower one of logistic
regression and the majority class by more than the standard error of their paired difference, and a
mean probability where it is more than two standard errors from the share: those of the share of a
class among so many labels drawn at random, over all draws. `--decisions` prints the balanced error and
the F1 of default decisions, of those with `scoring`, and of a logistic regression with weights by
class or a tuned threshold.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dssl import (
    ClusterKernelSVC,
    GraphKernelRidge,
    LaplaceLearning,
    LapRLSClassifier,
    LapSVC,
    LapSVM,
    MultiscaleKernelClassifier,
    PoissonLearning,
    SemiSupervisedClassifier,
)

from .draws import draw_labels
from .few_labels import logistic, support_vectors
from .line_file import LineFile
from .low_labels import stored
from .metrics import metrics_of, scores_of

KEYS = ("set", "points", "labels", "number", "learner")
NEW = 0.25  # share of the points that the fit does not see
COVTYPE_POINTS = 10_000  # of which the benchmark takes its points
LETTER_PAIRS = ("I/J", "D/O", "H/K", "E/B")  # the first is the rare one
RARE_LETTER = 1 / 21  # a share of 1 to 20
STORED = ("ijcnn1", "german_numer", "diabetes_pima", "w8a", "covtype", "a9a", "splice", "phishing", "australian")
Points = tuple[np.ndarray, np.ndarray]  # X (n, d) and y (n,)


def main() -> None:
    warnings.simplefilter("ignore")
    options = arguments()
    results = LineFile(options.out, KEYS)
    if options.decisions:
        print(table_of_decisions(results.lines, options.decisions))
        return
    if options.table:
        print(table(results.lines, options.table, options.learners))
        return
    for number in range(options.draws):
        for n_labels in options.labels:
            for name in options.sets:
                measure(name, n_labels, number, options, results)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of JSON lines")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--labels", type=int, nargs="+", default=[50, 150, 500], help="in all")
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--points", type=int, default=4000)
    parser.add_argument("--table", type=int, help="print the table of so many labels")
    parser.add_argument("--decisions", type=int, help="print the table of `scoring` of so many labels")
    return parser.parse_args()


def measure(name: str, n_labels: int, number: int, options: argparse.Namespace, results: LineFile) -> None:
    """Add a line of each learner whose line is not there yet."""
    keys = {learner: {"set": name, "points": options.points, "labels": n_labels, "draw": "random",
                      "number": number, "learner": learner} for learner in options.learners}
    missing = {learner: key for learner, key in keys.items() if key not in results}
    if not missing:
        return
    X, y = points_of(name, options.points)
    n_fit = round((1 - NEW) * len(y))
    n_classes = int(y[:n_fit].max()) + 1
    labels = np.full(len(y), -1)
    labels[:n_fit] = draw_labels(y[:n_fit], n_labels / n_classes, [n_labels, number], "random")
    for learner, key in missing.items():
        begin = time.perf_counter()
        try:
            result = LEARNERS[learner](X, labels, n_fit)
        except (ValueError, NotFittedError) as error:
            results.add({**key, "failure": str(error)})
            continue
        seconds = time.perf_counter() - begin
        results.add({**key, **metrics_of(y[labels < 0], **result), "seconds": round(seconds, 2)})


def points_of(name: str, max_points: int) -> Points:
    """Return at most so many points of a set in an order drawn at random, and codes of their classes."""
    X, y = SETS[name]()
    order = np.random.default_rng(0).permutation(len(y))[:max_points]
    return X[order].astype(np.float64), np.unique(y[order], return_inverse=True)[1]


def gaussians(shares: tuple[float, ...], apart: float, d: int, n: int = 4000) -> Points:
    """Return Gaussians of d columns, whose means lie on axes of their own, `apart` standard deviations apart."""
    rng = np.random.default_rng(len(shares))
    y = rng.choice(len(shares), n, p=shares)
    X = rng.normal(size=(n, d))
    X[np.arange(n), y] += apart / np.sqrt(2)
    return X, y


def thinned(X: np.ndarray, y: np.ndarray, shares: dict[int, float]) -> Points:
    """Return a set of which some classes keep so large a share of their points."""
    rng = np.random.default_rng(0)
    share = np.ones(int(y.max()) + 1)
    for code, value in shares.items():
        share[code] = value
    chosen = rng.random(len(y)) < share[y]
    return X[chosen], y[chosen]


def letters(pair: str) -> Points:
    """Return two letters, the first with a share of 1 to 20."""
    X, y = stored("letter")
    rare, common = (np.flatnonzero(y == ord(letter) - ord("A")) for letter in pair.split("/"))
    n_rare = round(len(common) * RARE_LETTER / (1 - RARE_LETTER))
    rare = np.random.default_rng(0).choice(rare, n_rare, replace=False)
    chosen = np.concatenate([rare, common])
    return X[chosen], (y[chosen] == y[rare[0]]).astype(int)


def covtype() -> Points:
    X, y = stored("covtype")
    chosen = np.random.default_rng(1).choice(len(y), COVTYPE_POINTS, replace=False)
    return X[chosen], y[chosen]


def set_named(name: str) -> Callable[[], Points]:
    return covtype if name == "covtype" else lambda: stored(name)


SETS: dict[str, Callable[[], Points]] = {
    **{name: set_named(name) for name in STORED},
    **{f"letter {pair}": lambda pair=pair: letters(pair) for pair in LETTER_PAIRS},
    "gaussians 10 %": lambda: gaussians((0.9, 0.1), 1.0, 2),
    "gaussians 3 %": lambda: gaussians((0.97, 0.03), 3.0, 10),
    "gaussians 10/25/65 %": lambda: gaussians((0.1, 0.25, 0.65), 1.5, 5),
    "noise 20 %": lambda: gaussians((0.8, 0.2), 0.0, 5),
    "breast_cancer 1:6": lambda: thinned(*datasets.load_breast_cancer(return_X_y=True), {0: 0.28}),
    "digits 8 rare": lambda: thinned(*datasets.load_digits(return_X_y=True), {8: 0.2, 3: 0.4}),
    "wine 1:2:6": lambda: thinned(*datasets.load_wine(return_X_y=True), {0: 0.2, 2: 0.5}),
    "moons 1:9": lambda: thinned(*datasets.make_moons(4000, noise=0.2, random_state=1), {1: 0.11})}


def ours(make: Callable[[], Any]) -> Callable[..., dict[str, Any]]:
    """Return what an estimator of dssl predicts with nothing set."""
    def predict(X: np.ndarray, labels: np.ndarray, n_fit: int) -> dict[str, Any]:
        unlabeled = X[labels < 0]
        return predictions(make().fit(X[:n_fit], labels[:n_fit]), unlabeled)

    return predict


def peer(make: Callable[[np.ndarray], Any]) -> Callable[..., dict[str, Any]]:
    """Return what an estimator of scikit-learn predicts that sees the labels alone."""
    def predict(X: np.ndarray, labels: np.ndarray, n_fit: int) -> dict[str, Any]:
        known = labels >= 0
        model = make_pipeline(StandardScaler(), make(labels[known])).fit(X[known], labels[known])
        return predictions(model, X[~known])

    return predict


def predictions(model: Any, X: np.ndarray) -> dict[str, Any]:
    """Return what `metrics_of` takes beside the true classes."""
    return {"predicted": model.predict(X), "classes": model.classes_, **scores_of(model, X)}


def calibrated_svc(labels: np.ndarray) -> Any:
    min_labels = int(np.unique(labels, return_counts=True)[1].min())
    machine = support_vectors(labels)
    return machine if min_labels < 2 else CalibratedClassifierCV(machine, cv=min(5, min_labels), ensemble=False)


def tuned_threshold(labels: np.ndarray) -> Any:
    """Return a logistic regression whose threshold is tuned to F1, of two classes of which each has two labels."""
    codes, counts = np.unique(labels, return_counts=True)
    if len(codes) != 2:
        raise ValueError(f"a threshold is of two classes, not of {len(codes)}")
    return TunedThresholdClassifierCV(logistic(labels), scoring="f1", cv=int(min(5, counts.min())))


def with_f1(X: np.ndarray, labels: np.ndarray, n_fit: int) -> dict[str, Any]:
    """Return what the default estimator predicts with decisions for F1, of more classes than two for their mean."""
    scoring = "f1" if labels.max() == 1 else "f1_macro"
    return ours(lambda: SemiSupervisedClassifier(scoring=scoring))(X, labels, n_fit)


LEARNERS: dict[str, Callable[..., dict[str, Any]]] = {
    "automatic": ours(SemiSupervisedClassifier), "graph_ridge": ours(GraphKernelRidge),
    "poisson": ours(PoissonLearning), "laplace": ours(LaplaceLearning), "lap_svc": ours(LapSVC),
    "lap_rls": ours(LapRLSClassifier), "lap_svm": ours(LapSVM), "cluster": ours(ClusterKernelSVC),
    "multiscale": ours(MultiscaleKernelClassifier), "logistic": peer(logistic), "svc": peer(calibrated_svc),
    "boosting": peer(lambda labels: HistGradientBoostingClassifier(random_state=0)),
    "majority": peer(lambda labels: DummyClassifier()), "nearest": peer(lambda labels: KNeighborsClassifier(5)),
    "automatic_balanced": ours(lambda: SemiSupervisedClassifier(scoring="balanced_accuracy")), "automatic_f1": with_f1,
    "logistic_balanced": peer(lambda labels: logistic(labels, "balanced", "balanced_accuracy")),
    "logistic_f1": peer(tuned_threshold)}
REFERENCES = ("logistic", "majority")  # that none of ours may be clearly worse than
OURS = ("automatic", "graph_ridge", "poisson", "laplace", "lap_svc", "lap_rls", "lap_svm", "cluster", "multiscale")


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return fmean(values), stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")


def table(lines: list[dict[str, Any]], n_labels: int, learners: list[str]) -> str:
    """Return the means of so many labels over the draws, as tables in Markdown."""
    cells: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for line in lines:
        if line["labels"] == n_labels and "failure" not in line:
            cells.setdefault(line["set"], {}).setdefault(line["learner"], []).append(line)
    blocks = [header(f"error in percent, {n_labels} labels", learners)]
    blocks += [row_of_errors(name, row, learners) for name, row in cells.items()]
    for metric, digits in (("balanced_error", 1), ("auc", 3), ("log_loss", 3)):
        blocks += ["", header(metric, learners)]
        blocks += [row_of_means(name, row, learners, metric, digits) for name, row in cells.items()]
    blocks += ["", header("mean probability of the rarest class; its share", learners)]
    blocks += [row_of_shares(name, row, learners, n_labels) for name, row in cells.items()]
    return "\n".join(blocks)


DECISIONS = {"balanced_error": ("automatic", "automatic_balanced", "logistic", "logistic_balanced"),
             "f1": ("automatic", "automatic_f1", "logistic", "logistic_f1")}


def table_of_decisions(lines: list[dict[str, Any]], n_labels: int) -> str:
    """Return the mean balanced error and F1, both in percent, with their standard errors over the draws."""
    cells: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for line in lines:
        if line["labels"] == n_labels and "failure" not in line:
            cells.setdefault(line["set"], {}).setdefault(line["learner"], []).append(line)
    blocks = []
    for metric, learners in DECISIONS.items():
        blocks.append(header(f"{metric} in percent, {n_labels} labels", list(learners)))
        for name, row in cells.items():
            texts = ["{:.1f} ± {:.1f}".format(*mean_and_error([line[metric] for line in row[learner]]))
                     if learner in row else "" for learner in learners]
            blocks.append(f"| {name} | {' | '.join(texts)} |")
        blocks.append("")
    return "\n".join(blocks)


def header(title: str, learners: list[str]) -> str:
    return f"| {title} | {' | '.join(learners)} |\n|---|{'---|' * len(learners)}"


def row_of_errors(name: str, row: dict[str, list[dict[str, Any]]], learners: list[str]) -> str:
    errors = {learner: {line["number"]: line["error"] for line in own} for learner, own in row.items()}
    reference = min((learner for learner in REFERENCES if learner in errors),
                    key=lambda learner: fmean(errors[learner].values()), default=None)
    texts = []
    for learner in learners:
        if learner not in errors:
            texts.append("")
            continue
        text = "{:.1f} ± {:.1f}".format(*mean_and_error(list(errors[learner].values())))
        worse = learner in OURS and reference is not None and is_above(errors[learner], errors[reference])
        texts.append(f"**{text}**" if worse else text)
    return f"| {name} | {' | '.join(texts)} |"


def is_above(errors: dict[int, float], reference: dict[int, float]) -> bool:
    """Return whether errors by draw are above others by more than the standard error of the difference."""
    mean, error = mean_and_error([errors[number] - reference[number] for number in errors if number in reference])
    return mean > error


def row_of_means(name: str, row: dict[str, list[dict[str, Any]]], learners: list[str], metric: str,
                 digits: int) -> str:
    texts = []
    for learner in learners:
        values = [line[metric] for line in row.get(learner, []) if line.get(metric) is not None]
        texts.append(f"{fmean(values):.{digits}f}" if values else "")
    return f"| {name} | {' | '.join(texts)} |"


def row_of_shares(name: str, row: dict[str, list[dict[str, Any]]], learners: list[str], n_labels: int) -> str:
    texts = []
    share, error = 0.0, 0.0
    for learner in learners:
        pairs = [rarest(line) for line in row.get(learner, []) if "mean_probability" in line]
        if not pairs:
            texts.append("")
            continue
        mean = fmean(probability for probability, _ in pairs)
        share = fmean(true for _, true in pairs)
        error = (share * (1 - share) / (n_labels * len(pairs))) ** 0.5
        text = f"{mean:.3f}"
        texts.append(f"**{text}**" if learner in OURS and abs(mean - share) > 2 * error else text)
    return f"| {name}; {share:.3f} ± {error:.3f} | {' | '.join(texts)} |"


def rarest(line: dict[str, Any]) -> tuple[float, float]:
    """Return the mean probability and the share of the class that has the smallest share."""
    place = int(np.argmin(line["share"]))
    return line["mean_probability"][place], line["share"][place]


if __name__ == "__main__":
    main()
