"""Places in the plane of points that a graph joins."""

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

from dssl.graph.layout_2d import edges_of, nearest_edges, plane_coordinates


def test_edges_are_those_of_the_lists_once_each():
    X = np.random.default_rng(0).normal(size=(30, 3))
    D = cdist(X, X)
    order = np.argsort(D, axis=1)[:, 1:5]
    expected = {tuple(sorted((i, int(j)))) for i in range(30) for j in order[i]}
    found = nearest_edges(D, 4)
    assert {tuple(own) for own in found.tolist()} == expected
    W = sp.csr_array((np.ones(len(found)), found.T), shape=(30, 30))
    assert edges_of(W + W.T).tolist() == found.tolist()


def test_without_edges_they_are_the_principal_components():
    X = np.random.default_rng(1).normal(size=(80, 4)) * [5, 3, 0.5, 0.1]
    found = plane_coordinates(cdist(X, X), np.zeros((0, 2), int))
    expected = (X - X.mean(axis=0)) @ np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:2].T
    for column in range(2):
        share = np.corrcoef(found[:, column], expected[:, column])[0, 1] ** 2
        assert_allclose(share, 1, atol=1e-6)


def test_a_roll_is_unrolled_along_its_edges():
    """The first coordinate is the length along a spiral, which no projection of the spiral is."""
    t = np.linspace(2, 12, 400)
    X = np.stack([t * np.cos(t), t * np.sin(t)], axis=1)
    length = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(X, axis=0), axis=1))])
    D = cdist(X, X)
    found = plane_coordinates(D, nearest_edges(D, 4))
    assert abs(np.corrcoef(found[:, 0], length)[0, 1]) > 0.999
    alone = plane_coordinates(D, np.zeros((0, 2), int))
    assert abs(np.corrcoef(alone[:, 0], length)[0, 1]) < 0.7


def test_pieces_that_no_edge_joins_lie_side_by_side_each_with_its_own_shape():
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(size=(60, 2)) * [4, 1], 50 + rng.normal(size=(40, 2)) * [3, 1], [[200, 200]]])
    D = cdist(X, X)
    edges = nearest_edges(D, 5)
    found = plane_coordinates(D, edges[(edges < 60).all(axis=1) | ((edges >= 60) & (edges < 100)).all(axis=1)])
    boxes = [(found[own].min(axis=0), found[own].max(axis=0)) for own in (slice(60), slice(60, 100), slice(100, 101))]
    for number, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:number]:
            assert (low > other_high).any() or (high < other_low).any()
    assert found[:60].std(axis=0).min() > 0.5
    assert found[60:100].std(axis=0).min() > 0.5


def test_the_coordinates_of_one_two_and_equal_points():
    for X in (np.zeros((1, 2)), np.array([[0.0, 0], [3, 4]]), np.zeros((3, 2))):
        D = cdist(X, X)
        for edges in (np.zeros((0, 2), int), nearest_edges(D, 2)):
            assert np.isfinite(plane_coordinates(D, edges)).all()
