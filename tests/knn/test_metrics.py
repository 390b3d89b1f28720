"""Metrics beside euclidean and cosine: each against its formula, and through every search and face."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import dssl
from dssl.base.digest import digest
from dssl.base.errors import DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.knn.domain_metrics import BinaryMetric
from dssl.knn.grow import grow_neighbors
from dssl.knn.index import NeighborIndex
from dssl.knn.metric import METRICS, MetricParams, metric_of, metric_with, pair_metric_of
from dssl.knn.pair_metrics import PairMetric
from dssl.knn.recall import certify_recall
from dssl.knn.search import NeighborParams, possible_methods
from dssl.storage.blocks import ArrayRows
from dssl.storage.csr import as_rows
from tests import reference

NAMES = sorted(reference.METRICS)
ROOT = np.random.default_rng(3).normal(size=(6, 6))
PARAMS = [("minkowski", {"p": 3}), ("minkowski", {"p": 1.5, "w": [1, 2, 0, 0.5, 3, 1]}),
          ("seuclidean", {"V": np.arange(1, 7)}), ("mahalanobis", {"VI": ROOT @ ROOT.T}),
          ("kantorovich", {"cost": np.sqrt(np.abs(np.subtract.outer(np.arange(6), np.arange(6))))})]
# Numba compiles the formulas of these for a second or more, that of circular_kantorovich for half a minute.
COMPILED = {"circular_kantorovich", "symmetric_kl", "wasserstein_1d"}
# Those of two sparse rows with all others that pynndescent has, when the first is asked for.
COMPILED_SPARSE = {name for name in NAMES if (metric := METRICS.named(name)).takes_sparse
                   and issubclass(metric, PairMetric) and not issubclass(metric, BinaryMetric)}


def cases(names, compiled):
    """Return the cases of metrics; those whose compilation takes long are slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in compiled else []) for name in names]


@njit
def taxi(x, z):
    total = 0.0
    for column in range(x.shape[0]):
        total += abs(x[column] - z[column])
    return total


def points_of(metric, n, d, seed=0):
    """Return distinct rows (n, d) that a metric takes."""
    rng = np.random.default_rng(seed)
    if metric == "haversine":
        return rng.uniform([-1.5, -3], [1.5, 3], size=(n, 2)).astype(np.float32)
    if "ones" in METRICS.named(metric).undefined_why:
        return np.unique((rng.random((3 * n, max(d, 12))) < 0.4).astype(np.float32), axis=0)[:n]
    if metric == "hamming":
        return np.unique(rng.integers(0, 3, (3 * n, d)), axis=0)[:n].astype(np.float32)
    centers = rng.exponential(size=(12, d))
    return (centers[rng.integers(0, 12, n)] * rng.uniform(0.6, 1.4, (n, d)) + 0.01).astype(np.float32)


def test_every_metric_has_a_formula():
    assert {*METRICS} <= {*NAMES, *reference.PARAMETRIZED, "euclidean", "cosine"}


@pytest.mark.parametrize("metric", cases(NAMES, COMPILED))
@pytest.mark.extended_cases("circular_kantorovich")
@pytest.mark.slow_cases("jensen_shannon")
def test_exact_neighbors_are_those_of_the_formula(metric):
    X = points_of(metric, 60, 6)
    lists = dssl.neighbors(X, 5, metric=metric, method="exact")
    distances = reference.distances_by(metric, X.astype(np.float64))
    np.fill_diagonal(distances, np.inf)
    # float32 formulas of pynndescent are the root of a rounded sum near 0
    assert_allclose(lists.distances, np.sort(distances, axis=1)[:, :5], rtol=2e-5, atol=2e-6)
    assert_allclose(np.take_along_axis(distances, lists.indices, axis=1), lists.distances,
                    rtol=2e-5, atol=2e-6)
    assert lists.attributes["recall"]["certified"] == "exact"


@pytest.mark.parametrize(("metric", "params"), [  # kantorovich is compiled for half a minute
    pytest.param(*case, marks=[pytest.mark.extended] * (case[0] == "kantorovich")) for case in PARAMS])
