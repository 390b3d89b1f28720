"""The lowest eigenpairs of a graph's Laplacian: spectral features, clusterings and pictures are made of them."""

from dataclasses import dataclass, field

import numpy as np

from ..base.digest import JsonObject, require_random_state
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..solvers.eigen import EigenMethod, lowest_eigenpairs
from ..solvers.warm_start import extended
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt
from .graph import Graph, require_graph
from .regularizer import LaplacianKind, laplacian_of, require_laplacian


@dataclass(frozen=True, kw_only=True)
class SpectrumParams:
    """How eigenpairs are computed.

    Parameters
    ----------
    laplacian : "normalized" or "unnormalized"
        Which Laplacian of the graph.
    tol : float
        The largest residual of a pair, relative to the matrix; see `Eigenpairs`.
    method : "auto", "dense", "filtered" or "inverse"
        How they are computed; see `lowest_eigenpairs`.
    random_state : int
        The seed of the vectors from which the iterations begin.

    Raises
    ------
    ParameterError
        A value is out of range.

    Examples
    --------
    >>> from dssl import SpectrumParams
    >>> SpectrumParams(tol=1e-8).method
    'auto'
    """

    laplacian: LaplacianKind = "normalized"
    tol: float = 1e-6
    method: EigenMethod = "auto"
    random_state: int = 0

    def __post_init__(self) -> None:
        require_laplacian(self.laplacian)
        require_random_state(self.random_state)


@dataclass(frozen=True)
class Spectrum:
    """The m lowest eigenpairs of the Laplacian of v vertices.

    Parameters
    ----------
    values : ndarray, shape (m,)
        The eigenvalues, ascending. One 0 for each component comes first.
    vectors : ndarray, shape (v, m)
        The eigenvectors, orthonormal, in the coordinates of the Laplacian. Where a
        vertex stands for k points its entry is k^1/2 times the value at each of them
        (`Laplacian.multiplicity`).
    residuals : ndarray, shape (m,)
        The residual of each pair; see `Eigenpairs`.
    attributes : dict
        The method, the number of iterations and the worst residual, as JSON.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    attributes: JsonObject = field(default_factory=dict)

    def at_points(self, graph: Graph) -> np.ndarray:
        """Return the eigenvectors at all points; duplicates have equal rows.

        Parameters
        ----------
        graph : Graph
            The graph whose spectrum this is.

        Returns
        -------
        ndarray, shape (n, m)
            Eigenvectors that are orthonormal over the points.
        """
        vectors = self.vectors / np.sqrt(graph.vertices.multiplicity)[:, None]
        return vectors[graph.vertices.vertex]


@dataclass(frozen=True)
class SpectrumTask:
    """Write `values`, `vectors` and `residuals` of the m lowest eigenpairs.

    start : `start` (v_0, r), eigenvectors of the first vertices of before the graph grew; None where it did not.
    Memory: W twice (24 bytes an entry and 16 a vertex), what `eigenpairs_bytes` says, and the start twice.
    """

    graph: Parts
    vertices: Arrays | None
    m: int
    params: SpectrumParams
    start: Arrays | None = None

    def __call__(self, out: PartWriter) -> Receipt:
        laplacian, params = laplacian_of(self.graph, self.vertices, self.params.laplacian), self.params
        begin = None if self.start is None else extended(self.start.load()["start"], laplacian.point_weights)
        pairs = lowest_eigenpairs(laplacian.matrix(), laplacian.vector, self.m, tol=params.tol,
                                  method=params.method, random_state=params.random_state,
                                  start=begin).require_converged()
        return {**out.write(values=pairs.values, vectors=pairs.vectors, residuals=pairs.residuals), **pairs.attributes}


def graph_spectrum(graph: Graph, m: int, params: SpectrumParams | None = None,
                   execution: Execution | None = None, start: np.ndarray | None = None) -> Spectrum:
    """Return the m lowest eigenpairs of the Laplacian of a graph.

    Those of its components, with the value 0, come first.

    Parameters
    ----------
    graph : Graph
        The graph, of v vertices.
    m : int
        The number of eigenpairs, 1 to v.
    params : SpectrumParams or None
        Which Laplacian, how precisely and by which method; None takes the defaults.
    execution : Execution or None
        Where the task runs; None is the active Dask client, or a thread of this
        process.
    start : ndarray, shape (v_0, r), or None
        The vectors of the graph before it grew, of its first vertices, near which the
        new ones are sought.

    Returns
    -------
    Spectrum
        The `values` (m,), the `vectors` (v, m) and the `residuals` (m,).

    Raises
    ------
    ParameterError
        `graph` is not a `Graph`, or m is not between 1 and the number of vertices.
    NotConverged
        A pair ended above the tolerance.

    Examples
    --------
    The path of three vertices has the eigenvalues 0, 1 and 2:

    >>> import scipy.sparse as sp
    >>> from dssl import Graph, graph_spectrum
    >>> path = Graph.of(sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> graph_spectrum(path, 2).values.round(6) + 0.0
    array([0., 1.])
    """
    require_graph(graph)
    params, execution = params or SpectrumParams(), execution or current_execution()
    graph = graph.shared(execution)
    parts = execution.scratch()
    receipt, = execution.map([SpectrumTask(graph.stored, graph.shared_vertices(execution), m, params,
                                           None if start is None else execution.share(start=start))], parts)
    arrays = parts.read(0)
    return Spectrum(arrays["values"], arrays["vectors"], arrays["residuals"],
                    {name: receipt[name] for name in ("method", "iterations", "residual")})
