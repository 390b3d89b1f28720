"""Union-find over rows of stored weights; each root is the first vertex of its component."""

from numba import njit


@njit(nogil=True, cache=True)
def root_of(parent, i):
    """Return the root of i, and have each second vertex on the way skip one."""
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
        mine = root_of(parent, start - first + row)
        for entry in range(indptr[row], indptr[row + 1]):
            if first <= indices[entry] < start + row:
                other = root_of(parent, indices[entry] - first)
                if other < mine:
                    parent[mine] = other
                    mine = other
                else:
                    parent[other] = mine


@njit(nogil=True, cache=True)
def flatten(parent):
    """Write the root of each vertex in its place; no vertex comes before its parent."""
    for i in range(len(parent)):
        parent[i] = parent[parent[i]]


@njit(nogil=True, cache=True)
def number_components(parent):
    """Write the number of each vertex's component in its place, and return how many there are."""
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
