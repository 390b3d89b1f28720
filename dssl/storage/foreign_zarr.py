"""The door to Zarr that others wrote: arrays of version 2 or 3 on a local disk, read as Zarr reads them.

They need not carry checksums, and a chunk that is missing stands for its fill value; what dssl writes itself is read by
`store`, which knows better.
"""

import asyncio
import errno
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Self

import numpy as np
import zarr
from numcodecs.abc import Codec
from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.codecs import ShardingCodec

from ..base.errors import DataError, explain, require
from .array_files import DESCRIPTION
from .files import files_in, json_bytes, read_file, read_json, write_json
from .objects import ObjectPath
from .unpacked_sizes import UNPACKED, require_bounded, require_known

BESIDE = 1 << 16  # bytes that a chunk may have beside its values: checksums, headers
TEXT_BYTES = 1 << 10  # of a cell that is text of any length
FILTERED_BYTES = 16  # of a cell of a filter, whatever type it makes of it
MARKS = ("zarr.json", ".zarray", ".zgroup")


def is_zarr(folder: Path) -> bool:
    """Return whether a folder is a Zarr array or group."""
    return any((folder / mark).is_file() for mark in MARKS)


@dataclass(frozen=True)
class ForeignArray:
    """An array of a folder, opened where its rows are read; a chunk that is missing holds the fill value.

    member : its name in the group, None where the folder is the array. unit_bytes : of the chunks that are decoded
    whole to read one row.
    """

    folder: Path
    name: str
    member: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    unit_bytes: int

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return some rows; raise DataError if a chunk cannot be decoded, or is larger than `unit_bytes` tells."""
        with _explained(self.name):
            node: Any = zarr.open(str(self.folder), mode="r")
            array = node if self.member is None else node[self.member]
            _require_harmless(array, self.name)
            return np.asarray(_bounded(array, self.name)[rows])


def list_arrays(folder: Path, name: str) -> dict[str, ForeignArray]:
    """Return the arrays of a group by their names, or a lone array as X.

    Raise DataError if the folder is not Zarr of version 2 or 3, or is damaged.
    """
    with _explained(name):
        node = zarr.open(str(folder), mode="r")
        if isinstance(node, zarr.Array):
            return {"X": _describe(folder, name, None, node)}
        return {member: _describe(folder, name, member, array) for member, array in node.arrays()}


def _describe(folder: Path, name: str, member: str | None, array: zarr.Array) -> ForeignArray:
    _require_harmless(array, f"{name}[{member or 'X'!r}]")
    dtype = np.dtype(array.dtype)
    # Of the chunks that a row lies in, Zarr decodes a few at a time.
    beside = int(np.prod([-(-size // chunk) for size, chunk in zip(array.shape[1:], array.chunks[1:], strict=True)]))
    at_once = min(beside, int(zarr.config.get("async.concurrency")))
    return ForeignArray(folder, name, member, array.shape, dtype,
                        at_once * int(np.prod(array.chunks)) * dtype.itemsize)


def _require_harmless(array: zarr.Array, name: str) -> None:
    """Raise DataError if reading an array would unpickle: its codecs name pickle."""
    described = json.dumps(array.metadata.to_dict(), default=str)
    require("pickle" not in described, f"{name} holds Python objects, stored with pickle", error=DataError,
            why="unpickling a file runs whatever code it holds", fix="save it again with a numeric or text dtype")


def _bounded(array: "zarr.Array[Any]", name: str) -> "zarr.Array[Any]":
    """Return an array, none of whose chunks unpacks to more than its shape and type tell.

    Raises DataError: it has a codec of which nothing is known; and, where rows are read, a chunk unpacks to more.
    """
    metadata: Any = array.metadata
    if metadata.zarr_format == 3:
        metadata = replace(metadata, codecs=_bounded_codecs(metadata.codecs, name))
    else:
        cell = _cell_bytes(np.dtype(array.dtype))
        most = BESIDE + prod(metadata.chunks) * (max(cell, FILTERED_BYTES) if metadata.filters else cell)
        filters, compressor = metadata.filters, metadata.compressor
        metadata = replace(
            metadata, filters=filters and tuple(_bounded_filter(codec, most, name) for codec in filters),
            compressor=compressor and _bounded_filter(compressor, most, name))
    return zarr.Array(zarr.AsyncArray(metadata, array.store_path))


def _bounded_codecs(codecs: Iterable[Any], name: str) -> tuple[Any, ...]:
    made = []
    for codec in codecs:
        if isinstance(codec, ShardingCodec):
            codec = replace(codec, codecs=_bounded_codecs(codec.codecs, name))
        elif not isinstance(codec, ArrayArrayCodec):
            described = codec.to_dict()
            kind = str(described["name"]).removeprefix("numcodecs.")
            if kind in UNPACKED:
                codec = BoundedCodec(codec, kind, described.get("configuration") or {}, name)
            else:
                require_known(kind, name)
        made.append(codec)
    return tuple(made)


def _bounded_filter(codec: Any, most: int, name: str) -> Any:
    if codec.codec_id in UNPACKED:
        return BoundedFilter(codec, most, name)
    require_known(codec.codec_id, name)
    return codec


def _cell_bytes(dtype: np.dtype) -> int:
    return TEXT_BYTES if dtype.kind in "OT" else dtype.itemsize


@dataclass(frozen=True)
class BoundedCodec(BytesBytesCodec):
    """A codec of version 3 that first asks to how many bytes a chunk unpacks."""

    codec: Any
    kind: str
    configuration: Mapping[str, Any]
    name: str

    is_fixed_size = False

    def to_dict(self) -> Any:
        return self.codec.to_dict()

    def evolve_from_array_spec(self, array_spec: Any) -> Self:
        return replace(self, codec=self.codec.evolve_from_array_spec(array_spec))

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]) -> Any:
        chunks = list(chunks_and_specs)
        for chunk, spec in chunks:
            if chunk is not None:
                most = BESIDE + prod(spec.shape) * _cell_bytes(spec.dtype.to_native_dtype())
                await asyncio.to_thread(require_bounded, self.kind, self.configuration, chunk.to_bytes(), most,
                                        self.name)
        return await self.codec.decode(chunks)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        return int(self.codec.compute_encoded_size(input_byte_length, chunk_spec))


class BoundedFilter(Codec):
    """A compressor or filter of version 2 that first asks to how many bytes a chunk unpacks."""

    codec_id = "bounded"

    def __init__(self, codec: Any, most: int, name: str):
        self.codec, self.most, self.name = codec, most, name

    def encode(self, buf: Any) -> Any:
        return self.codec.encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        require_bounded(self.codec.codec_id, self.codec.get_config(), bytes(buf), self.most, self.name)
        return self.codec.decode(buf, out)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn the errors of Zarr and its codecs into one that names the folder."""
    try:
        yield
    except DataError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, EOFError, OSError, zlib.error,
            lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError):
            raise
        raise DataError(explain(
            f"{name} cannot be read as Zarr: {type(error).__name__}: {error}",
            why="its metadata or a chunk is damaged, or needs a codec that is not installed",
            fix="copy the folder again, or write it again with Zarr 2 or 3")) from error