def test_exact_neighbors_are_those_of_the_formula_with_parameters(metric, params):
    X = points_of("hellinger", 40, 6)
    lists = dssl.neighbors(X, 5, metric=metric, metric_params=params, method="exact")
    distances = reference.distances_by(metric, X.astype(np.float64), params)
    np.fill_diagonal(distances, np.inf)
    assert_allclose(lists.distances, np.sort(distances, axis=1)[:, :5], rtol=2e-5)
    assert json.loads(json.dumps(lists.attributes["metric_params"])).keys() == params.keys()
    assert certify_recall(X, lists)["recall"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "params"), [case for case in PARAMS if METRICS.named(case[0]).takes_sparse])
@pytest.mark.extended_cases("minkowski-params1")
def test_sparse_rows_have_the_distances_of_dense_ones_with_parameters(metric, params):
    X = sparse.random_array((80, 6), density=0.6, rng=np.random.default_rng(1), dtype=np.float32)
    dense, rows = (dssl.neighbors(rows, 4, metric=metric, metric_params=params, method="exact")
                   for rows in (X.toarray(), X.tocsr()))
    assert_allclose(rows.distances, dense.distances, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("metric", "params", "method"), [(*PARAMS[1], "descent"), (*PARAMS[3], "descent"),
                                                          (*PARAMS[3], "partitioned")])
def test_approximate_searches_honor_parameters(metric, params, method):
    X = points_of("hellinger", 1500, 6)
    lists = dssl.neighbors(X, 5, metric=metric, metric_params=params, method=method)
    exact = dssl.neighbors(X, 5, metric=metric, metric_params=params, method="exact").distances
    assert np.mean(lists.distances <= exact[:, -1:] * (1 + 1e-6)) > 0.95
    assert lists.attributes["recall"]["recall"] > 0.95


@pytest.mark.parametrize(("metric", "params"), [PARAMS[1], PARAMS[3]])
def test_lists_grow_and_an_index_is_opened_with_parameters(metric, params):
    X = points_of("hellinger", 200, 6)
    wanted = NeighborParams(n_neighbors=4, metric=metric, metric_params=params, method="exact")
    base = dssl.neighbors(X[:150], 4, metric=metric, metric_params=params, method="exact")
    grown = grow_neighbors(as_rows(X), base, wanted, InProcess())
    fresh = dssl.neighbors(X, 4, metric=metric, metric_params=params, method="exact")
    assert_array_equal(grown.indices, fresh.indices)
    other = NeighborParams(n_neighbors=4, metric="minkowski", metric_params={"p": 2.5}, method="exact")
    with pytest.raises(ParameterError, match="the metric of the neighbor lists is"):
        grow_neighbors(as_rows(X), base, other, InProcess())
    index = NeighborIndex.of(as_rows(X[:150]), wanted.distance, InProcess())
    opened = NeighborIndex.from_arrays(index.to_arrays(), json.loads(json.dumps(index.attributes)))
    for entry, again in zip(index.nearest(X[150:], 4), opened.nearest(X[150:], 4), strict=True):
        assert_array_equal(entry, again)
    assert_allclose(index.nearest(X[:9], 1)[0], 0, atol=1e-6)


@pytest.mark.slow  # each example is compiled
@given(st.floats(1, 6), st.lists(st.floats(0.01, 10), min_size=4, max_size=4))
@settings(max_examples=8, deadline=None)
def test_minkowski_is_a_norm_of_differences(p, w):
    X = np.random.default_rng(0).normal(size=(12, 4))
    rule = metric_of(metric_with("minkowski", MetricParams.of({"p": p, "w": w})))
    distances = rule.between(X, X)
    assert_allclose(distances, distances.T)
    assert_allclose(rule.between(3 * X, 3 * X), 3 * distances, rtol=1e-9)
    assert (distances <= distances[:, [0]] + distances[[0], :] + 1e-9).all()


EMBEDDED = {"cosine": {}, "correlation": {}, "spearmanr": {}, "hellinger": {}, "euclidean": {},
            "seuclidean": {"V": np.arange(1, 41)}, "mahalanobis": {"VI": np.eye(40) + np.outer(*[np.arange(40)] * 2)}}


