"""One thing that was looked at in a run, and how a section shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .markup import Html, tag

Level = Literal["good", "note", "warning"]
WORDS: dict[Level, str] = {"good": "fine", "note": "note", "warning": "look here"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: its figures, whether it is fine, and what that means."""

    subject: str
    figures: str
    level: Level
    meaning: str


def state(level: Level) -> Html:
    """Return a level as a colored word."""
    return tag("span", WORDS[level], class_=f"state {level}")


<<<<<<< HEAD
@dataclass(frozen=True)
class Measure:
    """How the errors of a run are told: their key in the scores, and the words for them.

    shown, difference : text of an error, and of the size of a difference of two. test : the paired test. guess : the
    prediction that needs no model.
    """

    key: str
    name: str
    shown: Callable[[Any], str]
    difference: Callable[[Any], str]
    test: str
    guess: str
    unlike: str  # what points that should not be neighbors differ in


def _size(gain: Any) -> str:
    found = finite(gain)
    return number(None if found is None else abs(found))


SHARE = Measure("error", "test error", percent, points, "McNemar's test", "naming the most frequent class",
                "different classes")
ROOT = Measure("rmse", "test rmse", number, _size, "paired t-test of squared errors",
               "predicting the mean of the test points", "unlike targets")


@dataclass(frozen=True)
class Words:
    """How a graph enters a kind of model: what it changes, and the keys that say how strongly it and the norm count."""

    changed: str
    cause: str
    trust: str
    strength: str


KERNEL = Words("kernel that merely changed", "changed kernel", "model.eta", "model.C")
PENALTY = Words("penalty that merely smooths", "added penalty", "model.gamma_I", "model.gamma_A")


def measure_of(result: dict[str, Any]) -> Measure:
    """Return the measure of a run: the share of wrong classes, or of a regression the root mean squared error."""
    metrics = result.get("metrics") or {}
    return ROOT if "error" not in metrics and "rmse" in metrics else SHARE


def guess_error(scores: dict[str, Any]) -> float | None:
    """Return the test error of always naming the most frequent class of the test points, or predicting their mean."""
    if "confusion" not in scores:
        return finite(scores.get("deviation"))
    sizes = [sum(row) for row in scores.get("confusion") or []]
    return 1 - max(sizes) / sum(sizes) if sum(sizes) else None


def verdict(result: dict[str, Any]) -> Verdict:
    """Return the answer to "did the unlabeled data help?"."""
    by = measure_of(result)
    error, base, control = (at(result, *path, by.key) for path in
                            (("metrics",), ("baselines", "base"), ("baselines", "shuffled")))
    over, control_gain = at(result, "gain", "over_base") or {}, finite(at(result, "gain", "over_shuffled", "gain"))
    gain, p = finite(over.get("gain")), finite(over.get("p_value"))
    if base is None or gain is None or p is None:
        return Verdict("note", f"The {by.name} is {by.shown(error)}. Whether the unlabeled data helped is not known: "
                       "there is no base model to compare with.", [])
    helped = at(result, "gain", "unlabeled_data")
    claim, level = {"helped": ("The unlabeled data helped", "good"), "hurt": ("The unlabeled data hurt", "warning"),
                    }.get(helped, ("The unlabeled data made no clear difference", "note"))
    difference = f"{by.difference(gain)} {'less' if gain > 0 else 'more'}" if gain else "no difference"
    shuffled = f"; with a shuffled graph, the control, it is {by.shown(control)}" if control is not None else ""
    sentence = (f"{claim}: the {by.name} is {by.shown(error)} with them and {by.shown(base)} without them, "
                f"{difference} ({by.test}, {p_value(p)}){shuffled}.")
    words = PENALTY if "gamma_I" in (at(result, "selection", "model") or {}) else KERNEL
    meaning = [_meaning(by, words, helped, gain, p, control_gain, at(result, "metrics", "n_test")),
               *_reservations(by, result, gain, error)]
    return Verdict(level, sentence, meaning)  # type: ignore[arg-type]


