"""The multi-scale eigen kernel against the paper's formulas, its denominators, its scales, and what is refused."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_moons

from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels import multiscale
from dssl.kernels.multiscale import (
    MIN_FACTOR,
    EigenvaluesTask,
    EigenvectorsTask,
    MultiscaleMap,
    MultiscaleParams,
    landmark_bytes,
    laplacian_of,
    multiscale_map,
    selected_scales,
)
from dssl.storage.blocks import HeldArrays, MemoryParts, PartWriter, budget_beside
from dssl.storage.csr import as_rows
from dssl.storage.store import StoredParts

from .. import reference
from ..memory import traced_peak

NONE = np.arange(0)


def made(X, labeled=NONE, parts=None, execution=None, unit_diagonal=False, **given):
    params = MultiscaleParams(unit_diagonal=unit_diagonal, **given)
    return multiscale_map(as_rows(X), params, labeled, execution or InProcess(1), parts)


@pytest.fixture(scope="module")
def moons():
    return make_moons(40, noise=0.05, random_state=0)[0]


@pytest.fixture(scope="module")
def whole(moons):
    return made(moons, eps_0=1.0)


def test_it_is_the_kernel_of_the_paper(moons, whole):
    """Of indices with sound denominators; the others have the paper's scale too, and its vector."""
    K, chosen = reference.multiscale_kernel(moons, moons, 1.0, 0.9, 1e-6)
    F = whole(moons)
    d = np.stack([np.exp(-reference.squared_distances(moons, moons) / (4 * eps)).sum(1) for eps in whole.scales])
    sound = (1 - whole.values / d[whole.scale].T >= MIN_FACTOR).all(axis=0)
    assert 5 < sound.sum() < len(sound)
    assert_array_equal(np.array(whole.attributes["chosen"])[sound], chosen[sound])
    assert_allclose(F[:, 1:][:, sound] * np.sqrt(whole.values[sound]), whole.vectors[:, sound], atol=1e-8)
    assert_array_equal(whole.attributes["chosen"], chosen)
    whole_sum = 1 + whole.vectors / whole.values @ whole.vectors.T
    assert_allclose(whole_sum, K, rtol=1e-6, atol=1e-6 * np.abs(K).max())


def test_extended_eigenfunctions_are_those_of_equation_5(moons, whole):
    new = make_moons(30, noise=0.05, random_state=1)[0]
    F = whole(new)[:, 1:] * np.sqrt(whole.values)
    compared = 0
    for k, number in enumerate(whole.scale):
        W = np.exp(-reference.squared_distances(new, moons) / (4 * whole.scales[number]))
        d = W.sum(axis=1)
        sound = 1 - whole.values[k] / d >= MIN_FACTOR
        assert_allclose(F[sound, k], (W @ whole.vectors[:, k] / (d - whole.values[k]))[sound], rtol=1e-8, atol=1e-10)
        assert_allclose(F[~sound, k], (W @ whole.vectors[:, k] / (MIN_FACTOR * d))[~sound], rtol=1e-8, atol=1e-10)
        compared += sound.sum()
    assert 0 < compared < F.size
    assert whole.unsound(new) == pytest.approx(1 - compared / F.size)


def test_it_is_symmetric_positive_and_finite_everywhere(moons, whole):
    far = np.array([[1e3, 0.0], [1e8, 1e8], [0.5, 0.2]])
    F = whole(np.concatenate([moons, far]))
    assert np.isfinite(F).all()
    assert np.abs(F[:, 1:]).max() <= np.abs(whole.vectors / np.sqrt(whole.values)).max() / MIN_FACTOR
    assert np.linalg.eigvalsh(F @ F.T).min() > -1e-9 * np.linalg.norm(F) ** 2


def test_a_kernel_of_unit_diagonal_is_the_same_scaled(moons, whole):
    K = whole(moons) @ whole(moons).T
    F = made(moons, eps_0=1.0, unit_diagonal=True)(moons)
    assert_allclose(F @ F.T, K / np.sqrt(np.outer(np.diagonal(K), np.diagonal(K))), atol=1e-10)


