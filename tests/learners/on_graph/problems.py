"""Small graphs in any number of pieces with labels, for the tests of learners on the graph."""

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from dssl.graph.graph import Graph
from dssl.learners.target.target import Classes, Quantities


def random_weights(rng, sizes, degree=3.0):
    """Return symmetric weights (n, n), dense, of connected pieces of these sizes in a random order of points.

    A piece is a random tree and some more edges; one of size 1 is an isolated point.
    """
    n, start = sum(sizes), 0
    W = np.zeros((n, n))
    for size in sizes:
        own = np.arange(start, start + size)
        for place in range(1, size):
            W[own[place], own[rng.integers(place)]] = rng.uniform(0.2, 2)
        more = (rng.random((size, size)) < degree / max(size, 1)) * rng.uniform(0.2, 2, (size, size))
        W[np.ix_(own, own)] += np.triu(more, 1)
        start += size
    order = rng.permutation(n)
    return (W + W.T)[np.ix_(order, order)]


@st.composite
def problems(draw, classes=True, largest=12, weighted=True):
    """Draw (W (n, n) dense, target, weight (l,) or None): pieces with and without labels, isolated points among them.

    Every class has a label, and some pieces have those of one class only.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    sizes = [*draw(st.lists(st.integers(1, largest), min_size=1, max_size=4)), largest]
    W = random_weights(rng, sizes)
    n = len(W)
    n_classes = draw(st.integers(2, 4))
    n_labeled = draw(st.integers(n_classes, min(n, n_classes + 6)))
    labeled = np.sort(rng.choice(n, n_labeled, replace=False))
    weight = rng.uniform(0.5, 3, n_labeled) if weighted and draw(st.booleans()) else None
    if not classes:
        return W, Quantities(labeled, rng.normal(size=(n_labeled, draw(st.integers(1, 2))))), weight
    codes = rng.permutation(np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n_labeled - n_classes)]))
    return W, Classes(labeled, codes, np.arange(n_classes)), weight


def graph_of_weights(W):
    """Return the graph of dense weights."""
    return Graph.of(sparse.csr_array(W))


def ones_unless(weight, target):
    """Return the weights (l,)."""
    return np.ones(len(target.labeled)) if weight is None else weight