def _meaning(by: Measure, words: Words, helped: Any, gain: float, p: float, control_gain: float | None,
             n_test: Any) -> str:
    by_chance = "less than 0.1 %" if p < 0.001 else f"about {percent(p, 0 if p >= 0.01 else 1)}"
    rare = f"if the two were equally good, a difference this large would appear in {by_chance} of such test sets"
    if helped == "helped":
        is_count = by is SHARE and finite(n_test) is not None
        net = counted(round(gain * n_test), "more test point is", "more test points are") if is_count else ""
        rare = rare if net else rare[:1].upper() + rare[1:]
        seen = f"{net[:1].upper()}{net[1:]} right than without the unlabeled data; {rare}. " if net else f"{rare}. "
        return (seen + f"The model also beats the shuffled graph, by {by.difference(control_gain)}, so the gain comes "
                f"from where the unlabeled points lie and not from a {words.changed}.")
    if helped == "hurt":
        return (f"The plain kernel is better here: {rare}. Use the base model. Either the graph joins points of "
                f"{by.unlike}, or the model trusts it too much: try another data.scale, fewer "
                f"graph.n_neighbors or a smaller {words.trust}.")
    if gain > 0 and p < SIGNIFICANT:
        return ("The model beats the plain kernel, but the shuffled graph, which says nothing about the points, does "
                f"at least as well as the model. So the gain is owed to the {words.cause} and not to the unlabeled "
                f"data: tune kernel.bandwidth and {words.strength} before crediting the graph.")
    if gain == 0:
        return f"With and without the unlabeled data the {by.name} is the same, so the simpler base model will do."
    return (f"The difference is within chance: {rare}. Do not count on the unlabeled data here; the simpler base "
            "model will do. More test points would decide smaller differences.")


def _reservations(by: Measure, result: dict[str, Any], gain: float, error: Any) -> list[str]:
    found = []
    metrics, base = result.get("metrics") or {}, at(result, "baselines", "base") or {}
    balanced, of_base = finite(metrics.get("balanced_accuracy")), finite(base.get("balanced_accuracy"))
    if balanced is not None and of_base is not None and (balanced - of_base) * gain < 0:
        found.append(f"By balanced accuracy, in which every class counts the same, it is the other way round: "
                     f"{percent(balanced)} with and {percent(of_base)} without the unlabeled data.")
    guess = guess_error(metrics)
    if guess is not None and finite(error) is not None and error >= guess:
        found.append(f"Always {by.guess} has a {by.name} of {by.shown(guess)}: the model is no better than that.")
    found.append("The test judges these labels and this split. Other draws (labels.seed, data.seed) give other "
                 "figures; repeat a few before relying on a small gain.")
    return found


def setting_findings(facts: dict[str, Any]) -> list[Finding]:
    """Return what in the settings makes the comparison empty, or less than it could be."""
    found = []
    if at(facts, "spec", "model", "eta") == 0:
        found.append(Finding("eta", "0", "warning", "The model is the base kernel: no unlabeled point was used."))
    drawn, labeled = at(facts, "subsample", "n_subsample"), at(facts, "subsample", "n_labeled")
    if drawn is not None and drawn == labeled:
        found.append(Finding("subsample", f"{number(drawn)}, all labeled", "warning", "Functions are measured at "
                             "labeled points only. Raise subsample.size to several times the number of labels."))
    missed = [i for i, n in enumerate(at(facts, "labels", "per_class") or []) if n == 0]
    if missed:
        classes = at(facts, "split", "classes") or []
        names = [classes[i] if i < len(classes) else i for i in missed]
        found.append(Finding("classes without a label", listed(names, 10), "warning", "They are never predicted. "
                             "Label at least one point of each: labels.per_class does so."))
    if at(facts, "labels", "target", "distinct") == 1:
        found.append(Finding("target of the labeled points", f"{number(at(facts, 'labels', 'target', 'mean'))} "
                             "throughout", "warning", "Nothing can be learned from one value: every model predicts it "
                             "everywhere. Check the target, or label points of other values."))
    if at(facts, "points", "scaling", "kind") == "unit_norm" and at(facts, "points", "scaling", "zero_rows"):
        found.append(Finding("rows of zeros", number(at(facts, "points", "scaling", "zero_rows")), "warning",
                             "A row of zeros has no direction and stays zero, so all of them are copies of one point."))
    beyond = at(facts, "scores", "metrics", "unsupported")
    if beyond:
        found.append(Finding("test points near no point of the model",
                             f"{number(beyond)} of {number(at(facts, 'scores', 'metrics', 'n_test'))}", "warning",
                             "All their kernel values are as good as zero, so the intercept alone gives their label. "
                             "Raise kernel.bandwidth, or let dssl predict --abstain leave such points without one."))
    return found


