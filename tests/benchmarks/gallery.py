"""The questions of the gallery, answered by dssl and by what a user would write without it.

    python -m tests.benchmarks.gallery [NUMBER ...]

GraphLearning must be installed. Each answer is a function of the same points and labels, whose lines are counted from
its source: those of its body that are neither blank nor comments. Seconds are those of the processor, in three rounds
of one process in which the answers take turns, best and median; a round before them, which imports and compiles, does
not count. A JSON line for each question and each other answer.
"""

import inspect
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, make_classification, make_moons, make_swiss_roll
from sklearn.metrics import adjusted_rand_score, r2_score

from . import gallery_answers as answer

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
ROUNDS = 3
Case = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """A question of the gallery: its cases, what an answer is worth, and the answers, that of dssl first."""

    example: str
    result: str  # what the figure is
    more_is_better: bool
    cases: Callable[[], list[Case]]
    value: Callable[[Case, Any], float]
    answers: Mapping[str, Callable[..., Any] | str]  # a text says why there is none


# Cases


def of_example(number: str) -> Case:
    """Return the names that an example defines before its code begins."""
    path = next(GALLERY.glob(f"plot_{number}_*.py"))
    names: Case = {}
    exec(path.read_text(encoding="utf-8").split("# **Code.**")[0], names)
    return names


def draw(truth: np.ndarray, rate: int, seed: Any) -> np.ndarray:
    """Return the classes of so many points of each class, and -1 for all others."""
    rng, y = np.random.default_rng(seed), np.full(len(truth), -1)
    for code in np.unique(truth):
        y[rng.choice(np.flatnonzero(truth == code), rate, replace=False)] = code
    return y


def digits(rate: int, draws: int) -> list[Case]:
    X, truth = load_digits(return_X_y=True)
    return [{"X": X, "truth": truth, "y": draw(truth, rate, [rate, number])} for number in range(draws)]


def at_random(X: np.ndarray, truth: np.ndarray, count: int, seed: int) -> Case:
    labeled = np.random.default_rng(seed).choice(len(X), count, replace=False)
    y = np.full(len(X), -1)
    y[labeled] = truth[labeled]
    return {"X": X, "truth": truth, "y": y}


def class_vectors() -> list[Case]:
    X, truth = load_digits(return_X_y=True)
    means = np.array([X[truth == digit].mean(axis=0) for digit in range(10)])
    return [{"X": X, "truth": truth, "vectors": means + np.random.default_rng(0).normal(0, 3.5, means.shape)}]


def several_rates() -> list[Case]:
    X, truth = load_digits(return_X_y=True)
    return [{"X": X, "truth": truth, "ys": [draw(truth, rate, [rate, number]) for rate in (1, 2, 5, 10)
                                            for number in range(2)]}]


def with_and_without_clusters() -> list[Case]:
    noisy = make_classification(1500, 20, n_informative=3, flip_y=0.3, random_state=0)
    return [at_random(*load_digits(return_X_y=True), 60, 0), at_random(*noisy, 60, 0)]


def sheet() -> list[Case]:
    X, truth = make_swiss_roll(1500, noise=0.3, random_state=0)
    y = np.full(len(X), np.nan)
    labeled = np.random.default_rng(0).choice(len(X), 20, replace=False)
    y[labeled] = truth[labeled]
    return [{"X": X, "truth": truth, "y": y}]


def numbers_of_neighbors() -> list[Case]:
    X, truth = make_moons(1000, noise=0.12, random_state=0)
    sets = [digits(2, 1)[0], {"X": X, "truth": truth, "y": draw(truth, 5, 0)}]
    return [{**case, "counts": (3, 5, 10, 20, 50)} for case in sets]


def known_sizes() -> list[Case]:
    return [{**case, "counts": np.bincount(case["truth"])} for case in digits(1, 3)]


def breast() -> list[Case]:
    return [at_random(*load_breast_cancer(return_X_y=True), 40, seed) for seed in range(3)]


def fifty_points() -> list[Case]:
    X, truth = make_moons(50, noise=0.08, random_state=1)
    new, of_new = make_moons(1000, noise=0.08, random_state=9)
    y = np.full(50, -1)
    labeled = [int(np.argmin(X[:, 0])), int(np.argmax(X[:, 0]))]
    y[labeled] = truth[labeled]
    return [{"X": X, "y": y, "new": new, "of_new": of_new}]


