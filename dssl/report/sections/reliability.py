"""Can the probabilities be trusted? How often predictions of some probability are correct."""

from ..page import Section, Table
from ..plots import reliability_plot
from ..record import Reliability, RunRecord
from ..rendering import rendered
from ..text import counted, number, percent, points, with_interval


def reliability_section(run: RunRecord) -> Section | None:
    """Return the share of correct predictions over their probability; None of a model without, or of few points."""
    described = run.metrics.get("reliability")
    if described is None:
        return None
    bins = described["bins"]
    table = Table(("mean probability", "test points", "correct (95 % interval)"), [
        (percent(row["probability"]), number(row["n"]), with_interval(percent, row["correct"], row["interval"]))
        for row in bins], (0, 1, 2))
    smallest, largest = (of(row["n"] for row in bins) for of in (min, max))
    each = counted(smallest, "test point")
    if smallest < largest:
        each = f"{number(smallest)} to {number(largest)} test points"
    return Section("reliability", "Can the probabilities be trusted?", rendered(
        "reliability.html", sentences=[_confidence(described), _calibration(described)], table_of=table,
        drawing=reliability_plot(bins), each=each))


def _confidence(described: Reliability) -> str:
    """Return whether the probabilities are too high or too low in the mean."""
    low, high = described["interval"]
    correct = with_interval(percent, described["correct"], (low, high)).replace("(", "(95 % interval ")
    figures = (f"the predicted classes have a probability of {percent(described['probability'])} on average, and "
               f"{correct} of the {counted(described['n'], 'test point')} with a prediction are classified correctly.")
    if described["probability"] > high:
        return f"The model is too confident: {figures}"
    if described["probability"] < low:
        return f"The model is too cautious: {figures}"
    return f"The model is neither too confident nor too cautious on average: {figures}"


def _calibration(described: Reliability) -> str:
    """Return the expected calibration error, what it means, and what it would be of exact probabilities."""
    error, by_chance = (points(described[key]).replace(" point", " percentage point")
                        for key in ("calibration_error", "by_chance"))
    bins = described["bins"]
    outside = sum(not row["interval"][0] <= row["probability"] <= row["interval"][1] for row in bins)
    return (f"The expected calibration error is {error}: by this much, on average, the probability of a prediction "
            "differs from the share of correct predictions among those of similar probability. By chance alone, it "
            f"would be about {by_chance} if all probabilities were exact. In {number(outside)} of the {len(bins)} bins "
            "of the picture, the mean probability lies outside the interval of the share; of exact probabilities "
            "that happens in about one bin of twenty.")
