"""Held-out values from one training against refits without each fold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, StratifiedKFold

from dssl import KNNGraph
from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.kernels.landmarks import LandmarkParams
from dssl.learners.laprls.closed_form import closed_form_flops
from dssl.learners.laprls.params import SystemParams
from dssl.learners.laprls.penalties import Penalties, with_folds
from dssl.learners.laprls.problem import LapRLSParams, LapRLSProblem
from dssl.learners.laprls.solve import least_squares_solver
from dssl.learners.linear.gram import (
    LearnerParams,
    held_out_of_gram,
    held_out_ridge,
    held_out_ridge_of_features,
    training_means,
)
from dssl.learners.losses import Logistic
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.folds import held_out, held_out_folds, labeled_folds
from dssl.storage.blocks import ArrayRows
from tests import reference
from tests.in_pairs import in_pairs
from tests.learners.laprls.systems import case

EXACT = 1e-9  # of the largest value


def refits(N, Y, folds, penalty, weight=None, centered=True):
    """Return the values (m, c) of ridge regression fitted anew without each fold."""
    weight = np.ones(len(Y)) if weight is None else weight
    actual = np.full(Y.shape, np.nan)
    for fold, item in zip(folds, penalty, strict=True):
        kept = np.setdiff1d(np.arange(len(Y)), fold)
        mean = np.average(Y[kept], axis=0, weights=weight[kept]) if centered else np.zeros(Y.shape[1])
        beta = np.linalg.solve(N[np.ix_(kept, kept)] + item * np.diag(1 / weight[kept]), Y[kept] - mean)
        actual[fold] = N[np.ix_(fold, kept)] @ beta + mean
    return actual


def assert_exact(actual, expected, share=EXACT):
    assert_allclose(actual, expected, rtol=0, atol=share * np.nanmax(np.abs(expected)))


def features(m, r, c=2, random_state=0):
    """Return Phi (m, r), targets (m, c) far from 0, and weights (m,)."""
    rng = np.random.default_rng([random_state, m, r])
    return rng.normal(size=(m, r)), rng.normal(size=(m, c)) + 5, rng.uniform(0.2, 4, m)


def dealt(m, n_folds, random_state=0, n_in_no_fold=0):
    """Return folds of unequal sizes; some points are in none."""
    rng = np.random.default_rng(random_state)
    number = rng.integers(0, n_folds, m)
    number[rng.choice(m, n_in_no_fold, replace=False)] = n_folds
    return [np.flatnonzero(number == fold) for fold in range(n_folds)]


# Plain ridge


@in_pairs({
    "centered": [True, False],
    "weighted": [True, False],
    "penalties": ["one", "two", "of each fold", "a grid"],
    "m, r": [(40, 60), (60, 12), (30, 30)]})
def test_held_out_values_are_those_of_refits(m, r, penalties, weighted, centered):
    """Folds of unequal sizes, one of which may hold more points than there are features; some points are in none."""
    Phi, Y, weight = features(m, r)
    weight = weight if weighted else None
    folds = dealt(m, 5, n_in_no_fold=4)
    folds = [np.concatenate(folds[:2]), *folds[2:]] if m == 60 else folds
    assert m != 60 or len(folds[0]) > r
    F = len(folds)
    penalty = {"one": np.full(F, 0.7), "two": np.where(np.arange(F) % 2, 0.3, 2.0), "of each fold": 0.1 + np.arange(F),
               "a grid": np.logspace(-2, 2, 30)[:, None] * (1 + np.arange(F))}[penalties]
    N = Phi @ Phi.T
    for actual in (held_out_ridge(N, Y, folds, penalty, weight, centered),
                  held_out_ridge_of_features(Phi, Y, folds, penalty, weight, centered)):
        assert actual.shape == (*penalty.shape[:-1], m, 2)
        for item, lambdas in zip(actual.reshape(-1, m, 2), penalty.reshape(-1, F), strict=True):
            assert_exact(item, refits(N, Y, folds, lambdas, weight, centered))


@pytest.mark.parametrize(("splitter", "n"), [
    (LeaveOneOut(), 30), (KFold(4), 4), (StratifiedKFold(3), 3), (5, 5)])
@pytest.mark.parametrize("r", [50, 6])
def test_folds_of_any_splitter(splitter, n, r):
    Phi, Y, weight = features(30, r)
    target = Classes(np.arange(30), np.arange(30) % 2, np.array(["a", "b"]))
    folds, = held_out_folds(splitter, target)
    assert len(folds) == n
    for item in (weight, None):
        assert_exact(held_out_ridge_of_features(Phi, Y, folds, np.full(n, 0.5), item),
                     refits(Phi @ Phi.T, Y, folds, np.full(n, 0.5), item))


def test_groups_are_held_out_whole():
    Phi, Y, _ = features(30, 8)
    groups = np.random.default_rng(0).integers(0, 7, 30)
    folds = [test for _, test in GroupKFold(4).split(Phi, Y, groups)]
    assert all(not set(groups[fold]) & set(np.delete(groups, fold)) for fold in folds)
    assert_exact(held_out_ridge_of_features(Phi, Y, folds, np.full(4, 0.5)),
                 refits(Phi @ Phi.T, Y, folds, np.full(4, 0.5)))


def test_leave_one_out_with_a_penalty_for_each_point():
    """As it is where the penalty is against the mean loss and labels have weights."""
    for r in (40, 5):
        Phi, Y, weight = features(25, r)
        folds, penalty = [np.array([i]) for i in range(25)], 0.01 * (weight.sum() - weight)
        assert_exact(held_out_ridge_of_features(Phi, Y, folds, penalty, weight),
                     refits(Phi @ Phi.T, Y, folds, penalty, weight))


@given(m=st.integers(4, 30), r=st.integers(1, 30), n_folds=st.integers(2, 8), random_state=st.integers(0, 2**20),
       size=st.sampled_from([1e-6, 1.0, 1e6]), weighted=st.booleans(), centered=st.booleans())
def test_the_size_of_weights_and_penalties_changes_nothing(m, r, n_folds, random_state, size, weighted, centered):
    """The same points with all weights, and the penalties with them, times a number are the same function."""
    Phi, Y, weight = features(m, r, random_state=random_state)
    weight = weight if weighted else np.ones(m)
    folds = [fold for fold in dealt(m, n_folds, random_state, n_in_no_fold=1) if len(fold)]
    if not folds:
        return
    penalty = np.random.default_rng(random_state).choice([0.3, 1.0], len(folds))
    actual = held_out_ridge_of_features(Phi, Y, folds, size * penalty, size * weight, centered)
    assert_exact(actual, refits(Phi @ Phi.T, Y, folds, penalty, weight, centered))
    assert (np.isfinite(actual).all(axis=1) == np.isin(np.arange(m), np.concatenate(folds))).all()


def test_weights_that_differ_by_orders_of_magnitude():
    Phi, Y, _ = features(24, 40)
    weight = np.logspace(-6, 6, 24)
    folds = dealt(24, 4)
    assert_exact(held_out_ridge(Phi @ Phi.T, Y, folds, np.full(4, 3.0), weight),
                 refits(Phi @ Phi.T, Y, folds, np.full(4, 3.0), weight), 1e-7)
    assert_exact(training_means(Y, folds, weight), [np.average(
        np.delete(Y, fold, axis=0), axis=0, weights=np.delete(weight, fold)) for fold in folds], 1e-14)


@pytest.mark.parametrize(("penalty", "share"), [(1e-3, EXACT), (1e-8, 1e-6), (1e-17, 1.0)])
def test_kernels_that_are_nearly_singular(penalty, share):
    """A wide RBF kernel of points that come twice; where the penalty is below rounding values are numbers still."""
    X = np.repeat(np.random.default_rng(0).normal(size=(15, 2)), 2, axis=0)
    N, Y = RBF(5.0)(X, X), np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    folds = [np.arange(start, start + 6) for start in range(0, 30, 6)]
    actual = held_out_ridge(N, Y, folds, np.full(5, penalty))
    assert_exact(actual, refits(N, Y, folds, np.full(5, max(penalty, 1e-12))), share)
    assert np.isfinite(actual).all()


def test_a_fold_that_alone_determines_a_direction_is_fitted_anew():
    """1 - leverage is 1e-10 there, of which the primal form would have lost ten digits."""
    Phi, Y, _ = features(40, 6)
    Phi[:8, 5], Phi[8:, 5] = 1e3, 0
    folds = [np.arange(start, start + 4) for start in range(0, 40, 4)]
    folds = [np.arange(8), *folds[2:]]
    penalty = np.full(len(folds), 1e-3)
    assert_exact(held_out_ridge_of_features(Phi, Y, folds, penalty), refits(Phi @ Phi.T, Y, folds, penalty), 1e-7)


def test_negative_kernels_are_refused():
    N = np.diag(np.append(np.ones(9), -1.0))
    for count in (1, 40):
        with pytest.raises(DataError, match="not positive definite"):
            held_out_ridge(N, np.ones((10, 1)), [np.arange(5), np.arange(5, 10)], np.full((count, 2), 0.5)
                           * np.linspace(0.5, 1, count)[:, None])


def test_values_that_are_no_numbers_are_refused():
    with pytest.raises(DataError, match="not finite"):
        held_out_ridge(np.eye(4), np.array([[1.0], [np.nan], [0.0], [1.0]]), [np.arange(2), np.arange(2, 4)],
                       np.ones(2))


# Ridge on a Gram matrix, as `LapKernelRidge` fits it


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kind", ["classes", "quantities"])
def test_ridge_on_a_gram_matrix_for_every_C(kind, weighted):
    """The scale is the mean diagonal of the kept points, so that each fold has its own penalty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    K = RBF(1.5)(X, X) * np.outer(1 + X[:, 0] ** 2, 1 + X[:, 0] ** 2)
    target = (Classes(np.arange(40), np.arange(40) % 3, np.array(["a", "b", "c"])) if kind == "classes" else
              Quantities(np.arange(40), np.column_stack([X[:, 0], X[:, 1] ** 2]) + 3))
    weight = rng.uniform(0.5, 3, 40) if weighted else None
    folds, Cs = labeled_folds(target.strata(), 4, 0), [0.1, 1.0, 30.0, 1e4]
    actual = held_out_of_gram(K, target, folds, Cs, weight)
    for C, values in zip(Cs, actual, strict=True):
        expected, _ = held_out([K] * 4, target, folds, LearnerParams(kind="ridge", C=C), weight)
        assert_exact(values, expected)


