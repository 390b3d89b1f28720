"""Small graphs on which the solvers are tested, and their regularizers with the dense answer."""

import numpy as np
import scipy.sparse as sp


def symmetric(rows, columns, weights, n):
    """Return W (n, n) with these edges in both directions; of an edge named twice the larger weight."""
    W = sp.csr_matrix((weights, (rows, columns)), shape=(n, n))
    W.sum_duplicates()
    W = W.maximum(W.T).tocsr()
    W.setdiag(0)
    W.eliminate_zeros()
    return W


def random_graph(n, degree=4, random_state=0, weighted=False):
    """Return a connected expander: a ring with random chords, weights 1 or spread over three decades."""
    rng = np.random.default_rng(random_state)
    ring, chords = np.arange(n), rng.integers(0, n, (2, n * max(degree - 2, 0) // 2))
    rows, columns = np.concatenate([ring, chords[0]]), np.concatenate([(ring + 1) % n, chords[1]])
    weights = 10 ** rng.uniform(-3, 0, len(rows)) if weighted else np.ones(len(rows))
    keep = rows != columns
    return symmetric(rows[keep], columns[keep], np.minimum(weights[keep], 1), n)


def components(sizes, random_state=0, weighted=False):
    """Return disjoint random graphs of these sizes, vertices shuffled; a size of 1 is an isolated vertex."""
    W = sp.block_diag([random_graph(size, 4, random_state + i, weighted) if size > 1 else sp.csr_matrix((1, 1))
                       for i, size in enumerate(sizes)]).tocsr()
    order = np.random.default_rng(random_state).permutation(W.shape[0])
    return sp.csr_matrix(W[order][:, order])


def grid(side):
    """Return the 0-1 graph of a square grid, side^2 vertices."""
    path = sp.diags_array([np.ones(side - 1), np.ones(side - 1)], offsets=[-1, 1])
    return sp.csr_matrix(sp.kron(path, sp.identity(side)) + sp.kron(sp.identity(side), path))


def with_uneven_weights(W, orders, rng):
    """Return the graph with weights spread over so many orders of magnitude."""
    upper = sp.triu(W, 1).tocsr()
    upper.data = upper.data * 10.0 ** rng.uniform(-orders / 2, orders / 2, upper.nnz)
    return sp.csr_array(upper + upper.T)


def with_hub(W):
    """Return the graph with one vertex more, joined to all others."""
    ones = np.ones((W.shape[0], 1))
    return sp.csr_matrix(sp.block_array([[W, ones], [ones.T, None]]))


def regularizer(W, ridge, normalized):
    """Return (R, vector): `L + ridge I` and None, or `L_norm + ridge I` and the root of the degrees."""
    degrees = np.asarray(W.sum(axis=1)).ravel()
    if not normalized:
        return sp.csr_matrix(sp.diags_array(degrees + ridge) - W), None
    root = np.sqrt(np.where(degrees > 0, degrees, 1))
    L = sp.diags_array((degrees > 0).astype(float)) - sp.diags_array(1 / root) @ W @ sp.diags_array(1 / root)
    return sp.csr_matrix(L + ridge * sp.identity(len(root))), root


def points(n, columns):
    """Return the right-hand sides e_i (n, t) of these vertices."""
    B = np.zeros((n, len(columns)))
    B[columns, np.arange(len(columns))] = 1
    return B