@pytest.mark.parametrize("metric", EMBEDDED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_is_transformed_alike_among_others_and_alone(metric, dtype):
    rule = metric_of(metric_with(metric, MetricParams.of(EMBEDDED[metric])))
    X = np.random.default_rng(0).exponential(size=(1100, 40)).astype(dtype)
    together = rule.embedded(X)
    for row in (0, 1, 7, 1023, 1024, 1099):
        assert_array_equal(together[row], rule.embedded(X[row:row + 1])[0])
        assert_array_equal(together[row], rule.embedded(np.asfortranarray(X)[row:row + 1])[0])


@pytest.mark.parametrize("estimator", [dssl.LaplaceLearning, dssl.LapSVC])
def test_a_training_point_has_the_same_probabilities_alone(estimator):
    X = points_of("manhattan", 200, 6)
    y = np.where(np.arange(200) % 5 == 0, (X[:, 0] > np.median(X[:, 0])).astype(int), -1)
    graph = dssl.KNNGraph(n_neighbors=6, metric="mahalanobis", metric_params={"VI": ROOT @ ROOT.T})
    model = estimator(graph=graph, scale="none").fit(X, y)
    together = model.predict_proba(X)
    for row in range(0, 200, 23):
        assert_allclose(model.predict_proba(X[row:row + 1])[0], together[row], rtol=1e-9)


def test_the_transform_of_mahalanobis_does_not_depend_on_the_axes_of_equal_eigenvalues(monkeypatch):
    VI = np.diag([2.0, 2, 2, 5])
    X = np.random.default_rng(0).normal(size=(9, 4))
    rule = metric_of(metric_with("mahalanobis", MetricParams.of({"VI": VI})))
    rows, eigh = rule.embedded(X), np.linalg.eigh

    def turned(matrix):
        lengths, axes = eigh(matrix)
        axes[:, :3] = axes[:, :3] @ np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + 1)[0]
        return lengths, axes

    monkeypatch.setattr(np.linalg, "eigh", turned)
    assert_allclose(rule.embedded(X), rows, rtol=1e-12, atol=1e-12)
    assert_allclose(rows, X * np.sqrt(VI.diagonal()), rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "w", "scale"), [
    (3.0, None, 1e-120), (500.0, None, 1.0), (3.0, None, 1e120), (80.0, (0.0, 1e-300, 2.0), 1e-9)])
@pytest.mark.extended_cases("80.0-w3-1e-09")
def test_minkowski_of_powers_out_of_range(p, w, scale):
    X = np.array([[0, 0, 0], [9, .1, .3], [9, .2, 0], [0, -.3, 0.1], [40, .1, .1]]) * scale
    rule = metric_of(metric_with("minkowski", MetricParams.of({"p": p, "w": w})))
    with np.errstate(divide="ignore"):
        logs = np.log(np.abs(X[:, None] - X)) + np.log(np.ones(3) if w is None else w) / p
    wanted = np.exp(np.logaddexp.reduce(p * logs, axis=2) / p)
    assert (wanted > 0).sum() == 20
    assert_allclose(rule.between(X, X), wanted, rtol=1e-12)
    assert_allclose(rule.between(sparse.csr_array(X), sparse.csr_array(X)), wanted, rtol=1e-12)


@pytest.mark.parametrize(("given", "same"), [({"p": 3}, {"p": 3.0}), ({"p": np.int64(3)}, {"p": np.float32(3)})])
def test_equal_parameters_have_one_hash_and_one_digest(given, same):
    one, other = (dssl.KNNGraph(metric="minkowski", metric_params=params) for params in (given, same))
    assert one == other
    assert len({one, other, one.metric_params, other.metric_params}) == 2
    assert digest(one.metric_params) == digest(other.metric_params)


def test_a_graph_with_parameters_is_a_value():
    graph = dssl.KNNGraph(metric="minkowski", metric_params={"p": 3, "w": np.ones(2)})
    same = dssl.KNNGraph(metric="minkowski", metric_params={"w": [1, 1], "p": 3})
    assert graph == same
    assert hash(graph) == hash(same)
    assert graph.searched_alike(10).metric_params == graph.metric_params
    assert dssl.KNNGraph(metric_params={}).metric_params is None


