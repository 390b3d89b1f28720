"""Did the unlabeled data help? The verdict with its figures, what stands against it, and what each model is.

Then what to do next: what the figures of the run suggest, the most useful first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..error_metric import ROOT, Comparison, errors_among
from ..page import Finding, Section, rendered
from ..record import GUESSES, OTHER, Attributes, Baseline, ReportText, RunRecord, interval_at, scores_at
from ..text import at, counted, finite, listed, number, plain_label
from ..verdict import HELPED, HURT, Verdict
from .quality import class_rows_of, errors_drawing, has_other_model
from .scores import STILL_FALLS, is_within_intervals
from .selection import choice_findings

OFTEN = 0.05  # share of a class, above which a mistake is worth labels: of the lower end of its interval


def answer_section(run: RunRecord, report_text: ReportText, baselines: Sequence[Baseline] = ()) -> Section:
    """Return the answer to that question; it also says so if there are no scores or no base model."""
    verdict = Verdict.of_run(run, report_text)
    are_classes = verdict.by != ROOT
    combined = " Here it is combined with what another model says of the points." if has_other_model(run) else ""
    meaning_of = {"model": f"{report_text.model}{combined}"} | {
        baseline.name: f"{baseline.meaning} {baseline.of_classes if are_classes else ''}".rstrip()
        for baseline in (*baselines, *GUESSES, OTHER)}
    if verdict.by.guess_meaning:
        meaning_of[verdict.by.guess[0]] = verdict.by.guess_meaning
    drawing, caption = errors_drawing(run.scores, verdict.by, "test points", "above")
    compared = run.scores if run.metrics else at(run.by_labels, "scores") or run.scores
    return Section("answer", "Did the unlabeled data help?", rendered(
        "answer.html", verdict=verdict, drawing=drawing, caption=caption,
        findings=[*never_findings(run), *setting_findings(run, report_text), *choice_findings(run, report_text)],
        meanings=[(name, meaning_of.get(name, "Another baseline.")) for name in compared]))


def never_predicted(stages: Mapping[str, Attributes]) -> list[str]:
    """Return the classes that no row is predicted as, of all rows or else of the test points; JSON names as text.

    stages : the attributes of each stage by its name.
    """
    predictions = stages.get("predictions") or {}
    if predictions.get("made"):
        return [plain_label(str(name), 40) for name, count in zip(
            predictions["classes"], predictions.get("counts") or (), strict=False) if count == 0]
    confusion = at(stages, "scores", "metrics", "confusion") or []
    names = at(stages, "labels", "classes") or at(stages, "split", "classes") or []
    return [plain_label(str(name), 40) for name, column in zip(names, zip(*confusion, strict=True), strict=False)
            if not any(column)]


def never_findings(run: RunRecord) -> list[Finding]:
    """Return a warning where there is a class that no row is predicted as."""
    never = never_predicted(run.stages)
    meaning = ("No row is predicted as one of these classes. Label more rows of them, or set their frequencies in "
               "model.class_prior.")
    if run.at("split", "tags"):
        meaning = "No row is predicted to have one of these tags. Label more rows with them."
    return [Finding("classes that are never predicted", listed(never, 10), "warning", meaning)] if never else []


def never_note(stages: Mapping[str, Attributes]) -> list[str]:
    """Return the same as a note of a run."""
    never = never_predicted(stages)
    if never and at(stages, "split", "tags"):
        return [f"no row is predicted to have the tag {listed(never, 10)}: label more rows with it"]
    return [f"no row is predicted as {listed(never, 10)}: label more rows of it, or set its frequency in "
            "model.class_prior"] if never else []


def setting_findings(run: RunRecord, report_text: ReportText) -> list[Finding]:
    """Return what in the settings makes the comparison empty, or less than it could be."""
    findings = []

    def warn(subject: str, figures: str, meaning: str) -> None:
        findings.append(Finding(subject, figures, "warning", meaning))

    drawn, labeled = run.at("landmarks", "n_landmarks"), run.at("landmarks", "n_labeled")
    if drawn is not None and drawn == labeled:
        warn("landmarks", f"{number(drawn)}, all labeled", "All landmarks are labeled points. Raise "
             "model.n_landmarks to several times the number of labels.")
    missed = [i for i, n in enumerate(run.at("labels", "per_class") or []) if n == 0]
    if missed and not has_other_model(run):
        names = [run.classes[i] if i < len(run.classes) else i for i in missed]
        warn("classes without a label", listed(names, 10), "They are never predicted. Label at least one point of "
             "each class, for example with labels.per_class.")
    if run.at("labels", "target", "distinct") == 1:
        warn("target of the labeled points", f"{number(run.at('labels', 'target', 'mean'))} throughout", "All "
             "labels are equal, so every model predicts this value everywhere. Check the target, or label points with "
             "other values.")
    zeros = run.at("points", "scaling", "zero_rows")
    if zeros and run.at("points", "scaling", "kind") == "unit_norm":
        warn("rows of zeros", number(zeros), "A row of zeros has no direction and stays zero, so all of them are "
             "duplicates of one point.")
    unsupported = run.at("scores", "metrics", "unsupported")
    if unsupported:
        subject, meaning = report_text.unsupported
        warn(subject, f"{number(unsupported)} of {number(run.at('scores', 'metrics', 'n_test'))}", meaning)
    return findings


@dataclass(frozen=True)
class NextStep:
    """A thing to do, and the key of the section that has more on it; empty without one."""

    text: str
    key: str = ""


def in_order(run: RunRecord, report_text: ReportText, how_good: Section | None,
             others: Sequence[Section | None]) -> list[Section | None]:
    """Return the sections as a reader asks for them: how good, the first of the others, what to do next, and the rest.
    """
    titles = {section.key: section.title for section in (how_good, *others) if section is not None}
    return [how_good, *others[:1], _next_section(run, report_text, titles), *others[1:]]


def _next_section(run: RunRecord, report_text: ReportText, titles: Mapping[str, str]) -> Section | None:
    """Return the steps, with links to the sections that have a title; None where nothing suggests one."""
    verdict = Verdict.of_run(run, report_text)
    use = [] if verdict.level == "warning" else _of_use(run)
    labels = _of_labels(run)
    last = [*use, *labels] if verdict.level == "good" else [*labels, *use]
    steps = [*_of_verdict(run, verdict), *_of_clusters(run), *_of_classes(run), *last]
    return Section("next", "What to do next", rendered("next.html", steps=steps, titles=titles)) if steps else None


def _of_verdict(run: RunRecord, verdict: Verdict) -> list[NextStep]:
    if verdict.useless:
        return [NextStep("Do not use these predictions yet: they are no better than a constant. Check the target and "
                         "the columns, or add labels.", "columns"), *_of_rare_classes(run)]
    has_tests = verdict.error is not None
    answer = verdict.answer if has_tests else verdict.labels_answer
    if answer is None and not has_tests and run.by_labels:
        return [NextStep(f"Find out how good the predictions are: {_more_evidence(run)}.", "quality")]
    if verdict.has_other:
        return _beside_other(run, verdict)
    if answer is None or verdict.all_labeled or (answer == HELPED and not verdict.contradicted):
        return []
    if verdict.base_is_enough:
        return [NextStep("The simpler base model is good enough: the unlabeled points change its "
                         f"{verdict.by.loss_name} too little to matter, or not at all.", "answer")]
    if answer == HURT and not verdict.contradicted:
        return [NextStep("Use the base model for these data: the unlabeled points make the predictions worse.",
                         "answer")]
    how = _more_evidence(run)
    if has_tests:
        how = "add labels or test points" if not verdict.draws else (
            f"repeat the run with other draws ({', '.join(verdict.draws)}) or with more test points")
    return [NextStep(f"Before you rely on the unlabeled points, {how}: these figures do not show whether they help.",
                     "answer")]


def _beside_other(run: RunRecord, verdict: Verdict) -> list[NextStep]:
    """Return what follows where the model is pooled with another one, which its base does not have."""
    if verdict.answer == HURT:
        return [NextStep("Use the base model for points like the test points: neither the unlabeled points nor the "
                         "other model help there.", "answer")]
    other = Comparison.of(at(run.by_labels, "scores") or {}, run.by_labels, "other", verdict.by)
    if other is None or (other.clear and other.gain > 0):
        return []
    return [NextStep("Consider the other model alone: by the held-out labels, labels and graph do not clearly add to "
                     "it.", "answer")]


def _of_rare_classes(run: RunRecord) -> list[NextStep]:
    """Return another metric where a model that is useless by its errors knows the rare classes better than a guess."""
    ends = interval_at(run.metrics, "balanced_accuracy_interval")
    constant = finite(at(run.scores, "majority", "balanced_accuracy"))
    model = at(run.spec, "model") or {}  # with class sizes, decisions follow these
    can_ask = "scoring" in model and model["scoring"] in (None, "accuracy") and model.get("class_sizes") is None
    if not can_ask or ends is None or constant is None or ends[0] <= constant:
        return []
    return [NextStep("If rare classes matter as much as frequent ones, set model.scoring to balanced_accuracy: in that "
                     "metric the model is better than a constant.", "scores")]


def _of_clusters(run: RunRecord) -> list[NextStep]:
    """Return that the simpler clustering will do, where it agrees with the classes as well."""
    ours, plain = finite(run.metrics.get("accuracy")), finite(at(run.scores, "euclidean", "accuracy"))
    if ours is None or plain is None or plain < ours:
        return []
    return [NextStep("Consider k-means on the features themselves: its clusters agree with the classes at least as "
                     "well as those of the graph.", "answer")]


def _more_evidence(run: RunRecord) -> str:
    """Return what gives a run without test points more to judge by."""
    enough = "add labels" if run.by_labels.get("n") else (
        "label at least two points of each class" if run.classes else "compare them with values that you know")
    return f"{enough}, or set test points aside (data.test)" if run.spec else enough


def _of_classes(run: RunRecord) -> list[NextStep]:
    """Return the classes that need labels: never predicted, or often taken for one other."""
    never, steps = never_predicted(run.stages), []
    if never:
        steps.append(NextStep(f"Label points of {listed(never, 5)}: no row is predicted as "
                              f"{'it' if len(never) == 1 else 'one of them'}."))
    rows, point = class_rows_of(run), "test point" if run.metrics else "held-out label"
    if len(rows) < 3:  # every point is predicted as one of two classes
        return steps
    worst = max(rows, key=lambda row: row.min_share_taken, default=None)
    if worst is not None and worst.n_taken > 1 and worst.min_share_taken > OFTEN and worst.name not in never:
        steps.append(NextStep(
            f"Label more points that are predicted as {worst.name} or {worst.taken_for}: {number(worst.n_taken)} of "
            f"the {counted(worst.n, point)} of {worst.name} are taken for {worst.taken_for}.", "quality"))
    return steps


def _of_labels(run: RunRecord) -> list[NextStep]:
    """Return whether more labels help, and which."""
    steps, curve = [], run.by_labels.get("curve") or []
    unreachable = run.result.get("unreachable") or {}
    if count := unreachable.get("count", 0):
        n_components = unreachable.get("components", 1)
        which = "the component" if n_components == 1 else f"each of the {number(n_components)} components"
        steps.append(NextStep(f"Label a point of {which} of the graph that no label reaches: "
                              f"{counted(count, 'point')}, perhaps a group that nobody has labeled.", "graph"))
    by = errors_among(scores_at(run.by_labels, "scores", "model"))
    before, last = (finite(row.get("model")) for row in curve[-2:]) if len(curve) > 1 else (None, None)
    if before is not None and last is not None and 0 < last < STILL_FALLS * before and not is_within_intervals(
            *curve[-2:]):
        steps.append(NextStep(f"Add labels: the {by.bare_noun} on held-out labels still falls with their number.",
                              "curve"))
    sample = run.stage("sample")
    if sample.get("next") or sample.get("suggested"):
        steps.append(NextStep("If you can label more points, begin with those whose labels tell the model the most.",
                              "sample"))
    return steps


def _of_use(run: RunRecord) -> list[NextStep]:
    if not run.result.get("model") or not run.path:
        return []
    return [NextStep("Take the predictions of all rows, or predict new ones.", "files")]
