"""The automatic model for thousands of labels: harmonic functions or the nearest labels."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons

from dssl import KNNGraph
from dssl.base.errors import NotConverged
from dssl.execution.in_process import InProcess
from dssl.learners.on_graph.automatic import fit_many_labels
from dssl.learners.on_graph.laplace_poisson import HarmonicTask, fit_harmonics
from dssl.learners.on_graph.model import vertex_index
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.graph_gain import held_out_loss
from dssl.solvers.solver_params import SolverParams
from dssl.storage.blocks import ArrayRows


class Noted(InProcess):
    """Notes how many harmonic functions each map solves."""

    def __init__(self, threads):
        super().__init__(threads)
        self.solved = []

    def map(self, tasks, parts, *follow):
        if isinstance(tasks[0], HarmonicTask):
            self.solved.append(len(tasks))
        return super().map(tasks, parts, *follow)


def fitted(X, target, threads):
    execution, knn = Noted(threads), KNNGraph(n_neighbors=8)
    graph, rows = knn.build(X), ArrayRows(X)
    found = fit_many_labels(graph, rows, target, None, held_out_loss, knn, SolverParams(tol=1e-8), 0,
                            vertex_index(graph, rows, knn, execution), execution)
    return found, execution.solved


@pytest.mark.parametrize("chosen", ["graph", "nearest_labels"])
def test_a_free_core_solves_the_second_system_beside_the_first_and_changes_nothing(chosen):
    """One thread solves the second system where the graph is chosen, as it is not where labels are noise."""
    X, y = make_moons(600, noise=0.1, random_state=0)
    if chosen == "nearest_labels":
        X, y = np.random.default_rng(0).uniform(size=(600, 2)), np.random.default_rng(6).integers(2, size=600)
    labeled = np.sort(np.random.default_rng(1).choice(600, 200, replace=False))
    target = Classes(labeled, y[labeled], np.array([0, 1]))
    one, alone = fitted(X, target, 1)
    two, beside = fitted(X, target, 2)
    assert one.attributes["chosen"] == chosen
    assert beside == [2]
    assert alone == ([1, 1] if chosen == "graph" else [1])
    assert_array_equal(one.values, two.values)
    assert one.attributes == two.attributes


def test_the_graph_wins_a_tie():
    """With these labels both losses are equal but for their rounding, which differs between processors."""
    X, y = np.random.default_rng(0).uniform(size=(600, 2)), np.random.default_rng(5).integers(2, size=600)
    labeled = np.sort(np.random.default_rng(1).choice(600, 200, replace=False))
    found, _ = fitted(X, Classes(labeled, y[labeled], np.array([0, 1])), 1)
    assert found.attributes["chosen"] == "graph"


def test_a_system_of_all_labels_that_fails_is_no_error_where_it_is_not_needed(monkeypatch):
    X, y = np.random.default_rng(0).uniform(size=(600, 2)), np.random.default_rng(6).integers(2, size=600)
    labeled = np.sort(np.random.default_rng(1).choice(600, 200, replace=False))
    target = Classes(labeled, y[labeled], np.array([0, 1]))
    expected, _ = fitted(X, target, 1)

    def failing(graph, targets, *others):
        if len(targets) > 1:
            raise NotConverged("the system of all labels")
        return fit_harmonics(graph, targets, *others)

    monkeypatch.setattr("dssl.learners.on_graph.automatic.fit_harmonics", failing)
    assert_array_equal(fitted(X, target, 2)[0].values, expected.values)


def test_quantities_keep_their_unit():
    X, y = make_moons(300, noise=0.1, random_state=0)
    labeled = np.arange(0, 300, 3)
    small = fitted(X, Quantities(labeled, 1.0 * y[labeled]), 2)[0]
    large = fitted(X, Quantities(labeled, 1e6 * y[labeled]), 2)[0]
    np.testing.assert_allclose(large.values, 1e6 * small.values, rtol=1e-6, atol=1e-3)