def files() -> list[Case]:
    """Write a table with an empty cell where a label is missing, and one of new rows."""
    folder = Path(tempfile.mkdtemp())
    X, truth = make_moons(1500, noise=0.08, random_state=0)
    table = pd.DataFrame(X, columns=["length", "width"])
    labels = pd.Series(np.where(draw(truth[:1000], 5, 0) < 0, "", np.array(["a", "b"])[truth[:1000]]))
    table[:1000].assign(kind=labels).to_csv(folder / "points.csv", index=False)
    table[1000:].to_csv(folder / "new.csv", index=False)
    return [{"folder": folder, "of_new": np.array(["a", "b"])[truth[1000:]]}]


def cells() -> list[Case]:
    names = of_example("18")
    truth = names["names"][names["types"]]
    return [{"X": names["X_pca"], "truth": truth, "y": np.where(draw(names["types"], 3, seed) < 0, "", truth)}
            for seed in range(3)]


# Values of answers


def hidden(case: Case) -> np.ndarray:
    y = case["y"]
    return np.isnan(y) if y.dtype.kind == "f" else y == "" if y.dtype.kind in "OU" else y < 0


def accuracy(case: Case, predicted: np.ndarray) -> float:
    return 100 * float(np.mean(predicted[hidden(case)] == case["truth"][hidden(case)]))


def accuracy_of_all(case: Case, predicted: np.ndarray) -> float:
    return 100 * float(np.mean(predicted == case["truth"]))


def accuracy_of_new(case: Case, predicted: np.ndarray) -> float:
    return 100 * float(np.mean(predicted == case["of_new"]))


def error_of_many(case: Case, predicted: list[np.ndarray]) -> float:
    return 100 * float(np.mean([labels != case["truth"] for labels in predicted]))


def distance_of_stated(case: Case, given: tuple[np.ndarray, float]) -> float:
    predicted, stated = given
    return abs(100 - accuracy(case, predicted) - 100 * stated)


def accuracy_with(case: Case, ids: np.ndarray) -> float:
    """Return the accuracy of LabelSpreading with the suggested labels."""
    y = np.full(len(case["X"]), -1)
    y[ids] = case["truth"][ids]
    return accuracy({**case, "y": y}, answer.spreading(case["X"], y))


def r2(case: Case, predicted: np.ndarray) -> float:
    return r2_score(case["truth"][hidden(case)], predicted[hidden(case)])


def rand(case: Case, labels: np.ndarray) -> float:
    return adjusted_rand_score(case["truth"], labels)


def calibration(case: Case, P: np.ndarray) -> float:
    """Return the expected calibration error in percent, of ten bins of equal width."""
    sure, right = P.max(axis=1), P.argmax(axis=1) == case["truth"]
    bins = np.minimum((10 * sure).astype(int), 9)
    gaps = [(bins == b).sum() * abs(sure[bins == b].mean() - right[bins == b].mean()) for b in np.unique(bins)]
    return 100 * float(np.sum(gaps)) / len(sure)


# Questions


