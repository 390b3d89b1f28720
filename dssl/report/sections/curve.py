"""The error by the number of labels, from labels held out: whether more of them would help."""

from typing import Any

from ..error_measure import errors_among, measure_of
from ..markup import at, counted, figure, finite, joined, tag
from ..page import Section
from ..plots import curve_plot


def curve_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return the curve of the model and its base; words where the labels are too few, or too many for one."""
    own = at(result, "gain", "by_labels") or {}
    rows = own.get("curve") or []
    if not own:
        return None
    scores = at(own, "scores", "model") or {}
    by, asked = errors_among(scores), measure_of(scores)
    if len(rows) < 2:
        why = own.get("why") or own.get("no_curve") or "the labels are too few to learn from some of them"
        return Section("curve", "Error by number of labels", tag("p", f"There is no learning curve: {why}."))
    names = [name for name in ("model", "base") if all(finite(row.get(name)) is not None for row in rows)]
    last, before = (finite(row["model"]) or 0.0 for row in (rows[-1], rows[-2]))
    trend = ("All labels at hand are predicted without an error: more of them cannot lower it." if last <= 0 else
             f"The model's error still falls, by {by.difference(before - last)} over the last step: more labels may "
             "lower it further." if last < 0.95 * before else
             "The model's error falls no more over the last step: more labels alone may not lower it."
             if last <= 1.05 * before else "The error rises over the last step, which few labels do by chance.")
    known = at(facts, "labels", "n_labeled") or own["n"]
    caption = (f"The {counted(known, 'label')} at hand: parts of them are learned from, the others predicted, with "
               "the parameters that were chosen on all, and the unlabeled points as they are. The mean of up to four "
               "draws; each smaller one lies within a larger. The bands are 95 % intervals over the labels that are "
               "predicted." + (
                   "" if asked == by else f" The curve is of the {by.key}, whatever the {asked.bare_noun} is."))
    return Section("curve", "Error by number of labels", joined((figure(curve_plot(rows, names, by), caption),
                                                                 tag("p", trend))))
