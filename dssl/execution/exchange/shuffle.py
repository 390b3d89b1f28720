"""A bucket shuffle: what one block found for others goes into their buckets, and each then reads its own.

P tasks write into P' buckets with `scatter`, P' tasks read one each with `gather`: a task holds the rows of its block
and those of its bucket, whatever the number of rows in all. It is a stable sort by bucket: rows of a bucket are in the
order of the tasks that wrote them, and of one task in that in which it had them.

Bytes: all rows are written once and read once. A task that reads opens the P files for the number of its rows, and
again those that hold any, each for one frame.
"""

from collections.abc import Iterator

import numpy as np

from ...base.errors import require
from ...storage.blocks import Parts, PartWriter, Receipt


def scatter(out: PartWriter, bucket: np.ndarray, n_buckets: int, rows: np.ndarray | None = None, /,
            **arrays: np.ndarray) -> Receipt:
    """Write each row of arrays (m, ...) into the bucket that it belongs to; once a task.

    bucket : (m,) integers in [0, n_buckets). rows : (p,) numbers of rows of the arrays, of which `bucket` (p,) then
    says where each goes: a row that goes into several buckets is held once. Beside what it is given it holds 12 bytes
    an entry of `bucket`, and one bucket three times. Parts in memory keep the arrays: nobody may write to them.

    Raises
    ------
    ParameterError : no array, arrays of other lengths, or a bucket that there is not. DataError : not numbers.
    """
    bucket = np.asarray(bucket)
    lengths = [len(array) for array in arrays.values()]
    require(len(arrays) > 0 and bucket.ndim == 1 and len({*lengths, len(bucket)} if rows is None else {*lengths}) == 1
            and (rows is None or len(rows) == len(bucket)),
            f"{len(bucket)} buckets for arrays of {lengths} rows",
            why="each row goes into one bucket", fix="pass one or more arrays of equal length")
    require(not len(bucket) or 0 <= int(bucket.min()) <= int(bucket.max()) < n_buckets,
            f"a bucket outside 0 to {n_buckets - 1}", why="no task would read it", fix="check what numbers the blocks")
    order = bucket_order(bucket, n_buckets)
    starts = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=n_buckets))])
    return out.write_buckets(order if rows is None else rows[order], starts, arrays)


def bucket_order(bucket: np.ndarray, n_buckets: int) -> np.ndarray:
    """Return the order (m,) in which `scatter` writes rows of these buckets: what comes back for them has it too."""
    # Of 16 bits it is sorted by radix, in linear time.
    return np.argsort(bucket.astype(np.uint16) if n_buckets <= 1 << 16 else bucket, kind="stable")


def rows_of_writers(parts: Parts, n_writers: int, bucket: int) -> list[int]:
    """Return how many rows each of tasks 0 .. n_writers - 1 wrote into a bucket, as they follow each other there."""
    return [parts.bucket_rows(index, bucket) for index in range(n_writers)]


def pieces(parts: Parts, n_writers: int, bucket: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield what `gather` returns piece by piece, each the rows of one task, without such as wrote none there.

    Holds one task's share of the bucket, twice.
    """
    for index, count in enumerate(rows_of_writers(parts, n_writers, bucket)):
        if count:
            yield {name: np.array(array) for name, array in parts.read_bucket(index, bucket).items()}


def gather(parts: Parts, n_writers: int, bucket: int) -> dict[str, np.ndarray]:
    """Return the rows that tasks 0 .. n_writers - 1 wrote into a bucket, in the order of the tasks.

    Reads nothing of other buckets; holds the result and one task's share of it, compressed and not.

    Raises
    ------
    IntegrityError : the buckets of a task are missing, or not as they were written.
    """
    require(n_writers >= 1, f"n_writers={n_writers}, expected >= 1", why="types and widths are those that were written",
            fix="pass the number of tasks that called scatter")
    rows = rows_of_writers(parts, n_writers, bucket)
    columns: dict[str, np.ndarray] = {}
    for index, (end, count) in enumerate(zip(np.cumsum(rows), rows, strict=True)):
        if columns and not count:  # of neighbors in order most blocks have nothing for most others
            continue
        piece = parts.read_bucket(index, bucket)
        if not columns:
            columns = {name: np.empty((sum(rows), *array.shape[1:]), array.dtype) for name, array in piece.items()}
        for name, array in piece.items():
            columns[name][end - len(array):end] = array
    return columns
