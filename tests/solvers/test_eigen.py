"""The lowest eigenpairs of Laplacians, against all of the dense matrix."""

from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.csgraph import connected_components
from threadpoolctl import threadpool_limits

from dssl.base.errors import NotConverged, ParameterError
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.laplacian import Laplacian
from dssl.solvers import eigen
from dssl.solvers.eigen import eigenpairs_bytes, eigenvalue_counts, lowest_eigenpairs
from dssl.solvers.lanczos import SingularMatrix, block_lanczos
from dssl.solvers.warm_start import extended

from ..memory import traced_peak
from .graphs import components, grid, random_graph, symmetric

ITERATIVE = ("filtered", "inverse")


def ring(n):
    return symmetric(np.arange(n), (np.arange(n) + 1) % n, np.ones(n), n)


GRAPHS = {
    "expander": lambda: random_graph(500, weighted=True),
    "pieces": lambda: components([250, 150, 1, 1, 2, 120], weighted=True),
    "ring": lambda: ring(400),
    "grid": lambda: grid(20),
    "cliques": lambda: sp.block_diag([np.ones((10, 10))] * 40).tocsr(),  # 360 times the same eigenvalue
}


def check(W, m, normalized=True, tol=1e-6, **options):
    """Solve, and compare values, null space, residuals and orthogonality with what defines them."""
    laplacian = Laplacian(sp.csr_array(W), normalized)
    L = laplacian.matrix().toarray()
    found = lowest_eigenpairs(laplacian.matrix(), laplacian.vector, m, tol=tol, **options)
    high = 2 * L.diagonal().max() or 1.0
    assert_allclose(found.values, np.linalg.eigvalsh(L)[:m], atol=1e-10 * high)
    assert_allclose(found.vectors.T @ found.vectors, np.eye(m), atol=1e-10)
    residuals = np.linalg.norm(L @ found.vectors - found.vectors * found.values, axis=0) / high
    assert_allclose(found.residuals, residuals, atol=1e-14)
    assert found.converged.all()
    assert (residuals <= tol).all()
    zeros = min(m, connected_components(W, directed=False)[0])
    assert_array_equal(found.values[:zeros], 0)
    assert (found.values[zeros:] > 0).all()
    assert (found.vectors[np.abs(found.vectors).argmax(axis=0), np.arange(m)][:zeros] > 0).all()
    return found


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_method_finds_the_lowest_pairs(name, normalized):
    """Vectors of the null space, and those of simple eigenvalues, are the same by every method."""
    W, m = GRAPHS[name](), 60 if name == "cliques" else 14
    dense = check(W, m, normalized, method="dense")
    assert dense.method == "dense"
    for method in ITERATIVE:
        if method == "inverse" and name in ("expander", "pieces"):
            continue  # hundreds of multigrid solves; see below
        found = check(W, m, normalized, tol=1e-8, method=method)
        assert found.method == method
        if name in ("expander", "pieces"):
            assert_allclose(found.vectors, dense.vectors, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("name", ["expander", "pieces"])
def test_the_inverse_of_graphs_that_it_suits_less(name, normalized):
    """Eigenvalues that are close beside the large gap below them take powers of the inverse."""
    check(GRAPHS[name](), 14, normalized, method="inverse")


@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=5), normalized=st.booleans(), data=st.data())
@settings(max_examples=25, deadline=None)
def test_small_graphs_in_pieces(sizes, normalized, data):
    W = components(sizes, random_state=sum(sizes), weighted=True)
    found = check(W, data.draw(st.integers(1, W.shape[0])), normalized)
    assert found.method == ("null" if len(found.values) <= len(sizes) else "dense")


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_all_pairs_of_the_smallest_graphs(n):
    W = sp.csr_array(np.ones((n, n)) - np.eye(n))
    for normalized in (True, False):
        found = check(W, n, normalized)
        assert_allclose(found.values[1:], n / max(n - 1, 1) if normalized else n)


