"""Union-find over rows of stored weights; each root is the first vertex of its component."""

from numba import njit


@njit(nogil=True, cache=True)
def root_of(parent, i):
    """Return the root of i, halving the path to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(nogil=True, cache=True)
def join_rows(parent, first, start, indices, indptr):
    """Join each row of a block with the vertices before it that it has an edge to; parent[0] is of vertex `first`.

    start : the vertex of the block's first row. Edges to vertices before `first` are left out.
    """
    for row in range(len(indptr) - 1):
        root = root_of(parent, start - first + row)
        for entry in range(indptr[row], indptr[row + 1]):
            if first <= indices[entry] < start + row:
                other = root_of(parent, indices[entry] - first)
                if other < root:
                    parent[root] = other
                    root = other
                else:
                    parent[other] = root


@njit(nogil=True, cache=True)
def flatten(parent):
    """Replace the parent of each vertex by its root; no vertex comes before its parent."""
    for i in range(len(parent)):
        parent[i] = parent[parent[i]]


@njit(nogil=True, cache=True)
def number_components(parent):
    """Replace the parent of each vertex by the number of its component; return the number of components."""
    count = 0
    for i in range(len(parent)):
        if parent[i] == i:
            parent[i] = -1 - count
            count += 1
        else:
            parent[i] = parent[parent[i]]  # an earlier one, which has its number
    for i in range(len(parent)):
        parent[i] = -1 - parent[i]
    return count
