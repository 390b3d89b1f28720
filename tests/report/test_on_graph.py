"""What the page of the automatic model says of its choices."""

import pytest

from dssl.report.record import RunRecord
from dssl.report.sections.graph import graph_section
from dssl.report.sections.sample import sample_section
from dssl.report.sections.solver import choice_section

from .examples import example_record, example_run


@pytest.mark.parametrize(("losses", "is_kept"), [({"auto": 0.127, "none": 0.122}, True),
                                                 ({"auto": 0.12, "none": 0.13}, False)])
def test_an_automatic_scaling_says_what_it_did_and_why_it_is_kept(losses, is_kept):
    scale = {"kind": "auto", "ranges": 1.4, "label_losses": losses}
    scaling = {"kind": "auto", "numbers": "none", "categories": 8}
    page = choice_section(RunRecord({"models": {"choice": {"chosen": "graph"}},
                                     "points": {"scale": scale, "scaling": scaling}}, {})).html
    assert "auto: none for columns of numbers, and columns that encode text scaled apart from them" in page
    assert ("only where its error is clearly lower" in page) == is_kept


@pytest.mark.parametrize(("n_examined", "is_drawn"), [(1900, True), (1985, False)])
def test_points_that_were_looked_at_are_drawn_where_they_are_not_all(n_examined, is_drawn):
    result, facts = example_run(3)
    facts["sample"]["n_examined"] = n_examined
    assert facts["labels"]["n_labeled"] == 15
    body = sample_section(example_record(result, facts)).html
    assert ("drawn from the 2,000 training points" in body) == is_drawn


@pytest.mark.parametrize(("made", "text"), [
    ({"overlaps": [1.5], "joins": 1}, "searched in 1.5 leaves each, with 1 join."),
    ({"overlaps": [1.5, 2.6], "joins": 2}, "in 1.5 leaves each and then in 2.6 leaves each, with 2 joins. Few leaves"),
    ({"overlaps": [], "joins": 0, "scanned": True}, "among all points by their coordinates, with 0 joins. Few leaves")])
def test_the_effort_of_a_partitioned_search_is_told(made, text):
    lists = {"effort": 4.75, "scanned": False, "filled_exactly": 0, "n": 100, **made}
    section = graph_section(RunRecord({"neighbors": lists}, {}))
    assert "4.8 times a usual search" in section.html
    assert text in section.html