def test_eigenvalues_of_higher_multiplicity_than_a_block():
    """A complete bipartite graph has the eigenvalue 3 of L 399 times, and the process a block of 8."""
    W = np.zeros((403, 403))
    W[:3, 3:] = W[3:, :3] = 1
    for random_state in (0, 1):
        found = check(sp.csr_array(W), 30, False, method="filtered", random_state=random_state)
        assert_allclose(found.values[1:], 3, rtol=1e-10)


@pytest.mark.parametrize("method", ITERATIVE)
def test_equal_pieces_have_each_eigenvalue_as_often(method):
    """With seed 1 the first process of the inverse misses some of the 20, which the look for more finds."""
    W = sp.block_diag([random_graph(60, 6, weighted=True)] * 20).tocsr()
    check(W, 70, method=method, random_state=1)


@pytest.mark.parametrize("method", ITERATIVE)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_start_that_misleads_loses_no_pair(name, method):
    """High eigenvectors, one vector again and again, columns of zeros, of the null space, and of another size."""
    W = GRAPHS[name]()
    laplacian, m = Laplacian(sp.csr_array(W)), 9
    vectors = np.linalg.eigh(laplacian.matrix().toarray())[1]
    wrong = np.column_stack([vectors[:, -5:], *[vectors[:, m]] * 9, np.zeros(len(vectors)), 1e12 * laplacian.vector])
    for start in (wrong, wrong[:, -1:], 1e-300 * vectors[:, :m], vectors[:, :0]):
        check(W, m, method=method, start=start)


def test_a_process_that_begins_near_the_eigenvectors_ends_sooner():
    """A graph of 3000 points, which grew by 30."""
    X = np.random.default_rng(1).normal(size=(3030, 4))
    before, after = (Laplacian(KNNGraph(n_neighbors=8).build(X[:n], scale="none").weights()) for n in (3000, 3030))
    old = lowest_eigenpairs(before.matrix(), before.vector, 20)
    cold, warm = (lowest_eigenpairs(after.matrix(), after.vector, 20, start=start).require_converged()
                  for start in (None, extended(old.vectors, after.W)))
    assert_allclose(warm.values, cold.values, atol=1e-9)
    assert_allclose(np.abs((warm.vectors * cold.vectors).sum(axis=0)), 1, atol=1e-4)
    assert warm.iterations < cold.iterations


def test_answers_do_not_depend_on_seed_or_threads():
    laplacian = Laplacian(sp.csr_array(components([350, 300], weighted=True)))
    L, vector = laplacian.matrix(), laplacian.vector
    first = lowest_eigenpairs(L, vector, 12, method="filtered", tol=1e-9)
    with threadpool_limits(1):
        again = [lowest_eigenpairs(L, vector, 12, method="filtered", tol=1e-9) for _ in range(2)]
    assert_array_equal(again[0].vectors, again[1].vectors)
    other = lowest_eigenpairs(L, vector, 12, method="filtered", tol=1e-9, random_state=5)
    for found in (again[0], other):
        assert_allclose(found.values, first.values, atol=1e-12)
        assert_allclose(found.vectors, first.vectors, atol=1e-5)


def test_signs_are_those_of_the_first_largest_entry():
    """Of a ring all entries of the alternating vector are as large: the first is positive."""
    laplacian = Laplacian(sp.csr_array(ring(8)))
    last = lowest_eigenpairs(laplacian.matrix(), laplacian.vector, 8).vectors[:, -1]
    assert_allclose(last, np.tile([1, -1], 4) / np.sqrt(8), atol=1e-12)


def test_auto_follows_size_and_shape():
    def chosen(W, m):
        laplacian = Laplacian(sp.csr_array(W))
        return lowest_eigenpairs(laplacian.matrix(), laplacian.vector, m).method

    with patch.object(eigen, "MAX_DENSE", 300):
        assert chosen(random_graph(400, 8), 5) == "filtered"
        assert chosen(ring(3000), 5) == "inverse"
        assert chosen(random_graph(400, 8), 100) == "dense"
        assert chosen(random_graph(300, 8), 5) == "dense"


