"""What to do next: what the figures of the run suggest, the most useful first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..error_metric import errors_among
from ..page import Section
from ..record import RunRecord, scores_at
from ..rendering import rendered
from ..report_text import ReportText
from ..text import counted, finite, listed, number
from ..verdict import HELPED, HURT, Verdict
from .answer import never_predicted
from .quality import class_rows_of
from .scores import STILL_FALLS, is_within_intervals

OFTEN = 0.05  # share of a class, above which a mistake is worth labels: of the lower end of its interval


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
    verdict = Verdict.of(run.result, report_text, run.unread, all_labeled=run.all_labeled)
    use = [] if verdict.level == "warning" else _of_use(run)
    steps = [*_of_verdict(run, verdict), *_of_classes(run), *_of_labels(run), *use]
    return Section("next", "What to do next", rendered("next.html", steps=steps, titles=titles)) if steps else None


def _of_verdict(run: RunRecord, verdict: Verdict) -> list[NextStep]:
    if verdict.useless:
        return [NextStep("Do not use these predictions yet: they are no better than a constant. Check the target and "
                         "the columns, or add labels.", "columns")]
    answer = verdict.labels_answer if verdict.error is None else verdict.answer
    if answer is None or verdict.all_labeled or (answer == HELPED and not verdict.contradicted):
        return []
    if answer == HURT and not verdict.contradicted:
        return [NextStep("Use the base model for these data: the unlabeled points make the predictions worse.",
                         "answer")]
    how = ("repeat the run with other draws (labels.random_state, data.random_state) or with more test points"
           if run.spec else "add labels")
    return [NextStep(f"Before you rely on the unlabeled points, {how}: these figures do not show whether they help.",
                     "answer")]


def _of_classes(run: RunRecord) -> list[NextStep]:
    """Return the classes that need labels: never predicted, or often taken for one other."""
    never, steps = never_predicted(run.stages), []
    if never:
        steps.append(NextStep(f"Label points of {listed(never, 5)}: no row is predicted as "
                              f"{'it' if len(never) == 1 else 'one of them'}."))
    rows = class_rows_of(run)
    worst = max(rows, key=lambda row: row.min_share_taken, default=None)
    if worst is not None and worst.n_taken > 1 and worst.min_share_taken > OFTEN and worst.name not in never:
        steps.append(NextStep(
            f"Label more points that are predicted as {worst.name} or {worst.taken_for}: {number(worst.n_taken)} of "
            f"the {counted(worst.n, 'test point')} of {worst.name} are taken for {worst.taken_for}.", "quality"))
    return steps


def _of_labels(run: RunRecord) -> list[NextStep]:
    """Return whether more labels help, and which."""
    steps, curve = [], run.by_labels.get("curve") or []
    by = errors_among(scores_at(run.by_labels, "scores", "model"))
    before, last = (finite(row.get("model")) for row in curve[-2:]) if len(curve) > 1 else (None, None)
    if before is not None and last is not None and 0 < last < STILL_FALLS * before:
        falls = ("falls with their number, although by less than its intervals are wide"
                 if is_within_intervals(*curve[-2:]) else "still falls with their number")
        steps.append(NextStep(f"Add labels: the {by.bare_noun} on held-out labels {falls}.", "curve"))
    sample = run.stage("sample")
    if sample.get("next") or sample.get("suggested"):
        steps.append(NextStep("If you can label more points, begin with those whose labels tell the model the most.",
                              "sample"))
    return steps


def _of_use(run: RunRecord) -> list[NextStep]:
    if not run.result.get("model") or not run.path:
        return []
    return [NextStep("Take the predictions of all rows, or predict new ones.", "files")]
