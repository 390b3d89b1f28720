"""Cholesky factors of systems that are positive semi-definite up to rounding, and columns of several systems."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cho_factor

from ...base.errors import DataError, ParameterError, explain, require


def by_system(of: np.ndarray, like: np.ndarray, columns_of: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
    """Return columns (n, u), of the form of `like`, of which column j is of system of[j].

    columns_of : number of a system, which columns are its own (u,) bool -> these columns.
    """
    found = np.empty_like(like)
    for index in np.unique(of):
        mine = of == index
        found[:, mine] = columns_of(int(index), mine)
    return found


def factor_raised(A: np.ndarray) -> Any:
    """Return the Cholesky factor of a positive semi-definite matrix, its diagonal raised as far as rounding asks.

    Raises ParameterError: it is not positive with 1e-6 of its largest diagonal added. DataError: it is not finite,
    which LAPACK would not tell.
    """
    require(bool(np.isfinite(A).all()), f"a system of {len(A)} coefficients holds NaN or infinite values",
            error=DataError, why="the kernel is no number at some points",
            fix="drop or impute points that are not finite; scale the features if the kernel overflows, in float32 "
                "from about 1e19 on")
    largest = float(np.abs(np.diagonal(A)).max(initial=0.0))
    for share in (0.0, 1e-15, 1e-13, 1e-11, 1e-9, 1e-7, 1e-6):
        try:
            return cho_factor(A + share * largest * np.eye(len(A)) if share else A, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    raise ParameterError(explain(
        f"a system of {len(A)} coefficients is not positive definite",
        why="the penalties are too small for the precision of the kernel blocks",
        fix="raise gamma_A, use whitening, or precision float64"))
