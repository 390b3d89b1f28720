"""The parameters of each model, and how all candidates did on held-out labels."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...base.digest import BANDWIDTH
from ..error_metric import ErrorMetric, metric_of
from ..page import Finding, Section, Table, rendered
from ..plots import pairs_plot
from ..record import HELD_OUT_POINTS, Attributes, ReportText, RunRecord, meaning_of
from ..text import finite, number, percent

# By key: what a score is called, and whether it is a share that is shown in percent.
SCORES = {"error": ("error", True), "balanced_error": ("balanced error", True), "log_loss": ("log loss", False),
          "brier": ("Brier score", False), "auc": ("area under the ROC curve", False), "f1": ("F1", True),
          "f1_macro": ("macro F1", True), "rmse": ("rmse", False), "mae": ("mean absolute error", False),
          "scaled_rmse": ("rmse, scaled", False), "loss": ("hinge loss", False)}


def selection_section(run: RunRecord, report_text: ReportText) -> Section | None:
    """Return the parameters that were given; or that were chosen, a row a model, and the errors of what it tried.

    The stage `selection` tells `choices`, a row a model; `folds`, 0 where nothing was tried; `grid`, the rows that were
    tried for each model that chose its own; and where they are known `repetitions`, the `rule`, `held_out_points`, and
    `scores`, every score of each choice. Beside a score lies its 95 % interval, as `NAME_interval`, where it is known;
    the rule names the `score` that it chooses by, and whether it is best where it is highest.
    """
    choices, folds = run.at("selection", "choices") or {}, run.at("selection", "folds")
    best: Any = choices.get("model") or {}
    names_chosen = {key for row in choices.values() for key in row}
    parameters = sorted(names_chosen - _scores_among(choices.values()), key=str.lower)
    if not parameters:
        return None
    rule = run.at("selection", "rule") or {}
    concentration = rule.get("spectral_concentration")
    by_graph = "" if finite(concentration) is None else (
        f", given the spectral concentration of the graph, {number(concentration)}")
    if not folds:
        note = "" if "priors" not in rule else (
            f"The parameters were selected without labels, because no class has two of them{by_graph}.")
        return Section("selection", "Parameters", rendered(
            "selection.html", given=[(key, _text_of(key, best.get(key))) for key in parameters], note=note,
            meanings=_meanings(parameters), graphs=None, scores=None, pairs=None))
    grid, by = run.at("selection", "grid") or {}, metric_of(best)
    asked, is_highest = rule.get("score") or (by.key, False)
    shown = [key for key in dict.fromkeys((asked, by.key, *by.ties)) if finite(best.get(key)) is not None]
    rows = [(name, *(_text_of(key, row.get(key)) for key in parameters),
             *(_score(key, row) for key in shown), number(len(grid[name])) if name in grid else "")
            for name, row in sorted(choices.items(), key=lambda item: (item[0] != "model", item[0]))]
    names = [by.ties.get(key) or SCORES[key][0] for key in shown]
    with_ends = " (95 % interval)" if any(f"{key}_interval" in best for key in shown) else ""
    head = ("", *parameters, *(f"{name} in cross-validation{with_ends}" for name in names[:1]), *names[1:],
            "candidates")
    numbers = [column for column in range(1, len(head)) if head[column] != "bandwidth"]
    tied = "".join(f"; ties are broken by the lowest {name}" for name in names[1:])
    best_score = f"the {'highest' if is_highest else 'lowest'} {names[0] if names else by.key}"
    aim = f"the parameters with {best_score}"
    if rule.get("one_standard_error"):
        aim, tied = f"the strongest penalties within one standard error of {best_score}", ""
    if "priors" in rule:
        aim, tied = f"the most probable parameters, by the squared residuals of scaled values{by_graph}", ""
    times = run.at("selection", "repetitions") or 1
    repeated = f", repeated {times} times with the scores averaged," if times > 1 else ""
    points = run.at("selection", "held_out_points")
    where = f"Points that are held out {HELD_OUT_POINTS[points]} ({points})." if points in HELD_OUT_POINTS else ""
    control = "The shuffled control uses the parameters of the model." if "shuffled" in choices else ""
    how = f"{number(folds)}-fold cross-validation on the labels{repeated} selected {aim}{tied}."
    note = " ".join(filter(None, (how, where, report_text.folds, control)))
    return Section("selection", "Selected parameters", rendered(
        "selection.html", given=None, choices=Table(head, rows, numbers), note=note,
        meanings=_meanings(parameters), graphs=_graphs(run.at("selection", "graphs") or [], shown),
        scores=_all_scores(run.at("selection", "scores") or {}),
        pairs=_pairs(grid.get("model") or [], best, by, report_text)))


def _meanings(parameters: Iterable[str]) -> list[tuple[str, str]]:
    """Return the parameters whose meaning is known, with that."""
    return [(key, meaning) for key in parameters if (meaning := meaning_of(key))]


def _graphs(rows: Sequence[Attributes], shown: list[str]) -> Table | None:
    """Return the graphs that were tried, the chosen one first, with the parameters and scores of their best models."""
    if not rows:
        return None
    names = list(rows[0]["graph"])
    return Table((*names, *(SCORES[key][0] for key in shown)), [
        (*(_text_of(name, row["graph"].get(name)) for name in names), *(_score(key, row) for key in shown))
        for row in rows])


def _scores_among(rows: Iterable[Attributes]) -> set[str]:
    """Return the keys of rows that are scores, or of scores; whatever else they name is a parameter."""
    return {key for row in rows for key in row if key in ("fold_errors", "fold_deviation", "n_folds")
            or key.removesuffix("_repetitions").removesuffix("_se").removesuffix("_interval") in SCORES}


def _score(key: str, row: Attributes) -> str:
    """Return a score among those of a row, with its 95 % interval where it is known."""
    value, ends = _shown(key, row.get(key)), row.get(f"{key}_interval")
    if ends is None:
        return value
    low, high = (_shown(key, end) for end in ends)
    return f"{value} ({low.removesuffix(' %')} to {high})"


def _shown(key: str, value: object) -> str:
    """Return a value of a score in its unit: a share in percent."""
    return percent(value) if SCORES[key][1] else number(value)


def _all_scores(scores: Mapping[str, Attributes]) -> dict[str, object] | None:
    """Return every score of each model's choice, with intervals."""
    known = {name: row for name, row in scores.items() if row}
    keys = [key for key in SCORES if any(finite(row.get(key)) is not None for row in known.values())]
    if not keys:
        return None
    rows = [(name, *(_score(key, row) for key in keys)) for name, row in known.items()]
    repeated = any(key.endswith("_se_repetitions") for row in known.values() for key in row)
    if repeated:
        rows += [(f"{name}, over repetitions", *(_shown(key, row.get(f"{key}_se_repetitions")) for key in keys))
                 for name, row in known.items()]
    return {"head": ("", *(SCORES[key][0] for key in keys)), "rows": rows, "models": len(known),
            "calibrated": "log_loss" in keys, "repeated": repeated}


