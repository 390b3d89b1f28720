"""What stages are predicted to take: every stage, how it grows, and against what tasks take."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssl.base.errors import BudgetError
from dssl.data.readers.base import Scan
from dssl.methods.plan_inputs import Bounded, PlanInputs, guessed_by
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.inputs import plan_inputs
from dssl.pipeline.spec import Spec

from .conftest import by_name

NAMES = KINDS["svm"].names
MB = 1 << 20


@dataclass(frozen=True)
class Planned:
    """A spec, and the inputs of its plan."""

    spec: Spec
    inputs: PlanInputs

    @classmethod
    def of(cls, spec, n, d, budget, attributes=None):
        scan = Scan(n_rows=n, n_columns=d, dtype="float32", target="y", row_bytes=4 * d)
        return cls(spec, plan_inputs(spec, budget, scan, attributes or {}))

    def after(self, **attributes):
        return Planned(self.spec, plan_inputs(self.spec, self.inputs.budget, self.inputs.scan, attributes))

    def cost(self, name, **changes):
        return by_name(KINDS[self.spec.model.kind])[name].cost(replace(self.inputs, **changes), self.spec)

    def estimated(self, name):
        """Return what the cost of a stage follows from and no stage has found."""
        stage = by_name(KINDS[self.spec.model.kind])[name]
        return self.cost(name).guesses | guessed_by(self.inputs, lambda inputs: stage.cost(inputs, self.spec))


def spec_of(**changes):
    fields = {"name": "s", "data": {"source": "none.npz", "test": {"count": 100}}, "labels": {"count": 50},
              "graph": {"n_neighbors": 10, "method": "exact"},
              "solver": {"method": "deflated"}, "model": {"kind": "svm", "n_landmarks": 500}}
    for key, value in changes.items():
        fields[key] = value if key in ("data", "labels") else fields.get(key, {}) | value
    return load_spec(fields)


def planned(n=50_000, d=50, budget=1 << 30, **changes):
    return Planned.of(spec_of(**changes), n, d, budget)


def test_the_source_is_read_again_for_weights_of_labels_unless_all_files_have_them(tmp_path):
    read = {}
    for columns, line in (("row,label", "0,1"), ("row,label,w", "0,1,1")):
        (tmp_path / "told.csv").write_text(f"{columns}\n{line}\n")
        shown = {"given": True, "file": str(tmp_path / "told.csv"), "weight": "w"}
        read[columns] = [planned(labels=shown).cost("labels", bound=bound).read for bound in ("lower", "upper")]
    assert read["row,label"][0] == read["row,label"][1] == read["row,label,w"][1]
    assert read["row,label,w"][1] - read["row,label,w"][0] == 50_000 * 4 * 50


def test_every_stage_has_a_cost_and_a_hint():
    for kind in KINDS.values():
        assert [stage.name for stage in kind.stages if stage.cost is None or not stage.hint] == []


@pytest.mark.parametrize("name", NAMES)
@given(n=st.integers(1000, 5_000_000), d=st.integers(1, 3000), size=st.integers(1, 3000), power=st.integers(1, 6))
def test_costs_are_whole_and_the_least_is_no_more_than_the_peak(name, n, d, size, power):
    plan_of = planned(n, d, budget=1 << 40, model={"n_landmarks": size}, graph={"power": power, "n_neighbors": 10,
                                                                            "method": "exact"})
    cost = plan_of.cost(name)
    assert all(isinstance(value, int) and value >= 0 for value in (cost.tasks, cost.read, cost.written, cost.peak))
    assert 0 <= cost.smallest_peak <= cost.peak


@pytest.mark.parametrize("name", ["split", "graph", "health", "system", "columns"])
def test_more_points_take_more(name):
    small, large = (planned(n, budget=1 << 40).cost(name) for n in (100_000, 1_000_000))
    assert large.peak > small.peak or name in ("graph", "health")  # whose blocks have a fixed height
    assert large.read > 5 * small.read


@pytest.mark.parametrize("name", ["dataset", "points", "neighbors", "columns", "covariance", "scores"])
def test_a_smaller_budget_makes_more_tasks_and_smaller_ones(name):
    sizes = {"model": {"n_landmarks": 2000}, "data": {"source": "none.npz", "test": {"count": 50_000}}}
    large, small = (planned(100_000, 300, budget=budget, **sizes).cost(name)
                    for budget in (4 << 30, 256 * MB))
    assert small.tasks >= large.tasks
    assert small.peak <= large.peak


def test_blocks_never_grow_beyond_the_budget_where_they_follow_it():
    for budget in (200 * MB, 400 * MB, 1 << 30):
        for name in ("columns", "covariance", "scores", "points"):
            cost = planned(200_000, 100, budget=budget).cost(name)
            assert cost.peak <= 1.25 * budget, name


def test_what_a_stage_has_yet_to_find_is_taken_from_above_and_named():
    before = planned(solver={"method": "auto"}, graph={"n_neighbors": 10, "method": "auto"})
    above, below = (before.cost("columns", bound=bound) for bound in ("upper", "lower"))
    assert {"entries of W", "solver"} <= before.estimated("columns")
    after = before.after(vertices={"vertices": 49_900}, graph={"nnz": 700_000}, system={
        "params": {"method": "deflated"}, "stored_bytes": 44 * 49_900 + 12 * 700_000})
    assert after.estimated("columns") == set()
    assert below.smallest_peak <= after.cost("columns").peak <= above.peak


def test_a_cost_names_the_numbers_that_change_it_and_leaves_the_inputs_as_they_are():
    plan_of = planned(graph={"n_neighbors": 10, "duplicates": "collapse", "method": "exact"})
    inputs = replace(plan_of.inputs)
    assert guessed_by(plan_of.inputs, lambda inputs: inputs.nnz + inputs.d) == {"entries of W"}
    assert guessed_by(plan_of.inputs, lambda inputs: max(inputs.n_classes, 100)) == set()
    assert plan_of.estimated("vertices") == set()
    assert plan_of.estimated("neighbors") == {"distinct points"}  # assumed to be as many as the points
    assert plan_of.inputs == inputs


@given(bounds=st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted), bound=st.sampled_from(["upper", "lower"]))
def test_the_other_value_of_a_bounded_number_is_another(bounds, bound):
    number = Bounded(*bounds, "points")
    assert number.other(bound) != number.at(bound)
    assert number.other(bound) in bounds or bounds[0] == bounds[1]
    assert not Bounded.between(bounds[0], bounds[0], "points").what


def test_points_and_labels_of_a_finished_split_are_exact():
    before = planned(data={"source": "none.npz", "test": {"fraction": 0.2}}, labels={"per_class": 7})
    assert "labeled points" in before.estimated("models")
    after = before.after(split={"classes": [0, 1, 2], "n_train": 40_000, "n_test": 10_000}, labels={"n_labeled": 21})
    numbers = after.inputs
    assert (numbers.n, numbers.n_test, numbers.n_labeled, numbers.n_classes) == (40_000, 10_000, 21, 3)
    assert after.estimated("models") == set()


def test_a_given_graph_may_have_fewer_entries_than_lists_would():
    given_weights = planned(graph={"n_neighbors": 10, "given": {"weights": "W.npz"}, "method": "auto"})
    assert given_weights.inputs.entries.lower == 0
    assert planned().inputs.entries.lower > 0


@pytest.mark.parametrize("name", ["columns", "scores", "covariance"])
def test_a_row_that_does_not_fit_is_a_budget_error(name):
    with pytest.raises(BudgetError):
        planned(1_000_000, 100, budget=1 * MB, model={"n_landmarks": 3000}).cost(name)


# model.kind: laprls


def laprls_planned(n=50_000, d=50, budget=1 << 30, **model):
    fields = {"name": "s", "data": {"source": "none.npz", "test": {"count": 100}}, "labels": {"fraction": 0.1},
              "graph": {"duplicates": "keep"}, "model": {"kind": "laprls", "landmarks": {"n_landmarks": 1000}, **model},
              "selection": {"cv": 3, "grid": {"gamma_A": ["10*auto", "100*auto"], "gamma_I": [0.0, "auto"]}}}
    return Planned.of(load_spec(fields), n, d, budget)


def test_kinds_have_costs_and_hints_of_their_own():
    assert by_name(KINDS["laprls"])["models"].cost is not by_name(KINDS["svm"])["models"].cost
    for name in ("landmarks", "models", "scores"):
        assert "model.landmarks.n_landmarks" in by_name(KINDS["laprls"])[name].hint


@pytest.mark.parametrize("name", ["landmarks", "models", "scores"])
@given(n=st.integers(1000, 5_000_000), d=st.integers(1, 3000), count=st.integers(1, 5000),
       solver=st.sampled_from(["auto", "nystrom-direct", "nystrom-pcg", "direct", "pcg", "cg"]),
       method=st.sampled_from(["uniform", "kmeans", "leverage"]))
@pytest.mark.extended_cases("models", "scores")
def test_costs_of_laprls_are_whole_and_the_least_is_no_more_than_the_peak(name, n, d, count, solver, method):
    plan_of = laprls_planned(n, d, 1 << 50, solver=solver, landmarks={"n_landmarks": count, "method": method})
    for bound in ("upper", "lower"):
        cost = plan_of.cost(name, bound=bound)
        assert all(isinstance(value, int) and value >= 0 for value in (cost.tasks, cost.read, cost.written, cost.peak))
        assert 0 <= cost.smallest_peak <= cost.peak


def test_more_landmarks_take_more_and_too_many_do_not_fit():
    few, many = (laprls_planned(landmarks={"n_landmarks": count}).cost("models") for count in (1000, 3000))
    assert many.peak > few.peak
    assert many.written > few.written
    plan_of = laprls_planned(landmarks={"n_landmarks": 40_000}, precision="float64")
    with pytest.raises(BudgetError, match="fewer landmarks"):
        plan_of.cost("models")
    assert laprls_planned(landmarks={"n_landmarks": 6000}).cost("models").smallest_peak > 1 << 30


def test_landmarks_that_were_chosen_are_those_that_count():
    plan_of = laprls_planned(landmarks={"n_landmarks": "auto"})
    assert "landmarks" in plan_of.estimated("scores")
    after = plan_of.after(landmarks={"landmarks": [{"count": 990}]})
    assert after.cost("landmarks").written == 990 * (200 + 8)
    assert "landmarks" not in after.estimated("landmarks")


# model.kind: graph


def graph_planned(n=50_000, d=50, budget=1 << 30, fraction=0.01, baselines=("nearest", "base"), **model):
    fields = {"name": "s", "data": {"source": "none.npz", "test": {"count": 100}}, "labels": {"fraction": fraction},
              "graph": {"duplicates": "keep"}, "model": {"kind": "graph", **model}, "baselines": list(baselines)}
    return Planned.of(load_spec(fields), n, d, budget)


@pytest.mark.parametrize("name", ["vertex_values", "models", "scores"])
@given(n=st.integers(1000, 5_000_000), d=st.integers(1, 3000), fraction=st.sampled_from([1e-4, 0.01, 0.5]),
       learner=st.sampled_from(["ridge", "laplace", "poisson"]))
def test_costs_of_learners_on_the_graph_are_whole_and_the_least_is_no_more_than_the_peak(name, n, d, fraction, learner):
    plan_of = graph_planned(n, d, 1 << 60, fraction, learner=learner)
    for bound in ("upper", "lower"):
        cost = plan_of.cost(name, bound=bound)
        assert all(isinstance(value, int) and value >= 0 for value in (cost.tasks, cost.read, cost.written, cost.peak))
        assert 0 <= cost.smallest_peak <= cost.peak


def test_many_labels_fit_harmonic_functions_and_neither_kernels_nor_the_base_model():
    for name, plan_of, fits in (("vertex_values", graph_planned(580_000, fraction=0.1), False),
                              ("vertex_values", graph_planned(580_000, fraction=0.1, learner="laplace"), True),
                              ("models", graph_planned(300_000, 10, fraction=0.1), False),
                              ("models", graph_planned(300_000, 10, fraction=0.1, baselines=("nearest",)), True)):
        lower = plan_of.after(labels={"n_labeled": 58_000}).cost(name, bound="lower")
        assert (lower.smallest_peak <= 1 << 30) == fits


def test_an_index_that_does_not_fit_is_refused_before_anything_runs():
    plan_of = graph_planned(1_000_000, 300)
    with pytest.raises(BudgetError, match="an index of"):
        plan_of.cost("models")


# model.kind: automatic


def automatic_planned(n=50_000, d=50, budget=1 << 30, fraction=0.01, n_labeled=None, **model):
    fields = {"name": "s", "data": {"source": "none.npz", "test": {"count": 100}}, "labels": {"fraction": fraction},
              "graph": {"duplicates": "keep"}, "model": {"kind": "automatic", **model}}
    attributes = {} if n_labeled is None else {"labels": {"n_labeled": n_labeled}}
    return Planned.of(load_spec(fields), n, d, budget, attributes)


@pytest.mark.parametrize("name", ["points", "models", "scores"])
@given(n=st.integers(1000, 5_000_000), d=st.integers(1, 3000), fraction=st.sampled_from([1e-4, 0.01, 0.5]))
def test_costs_of_the_automatic_choice_are_whole_and_the_least_is_no_more_than_the_peak(name, n, d, fraction):
    plan_of = automatic_planned(n, d, 1 << 60, fraction)
    for bound in ("upper", "lower"):
        cost = plan_of.cost(name, bound=bound)
        assert all(isinstance(value, int) and value >= 0 for value in (cost.tasks, cost.read, cost.written, cost.peak))
        assert 0 <= cost.smallest_peak <= cost.peak


def test_with_many_labels_the_automatic_choice_takes_no_kernels():
    few, many = (automatic_planned(580_000, n_labeled=n).cost("models") for n in (1500, 58_000))
    assert many.smallest_peak <= 1 << 30  # kernels of so many labels would take 400 GB
    unknown = automatic_planned(580_000, fraction=0.1)
    assert unknown.cost("models").peak >= max(few.peak, many.peak)  # whichever it will be
    with pytest.raises(BudgetError, match="an index of"):
        automatic_planned(2_000_000, 300).cost("models")
