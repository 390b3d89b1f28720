"""Gram matrices and products in blocks against the dense formula, whatever blocks, runs, threads and workers are."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from dssl.execution.exchange.halo_rows import bring_halos
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.execution.tasks import sums
from dssl.kernels.base import RBF, LaplacianKernel
from dssl.kernels.nystrom import times_lower
from dssl.learners.laprls.products import (
    CACHE,
    GRAM_PANEL,
    SUMMED_ROWS,
    GramTask,
    SystemProductTask,
    add_gram,
    add_product,
    block_bytes,
    clear_cache,
    gram_bytes,
    mirror,
    times,
)
from dssl.learners.laprls.solve import HeldOutTask
from dssl.storage.blocks import MemoryParts, write_dense
from dssl.storage.csr import points_of
from dssl.storage.store import StoredParts
from tests.clusters import local_cluster
from tests.memory import traced_peak

from .landmarked import gram, problem

NOTHING, MUCH = 0, 1 << 30  # bytes of kernel blocks that may be kept


@pytest.fixture(autouse=True)
def _forget():
    clear_cache()
    yield
    clear_cache()


@pytest.fixture
def cluster(cluster_client):
    yield OnDask(cluster_client)
    cluster_client.run(clear_cache)


def columns_of(s=12, t=6, random_state=0):
    """Return columns P (s, t) with their penalties and held-out folds; the first two see no graph."""
    rng = np.random.default_rng([9, random_state])
    return {"P": rng.normal(size=(s, t)), "energy": np.array([0.0, 0.0, 0.3, 1.0, 2.0, 0.1])[:t],
            "points": np.array([0.0, 0.7, 0.0, 0.2, 0.0, 0.0])[:t], "held_out": np.array([-1, 0, 1, 2, -1, 0])[:t]}


def product(made, columns, keep=MUCH, n_runs=3, execution=None):
    execution = execution or InProcess(1)
    shared, runs = execution.share(**columns), made.runs(n_runs)
    return execution.reduce(sums([SystemProductTask(made, shared, first, last, keep, home)
                                  for home, (first, last) in enumerate(runs)]))["total"]


def dense_product(dense, columns):
    found = []
    for p, energy, points, held_out in zip(columns["P"].T, columns["energy"], columns["points"], columns["held_out"],
                                           strict=True):
        A = energy * dense.K.T @ dense.E @ dense.K + points * dense.K.T @ dense.K + dense.labels(held_out)
        found.append(A @ p)
    return np.column_stack(found)


def dense_gram(dense, n_folds, T=None):
    Phi = dense.K if T is None else dense.K @ T
    found = {"energy": Phi.T @ dense.E @ Phi, "points": Phi.T @ Phi, "sums": dense.K.sum(axis=0), "labels": [],
             "moments": []}
    for fold in range(n_folds):
        mine = dense.fold == fold
        rows, weight = Phi[dense.position[mine]], dense.weight[mine, None]
        found["labels"].append(rows.T @ (weight * rows))
        found["moments"].append(dense.K[dense.position[mine]].T @ np.hstack([weight * dense.target[mine], weight]))
    return found


# Against the formula


@pytest.mark.parametrize("unit_weights", [False, True])
@pytest.mark.parametrize("whitened", [False, True])
def test_gram_matrices_are_those_of_the_formula(whitened, unit_weights):
    T = np.tril(np.random.default_rng(1).normal(size=(12, 7))) if whitened else None
    made, dense = problem(T=T, unit_weights=unit_weights)
    assert len(np.unique(dense.position)) < len(dense.position), "some vertices have several labels"
    found = gram(made)
    for name, expected in dense_gram(dense, 3, T).items():
        assert_allclose(found[name], expected, rtol=1e-10, atol=1e-10, err_msg=name)


def test_only_what_is_asked_for_is_summed():
    made, dense = problem()
    expected = dense_gram(dense, 3)
    found = gram(made, energy=False, points=False, labels=False, sums=False)
    assert sorted(found) == ["moments", "sums"]
    assert_allclose(found["moments"], expected["moments"], rtol=1e-10)
    found = gram(made, energy=False, points=False, sums=False)
    assert_allclose(found["labels"], expected["labels"], rtol=1e-10, atol=1e-12)


def test_products_are_those_of_the_formula():
    made, dense = problem()
    columns = columns_of()
    assert_allclose(product(made, columns), dense_product(dense, columns), rtol=1e-10, atol=1e-10)


def test_a_problem_without_a_graph():
    made, dense = problem(graph=False)
    columns = columns_of() | {"energy": np.zeros(6)}
    assert_allclose(product(made, columns), dense_product(dense, columns), rtol=1e-10, atol=1e-10)
    assert_array_equal(gram(made)["energy"], 0)


@settings(max_examples=20)
@given(n=st.integers(8, 60), block_rows=st.integers(1, 70), n_runs=st.integers(1, 40), m=st.integers(1, 30),
       threads=st.integers(1, 2), keep=st.sampled_from([NOTHING, 20_000, MUCH]))
def test_nothing_depends_on_blocks_and_runs(n, block_rows, n_runs, m, threads, keep):
    made, dense = problem(n, 5, m, block_rows)
    execution, columns = InProcess(threads), columns_of(5)
    found = gram(made, n_runs, execution)
    for name, expected in dense_gram(dense, 3).items():
        assert_allclose(found[name], expected, rtol=1e-10, atol=1e-10, err_msg=name)
    for _ in range(2):
        assert_allclose(product(made, columns, keep, n_runs, execution), dense_product(dense, columns), rtol=1e-10,
                        atol=1e-10)


@pytest.mark.parametrize("dense_landmarks", [False, True])
def test_sparse_points(dense_landmarks):
    X = sp.random_array((80, 30), density=0.1, format="csr", rng=np.random.default_rng(0))
    made, dense = problem(80, 9, X=X, kernel=RBF(1.0))
    if dense_landmarks:  # as centers are
        made = replace(made, landmarks=InProcess(1).share(Z=points_of(made.landmarks.load(), "Z").toarray()))
    assert made.rows.is_sparse
    assert_allclose(gram(made)["energy"], dense.K.T @ dense.E @ dense.K, rtol=1e-9, atol=1e-10)
    columns = columns_of(9)
    assert_allclose(product(made, columns), dense_product(dense, columns), rtol=1e-9, atol=1e-10)


def test_a_plain_function_is_a_kernel():
    made, dense = problem(kernel=rbf_kernel)
    columns = columns_of()
    assert_allclose(product(made, columns), dense_product(dense, columns), rtol=1e-10, atol=1e-10)
    narrow = gram(replace(made, dtype="float32"))["points"]
    assert narrow.dtype == np.float64
    assert_allclose(narrow, dense.K.T @ dense.K, rtol=2e-6)


@pytest.mark.slow
def test_float32_blocks_cost_seven_digits_of_the_kernel_and_none_of_the_sums():
    """Measured: 1.3e-7 of the largest entry in the Gram form, whose factors are rounded, 4e-8 in the column form."""
    made, dense = problem(5000, 20, 300, 1024, dtype="float32")
    found = gram(made)
    for name, expected in dense_gram(dense, 3).items():
        assert np.abs(found[name] - np.array(expected)).max() < 1e-6 * np.abs(expected).max(), name
    columns = columns_of(20)
    expected = dense_product(dense, columns)
    assert (np.abs(product(made, columns) - expected).max(axis=0) < 1e-6 * np.abs(expected).max(axis=0)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_points_beside_blocks_may_be_brought_to_them(tmp_path, dtype):
    made, _ = problem(dtype=dtype)
    rows, blocks = write_dense(made.rows, StoredParts(tmp_path), "X", 20), made.energy
    near = bring_halos(rows, blocks.parts, len(blocks.ranges), "halo", round(blocks.halo * blocks.n), InProcess(1),
                       few_bytes=0)
    assert near is not None
    brought, found = replace(made, rows=rows, halos=near, token="brought"), gram(made)
    for name, array in gram(brought).items():
        assert_array_equal(array, found[name])
    assert_array_equal(product(brought, columns_of()), product(made, columns_of()))


def test_products_of_float32_are_widened_in_runs():
    rng = np.random.default_rng(0)
    K, P, U = rng.normal(size=(5000, 9)).astype(np.float32), rng.normal(size=(9, 4)), rng.normal(size=(5000, 4))
    wide = K.astype(np.float64)
    assert_allclose(times(K, P), wide @ P, rtol=1e-12, atol=1e-13)
    total = np.ones((9, 4))
    add_product(total, K, U)
    assert_allclose(total, 1 + wide.T @ U, rtol=1e-11, atol=1e-12)
    assert_array_equal(times(wide, P), wide @ P)
    empty = np.zeros((0, 9))
    add_product(total, empty, np.zeros((0, 9)))
    for dtype in (np.float64, np.float32):
        assert times(empty.astype(dtype), P).shape == (0, 4)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("r", [1, 7, GRAM_PANEL, GRAM_PANEL + 1, 2 * GRAM_PANEL + 30])
def test_gram_matrices_are_added_by_panels_above_the_diagonal_and_mirrored(r, dtype, rtol):
    rng = np.random.default_rng(r)
    pieces = [rng.normal(size=(n, r)).astype(dtype) for n in (3, 0, SUMMED_ROWS + 50)]
    total = np.zeros((2, r, r))
    for Phi in pieces:
        add_gram(total[1], Phi)
    mirror(total)
    assert_array_equal(total[1], total[1].T)
    wide = np.concatenate(pieces).astype(np.float64)
    assert_allclose(total[1], wide.T @ wide, rtol=rtol, atol=rtol * len(wide))
    assert not total[0].any()


def test_several_matrices_are_mirrored_without_a_copy():
    total = np.ones((3, 2 * GRAM_PANEL, 2 * GRAM_PANEL))
    assert traced_peak(lambda: mirror(total), 1_000_000) < 1_000_000


def test_points_with_labels_come_fold_by_fold_from_any_blocks():
    """Every line comes once, with its point, as many at a time as a block has."""
    made, _ = problem(60, block_rows=7, graph=False)
    lines, X, first, last = made.labels.load(), made.rows.read_all(), 2, 6
    begin, end = made.energy.ranges[first][0], made.energy.ranges[last - 1][1]
    expected = [index for index, position in enumerate(lines["position"]) if begin <= position < end]
    seen, folds, n_pieces = [], [], 0
    for points, of_points in made.labeled_points(first, last):
        assert 0 < len(points) <= len(of_points["position"]) <= 7
        n_pieces += 1
        folds += of_points["fold"].tolist()
        for row, weight, target, fold in zip(*(of_points[name] for name in ("position", "weight", "target", "fold")),
                                             strict=True):
            index, = [line for line in expected if lines["weight"][line] == weight and line not in seen]
            assert_array_equal(points[row], X[lines["position"][index]])
            assert_array_equal(target, lines["target"][index])
            assert lines["fold"][index] == fold
            seen.append(index)
    assert sorted(seen) == expected
    assert folds == sorted(folds)
    assert n_pieces > 1 < len(set(folds))


@settings(max_examples=20)
@given(s=st.integers(1, 300), n=st.integers(0, 20), data=st.data())
def test_trapezoids_are_multiplied_without_their_zeros(s, n, data):
    r = data.draw(st.integers(1, s))
    rng = np.random.default_rng([s, r])
    K, T = rng.normal(size=(n, s)), np.tril(rng.normal(size=(s, r)))
    assert_allclose(times_lower(K, T), K @ T, rtol=1e-12, atol=1e-12)
    narrow = times_lower(K.astype(np.float32), T.astype(np.float32))
    assert narrow.dtype == np.float32
    assert_allclose(narrow, K @ T, atol=1e-3)


# The same bits


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_threads_and_kept_blocks_do_not_change_a_bit(dtype):
    made, _ = problem(200, dtype=dtype)
    columns = columns_of()
    expected = product(made, columns, NOTHING)
    for keep in (NOTHING, 60_000, MUCH):
        for threads in (1, 2):
            clear_cache()
            for _ in range(2):
                assert_array_equal(product(made, columns, keep, execution=InProcess(threads)), expected)
    one, two = (gram(made, execution=InProcess(threads)) for threads in (1, 2))
    for name, array in one.items():
        assert_array_equal(two[name], array)


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_give_the_bits_of_threads(cluster):
    there, _ = problem(200, execution=cluster)
    here, _ = problem(200)
    columns = columns_of()
    for _ in range(2):
        assert_array_equal(product(there, columns, execution=cluster), product(here, columns))
    found, expected = gram(there, execution=cluster), gram(here)
    for name, array in expected.items():
        assert_array_equal(found[name], array)


# Kept blocks


class CountingRBF(RBF):
    """Counts the rows that it is evaluated at, in this process."""

    rows = 0

    def __call__(self, X, Z, /, dtype=np.float64):
        CountingRBF.rows += X.shape[0]
        return super().__call__(X, Z, dtype)


def counted():
    return CountingRBF.rows


def test_kept_blocks_are_not_evaluated_again():
    made, _ = problem(kernel=CountingRBF(1.3))
    columns, whole = columns_of(), 90 + round(90 * made.energy.halo)
    for keep, then in ((NOTHING, whole), (MUCH, 0)):
        clear_cache()
        CountingRBF.rows = 0
        product(made, columns, keep)
        assert CountingRBF.rows == whole
        product(made, columns, keep)
        assert CountingRBF.rows == whole + then
    product(replace(made, token="another"), columns)
    assert CountingRBF.rows == 2 * whole, "a problem does not find the blocks of another"


def test_no_more_is_kept_than_there_is_room_for():
    made, _ = problem(kernel=CountingRBF(1.3))
    columns, limit = columns_of(), 12_000
    product(made, columns, limit)
    kept = dict(CACHE.blocks)
    assert 0 < len(kept) < len(made.energy.ranges)
    assert sum(block.nbytes for block in kept.values()) == CACHE.nbytes <= limit
    CountingRBF.rows = 0
    product(made, columns, limit)
    assert 0 < CountingRBF.rows < 90 + round(90 * made.energy.halo)
    assert CACHE.blocks == kept, "nothing is evicted"
    clear_cache()
    assert CACHE.blocks == {}


def test_blocks_kept_without_the_graph_do_not_serve_products_with_it():
    made, dense = problem()
    columns = columns_of()
    plain = columns | {"energy": np.zeros(6)}
    for asked in (plain, columns, plain, columns):
        assert_allclose(product(made, asked), dense_product(dense, asked), rtol=1e-10, atol=1e-10)
    assert all(block.with_energy for block in CACHE.blocks.values())
    assert CACHE.nbytes == sum(block.nbytes for block in CACHE.blocks.values())


@pytest.mark.slow
@pytest.mark.cluster
def test_a_second_product_finds_its_blocks_on_the_workers(cluster, cluster_client):
    """Tasks go back to the worker that keeps their blocks, so later products evaluate hardly a kernel.

    One that waits for a busy worker may be given to the other, and is then evaluated there once.
    """
    made, _ = problem(200, kernel=CountingRBF(1.3), execution=cluster)
    columns = columns_of()
    before = sum(cluster_client.run(counted).values())
    first = product(made, columns, n_runs=8, execution=cluster)
    after = cluster_client.run(counted)
    whole = 200 + round(200 * made.energy.halo)
    assert sum(after.values()) - before == whole
    for _ in range(3):
        assert_array_equal(product(made, columns, n_runs=8, execution=cluster), first)
    assert sum(cluster_client.run(counted).values()) - sum(after.values()) <= whole


# Held-out predictions


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_points_are_predicted_by_the_function_of_their_fold(c, dtype):
    made, dense = problem(c=c, n_folds=3, dtype=dtype)
    rng = np.random.default_rng(3)
    B, intercept = rng.normal(size=(2, 12, 4, c)), rng.normal(size=(2, 4, c))  # two folds are held, the third never
    expected = np.full((len(dense.fold), 4, c), np.nan)
    for index, (position, fold) in enumerate(zip(dense.position, dense.fold, strict=True)):
        if fold < 2:
            expected[index] = np.einsum("s,spc->pc", dense.K[position], B[fold]) + intercept[fold]
    for n_runs in (1, 4):
        execution, parts = InProcess(2), MemoryParts()
        shared = execution.share(B=B, intercept=intercept)
        runs = made.runs(n_runs)
        execution.map([HeldOutTask(made, shared, first, last) for first, last in runs], parts)
        found = np.concatenate([parts.read(index)["values"] for index in range(len(runs))])
        tol = 1e-10 if dtype == "float64" else 1e-4
        assert_allclose(found, expected, rtol=tol, atol=tol)


def test_runs_cover_all_blocks_evenly():
    for n_blocks in (2, 5, 31, 32, 33, 100):
        runs = problem(n_blocks, 1, 1, 1, graph=False)[0].runs(32)
        assert [block for first, last in runs for block in range(first, last)] == list(range(n_blocks))
        assert len(runs) == min(n_blocks, 32)
        sizes = {last - first for first, last in runs}
        assert max(sizes) - min(sizes) <= 1


# What products take in memory against the formula, and that they outlive a worker


N, B, S = 9000, 4500, 600  # points, of a block, landmarks
WIDENED = {"float64": 0, "float32": 16 * S * SUMMED_ROWS}


def peak_of(task, upper_bound):
    """Return how far the process grew during one task, bytes: of up to three the first that took less than the most,
    since the first one compiles, and the scheduler of a cluster that another test started may take some for a moment.
    """
    for _ in range(3):
        execution = InProcess(1)
        clear_cache()
        receipt, = execution.map([task], execution.scratch())
        peak = receipt["task_peak_bytes"]
        if peak is None:
            pytest.skip("this system does not tell")
        if peak < upper_bound:
            break
    return peak


@pytest.mark.parametrize(("dtype", "kernel", "whitened"), [
    ("float64", RBF(1.3), True), pytest.param("float32", RBF(1.3), False, marks=pytest.mark.slow),
    pytest.param("float32", LaplacianKernel(1.3), True, marks=pytest.mark.slow)])
@pytest.mark.extended_cases("float32-kernel1-False", "float64-kernel0-True")
def test_gram_matrices_take_the_memory_of_the_formula(dtype, kernel, whitened):
    """Measured: 127 MB of 126, 62 of 72, 78 of 72 + 10."""
    T = np.tril(np.random.default_rng(0).normal(size=(S, S))) / 30 if whitened else None
    made, _ = problem(N, S, 4000, B, dtype=dtype, kernel=kernel, T=T)
    formula = B * block_bytes(S, 24, np.dtype(dtype).itemsize) + gram_bytes(S, 3, True)
    upper_bound = 1.05 * formula + WIDENED[dtype]
    assert 0.5 * formula < peak_of(GramTask(made, 0, 2, True, True, True, True), upper_bound) < upper_bound


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "keep"), [("float64", 0), ("float64", MUCH), ("float32", 0)])
@pytest.mark.extended_cases("float32-0", "float64-1073741824")
def test_columns_take_the_memory_of_the_formula(dtype, keep):
    """Measured: 52 MB of 51, 56 of 55, 39 of 41; kept 48 MB of 48."""
    made, _ = problem(N, S, 4000, B, dtype=dtype)
    execution, itemsize, t = InProcess(1), np.dtype(dtype).itemsize, 40
    columns = {"P": np.ones((S, t)), "energy": np.ones(t), "points": np.zeros(t), "held_out": np.full(t, -1)}
    kernels = itemsize * S * (N + round(N * made.energy.halo) if keep else 2 * B)
    formula = kernels + 8 * t * (5 * B + 3 * S) + WIDENED[dtype]
    upper_bound = 1.1 * formula + (2 << 20)
    task = SystemProductTask(made, execution.share(**columns), 0, 2, keep, 0)
    assert 0.5 * formula < peak_of(task, upper_bound) < upper_bound
    assert (CACHE.nbytes > 0) == (keep > 0)
    assert CACHE.nbytes < 1.1 * kernels


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.extended
def test_a_worker_that_dies_between_products_changes_no_bit():
    """A cluster of its own: the blocks that the dead worker kept are evaluated again elsewhere."""
    columns = columns_of()
    here, _ = problem(200)
    expected = product(here, columns, n_runs=8)
    with local_cluster(2) as client:
        execution = OnDask(client)
        made, _ = problem(200, execution=execution)
        assert_array_equal(product(made, columns, n_runs=8, execution=execution), expected)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        for _ in range(2):
            assert_array_equal(product(made, columns, n_runs=8, execution=execution), expected)