def publish_array(source: Path, target: Path, attributes: dict[str, Any]) -> None:
    """Give an array that was written attributes for its readers, and move it to its place: they see all or nothing.

    Raises DataError: another array has come there meanwhile.
    """
    described = read_json(source / DESCRIPTION)
    described["attributes"] = {**described.get("attributes", {}), **attributes}
    if isinstance(target, ObjectPath):
        _copy_objects(source, target, json_bytes(described))
        return
    write_json(source / DESCRIPTION, described)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        raise _exists(target) from error


def _copy_objects(source: Path, target: ObjectPath, description: bytes) -> None:
    """Copy the chunks of an array to a place in a store, each unless another is there, and its description last.

    All writers copy the chunks in one order, so that of two the one that is first to copy a chunk in which they differ
    goes on, and the other has written nothing else than what the first one wrote.
    """
    chunks = sorted(path.relative_to(source).as_posix() for path, _ in files_in(source))
    for name in (name for name in chunks if name != DESCRIPTION):
        if (target / name).create(bytes(read_file(source / name))) is None:
            raise _exists(target)
    if (target / DESCRIPTION).create(description) is None:
        raise _exists(target)


def _exists(target: Path) -> DataError:
    return DataError(explain(f"{target} exists", why="somebody else has written it meanwhile",
                             fix="name another path"))
