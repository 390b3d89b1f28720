"""Scores of tags over the entries that are known, and the comparison of two models by them.

    hamming_loss         the share of entries that are predicted wrong, also of tags that no label or all labels have
    f1_macro, f1_micro   F1 of each tag in the mean; F1 of all entries together
    average_precision    of each tag, in the mean (mAP): how well its scores rank the points
    ranking_loss         the share of pairs of a point's tags in wrong order, over wholly labeled points
    subset_accuracy      the share of wholly labeled points of which all tags are right
    calibration_error    expected, of each tag in the mean, in `BINS` equally wide bins of the probability: most tags
                         are rare, so bins of equal counts would be near 0 alone

Means over tags are of those that some points are known to have and others not to have; the other scores are of all.

References
----------
Tsoumakas, Katakis, Vlahavas, "Mining multi-label data", 2010.
"""

from typing import TypedDict

import numpy as np
from scipy.special import stdtrit

from ..base.digest import JsonObject
from ..base.profiler import library
from ..base.wilson import CONFIDENCE, MIN_PAIRS
from ..learners.tags import Tags
from .calibration import expected_calibration_error
from .comparison import MIN_DIFFERENCE, PairedComparison
from .graph_gain import Gain
from .interval import (
    detectable_mean_difference,
    interval_of_score,
    sign_test,
    significant_t,
    t_power,
    t_test,
)

BINS = 10
MEANS = ("f1_macro", "average_precision")  # whose differences have an interval over the tags
OF_TAG = {"f1_macro": "f1", "average_precision": "average_precision"}


class OverTags(TypedDict, total=False):
    """The means of a score with the graph and without it over so many tags, and their difference; 0 tags alone."""

    tags: int
    with_graph: float
    baseline: float
    difference: float
    interval: list[float] | None


def tag_scores(true: Tags, scores: np.ndarray, probabilities: np.ndarray | None = None) -> JsonObject:
    """Return the scores of predictions at the points of some tags, and `by_tag`, a dict a tag; JSON.

    scores (l, c) : > 0 where a tag is predicted, NaN where nothing is, which is wrong. probabilities (l, c), or None. A
    score is None where it is undefined.
    """
    metrics = library("sklearn.metrics")
    known, has = true.coded >= 0, true.coded == 1
    wrong = known & (_predicted(scores) != true.coded)
    ranked = np.where(np.isnan(scores), -np.inf, scores)
    by_tag, counts = list[JsonObject](), np.zeros(3)
    for column, name in enumerate(true.names.tolist()):
        at = known[:, column]
        y, predicted = has[at, column], scores[at, column] > 0
        tag_counts = np.array([(y & predicted).sum(), predicted.sum(), y.sum()], float)
        counts += tag_counts
        both = bool(y.any() and not y.all())
        precision = metrics.average_precision_score(y, np.nan_to_num(ranked[at, column], neginf=-1e300)
                                                    ) if both else None
        by_tag.append({
            "tag": name, "known": int(at.sum()), "with_it": int(y.sum()),
            "error": float(wrong[at, column].mean()) if at.any() else None, "f1": _f1(tag_counts) if both else None,
            "average_precision": precision if precision is None else float(precision),
            "calibration_error": None if probabilities is None else calibration_error(y, probabilities[at, column])})
    whole = known.all(axis=1)
    finite = whole & np.isfinite(scores).all(axis=1)
    return {"n": len(known), "n_whole": int(whole.sum()), "hamming_loss": float(wrong[known].mean()),
            "f1_micro": _f1(counts), **{name: _mean(by_tag, OF_TAG[name]) for name in MEANS},
            "ranking_loss": float(metrics.label_ranking_loss(has[finite], scores[finite])) if finite.any() else None,
            "subset_accuracy": float(1 - wrong[whole].any(axis=1).mean()) if whole.any() else None,
            "calibration_error": _mean(by_tag, "calibration_error"), "by_tag": by_tag}


def calibration_error(has: np.ndarray, probabilities: np.ndarray) -> float | None:
    """Return the expected calibration error of probabilities (n,) of a tag that points have or not, (n,) bool.

    Points without a probability do not count; None where there is no other.
    """
    some = np.isfinite(probabilities)
    if not some.any():
        return None
    P, y = probabilities[some], has[some]
    return expected_calibration_error(P, y, np.minimum((BINS * P).astype(int), BINS - 1))