def test_a_denominator_that_vanishes_is_told_and_nothing_grows_there(moons, whole):
    """Away from the landmarks the degree falls through every n lambda: the printed form has a pole, ours has none."""
    k = int(np.flatnonzero(whole.values > 0.1)[0])
    eps = whole.scales[whole.scale[k]]
    path = moons[np.abs(whole.vectors[:, k]).argmax()] + np.linspace(0, 20, 4001)[:, None] * [0.0, np.sqrt(eps)]
    W = np.exp(-reference.squared_distances(path, moons) / (4 * eps))
    printed = W @ whole.vectors[:, k] / (W.sum(1) - whole.values[k])
    ours = whole(path)[:, k + 1] * np.sqrt(whole.values[k])
    assert np.nanmax(np.abs(printed)) > 10
    assert np.abs(ours).max() <= 1 / MIN_FACTOR
    assert np.abs(np.diff(ours)).max() < 0.1
    assert whole.unsound(path[-1:]) > 0.9
    assert whole.attributes["unsound"] > 0
    assert 0 < whole.attributes["unsound_share"] < 1


def test_scales_end_at_the_first_below_the_threshold(moons):
    for threshold in (1e-3, 1e-6):
        actual = made(moons, eps_0=1.0, threshold=threshold).attributes
        second = actual["second"]
        assert second[-1] < threshold <= min(second[:-1])
        assert_allclose(actual["scales"], 0.9 ** np.arange(len(second)))
        for j in (0, len(second) - 1):
            L, _ = laplacian_of(moons, actual["scales"][j])
            assert second[j] == pytest.approx(np.linalg.eigvalsh(L)[1], abs=1e-12)


def test_outliers_change_neither_the_scales_nor_the_kernel_of_the_other_points():
    X = make_moons(200, noise=0.05, random_state=0)[0]
    outliers = np.array([[10.0, 0.0], [-20.0, 0.0], [0.0, 40.0], [0.0, -80.0], [160.0, 0.0]])
    alone, actual = made(X, eps_0=1.0, outlier_share=0), made(np.concatenate([X, outliers]), eps_0=1.0)
    assert (actual.attributes["outliers"], actual.attributes["landmarks"]) == (5, 200)
    assert_allclose(actual.attributes["second"], alone.attributes["second"], rtol=1e-6)
    assert_allclose(actual(X) @ actual(X).T, alone(X) @ alone(X).T, rtol=1e-5)
    assert np.isfinite(actual(outliers)).all()
    with pytest.warns(UserWarning, match="lie far from all others"):
        made(np.concatenate([X, outliers]), eps_0=1.0, outlier_share=0)


def test_an_unsound_scale_is_passed_over_for_the_next_best_that_is_sound():
    values = np.array([[0.0, 0.05], [0.0, 0.0499], [0.0, 0.02], [0.0, 0.01]])
    assert selected_scales(values, np.full(4, 10.0), 10)[0].tolist() == [1]
    actual, counts = selected_scales(values, np.array([1.0, 0.9, 0.9, 0.9]), 10)  # n lambda <= 0.45
    assert actual.tolist() == [3]
    assert counts == {"passed_over": 1, "unsound": 0, "dropped": 0}
    actual, counts = selected_scales(values, np.full(4, 0.1), 10)  # none is: the least difference of all
    assert actual.tolist() == [1]
    assert counts == {"passed_over": 0, "unsound": 1, "dropped": 0}


def test_an_eigenvalue_that_is_zero_to_rounding_is_dropped():
    values = np.array([[0.0, 0.1, 0.5], [0.0, 1e-18, 0.4], [0.0, -1e-17, 0.2]])
    actual, counts = selected_scales(values, np.full(3, 100.0), 10)
    assert actual.tolist() == [-1, 1]
    assert counts["dropped"] == 1


def test_degenerate_eigenvalues_have_one_scale_and_the_kernel_their_symmetry():
    """Of a regular polygon the eigenvectors of a pair are any rotation of each other; the kernel is a circulant."""
    angle = 2 * np.pi * np.arange(12) / 12
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    actual = made(X, eps_0=1.0)
    chosen = actual.attributes["chosen"]
    assert [chosen[k] for k in range(0, 10, 2)] == [chosen[k] for k in range(1, 10, 2)]
    K = actual(X) @ actual(X).T
    assert_allclose(np.roll(K, (1, 1), (0, 1)), K, rtol=1e-7)


def test_the_kernel_does_not_depend_on_units_order_or_signs(moons):
    new = make_moons(20, noise=0.05, random_state=1)[0]
    first = made(moons)
    K = first(new) @ first(new).T
    for scaled, other in ((1e6 * moons, 1e6 * new), (moons * 1e-5 + 3e-5, new * 1e-5 + 3e-5)):
        again = made(scaled)
        assert_array_equal(again.attributes["chosen"], first.attributes["chosen"])
        assert_allclose(again(other) @ again(other).T, K, rtol=1e-5)
    order = np.random.default_rng(0).permutation(40)
    again = made(moons[order])
    assert_allclose(again(new) @ again(new).T, K, rtol=1e-6)
    assert (np.take_along_axis(first.vectors, np.abs(first.vectors).argmax(0)[None], 0) > 0).all()


