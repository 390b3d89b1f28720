"""The error on held-out labels by the number of labels learned from: whether more of them would help."""


from ..error_measure import errors_among, measure_of
from ..page import Section
from ..plots import curve_plot
from ..record import RunRecord, scores_at
from ..rendering import rendered
from ..text import finite

TITLE = "Learning curve"


def curve_section(run: RunRecord) -> Section | None:
    """Return the curve of the model and its base; words where the labels are too few, or too many for one."""
    by_labels = run.by_labels
    rows = by_labels.get("curve") or []
    if not by_labels:
        return None
    scores = scores_at(by_labels, "scores", "model")
    by, asked = errors_among(scores), measure_of(scores)
    if len(rows) < 2:
        why = by_labels.get("why") or by_labels.get("no_curve") or "the labels are too few to learn from some of them"
        return Section("curve", TITLE, rendered("curve.html", drawing=None, why=why))
    names = [name for name in ("model", "base") if all(finite(row.get(name)) is not None for row in rows)]
    before, last = (finite(row["model"]) or 0.0 for row in rows[-2:])
    return Section("curve", TITLE, rendered(
        "curve.html", drawing=curve_plot(rows, names, by), n_labels=run.at("labels", "n_labeled") or by_labels["n"],
        by=by, asked=asked, before=before, last=last))
