"""The points that a report shows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.data.ingest_params import IngestParams
from dssl.execution.in_process import InProcess
from dssl.graph.weights.build import read_graph
from dssl.learners.target.coding import CODINGS
from dssl.methods.step import Context
from dssl.pipeline import sample
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.sample import SampleParams, make_sample
from dssl.pipeline.suggestion import artifacts_behind


@pytest.fixture(scope="module")
def context(finished):
    """What the stage gets, and beside it what it made."""
    folder, = (finished[0] / "artifacts" / "sample").iterdir()
    behind = artifacts_behind(folder)
    return Context(behind, {}, InProcess(1).scratch(), InProcess(1))


@pytest.fixture(scope="module")
def found(context):
    return context.attributes("sample")


def test_the_picture_of_few_points_is_that_of_the_whole_graph(context, found):
    own = found["picture"]
    W = read_graph(context.inputs["graph"].parts)
    assert own["whole"]
    assert len(own["points"]) == len(own["codes"]) == W.shape[0] == found["n"]
    assert own["lines"] == len(own["edges"]) == W.nnz // 2
    assert len(own["labeled"]) == len(context.arrays("labels")["labeled"])
    assert np.min(own["points"]) == 0
    assert np.max(own["points"]) == sample.PLACES


@pytest.fixture(scope="module")
def rows(small_spec):
    """The points of the source, by their rows."""
    with np.load(small_spec["data"]["source"]) as arrays:
        return arrays["X"], arrays["y"]


def test_points_have_the_color_of_what_the_model_predicts(finished, context, found, rows):
    source = context.rows("split", "train").read_all()
    drawn = sample._drawn(len(source), context.arrays("labels")["labeled"], 0)
    assert sorted(drawn) == list(range(len(source)))
    predicted = open_model(finished[1].model_path).predict(rows[0][source[drawn]])
    assert [found["picture"]["classes"][code] for code in found["picture"]["codes"]] == [str(own) for own in predicted]


def test_quantities_that_no_label_reaches_are_shown_as_the_mean_of_the_others():
    values, unsupported = np.array([[0.0], [40.0], [20.0]]), np.array([True, False, False])
    assert sample._codes(CODINGS["values"](np.array([])), values, unsupported).tolist() == [30, 40, 20]
    assert sample._codes(CODINGS["values"](np.array([])), values, np.ones(3, bool)).tolist() == [0, 0, 0]


def test_the_least_certain_have_the_smallest_gap_of_probabilities_and_no_label(finished, context, found, rows):
    source, labeled = context.rows("split", "train").read_all(), context.arrays("labels")["labeled"]
    free = np.delete(source, labeled)
    P = np.sort(open_model(finished[1].model_path).predict_proba(rows[0][free]), axis=1)
    gaps = dict(zip(free.tolist(), P[:, -1] - P[:, -2], strict=True))
    listed = [row["row"] for row in found["least_certain"]]
    assert_allclose([gaps[row] for row in listed], np.sort(list(gaps.values()))[:sample.LISTED], atol=1e-6)
    assert_allclose([row["score"] - row["second_score"] for row in found["least_certain"]],
                    [gaps[row] for row in listed], atol=1e-4)
    assert found["n_examined"] == len(free)


def test_those_to_label_next_are_those_that_the_command_tells(finished, found):
    suggested = finished[1].suggest(sample.LISTED, execution=InProcess(1))
    assert found["next"] == suggested.records()


def test_of_many_points_a_sample_is_drawn_with_the_labeled_ones_first(context, monkeypatch):
    monkeypatch.setattr(sample, "DRAWN", 60)
    monkeypatch.setattr(sample, "MAX_EXAMINED", 80)
    params = SampleParams("euclidean", 4, 3, IngestParams())
    found = make_sample(context, params)
    assert found == make_sample(context, params)
    own = found["picture"]
    assert not own["whole"]
    assert len(own["points"]) == 60
    assert own["labeled"] == list(range(len(context.arrays("labels")["labeled"])))
    assert own["lines"] >= 60 * 4 / 2
    assert found["n_examined"] <= 80 + len(own["labeled"])
    other = make_sample(context, SampleParams("euclidean", 4, 4, IngestParams()))
    assert other["picture"]["points"] != own["points"]