def compare_tags(true: Tags, with_graph: np.ndarray, baseline: np.ndarray) -> tuple[Gain, dict[str, OverTags]]:
    """Return the gain in Hamming loss of scores (l, c) over others, and the differences of `MEANS` over the tags; JSON.

    The interval of a mean over tags is Student's, of tags drawn like these.
    """
    pair = pair_of_tags(true, with_graph, baseline)
    (ours, its_interval), (other, other_interval) = (hamming_loss(true, scores) for scores in (with_graph, baseline))
    gain = Gain("Hamming loss", ours, other, -pair.gain, pair.standard_error, pair.n, pair.p_value, pair.verdict,
                its_interval, other_interval, pair.interval_of_increase())
    by_tag = [tag_scores(true, scores)["by_tag"] for scores in (with_graph, baseline)]
    over_tags = {name: _over_tags([(ours[OF_TAG[name]], other[OF_TAG[name]]) for ours, other in zip(
        *by_tag, strict=True) if ours[OF_TAG[name]] is not None]) for name in MEANS}
    return gain, over_tags


def pair_of_tags(true: Tags, scores: np.ndarray, others: np.ndarray) -> PairedComparison:
    """Return the comparison of the Hamming losses of scores (l, c) and of others.

    The test and the standard error take a point with all its entries as one draw, since its tags depend on each other:
    for points i of n_i known entries with differences d_i and the loss difference D, it is the root of
    `sum_i (d_i - D n_i)^2 / (sum_i n_i)^2`. Where that is 0, as where all points differ equally, it is the exact sign
    test of the points that differ, and the interval is unknown.
    """
    known = true.coded >= 0
    n = known.sum(axis=1)
    losses = [(known & (_predicted(each) != true.coded)).sum(axis=1) for each in (scores, others)]
    other = _mean_of_draws(losses[1], n)[0]
    difference, error = _mean_of_draws(losses[0] - losses[1], n)
    r, interval, smallest, detectable = len(n), None, None, None
    if error > 0:
        smallest = significant_t(r - 1) * error
        interval = [-difference - smallest, smallest - difference]
        detectable = detectable_mean_difference(r, error, max(other, 1 - other))
        p_value = t_test(difference / error, r - 1)
        power = t_power(r, max(other / 2, MIN_DIFFERENCE), error)
    else:
        unanimous = int(np.count_nonzero(losses[0] - losses[1]))
        p_value = sign_test(unanimous, 0)
        power = float(r >= MIN_PAIRS)
    return PairedComparison(r, -difference, other, p_value, smallest, detectable, power, interval, error)


def hamming_loss(true: Tags, scores: np.ndarray) -> tuple[float, list[float] | None]:
    """Return the Hamming loss of scores (l, c), and its 95 % interval on new points."""
    known = true.coded >= 0
    mean, error = _mean_of_draws((known & (_predicted(scores) != true.coded)).sum(axis=1), known.sum(axis=1))
    return mean, interval_of_score(mean, error, len(known), share=True)


def scores_of_tags(true: Tags, scores: np.ndarray, probabilities: np.ndarray | None = None) -> JsonObject:
    """Return the scores of predictions (l, c) as a report and the result of a run have them, see `tag_scores`; JSON."""
    loss, interval = hamming_loss(true, scores)
    return {"scoring": "hamming_loss", "n_test": len(true.labeled), **tag_scores(true, scores, probabilities),
            "hamming_loss": loss, "hamming_loss_interval": interval}


def _predicted(scores: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(scores), -1, scores > 0)


def _f1(counts: np.ndarray) -> float:
    """Return F1 from the numbers of right, predicted and true entries; 0 where none is right."""
    right, predicted, true = counts.tolist()
    return 2 * right / (predicted + true) if right else 0.0


def _mean(by_tag: list[JsonObject], name: str) -> float | None:
    values = [tag[name] for tag in by_tag if tag[name] is not None]
    return float(np.mean(values)) if values else None


def _mean_of_draws(sums: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Return the mean over entries of sums (r,) of so many entries (r,), and its standard error over the rows.

    Both are whole numbers, so that the error is exactly 0 where all rows have the same mean.
    """
    total, r = int(counts.sum()), len(sums)
    residuals = (sums * total - int(sums.sum()) * counts) / total
    spread = float((residuals ** 2).sum()) * r / max(r - 1, 1)
    return float(sums.sum() / total), float(np.sqrt(spread) / total)


def _over_tags(pairs: list[tuple[float, float]]) -> OverTags:
    """Return the means with the graph and without it over the tags, their difference and its 95 % interval."""
    if not pairs:
        return {"tags": 0}
    ours, others = np.array(pairs).T
    differences, c = ours - others, len(pairs)
    mean, interval = float(differences.mean()), None
    if c > 1:
        half = float(stdtrit(c - 1, (1 + CONFIDENCE) / 2) * differences.std(ddof=1) / np.sqrt(c))
        interval = [mean - half, mean + half]
    return {"tags": c, "with_graph": float(ours.mean()), "baseline": float(others.mean()), "difference": mean,
            "interval": interval}
