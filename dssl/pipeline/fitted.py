"""`dssl.load`: what was fitted before, from a file or from a run."""

from pathlib import Path
from typing import Any

from ..estimators.saved import load_estimator
from ..storage.files import path_at
from .records import RESULT


def load(path: str | Path) -> Any:
    """Return a fitted estimator from the file that `save` wrote, or the result of a run.

    Parameters
    ----------
    path : str or Path
        The file; or the folder of a finished run, or its result.json.

    Returns
    -------
    estimator or RunResult
        What predicts new points, with `predict` and, where there are probabilities,
        `predict_proba`.

    Raises
    ------
    DataError
        There is nothing at the path, or something else.
    IntegrityError
        The file is damaged, or a newer version of dssl wrote it.

    Notes
    -----
    Loading runs no code that a file names, unlike unpickling.

    Examples
    --------
    >>> import dssl
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 10, classes, -1)
    >>> path = dssl.SemiSupervisedClassifier().fit(X, y).save("moons.dssl")
    >>> model = dssl.load(path)
    >>> model.predict(X[:5]).shape
    (5,)
    """
    place = path_at(path)
    if place.name != RESULT and not place.is_dir():
        return load_estimator(place)
    from .result import RunResult  # a server of an estimator does not wait for all of pipelines

    return RunResult.open(place)