def test_fewer_landmarks_include_the_labeled_points_and_blocks_change_nothing():
    X = make_moons(500, noise=0.1, random_state=0)[0]
    labeled = np.array([3, 77, 400])
    actual = made(X, labeled, n_landmarks=60, outlier_share=0, random_state=1)
    assert actual.points.shape == (60, 2)
    assert all((actual.points == X[number]).all(axis=1).any() for number in labeled)
    rows, numbers = as_rows(X), np.arange(0, 500, 3)
    assert_allclose(actual.of_rows(rows, numbers, 1 << 18), actual.of_rows(rows, numbers, 1 << 30),
                    rtol=1e-9, atol=1e-12)
    assert actual.of_rows(rows, NONE, 1 << 30).shape == (0, actual.width)
    assert actual.width == 60
    assert made(X, labeled, n_landmarks=60, n_eigenpairs=7, random_state=1).width == 8


def test_sparse_points_and_stored_maps_are_the_same(moons, whole):
    thin = made(sparse.csr_array(moons), eps_0=1.0)
    assert_allclose(thin(sparse.csr_array(moons)), whole(moons), atol=1e-6)
    again = MultiscaleMap.of(whole.arrays())
    assert_array_equal(again(moons), whole(moons))


def test_a_killed_run_goes_on_after_the_scales_that_were_done(moons, tmp_path):
    parts = StoredParts(tmp_path / "basis")
    first = made(moons, parts=parts, eps_0=1.0, q=0.6)
    seen = []

    class Counting(InProcess):
        def _run(self, pending, done):
            seen.extend(pending)
            super()._run(pending, done)

    parts.within("vectors").remove()
    again = made(moons, parts=parts, eps_0=1.0, q=0.6, execution=Counting(1))
    assert {type(placed.task) for placed in seen} == {EigenvectorsTask}
    assert_array_equal(again.vectors, first.vectors)


def test_a_first_scale_that_is_too_small_is_told(moons):
    with pytest.warns(UserWarning, match="at the first scale"):
        actual = made(moons, eps_0=1e-4)
    assert len(actual.attributes["scales"]) == 2
    far = np.concatenate([moons, [[1e4, 0.0]]])
    with pytest.warns(UserWarning, match="lie far from all others"):
        assert np.isfinite(made(far)(far)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(moons)


@pytest.mark.parametrize("given", [
    {"eps_0": 0}, {"eps_0": "median"}, {"eps_0": np.nan}, {"q": 1}, {"q": 0}, {"q": "0.9"}, {"threshold": 0},
    {"threshold": 1.5}, {"n_eigenpairs": 0}, {"n_eigenpairs": 1.5}, {"n_landmarks": 1}, {"n_landmarks": True},
    {"outlier_share": 0.6}, {"outlier_share": "none"},
    {"unit_diagonal": "yes"}])
def test_parameters_out_of_range(given):
    with pytest.raises(ParameterError, match=f"{next(iter(given))}="):
        MultiscaleParams(**given)


def test_what_cannot_be_decomposed(moons, monkeypatch):
    monkeypatch.setattr(multiscale, "MAX_SCALES", 20)
    with pytest.raises(DataError, match="NaN"):
        made(np.where(moons > 1.5, np.nan, moons), eps_0=1.0)
    with pytest.warns(UserWarning, match="at the first scale"), pytest.raises(DataError, match=r"larger eps_0"):
        made(moons, eps_0=1e-12)
    with pytest.raises(DataError, match=r"24 scales[\s\S]*smaller q"):
        made(moons[:5], eps_0=1.0, q=1 - 1e-9)
    with pytest.raises(BudgetError, match=r"30 landmarks[\s\S]*n_landmarks=\d+"):
        made(moons, n_landmarks=30, budget=budget_beside(landmark_bytes(20, 2, 19)))
    assert MultiscaleParams(budget=budget_beside(landmark_bytes(20, 2, 19))).count(40, 2) == 20
    assert MultiscaleParams().count(10**6, 2) == 2000


def test_a_task_takes_what_is_predicted():
    X = HeldArrays(points=np.random.default_rng(0).normal(size=(400, 30)))
    expected = landmark_bytes(400, 30, 120)
    for task in (EigenvaluesTask(X, 30.0, 121), EigenvectorsTask(X, 30.0, tuple(range(1, 121)))):
        task(PartWriter(MemoryParts(), 0))
        peak = traced_peak(lambda item=task: item(PartWriter(MemoryParts(), 0)), expected)
        assert peak <= expected
    assert peak > 0.8 * expected  # of vectors
