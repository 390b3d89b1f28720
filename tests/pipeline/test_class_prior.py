"""What a pipeline file says of the frequencies of classes: by the draw of its labels, or by a key of its model."""

import numpy as np
import pytest

from dssl.base.errors import ParameterError, SpecError
from dssl.learners.class_prior import EQUAL, LABELS, ClassPrior, by_class
from dssl.pipeline.load import load_spec
from dssl.report.record import RunRecord
from dssl.report.sections.data import data_section


def spec(labels, task="classification", **model):
    return load_spec({"name": "a", "data": {"source": "a.csv", "task": task}, "labels": labels, "model": model})


@pytest.mark.parametrize(("labels", "model", "prior"), [
    ({"per_class": 3}, {}, EQUAL), ({"count": 30}, {}, LABELS), ({"fraction": 0.1}, {}, LABELS),
    ({"given": True}, {}, LABELS), ({"per_class": 3}, {"class_prior": "labels"}, LABELS),
    ({"count": 30}, {"class_prior": "equal"}, EQUAL),
    ({"count": 30}, {"class_prior": {"a": 0.9, "b": 0.1}}, ClassPrior("given", named=(("a", 0.9), ("b", 0.1)))),
    ({"per_class": 3}, {"class_sizes": [90, 10]}, ClassPrior("sizes", ordered=(90.0, 10.0)))])
def test_the_draw_of_the_labels_says_whether_their_frequencies_mean_anything(labels, model, prior):
    assert spec(labels, **model).prior == prior


def test_numbers_below_a_key_are_classes_that_are_numbers():
    given = {"name": "a", "data": {"source": "a.csv"}, "labels": {"count": 30}, "model": {"kind": "automatic"}}
    apart = load_spec(given, ("model.class_prior.0=0.9", "model.class_prior.-1=0.1"))
    assert apart.prior == load_spec(given, ("model.class_prior={0: 0.9, -1: 0.1}",)).prior
    assert apart.prior.named == ((0, 0.9), (-1, 0.1))


def test_classes_that_are_written_otherwise_are_told_how():
    with pytest.raises(ParameterError, match="texts in quotes and numbers without"):
        by_class({"0": 1.0, "1": 2.0}, np.array([0, 1]), "class_prior")
    with pytest.raises(ParameterError, match="give a number to each of these"):
        by_class({"a": 1.0}, np.array([0, 1]), "class_prior")


@pytest.mark.parametrize(("task", "model"), [
    ("regression", {"class_prior": "equal"}), ("classification", {"class_prior": "equal", "class_sizes": [1, 2]})])
def test_a_prior_beside_sizes_or_of_quantities_is_refused(task, model):
    with pytest.raises(SpecError, match="class_prior"):
        spec({"count": 30}, task, **model)


@pytest.mark.parametrize(("labels", "model", "words"), [
    ({"per_class": 5}, {}, "assumed to be equal, because the spec draws the same number of labels"),
    ({"count": 10}, {}, "as among the labels"),
    ({"per_class": 5}, {"class_prior": "labels"}, "as given in model.class_prior: labels")])
def test_the_report_says_how_frequent_classes_count(labels, model, words):
    run = RunRecord({"labels": {"per_class": [5, 5], "n_labeled": 10}}, {}, {"labels": labels, "model": model})
    assert words in str(data_section(run).html)
