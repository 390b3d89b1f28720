"""Types of what functions take: of matrices in memory, and of what users pass.

`object` is the type of a value that is examined before it is used, `ArrayLike` that of labels, targets and weights.
"""

from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

Matrix: TypeAlias = np.ndarray | sparse.csr_array
"""A matrix in memory, dense or sparse."""

MatrixLike: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix
"""What becomes a `Matrix`: an array, rows of numbers, a table with columns of numbers, or any sparse format."""


def is_sparse(X: object) -> TypeGuard[sparse.csr_array]:
    """Return whether a `Matrix` is sparse."""
    return bool(sparse.issparse(X))
