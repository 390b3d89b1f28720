"""Duplicate rows, found in blocks: no task and no driver holds more than a block, or a bucket of hashes.

    HashTask       hashes a block, finds duplicates within it, and sends the hashes of the distinct rows to buckets
    SuspectTask    reports rows with the same hash in a bucket to the blocks of the rows
    ContentTask    sends the contents of these rows to the buckets of their hashes
    MatchTask      compares them, and reports duplicates and their first rows to the blocks of both
    FirstsTask     writes the first rows of a block and their multiplicities
    NumberTask     sends the numbers of first rows to the blocks of their duplicates
    VertexTask     writes the vertex of each row of a block

A bucket has a range of all hashes. Without equal hashes the first two steps suffice. A row that is repeated everywhere
comes once from each block, so it does not fill a bucket.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit

from ..base.errors import DataError, require
from ..base.types import Matrix
from ..execution.cost import Cost, block_count, bucket_requests, cost_of
from ..execution.exchange.shuffle import gather, scatter
from ..execution.tasks import BlockTasks, Execution
from ..knn.metric import Euclidean, measurable
from ..storage.blocks import MemoryParts, Parts, PartWriter, Receipt, Rows, row_ranges, rows_that_fit
from ..storage.csr import narrow_csr

BLOCK_BYTES = 64 << 20
HASH_BYTES = 24  # that are sent to a bucket: the hash, the row, and how many equal it
BUCKET_BYTES = 110  # of a task, a hash of a bucket, measured
ROWS_AT_ONCE = 2048  # of a dense block that NumPy hashes, which stay in the cache
HASHED_SECONDS = 4.5e-9  # of a byte of rows, on one core, to hash them and to find equal hashes; measured


def _mixed(key: Any, value: Any) -> Any:
    """Return a hash of key and value; a bijection in either (the finalizer of MurmurHash3, A. Appleby)."""
    key = key ^ value
    key = (key ^ (key >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    key = (key ^ (key >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return key ^ (key >> np.uint64(33))


_mixed_entry = njit(nogil=True, cache=True)(_mixed)


def _hash_dense_rows(bits: np.ndarray) -> np.ndarray:
    keys = np.zeros(len(bits), np.uint64)
    for start, stop in row_ranges(len(bits), ROWS_AT_ONCE):
        for column in bits[start:stop].T.astype(np.uint64, order="C"):
            keys[start:stop] = _mixed(keys[start:stop], column + np.uint64(1))
    return keys


@njit(nogil=True, cache=True)
def _hash_sparse_rows(bits, indices, indptr):
    keys = np.zeros(len(indptr) - 1, np.uint64)
    for row in range(len(keys)):
        for entry in range(indptr[row], indptr[row + 1]):
            if bits[entry] != 0:  # a stored zero equals a missing one
                column = np.uint64(indices[entry]) + np.uint64(1)
                keys[row] = _mixed_entry(_mixed_entry(keys[row], column), np.uint64(bits[entry]))
    return keys


def _bits(values: np.ndarray, first: int) -> np.ndarray:
    """Return values as unsigned integers that are equal exactly where the values are."""
    values = measurable(values, Euclidean.name)
    if values.dtype.kind == "f":
        require(bool(np.isfinite(values).all()), f"rows from row {first} on hold NaN or infinite values",
                why="they have no distances, and equal nothing", error=DataError,
                fix="drop these rows, or fill the values before searching")
        values = values + 0.0  # -0.0 becomes 0.0
    return values.view(f"u{values.dtype.itemsize}")


def hash_rows(block: Matrix, first: int = 0) -> np.ndarray:
    """Return one hash a row, (b,) uint64, of a block of rows, dense or CSR; equal rows have equal hashes.

    Raises DataError: a value is NaN or infinite; `first` is the number of the block's first row,
    for the message.
    """
    if isinstance(block, np.ndarray):
        return _hash_dense_rows(_bits(block, first))
    return _hash_sparse_rows(_bits(block.data, first), block.indices, block.indptr)


def rows_differ(left: Matrix, right: Matrix) -> np.ndarray:
    """Return which rows of two blocks differ, (b,) bool; 0.0 equals -0.0, and a stored zero a missing one."""
    if isinstance(left, np.ndarray):
        return (left != right).any(axis=1)
    return np.diff((left != right).tocsr().indptr) > 0


def first_equal(block: Matrix, keys: np.ndarray) -> np.ndarray:
    """Return the first equal row (b,) of each row of a block (b, d) with these hashes."""
    _, first_of_key, key = np.unique(keys, return_index=True, return_inverse=True)
    first = first_of_key[key]
    pending = np.flatnonzero(first != np.arange(len(keys)))
    while len(pending):
        # Among different rows with the same hash, the first becomes the first of those that equal it, and so on.
        pending = pending[rows_differ(block[pending], block[first[pending]])]
        _, start_of, group = np.unique(first[pending], return_index=True, return_inverse=True)
        first[pending] = pending[start_of][group]
        pending = pending[first[pending] != pending]
    return first


def hashed_row_bytes(row_bytes: int) -> int:
    """Return the bytes of a row in a task's block: two rows that are compared, in two forms each."""
    return 4 * row_bytes + 80