@pytest.mark.parametrize(("metric", "params", "message"), [
    ("euclidean", {"p": 3}, "metric_params.p of metric='euclidean'.*has no parameters.*leave it out"),
    ("minkowski", {"q": 3}, "metric_params.q of .*the parameters of minkowski are p, w"),
    ("minkowski", {"p": 0.5}, "metric_params.p=0.5"), ("minkowski", {"p": "x"}, "metric_params.p='x'"),
    ("minkowski", {"w": [1, -1]}, "negative weight"), ("minkowski", {"w": 2}, "metric_params.w=2"),
    ("minkowski", [3], "metric_params=.3."),
    ("seuclidean", None, "metric='seuclidean' without V"), ("seuclidean", {"V": [1, 0]}, "metric_params.V with 0.0"),
    ("mahalanobis", {"VI": [[1, 2], [2, 1]]}, "has the eigenvalue -1"),
    ("mahalanobis", {"VI": [[1, 2], [0, 1]]}, "not symmetric"), ("mahalanobis", {"VI": [1, 2]}, "of shape"),
    ("mahalanobis", {"VI": [[1, 2], [0]]}, "array of these"),
    ("mahalanobis", {"VI": np.eye(300)}, "at most 256"),
    ("kantorovich", {"cost": np.eye(2)}, "one on the diagonal"),
    (taxi, {"p": 3}, "metric_params of a function")])
def test_parameters_that_a_metric_has_not_are_refused(metric, params, message):
    with pytest.raises(ParameterError, match=f"(?s){message}"):
        dssl.KNNGraph(metric=metric, metric_params=params)


def test_parameters_of_other_columns_are_refused():
    with pytest.raises(DataError, match="metric='seuclidean' of 3 columns"):
        dssl.neighbors(np.eye(3), 1, metric="seuclidean", metric_params={"V": [1, 2]})


def test_a_grid_compares_parameters():
    X = points_of("manhattan", 90, 4)
    y = np.where(np.arange(90) % 3 == 0, (X[:, 0] > np.median(X[:, 0])).astype(int), -1)
    search = dssl.GridSearch(dssl.LapSVC(graph=dssl.KNNGraph(n_neighbors=5, metric="minkowski")), {
        "graph__metric_params": [{"p": 1.5}, {"w": [5, 1, 1, 1]}]}, cv=3).fit(X, y)
    assert search.n_graphs_ == 2
    assert np.mean(search.predict(X[::3]) == y[::3]) > 0.7


