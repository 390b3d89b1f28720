"""Transfer functions of cluster kernels, of the eigenvalues of the normalized affinity.

    linear        sigma
    step          1 for the leading eigenvalues, 0 for the others
    poly_step     sigma^1/2 for the leading eigenvalues, sigma^2 for the others
    polynomial    sigma^t, a random walk of t steps
    exponential   exp(t (sigma - 1)), heat that flows for a time t

References
----------
Chapelle, Weston, Scholkopf, "Cluster kernels for semi-supervised learning", NIPS 2002; Kondor and Lafferty, "Diffusion
kernels on graphs", ICML 2002 (the exponential).
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from ..base.digest import is_real, is_whole
from ..base.errors import require

Transfer = Literal["linear", "step", "poly_step", "polynomial", "exponential"]
EXTRA_EIGENVALUES = 9  # leading ones beside one for each labeled point, as in eq. 1 of the storage fit paper


@dataclass(frozen=True, kw_only=True)
class TransferParams:
    """The transfer function of a cluster kernel, of the eigenvalues of the affinity.

    Parameters
    ----------
    transfer : "linear", "step", "poly_step", "polynomial" or "exponential"
        The transfer function.
    leading : int or "auto"
        The number of eigenvalues of clusters for "step" and "poly_step"; "auto" is the
        number of labeled points plus 9.
    exponent : float
        The exponent t of "polynomial" and "exponential", at most 1000.

    Raises
    ------
    ParameterError
        A value is out of range.

    Notes
    -----
    An eigenvalue sigma becomes::

        linear        sigma
        step          1 for the leading eigenvalues, 0 for the others
        poly_step     sigma^1/2 for the leading eigenvalues, sigma^2 for the others
        polynomial    sigma^t, a random walk of t steps
        exponential   exp(t (sigma - 1)), heat that flows for a time t

    References
    ----------
    Chapelle, Weston, Scholkopf, "Cluster kernels for semi-supervised learning", NIPS
    2002; Kondor, Lafferty, "Diffusion kernels on graphs", ICML 2002 (the exponential).

    Examples
    --------
    >>> import numpy as np
    >>> from dssl import TransferParams
    >>> TransferParams(transfer="polynomial", exponent=2).of(np.array([1.0, 0.5]), 0)
    array([1.  , 0.25])
    """

    transfer: Transfer = "polynomial"
    leading: int | Literal["auto"] = "auto"
    exponent: float = 5.0

    def __post_init__(self) -> None:
        require(self.transfer in get_args(Transfer), f"transfer={self.transfer!r} is no transfer function",
                why="it changes the eigenvalues of the kernel", fix=f"use one of {', '.join(get_args(Transfer))}")
        whole = is_whole(self.leading) and self.leading >= 1
        require(whole or self.leading == "auto", f'leading={self.leading!r}, expected a whole number >= 1 or "auto"',
                why="it is the number of eigenvalues of clusters", fix='use "auto", or about the number of clusters')
        number = is_real(self.exponent)
        require(number and 0 < self.exponent <= 1000, f"exponent={self.exponent!r}, expected 0 < exponent <= 1000",
                why="it is the length of a walk, or a time", fix="use 1 to 50")

    def of(self, values: np.ndarray, n_labeled: int) -> np.ndarray:
        """Return the transferred eigenvalues.

        Parameters
        ----------
        values : ndarray, shape (k,)
            The eigenvalues, descending and in (0, 1].
        n_labeled : int
            The number of labeled points, which `leading="auto"` counts.

        Returns
        -------
        ndarray, shape (k,)
            Values that are not negative.
        """
        first = np.arange(len(values)) < (n_labeled + EXTRA_EIGENVALUES if self.leading == "auto" else self.leading)
        if self.transfer == "linear":
            return values.copy()
        if self.transfer == "step":
            return first.astype(np.float64)
        if self.transfer == "poly_step":
            return np.where(first, np.sqrt(values), values**2)
        if self.transfer == "polynomial":
            return values**self.exponent
        return np.exp(self.exponent * (values - 1))