def _text_of(name: str, value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_text_of(name, each) for each in value)
    if isinstance(value, (bool, str)):
        return str(value).lower() if isinstance(value, bool) else value
    return BANDWIDTH if name == "bandwidth" and value is None else number(value)


def _pairs(tried: Sequence[Attributes], best: Attributes, by: ErrorMetric, report_text: ReportText
           ) -> dict[str, object] | None:
    """Return the errors of each pair of the kind's two penalties, at the other parameters that were chosen."""
    if report_text.penalties is None:
        return None
    fixed = {key for row in tried for key in row} - _scores_among(tried) - set(report_text.penalties)
    shown = [row for row in tried if all(row.get(key) == best.get(key) for key in fixed)]
    if len({tuple(row.get(key) for key in report_text.penalties) for row in shown}) < 2:
        return None
    return {"drawing": pairs_plot(shown, report_text.penalties, by, best), "key": by.key.capitalize(),
            "fixed": ", ".join(f"{key} {_text_of(key, best.get(key))}" for key in sorted(fixed))}


def choice_findings(run: RunRecord, report_text: ReportText) -> list[Finding]:
    """Return what the chosen parameters say of the unlabeled data, and which penalties lie at an end of their grid."""
    findings = []
    choice, tried = run.at("selection", "choices", "model") or {}, run.at("selection", "grid", "model") or []
    weight = report_text.graph.split(".")[-1]
    if choice.get(weight) == 0:
        several = len({row.get(weight) for row in tried}) > 1
        findings.append(Finding(
            f"weight of the {report_text.unlabeled} ({weight})", "0 was selected" if several else "0", "warning",
            f"The {report_text.unlabeled} does not help here: in cross-validation on the labels, no weight of the "
            f"{report_text.unlabeled} is better than 0. {report_text.equals}." if several else
            f"{report_text.equals}, because the {report_text.unlabeled} was not used."))
    for name in report_text.penalties or ():
        values = sorted({row[name] for row in tried if finite(row.get(name))})
        if len(values) > 1 and choice.get(name) in (values[0], values[-1]) and choice[name] != 0:
            end = "smallest" if choice[name] == values[0] else "largest"
            findings.append(Finding(name, f"{number(choice[name])}, the {end} candidate", "note",
                                    f"The best value may be out of range: extend selection.grid.{name}."))
    return findings
