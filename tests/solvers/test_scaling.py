"""The scaled form of a matrix: its order, its components, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from dssl.base.errors import DataError
from dssl.graph.laplacian import Laplacian
from dssl.solvers.lanczos import SingularMatrix
from dssl.solvers.scaling import cuthill_mckee, scaled_matrix

from .graphs import components, grid, random_graph, regularizer, with_hub

GRAPHS = {"grid": grid(9), "path": sp.diags_array([np.ones(19), np.ones(19)], offsets=[-1, 1], format="csr"),
          "random": random_graph(200, 5, random_state=0), "pieces": components([30, 1, 12, 1]),
          "hub": with_hub(grid(7))}


@pytest.fixture(params=GRAPHS)
def matrix(request):
    return regularizer(GRAPHS[request.param], 0.5, False)[0]


def bandwidth(R, order):
    """Return the largest distance of an entry from the diagonal in this order."""
    places = np.argsort(order)
    entries = sp.coo_array(R)
    return int(np.abs(places[entries.row] - places[entries.col]).max())


def test_the_order_is_as_narrow_as_that_of_scipy(matrix):
    order, _ = cuthill_mckee(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
    assert_array_equal(np.sort(order), np.arange(matrix.shape[0]))
    theirs = reverse_cuthill_mckee(sp.csr_matrix(matrix), symmetric_mode=True)
    assert bandwidth(matrix, order) <= 1.2 * bandwidth(matrix, theirs)


def test_components_are_those_of_scipy_and_adjacent(matrix):
    order, component = cuthill_mckee(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
    count, theirs = connected_components(sp.csr_matrix(matrix), directed=False)
    assert component[0] == 0
    assert_array_equal(np.unique(np.diff(component)), [0, 1][:min(count, 2)])
    assert len(set(zip(component.tolist(), theirs[order].tolist(), strict=True))) == count


def test_the_scaled_matrix_is_the_one_of_its_definition(matrix):
    A = scaled_matrix(matrix)
    D = matrix.diagonal()[A.order]
    assert_allclose(A.to_scipy().toarray(), matrix.toarray()[np.ix_(A.order, A.order)] / np.sqrt(np.outer(D, D)),
                    atol=1e-15)
    assert_allclose(A.image, A.to_scipy() @ A.near_null, atol=1e-14)
    assert A.off_diagonal().has_canonical_format


def test_spread_is_the_mean_distance_from_the_diagonal(matrix):
    A = scaled_matrix(matrix)
    entries = sp.coo_array(A.off_diagonal())
    assert A.spread == pytest.approx(np.abs(entries.row - entries.col).mean() / A.n)


@settings(max_examples=30, deadline=None)
@given(random_state=st.integers(0, 200), size=st.sampled_from([1e-3, 1.0]))
def test_an_entry_without_its_counterpart_is_refused(random_state, size):
    R, _ = regularizer(random_graph(30, 4, random_state=random_state), 2.0, False)
    changed, rng = R.tolil(), np.random.default_rng(random_state)
    i, j = rng.choice(30, 2, replace=False)
    changed[i, j] = changed[i, j] + size
    with pytest.raises(DataError, match=rf"differs from its transpose by {size:g}"):
        scaled_matrix(sp.csr_array(changed))


def test_a_difference_is_measured_by_its_own_rows_beside_a_heavy_edge():
    weights = np.append(1e11, np.ones(48))
    W = sp.diags_array([weights, weights], offsets=[1, -1], shape=(50, 50)).tolil()
    R = (sp.diags_array(np.asarray(W.sum(axis=1)).ravel() + 1) - W).tolil()
    scaled_matrix(sp.csr_array(R))
    R[20, 21] = -0.2
    with pytest.raises(DataError, match=r"differs from its transpose by 0\.8"):
        scaled_matrix(sp.csr_array(R))
    R[20, 21] = 0
    with pytest.raises(DataError, match="differs from its transpose by 1"):
        scaled_matrix(sp.csr_array(R))


def test_a_ring_of_one_way_edges_has_as_many_entries_a_row_as_a_column_and_is_refused():
    ring = sp.csr_array((np.full(5, -0.5), (np.arange(5), np.roll(np.arange(5), 1))), (5, 5))
    with pytest.raises(DataError, match=r"differs from its transpose by 0\.5"):
        scaled_matrix(ring + 2 * sp.eye_array(5))


def test_an_entry_of_rounding_without_its_counterpart_is_halved():
    R, _ = regularizer(grid(4), 1.0, False)
    changed = R.tolil()
    changed[0, 15] = -1e-13
    A = scaled_matrix(sp.csr_array(changed))
    assert_allclose(A.apply(np.eye(16)), R.toarray(), atol=1e-12)


def test_duplicates_zeros_and_unsorted_rows_are_taken_and_the_matrix_stays_as_it_is():
    R, _ = regularizer(grid(4), 1.0, False)
    entries = sp.coo_array(R)
    row, column = np.tile(entries.row, 2), np.tile(entries.col, 2)
    data = np.concatenate([entries.data / 2, entries.data / 2])
    order = np.lexsort((-column, row))
    doubled = sp.csr_array((np.append(data[order], 0.0), np.append(column[order], 3),
                            np.append(np.searchsorted(row[order], np.arange(16)), len(row) + 1)), (16, 16))
    before = doubled.data.copy()
    assert_allclose(scaled_matrix(doubled).apply(np.eye(16)), R.toarray(), atol=1e-12)
    assert_array_equal(doubled.data, before)


def test_indices_of_64_bits_and_float32_entries_make_the_same_form():
    R, _ = regularizer(grid(5), 0.5, False)
    wide = sp.csr_array(R.astype(np.float32))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    A, same = scaled_matrix(wide), scaled_matrix(R)
    assert_array_equal(A.indices, same.indices)
    assert_allclose(A.data, same.data, rtol=1e-6)


def test_one_row_and_none():
    A = scaled_matrix(np.array([[4.0]]))
    assert (A.n, len(A.data), A.spread) == (1, 0, 0.0)
    with pytest.raises(DataError, match="expected a square one with rows"):
        scaled_matrix(sp.csr_array((0, 0)))


def test_the_neighbors_of_a_hub_are_ordered_by_their_entries():
    n = 3000
    chain = sp.random_array((n, n), density=0.002, random_state=np.random.default_rng(0), format="csr")
    W = with_hub(sp.csr_array(chain + chain.T))
    R, _ = regularizer(W, 0.5, False)
    order, component = cuthill_mckee(R.indptr.astype(np.int64), R.indices.astype(np.int32))
    assert component.max() == 0
    hub = int(np.diff(R.indptr).argmax())
    place = np.flatnonzero(order[::-1] == hub)[0]
    behind = np.diff(R.indptr)[order[::-1]][place + 1:]
    assert (np.diff(behind[-(n - 200):]) >= 0).all()


def test_a_stored_zero_is_no_edge_of_the_lanczos_process():
    W = components([3, 4])
    L = sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)
    entries, of = sp.coo_array(L), connected_components(L, directed=False)[1]
    ends = [0, int(np.flatnonzero(of != of[0])[0])]
    joined = sp.csr_array((np.append(entries.data, [0.0, 0.0]), (np.append(entries.row, ends),
                                                                 np.append(entries.col, ends[::-1]))), L.shape)
    assert joined.nnz == L.nnz + 2
    before = joined.data.copy()
    assert SingularMatrix.of(joined, np.ones(7)).n_components == 2
    assert_array_equal(joined.data, before)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_form_of_the_lanczos_process_is_the_laplacian_in_another_order(name, normalized):
    """Also of isolated vertices, whose diagonal is 0."""
    L = Laplacian(GRAPHS[name], normalized)
    A = SingularMatrix.of(L.matrix(), L.vector, np.float64)
    assert_array_equal(A.matrix().toarray(), L.matrix().toarray()[np.ix_(A.order, A.order)])
    assert A.matrix().has_sorted_indices
    assert_allclose(A.multiply(A.null[:, None]), 0, atol=1e-12)


def test_the_lanczos_process_refuses_a_matrix_that_is_not_symmetric():
    L = Laplacian(GRAPHS["grid"], False).matrix().tolil()
    L[0, 1] = 0
    with pytest.raises(DataError, match="the matrix differs from its transpose by 1"):
        SingularMatrix.of(L, np.ones(L.shape[0]))


def test_an_edge_on_one_side_that_is_rounding_is_on_both():
    W = sp.lil_array(GRAPHS["random"])
    W[0, 111] = 1e-18
    L = Laplacian(sp.csr_array(W), False)
    A = SingularMatrix.of(L.matrix(), L.vector, np.float64)
    assert (A.matrix() != A.matrix().T).nnz == 0
    assert_allclose(A.matrix().toarray(), L.matrix().toarray()[np.ix_(A.order, A.order)], atol=1e-17)
