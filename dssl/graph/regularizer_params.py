"""The regularizer of a graph: the parameters, without what forms it."""

from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np

from ..base.errors import require

LaplacianKind = Literal["normalized", "unnormalized"]


@dataclass(frozen=True, kw_only=True)
class RegularizerParams:
    """The regularizer of a graph: a power of its Laplacian plus a ridge.

    Parameters
    ----------
    laplacian : "normalized" or "unnormalized"
        Which Laplacian of the graph, L_norm or L.
    ridge : float
        What is added to the eigenvalues of the Laplacian, > 0; those of the normalized
        one are at most 2. The smaller the ridge, the farther a label reaches.
    power : int
        The power p of the regularizer, 1 to 64. A larger one is smoother.

    Raises
    ------
    ParameterError
        A value is out of range.

    Notes
    -----
    The regularizer is ``Q = R^power`` with ``R = L + ridge I``, or with L_norm in place
    of L. A solve with Q takes `power` solves with R.

    Examples
    --------
    >>> from dssl import LapSVC, RegularizerParams
    >>> LapSVC(regularizer=RegularizerParams(ridge=0.1, power=1))
    LapSVC(regularizer=RegularizerParams(laplacian='normalized', ridge=0.1, power=1))
    """

    laplacian: LaplacianKind = "normalized"
    ridge: float = 0.01
    power: int = 2

    def __post_init__(self) -> None:
        require(self.laplacian in ("normalized", "unnormalized"), f"laplacian={self.laplacian!r}",
                why="no other Laplacian is defined", fix="choose normalized or unnormalized")
        number = isinstance(self.ridge, Real) and not isinstance(self.ridge, bool)
        require(number and 0 < self.ridge < float("inf"), f"ridge={self.ridge!r}, expected a number > 0",
                why="without a ridge a constant function costs nothing, and the kernel of a component is singular",
                fix="use 0.001 to 0.1")
        whole = isinstance(self.power, (int, np.integer)) and not isinstance(self.power, bool)
        require(whole and 1 <= self.power <= 64, f"power={self.power!r}, expected 1 to 64",
                why="Q = R^p is inverted by p solves of R", fix="use 1, 2 or 3")
