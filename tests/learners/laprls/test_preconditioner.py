"""The preconditioners of Nystrom LapRLS against the paper's, and what sampled edges are worth."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import cho_solve
from sklearn.datasets import load_digits

from dssl.base.errors import DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.kernels.landmarks import Landmarks
from dssl.learners.laprls.iterations import make_preconditioner, sample_shares, sampled_sums
from dssl.learners.laprls.penalties import Penalties
from dssl.solvers.columns import factor_raised
from tests import reference

from .systems import case

PAIR = Penalties(0.3, 0.7)


def made_of(problem, items=(PAIR,), **params):
    """Return the preconditioner of a case with other parameters."""
    system = replace(problem.system, params=replace(problem.system.params, **params))
    return make_preconditioner(system, items, problem.execution)[0]


def exact(problem, item=PAIR):
    """Return the matrix of a system in the basis of its problem, all labels seen."""
    K, T = problem.K, problem.system.lower
    labels, lines = problem.K[problem.lines.row], problem.lines
    H = labels.T @ (lines.weight[:, None] * labels) + item.lambda_A * problem.K_ss + item.lambda_I * K.T @ problem.E @ K
    return T(T(H).T)


def landmark_energy(problem, landmarks):
    return problem.E[np.ix_(landmarks, landmarks)]


# Those of the paper


@pytest.mark.parametrize("whitening", [None, "auto"])
@pytest.mark.parametrize("kind", ["normalized", "unnormalized"])
def test_printed_preconditioners_are_equations_5_and_6(whitening, kind):
    chosen = np.arange(0, 120, 5)
    problem = case(landmarks=chosen, weighted=False, whitening=whitening, kind=kind, kernel=RBF(0.8))
    L_ss, lower = landmark_energy(problem, chosen), problem.system.lower
    K_ms, m = problem.K[problem.lines.row], len(problem.lines.row)
    five = reference.preconditioner_5(K_ms, problem.K_ss, L_ss, 120, PAIR.lambda_A, PAIR.lambda_I)
    six = reference.preconditioner_6(m, problem.K_ss, L_ss, 120, PAIR.lambda_A, PAIR.lambda_I)
    for name, expected in (("paper-5", five), ("paper-6", six)):
        expected = lower(lower(expected).T)
        assert_allclose(made_of(problem, preconditioner=name).matrix(PAIR), expected, rtol=1e-6,
                        atol=1e-7 * np.abs(expected).max())


def test_weights_of_labels_are_repeated_points_in_equations_5_and_6():
    problem = case(whitening=None)
    weight, K_ms = problem.lines.weight, problem.K[problem.lines.row]
    repeated = np.repeat(K_ms, weight.astype(int), axis=0)
    assert_allclose(made_of(problem, preconditioner="paper-5").J, repeated.T @ repeated, rtol=1e-10)
    assert_allclose(made_of(problem, preconditioner="paper-6").J, weight.sum() / 20 * problem.K_ss @ problem.K_ss,
                    rtol=1e-10)


def test_paper_takes_5_for_few_labels_and_6_for_many():
    """m <= sqrt(n) is the switch: 11 labels of 121 points, or 12."""
    for m, name in ((11, "paper-5"), (12, "paper-6")):
        problem = case(121, m=m, c=1)
        assert_array_equal(made_of(problem, preconditioner="paper").J, made_of(problem, preconditioner=name).J)


def test_equal_landmarks_have_equal_rows_in_the_paper():
    chosen = np.concatenate([np.arange(0, 120, 6), [0, 6]])
    problem = case(landmarks=chosen)
    E_ss = problem.system.blocks.submatrix(problem.system.landmark_positions).toarray()
    assert_allclose(E_ss, landmark_energy(problem, chosen), atol=1e-14)


@pytest.mark.parametrize("name", ["paper", "paper-5", "paper-6"])
def test_centers_have_no_edges(name):
    problem = case(landmarks=Landmarks(np.random.default_rng(0).normal(size=(15, 3)), None), preconditioner=name)
    with pytest.raises(ParameterError, match="landmarks that are not points"):
        problem.solve([PAIR], "nystrom-pcg")


# Sampled


def test_all_edges_and_labels_are_the_system_itself():
    """With as many draws as there are edges and labels, one iteration is enough."""
    for whitening in ("auto", None):
        problem = case(whitening=whitening, kernel=RBF(0.7), edges=1000)
        assert_allclose(made_of(problem).matrix(PAIR), exact(problem), rtol=1e-8, atol=1e-8)
        functions = problem.solve([PAIR, Penalties(0.1, 0.0), Penalties(2.0, 5.0)], "nystrom-pcg")
        assert functions.evidence["iterations"] == [1, 1, 1]


@pytest.mark.slow
def test_samples_are_the_system_in_the_mean():
    problem = case(m=60, edges=1, s=12, weighted=False)
    made, exactly = [made_of(problem, random_state=random_state)
                     for random_state in range(100)], made_of(problem, edges=1000)
    for name in ("E", "J"):
        found = np.array([getattr(own, name) for own in made])
        error = found.std(axis=0) / np.sqrt(len(found))
        assert (np.abs(found.mean(axis=0) - getattr(exactly, name)) < 5 * error + 1e-12).all()


def test_the_control_is_sampled_as_a_positive_matrix():
    control = Penalties(0.3, 0.7, control=True)
    problem = case(edges=1000)
    whole = made_of(problem, [control])
    a, b = problem.system.blocks.relabeled_mean
    Phi = problem.K @ problem.system.T
    assert_allclose(whole.control, a * Phi.T @ Phi + b * np.outer(Phi.sum(axis=0), Phi.sum(axis=0)), atol=1e-9)
    assert problem.solve([control], "nystrom-pcg").evidence["iterations"] == [1]
    for random_state in range(20):
        sampled = made_of(problem, [control], edges=1, random_state=random_state)
        assert np.linalg.eigvalsh(sampled.control).min() > -1e-10
        assert_array_equal(sampled.E, 0)
    printed = made_of(problem, [control, PAIR], preconditioner="paper")
    assert_array_equal(printed.control, made_of(problem, [control], preconditioner="edges").control)
    assert np.abs(printed.E).max() > 0


def test_samples_follow_the_seed():
    problem = case(edges=2)
    assert_array_equal(made_of(problem, random_state=1).matrix(PAIR), made_of(problem, random_state=1).matrix(PAIR))
    assert np.abs(made_of(problem, random_state=1).E - made_of(problem, random_state=2).E).max() > 1e-6


@pytest.mark.parametrize("kinds", [["labels", "edges"], ["points"]])
def test_a_sample_is_dealt_to_tasks(kinds):
    """However it is dealt, and to however many threads, it is the same sample; its sums differ by rounding."""
    problem = case(edges=2, m=60)
    assert (sample_shares(20, 4 * 8 * 20 * 20), sample_shares(20, 1 << 30), sample_shares(20, 1)) == (4, 8, 2)
    (two, counts), (one, _), (few, _) = (
        sampled_sums(problem.system, dict.fromkeys(kinds, 40), InProcess(threads, budget))
        for threads, budget in ((2, 1 << 30), (1, 1 << 30), (1, 7000)))
    edges = counts.pop("edges", 40)  # 40 draws, some of them of one edge
    assert 30 < edges <= 40
    assert counts == ({"labels": 40} if "edges" in kinds else {"points": 40})
    for name, matrix in two.items():
        assert_array_equal(matrix, one[name])
        assert_allclose(matrix, few[name], rtol=1e-10, atol=1e-12)


def test_factors_are_shared_by_folds_and_solve_their_own_penalties():
    problem = case()
    items = [PAIR, replace(PAIR, held_out=1), Penalties(1.0, 0.0), replace(PAIR, control=True)]
    made = made_of(problem, items)
    inverses = made.inverses(items)
    assert inverses[0] is inverses[1]
    R = np.random.default_rng(0).normal(size=(problem.system.r, 3))
    for index, item in enumerate(items):
        assert_allclose(made.matrix(item) @ inverses[index](R), R, atol=1e-8)


@pytest.mark.slow
def test_sampled_edges_need_fewer_iterations_than_the_paper():
    """Digits, 1,797 points: 30 to 3 times fewer where the graph matters, never more than one more."""
    X = load_digits().data[:1200] / 16
    problem = case(len(X), 150, 200, 1, X=X, kernel=RBF(1.5), tol=1e-6, max_iter=3000, weighted=False)
    pairs = [Penalties(a, i) for a in (0.1, 1.0) for i in (0.01, 0.1, 1.0)]
    needed = {name: np.array(problem.solve(pairs, "nystrom-pcg", preconditioner=name).evidence["iterations"])
              for name in ("edges", "paper", "none")}
    assert (needed["edges"] <= needed["paper"] + 1).all(), needed
    assert needed["edges"].sum() < 0.5 * needed["paper"].sum(), needed
    assert needed["edges"].sum() < 0.5 * needed["none"].sum(), needed


# Factors


def test_a_factor_is_raised_as_far_as_rounding_asks():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(30, 4))
    A = V @ V.T  # of rank 4
    X = cho_solve(factor_raised(A), V)
    assert_allclose(A @ X, V, atol=1e-4)
    B = A + np.eye(30)
    assert_allclose(cho_solve(factor_raised(B), V), np.linalg.solve(B, V), rtol=1e-10)


@pytest.mark.parametrize(("A", "error", "says"), [
    (-np.eye(3), ParameterError, "not positive definite"),
    (np.diag([1.0, -1e-3]), ParameterError, "not positive definite"),
    (np.array([[1.0, np.nan], [np.nan, 1.0]]), DataError, "NaN"),
    (np.diag([1.0, np.inf]), DataError, "infinite"),
])
def test_what_has_no_factor(A, error, says):
    with pytest.raises(error, match=says):
        factor_raised(A)
