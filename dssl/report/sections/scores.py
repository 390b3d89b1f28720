"""The scores of the model and its baselines on the test points, and where the model is wrong."""

from collections.abc import Callable
from typing import Any

from ..error_measure import errors_among, gain_over, label_score_rows, measure_of
from ..markup import Html, at, counted, figure, finite, joined, number, percent, table, tag
from ..page import Section
from ..plots import MOST_CLASSES, confusion_plot, values_plot

# Scores beside the error that a run may have, as they are told.
BESIDE: dict[str, tuple[str, Callable[[Any], str]]] = {
    "error": ("error", percent), "balanced_accuracy": ("balanced accuracy", percent), "f1_macro": ("macro F1", percent),
    "roc_auc": ("AUC", number), "log_loss": ("log loss", number),
    "rmse": ("rmse from the codes ±1", number), "mae": ("mean absolute error", number), "r2": ("R²", number),
}


def scores_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return the scores as a table, a row a model, and a drawing of the model's mistakes."""
    metrics = result.get("metrics") or {}
    by, errors = measure_of(metrics), errors_among(metrics)
    if not metrics:
        head, rows = label_score_rows(at(result, "gain", "by_labels") or {})
        text = ("There are no test points. Each label is predicted by models that have not seen it; the last row needs "
                "no model.")
        return Section("scores", "Scores on the labels, held out", joined((
            tag("p", text), table(head, rows, range(1, len(head)))))) if rows else None
    if finite(metrics.get(by.key)) is None:
        return None
    beside = {key: told for key, told in BESIDE.items() if key != by.key and finite(metrics.get(key)) is not None}
    rows = [(tag("b", name), by.with_interval(own),
             *(shown(own.get(key)) for key, (_, shown) in beside.items()),
             errors.shown(at(facts, "models", "models", name, f"training_{errors.key}")), *gain_over(name, result))
            for name, own in {"model": metrics, **(result.get("baselines") or {})}.items()]
    head = ("", f"{by.name} (95 % interval)", *(title for title, _ in beside.values()), f"{errors.key} on the labels",
            "model's gain over it", by.test)
    return Section("scores", "Scores", joined((
        table(head, rows, range(1, len(head))), _confused(facts, metrics), _predicted(facts, metrics))))


def _predicted(facts: dict[str, Any], metrics: dict[str, Any]) -> Html:
    """Return what a regression predicts over what is true; nothing where no quantities were recorded."""
    true, predicted = (at(facts, "scores", "shown", name) or [] for name in ("true", "predicted"))
    if not true:
        return Html("")
    n_test = metrics.get("n_test")
    shown = "all test points" if n_test == len(true) else f"{number(len(true))} of {counted(n_test, 'test point')}"
    return joined((tag("h3", "What is predicted"), figure(
        values_plot(true, predicted), f"The model's predictions over the true values of {shown}; on the dotted line "
        "they are equal.")))


def _confused(facts: dict[str, Any], metrics: dict[str, Any]) -> Html:
    """Return the confusion matrix, or of many classes the pairs that are confused most; nothing where there is none."""
    confusion, classes = metrics.get("confusion") or [], at(facts, "split", "classes") or []
    if not confusion:
        return Html("")
    labels = [str(classes[i]) if i < len(classes) else str(i) for i in range(len(confusion))]
    wrong = sum(sum(row) for row in confusion) - sum(row[i] for i, row in enumerate(confusion))
    title, many = tag("h3", "Which classes are confused"), len(confusion) > MOST_CLASSES
    if many and not wrong:
        return joined((title, tag("p", "No test point was misclassified.")))
    absent = sum(not sum(row) for row in confusion)
    caption = ("The model's most confused pairs: true class → predicted class." if many
               else "The model's confusion matrix: right in blue, wrong in orange.")
    return joined((title, figure(confusion_plot(confusion, labels), caption + f" {number(wrong)} of "
                                 f"{counted(metrics.get('n_test'), 'test point')} are wrong."
                                 + (f" {counted(absent, 'class', 'classes')} had no test point." if absent else ""))))
