"""A bucket file: rows of a few arrays in buckets, each in its own compressed frame that can be read alone.

    description   its length (8 bytes); JSON with the part's number, the number of buckets, and the type and width of
                  each array; and a checksum
    entries       32 bytes per bucket: the start of its frame, its bytes, its rows, the frame's checksum, and a checksum
                  of the entry and of the bucket's number
    frames        the rows of a bucket, one array after the other, compressed; an empty bucket has no frame

A reader needs three small reads, and one for the frame, whatever the size of the file.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, TypedDict

import numpy as np

from ..base.errors import DataError, require
from .files import draft_of, retrying
from .frames import CRC_BYTES, array_error, crc, damaged_error, pack, unpack

ENTRY = np.dtype([("start", "<u8"), ("bytes", "<u8"), ("rows", "<u8"), ("frame", "<u4"), ("entry", "<u4")])
LENGTH_BYTES = 8
LONGEST_DESCRIPTION = 1 << 20


class Description(TypedDict):
    """The description of a bucket file; `arrays` has the type and the width of each array."""

    part: int
    buckets: int
    arrays: dict[str, tuple[str, list[int]]]


@retrying
def write_buckets(file: Path, part: int, order: np.ndarray, starts: np.ndarray, arrays: Mapping[str, np.ndarray]
                  ) -> None:
    """Write rows `order[starts[b]:starts[b + 1]]` of each array as bucket b; holds one bucket twice."""
    for name, array in arrays.items():
        require(array.dtype.kind in "biuf", f"cannot store {name} of dtype {array.dtype}", error=DataError,
                why="only numbers and booleans have one meaning on every machine", fix="encode it as integers first")
    described: Description = {"part": part, "buckets": len(starts) - 1, "arrays": {
        name: (array.dtype.newbyteorder("<").str, list(array.shape[1:])) for name, array in arrays.items()}}
    text = json.dumps(described).encode()
    head = len(text).to_bytes(LENGTH_BYTES, "little") + text
    entries = np.zeros(len(starts) - 1, ENTRY)
    with draft_of(file, of_part=True) as draft, open(draft, "wb") as out:
        out.write(head + crc(head))
        table = out.tell()
        out.seek(table + entries.nbytes)
        for bucket, (first, last) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
            packed = b""
            checksum = bytes(CRC_BYTES)
            if last > first:
                rows = order[first:last]
                packed, checksum = pack(b"".join(
                    np.ascontiguousarray(array[rows], array.dtype.newbyteorder("<")).tobytes()
                    for array in arrays.values()))
            entries[bucket] = (out.tell(), len(packed), last - first, int.from_bytes(checksum, "little"), 0)
            entries[bucket]["entry"] = _entry_crc(entries[bucket], bucket)
            out.write(packed)
        out.seek(table)
        out.write(entries.tobytes())


def _entry_crc(entry: np.void, bucket: int) -> int:
    return int.from_bytes(crc(entry.tobytes()[:-CRC_BYTES] + bucket.to_bytes(8, "little")), "little")


def _described(stored: BinaryIO, file: Path, part: int) -> Description:
    """Return the description; the file is then positioned at its entries."""
    head = stored.read(LENGTH_BYTES)
    length = int.from_bytes(head, "little")
    if not 0 < length <= LONGEST_DESCRIPTION:
        raise damaged_error(file, file, "it does not begin with a description")
    head += stored.read(length)
    if crc(head) != stored.read(CRC_BYTES):
        raise damaged_error(file, file, "its description does not match its checksum")
    described: Description = json.loads(head[LENGTH_BYTES:])
    if described["part"] != part:
        raise damaged_error(file, file, f"it belongs to part {described['part']}")
    return described


def _open(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except FileNotFoundError:
        raise array_error(f"{file} is missing", file, "it contains the buckets of a finished task") from None


def _entry(stored: BinaryIO, file: Path, described: Description, bucket: int) -> np.void:
    require(0 <= bucket < described["buckets"], f"bucket {bucket} of {described['buckets']}",
            why="writers and readers of a shuffle agree on the number of buckets", fix="pass a smaller number")
    stored.seek(bucket * ENTRY.itemsize, os.SEEK_CUR)
    raw = stored.read(ENTRY.itemsize)
    if len(raw) == ENTRY.itemsize:
        entry = np.frombuffer(raw, ENTRY)[0]
        if entry["entry"] == _entry_crc(entry, bucket):
            return entry
    raise damaged_error(file, file, f"the entry of bucket {bucket} does not match its checksum")


@retrying
def bucket_rows(file: Path, part: int, bucket: int) -> int:
    """Return the number of rows in a bucket; raise IntegrityError if the file is missing or its entry damaged."""
    with _open(file) as stored:
        return int(_entry(stored, file, _described(stored, file, part), bucket)["rows"])


@retrying
def read_bucket(file: Path, part: int, bucket: int) -> dict[str, np.ndarray]:
    """Return the rows of a bucket, which must not be modified; raise IntegrityError if they are damaged."""
    with _open(file) as stored:
        described = _described(stored, file, part)
        entry = _entry(stored, file, described, bucket)
        stored.seek(int(entry["start"]))
        packed = stored.read(int(entry["bytes"]))
    rows = int(entry["rows"])
    size = rows * sum(np.dtype(dtype).itemsize * math.prod(width) for dtype, width in described["arrays"].values())
    try:
        values = unpack(packed, int(entry["frame"]).to_bytes(CRC_BYTES, "little"), size) if rows else b""
    except ValueError as error:
        raise damaged_error(file, file, f"bucket {bucket}: {error}") from error
    arrays = {}
    at = 0
    for name, (dtype, width) in described["arrays"].items():
        count = rows * int(np.prod(width, dtype=np.int64))
        arrays[name] = np.frombuffer(values, dtype, count, at).reshape(rows, *width)
        at += arrays[name].nbytes
    return arrays


def check_buckets(file: Path, part: int) -> None:
    """Decode every bucket of a file; raise IntegrityError as `read_bucket` does."""
    with _open(file) as stored:
        count = _described(stored, file, part)["buckets"]
    for bucket in range(count):
        read_bucket(file, part, bucket)
