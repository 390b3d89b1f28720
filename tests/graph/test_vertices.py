"""Equal rows as vertices: against a dictionary of rows, and the regularizer against that of the graph of all points."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import BudgetError, DataError
from dssl.execution.in_process import InProcess
from dssl.graph import equal_rows as module
from dssl.graph.equal_rows import hash_rows
from dssl.graph.laplacian import Laplacian
from dssl.graph.vertices import (
    VertexRows,
    Vertices,
    covariance_at_points,
    distinct_rows,
    find_vertex_rows,
    find_vertices,
)
from dssl.graph.weights.build import weights
from dssl.kernels.landmark_inverse import inverse_at_landmarks
from dssl.knn.search import NeighborParams, find_neighbors, neighbors
from dssl.solvers.solver_params import SolverParams
from dssl.storage.blocks import ArrayRows, MemoryParts, PartWriter, write_dense
from dssl.storage.csr import CsrRows, csr_arrays
from dssl.storage.store import StoredParts
from dssl.storage.views import BlockedCsrRows
from tests import reference
from tests.memory import run_traced


def by_dictionary(X):
    """Return (vertex, first, multiplicity) by looking each row up; -0.0 equals 0.0."""
    seen: dict[tuple, int] = {}
    vertex, first = [], []
    for number, row in enumerate(np.asarray(X).tolist()):
        key = tuple(value + 0.0 for value in row)
        if key not in seen:
            seen[key] = len(first)
            first.append(number)
        vertex.append(seen[key])
    return np.array(vertex), np.array(first), np.bincount(vertex)


def check(found, X):
    vertex, first, multiplicity = by_dictionary(X)
    assert_array_equal(found.vertex, vertex)
    assert_array_equal(found.first, first)
    assert_array_equal(found.multiplicity, multiplicity)
    assert {array.dtype for array in (found.vertex, found.first, found.multiplicity)} == {np.dtype(np.int64)}


def with_copies(v=12, d=3, max_multiplicity=4, random_state=0):
    """Return (X (n, d), P (n, v)): v distinct points, point i in 1 to `most` copies, shuffled."""
    rng = np.random.default_rng(random_state)
    vertex = rng.permutation(np.repeat(np.arange(v), rng.integers(1, max_multiplicity + 1, size=v)))
    return rng.normal(size=(v, d))[vertex], np.eye(v)[vertex]


@pytest.mark.slow
@given(st.data())
@settings(max_examples=25, deadline=None)
def test_vertices_are_the_distinct_rows(data):
    n, d = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 4))
    values = st.sampled_from([0.0, -0.0, 1.5, -1.5, 3.0])
    X = np.array(data.draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n)))
    X = X.astype(data.draw(st.sampled_from([np.float32, np.float64, np.float16, np.longdouble])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_BYTES", data.draw(st.sampled_from([1, 500, 1 << 20])))
        budget = data.draw(st.sampled_from([1000, 1 << 30]))  # of several buckets, or one
        check(find_vertices(ArrayRows(X), InProcess(data.draw(st.integers(1, 3)), budget)), X)
        check(find_vertices(CsrRows(sp.csr_array(X.astype(np.float64))), InProcess(1, budget)), X)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, bool, np.float32])
def test_every_dtype_and_memory_order(dtype):
    X = np.random.default_rng(1).integers(0, 2, size=(60, 5)).astype(dtype)
    check(find_vertices(ArrayRows(np.asfortranarray(X)), InProcess(1)), X)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_equal_hashes_are_not_taken_for_equal_rows(form, monkeypatch):
    """With one hash for all, every row is compared."""
    X = np.random.default_rng(2).integers(0, 3, size=(70, 2)).astype(float)
    monkeypatch.setattr(module, "hash_rows", lambda block, first=0: np.full(block.shape[0], 7, np.uint64))
    monkeypatch.setattr(module, "BLOCK_BYTES", 2000)
    rows = ArrayRows(X) if form == "dense" else CsrRows(sp.csr_array(X))
    check(find_vertices(rows, InProcess(2)), X)


def test_hashes_part_rows_that_hardly_differ():
    """Single bits, signs, swapped columns and shifted columns of 4,000 rows."""
    X = np.random.default_rng(3).normal(size=(1000, 2))
    near = np.concatenate([X, -X, X[:, ::-1], np.nextafter(X, 9)])
    assert len(np.unique(hash_rows(near))) == 4000
    bits = np.concatenate([1 << np.arange(63), [0]]).astype(np.int64)
    pairs = np.stack(np.meshgrid(bits, bits), axis=-1).reshape(-1, 2)
    assert len(np.unique(hash_rows(pairs))) == 4096
    matrix = sp.csr_array(pairs)
    assert len(np.unique(hash_rows(matrix))) == 4096


def test_stored_zeros_of_sparse_rows_do_not_count():
    data, indices = np.array([1.0, 0.0, 1.0, -0.0, 1.0]), np.array([0, 1, 0, 2, 2])
    matrix = sp.csr_array((data, indices, np.array([0, 2, 3, 5])), shape=(3, 3))
    assert_array_equal(find_vertices(CsrRows(matrix), InProcess(1)).vertex, [0, 0, 1])


def test_stored_rows_and_blocks_of_sparse_rows(tmp_path):
    X = np.random.default_rng(4).integers(0, 2, size=(90, 6)).astype(np.float32)
    parts = StoredParts(tmp_path)
    parts.allocate("X", X.shape, X.dtype, 16)
    parts.write_range(0, {"X": X})
    check(find_vertices(parts.rows("X"), InProcess(2), parts.within("hashes")), X)
    held = MemoryParts()
    for number, start in enumerate(range(0, 90, 20)):
        PartWriter(held, number).write(**csr_arrays(sp.csr_array(X[start:start + 20])))
    sparse_rows = BlockedCsrRows(held, X.shape, X.dtype, 20, int((X != 0).sum()))
    found = find_vertices(sparse_rows, InProcess(2))
    check(found, X)
    chosen = distinct_rows(sparse_rows, found, InProcess(1))
    assert chosen.is_sparse
    assert_array_equal(chosen.read_all().toarray(), X[found.first])


def test_rows_without_copies_are_read_as_they_are():
    rows = ArrayRows(np.arange(12.0).reshape(6, 2))
    found = find_vertices(rows, InProcess(1))
    assert not found.joined
    assert distinct_rows(rows, found, InProcess(1)) is rows
    for name, array in Vertices.distinct(6).to_arrays().items():
        assert_array_equal(array, found.to_arrays()[name])
    again = Vertices.from_arrays(found.to_arrays())
    assert again.attributes == {"n": 6, "vertices": 6, "largest_multiplicity": 1, "copied_points": 0}


def test_vertices_of_rows_keep_their_order_and_come_once():
    found = Vertices(np.array([0, 1, 0, 2, 1]), np.array([0, 1, 3]), np.array([2, 2, 1]))
    assert_array_equal(found.of(np.array([4, 2, 1, 0])), [1, 0])
    assert found.attributes["copied_points"] == 4
    assert_array_equal(found.rows_of(np.array([2, 1, 0]), np.array([4, 2, 0])), [3, 4, 2])


@pytest.mark.parametrize("copies", [False, True])
def test_no_task_and_no_driver_holds_more_than_the_budget(tmp_path, copies):
    """20,000 rows within 1 MiB; of the copies half are one row, in every block."""
    rng, parts = np.random.default_rng(5), StoredParts(tmp_path / "found")
    X = rng.normal(size=(20_000, 4)).astype(np.float32)
    if copies:
        X[rng.integers(0, 20_000, 3000)] = X[0]
        X[rng.integers(0, 20_000, 3000)] = X[rng.integers(0, 20_000, 3000)]
    rows = write_dense(ArrayRows(X), StoredParts(tmp_path / "X"), "rows", 8192)
    execution, found = run_traced(
        tmp_path, 1 << 20, lambda execution: find_vertex_rows(rows, execution, parts), 2 << 20)
    assert set(execution.tasks) == ({"HashTask", "SuspectTask", "ContentTask", "MatchTask", "FirstsTask", "NumberTask",
                                  "VertexTask"} if copies else {"HashTask", "SuspectTask"})
    assert max(execution.tasks.values()) <= execution.memory_budget
    assert execution.driver <= 2 * execution.memory_budget  # Zarr's own description of an array takes most of it
    check(found.load(), X)
    assert found.attributes == found.load().attributes
    again = VertexRows.of(parts, found.attributes)
    ids = np.array([19_999, 3, 3])
    assert_array_equal(again.vertex_of(ids), found.load().vertex[ids])
    assert_array_equal(again.distinct(rows).read_all(), X[found.load().first])
    assert not [path for path in parts.folder.rglob("*") if path.is_file()] or copies


def test_errors():
    with pytest.raises(DataError, match="row 0 on hold NaN"):
        find_vertices(ArrayRows(np.array([[1.0], [np.nan]])), InProcess(1))
    with pytest.raises(DataError, match="shape"):
        find_vertices(ArrayRows(np.zeros(3)), InProcess(1))
    with pytest.raises(BudgetError):
        find_vertices(ArrayRows(np.zeros((3, 9))), InProcess(1, memory_budget=300))


# What duplicates no longer do


@given(v=st.integers(4, 20), random_state=st.integers(0, 99), data=st.data())
@settings(max_examples=20, deadline=None)
def test_copies_of_a_point_change_no_list(v, random_state, data):
    """Whatever the copies, their number and their order: the lists between distinct points stay."""
    rng = np.random.default_rng(random_state)
    X, k = rng.normal(size=(v, 2)), data.draw(st.integers(1, v - 1))
    copied = np.concatenate([X, np.repeat(X[rng.integers(0, v, 3)], rng.integers(1, 9), axis=0)])
    copied = copied[rng.permutation(len(copied))]
    found = find_vertices(ArrayRows(copied), InProcess(1))
    chosen = distinct_rows(ArrayRows(copied), found, InProcess(1))
    ids = find_neighbors(chosen, NeighborParams(n_neighbors=k), InProcess(1)).indices
    points = chosen.read_all()
    order = np.lexsort(X.T[::-1])
    mine = np.lexsort(points.T[::-1])
    expected = neighbors(X[order], k).indices
    place = np.empty(v, int)
    place[mine] = np.arange(v)
    assert_array_equal(place[ids[mine]], expected)
    assert found.multiplicity.sum() == len(copied)


# The regularizer


def dense_point_graph(X, P, k, normalized):
    """Return (L of all points with copies joined as their vertices are, W of the vertices)."""
    first = P.argmax(axis=0)
    W = reference.knn_weights(X[first], k + 1, bandwidth=1.0)
    joined = P @ W @ P.T
    return (reference.normalized_laplacian if normalized else reference.laplacian)(joined), W


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("normalized", [False, True])
def test_the_covariance_is_that_of_the_graph_of_all_points(normalized, power):
    """On functions that are equal on copies: Q^+ of the projection Pi Q Pi, at one point of each vertex."""
    X, P = with_copies(random_state=6)
    L, W = dense_point_graph(X, P, 3, normalized)
    Pi = P @ np.diag(1 / P.sum(axis=0)) @ P.T
    Q = reference.regularizer(L, power, 0.05)
    assert_allclose(Q @ Pi, Pi @ Q, atol=1e-12)  # these functions are kept by Q, so its powers are theirs
    S = np.array([7, 0, 3, 11])
    rows = P.argmax(axis=0)[S]
    expected = reference.pseudo_inverse(Pi @ Q @ Pi, 1e-12)[np.ix_(rows, rows)]

    m = P.sum(axis=0)
    laplacian = Laplacian(sp.csr_array(W), normalized, m)
    found = inverse_at_landmarks(laplacian.matrix(0.05), S, (power,), vector=laplacian.vector,
                                 params=SolverParams(tol=1e-12))
    assert_allclose(covariance_at_points(found.powers[power], m[S]), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("normalized", [False, True])
def test_the_matrix_is_the_point_graphs_in_isometric_coordinates(normalized):
    X, P = with_copies(random_state=7)
    L, W = dense_point_graph(X, P, 3, normalized)
    m = P.sum(axis=0)
    U = P / np.sqrt(m)
    laplacian = Laplacian(sp.csr_array(W), normalized, m)
    R = laplacian.matrix(0.2)
    assert_allclose(R.toarray(), U.T @ L @ U + 0.2 * np.eye(12), atol=1e-13)
    assert abs(R - R.T).nnz == 0
    assert_allclose(laplacian.matrix() @ laplacian.vector, 0, atol=1e-12)


@pytest.mark.parametrize("method", ["gauss_seidel", "deflated", "amg"])
@pytest.mark.parametrize("normalized", [False, True])
def test_every_solver_takes_multiplicities(normalized, method):
    X, P = with_copies(300, random_state=8, max_multiplicity=30)
    m = P.sum(axis=0)
    laplacian = Laplacian(weights(neighbors(X[P.argmax(axis=0)], 5)), normalized, m)
    R, S = laplacian.matrix(1e-3), np.array([0, 50, 299])
    found = inverse_at_landmarks(R, S, (1,), vector=laplacian.vector,
                                 params=SolverParams(method=method, tol=1e-9))
    assert_allclose(found.powers[1], np.linalg.inv(R.toarray())[np.ix_(S, S)], rtol=1e-5)


@pytest.mark.parametrize("normalized", [False, True])
def test_multiplicities_of_one_change_no_bit(normalized):
    W = weights(neighbors(np.random.default_rng(9).normal(size=(80, 3)), 4))
    plain, counted = Laplacian(W, normalized), Laplacian(W, normalized, np.ones(80))
    assert_array_equal(plain.matrix(0.01).toarray(), counted.matrix(0.01).toarray())
    assert_array_equal(plain.vector, counted.vector)
    A = np.cov(np.random.default_rng(9).normal(size=(5, 20)))
    assert_array_equal(covariance_at_points(A, np.ones(5)), A)


@pytest.mark.parametrize("multiplicity", [[1, 2], [1, 0, 2], [1, np.inf, 1]])
def test_multiplicities_are_checked(multiplicity):
    with pytest.raises(DataError, match="multiplicity has shape"):
        Laplacian(sp.csr_array(np.ones((3, 3)) - np.eye(3)), True, np.array(multiplicity))
