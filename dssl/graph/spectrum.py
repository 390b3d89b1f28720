"""The lowest eigenpairs of a graph's Laplacian: spectral features, clusterings and pictures are made of them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.digest import require_random_state
from ..base.errors import require
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..solvers.eigen import EigenMethod, lowest_eigenpairs
from ..solvers.warm_start import extended
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt
from .functions import laplacian_of
from .graph import Graph, require_graph
from .regularizer_params import LaplacianKind


@dataclass(frozen=True, kw_only=True)
class SpectrumParams:
    """How eigenpairs are computed.

    laplacian : "normalized" or "unnormalized". tolerance : largest residual of a pair, relative to the matrix (see
    `Eigenpairs`). method : "auto", "dense", "filtered" or "inverse" (see `lowest_eigenpairs`).
    """

    laplacian: LaplacianKind = "normalized"
    tolerance: float = 1e-6
    method: EigenMethod = "auto"
    random_state: int = 0

    def __post_init__(self) -> None:
        require(self.laplacian in ("normalized", "unnormalized"), f"laplacian={self.laplacian!r}",
                why="no other Laplacian is defined", fix="choose normalized or unnormalized")
        require_random_state(self.random_state)


@dataclass(frozen=True)
class Spectrum:
    """The m lowest eigenpairs of the Laplacian of v vertices.

    values (m,) : ascending; one 0 a component comes first.
    vectors (v, m) : orthonormal, in the coordinates of the Laplacian. Where a vertex stands for k points its entry is
        k^1/2 times the value at each of them (`Laplacian.multiplicity`).
    residuals (m,) : see `Eigenpairs`. attributes : method, blocks, worst residual; JSON.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)

    def at_points(self, graph: Graph) -> np.ndarray:
        """Return the eigenvectors of all points (n, m), orthonormal over them; copies have equal rows."""
        own = self.vectors / np.sqrt(graph.vertices.multiplicity)[:, None]
        return own[graph.vertices.vertex]


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
        begin = None if self.start is None else extended(self.start.load()["start"], laplacian.joint)
        found = lowest_eigenpairs(laplacian.matrix(), laplacian.vector, self.m, tolerance=params.tolerance,
                                  method=params.method, random_state=params.random_state,
                                  start=begin).require_converged()
        return {**out.write(values=found.values, vectors=found.vectors, residuals=found.residuals), **found.attributes}


def graph_spectrum(graph: Graph, m: int, params: SpectrumParams | None = None,
                   execution: Execution | None = None, start: np.ndarray | None = None) -> Spectrum:
    """Return the m lowest eigenpairs of the Laplacian of a graph, those of its components (value 0) first.

    execution : where the task runs; by default the active Dask client, or a thread of this process.
    start : (v_0, r), the vectors of the graph before it grew, of its first vertices, near which they are sought.

    Raises
    ------
    ParameterError : no `Graph`, or m is not 1 to the number of vertices. NotConverged : a pair ended above the
        tolerance.
    """
    require_graph(graph)
    params, execution = params or SpectrumParams(), execution or current_execution()
    graph = graph.shared(execution)
    parts = execution.scratch()
    receipt, = execution.map([SpectrumTask(graph.stored, graph.copies(execution), m, params,
                                           None if start is None else execution.share(start=start))], parts)
    found = parts.read(0)
    return Spectrum(found["values"], found["vectors"], found["residuals"],
                    {name: receipt[name] for name in ("method", "iterations", "residual")})