@dataclass(frozen=True)
class EqualRows:
    """Blocks of `height` rows, buckets of hashes, and the parts of each step.

    inside, across : whether there are duplicates within a block, and in different blocks. v : the number of distinct
    rows. largest, duplicated : the largest multiplicity, and the number of rows that have duplicates.
    """

    rows: Rows
    height: int
    n_buckets: int
    parts: Parts
    inside: bool = False
    across: bool = False
    v: int = 0
    largest: int = 1
    duplicated: int = 0

    @classmethod
    def within(cls, rows: Rows, budget: int, parts: Parts) -> "EqualRows":
        n, each = len(rows), hashed_row_bytes(rows.row_bytes)
        height = min(rows_that_fit(budget, each, n), max(1, BLOCK_BYTES // each))
        # The hashes of a bucket, or its rows if all are compared, take half the budget.
        n_buckets = max(1, -(-2 * n * max(BUCKET_BYTES, 6 * rows.row_bytes + 60) // budget))
        return cls(rows, height, n_buckets, parts)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return row_ranges(len(self.rows), self.height)

    @property
    def count(self) -> int:
        return block_count(len(self.rows), self.height)

    def of(self, step: str) -> Parts:
        """Return the parts of a step."""
        return self.parts.within(step)

    def buckets(self, keys: np.ndarray) -> np.ndarray:
        """Return the bucket of each hash, by its upper half."""
        return ((keys >> np.uint64(32)) * np.uint64(self.n_buckets) >> np.uint64(32)).astype(np.int64)

    def local(self, index: int) -> np.ndarray:
        """Return the first equal row within the block, for each row of the block."""
        start, stop = self.ranges[index]
        local = self.of("hashes").read(index, ["local"])["local"] if self.inside else np.arange(0)
        return local if len(local) else np.arange(stop - start)

    def matches(self, index: int) -> dict[str, np.ndarray]:
        """Return the duplicates in other blocks: `row` equals `other`, which is an earlier row if `later`."""
        if self.across:
            return gather(self.of("matches"), self.n_buckets, index)
        return {"row": np.arange(0), "other": np.arange(0), "later": np.zeros(0, bool), "rows": np.arange(0)}

    def blocks(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield the `first` rows of each block, and their `multiplicity`."""
        firsts = self.of("firsts")
        for index in range(self.count):
            yield firsts.read(index)

    def remove(self) -> None:
        """Delete what the steps wrote."""
        for step in ("hashes", "suspects", "contents", "matches", "firsts", "numbers", "vertices"):
            self.of(step).remove()


@dataclass(frozen=True)
class HashTask:
    """Send the hashes of the distinct rows of a block to their buckets; write the duplicates within the block.

    `rows` of a hash is the number of equal rows in the block.
    """

    equal: EqualRows
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        equal, (start, stop) = self.equal, self.equal.ranges[self.index]
        block = equal.rows.read(start, stop)
        keys = hash_rows(block, start)
        local = first_equal(block, keys)
        roots = np.flatnonzero(local == np.arange(stop - start))
        receipt = scatter(out, equal.buckets(keys[roots]), equal.n_buckets, key=keys[roots], row=start + roots,
                          rows=np.bincount(local, minlength=len(local))[roots])
        n_duplicates = stop - start - len(roots)
        return {**receipt, **out.write(local=local[:len(local) if n_duplicates else 0]), "duplicates": n_duplicates}

    def cost(self) -> Cost:
        """Return it for distinct rows."""
        row_bytes, each = self.equal.rows.row_bytes, hashed_row_bytes(self.equal.rows.row_bytes)
        rows = min(self.equal.height, len(self.equal.rows) - self.index * self.equal.height)
        return cost_of(1, rows * row_bytes, HASH_BYTES * rows, each * rows, each, HASHED_SECONDS * rows * row_bytes)


@dataclass(frozen=True)
class SuspectTask:
    """Report the rows of a bucket that share a hash to their blocks."""

    equal: EqualRows
    bucket: int

    def __call__(self, out: PartWriter) -> Receipt:
        equal = self.equal
        hashes = gather(equal.of("hashes"), equal.count, self.bucket)
        order = np.argsort(hashes["key"], kind="stable")
        same = np.diff(hashes["key"][order]) == 0
        shared = order[np.append(same, False) | np.append(False, same)] if len(order) else order
        shared.sort()
        row = hashes["row"][shared]
        receipt = scatter(out, row // equal.height, equal.count, row=row, rows=hashes["rows"][shared])
        return {**receipt, "suspects": len(shared)}

    def cost(self) -> Cost:
        """Return it for hashes that differ."""
        hashes = len(self.equal.rows) // self.equal.n_buckets
        return cost_of(1, HASH_BYTES * hashes, 0, BUCKET_BYTES * hashes,
                       extra_requests=bucket_requests((self.equal.count, 1)))


@dataclass(frozen=True)
class ContentTask:
    """Send the rows of a block that may equal others to the buckets of their hashes."""

    equal: EqualRows
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        equal, (start, stop) = self.equal, self.equal.ranges[self.index]
        suspects = gather(equal.of("suspects"), equal.n_buckets, self.index)
        order = np.argsort(suspects["row"])
        row, rows = suspects["row"][order], suspects["rows"][order]
        block: Any = equal.rows.read(start, stop)[row - start]
        bucket = equal.buckets(hash_rows(block, start))
        if not equal.rows.is_sparse:
            return scatter(out, bucket, equal.n_buckets, row=row, rows=rows, X=block)
        # A row begins with an entry in column -1, so that empty rows have an entry too.
        entries = np.diff(block.indptr)
        column, value = np.full(len(row) + len(block.data), -1, np.int32), np.zeros(len(row) + len(block.data),
                                                                                  block.dtype)
        of = np.repeat(np.arange(len(row)), entries + 1)
        inner = np.ones(len(of), bool)
        inner[np.cumsum(entries + 1) - entries - 1] = False
        column[inner], value[inner] = block.indices, block.data
        return scatter(out, bucket[of], equal.n_buckets, row=row[of], rows=rows[of], column=column, value=value)


@dataclass(frozen=True)
class MatchTask:
    """Compare the rows of a bucket; report each duplicate to its block and to the block of the first equal row."""

    equal: EqualRows
    bucket: int

    def __call__(self, out: PartWriter) -> Receipt:
        equal = self.equal
        contents = gather(equal.of("contents"), equal.count, self.bucket)
        row, rows = contents["row"], contents["rows"]
        if equal.rows.is_sparse:
            begins = contents["column"] < 0
            row, rows = row[begins], rows[begins]
            entries = np.diff(np.append(np.flatnonzero(begins), len(begins))) - 1
            block: Any = narrow_csr(contents["value"][~begins], contents["column"][~begins],
                                      np.concatenate([[0], np.cumsum(entries)]), (len(row), equal.rows.shape[1]))
        else:
            block = contents["X"]
        first = first_equal(block, hash_rows(block))
        duplicate = np.flatnonzero(first != np.arange(len(first)))
        other = first[duplicate]
        duplicates = np.concatenate([row[duplicate], row[other]])
        others = np.concatenate([row[other], row[duplicate]])
        receipt = scatter(out, duplicates // equal.height, equal.count, row=duplicates, other=others,
                          later=np.repeat([True, False], len(duplicate)), rows=np.tile(rows[duplicate], 2))
        return {**receipt, "duplicates": len(duplicate)}


@dataclass(frozen=True)
class FirstsTask:
    """Write the `first` rows of a block, which equal no earlier row, and their `multiplicity`."""

    equal: EqualRows
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        equal, (start, stop) = self.equal, self.equal.ranges[self.index]
        local, matches = equal.local(self.index), equal.matches(self.index)
        later = matches["later"]
        rows = np.bincount(local, minlength=stop - start)
        np.add.at(rows, matches["row"][~later] - start, matches["rows"][~later])
        is_first = local == np.arange(stop - start)
        is_first[matches["row"][later] - start] = False
        multiplicity = rows[is_first]
        receipt = out.write(first=start + np.flatnonzero(is_first), multiplicity=multiplicity.astype(np.int64))
        return {**receipt, "count": len(multiplicity), "largest": int(multiplicity.max(initial=1)),
                "copied": int(multiplicity[multiplicity > 1].sum())}


@dataclass(frozen=True)
class NumberTask:
    """Send the vertices of the first rows of a block, numbered from `begin` on, to the blocks of their duplicates."""

    equal: EqualRows
    index: int
    begin: int

    def __call__(self, out: PartWriter) -> Receipt:
        equal, matches = self.equal, self.equal.matches(self.index)
        first, behind = equal.of("firsts").read(self.index, ["first"])["first"], ~matches["later"]
        row = matches["other"][behind]
        return scatter(out, row // equal.height, equal.count, row=row,
                       vertex=self.begin + np.searchsorted(first, matches["row"][behind]))


@dataclass(frozen=True)
class VertexTask:
    """Write the vertex of each row of a block; its first rows are numbered from `begin` on."""

    equal: EqualRows
    index: int
    begin: int
    vertices: Parts

    def __call__(self, out: PartWriter) -> Receipt:
        equal, (start, stop) = self.equal, self.equal.ranges[self.index]
        first = equal.of("firsts").read(self.index, ["first"])["first"]
        vertex = np.empty(stop - start, np.int64)
        vertex[first - start] = self.begin + np.arange(len(first))
        if equal.across:
            numbers = gather(equal.of("numbers"), equal.count, self.index)
            vertex[numbers["row"] - start] = numbers["vertex"]
        self.vertices.write_range(start, {"vertex": vertex[equal.local(self.index)]})
        return {}


def find_equal_rows(rows: Rows, execution: Execution, parts: Parts) -> EqualRows | None:
    """Write the vertex of each row as the shared array `vertex` (n,); return None if all rows are distinct.

    Vertices are numbered in the order of their first rows, which `blocks` yields. A task holds two blocks of rows in
    two forms each, or a bucket.

    Raises DataError: values that are not finite numbers. BudgetError: not one row fits.
    """
    equal = EqualRows.within(execution.share_rows(rows), execution.memory_budget, parts.within("equal"))
    blocks, buckets = range(equal.count), range(equal.n_buckets)
    hashed = execution.map(hash_tasks(equal), equal.of("hashes"))
    suspects = execution.map(suspect_tasks(equal), equal.of("suspects"))
    equal = replace(equal, inside=any(receipt["duplicates"] for receipt in hashed))
    if any(receipt["suspects"] for receipt in suspects):
        execution.map([ContentTask(equal, index) for index in blocks], equal.of("contents"))
        matched = execution.map([MatchTask(equal, bucket) for bucket in buckets], equal.of("matches"))
        equal = replace(equal, across=any(receipt["duplicates"] for receipt in matched))
    if not equal.inside and not equal.across:
        equal.remove()
        return None
    firsts = execution.map([FirstsTask(equal, index) for index in blocks], equal.of("firsts"))
    begins = np.cumsum([0, *(receipt["count"] for receipt in firsts)]).tolist()
    if equal.across:
        execution.map([NumberTask(equal, index, begins[index]) for index in blocks], equal.of("numbers"))
    parts.allocate("vertex", (len(rows),), np.int64, equal.height)
    execution.map([VertexTask(equal, index, begins[index], parts) for index in blocks], equal.of("vertices"))
    return replace(equal, v=begins[-1], largest=max(receipt["largest"] for receipt in firsts),
                   duplicated=sum(receipt["copied"] for receipt in firsts))


def hash_tasks(equal: EqualRows) -> BlockTasks[HashTask]:
    return BlockTasks(lambda start, stop: HashTask(equal, start // equal.height), len(equal.rows), equal.height)


def suspect_tasks(equal: EqualRows) -> BlockTasks[SuspectTask]:
    return BlockTasks(lambda bucket, _: SuspectTask(equal, bucket), equal.n_buckets, 1)


def vertices_cost(rows: Rows, budget: int) -> Cost:
    """Return what finding equal rows takes where there are none; copies add passes over them alone."""
    equal = EqualRows.within(rows, budget, MemoryParts())
    return hash_tasks(equal).cost() + suspect_tasks(equal).cost()
