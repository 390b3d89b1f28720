"""Models on sparse points: the dense models' values, in memory, stored, and on workers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.base.errors import DataError
from dssl.estimators.deformed import LapSVC
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.graph.knn_graph import KNNGraph
from dssl.kernels.base import kernel_from
from dssl.kernels.deformed import deform
from dssl.learners.linear.gram import LearnerParams, fit_gram
from dssl.learners.linear.kernel_model import KernelModel, expand
from dssl.learners.target.target import Classes
from dssl.methods.deformed.covariance import CovarianceParams
from dssl.storage.blocks import MemoryParts
from dssl.storage.csr import CsrRows, as_rows
from dssl.storage.store import StoredParts
from dssl.storage.views import BlockedCsrRows, write_sparse
from tests.covariance import graph_covariance
from tests.knn.test_sparse_neighbors import weighted, zipf

X = weighted(zipf(400, 300, 12, 0, np.float64), 1)
CODES = (X @ np.random.default_rng(2).normal(size=300) > 0).astype(int)
LABELED = np.arange(0, 400, 8)


def fitted(rows, execution=None, name="rbf"):
    execution = execution or InProcess(2)
    params = CovarianceParams(n_landmarks=90)
    graph = KNNGraph(n_neighbors=6).build(rows, execution, scale="none")
    covariance = graph_covariance(graph, LABELED, params, execution)
    kernel = deform(kernel_from(name, rows=rows), rows.take(covariance.landmarks), covariance.powers[2], 10.0)
    points = rows.take(LABELED)
    target = Classes(LABELED, CODES[LABELED], np.array([0, 1]))
    return expand(kernel, points, *fit_gram(kernel(points, points), target, LearnerParams()))


@pytest.mark.parametrize("name", ["rbf", "laplacian", "cosine"])
def test_a_model_on_sparse_points_is_the_model_on_dense_ones(name):
    on_sparse, on_dense = fitted(CsrRows(X), name=name), fitted(as_rows(X.toarray()), name=name)
    assert sparse.issparse(on_sparse.points)
    wanted = on_dense.values(X.toarray())
    assert_allclose(on_sparse.values(X), wanted, atol=1e-5)  # the solves of the graph stop at 1e-6
    assert_allclose(on_dense.values(X), wanted, atol=1e-9)
    assert_array_equal(on_sparse.values(X.toarray()), on_sparse.values(X))
    assert on_sparse.values(X[:0]).shape == (0, 1)
    with pytest.raises(DataError, match="fitted on 300 features"):
        on_sparse.values(X[:, :7])


def test_a_model_is_stored_with_its_sparse_points(tmp_path):
    model = fitted(CsrRows(X))
    arrays, attributes = model.to_arrays()
    StoredParts(tmp_path).write(0, arrays)
    again = KernelModel.from_arrays(StoredParts(tmp_path).arrays(0).load(), attributes)
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again.points.toarray(), model.points.toarray())
    assert sum(array.nbytes for array in arrays.values()) < 90 * 300 * 8 / 2


def test_shared_rows_lie_in_parts_that_workers_can_open(tmp_path):
    shared = write_sparse(CsrRows(X), StoredParts(tmp_path), 150)
    assert BlockedCsrRows.of(shared.parts, shared.describe()) == shared
    assert (shared.nnz, shared.block_rows, shared.shape) == (X.nnz, 150, (400, 300))
    assert_array_equal(shared.read(100, 320).toarray(), X[100:320].toarray())
    assert_array_equal(shared.take(np.array([399, 0, 0])).toarray(), X[[399, 0, 0]].toarray())


def test_an_estimator_takes_sparse_rows():
    y = np.full(400, -1)
    y[LABELED] = CODES[LABELED]
    on_sparse, on_dense = (LapSVC(graph=KNNGraph(n_neighbors=6), n_landmarks=90, scale="none").fit(rows, y)
                           for rows in (X, X.toarray()))
    assert sparse.issparse(on_sparse.model_.points)
    values = on_sparse.decision_function(X)
    assert_allclose(values, on_dense.decision_function(X.toarray()), atol=1e-4)
    assert_array_equal(on_sparse.decision_function(CsrRows(X)), values)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_cluster_gives_the_same_model(cluster_client):
    execution = OnDask(cluster_client)
    in_parts = write_sparse(CsrRows(X), MemoryParts(), 130)
    for rows in (CsrRows(X), in_parts):
        shared = execution.share_rows(rows)
        assert isinstance(shared.parts, StoredParts)
        assert execution.share_rows(shared) is shared
    model = fitted(shared, execution)
    wanted = fitted(CsrRows(X))
    assert_array_equal(model.coef, wanted.coef)
    assert_array_equal(model.values(shared, execution), wanted.values(X))
