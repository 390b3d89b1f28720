"""What stages are predicted to take: every stage, how it grows, and against what tasks take."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssl.base.errors import BudgetError
from dssl.data.readers.base import Scan
from dssl.pipeline.kinds.registry import KINDS
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.facts import Facts

from .conftest import by_name

NAMES = KINDS["svm"].names
MB = 1 << 20


def spec_of(**changes):
    fields = {"name": "s", "data": {"source": "none.npz", "test": {"count": 100}}, "labels": {"count": 50},
              "graph": {"n_neighbors": 10, "method": "exact"},
              "solver": {"method": "deflated"}, "model": {"kind": "svm", "n_subsample": 500}}
    for key, value in changes.items():
        fields[key] = value if key in ("data", "labels") else fields.get(key, {}) | value
    return load_spec(fields)


def facts_of(n=50_000, d=50, budget=1 << 30, **changes):
    scan = Scan(n_rows=n, n_columns=d, dtype="float32", target="y", row_bytes=4 * d)
    return Facts(spec_of(**changes), budget, scan, {})


def test_every_stage_has_a_cost_and_a_remedy():
    for kind in KINDS.values():
        assert [stage.name for stage in kind.stages if stage.cost is None or not stage.remedy] == []


@pytest.mark.parametrize("name", NAMES)
@given(n=st.integers(1000, 5_000_000), d=st.integers(1, 3000), size=st.integers(1, 3000), power=st.integers(1, 6))
def test_costs_are_whole_and_the_least_is_no_more_than_the_peak(name, n, d, size, power):
    facts = facts_of(n, d, budget=1 << 40, model={"n_subsample": size}, graph={"power": power, "n_neighbors": 10,
                                                                            "method": "exact"})
    cost = by_name(KINDS["svm"])[name].cost(facts)
    assert all(isinstance(value, int) and value >= 0 for value in (cost.tasks, cost.read, cost.written, cost.peak))
    assert 0 <= cost.least <= cost.peak


@pytest.mark.parametrize("name", ["split", "graph", "health", "system", "columns"])
def test_more_points_take_more(name):
    small, large = (by_name(KINDS["svm"])[name].cost(facts_of(n, budget=1 << 40)) for n in (100_000, 1_000_000))
    assert large.peak > small.peak or name in ("graph", "health")  # whose blocks have a fixed height
    assert large.read > 5 * small.read


@pytest.mark.parametrize("name", ["dataset", "points", "neighbors", "columns", "covariance", "scores"])
def test_a_smaller_budget_makes_more_tasks_and_smaller_ones(name):
    sizes = {"model": {"n_subsample": 2000}, "data": {"source": "none.npz", "test": {"count": 50_000}}}
    large, small = (by_name(KINDS["svm"])[name].cost(facts_of(100_000, 300, budget=budget, **sizes))
                    for budget in (4 << 30, 256 * MB))
    assert small.tasks >= large.tasks
    assert small.peak <= large.peak


def test_blocks_never_grow_beyond_the_budget_where_they_follow_it():
    for budget in (200 * MB, 400 * MB, 1 << 30):
        for name in ("columns", "covariance", "scores", "points"):
            cost = by_name(KINDS["svm"])[name].cost(facts_of(200_000, 100, budget=budget))
            assert cost.peak <= 1.25 * budget, name


def test_what_a_stage_has_yet_to_find_is_taken_from_above_and_named():
    facts = facts_of(solver={"method": "auto"}, graph={"n_neighbors": 10, "method": "auto"})
    above = by_name(KINDS["svm"])["columns"].cost(facts)
    assert {"entries of W", "solver"} <= facts.estimated
    below = by_name(KINDS["svm"])["columns"].cost(replace(facts, bound="least", estimated=set()))
    facts.estimated.clear()
    facts.attributes |= {"vertices": {"vertices": 49_900}, "graph": {"nnz": 700_000},
                         "system": {"params": {"method": "deflated"}, "stored_bytes": 44 * 49_900 + 12 * 700_000}}
    exact = by_name(KINDS["svm"])["columns"].cost(facts)
    assert facts.estimated == set()
    assert below.least <= exact.peak <= above.peak


def test_points_and_labels_of_a_finished_split_are_exact():
    facts = facts_of(data={"source": "none.npz", "test": {"fraction": 0.2}}, labels={"per_class": 7})
    by_name(KINDS["svm"])["models"].cost(facts)
    assert {"training points", "number of classes"} & facts.estimated
    facts.estimated.clear()
    facts.attributes |= {"split": {"classes": [0, 1, 2], "n_train": 40_000, "n_test": 10_000},
                         "labels": {"n_labeled": 21}}
    by_name(KINDS["svm"])["models"].cost(facts)
    assert (facts.n, facts.n_test, facts.n_labeled, facts.n_classes) == (40_000, 10_000, 21, 3)
    assert facts.estimated == set()


def test_a_given_graph_may_have_fewer_entries_than_lists_would():
    facts = facts_of(graph={"n_neighbors": 10, "given": {"weights": "W.npz"}, "method": "auto"})
    assert replace(facts, bound="least", estimated=set()).nnz == 0
    assert replace(facts_of(), bound="least", estimated=set()).nnz > 0


@pytest.mark.parametrize("name", ["columns", "scores", "covariance"])
def test_a_row_that_does_not_fit_is_a_budget_error(name):
    with pytest.raises(BudgetError):
        by_name(KINDS["svm"])[name].cost(facts_of(1_000_000, 100, budget=1 * MB, model={"n_subsample": 3000}))


# model.kind: laprls


def laprls_facts(n=50_000, d=50, budget=1 << 30, **model):
    fields = {"name": "s", "data": {"source": "none.npz", "test": {"count": 100}}, "labels": {"fraction": 0.1},
              "graph": {"duplicates": "keep"}, "model": {"kind": "laprls", "landmarks": {"n_landmarks": 1000}, **model},
              "selection": {"cv": 3, "grid": {"gamma_A": ["10*auto", "100*auto"], "gamma_I": [0.0, "auto"]}}}
    scan = Scan(n_rows=n, n_columns=d, dtype="float32", target="y", row_bytes=4 * d)
    return Facts(load_spec(fields), budget, scan, {})


def test_kinds_have_costs_and_remedies_of_their_own():
    assert by_name(KINDS["laprls"])["models"].cost is not by_name(KINDS["svm"])["models"].cost
    for name in ("landmarks", "models", "scores"):
        assert "model.landmarks.n_landmarks" in by_name(KINDS["laprls"])[name].remedy


@pytest.mark.parametrize("name", ["landmarks", "models", "scores"])
@given(n=st.integers(1000, 5_000_000), d=st.integers(1, 3000), count=st.integers(1, 5000),
       solver=st.sampled_from(["auto", "nystrom-direct", "nystrom-pcg", "direct", "pcg", "cg"]),
       method=st.sampled_from(["uniform", "kmeans", "leverage"]))
@pytest.mark.extended_cases("models", "scores")
def test_costs_of_laprls_are_whole_and_the_least_is_no_more_than_the_peak(name, n, d, count, solver, method):
    facts = laprls_facts(n, d, 1 << 50, solver=solver, landmarks={"n_landmarks": count, "method": method})
    for bound in ("most", "least"):
        cost = by_name(KINDS[facts.spec.model.kind])[name].cost(replace(facts, bound=bound, estimated=set()))
        assert all(isinstance(value, int) and value >= 0 for value in (cost.tasks, cost.read, cost.written, cost.peak))
        assert 0 <= cost.least <= cost.peak


def test_more_landmarks_take_more_and_too_many_do_not_fit():
    few, many = (by_name(KINDS[facts.spec.model.kind])["models"].cost(facts) for facts in (
        laprls_facts(landmarks={"n_landmarks": count}) for count in (1000, 3000)))
    assert many.peak > few.peak
    assert many.written > few.written
    facts = laprls_facts(landmarks={"n_landmarks": 40_000})
    with pytest.raises(BudgetError, match="fewer landmarks"):
        by_name(KINDS[facts.spec.model.kind])["models"].cost(facts)
    assert by_name(KINDS[facts.spec.model.kind])["models"].cost(laprls_facts(
        landmarks={"n_landmarks": 6000})).least > 1 << 30


def test_landmarks_that_were_chosen_are_those_that_count():
    facts = laprls_facts(landmarks={"n_landmarks": "auto"})
    by_name(KINDS[facts.spec.model.kind])["scores"].cost(facts)
    assert "landmarks" in facts.estimated
    facts.attributes["landmarks"] = {"landmarks": [{"count": 990}]}
    facts.estimated.clear()
    assert by_name(KINDS[facts.spec.model.kind])["landmarks"].cost(facts).written == 990 * (200 + 8)
    assert "landmarks" not in facts.estimated


# model.kind: graph


def graph_facts(n=50_000, d=50, budget=1 << 30, fraction=0.01, baselines=("nearest", "base"), **model):
    fields = {"name": "s", "data": {"source": "none.npz", "test": {"count": 100}}, "labels": {"fraction": fraction},
              "graph": {"duplicates": "keep"}, "model": {"kind": "graph", **model}, "baselines": list(baselines)}
    scan = Scan(n_rows=n, n_columns=d, dtype="float32", target="y", row_bytes=4 * d)
    return Facts(load_spec(fields), budget, scan, {})


@pytest.mark.parametrize("name", ["vertex_values", "models", "scores"])
@given(n=st.integers(1000, 5_000_000), d=st.integers(1, 3000), fraction=st.sampled_from([1e-4, 0.01, 0.5]),
       learner=st.sampled_from(["ridge", "laplace", "poisson"]))
def test_costs_of_learners_on_the_graph_are_whole_and_the_least_is_no_more_than_the_peak(name, n, d, fraction, learner):
    facts = graph_facts(n, d, 1 << 60, fraction, learner=learner)
    for bound in ("most", "least"):
        cost = by_name(KINDS["graph"])[name].cost(replace(facts, bound=bound, estimated=set()))
        assert all(isinstance(value, int) and value >= 0 for value in (cost.tasks, cost.read, cost.written, cost.peak))
        assert 0 <= cost.least <= cost.peak


def test_many_labels_fit_harmonic_functions_and_neither_kernels_nor_the_base_model():
    for name, facts, fits in (("vertex_values", graph_facts(580_000, fraction=0.1), False),
                              ("vertex_values", graph_facts(580_000, fraction=0.1, learner="laplace"), True),
                              ("models", graph_facts(300_000, 10, fraction=0.1), False),
                              ("models", graph_facts(300_000, 10, fraction=0.1, baselines=("nearest",)), True)):
        facts.attributes["labels"] = {"n_labeled": 58_000}
        assert (by_name(KINDS["graph"])[name].cost(replace(facts, bound="least")).least <= 1 << 30) == fits


def test_an_index_that_does_not_fit_is_refused_before_anything_runs():
    facts = graph_facts(1_000_000, 300)
    with pytest.raises(BudgetError, match="an index of"):
        by_name(KINDS["graph"])["models"].cost(facts)


# model.kind: automatic


def automatic_facts(n=50_000, d=50, budget=1 << 30, fraction=0.01, n_labeled=None, **model):
    fields = {"name": "s", "data": {"source": "none.npz", "test": {"count": 100}}, "labels": {"fraction": fraction},
              "graph": {"duplicates": "keep"}, "model": {"kind": "automatic", **model}}
    scan = Scan(n_rows=n, n_columns=d, dtype="float32", target="y", row_bytes=4 * d)
    return Facts(load_spec(fields), budget, scan, {} if n_labeled is None else {"labels": {"n_labeled": n_labeled}})


@pytest.mark.parametrize("name", ["points", "models", "scores"])
@given(n=st.integers(1000, 5_000_000), d=st.integers(1, 3000), fraction=st.sampled_from([1e-4, 0.01, 0.5]))
def test_costs_of_the_automatic_choice_are_whole_and_the_least_is_no_more_than_the_peak(name, n, d, fraction):
    facts = automatic_facts(n, d, 1 << 60, fraction)
    for bound in ("most", "least"):
        cost = by_name(KINDS["automatic"])[name].cost(replace(facts, bound=bound, estimated=set()))
        assert all(isinstance(value, int) and value >= 0 for value in (cost.tasks, cost.read, cost.written, cost.peak))
        assert 0 <= cost.least <= cost.peak


def test_with_many_labels_the_automatic_choice_takes_no_kernels():
    models = by_name(KINDS["automatic"])["models"]
    few, many = (models.cost(automatic_facts(580_000, n_labeled=n)) for n in (1500, 58_000))
    assert many.least <= 1 << 30  # kernels of so many labels would take 400 GB
    unknown = automatic_facts(580_000, fraction=0.1)
    assert models.cost(unknown).peak >= max(few.peak, many.peak)  # whichever it will be
    with pytest.raises(BudgetError, match="an index of"):
        models.cost(automatic_facts(2_000_000, 300))