@pytest.mark.parametrize("metric", cases([name for name in NAMES if METRICS.named(name).takes_sparse], COMPILED_SPARSE))
@pytest.mark.extended_cases("jensen_shannon", "symmetric_kl")
def test_sparse_rows_have_the_distances_of_dense_ones(metric):
    X = points_of(metric, 60, 6)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = 0
    X[:, 0] = X[:, 0] if "ones" in metric_of(metric).undefined_why else X[:, 0] + 1
    dense, rows = (dssl.neighbors(rows, 4, metric=metric, method="exact", execution=InProcess(1))
                   for rows in (X, sparse.csr_array(X)))
    assert_allclose(rows.distances, dense.distances, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("metric", [
    *cases(["manhattan", "correlation", "jaccard", "haversine"], {"jaccard", "haversine"}),
    pytest.param(taxi, id="taxi")])
@pytest.mark.extended_cases("haversine", "taxi", "manhattan")
def test_nn_descent_finds_the_neighbors_whatever_the_number_of_threads(metric):
    X = points_of("manhattan" if metric is taxi else metric, 1500, 16)
    exact = dssl.neighbors(X, 8, metric=metric, method="exact")
    lists = [dssl.neighbors(X, 8, metric=metric, method="descent", execution=InProcess(threads)) for threads in (1, 3)]
    recall = lists[0].attributes["recall"]
    assert recall["lower"] > 0.95
    assert recall["certified"] == "sample"
    assert_array_equal(lists[0].indices, lists[1].indices)
    listed = lists[0].distances <= exact.distances[:, -1:] * (1 + 1e-6)
    assert_allclose(listed.mean(), recall["recall"], atol=0.02)
    assert certify_recall(X, exact)["recall"] == 1


@pytest.mark.slow
def test_nn_descent_of_sparse_rows():
    X = sparse.random_array((1200, 40), density=0.2, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    lists = dssl.neighbors(X, 6, metric="manhattan", method="descent")
    assert lists.attributes["recall"]["lower"] > 0.9


@pytest.mark.parametrize("metric", ["manhattan", "hellinger"])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.slow_cases("True-manhattan")
def test_lists_that_grow_are_those_of_all_rows(metric, is_sparse):
    X = points_of(metric, 300, 5)
    rows = as_rows(sparse.csr_array(X) if is_sparse else X)
    params = NeighborParams(n_neighbors=6, metric=metric, method="exact")
    base = dssl.neighbors(sparse.csr_array(X[:220]) if is_sparse else X[:220], 6, metric=metric, method="exact")
    grown = grow_neighbors(rows, base, params, InProcess())
    fresh = dssl.neighbors(sparse.csr_array(X) if is_sparse else X, 6, metric=metric, method="exact")
    assert_array_equal(grown.indices, fresh.indices)
    assert_array_equal(grown.distances, fresh.distances)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.slow_cases("True")
def test_an_index_is_stored_and_opened(is_sparse):
    X, new = points_of("canberra", 90, 5), points_of("canberra", 9, 5, seed=1)
    rows, queries = (sparse.csr_array(X), sparse.csr_array(new)) if is_sparse else (X, new)
    index = NeighborIndex.of(as_rows(rows), "canberra", InProcess())
    opened = NeighborIndex.from_arrays(index.to_arrays(), json.loads(json.dumps(index.attributes)))
    for found, again in zip(index.nearest(queries, 4), opened.nearest(queries, 4), strict=True):
        assert_array_equal(found, again)
    formula = np.array([[reference.METRICS["canberra"](x, z) for z in X.astype(float)] for x in new.astype(float)])
    assert_allclose(index.nearest(queries, 4)[0], np.sort(formula, axis=1)[:, :4], rtol=1e-5)


def test_lists_do_not_depend_on_the_budget():
    X = points_of("manhattan", 3000, 30)
    lists = [dssl.neighbors(X, 5, metric="manhattan", method="exact", execution=InProcess(2, memory_budget=budget))
             for budget in (1 << 30, 1 << 24)]
    assert_array_equal(lists[0].indices, lists[1].indices)


def test_the_selection_follows_from_the_shape():
    few, many = (ArrayRows(np.broadcast_to(np.float32(0), (n, 10))) for n in (4000, 10**6))
    assert possible_methods(few, 10, "manhattan", 1 << 30) == {"exact"}
    assert possible_methods(many, 10, "manhattan", 1 << 30) == {"descent"}
    assert possible_methods(many, 10, "hellinger", 1 << 24) == {"partitioned"}
    between = {n: possible_methods(ArrayRows(np.broadcast_to(np.float32(0), (n, 10))), 10, "manhattan", 1 << 30)
               for n in (4001, 10_000, 30_000)}
    assert between == {4001: {"exact"}, 10_000: {"descent", "exact"}, 30_000: {"descent"}}


@pytest.mark.parametrize(("metric", "message"), [
    ("l1", "named 'manhattan'"), ("inner_product", "no distance"), ("wminkowski", "named 'minkowski'"),
    ("sinkhorn", "kantorovich"), ("true_angular", "largest for equal rows"), ("nothing", "there is no metric"),
    pytest.param(lambda x, z: 0.0, "numba.njit", id="a function of Python")])
def test_a_metric_that_is_refused_says_what_to_do(metric, message):
    with pytest.raises(ParameterError, match=message):
        dssl.KNNGraph(metric=metric)


@pytest.mark.parametrize(("metric", "X", "message"), [
    ("jaccard", [[0, 2], [1, 0], [1, 1]], "not binary"),
    ("hellinger", [[1.0, -1], [1, 0], [1, 1]], "negative somewhere, or zero"),
    ("symmetric_kl", [[0.0, 0], [1, 0], [1, 1]], "negative somewhere, or zero"),
    ("correlation", [[1.0, 1], [1, 0], [2, 1]], "constant"),
    ("haversine", [[52.5, 13.4], [1, 0], [1, 1]], "np.radians"),
    ("haversine", [[1.0, 1, 1], [1, 0, 0], [1, 1, 0]], "of 3 columns"),
    ("spearmanr", sparse.csr_array(np.eye(3)), "of sparse rows")])
def test_rows_that_a_metric_is_not_defined_for(metric, X, message):
    with pytest.raises(DataError, match=message):
        dssl.neighbors(X if sparse.issparse(X) else np.array(X), 1, metric=metric)


def test_a_function_that_is_no_distance():
    @njit
    def product(x, z):
        return -x[0] * z[0]

    with pytest.raises(DataError, match="a distance is a number of at least 0"):
        dssl.neighbors(np.array([[1.0], [2], [3]]), 1, metric=product)


def test_what_cannot_be():
    with pytest.raises(ParameterError, match="method='partitioned' with metric='manhattan'"):
        dssl.KNNGraph(metric="manhattan", method="partitioned")
    with pytest.raises(ParameterError, match="set scale to auto or none"):
        dssl.KNNGraph(metric="haversine").build(points_of("haversine", 50, 2), scale="standardize")
    with pytest.raises(ParameterError, match="set scale to auto or none"):
        dssl.LaplaceLearning(dssl.KNNGraph(metric="haversine"), scale="standardize").fit(
            points_of("haversine", 50, 2), np.arange(50) % 2)


UNSCALED = {"hamming", "haversine", "canberra", "braycurtis", "hellinger", "jensen_shannon", "symmetric_kl",
            "wasserstein_1d", "circular_kantorovich", "kantorovich", "seuclidean", "mahalanobis", "jaccard", "dice",
            "matching", "kulsinski", "rogerstanimoto", "russellrao", "sokalmichener", "sokalsneath", "yule"}


def test_codes_sets_shares_counts_and_angles_are_not_scaled():
    assert {name for name in METRICS if not METRICS.named(name).scaled_by_default} == UNSCALED


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [dssl.LaplaceLearning, dssl.SemiSupervisedClassifier, dssl.LapSVC])
@pytest.mark.parametrize(("metric", "params"), [("hamming", None), ("braycurtis", None),
                                                ("seuclidean", {"V": [1, 1, 1e4]})])
def test_estimators_leave_features_as_they_are_for_such_a_metric(estimator, metric, params):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (120, 3)) * np.array([1.0, 1, 100])
    known = np.where(np.arange(120) < 40, (X[:, 0] > 4).astype(int), -1)
    graph = dssl.KNNGraph(n_neighbors=6, metric=metric, metric_params=params)
    model = estimator(graph=graph).fit(X + 1, known)
    assert model.scaling_.kind == "none"
    assert graph.build(X + 1).scaling.kind == "none"
    assert estimator(graph=dssl.KNNGraph(n_neighbors=6)).fit(X + 1, known).scaling_.kind != "none"