def test_counts_are_those_of_the_eigenvalues():
    laplacian = Laplacian(sp.csr_array(random_graph(1000, 6)))
    A = SingularMatrix.of(laplacian.matrix(), laplacian.vector, np.float64)
    exact = np.linalg.eigvalsh(laplacian.matrix().toarray())
    x, count = eigenvalue_counts(A, 0)
    for share in (0.05, 0.2, 0.5):
        own = count[np.searchsorted(x, exact[int(share * 1000)])]
        assert own == pytest.approx(share * 1000, rel=0.25)


def test_the_process_goes_on_where_its_space_ends():
    """The identity has a Krylov space of one block; a basis of random columns takes its place."""
    found = block_lanczos(lambda V: V.copy(), np.ones((50, 4)), lambda V: None, 20, lambda values, residuals: False, 0)
    assert not found.finished
    assert_allclose(found.values, 1, rtol=1e-12)
    X = found.vectors(20)
    assert_allclose(X.T @ X, np.eye(20), atol=1e-12)


def test_what_is_removed_stays_away_however_much_the_operator_amplifies_it():
    """F is 1 but for a direction of 1e8, which rounding feeds and one projection leaves at 1e-8 of the others."""
    n, rng = 60, np.random.default_rng(0)
    null = np.linalg.qr(rng.standard_normal((n, 1)))[0]
    values = 1 + 1e-5 * rng.random(n)

    def remove(V):
        V -= null @ (null.T @ V)

    def amplify(V):
        W = values[:, None] * V.astype(np.float32)
        return W + 1e8 * null @ (null.T @ W)

    found = block_lanczos(amplify, rng.standard_normal((n, 4)), remove, 40, lambda values, residuals: False, 0)
    X = found.vectors(40)
    assert_allclose(null.T @ X, 0, atol=1e-12)
    assert_allclose(X.T @ X, np.eye(40), atol=1e-12)


def test_what_does_not_converge_says_so():
    laplacian = Laplacian(sp.csr_array(ring(2000)))
    with patch.object(eigen, "ROUNDS", 1), patch.object(eigen, "GAIN", 1.1):
        found = lowest_eigenpairs(laplacian.matrix(), laplacian.vector, 20, method="filtered", tol=1e-13)
    assert found.residuals[~found.converged].min() > 1e-13
    with pytest.raises(NotConverged, match="eigenpairs did not converge"):
        found.require_converged()


@pytest.mark.parametrize(("options", "message"), [
    ({"m": 0}, "m=0, expected 1 to 30"), ({"m": 2.5}, "m=2.5"), ({"m": True}, "m=True"),
    ({"m": 31}, "m=31"), ({"m": 3, "method": "lanczos"}, "method='lanczos'"),
    ({"m": 9, "method": "filtered"}, "more columns than the matrix"), ({"m": 3, "tol": 0.0}, "tol=0.0"),
    ({"m": 3, "random_state": -1}, "random_state"),
    ({"m": 3, "start": np.ones((29, 2))}, r"a start of shape \(29, 2\), expected \(30"),
    ({"m": 3, "start": np.full((30, 2), np.nan)}, "finite")])
def test_what_cannot_be_is_refused(options, message):
    laplacian = Laplacian(sp.csr_array(ring(30)))
    with pytest.raises(ParameterError, match=message):
        lowest_eigenpairs(laplacian.matrix(), laplacian.vector, **options)


@pytest.mark.parametrize(("n", "m", "method"), [(3000, 30, "filtered"), (900, 30, "dense")])
def test_memory_stays_within_the_stated_formula(n, m, method):
    laplacian = Laplacian(sp.csr_array(random_graph(n, 16)))
    L = laplacian.matrix()
    lowest_eigenpairs(L, laplacian.vector, m, method=method)  # compiles
    expected = eigenpairs_bytes(n, L.nnz, m)
    peak = traced_peak(lambda: lowest_eigenpairs(L, laplacian.vector, m, method=method), expected)
    assert 0.4 * expected <= peak <= 1.02 * expected + (1 << 20)
