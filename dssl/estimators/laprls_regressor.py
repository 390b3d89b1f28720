"""`LapRLSRegressor`: Laplacian regularized least squares of quantities."""

from .base import PointRegressor
from .laprls import LapRLSEstimator


class LapRLSRegressor(PointRegressor, LapRLSEstimator):
    """Laplacian regularized least squares on landmarks, for one or several targets.

    `fit(X, y)` takes y of shape (n,) or (n, c); a row with a NaN is unlabeled. Points,
    weights and graph are as in `LapSVC`.

    Parameters
    ----------
    kernel : str or callable
        The base kernel: "rbf", "laplacian", "linear", "polynomial", "cosine", or a
        function that returns the block of its values between the rows X and Z.
    bandwidth : float or str
        The bandwidth of the base kernel: a number in units of the features,
        "median", the median distance of two points, or a multiple of it such as
        "0.5*median". "chosen" takes "0.5*median" or "2*median" by what chooses the
        penalties, and "0.5*median" where labels cannot tell; a kernel without a
        bandwidth has none. The systems of the one that leads are held while those
        of the other are made.
    gamma_A : float, str or sequence
        The weight of the norm, > 0, against the mean squared residual of the
        labels: a number, "auto", a multiple such as "10*auto", or "chosen".
        "chosen" takes one of a few values, by the leave-one-out residuals of the
        labels and by the spectral concentration of the graph, which decides where
        labels are few. A sequence of values is a grid, of which cross-validation
        takes the pair of lowest error, with all values that "chosen" has of the
        other penalty and of the bandwidth; `cv_results_` has all pairs.
    gamma_I : float, str or sequence
        The weight of the graph's energy, >= 0, given as `gamma_A` is; 0 is
        regularized least squares without a graph, which is among the values of
        "chosen".
    landmarks : int, float, str or LandmarkParams
        The number of landmarks: a whole number, their share of the distinct points,
        or "sqrt", the rule of the paper, which is ceil(m^1/2) labeled points and
        ceil((n - m)^1/2) others where m of n points are labeled. "auto" is 1,000,
        or as many as "sqrt" if these are more, with the labeled points among them,
        up to half. `LandmarkParams` says which as well: uniform, centers of
        k-means, or by leverage.
    graph : KNNGraph, int or None
        How the graph is made from the points; an int is its `n_neighbors`, and None
        takes the defaults. A graph that is already made is passed to `fit`.
    solver : str or SystemParams
        How the systems are solved: "auto", "nystrom-direct" (Gram matrices),
        "nystrom-pcg" or "nystrom-cg"; or "direct", "pcg" or "cg", on all points
        instead of landmarks. `SystemParams` says more: the Laplacian, the
        preconditioner, whitening, precision and tolerance.
    cv : int, "leave_one_out", splitter or list
        The folds by which a grid is compared: a number of folds of the labels
        (fewer where there are fewer labels, see `evidence_`), "leave_one_out", a
        splitter of scikit-learn, repeated or not, which is given the labeled
        points; or a list of what it yields, `list(splitter.split(X_l, y_l,
        groups))` of the labeled points.
    fit_intercept : bool
        Whether targets are centered at the mean of the labels.
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
        The seed of every random choice, except those of groups of parameters that
        are given.

    Attributes
    ----------
    model_ : KernelModel
        What predicts points, and no more than that needs.
    transduction_ : ndarray, shape (n,) or (n, c)
        What is predicted for the points of the fit.
    gamma_A_ : float
        The chosen weight of the norm, as a number.
    gamma_I_ : float
        The chosen weight of the graph's energy, as a number.
    bandwidth_ : float or None
        The bandwidth of the kernel, as a number; None of a kernel without one.
    cv_results_ : dict
        The candidates of a grid or of what was chosen, as scikit-learn has them;
        empty where there is one.
    evidence_ : dict
        What the graph, the landmarks, the systems and the choice of the penalties
        tell of themselves.
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
        When `fit` is called: y has no target.
    ParameterError
        When `fit` is called: a parameter is out of range.

    References
    ----------
    Belkin, Niyogi, Sindhwani, "Manifold regularization", JMLR 2006; Li, Liu, Yin, Wang,
    "Approximate manifold regularization: scalable algorithm and generalization
    analysis", IJCAI 2019.

    Examples
    --------
    Every tenth target of 200 points is known:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import LapRLSRegressor
    >>> X, _ = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) % 10 == 0, X[:, 0] ** 2, np.nan)
    >>> model = LapRLSRegressor().fit(X, y)
    >>> model.score(X, X[:, 0] ** 2) > 0.95
    True
    """
