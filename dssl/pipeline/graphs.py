"""The stages of the graph: vertices, neighbor lists, weights, and their health.

A graph that a spec names as a file is over all rows of the source: read, checked, and cut to the training points.

    weights    scipy.sparse.save_npz of a CSR matrix (n, n), symmetric, non-negative, finite
    neighbors  numpy.savez(ids=..., distances=...), both (n, k), or the folder that `dssl neighbors` writes

Each is read whole by one task: weights take 40 bytes an edge in each direction, neighbors 60 bytes an entry.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import repeat, tee
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
import scipy.sparse as sp

from ..base.errors import BudgetError, DataError, explain, require
from ..base.units import size_setting
from ..base.urls import is_url
from ..data.anndata import open_obsp
from ..data.ingest_params import IngestParams
from ..data.readers.compressed import require_usual
from ..data.readers.npy import DAMAGED
from ..data.source_files import Source
from ..data.sources import find_source
from ..execution.cost import Cost, cost_of
from ..graph.equal_rows import vertices_cost
from ..graph.given import (
    checked_neighbors,
    checked_weights,
    described_weights,
    given_cost,
    restricted,
    store_weights,
    warn_full,
)
from ..graph.health import described_vertices, health_cost, stored_health, unreachable_points
from ..graph.knn_graph import VERSIONS
from ..graph.vertices import VertexRows, find_vertex_rows, require_distinct
from ..graph.weights.build import weigh, weights_cost
from ..graph.weights.rules import WeightParams
from ..knn.descent.search import descent_cost
from ..knn.exact.blocks import exact_cost
from ..knn.grow import grow_cost, grow_neighbors
from ..knn.lists import Neighbors
from ..knn.metric import check_kind
from ..knn.partitioned.sizes import ROUNDS, partitioned_cost, weighing_cost
from ..knn.search import NeighborParams, find_neighbors, lowered_neighbors, possible_methods
from ..methods.plan_inputs import PlanInputs
from ..methods.sections import GraphSections
from ..methods.step import Context, NoParams
from ..report.record import Attributes, Unreachable
from ..report.sections.graph import graph_section
from ..storage.artifacts import Artifact
from ..storage.blocks import PartWriter, Receipt, Rows, budget_beside, row_ranges
from ..storage.files import CsvLines, draft_of
from ..storage.foreign_zarr import ForeignArray, is_zarr, list_arrays
from .dataset import identifier_of, rows_in_files
from .growth import CannotGrow
from .stage import Stage

PEAK_OF_UNPACKED = {"weights": 40 / 12, "neighbors": 60 / 16}  # bytes of memory a byte of the arrays
LIST_ROWS = 1 << 16  # lists in one chunk
ARRAYS = ("indices", "distances")  # of a folder of neighbor lists
SHOWN = 20  # of the points that no label reaches


@dataclass(frozen=True)
class VertexParams:
    """Whether equal rows are one vertex, or one each."""

    duplicates: Literal["collapse", "keep"]

    @classmethod
    def of(cls, spec: GraphSections) -> "VertexParams":
        return cls("keep" if spec.graph.given is not None else spec.graph.duplicates)


def make_vertices(context: Context, params: VertexParams) -> Attributes:
    """Find equal training points: each distinct one is a vertex of the graph."""
    rows = context.points("train")
    if params.duplicates == "collapse":
        return find_vertex_rows(rows, context.execution, context.parts).attributes
    return VertexRows(None, len(rows), len(rows)).attributes


def given_file(kind: str, path: str) -> Source:
    """Return the local file, or the folder of neighbor lists, of a given graph: "weights" or "neighbors".

    path : of it, or a URL of a file.

    Raises DataError: there is no such file, or it unpacks to far more than files of data do.
    """
    if is_url(path):
        source = find_source(path, format="npz")
    else:
        source = Source(path, Path(path).expanduser())
        if kind == "neighbors" and all(is_zarr(source.path / name) for name in ARRAYS):
            _stored_lists(source.path)
            return source
        folder = ", or the folder that `dssl neighbors` wrote" if kind == "neighbors" else ""
        require(source.path.is_file(), f"graph.given.{kind}: {path} is not a file", error=DataError,
                why="the graph is read from it", fix=f"give the path or the URL of an .npz file{folder}")
    if source.path.suffix == ".h5ad":
        require(kind == "weights", f"graph.given.{kind}: {path}", error=DataError,
                why="of an .h5ad file obsp/connectivities is read, which are weights",
                fix=f"set graph.given.weights: {path}")
        open_obsp(source.path)
        return source
    require_usual(path, source.path, _unpacked_bytes(source.path, kind))
    return source


def _stored_lists(path: Path) -> list[ForeignArray]:
    """Return the ids and the distances of neighbor lists in a folder; raise DataError if they are no Zarr arrays."""
    arrays = [list_arrays(path / name, str(path / name)) for name in ARRAYS]
    require(all("X" in members for members in arrays), f"{path} holds no neighbors", error=DataError,
            why="graph.given.neighbors names a folder with the Zarr arrays indices and distances",
            fix="write it with `dssl neighbors`")
    return [members["X"] for members in arrays]


@contextmanager
def _explained(path: Path, kind: str) -> Iterator[None]:
    """Turn the errors of a damaged archive into one that names the file."""
    try:
        if not is_zipfile(path):
            raise BadZipFile("it is not an .npz archive")
        yield
    except (*DAMAGED, MemoryError) as error:
        made = {"weights": "scipy.sparse.save_npz(path, W)", "neighbors": "numpy.savez(path, ids=..., distances=...)"}
        raise DataError(explain(f"{path} holds no {kind}: {error}", why=f"graph.given.{kind} names a file of them",
                                fix=f"write it with {made[kind]}")) from error


def _unpacked_bytes(path: Path, kind: str) -> int:
    """Return the bytes of the arrays of a file or folder as it describes them; Python reads no more of it."""
    if path.is_dir():
        return sum(math.prod(array.shape) * array.dtype.itemsize for array in _stored_lists(path))
    if path.suffix == ".h5ad":
        return open_obsp(path).nbytes
    with _explained(path, kind), ZipFile(path) as archive:
        return sum(file.file_size for file in archive.infolist())


def _read(path: Path, kind: str) -> Any:
    """Return the sparse matrix, or the pair of arrays, of a file or folder; raise DataError if it holds none."""
    if path.is_dir():
        return tuple(array[:] for array in _stored_lists(path))
    if path.suffix == ".h5ad":
        weights = open_obsp(path)
        return weights.block(0, weights.shape[0])
    with _explained(path, kind):
        if kind == "weights":
            return sp.load_npz(path)
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["ids"], arrays["distances"]


@dataclass(frozen=True)
class GivenTask:
    """Write given weights among the training points as the one part of the graph; or given lists, as shared arrays."""

    kind: str
    path: Path
    train: Rows  # (n,), rows of the source
    n_rows: int  # of the source

    def __call__(self, out: PartWriter) -> Receipt:
        matrix, train = _read(self.path, self.kind), self.train.read_all()
        if self.kind == "weights":
            W = checked_weights(matrix, self.n_rows)[train][:, train]
            require(W.nnz > 0, f"the weights of {self.path} join none of the {len(train)} training points",
                    error=DataError, why="without an edge the unlabeled points say nothing",
                    fix="use more points, or a denser graph")
            W.sort_indices()
            return store_weights(W, out)
        lists = restricted(checked_neighbors(matrix, self.n_rows), train)
        arrays = lists.to_arrays()
        for name, array in arrays.items():
            out.parts.allocate(name, array.shape, array.dtype, LIST_ROWS)
        for start, stop in row_ranges(len(lists), LIST_ROWS):
            out.write_rows(start, **{name: array[start:stop] for name, array in arrays.items()})
        return {"lists": lists.attributes}


def _given(context: Context, kind: str) -> Receipt:
    """Return the receipt of the task that reads a given graph; raise BudgetError if it would exceed the budget."""
    path, budget = context.files[kind].source.path, context.execution.memory_budget
    unpacked = _unpacked_bytes(path, kind)
    needed = budget_beside(math.ceil(PEAK_OF_UNPACKED[kind] * unpacked))
    enough = size_setting(needed, up=True)
    require(needed <= budget, f"{path} holds arrays of {unpacked:,} bytes, which take {enough} of memory",
            why=f"one task reads all of it, and the memory budget is {size_setting(budget, up=False)}",
            fix=f"raise memory_budget to {enough}, in the spec or by --memory-budget, or give a sparser graph",
            error=BudgetError)
    task = GivenTask(kind, path, context.rows("split", "train"),
                     context.attributes("dataset")["n"])
    receipt, = context.execution.map([task], context.parts)
    return receipt


@dataclass(frozen=True)
class ListParams:
    """How neighbors are searched; None where lists, or weights in their place, are given."""

    search: NeighborParams | None


def make_neighbors(context: Context, params: ListParams) -> Attributes:
    """Search the neighbors of the vertices, or read given lists; weights that are given need none.

    Where they grow, those of the base are the first vertices, since vertices are numbered by their first rows.
    """
    if params.search is not None:
        points = context.vertex_rows()
        require_distinct(len(points) > 1, f"all {points.n} training points are equal")
        search = lowered_neighbors(params.search, len(points), "distinct training points")
        rows = points.distinct(context.points("train"))
        if context.base is not None:
            lists = Neighbors.stored(context.base.parts, context.base.attributes)
            if search.n_neighbors > lists.k != len(lists) - 1:
                raise CannotGrow(f"the old points have lists of {lists.k} neighbors, fewer than they have now")
            known = context.attributes("split")["base"]["train"]
            edge = points.first_of(np.arange(len(lists) - 1, min(len(lists) + 1, len(points))))
            assert [*(edge < known)] == [True, False][:len(edge)], "vertices of old points come first"
            return grow_neighbors(rows, lists, search, context.execution, context.parts).attributes
        return find_neighbors(rows, search, context.execution, context.parts).attributes
    if "neighbors" not in context.files:
        return {"method": "given"}
    return _given(context, "neighbors")["lists"]


@dataclass(frozen=True)
class EdgeParams:
    """How the lists are weighed; None where weights are given."""

    weights: WeightParams | None


def make_graph(context: Context, params: EdgeParams) -> Attributes:
    """Weigh the lists, or read given weights."""
    lists = context.neighbor_lists()
    if params.weights is not None and lists is not None:
        return weigh(lists, params.weights, context.execution, context.parts)
    described = described_weights(_given(context, "weights"))
    warn_full(described)
    return described


def make_health(context: Context, params: NoParams) -> Attributes:
    """Describe the graph, and list the points that no label reaches."""
    labels = context.arrays("labels") if "labels" in context.inputs else {}
    vertices = context.vertex_rows()
    # Quantities have no classes that neighbors could share.
    health = stored_health(context.inputs["graph"].parts, vertices, context.execution, context.parts,
                           labels.get("labeled"), labels.get("codes"), context.neighbor_lists(),
                           context.rows("split", "train"))
    return {**health, "vertices": described_vertices(vertices)}


def write_unreachable(folder: Path, health: Artifact, handled: str, source: Source, read: IngestParams,
                      dataset: Mapping[str, Any], *, safe_csv: bool = False) -> Unreachable:
    """Return what a result says of the points that no label reaches; write all of them to `unreachable.csv`, if any.

    handled : what predicts them. source, read, dataset : the source, how it was read, and the attributes of that stage.

    The file has a line a point: its row in the source, from 0, what the identifier of a table says there, and the
    points of its component.
    """
    unreachable = health.attributes["unreachable"]
    file = folder / "unreachable.csv" if unreachable["count"] else None
    if file:
        blocks, identifier = unreachable_points(health.parts, health.attributes["n"]), identifier_of(dataset)
        opened = nullcontext() if identifier is None else rows_in_files(source, read, dataset)
        with opened as rows, draft_of(file) as draft, open(draft, "w", encoding="utf-8", newline="") as text:
            names: Iterator[list[str] | None] = repeat(None)
            header = ["row", "component_size"]
            if rows is not None and identifier is not None and rows.has(identifier):
                blocks, again = tee(blocks)
                names = rows.cells_of(identifier, (numbers for numbers, _ in again))
                header.insert(1, identifier)
            lines = CsvLines(text, safe_csv)
            lines.write(header)
            for (numbers, sizes), of_block in zip(blocks, names, strict=False):
                columns = [numbers.tolist(), *([] if of_block is None else [of_block]), sizes.tolist()]
                lines.write_all(zip(*columns, strict=True))
    return {"count": unreachable["count"], "components": unreachable.get("components", 0),
            "ids": unreachable["ids"][:SHOWN], "handled": handled, "file": str(file) if file else None}


def _vertices_cost(f: PlanInputs, spec: GraphSections) -> Cost:
    collapse = VertexParams.of(spec).duplicates == "collapse"
    return vertices_cost(f.points(f.n), f.budget) if collapse else cost_of(0, 0, 0, 0)


def _neighbors_cost(f: PlanInputs, spec: GraphSections) -> Cost:
    """Return that of the searches that may be used; or of lists from a file.

    Raises DataError: the metric is of other columns, or of dense rows alone.
    """
    graph, k, given = spec.graph, spec.graph.n_neighbors, spec.graph.given
    if given is not None:
        return given_cost(f.vertices * k * (given.kind == "neighbors")).guessing("given graph")
    if f.growing:
        known = f.growing.attributes["neighbors"]
        return grow_cost(f.distinct, known["n"], k, graph.distance, known["method"], f.budget)
    check_kind(f.distinct, graph.distance)
    costs = {"exact": lambda: exact_cost(f.distinct, k, graph.distance, f.budget),
             "descent": lambda: descent_cost(f.distinct, k, graph.distance, f.budget),
             "partitioned": lambda: partitioned_cost(f.distinct, k, graph.distance, f.budget, len(ROUNDS) if
                                                     f.bound == "upper" else 1).guessing("rounds of the search")}
    made, copied = f.attributes.get("neighbors"), cost_of(0, 12 * f.vertices * k, 12 * f.vertices * k, 0)
    costs["trial"] = lambda: costs["descent"]() + copied
    costs["weighed"] = lambda: costs["exact"]() + weighing_cost(f.distinct, k, graph.distance, f.budget)
    costs["both"] = lambda: costs["descent"]() + costs["exact"]()
    methods: set[str]
    if graph.method != "auto":
        methods = {graph.method}
    elif made is not None:
        methods = {"both" if "missed_recall" in made else "trial" if made["method"] == "descent" else
                   "weighed" if made["method"] == "exact" and "weighed" in made else made["method"]}
    else:
        methods = possible_methods(f.distinct, k, graph.distance, f.budget)
        methods |= {"trial", "both"} if methods == {"descent", "exact"} and f.bound == "upper" else set()
        methods |= {"weighed"} if methods == {"partitioned", "exact"} and f.bound == "upper" else set()
    return f.one_of((costs[search]() for search in sorted(methods)), "search")


VERTICES = Stage("vertices", VERSIONS["vertices"], ("points",), VertexParams.of, make_vertices, _vertices_cost,
                 "lower data.points, or set graph.duplicates to keep")
NEIGHBORS = Stage("neighbors", VERSIONS["neighbors"], ("dataset", "split", "points", "vertices"),
                  lambda spec: ListParams(None if spec.graph.given else spec.graph.search), make_neighbors,
                  _neighbors_cost, "lower data.points, or set graph.method to exact", files=("neighbors",), grows=True)
GRAPH = Stage("graph", VERSIONS["graph"], ("dataset", "split", "neighbors"),
              lambda spec: EdgeParams(None if spec.graph.given and spec.graph.given.weights else
                                      spec.graph.weighting), make_graph,
              lambda f, spec: weights_cost(f.vertices, spec.graph.n_neighbors, f.nnz, spec.graph.weighting.rule,
                                           f.budget),
              "lower graph.n_neighbors", files=("weights",))
# A kind without labels leaves them out of its needs.
HEALTH = Stage("health", 5, ("split", "vertices", "neighbors", "graph", "labels"), lambda spec: NoParams(), make_health,
               lambda f, spec: health_cost(f.vertices, spec.graph.n_neighbors, f.nnz, f.budget),
               "lower graph.n_neighbors or data.points", section=graph_section)
