"""The scores of the model and its baselines, where the model is wrong, and whether more labels would help.

With probabilities, also whether these can be trusted: how often predictions of some probability are correct.
"""

from collections.abc import Callable

from ..error_metric import errors_among, gain_over, label_score_rows, metric_of
from ..page import Section, Table, rendered
from ..plots import MAX_CLASSES, confusion_plot, curve_plot, reliability_plot
from ..record import Attributes, Reliability, RunRecord, interval_at, scores_at
from ..text import at, counted, finite, number, percent, points, with_interval

# Scores beside the error that a run may have, as they are shown.
BESIDE: dict[str, tuple[str, Callable[[object], str]]] = {
    "error": ("error", percent), "balanced_accuracy": ("balanced accuracy", percent), "f1_macro": ("macro F1", percent),
    "roc_auc": ("AUC", number), "log_loss": ("log loss", number),
    "average_precision": ("mean average precision", number), "f1_micro": ("micro F1", percent),
    "ranking_loss": ("ranking loss", number), "calibration_error": ("calibration error", number),
    "rmse": ("rmse from the codes ±1", number), "mae": ("mean absolute error", number), "r2": ("R²", number),
}


def scores_section(run: RunRecord) -> Section | None:
    """Return the scores as a table, a row a model, and a drawing of the model's mistakes."""
    metrics, gain = run.metrics, run.result.get("gain") or {}
    by, errors = metric_of(metrics), errors_among(metrics)
    if not metrics:
        head, rows = label_score_rows(run.by_labels)
        return Section("scores", "Scores on held-out labels", rendered(
            "scores.html", metrics=metrics, head=head, rows=rows, confused=None)) if rows else None
    if finite(at(metrics, by.key)) is None:
        return None
    beside = {key: text for key, text in BESIDE.items() if key != by.key and finite(at(metrics, key)) is not None}
    rows = [(name, by.with_interval(each),
             *(with_interval(shown, at(each, key),
                             interval_at(each, "interval" if key == "error" else f"{key}_interval"))
               for key, (_, shown) in beside.items()),
             *gain_over(name, metrics, gain), errors.shown(run.at("models", "models", name, f"training_{errors.key}")))
            for name, each in run.scores.items()]
    head = ("", by.name, *(title for title, _ in beside.values()), "gain of the model", by.test,
            f"training {errors.key}")
    return Section("scores", "Scores", rendered(
        "scores.html", metrics={key: metrics.get(key) for key in ("n_test", "n_whole")}, head=head, rows=rows,
        confused=_confused(run)))


def _confused(run: RunRecord) -> dict[str, object] | None:
    """Return the confusion matrix, or of many classes the pairs that are confused most; None where there is none."""
    confusion = run.metrics.get("confusion") or []
    if not confusion:
        return None
    labels = [str(run.classes[i]) if i < len(run.classes) else str(i) for i in range(len(confusion))]
    wrong = sum(sum(row) for row in confusion) - sum(row[i] for i, row in enumerate(confusion))
    many = len(confusion) > MAX_CLASSES
    return {"many": many, "wrong": wrong, "absent": sum(not sum(row) for row in confusion),
            "drawing": None if many and not wrong else confusion_plot(confusion, labels)}


TITLE = "Learning curve"
STILL_FALLS = 0.95  # of the error with fewer labels, below which more labels lower it further


def curve_section(run: RunRecord) -> Section | None:
    """Return the curve of the model and its base; words where the labels are too few, or too many for one."""
    by_labels = run.by_labels
    rows = by_labels.get("curve") or []
    if not by_labels or not (run.metrics or by_labels.get("n")):  # the page begins with that nothing is known
        return None
    scores = scores_at(by_labels, "scores", "model")
    by, asked = errors_among(scores), metric_of(scores)
    if len(rows) < 2:
        why = by_labels.get("why") or by_labels.get("no_curve") or "the labels are too few to learn from some of them"
        return Section("curve", TITLE, rendered("curve.html", drawing=None, why=why))
    names = [name for name in ("model", "base") if all(finite(row.get(name)) is not None for row in rows)]
    before, last = (finite(row["model"]) or 0.0 for row in rows[-2:])
    return Section("curve", TITLE, rendered(
        "curve.html", drawing=curve_plot(rows, names, by), n_labels=run.at("labels", "n_labeled") or by_labels["n"],
        by=by, asked=asked, before=before, last=last, falls=last < STILL_FALLS * before,
        is_within=is_within_intervals(*rows[-2:]), counts=[row["labels"] for row in rows[-2:]]))


def is_within_intervals(row: Attributes, other: Attributes) -> bool:
    """Return whether each of two points of a curve has the model's error at the other within its interval."""
    for one, two in ((row, other), (other, row)):
        ends, error = one.get("model_interval"), finite(two.get("model"))
        if not ends or error is None or not ends[0] <= error <= ends[1]:
            return False
    return True


def reliability_section(run: RunRecord) -> Section | None:
    """Return the share of correct predictions over their probability; None of a model without, or of few points."""
    described = run.metrics.get("reliability")
    if described is None:
        return None
    bins = described["bins"]
    table = Table(("mean probability", "test points", "correct (95 % interval)"), [
        (percent(row["probability"]), number(row["n"]), with_interval(percent, row["correct"], row["interval"]))
        for row in bins], (0, 1, 2))
    smallest, largest = (of(row["n"] for row in bins) for of in (min, max))
    each = counted(smallest, "test point")
    if smallest < largest:
        each = f"{number(smallest)} to {number(largest)} test points"
    return Section("reliability", "Can the probabilities be trusted?", rendered(
        "reliability.html", sentences=[_confidence(described), _calibration(described)], table_of=table,
        drawing=reliability_plot(bins), each=each))


def _confidence(described: Reliability) -> str:
    """Return whether the probabilities are too high or too low in the mean."""
    low, high = described["interval"]
    correct = with_interval(percent, described["correct"], (low, high)).replace("(", "(95 % interval ")
    figures = (f"the predicted classes have a probability of {percent(described['probability'])} on average, and "
               f"{correct} of the {counted(described['n'], 'test point')} with a prediction are classified correctly.")
    if described["probability"] > high:
        return f"The model is too confident: {figures}"
    if described["probability"] < low:
        return f"The model is too cautious: {figures}"
    return f"The model is neither too confident nor too cautious on average: {figures}"


def _calibration(described: Reliability) -> str:
    """Return the expected calibration error, what it means, and what it would be of exact probabilities."""
    error, by_chance = (points(described[key]).replace(" point", " percentage point")
                        for key in ("calibration_error", "by_chance"))
    bins = described["bins"]
    outside = sum(not row["interval"][0] <= row["probability"] <= row["interval"][1] for row in bins)
    return (f"The expected calibration error is {error}: by this much, on average, the probability of a prediction "
            "differs from the share of correct predictions among those of similar probability. By chance alone, it "
            f"would be about {by_chance} if all probabilities were exact. In {number(outside)} of the {len(bins)} bins "
            "of the picture, the mean probability lies outside the interval of the share; of exact probabilities "
            "that happens in about one bin of twenty.")
