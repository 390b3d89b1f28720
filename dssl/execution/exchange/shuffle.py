"""A bucket shuffle: tasks write rows into the buckets of other tasks, and each task then reads its own bucket.

P tasks write into P' buckets with `scatter`, and P' tasks read one bucket each with `gather`. A task holds the rows of
its block or of its bucket, whatever the total number of rows. The shuffle is a stable sort by bucket: the rows of a
bucket keep the order of the tasks that wrote them, and the order that they had within a task.

All rows are written once and read once. A reading task opens the P files for the number of its rows, and then again
those that contain any, for one frame each.
"""

from collections.abc import Iterator

import numpy as np

from ...base.errors import require
from ...storage.blocks import Parts, PartWriter, Receipt


def scatter(out: PartWriter, bucket: np.ndarray, n_buckets: int, rows: np.ndarray | None = None, /,
            **arrays: np.ndarray) -> Receipt:
    """Write each row of arrays (m, ...) into its bucket; a task calls this once.

    bucket : (m,) integers in [0, n_buckets). rows : optional (p,) row numbers; `bucket` (p,) then gives the bucket of
    each of these, so that a row that goes into several buckets is held once. Takes 12 bytes per entry of `bucket`, and
    three times the largest bucket. Parts in memory keep the arrays, which must not be modified afterwards.

    Raises
    ------
    ParameterError : no array, arrays of different lengths, or an invalid bucket. DataError : not numbers.
    """
    bucket = np.asarray(bucket)
    lengths = [len(array) for array in arrays.values()]
    require(len(arrays) > 0 and bucket.ndim == 1 and len({*lengths, len(bucket)} if rows is None else {*lengths}) == 1
            and (rows is None or len(rows) == len(bucket)),
            f"{len(bucket)} buckets for arrays of {lengths} rows",
            why="each row goes into one bucket", fix="pass one or more arrays of equal length")
    require(not len(bucket) or 0 <= int(bucket.min()) <= int(bucket.max()) < n_buckets,
            f"a bucket outside 0 to {n_buckets - 1}", why="no task would read it", fix="check the numbers of blocks")
    order = bucket_order(bucket, n_buckets)
    starts = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=n_buckets))])
    return out.write_buckets(order if rows is None else rows[order], starts, arrays)


def bucket_order(bucket: np.ndarray, n_buckets: int) -> np.ndarray:
    """Return the order (m,) in which `scatter` writes the rows of these buckets; answers come back in it too."""
    # NumPy sorts 16-bit integers by radix, in linear time.
    return np.argsort(bucket.astype(np.uint16) if n_buckets <= 1 << 16 else bucket, kind="stable")


def rows_of_writers(parts: Parts, n_writers: int, bucket: int) -> list[int]:
    """Return the number of rows that each of tasks 0 .. n_writers - 1 wrote into a bucket."""
    return [parts.bucket_rows(index, bucket) for index in range(n_writers)]


def pieces(parts: Parts, n_writers: int, bucket: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield the rows of `gather` task by task, without tasks that wrote none; holds two copies of a task's rows."""
    for index, count in enumerate(rows_of_writers(parts, n_writers, bucket)):
        if count:
            yield {name: np.array(array) for name, array in parts.read_bucket(index, bucket).items()}


def gather(parts: Parts, n_writers: int, bucket: int) -> dict[str, np.ndarray]:
    """Return the rows that tasks 0 .. n_writers - 1 wrote into a bucket, in the order of the tasks.

    Reads no other bucket; holds the result, and one task's rows both compressed and decompressed.

    Raises
    ------
    IntegrityError : the buckets of a task are missing or damaged.
    """
    require(n_writers >= 1, f"n_writers={n_writers}, expected >= 1", why="types and widths come from what was written",
            fix="pass the number of tasks that called scatter")
    rows = rows_of_writers(parts, n_writers, bucket)
    columns: dict[str, np.ndarray] = {}
    for index, (end, count) in enumerate(zip(np.cumsum(rows), rows, strict=True)):
        if columns and not count:  # with well-ordered neighbors, most blocks have nothing for most others
            continue
        piece = parts.read_bucket(index, bucket)
        if not columns:
            columns = {name: np.empty((sum(rows), *array.shape[1:]), array.dtype) for name, array in piece.items()}
        for name, array in piece.items():
            columns[name][end - len(array):end] = array
    return columns