PLAIN = {"dssl": answer.default, "LabelSpreading": answer.spreading, "GraphLearning Poisson": answer.poisson}
QUESTIONS = (
    Question("01 two moons, 1 label each", "accuracy, %", True, lambda: [of_example("01")], accuracy, PLAIN),
    Question("02 digits, 2 labels each", "accuracy, %", True, lambda: [of_example("02")], accuracy, PLAIN),
    Question("03 how many labels: 8 fits", "error, %", False, several_rates, error_of_many, {
        "dssl": answer.many_default, "LabelSpreading": answer.many_spreading,
        "GraphLearning Poisson": answer.many_poisson}),
    Question("04 does it help: two sets", "stated minus true error, points", False, with_and_without_clusters,
             distance_of_stated, {"dssl": answer.stated, "LabelSpreading, cross-validated": answer.stated_spreading}),
    Question("05 class names only", "accuracy, %", True, class_vectors, accuracy_of_all, {
        "dssl": answer.names_and_graph, "nearest name by cosine": answer.nearest_name,
        "surest tenth, then LabelSpreading": answer.names_then_spreading,
        "GraphLearning": "no answer: it needs a label of each class"}),
    Question("06 known class sizes, 1 label each", "accuracy, %", True, known_sizes, accuracy, {
        "dssl": answer.sizes, "GraphLearning Poisson with priors": answer.sizes_poisson,
        "LabelSpreading, then SciPy's assignment": answer.sizes_assigned}),
    Question("07 which 20 to label", "accuracy of LabelSpreading with them, %", True, lambda: [of_example("07")],
             accuracy_with, {"dssl": answer.suggested, "centers of KMeans": answer.centers,
                             "GraphLearning variance reduction, of 10 given": answer.variance_reduction}),
    Question("08 quantities, 20 targets", "R2", True, sheet, r2, {
        "dssl": answer.quantities, "KNeighborsRegressor": answer.three_nearest,
        "GaussianProcessRegressor": answer.gaussian_process}),
    Question("09 clusters that are not round", "adjusted Rand index", True, lambda: [of_example("09")], rand, {
        "dssl": answer.kernel_clusters, "KMeans": answer.k_means,
        "SpectralClustering": answer.spectral}),
    Question("10 another metric", "accuracy, %", True, lambda: [of_example("10")], accuracy, {
        "dssl": answer.haversine, "KNeighborsClassifier": answer.haversine_nearest,
        "LabelSpreading, own kernel": answer.haversine_spreading,
        "GraphLearning": "no answer: its neighbors are Euclidean or angular"}),
    Question("11 probabilities, 3 labels each", "calibration error, %", False, lambda: digits(3, 3), calibration, {
        "dssl": answer.probabilities, "LabelSpreading": answer.probabilities_spreading,
        "CalibratedClassifierCV of SVC": answer.probabilities_svc}),
    Question("12 boosting and graph, 40 labels", "accuracy, %", True, breast, accuracy, {
        "dssl": answer.with_boosting, "HistGradientBoosting": answer.boosting}),
    Question("13 five numbers of neighbors, two sets", "error, %", False, numbers_of_neighbors, error_of_many, {
        "dssl": answer.graphs, "LabelSpreading": answer.graphs_spreading,
        "GraphLearning Poisson": "no answer within a minute with 3 neighbors"}),
    Question("14 fifty points, two labels", "accuracy of new points, %", True, fifty_points, accuracy_of_new, {
        "dssl": answer.multiscale, "LabelPropagation": answer.rbf_propagation,
        "GraphLearning": "no answer: it predicts no new points"}),
    Question("15 from a file to labels of new rows", "accuracy of new rows, %", True, files, accuracy_of_new, {
        "dssl": answer.from_file, "pandas and LabelSpreading": answer.from_file_spreading}),
    Question("17 parameters by cross-validation", "accuracy, %", True, lambda: digits(5, 1), accuracy, {
        "dssl": answer.searched, "GridSearchCV of LabelSpreading": answer.searched_spreading}),
    Question("18 label transfer between cells", "accuracy, %", True, cells, accuracy, {
        "dssl": answer.transfer, "nearest annotated cell (as scanpy)": answer.nearest_annotated,
        "LogisticRegression": answer.logistic, "LabelSpreading": answer.transfer_spreading}),
)


def lines_of(function: Callable[..., Any]) -> int:
    """Return the lines of a function's body that are neither blank nor comments."""
    body = inspect.getsource(function).splitlines()[1:]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in body)


def measured(question: Question) -> dict[str, tuple[float, list[float]]]:
    """Return the mean value of each answer, and the seconds of its rounds, all cases together."""
    cases = question.cases()
    functions = {name: function for name, function in question.answers.items() if callable(function)}
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    values = {}
    for number in range(ROUNDS + 1):
        for name, function in functions.items():
            arguments = [{key: case[key] for key in inspect.signature(function).parameters} for case in cases]
            begin = time.process_time()
            given = [function(**each) for each in arguments]
            if number:
                seconds[name].append(time.process_time() - begin)
            values[name] = float(np.mean([question.value(case, each)
                                          for case, each in zip(cases, given, strict=True)]))
    return {name: (values[name], seconds[name]) for name in functions}


def rows_of(question: Question) -> list[dict[str, Any]]:
    """Return a row for each answer other than that of dssl."""
    found = measured(question)
    digits_shown = 1 if "%" in question.result or "points" in question.result else 2

    def cells_of(name: str, prefix: str) -> dict[str, str]:
        value, seconds = found[name]
        return {f"{prefix}": f"{value:.{digits_shown}f}", f"{prefix}: lines": str(lines_of(question.answers[name])),
                f"{prefix}: s": f"{min(seconds):.2f} ({np.median(seconds):.2f})"}

    ours, rows = cells_of("dssl", "dssl"), []
    for name, function in list(question.answers.items())[1:]:
        theirs = cells_of(name, "other") if callable(function) else {"other": function}
        rows.append({"question": question.example, "figure": question.result, **ours, "instead": name, **theirs})
    return rows


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"load {os.getloadavg()[0]:.1f}", file=sys.stderr)
    for question in QUESTIONS:
        if not sys.argv[1:] or question.example[:2] in sys.argv[1:]:
            for row in rows_of(question):
                print(json.dumps(row, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