def gram_of(kind, X):
    """Return the Gram matrix of some points in a kernel that knows of the graph of all, or does not."""
    base, labeled = RBF(1.5)(X, X), np.arange(0, len(X), 2)
    Q = reference.regularizer(reference.laplacian(reference.knn_weights(X, 5)), 2, 0.1)
    K = {"base": base, "deformed": reference.deformed_gram(base, 3.0 * Q),
         "graph": reference.pseudo_inverse(Q)}[kind]
    return ((K + K.T) / 2)[np.ix_(labeled, labeled)]


@in_pairs({
    "weighted": [True, False],
    "folds": ["five", "leave_one_out", "groups"],
    "kind": ["base", "deformed", "graph"]})
def test_ridge_in_kernels_of_a_graph(kind, folds, weighted):
    """Where the kernel is that of all points, whatever is held out: points that are held out stay in its graph."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    K, target = gram_of(kind, X), Quantities(np.arange(40), np.column_stack([X[::2, 0], X[::2, 1] ** 2]) + 3)
    groups = rng.integers(0, 8, 40)
    held = {"five": labeled_folds(target.strata(), 5, 0), "leave_one_out": [np.array([i]) for i in range(40)],
            "groups": [test for _, test in GroupKFold(4).split(K, groups=groups)]}[folds]
    weight, Cs = rng.uniform(0.5, 3, 40) if weighted else None, [0.1, 10.0]
    for C, values in zip(Cs, held_out_of_gram(K, target, held, Cs, weight), strict=True):
        expected, _ = held_out([K] * len(held), target, held, LearnerParams(kind="ridge", C=C), weight)
        assert_exact(values, expected)


def test_a_fold_without_which_a_class_has_no_label_is_refused():
    target = Classes(np.arange(6), np.array([0, 0, 0, 1, 1, 1]), np.array(["a", "b"]))
    with pytest.raises(DataError, match="1 of 2 classes"):
        held_out_of_gram(np.eye(6), target, [np.arange(3), np.arange(3, 6)], [1.0])
    with pytest.raises(ParameterError, match="mean diagonal 0"):
        held_out_of_gram(np.diag([1.0, 0, 0, 1, 0, 0]), target, [np.array([0, 3]), np.array([1, 4])], [1.0])


# LapRLS

GRID = {"gamma_A": (0.001, 0.01, 0.1), "gamma_I": (0.0, 1.0, 10.0, 100.0)}  # equal steps: ratios repeat


def laprls(folds, m=40, n=150, s=25, weighted=True, copies=False, laplacian="normalized", fit_intercept=True,
           classes=False, random_state=0, **grid):
    """Return a function that holds out the folds of a problem by a solver and a method: values (m, c) of each pair."""
    rng = np.random.default_rng([random_state, n, m])
    X = rng.normal(size=(n, 2))
    X[n // 2:] = X[:n - n // 2] if copies else X[n // 2:]
    labeled = rng.choice(n, m, replace=False)
    target = (Classes(labeled, np.arange(m) % 3, np.array(["a", "b", "c"])) if classes else
              Quantities(labeled, np.column_stack([np.sin(2 * X[labeled, 0]), X[labeled, 1]]) + 4))
    rows, execution = ArrayRows(X), InProcess(2)
    graph = KNNGraph(n_neighbors=5).build(X)
    weight = rng.uniform(0.3, 3, m) if weighted else None

    def values(held_out, solver="nystrom-direct", kernel=None, **system):
        params = LapRLSParams(**(GRID | grid), landmarks=LandmarkParams(n_landmarks=s),
                              system=SystemParams(solver=solver, laplacian=laplacian, held_out=held_out, **system),
                              fit_intercept=fit_intercept)
        problem = LapRLSProblem.of(rows, target, params, execution, graph=graph, weight=weight, folds=folds)
        prepared = problem.prepared(kernel or RBF(0.8), execution, held_out=True)
        actual = list(prepared.held_out())
        assert [pair for pair, _ in actual] == problem.all_candidates
        assert prepared.evidence["held_out"] == {"method": held_out, "held_out_points": "transductive"}
        return np.array([item for _, item in actual])

    return values


def assert_same_values(actual, expected, share=EXACT):
    assert len(actual) == len(expected)
    for item, other in zip(actual, expected, strict=True):
        assert_exact(item, other, share)


@in_pairs({
    "laplacian": ["normalized", "unnormalized"],
    "copies": [False, True],
    "m, s": [(24, 60), (90, 15)],
    "whitening": ["auto", None]})
def test_laprls_of_landmarks(m, s, copies, laplacian, whitening):
    """More features than labels, and fewer; folds of unequal sizes and weights, one beyond the number of landmarks."""
    folds = dealt(m, 4, n_in_no_fold=3)
    folds = [np.concatenate(folds[:2]), *folds[2:]]
    assert m < s or len(folds[0]) > s
    values = laprls(folds, m, s=s, copies=copies, laplacian=laplacian)
    item = {"whitening": whitening, "kernel": RBF(0.3)}
    actual = values("closed_form", **item)
    assert np.isnan(actual).any(axis=2).sum(axis=1).tolist() == [3] * len(actual)
    assert_same_values(actual, values("refit", **item), EXACT if whitening else 1e-7)


@in_pairs({"fit_intercept": [True, False], "weighted": [True, False], "solver": ["nystrom-direct", "direct"]})
def test_laprls_with_and_without_intercept_and_weights(solver, weighted, fit_intercept):
    values = laprls(dealt(40, 5, n_in_no_fold=2), weighted=weighted, fit_intercept=fit_intercept, classes=True)
    assert_same_values(values("closed_form", solver), values("refit", solver))


@pytest.mark.parametrize("laplacian", ["normalized", "unnormalized"])
@pytest.mark.parametrize("copies", [False, True])
def test_laprls_on_all_points(copies, laplacian):
    values = laprls(dealt(40, 5), copies=copies, laplacian=laplacian)
    assert_same_values(values("closed_form", "direct"), values("refit", "direct"))


@pytest.mark.parametrize("gamma_I", [(0.0,), (1.0,), tuple(np.logspace(-3, 3, 40).tolist())])
def test_laprls_with_any_number_of_ratios(gamma_I):
    """None of the graph; one, by a Cholesky factor; and forty, in the eigenbasis of the energy."""
    for m, s in ((30, 20), (20, 30)):
        values = laprls(dealt(m, 4), m, s=s, gamma_I=gamma_I, gamma_A=(0.01, 0.5))
        assert_same_values(values("closed_form"), values("refit"))


def test_the_control_and_penalties_of_the_paper():
    """Beside pairs of the graph: each has an energy of its own. The paper's penalties do not depend on the fold."""
    pairs = [Penalties(0.3, 0.4), Penalties(0.3, 0.4, control=True), Penalties(0.6, 0.8), Penalties(0.5, 0.0),
             Penalties(0.1, 2.0, control=True)]
    actual = []
    for method in ("closed_form", "refit"):
        made = case(held_out=method, solver="nystrom-direct")
        solver = least_squares_solver(made.system, pairs, made.execution, held_out=pairs)
        assert solver.held_out_method == method
        actual.append(np.concatenate(list(solver.held_out(with_folds(pairs, 3))), axis=1).swapaxes(0, 1))
    assert_same_values(*actual)