def test_a_grid_of_metrics_scales_for_each():
    rng = np.random.default_rng(0)
    X = 1 + rng.integers(0, 9, (90, 3)) * np.array([1.0, 1, 100])
    known = np.where(np.arange(90) < 40, (X[:, 0] > 5).astype(int), -1)
    search = dssl.GridSearch(dssl.LapSVC(graph=dssl.KNNGraph(n_neighbors=5)),
                             {"graph__metric": ["braycurtis", "euclidean"]}, cv=3).fit(X, known)
    best = search.best_params_["graph__metric"]
    assert search.best_estimator_.scaling_.kind == ("none" if best == "braycurtis" else "standardize")
    assert search.n_graphs_ == 2


@pytest.mark.parametrize("metric", ["manhattan", "hellinger", pytest.param(taxi, id="taxi")])
@pytest.mark.parametrize("estimator", [dssl.LaplaceLearning, dssl.SemiSupervisedClassifier, dssl.LapSVC])
def test_estimators_learn_by_a_metric(estimator, metric):
    X = points_of("manhattan", 240, 6)
    centers = np.random.default_rng(0).exponential(size=(12, 6))
    y = np.argmin(((np.log(X[:, None]) - np.log(centers)) ** 2).sum(2), axis=1) % 2
    known = np.where(np.arange(240) % 6 == 0, y, -1)
    model = estimator(graph=dssl.KNNGraph(n_neighbors=6, metric=metric), scale="none").fit(X[:200], known[:200])
    assert np.mean(model.predict(X[200:]) == y[200:]) > 0.8


def test_taxi_is_manhattan():
    X = points_of("manhattan", 100, 4)
    assert_allclose(dssl.neighbors(X, 5, metric=taxi).distances,
                    dssl.neighbors(X, 5, metric="manhattan").distances, rtol=1e-5)
    assert pair_metric_of(taxi).name == "taxi"


@pytest.mark.slow
def test_pynndescent_is_imported_where_its_functions_are_needed():
    code = ("import sys, numpy as np, dssl\n"
            "X = np.random.default_rng(0).random((300, 4))\n"
            "for metric in ('euclidean', 'cosine', 'correlation', 'hellinger', 'manhattan'):\n"
            "    dssl.KNNGraph(metric=metric).build(X, scale='none')\n"
            "print('pynndescent' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
