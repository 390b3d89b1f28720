"""Did the unlabeled data help? The verdict with its figures, what stands against it, and what each model is."""

from collections.abc import Sequence
from typing import Any

from ..error_measure import Measure, guess_error, measure_of
from ..markup import Html, at, counted, figure, finite, joined, listed, number, p_value, percent, table, tag
from ..page import Finding, Level, Section, warning_box
from ..plots import error_plot
from ..words import Baseline, Words
from .selection import choice_findings

SIGNIFICANT, NEGLIGIBLE = 0.05, 1e-3  # p-value; share of the error of the base model
ROUNDING = 1e-9  # of that error
TOO_FEW = "too few points to tell"
CLAIMS: dict[Any, tuple[str, Level]] = {"helped": ("The unlabeled data helped", "good"),
                                        "hurt": ("The unlabeled data hurt", "warning")}


def answer_section(facts: dict[str, Any], result: dict[str, Any], words: Words,
                   baselines: Sequence[Baseline] = ()) -> Section:
    """Return the section that every page begins with; a run without scores or base model is told that it has none."""
    level, sentences = verdict(result, words)
    box = tag("div", tag("p", sentences[0], class_="answer"), *(tag("p", text) for text in sentences[1:]),
              class_=f"box {level}")
    warnings = warning_box([*setting_findings(facts, words), *choice_findings(facts, words)])
    names = ["model", *(result.get("baselines") or {})]
    told = {"model": words.model} | {baseline.name: baseline.meaning for baseline in baselines}
    meanings = table((), [(tag("b", name), told.get(name, "Another baseline.")) for name in names])
    return Section("answer", "Did the unlabeled data help?", joined((box, warnings, _errors(result), meanings)))


def _errors(result: dict[str, Any]) -> Html:
    """Return the drawing of the errors of the model and its baselines; nothing where no test point was scored."""
    metrics = result.get("metrics") or {}
    by = measure_of(metrics)
    scores = {"model": metrics, **(result.get("baselines") or {})}
    known = [(name, error, finite(own.get("standard_error")) or 0.0) for name, own in scores.items()
             if (error := finite(own.get(by.key))) is not None]
    if not known:
        return Html("")
    return figure(error_plot(known, by, guess_error(metrics)),
                  f"{by.name.capitalize()} and one standard error to either side. The models are compared on the same "
                  "test points, so the paired test above tells more than whether the bars overlap.")


def verdict(result: dict[str, Any], words: Words) -> tuple[Level, list[str]]:
    """Return the answer: how good it is, and the sentences, first the one with the figures."""
    metrics = result.get("metrics") or {}
    by = measure_of(metrics)
    error = finite(metrics.get(by.key))
    if error is None:
        return "note", ["This run scores no test points, so whether the unlabeled data helped is not known.",
                        *label_sentences(result)]
    base, control = (at(result, "baselines", name, by.key) for name in ("base", "shuffled"))
    gain, p = (finite(at(result, "gain", "over_base", key)) for key in ("gain", "p_value"))
    if base is None or gain is None or p is None:
        return "note", [f"The {by.name} is {by.shown(error)}. Whether the unlabeled data helped is not known: there is "
                        "no base model to compare with.", *label_sentences(result)]
    helped, held = at(result, "gain", "unlabeled_data"), label_sentences(result)
    claim, level = CLAIMS.get(helped, ("The unlabeled data made no clear difference", "note"))
    if helped == TOO_FEW:
        few = counted(at(result, "metrics", "n_test"), "test point is", "test points are")
        claim = f"{few} too few to tell whether the unlabeled data helped"
    difference = "no difference" if abs(gain) <= ROUNDING * base else (
        f"{by.difference(gain)} {'less' if gain > 0 else 'more'}")
    shuffled = f"; with a shuffled graph, the control, it is {by.shown(control)}" if control is not None else ""
    return level, [f"{claim}: the {by.name} is {by.shown(error)} with them and {by.shown(base)} without them, "
                   f"{difference} ({by.test}, {p_value(p)}){shuffled}.",
                   _meaning(by, words, result, gain, p), *held, *_reservations(by, result, gain, error)]


def _meaning(by: Measure, words: Words, result: dict[str, Any], gain: float, p: float) -> str:
    by_chance = "less than 0.1 %" if p < 0.001 else f"about {percent(p, 0 if p >= 0.01 else 1)}"
    rare = f"if the two were equally good, a difference this large would appear in {by_chance} of such test sets"
    helped, control_gain = (at(result, "gain", *path) for path in (("unlabeled_data",), ("over_shuffled", "gain")))
    base = finite(at(result, "baselines", "base", by.key)) or 0.0
    if gain and p < SIGNIFICANT and abs(gain) <= NEGLIGIBLE * base:
        return ("The difference is not by chance, but too small to matter: less than a thousandth of the error. The "
                "simpler base model will do.")
    if helped == TOO_FEW:
        return f"{seen_by_test(by, at(result, 'gain', 'over_base') or {})} So the test speaks for neither model."
    if helped == "helped":
        net = by.net(gain, at(result, "metrics", "n_test"))
        seen = f"{net} right than without the unlabeled data; {rare}" if net else rare
        if control_gain is None:
            return f"{seen[:1].upper()}{seen[1:]}."
        return (f"{seen[:1].upper()}{seen[1:]}. The model also beats the shuffled graph, by "
                f"{by.difference(control_gain)}, so the gain comes from where the unlabeled points lie and not from a "
                f"{words.changed}.")
    if helped == "hurt":
        return (f"The plain kernel is better here: {rare}. Use the base model. Either the graph joins points of "
                f"{by.unlike}, or the model trusts it too much: try another data.scale, fewer "
                f"graph.n_neighbors or a smaller {words.graph}.")
    if gain > 0 and p < SIGNIFICANT:
        return ("The model beats the plain kernel, but the shuffled graph, which says nothing about the points, does "
                f"at least as well as the model. So the gain is owed to the {words.cause} and not to the unlabeled "
                f"data: tune kernel.bandwidth and {words.norm} before crediting the graph.")
    if abs(gain) <= ROUNDING * base:
        return f"With and without the unlabeled data the {by.name} is the same, so the simpler base model will do."
    return (f"The difference is within chance: {rare}. Do not count on the unlabeled data here; the simpler base "
            f"model will do. {seen_by_test(by, at(result, 'gain', 'over_base') or {})}")


