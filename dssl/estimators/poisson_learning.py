"""`PoissonLearning`: labels as sources and sinks on the graph."""

from .graph import OneSystemClassifier


class PoissonLearning(OneSystemClassifier):
    """Poisson learning: labels are sources and sinks of a flow on the graph.

    It suits one label to a few labels of each class. Scores are the potentials of the flow,
    standardized by the unlabeled points of each component of the graph, class by class.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result.

    Points that are unreachable from any label, in components of the graph without one,
    are counted in `evidence_` and have no prediction: NaN of quantities, -1 of integer
    classes, or else None. A new point has the weighted mean of its nearest points in
    the graph, and a point of the fit what the fit says.

    Parameters
    ----------
    graph : KNNGraph, int or None
        How the graph is made from the points; an int is its `n_neighbors`, and None
        takes the defaults. A graph that is already made is passed to `fit`.
    class_sizes : list, dict, "balanced" or None
        The known sizes of the classes, in the order of `classes_` or by class in a
        dict: counts or shares, or a pair of shares (low, high) where only an interval
        is known; "balanced" says that all are equal. The classes are then the cut of
        the graph with these sizes. None where they are not known: the labels' own
        proportions are no substitute.
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in a
        dict. Only the ratios matter.
    base_estimator : str, estimator or None
        Another model, which is fitted to the labels and cross-validated on them:
        "boosting", "logistic", or any classifier with `predict_proba`; see
        `SemiSupervisedClassifier`.
    class_embeddings : array-like, shape (n_classes, d), or None
        A vector for each class in the space of X, such as the embedded texts of a
        language-image model. y may then have no label at all.
    classes : list or None
        The names of the classes in the order of the rows of class_embeddings, or of
        the columns of `fit(soft_labels=...)`; None takes the names of a DataFrame, or
        the classes of y in ascending order, or 0, 1, ... where y has no label.
    tol : float
        The relative residual at which the solve of a column ends.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` holds the fitted scaling.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1
        GiB, or what the workers allow.
    unlabeled : object
        The marker of points without a label, where it is not -1 (integers), NaN
        (floats), None or "" (text).
    random_state : int
        The seed of the graph's search and of the start of the solver.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The classes, in ascending order.
    model_ : GraphModel
        What predicts points, with its `values_at` the vertices.
    transduction_ : ndarray, shape (n,)
        The labels predicted for the points of the fit.
    evidence_ : dict
        The graph, the solver, the number of `unreachable` points, and the classes
        that no point of the fit is predicted as, `never_predicted`.
    calibration_ : Calibration
        What makes scores probabilities.
    by_labels_ : dict
        The errors of the model and of its supervised baseline on held-out labels.
        It is computed when it is first asked for.
    scaling_ : Scaling
        How the features are scaled.
    n_features_in_ : int
        The number of features of the fit.
    feature_names_in_ : ndarray, shape (d,)
        The names of the features, where the columns of X have names.

    Raises
    ------
    DataError
        When `fit` is called: y has no label, or labels of one class, or is in {-1, +1}.
        Since -1 marks unlabeled points, name another marker then, such as
        `unlabeled=0`.
    ParameterError
        When `fit` is called: a parameter is out of range.

    References
    ----------
    Calder, Cook, Thorpe, Slepcev, "Poisson learning: graph based semi-supervised
    learning at very low label rates", ICML 2020.

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import PoissonLearning
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = PoissonLearning().fit(X, y)
    >>> model.score(X, classes)
    1.0
    """

    learner = "poisson"
