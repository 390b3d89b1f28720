"""What the costs of stages follow from: the spec, the file, and what finished stages have found.

A number that a stage has yet to find is bounded: from above for what a plan shows, from below for what it refuses.
The names of the bounded ones that a cost was computed from are kept in `estimated`.
"""

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from ...base.errors import DataError, require
from ...data.dataset import chunk_rows
from ...data.ingest_cost import block_height, makes_sparse
from ...data.ingest_params import IngestParams
from ...data.label_files import count_label_files
from ...data.readers.base import Scan
from ...data.sources import find_source
from ...execution.cost import Cost
from ...knn.search import possible_methods
from ...methods.sections import GraphSection, GraphSections
from ...storage.blocks import ArrayRows, MemoryParts, Rows
from ...storage.csr import csr_row_bytes
from ...storage.pieces import BlockedCsrRows
from ..spec import Spec

Bound = Literal["most", "least"]
S = TypeVar("S", bound=Spec)
DISTINCT = "distinct points"
GUESSED_CLASSES = 20  # where neither the spec nor the file names them


@dataclass(frozen=True)
class Growing:
    """What is known where rows are added to those of the last run.

    attributes : of the artifacts that stages grow from, by stage. added : scan of the new files, and scan : of all,
    as far as it follows from that; None where the data set is stored.
    """

    attributes: dict[str, dict[str, Any]]
    added: Scan | None = None
    scan: Scan | None = None


