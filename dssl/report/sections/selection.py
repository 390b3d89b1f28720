"""The parameters of each model, and how those that were tried did on labels held out."""

from typing import Any

from ..error_measure import Measure, measure_of
from ..markup import Html, at, counted, described, figure, finite, joined, number, table, tag
from ..page import Finding, Section
from ..plots import pairs_plot
from ..words import Words

ROW_SCORES = {"error", "rmse", "mae", "loss", "fold_errors"}  # of a row; whatever else it names is a parameter


def selection_section(facts: dict[str, Any], result: dict[str, Any], words: Words) -> Section | None:
    """Return the parameters that were given; or that were chosen, a row a model, and the errors of what it tried.

    The stage `selection` tells `choices`, a row a model; `folds`, 0 where nothing was tried; and `grid`, the rows that
    were tried for each model that chose its own.
    """
    choices, folds = at(facts, "selection", "choices") or {}, at(facts, "selection", "folds")
    best = choices.get("model") or {}
    parameters = sorted({key for row in choices.values() for key in row} - ROW_SCORES, key=str.lower)
    if not parameters:
        return None
    if not folds:
        return Section("selection", "Parameters", described((key, _told(key, best.get(key))) for key in parameters))
    grid, by = at(facts, "selection", "grid") or {}, measure_of(best)
    second = [key for key in by.ties if finite(best.get(key)) is not None]
    rows = [(tag("b", name), *(_told(key, row.get(key)) for key in parameters), by.shown(row.get(by.key)),
             *(number(row.get(key)) for key in second), number(len(grid[name])) if name in grid else "")
            for name, row in sorted(choices.items(), key=lambda item: (item[0] != "model", item[0]))]
    head = ("", *parameters, f"{by.key} in cross-validation", *(by.ties[key] for key in second), "tried")
    listing = table(head, rows, [column for column in range(1, len(head)) if head[column] != "bandwidth"])
    tied = "".join(f", of equals the lowest {by.ties[key]}" for key in second)
    note = " ".join((f"Chosen on the labels by {counted(folds, 'fold')}: the lowest {by.key}{tied}.", words.folds,
                     "The shuffled control takes the model's."))
    return Section("selection", "Chosen parameters", joined((
        listing, tag("p", note, class_="small"), _pairs(grid.get("model") or [], best, by, words))))


def _told(name: str, value: Any) -> str:
    return value or "median" if name == "bandwidth" and finite(value) is None else number(value)


def _pairs(tried: list[dict[str, Any]], best: dict[str, Any], by: Measure, words: Words) -> Html:
    """Return the errors of each pair of the kind's two penalties, at the other parameters that were chosen."""
    if words.penalties is None:
        return Html("")
    fixed = {key for row in tried for key in row} - ROW_SCORES - set(words.penalties)
    shown = [row for row in tried if all(row.get(key) == best.get(key) for key in fixed)]
    if len({tuple(row.get(key) for key in words.penalties) for row in shown}) < 2:
        return Html("")
    at_these = ", ".join(f"{key} {_told(key, best.get(key))}" for key in sorted(fixed))
    return figure(pairs_plot(shown, words.penalties, by, best),
                  f"{by.key.capitalize()} in cross-validation of each pair of penalties, at the {at_these}; the chosen "
                  "pair is framed.")


def choice_findings(facts: dict[str, Any], words: Words) -> list[Finding]:
    """Return what the chosen parameters say of the graph, and which penalties lie on the edge of their grid."""
    found = []
    choice, tried = at(facts, "selection", "choices", "model") or {}, at(facts, "selection", "grid", "model") or []
    weight = words.graph.split(".")[-1]
    if choice.get(weight) == 0:
        several = len({row.get(weight) for row in tried}) > 1
        found.append(Finding(
            weight, "0 was chosen" if several else "0", "warning",
            "The graph does not help here: by cross-validation on the labels no weight of it does better than none. "
            "The model is the base model." if several else "The model is the base model: the graph was not used."))
    for name in words.penalties or ():
        values = sorted({row[name] for row in tried if finite(row.get(name))})
        if len(values) > 1 and choice.get(name) in (values[0], values[-1]):
            end = "smallest" if choice[name] == values[0] else "largest"
            found.append(Finding(name, f"{number(choice[name])}, the {end} that was tried", "note",
                                 f"The best value may lie beyond: extend selection.{name}."))
    return found
