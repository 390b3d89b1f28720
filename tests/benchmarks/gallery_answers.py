"""Answers to the questions of the gallery, each written as its user would; `gallery` counts their lines.

Those of dssl stand before those of scikit-learn and of GraphLearning, which must be installed.
"""

import contextlib
import io
import tempfile

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import pairwise_distances_argmin
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import SVC

import dssl
from dssl import (
    GraphKernelRidge,
    GridSearch,
    KernelKMeans,
    KNNGraph,
    MultiscaleKernelClassifier,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
    suggest_labels,
)

with contextlib.redirect_stdout(io.StringIO()):  # what it lacks, it says there
    import graphlearning


def default(X, y):
    return SemiSupervisedClassifier().fit(X, y).transduction_


def spreading(X, y):
    return LabelSpreading(kernel="knn", n_neighbors=10).fit(X, y).transduction_


def poisson(X, y):
    known = np.flatnonzero(y >= 0)
    W = graphlearning.weightmatrix.knn(X, 10)
    return graphlearning.ssl.poisson(W).fit_predict(known, y[known])


def many_default(X, ys):
    graph = KNNGraph().build(X)
    return [SemiSupervisedClassifier(scale="none").fit(X, y, graph=graph).transduction_ for y in ys]


def many_spreading(X, ys):
    return [LabelSpreading(kernel="knn", n_neighbors=10).fit(X, y).transduction_ for y in ys]


def many_poisson(X, ys):
    W = graphlearning.weightmatrix.knn(X, 10)
    known = [np.flatnonzero(y >= 0) for y in ys]
    return [graphlearning.ssl.poisson(W).fit_predict(rows, y[rows]) for rows, y in zip(known, ys, strict=True)]


def stated(X, y):
    model = SemiSupervisedClassifier().fit(X, y)
    return model.transduction_, model.evidence_["gain"]["with_graph"]


def stated_spreading(X, y):
    known = np.flatnonzero(y >= 0)
    wrong = np.zeros(len(known), bool)
    for _, held in StratifiedKFold(5, shuffle=True, random_state=0).split(known, y[known]):
        rest = y.copy()
        rest[known[held]] = -1
        model = LabelSpreading(kernel="knn", n_neighbors=10).fit(X, rest)
        wrong[held] = model.transduction_[known[held]] != y[known[held]]
    return LabelSpreading(kernel="knn", n_neighbors=10).fit(X, y).transduction_, wrong.mean()


def names_and_graph(X, vectors):
    return SemiSupervisedClassifier(class_embeddings=vectors, classes=np.arange(10)).fit(X).transduction_


def nearest_name(X, vectors):
    return cosine_similarity(X - X.mean(axis=0), vectors - vectors.mean(axis=0)).argmax(axis=1)


def names_then_spreading(X, vectors):
    similarity = cosine_similarity(X - X.mean(axis=0), vectors - vectors.mean(axis=0))
    two = np.sort(similarity, axis=1)[:, -2:]
    margin = two[:, 1] - two[:, 0]
    y = np.where(margin >= np.quantile(margin, 0.9), similarity.argmax(axis=1), -1)
    return LabelSpreading(kernel="knn", n_neighbors=10).fit(X, y).transduction_


def sizes(X, y, counts):
    return SemiSupervisedClassifier(class_sizes=list(counts)).fit(X, y).transduction_


def sizes_poisson(X, y, counts):
    known = np.flatnonzero(y >= 0)
    W = graphlearning.weightmatrix.knn(X, 10)
    return graphlearning.ssl.poisson(W, class_priors=counts / counts.sum()).fit_predict(known, y[known])


def sizes_assigned(X, y, counts):
    model = LabelSpreading(kernel="knn", n_neighbors=10).fit(X, y)
    places = np.repeat(np.arange(len(counts)), counts)
    cost = -np.log(np.maximum(model.label_distributions_, 1e-12))
    return places[linear_sum_assignment(cost[:, places])[1]]


def suggested(X):
    return suggest_labels(X, count=20).ids


def centers(X):
    return pairwise_distances_argmin(KMeans(20, n_init=10, random_state=0).fit(X).cluster_centers_, X)


def variance_reduction(X, truth):
    W = graphlearning.weightmatrix.knn(X, 10)
    values, vectors = graphlearning.graph(W).eigen_decomp(normalization="normalized", k=50)
    start = np.unique(truth, return_index=True)[1]  # it needs a label of each class
    learner = graphlearning.active_learning.active_learner(
        graphlearning.ssl.laplace(W), graphlearning.active_learning.var_opt, start, truth[start],
        C=np.diag(1 / (values + 1e-11)), V=vectors)
    for _ in range(10):
        chosen = learner.select_queries()
        learner.update(chosen, truth[chosen])
    return learner.labeled_ind