def graph_findings(facts: dict[str, Any]) -> list[Finding]:
    """Return what the graph is worth, a finding for each figure that is there."""
    health = facts.get("health") or {}
    found = [_recall(health), _components(health), _unreached(health), _degrees(health), _hubs(health),
             _vertices(health), _duplicates(health), _homophily(health), _raised(facts.get("graph") or {})]
    return [finding for finding in found if finding is not None]


def _recall(health: dict[str, Any]) -> Finding | None:
    recall, lower = at(health, "recall", "recall"), finite(at(health, "recall", "lower"))
    if recall is None or lower is None:
        return None
    if at(health, "recall", "certified") == "exact":
        return Finding("recall of the neighbor lists", percent(recall), "good",
                       "The search was exact: every listed neighbor is a true one.")
    how = (f"{percent(recall)}, at least {percent(lower)}; worst row {percent(at(health, 'recall', 'worst_row'), 0)}")
    checked = (f"Certified by brute force on {counted(at(health, 'recall', 'rows'), 'random row')} "
               f"({counted(at(health, 'recall', 'trials'), 'neighbor')}, lower end of Wilson's 95 % interval). ")
    if lower >= RECALL:
        return Finding("recall of the neighbor lists", how, "good", checked + "The few that are missing matter little.")
    return Finding("recall of the neighbor lists", how, "warning", checked + f"Below {percent(RECALL, 0)} the graph "
                   "misses true neighbors. Set graph.method to exact, or raise graph.n_neighbors.")


def _components(health: dict[str, Any]) -> Finding | None:
    count, share = at(health, "components", "count"), finite(at(health, "components", "largest_share"))
    if count is None or share is None:
        return None
    if count == 1:
        return Finding("components", "1", "good", "The graph hangs together: a label can reach every point.")
    isolated = at(health, "isolated", "count") or 0
    figures = (f"{number(count)}; the largest holds {percent(share)} of the points"
               + (f"; {counted(isolated, 'point')} without any neighbor" if isolated else ""))
    if share >= 0.95:
        return Finding("components", figures, "note", "A few islands lie off the main part; labels do not pass over.")
    return Finding("components", figures, "warning", "The graph is in pieces, and labels do not pass from one to "
                   "another. Raise graph.n_neighbors, use symmetrize: maximum, or drop copied rows.")


def _unreached(health: dict[str, Any]) -> Finding | None:
    count = at(health, "unreached", "count")
    if count is None:
        return None
    if not count:
        return Finding("points that no label reaches", "0", "good", "Every component holds a labeled point.")
    ids = at(health, "unreached", "ids") or []
    shown = f"{', '.join(map(str, ids[:10]))}{', …' if count > len(ids[:10]) else ''}"
    share = f" ({percent(count / health['n'], 2)})" if health.get("n") else ""
    where = at(health, "unreached", "components")
    places = f" in {counted(where, 'component')}" if where else ""
    return Finding("points that no label reaches", f"{number(count)}{share}{places}; rows {shown} of the source",
                   "warning", "They lie in components without a labeled point: about them the graph says nothing, and "
                   "only the base kernel does. unreached.csv beside this page lists them. Label one point of each, or "
                   "raise graph.n_neighbors.")


def _degrees(health: dict[str, Any]) -> Finding | None:
    degree = health.get("degree")
    if not degree:
        return None
    figures = ", ".join(f"{name} {number(degree.get(name))}" for name in ("min", "median", "mean", "max"))
    if degree.get("min") == 0:
        return Finding("neighbors a point", figures, "warning", "Points without a neighbor get nothing from the graph.")
    return Finding("neighbors a point", figures, "good", f"{counted(health.get('edges'), 'edge')}; no point is "
                   "without a neighbor.")


