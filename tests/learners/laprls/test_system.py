"""What the systems of Nystrom LapRLS are made of: parameters, labels with folds, block heights, rows in order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import BudgetError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.learners.laprls.closed_form import label_features
from dssl.learners.laprls.gram import gram_matrices
from dssl.learners.laprls.params import LabelLines, SystemParams
from dssl.learners.laprls.penalties import Penalties
from dssl.learners.laprls.problem import LapRLSParams
from dssl.learners.laprls.products import block_bytes
from dssl.learners.laprls.system import MIN_BLOCK_ROWS, block_vertices

from .systems import case


@pytest.mark.parametrize(("given_params", "says"), [
    ({"solver": "lu"}, "solver='lu'"), ({"preconditioner": "ilu"}, "preconditioner='ilu'"),
    ({"edges": 0}, "edges=0"), ({"edges": 2.5}, "edges=2.5"), ({"edges": True}, "edges=True"),
    ({"precision": "float16"}, "precision='float16'"), ({"whitening": 0}, "whitening=0"),
    ({"whitening": 1.0}, "whitening=1.0"), ({"whitening": "yes"}, "whitening='yes'"), ({"tol": 0}, "tol=0"),
    ({"max_iter": 0}, "max_iter=0"),
])
def test_parameters_are_checked(given_params, says):
    with pytest.raises(ParameterError, match=says):
        SystemParams(**given_params)


def test_the_cutoff_follows_the_precision():
    assert [SystemParams(precision=p).cutoff for p in ("float64", "float32")] == [1e-10, 1e-6]
    assert SystemParams(whitening=1e-4).cutoff == 1e-4
    assert SystemParams(whitening=None).cutoff is None
    assert [SystemParams(precision=p).itemsize for p in ("float64", "float32", "auto")] == [8, 4, 8]


@pytest.mark.parametrize(("changes", "gamma_A", "n", "precision"), [
    ({}, ("auto", 1e-6), 10_000, "float32"), ({}, ("auto",), 9_999, "float64"), ({}, (9e-8, 1.0), 10_000, "float64"),
    ({}, ("auto", "0.1*auto"), 10_000, "float32"), ({}, ("0.001*auto",), 10_000, "float64"),
    ({"tol": 1e-8}, ("auto",), 10_000, "float64"),
    ({"whitening": 1e-8}, ("auto",), 10_000, "float64"), ({"whitening": None}, ("auto",), 10_000, "float64"),
    ({"solver": "pcg"}, ("auto",), 10_000, "float64"), ({"precision": "float32"}, (1e-9,), 5, "float32"),
    ({"precision": "float64"}, ("auto",), 10_000, "float64")])
def test_the_precision_follows_points_and_penalties(changes, gamma_A, n, precision):
    params = LapRLSParams(gamma_A=gamma_A, system=SystemParams(**changes)).of_points(n, 1000)
    assert params.system.precision == params.system.dtype == precision


def test_label_lines_know_which_folds_are_held():
    lines = LabelLines.of(np.arange(6), np.array([1.0, 2, 3, 4, 5, 6]), np.arange(12.0).reshape(6, 2),
                          [np.array([0, 2]), np.array([5])])
    assert_array_equal(lines.fold, [0, 2, 0, 2, 2, 1])
    assert (lines.n_held_out_folds, lines.n_folds) == (2, 3)
    assert_allclose(lines.intercepts([-1])[0], np.average(lines.target, axis=0, weights=lines.weight))
    assert_allclose(lines.intercepts([1])[0], np.average(lines.target[:5], axis=0, weights=lines.weight[:5]))
    whole = LabelLines.of(np.arange(2), np.ones(2), np.ones((2, 1)), [np.array([0]), np.array([1])])
    assert (whole.n_held_out_folds, whole.n_folds) == (2, 2)


# Blocks


@given(v=st.integers(1, 10**7), s=st.integers(1, 5000), d=st.integers(1, 1000), itemsize=st.sampled_from([4, 8]),
       budget=st.integers(1 << 22, 1 << 34))
def test_blocks_fit_in_half_the_budget_or_are_refused(v, s, d, itemsize, budget):
    each = block_bytes(s, 8 * d, itemsize)
    if budget // 2 < min(MIN_BLOCK_ROWS, v) * each:
        with pytest.raises(BudgetError, match="raise memory_budget"):
            block_vertices(v, s, 8 * d, itemsize, budget)
        return
    height = block_vertices(v, s, 8 * d, itemsize, budget)
    assert min(MIN_BLOCK_ROWS, v) <= height <= v
    assert height * each <= budget // 2


def test_a_budget_that_is_too_small_is_refused_with_its_numbers():
    with pytest.raises(BudgetError, match="4000 landmarks and a budget of 1,000,000 bytes"):
        block_vertices(10_000, 4000, 80, 8, 1_000_000)
    with pytest.raises(BudgetError, match="landmarks and a budget"):
        case(execution=InProcess(1, 1000))


# The system


def test_the_whitened_basis_is_orthonormal_and_lifts_to_the_landmarks():
    system, plain = case().system, case(whitening=None).system
    T, K_ss = system.T, plain.K_ss
    assert system.K_ss is None
    assert_allclose(T.T @ K_ss @ T, np.eye(system.r), atol=1e-7)
    b = np.random.default_rng(0).normal(size=(system.r, 2))
    assert_allclose(system.lift(b), T @ b)
    assert_allclose(system.lower(K_ss @ system.lift(b)), b, atol=1e-7)
    assert_array_equal(system.penalty(), np.eye(system.r))
    assert plain.whitening is None
    assert_array_equal(plain.penalty(), K_ss)
    assert plain.lift(b) is b


GIVEN = np.random.default_rng(9).permutation(120)


@pytest.mark.parametrize("order", [None, GIVEN])
def test_places_are_those_of_the_landmarks(order):
    chosen = np.arange(3, 120, 7)
    system = case(landmarks=chosen, order=order).system
    assert order is None or (system.blocks.order() == order).all()
    assert_array_equal(system.blocks.order()[system.landmark_positions], chosen)
    assert len(system.blocks.ranges) == 8


@pytest.mark.parametrize("order", [None, GIVEN])
def test_gram_matrices_are_symmetric_and_those_of_the_formula(order):
    made = case(c=1, order=order, multiplicity=np.arange(120) % 3 + 1.0)
    Phi = made.K @ made.system.T
    for budget in (1 << 30, 3_000_000):
        found = gram_matrices(made.system, InProcess(2, budget), made.execution.scratch(), points=True, ones=True)
        assert_array_equal(found["energy"], found["energy"].T)
        assert_allclose(found["energy"], Phi.T @ made.E @ Phi, rtol=1e-8, atol=1e-8)
        assert_allclose(found["points"], Phi.T @ Phi, rtol=1e-8, atol=1e-8)
        assert_allclose(found["sums"], Phi.sum(axis=0), rtol=1e-8, atol=1e-8)


def test_right_sides_leave_out_the_held_fold_and_the_mean():
    for fit_intercept in (True, False):
        made = case(fit_intercept=fit_intercept)
        moments = gram_matrices(made.system, made.execution, energy=False, labels=False)["moments"]
        systems = [Penalties(1.0, 0.0), Penalties(1.0, 0.0, 2)]
        rights = made.system.right_sides(moments.sum(axis=0), moments, systems)
        found = zip(systems, rights, made.system.intercepts(systems), strict=True)
        for item, right, mean in found:
            seen = made.lines.fold != item.held_out
            Phi, w, target = (made.K @ made.system.T)[made.lines.row[seen]], made.lines.weight[seen, None], \
                made.lines.target[seen]
            assert_allclose(mean, (w * target).sum(axis=0) / w.sum() if fit_intercept else np.zeros(2))
            assert_allclose(right, Phi.T @ (w * (target - mean)), rtol=1e-8, atol=1e-9)


# The features of labeled points: in the order of their lines, some of which share a point


@pytest.mark.parametrize("whitening", ["auto", None])
@pytest.mark.parametrize("threads", [1, 2])
def test_features_are_those_of_the_points_of_the_lines(whitening, threads):
    made = case(whitening=whitening)
    assert len(np.unique(made.lines.row)) < len(made.lines.row)
    K = made.K[made.lines.row]
    expected = K if made.system.T is None else K @ made.system.T
    found = label_features(made.system, InProcess(threads))
    assert found.dtype == np.float64
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_features_of_float32_are_rounded_alone():
    made, exact = case(precision="float32"), case(whitening=1e-6)
    assert_allclose(label_features(made.system, made.execution), label_features(exact.system, exact.execution),
                    atol=1e-3)


def test_features_that_do_not_fit_are_refused():
    made = case(m=45)
    with pytest.raises(BudgetError, match="45 labels and 20 landmarks"):
        label_features(made.system, InProcess(1, memory_budget=20_000))
