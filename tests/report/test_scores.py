"""The section on probabilities: whether they are too high, by how much, and the bins in picture and table."""

import re

import numpy as np
import pytest

from dssl.report.record import RunRecord
from dssl.report.sections.scores import reliability_section
from dssl.selection.calibration import reliability_of


def text_of(probabilities, correct):
    metrics = {"reliability": reliability_of(probabilities, correct)}
    html = reliability_section(RunRecord({}, {"metrics": metrics})).html
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", str(html))), str(html)


def test_a_model_without_probabilities_and_one_of_few_points_have_no_such_section():
    assert reliability_section(RunRecord({}, {"metrics": {"error": 0.1}})) is None
    few = reliability_of(np.full(20, 0.9), np.ones(20, bool))
    assert reliability_section(RunRecord({}, {"metrics": {"error": 0.1, "reliability": few}})) is None


@pytest.mark.parametrize(("share", "claim"), [
    (0.5, "The model is too confident"), (0.98, "The model is too cautious"),
    (0.8, "The model is neither too confident nor too cautious on average")])
def test_the_first_sentence_says_whether_the_probabilities_are_too_high(share, claim):
    text, _ = text_of(np.linspace(0.7, 0.9, 200), np.arange(200) % 50 < 50 * share)
    assert claim in text
    assert f"a probability of 80.0 % on average, and {100 * share:.1f} % (95 % interval " in text
    assert "of the 200 test points with a prediction are classified correctly" in text


def test_the_calibration_error_its_chance_level_and_all_bins_are_told_and_drawn():
    P, correct = np.linspace(0.8, 1, 2000), np.arange(2000) % 4 != 0
    text, html = text_of(P, correct)
    by_chance = 100 * reliability_of(P, correct)["by_chance"]
    assert 0.5 < by_chance < 3
    assert "The expected calibration error is 15.0 percentage points" in text
    assert f"By chance alone, it would be about {by_chance:.1f} percentage points if all probabilities were" in text
    assert "in bins of 200 test points" in text
    assert html.count("<tr>") == 11
    assert re.search(r"81\.0 % 200 75\.0 % \(68\.6 to 80\.5 %\)", text)
    assert 'aria-label="Share of correct predictions in 10 bins of their probability"' in html
    assert "#1c64b0" not in html  # the page decides on the colors
