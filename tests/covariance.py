"""The covariance of a graph at landmarks, by the steps of the method, in memory."""

import numpy as np

from dssl.learners.target.target import Quantities
from dssl.methods.deformed.covariance import covariance_of
from dssl.methods.deformed.method import COVARIANCE_STEPS
from dssl.methods.evaluation import MemoryWorkspace
from dssl.methods.step import Fit
from dssl.storage.blocks import ArrayRows


def graph_covariance(graph, labeled, params, execution):
    """Return the covariance of a graph, with labeled points (row numbers) among the landmarks."""
    target = Quantities(np.asarray(labeled, np.int64), np.zeros((len(labeled), 1)))
    made = MemoryWorkspace(Fit(ArrayRows(np.empty((graph.n, 0))), target, graph=graph), execution)
    made.run(COVARIANCE_STEPS, params, keep=("system",))
    return covariance_of(made.context(), params)