def seen_by_test(by: Measure, pair: dict[str, Any]) -> str:
    """Return which differences a paired test on these points could have seen."""
    n, smallest, found = (finite(pair.get(key)) for key in ("n", "smallest", "found"))
    few = "So few predictions" if n is None else counted(int(n), "prediction")
    if smallest is None:
        return f"{few} can tell no difference, however large, from chance."
    seen = f"{few} can tell no difference below {by.difference(smallest)} from chance"
    if found is None:
        return f"{seen}, and would find none in four of five such sets."
    return f"{seen}" + (f", and would find one of {by.difference(found)} in four of five such sets."
                        if found >= smallest else ".")


def label_sentences(result: dict[str, Any]) -> list[str]:
    """Return what the labels say, each predicted without itself; nothing of a run that does not tell."""
    own = at(result, "gain", "by_labels") or {}
    if not own:
        return []
    if not own.get("n"):
        return [f"The labels cannot tell either: {own.get('why', 'none can be held out')}."]
    by, n = measure_of(at(own, "scores", "model")), counted(own["n"], "label")
    error, base = (at(own, "scores", name, by.key) for name in ("model", "base"))
    of = "one by one" if own["folds"] == own["n"] else f"in {own['folds']} parts"
    known = f"Held out {of}, the {n} at hand are predicted with an {by.key} of {by.shown(error)}"
    gain, p = (finite(at(own, "over_base", key)) for key in ("gain", "p_value"))
    if gain is None:
        return [f"{known}."]
    claims = {"helped": "the labels say that the unlabeled data helps",
              "hurt": "the labels say that the unlabeled data hurts",
              TOO_FEW: f"too few labels to tell. {seen_by_test(by, own['over_base'])}"}
    claim = claims.get(own.get("unlabeled_data", ""), "no clear difference")
    return [f"{known} with the unlabeled data and {by.shown(base)} without it ({by.test}, {p_value(p)}): "
            f"{claim.rstrip('.')}. The parameters of both were chosen on these labels, which makes both look better "
            "than on new points."]


def _reservations(by: Measure, result: dict[str, Any], gain: float, error: float) -> list[str]:
    found = []
    metrics, base = result.get("metrics") or {}, at(result, "baselines", "base") or {}
    balanced, of_base = finite(metrics.get("balanced_accuracy")), finite(base.get("balanced_accuracy"))
    if balanced is not None and of_base is not None and (balanced - of_base) * gain < 0:
        found.append(f"By balanced accuracy, in which every class counts the same, it is the other way round: "
                     f"{percent(balanced)} with and {percent(of_base)} without the unlabeled data.")
    guess = guess_error(metrics)
    if guess is not None and error >= guess:
        found.append(f"Always {by.guess} has a {by.name} of {by.shown(guess)}: the model is no better than that.")
    found.append("The test judges these labels and this split. Other draws (labels.seed, data.seed) give other "
                 "figures; repeat a few before relying on a small gain.")
    return found


def setting_findings(facts: dict[str, Any], words: Words) -> list[Finding]:
    """Return what in the settings makes the comparison empty, or less than it could be."""
    found = []

    def warn(subject: str, figures: str, meaning: str) -> None:
        found.append(Finding(subject, figures, "warning", meaning))

    drawn, labeled = at(facts, "subsample", "n_subsample"), at(facts, "subsample", "n_labeled")
    if drawn is not None and drawn == labeled:
        warn("subsample", f"{number(drawn)}, all labeled", "Functions are measured at labeled points only. Raise "
             "subsample.size to several times the number of labels.")
    missed = [i for i, n in enumerate(at(facts, "labels", "per_class") or []) if n == 0]
    if missed:
        classes = at(facts, "split", "classes") or []
        names = [classes[i] if i < len(classes) else i for i in missed]
        warn("classes without a label", listed(names, 10), "They are never predicted. Label at least one point of "
             "each: labels.per_class does so.")
    if at(facts, "labels", "target", "distinct") == 1:
        warn("target of the labeled points", f"{number(at(facts, 'labels', 'target', 'mean'))} throughout", "Nothing "
             "can be learned from one value: every model predicts it everywhere. Check the target, or label points of "
             "other values.")
    zeros = at(facts, "points", "scaling", "zero_rows")
    if zeros and at(facts, "points", "scaling", "kind") == "unit_norm":
        warn("rows of zeros", number(zeros), "A row of zeros has no direction and stays zero, so all of them are "
             "copies of one point.")
    beyond = at(facts, "scores", "metrics", "unsupported")
    if beyond:
        subject, meaning = words.unsupported
        warn(subject, f"{number(beyond)} of {number(at(facts, 'scores', 'metrics', 'n_test'))}", meaning)
    return found