@dataclass
class Facts(Generic[S]):
    """The numbers that memory and bytes are functions of.

    scan : of the source; None where the dataset is stored. attributes : of finished stages by name.
    bound : how numbers that are not known are estimated. growing : where rows are added, what is known of the others.
    """

    spec: S
    budget: int
    scan: Scan | None
    attributes: dict[str, dict[str, Any]]
    bound: Bound = "most"
    estimated: set[str] = field(default_factory=set)
    growing: Growing | None = None

    def found(self, stage: str, name: str, most: float, least: float, what: str) -> int:
        """Return what a finished stage found, or the bound of it, noting that it is one."""
        if stage in self.attributes:
            return int(self.attributes[stage][name])
        if most != least:
            self.estimated.add(what)
        return math.ceil(most if self.bound == "most" else least)

    def one_of(self, costs: Iterable[Cost]) -> Cost:
        """Return the cost of one of several methods, which one is not known yet: the largest or the least figures.

        But for the seconds: that which takes the fewest is chosen.
        """
        pick, several = max if self.bound == "most" else min, list(costs)
        bound = Cost(*(pick(figures) for figures in zip(*map(astuple, several), strict=True)))
        return replace(bound, seconds=min(cost.seconds for cost in several))

    # The file

    @property
    def n_rows(self) -> int:
        return int(self.attributes["dataset"]["n"]) if self.scan is None else self.scan.n_rows

    @property
    def n_added(self) -> int:
        """Return how many rows are added to those of the last run."""
        return self.n_rows - int(self.growing.attributes["dataset"]["n"]) if self.growing else 0

    @property
    def d(self) -> int:
        if "dataset" in self.attributes or self.scan is None:
            return int(self.attributes["dataset"]["d"])
        if self.read.has_text:
            self.estimated.add("columns made of text")
        candidates = {*self.scan.keys, *(self.scan.text if self.read.has_text else ())}
        keys = 0 if self.read.keep_ids is True else min(len(candidates), self.scan.n_columns - 1)
        if keys:
            self.estimated.add("columns left out as identifiers")
        return self.scan.n_columns - keys * (self.bound == "least")

    @property
    def read(self) -> IngestParams:
        return self.spec.read

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.read.dtype)

    @property
    def sparse_entries(self) -> int | None:
        """Return the entries of X where it is stored as CSR, else None."""
        if "dataset" in self.attributes or self.scan is None:
            described = self.attributes["dataset"]["X"]
            return None if described is None else int(described["nnz"])
        if not makes_sparse(self.read, self.scan):
            return None
        return self.scan.n_rows * self.scan.n_columns if self.scan.nnz is None else self.scan.nnz

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one stored row of X."""
        entries = self.sparse_entries
        if entries is None:
            return self.d * self.dtype.itemsize
        return csr_row_bytes(entries, self.n_rows, self.dtype)

    @property
    def width(self) -> int:
        """Return the columns of a dense row of as many bytes; of sparse rows no cost is measured, this is a guess."""
        if self.sparse_entries is None:
            return self.d
        self.estimated.add("work on sparse rows")
        return min(self.d, -(-self.row_bytes // self.dtype.itemsize))

    def dense(self, n: int, d: int) -> ArrayRows:
        """Return rows (n, d) of zeros, a shape without bytes."""
        return ArrayRows(np.broadcast_to(np.zeros(1, self.dtype), (n, d)))

    @property
    def distinct(self) -> Rows:
        """Return rows of the shape, type and entries of the distinct training points, without bytes."""
        n, entries = self.vertices, self.sparse_entries
        if entries is None:
            return self.dense(n, self.d)
        return BlockedCsrRows(MemoryParts(), (n, self.d), self.dtype, 1, -(-entries * n // max(self.n_rows, 1)))

    @property
    def x_chunk(self) -> int:
        """Return the rows of a chunk of X."""
        if self.scan is not None:
            return block_height(self.scan, self.read, self.budget)
        described = self.attributes["dataset"]["X"]
        return chunk_rows(self.n_rows, self.row_bytes) if described is None else int(described["block_rows"])

    # The points

    def require_rows(self) -> None:
        """Raise DataError where the spec asks for more points than the source has rows."""
        points, test = self.spec.data.points, self.spec.data.test.count
        labeled = self.spec.labels.count if self.spec.labels else None
        asked, n = {"data.points": points, "data.test.count": test, "labels.count": labeled}, points or labeled or 1
        tests = 0 if self.spec.data.test.none else test or 1
        require(n + tests <= self.n_rows and (labeled or 1) <= n, error=DataError,
                what=f"{', '.join(f'{key}={value}' for key, value in asked.items() if value)}, and the source has "
                     f"{self.n_rows:,} rows", why="each is a training or a test point once, and labeled once",
                fix=f"ask for {self.n_rows:,} training and test points or fewer, and label no more than the first")

    @property
    def n_classes(self) -> int:
        data = self.spec.data
        if "split" in self.attributes:
            return len(self.attributes["split"]["classes"])
        named = data.classes or data.keep or (self.scan.label_names if self.scan else None)
        if named:
            return len(named)
        return self.found("split", "classes", GUESSED_CLASSES, 2, "number of classes")

    @property
    def is_regression(self) -> bool:
        return self.spec.data.task == "regression"

    @property
    def n_outputs(self) -> int:
        """Return the columns of a model that has one a class, or one a quantity."""
        return 1 if self.is_regression else self.n_classes

    @property
    def n_scored(self) -> int:
        """Return the number of points whose predictions are compared with what is true."""
        return self.n_test

    @property
    def n_test(self) -> int:
        test = self.spec.data.test
        if test.none:
            return 0
        if self.growing:
            known = self.growing.attributes["split"]["n_test"]
            return self.found("split", "n_test", known + self.n_added * (test.count is None), known, "test points")
        most = test.count or (self.n_rows if test.fraction is None else math.ceil(test.fraction * self.n_rows))
        least = test.count or 1
        return self.found("split", "n_test", min(most, self.n_rows), min(least, self.n_rows), "test points")

    @property
    def n(self) -> int:
        """Return the number of training points."""
        data = self.spec.data
        if self.growing:
            known = self.growing.attributes["split"]["n_train"]
            return self.found("split", "n_train", known + self.n_added, known, "training points")
        if data.points is not None:
            return self.found("split", "n_train", data.points, data.points, "training points")
        most = self.n_rows - (0 if data.test.none else data.test.count or 1)
        # Rows of other classes and official test rows may be left out; joined classes leave no row out.
        whole = data.keep is None and data.rows == "all" and not data.test.official
        tests = data.test.count or math.ceil((data.test.fraction or 0) * self.n_rows)
        least = self.n_rows - tests if whole else 2
        return self.found("split", "n_train", max(most, 2), max(least, 2), "training points")

    @property
    def n_labeled(self) -> int:
        labels = self.spec.labels
        assert labels is not None  # kinds whose stages ask have that section
        most: float = (labels.count if labels.count else min(labels.per_class * self.n_classes, self.n)
                       if labels.per_class else (labels.fraction or 1.0) * self.n)
        least = most if labels.count or labels.per_class else 2
        if labels.file is not None:  # of points that may have one of those labels
            from_file = count_label_files([file.path for file in find_source(labels.file, format="csv").files])
            most = min(most + from_file, self.n)
        return self.found("labels", "n_labeled", most, least, "labeled points")

    # The graph

    @property
    def graph(self) -> GraphSection:
        """Return its section, which kinds whose stages ask have."""
        assert isinstance(self.spec, GraphSections)
        return self.spec.graph

    @property
    def vertices(self) -> int:
        """Return the number of vertices: of the training points, the distinct ones.

        Until they are counted they count as distinct, from below too: hardly any source has so many copies that it
        would matter, and what would not fit otherwise is to be known before hours are spent on it.
        """
        n = self.n
        if "vertices" not in self.attributes and self.graph.duplicates == "collapse" and self.graph.given is None:
            self.estimated.add(DISTINCT)
        return self.found("vertices", "vertices", n, n, DISTINCT)

    @property
    def nnz(self) -> int:
        """Return the entries of W: at most both directions of every list entry; given ones may be fewer."""
        both = self.graph.symmetrize != "minimum"
        listed, given = self.vertices * self.graph.n_neighbors, self.graph.given is not None
        return self.found("graph", "nnz", (2 if both else 1) * listed, listed if both and not given else 0,
                          "entries of W")

    @property
    def search(self) -> set[str]:
        """Return the search that is used, or those that may be: "exact", and "descent" or "partitioned"."""
        method = self.graph.method
        if "neighbors" in self.attributes:
            return {self.attributes["neighbors"]["method"]}
        if method != "auto":
            return {method}
        methods = possible_methods(self.distinct, self.graph.n_neighbors, self.graph.metric, self.budget)
        if len(methods) > 1:
            self.estimated.add("search")
        return methods
