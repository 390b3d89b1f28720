"""`KernelKMeans`: clusters of all points in a kernel, which predict the cluster of a new point."""

from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from ..base.digest import BANDWIDTH, JsonObject, require_random_state
from ..base.errors import require
from ..base.units import budget_of
from ..data.scaling.scaling import ScalingKind, scaled
from ..graph.knn_graph import KNNGraph, graph_of
from ..graph.regularizer import RegularizerParams
from ..kernels.base import Kernel
from ..learners.feature_maps import ETA, GRAPH_MAPS, FeatureMapParams
from ..learners.kmeans import KMeansParams
from ..learners.model import Model
from ..learners.target.target import Quantities
from ..methods.clusters import CLUSTERING, KERNEL_CLUSTERING, ClustersParams
from ..methods.evaluation import MemoryWorkspace
from ..methods.step import Fit
from ..report.page import page
from ..report.record import RunRecord
from ..report.sections.data import data_section
from ..report.sections.sample import clusters_section
from ..selection.number_of_clusters import number_rule
from .arguments import GraphLike, PointsLike, base_kernels
from .points import PointPredictor
from .targets import require_unequal


class KernelKMeans(ClusterMixin, PointPredictor):
    """k-means in the feature space of a kernel; new points get the nearest cluster.

    `fit(X)` takes any number of points and no labels. X is an array, a sparse matrix, a
    table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client if
    there is one, in threads of this process otherwise, with the same result.

    Parameters
    ----------
    n_clusters : int, "eigengap" or "gap"
        The number of clusters, or the rule by which it is chosen up to
        `max_clusters` (`dssl.selection.number_of_clusters`).
    feature_map : "graph", "base", "deformed", "cluster" or "multiscale"
        The kernel: "graph", that of the graph by `regularizer`, from its lowest
        eigenpairs, two for each cluster, of unit diagonal (spectral clustering);
        "base", the base kernel; "deformed", the base kernel deformed by the graph;
        "cluster", the cluster kernel of the leading eigenvalues of the affinity;
        "multiscale", the multi-scale eigen kernel. Kernels other than that of the
        graph come from landmarks, and are exact where all points are.
    kernel : str or callable
        The base kernel of "base", "deformed" and "cluster": "rbf", "laplacian",
        "linear", "polynomial", "cosine", or a function that returns the block of
        its values between the rows X and Z.
    bandwidth : float or str
        The bandwidth of the base kernel: a number in units of the features,
        "median", the median distance of two points, or a multiple of it such as
        "0.5*median".
    eta : float
        The weight of the graph against the base kernel, of "deformed", 0 to 1e8.
    graph : KNNGraph, int or None
        How the graph of "graph" and "deformed" is made from the points; an int is its
        `n_neighbors`, and None takes the defaults. A graph that is already made is
        passed to `fit`. Of a graph in more components than clusters only the largest
        are clustered, and points of the others have no cluster, -1.
    regularizer : RegularizerParams or None
        The regularizer of the graph; None is that of the normalized Laplacian with
        ridge 0.01 and power 2.
    n_landmarks : int or "auto"
        The number of points that carry the kernel, or of "deformed" those at which
        functions are measured. "auto" is 1,000, of "cluster" and "multiscale"
        2,000, as far as the memory budget allows; all points where there are fewer.
    n_init : int
        The number of starts by k-means++, of which the best goes on.
    max_clusters : int
        The largest number of clusters that a rule may choose.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` holds the fitted scaling.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1
        GiB, or what the workers allow.
    random_state : int
        The seed of every random choice.

    Attributes
    ----------
    labels_ : ndarray, shape (n,)
        The cluster of each point, from the largest, 0, down; -1 for none.
    n_clusters_ : int
        The number of clusters.
    model_ : Model
        What predicts points, and no more than that needs. Its values are, up to
        what all clusters share, minus half the squared distance to each center.
    inertia_ : float
        The mean squared distance of the points to their centers, in the kernel.
    evidence_ : dict
        What the kernel, the choice of the number and the passes tell of themselves.
    scaling_ : Scaling
        How the features are scaled.
    n_features_in_ : int
        The number of features of the fit.
    feature_names_in_ : ndarray, shape (d,)
        The names of the features, where the columns of X have names.

    Raises
    ------
    ParameterError
        When `fit` is called: a parameter is out of range.

    References
    ----------
    Dhillon, Guan, Kulis, "Kernel k-means, spectral clustering and normalized cuts", KDD
    2004; Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time",
    AISTATS 2012, section 5.2 ("deformed").

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from dssl import KernelKMeans, clustering_scores
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> model = KernelKMeans(n_clusters=2).fit(X)
    >>> clustering_scores(classes, model.labels_)["accuracy"]
    1.0
    >>> (model.predict(X) == model.labels_).all()
    np.True_
    """

    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph, "regularizer": RegularizerParams}
    model_: Model
    labels_: np.ndarray
    _attributes: dict[str, JsonObject]  # the attributes of what the steps made, by step

    def __init__(self, n_clusters: int | str = 8, *, feature_map: str = "graph", kernel: str | Kernel = "rbf",
                 bandwidth: float | str = BANDWIDTH, eta: float = ETA, graph: KNNGraph | int | None = None,
                 regularizer: RegularizerParams | None = None, n_landmarks: int | str = "auto", n_init: int = 10,
                 max_clusters: int = 20, scale: ScalingKind = "auto", memory_budget: int | str | None = None,
                 random_state: int = 0):
        self.n_clusters, self.feature_map, self.kernel = n_clusters, feature_map, kernel
        self.bandwidth, self.eta = bandwidth, eta
        self.graph, self.regularizer, self.n_landmarks, self.n_init = graph, regularizer, n_landmarks, n_init
        self.max_clusters, self.scale = max_clusters, scale
        self.memory_budget, self.random_state = memory_budget, random_state

    def fit(self, X: PointsLike, y: object = None, graph: GraphLike | None = None) -> Self:
        """Cluster the points.

        Parameters
        ----------
        X : array-like, shape (n, d)
            All points, or any other input that an estimator reads.
        y : object
            It is not read.
        graph : Graph, sparse matrix, Neighbors or pair of arrays, or None
            A graph in place of the one made of X, as in `LapSVC.fit`.

        Returns
        -------
        KernelKMeans
            The estimator itself.

        Raises
        ------
        ParameterError
            A parameter is out of range.
        DataError
            There are fewer points than clusters.
        NotConverged
            Eigenpairs of the graph end above their tolerance.
        BudgetError
            What has to be held does not fit the memory budget.
        ValueError
            X is not finite.

        Warns
        -----
        UserWarning
            Points have no cluster, or there are fewer distinct points than clusters.
        """
        require_random_state(self.random_state)
        execution, params = self._execution(), self._params()
        rows = self._points(X, execution, reset=True)
        require_unequal(rows)
        feature_map = params.feature_map
        require(graph is None or feature_map.name in GRAPH_MAPS,
                f'graph is given, and feature_map="{feature_map.name}"',
                why="that kernel has no graph", fix='leave it out, or use feature_map="graph" or "deformed"')
        self.scaling_ = self._scaling_of(X, rows, execution, graph)
        rows = scaled(rows, self.scaling_, execution)
        graph = graph_of(rows, feature_map.graph, execution, graph) if feature_map.name in GRAPH_MAPS else None
        nothing = Quantities.of(np.full((len(rows), 1), np.nan))
        made = MemoryWorkspace(Fit(rows, nothing, graph=graph), execution)
        made.run(CLUSTERING.steps, params)
        clusters = made.artifacts["models"]
        attributes = clusters.attributes
        self.model_, self.labels_ = made.fit.side.models["model"], clusters.parts.rows("labels").read_all()
        self.inertia_, self.n_clusters_ = attributes["inertia"], len(attributes["counts"])
        self.evidence_ = {**attributes["features"], **attributes["kmeans"], "chosen": attributes["chosen"],
                          "counts": attributes["counts"]}
        self._attributes = {"models": attributes, "points": {"scaling": self.scaling_.to_arrays()[1]}}
        return self

    def report(self, path: str | Path | None = None) -> str:
        """Return the report of the clusters, one self-contained HTML page.

        It says how many clusters there are and how large they are, how their number was
        chosen, and how the features are scaled.

        Parameters
        ----------
        path : str, Path or None
            The file that it is written to, if any.

        Returns
        -------
        str
            The page.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            `fit` was not called.
        """
        check_is_fitted(self, "model_")
        method = CLUSTERING if self.feature_map in GRAPH_MAPS else KERNEL_CLUSTERING
        run = RunRecord(self._attributes, {"metrics": {"inertia": self.inertia_}})
        html = page(type(self).__name__, f"{len(self.labels_):,} points", [
            clusters_section(run, method.report_text), data_section(run)])
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html

    def _params(self) -> ClustersParams:
        rule = number_rule(self.n_clusters, self.max_clusters)
        n_clusters = self.n_clusters if rule is None else self.max_clusters
        start = KMeansParams(n_clusters=n_clusters, n_init=self.n_init,  # type: ignore[arg-type]  # it checks
                             random_state=self.random_state)
        feature_map = FeatureMapParams(
            name=self.feature_map, regularizer=self.group("regularizer"),  # type: ignore[arg-type]
            eta=self.eta, n_landmarks=self.n_landmarks, graph=self.group("graph"),  # type: ignore[arg-type]
            budget=budget_of(self.memory_budget), random_state=self.random_state)
        return ClustersParams(kernels=base_kernels(self), feature_map=feature_map, kmeans=start, rule=rule,
                              baselines=())