def quantities(X, y):
    return SemiSupervisedRegressor().fit(X, y).predict(X)


def three_nearest(X, y):
    known = ~np.isnan(y)
    return KNeighborsRegressor(3, weights="distance").fit(X[known], y[known]).predict(X)


def gaussian_process(X, y):
    known = ~np.isnan(y)
    model = GaussianProcessRegressor(RBF(5.0) + WhiteKernel(0.1), normalize_y=True, n_restarts_optimizer=5,
                                     random_state=0)
    return model.fit(X[known], y[known]).predict(X)


def kernel_clusters(X):
    return KernelKMeans(4).fit(X).labels_


def k_means(X):
    return KMeans(4, n_init=10, random_state=0).fit_predict(X)


def spectral(X):
    return SpectralClustering(4, affinity="nearest_neighbors", random_state=0).fit_predict(X)


def haversine(X, y):
    return SemiSupervisedClassifier(graph=KNNGraph(metric="haversine"), scale="none").fit(X, y).transduction_


def haversine_spreading(X, y):
    def kernel(A, B):
        return NearestNeighbors(n_neighbors=10, metric="haversine").fit(B).kneighbors_graph(A).toarray()

    return LabelSpreading(kernel=kernel).fit(X, y).transduction_


def haversine_nearest(X, y):
    return KNeighborsClassifier(1, metric="haversine").fit(X[y >= 0], y[y >= 0]).predict(X)


def probabilities(X, y):
    return SemiSupervisedClassifier().fit(X, y).predict_proba(X)


def probabilities_spreading(X, y):
    return LabelSpreading(kernel="knn", n_neighbors=10).fit(X, y).predict_proba(X)


def probabilities_svc(X, y):
    return CalibratedClassifierCV(SVC(), cv=3).fit(X[y >= 0], y[y >= 0]).predict_proba(X)


def with_boosting(X, y):
    return SemiSupervisedClassifier(base_estimator="boosting").fit(X, y).transduction_


def boosting(X, y):
    return HistGradientBoostingClassifier(random_state=0).fit(X[y >= 0], y[y >= 0]).predict(X)


def graphs(X, y, counts):
    return [GraphKernelRidge(graph=KNNGraph(n_neighbors=k), scale="none").fit(X, y).transduction_ for k in counts]


def graphs_spreading(X, y, counts):
    return [LabelSpreading(kernel="knn", n_neighbors=k).fit(X, y).transduction_ for k in counts]


def multiscale(X, y, new):
    return MultiscaleKernelClassifier().fit(X, y).predict(new)


def rbf_propagation(X, y, new):
    return LabelPropagation(gamma=20).fit(X, y).predict(new)


def from_file(folder):
    with tempfile.TemporaryDirectory() as workspace:
        spec = {"name": "points", "labels": {"given": True},
                "data": {"source": str(folder / "points.csv"), "read": {"target": "kind"}}}
        result = dssl.run(spec, workspace=workspace)
        return result.predict(pd.read_csv(folder / "new.csv"))


def from_file_spreading(folder):
    table = pd.read_csv(folder / "points.csv")
    codes, names = pd.factorize(table.pop("kind"))  # -1: an empty cell
    model = LabelSpreading(kernel="knn", n_neighbors=10).fit(table, codes)
    return names.to_numpy()[model.predict(pd.read_csv(folder / "new.csv"))]


def searched(X, y):
    grid = {"graph__n_neighbors": [5, 10, 20], "penalty": [0.01, 0.1, 1.0]}
    return GridSearch(GraphKernelRidge(), grid).fit(X, y).transduction_


def searched_spreading(X, y):
    known, unknown = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    folds = [(np.r_[known[train], unknown], known[held]) for train, held in StratifiedKFold(
        5, shuffle=True, random_state=0).split(known, y[known])]
    grid = {"n_neighbors": [5, 10, 20], "alpha": [0.1, 0.2, 0.8]}
    search = GridSearchCV(LabelSpreading(kernel="knn"), grid, cv=folds).fit(X, y)
    return search.best_estimator_.transduction_


def transfer(X, y):
    return SemiSupervisedClassifier().fit(X, y).transduction_


def nearest_annotated(X, y):
    return KNeighborsClassifier(1).fit(X[y != ""], y[y != ""]).predict(X)


def logistic(X, y):
    return LogisticRegression(max_iter=1000).fit(X[y != ""], y[y != ""]).predict(X)


def transfer_spreading(X, y):
    names, codes = np.unique(y, return_inverse=True)  # the empty name is the first
    model = LabelSpreading(kernel="knn", n_neighbors=10).fit(X, codes - 1)
    return names[1:][model.transduction_]