def _hubs(health: dict[str, Any]) -> Finding | None:
    count = at(health, "hubs", "count")
    if count is None:
        return None
    rule = at(health, "hubs", "rule") or "far more neighbors than others"
    if not count:
        return Finding("hubs", "0", "good", f"No point has {rule}.")
    largest = [f"{hub['id']} ({number(hub['degree'])})" for hub in (at(health, "hubs", "largest") or [])[:5]]
    many = count > 0.01 * health.get("n", count)
    advice = ("Hubs join points that have little in common, as happens in many dimensions. Try the cosine metric, "
              "fewer features or symmetrize: minimum." if many else
              "They join points that have little in common; so few of them do little harm.")
    shown = f"{', '.join(largest)}{', …' if count > len(largest) else ''}"
    return Finding("hubs", f"{counted(count, 'point')} with {rule}; the largest, with degrees: {shown}",
                   "warning" if many else "note", advice)


def _vertices(health: dict[str, Any]) -> Finding | None:
    count, copied = at(health, "vertices", "count"), at(health, "vertices", "copied_points")
    if not copied or count is None:
        return None
    largest = number(at(health, "vertices", "largest_multiplicity"))
    figures = f"{counted(copied, 'point')} with copies, up to {largest} of one; {counted(count, 'distinct point')}"
    return Finding("equal rows", figures, "note", "Each distinct point is one vertex that counts as many, so copies do "
                   "not crowd out its neighbors. graph.duplicates: keep makes one vertex a row.")


def _duplicates(health: dict[str, Any]) -> Finding | None:
    count, share = at(health, "duplicates", "points"), finite(at(health, "duplicates", "share"))
    if count is None or share is None:
        return None
    if not count:
        known = at(health, "vertices", "copied_points")
        return None if known else Finding("copied points", "0", "good", "No two points are equal.")
    figures = f"{number(count)} ({percent(share)})"
    if share < 0.1:
        return Finding("copied points", figures, "note", "Their nearest neighbor is a copy; so few do little harm.")
    return Finding("copied points", figures, "warning", "Copies fill one another's neighbor lists and make islands. "
                   "Set graph.duplicates: collapse, drop equal rows, or raise graph.n_neighbors above the number of "
                   "copies.")


def _homophily(health: dict[str, Any]) -> Finding | None:
    edges, share, chance = (at(health, "homophily", key) for key in ("edges", "share", "by_chance"))
    if edges is None:
        return None
    subject = "neighbors of one class"
    if not edges or share is None or chance is None:
        return Finding(subject, "no edge joins two labeled points", "note", "Too few labels to judge the graph by.")
    figures = f"{percent(share)} of {counted(edges, 'edge')} between labeled points; {percent(chance)} by chance"
    if edges < FEW_EDGES:
        return Finding(subject, figures, "note", "Too few such edges to judge the graph by.")
    better = (share - chance) / (1 - chance) if chance < 1 else 1.0
    if better < 0.1:
        return Finding(subject, figures, "warning", "Neighbors share a class hardly more often than by chance: this "
                       "graph cannot help. Try another data.scale, another metric, or other features.")
    if better < 0.5:
        return Finding(subject, figures, "note", "Neighbors often differ in class; the graph helps a little at best.")
    return Finding(subject, figures, "good", "Neighbors mostly share their class, which is what the method builds on.")


def _raised(graph: dict[str, Any]) -> Finding | None:
    raised = graph.get("raised")
    if raised is None:
        return None
    if not raised:
        return Finding("vanishing weights", "0", "good", "No weight had to be raised.")
    meaning = {
        "given": "These given edges were as good as absent beside the median weight. Give weights that differ less, or "
                 "leave these edges out.",
        "self_tuned": "These edges were as good as absent: points far from all others end there. A few do little harm.",
    }.get(graph.get("kind", ""), "These edges were as good as absent: the bandwidth is too small for part of the data. "
                                 "Raise graph.bandwidth, or use weights: self_tuned.")
    return Finding("vanishing weights", f"{number(raised)} raised to {number(graph.get('floor'))}", "warning", meaning)
=======
def warning_box(found: Sequence[Finding], explained: bool = True) -> Html:
    """Return a box of the findings that ask for attention; nothing where there are none."""
    if not found:
        return Html("")
    return tag("div", *(tag("p", tag("b", f"{item.subject}: "), item.figures,
                            f". {item.meaning}" if explained else "") for item in found), class_="box warning")
>>>>>>> 2dcd460 (The report is a page of sections that know no kinds: one file a subject, words and baselines passed in; one table of parameters for all kinds)