def test_laprls_in_float32_is_as_exact_as_its_kernel():
    values = laprls(dealt(40, 5), gamma_A=(0.1,))
    assert_same_values(values("closed_form", precision="float32"), values("refit", precision="float32"), 1e-4)


def test_auto_refits_where_that_costs_less_and_the_closed_form_is_refused_where_there_is_none():
    many, few = SystemParams(), SystemParams(held_out="closed_form")
    assert closed_form_flops(many, 1000, 300, 20, 81, 1 << 30) is not None
    assert closed_form_flops(many, 500, 20_000, 2, 81, 1 << 30) is None, "40 times as many labels as landmarks"
    assert closed_form_flops(many, 500, 20_000, 500, 81, 1 << 30) is not None, "Gram matrices of 500 folds do not fit"
    assert closed_form_flops(SystemParams(held_out="refit"), 1000, 300, 20, 81, 1 << 30) is None
    with pytest.raises(BudgetError, match="20,000 labels"):
        closed_form_flops(few, 5000, 20_000, 2, 81, 1 << 30)
    for solver in ("nystrom-pcg", "nystrom-cg", "pcg", "cg"):
        with pytest.raises(ParameterError, match='use solver "nystrom-direct"'):
            SystemParams(held_out="closed_form", solver=solver)
    with pytest.raises(ParameterError, match="the squared loss alone"):
        LapRLSParams(system=few, loss=Logistic())
    with pytest.raises(ParameterError, match="held_out='bif'"):
        SystemParams(held_out="bif")
    values = laprls(dealt(40, 5), s=100, gamma_A=(0.1,), gamma_I=(1.0,))
    with pytest.raises(ParameterError, match="without whitening"):
        values("closed_form", whitening=None, kernel=RBF(20.0))
