"""Did the unlabeled data help? The verdict with its figures, what stands against it, and what each model is."""

from collections.abc import Mapping, Sequence

from ..error_metric import ROOT
from ..page import Finding, Section
from ..record import Attributes, RunRecord
from ..rendering import rendered
from ..report_text import GUESSES, Baseline, ReportText
from ..text import at, listed, number, plain_label
from ..verdict import Verdict
from .quality import errors_drawing, has_other_model
from .selection import choice_findings


def answer_section(run: RunRecord, report_text: ReportText, baselines: Sequence[Baseline] = ()) -> Section:
    """Return the answer to that question; it also says so if there are no scores or no base model."""
    verdict = Verdict.of_run(run, report_text)
    are_classes = verdict.by != ROOT
    combined = " Here it is combined with what another model says of the points." if has_other_model(run) else ""
    meaning_of = {"model": f"{report_text.model}{combined}"} | {
        baseline.name: f"{baseline.meaning} {baseline.of_classes if are_classes else ''}".rstrip()
        for baseline in (*baselines, *GUESSES)}
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
        classes = run.at("labels", "classes") or run.at("split", "classes") or []
        names = [classes[i] if i < len(classes) else i for i in missed]
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
