"""The door to Zarr arrays of other programs: version 2 or 3 on a local disk, read by Zarr itself.

They need not carry checksums, and a missing chunk stands for the fill value. Arrays that dssl has written are read by
`store`, which checks both.
"""

import asyncio
import bz2
import errno
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import zarr
from numcodecs.abc import Codec
from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.codecs import ShardingCodec

from ..base.digest import JsonObject
from ..base.errors import DataError, explain, require
from .array_files import DESCRIPTION
from .files import files_in, json_bytes, read_file, read_json, write_json
from .frames import content_size
from .objects import ObjectPath

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec

DEFLATED = 1032  # the maximum compression ratio of deflate
PIECE = 1 << 20
BLOCK, MAGIC = 1 << 17, b"\x28\xb5\x2f\xfd"  # the largest block of zstd, and the first bytes of its frames
# Codecs whose output is no larger than their input, or bounded by the type and the number of values.
SIZE_PRESERVING = frozenset({
    "adler32", "astype", "base64", "bitround", "bytes", "categorize", "crc32", "crc32c", "delta", "fixedscaleoffset",
    "fletcher32", "jenkins_lookup3", "json2", "msgpack2", "packbits", "quantize", "shuffle", "vlen-array",
    "vlen-bytes", "vlen-utf8"})

Stream = io.RawIOBase | io.BufferedIOBase
SizeOf = Callable[[bytes, Mapping[str, Any], int], int]  # of a packed chunk, its codec's configuration and a bound


def require_known(kind: str, name: str) -> None:
    """Raise DataError for a codec whose decompressed size cannot be bounded."""
    require(kind in SIZE_PRESERVING, f"{name} has chunks of the codec {kind!r}", error=DataError,
            why="dssl cannot tell how large they are decompressed, which may exceed the memory",
            fix="write it again with zstd, blosc, gzip, lz4 or no compression")


def require_bounded(kind: str, configuration: Mapping[str, Any], packed: bytes, max_bytes: int, name: str) -> None:
    """Raise DataError if a chunk decompresses to more than `max_bytes` bytes."""
    if UNPACKED[kind](packed, configuration, max_bytes) > max_bytes:
        raise DataError(explain(
            f"{name} has a chunk of {len(packed):,} bytes that decompresses to more than {max_bytes:,} bytes",
            why="its shape and type allow no more; it is damaged, or made to fill the memory",
            fix="copy the folder again, or write it again with Zarr 2 or 3"))


def _counted(source: Stream, max_bytes: int) -> int:
    """Return the decompressed size of a stream, or some number above `max_bytes`."""
    count = 0
    while count <= max_bytes and (piece := source.read(PIECE)):
        count += len(piece)
    return count


def _deflated(counted: SizeOf) -> SizeOf:
    """Return a size function for deflated bytes that decompresses only if the maximum ratio could exceed the bound."""
    return lambda packed, configuration, max_bytes: (
        DEFLATED * len(packed) if DEFLATED * len(packed) <= max_bytes else counted(packed, configuration, max_bytes))


class _Zlib(io.RawIOBase):
    """The decompressed bytes of a zlib stream, read piece by piece."""

    def __init__(self, packed: bytes):
        self._remaining = packed
        self._state = zlib.decompressobj()

    def read(self, size: int = -1) -> bytes:
        piece = self._state.decompress(self._remaining, size)
        self._remaining = self._state.unconsumed_tail
        return piece


def _zstd(packed: bytes, configuration: Mapping[str, Any], max_bytes: int) -> int:
    """Return the size in the header of the first frame, which the codec enforces, or a lower bound from its blocks.

    In a frame without a size, all blocks but the last count as full, which they are unless the writer flushes early.
    """
    size = content_size(packed)
    return size if size is not None else max(0, _zstd_blocks(packed) - BLOCK)


def _zstd_blocks(packed: bytes) -> int:
    """Return an upper bound of the decompressed size of the blocks of zstd frames; see RFC 8878, section 3.1.1."""
    offset = count = 0
    while packed[offset:offset + 4] == MAGIC and offset + 5 < len(packed):
        flags = packed[offset + 4]
        window = packed[offset + 5]
        largest = BLOCK
        offset += 5 + (0, 1, 2, 4)[flags & 3] + (int(bool(flags & 32)), 2, 4, 8)[flags >> 6]
        if not flags & 32:
            largest = min(BLOCK, (1 << (10 + (window >> 3))) // 8 * (8 + (window & 7)))
            offset += 1
        is_last = False
        while not is_last and offset + 3 <= len(packed):
            block = int.from_bytes(packed[offset:offset + 3], "little")
            is_last = bool(block & 1)
            kind = block >> 1 & 3
            size = block >> 3
            count += largest if kind == 2 else size  # 2: compressed; 0: as it is; 1: one byte, many times
            offset += 3 + (1 if kind == 1 else size)
        offset += 4 * bool(flags & 4)  # a checksum
    return count


def _size_at(offset: int) -> SizeOf:
    """Return a size function that reads 4 bytes of a header at an offset."""
    return lambda packed, configuration, max_bytes: int.from_bytes(packed[offset:offset + 4], "little")


def _stream(open_stream: Callable[[io.BytesIO, Mapping[str, Any]], Stream]) -> SizeOf:
    """Return a size function that counts the bytes of a decompressing stream."""
    def unpacked(packed: bytes, configuration: Mapping[str, Any], max_bytes: int) -> int:
        with open_stream(io.BytesIO(packed), configuration) as stream:
            return _counted(stream, max_bytes)

    return unpacked


def _lzma(file: io.BytesIO, configuration: Mapping[str, Any]) -> lzma.LZMAFile:
    return lzma.LZMAFile(file, format=configuration.get("format"), filters=configuration.get("filters"))


# By codec, a function that returns the decompressed size, or any number above `max_bytes` if it is larger.
UNPACKED: dict[str, SizeOf] = {
    "blosc": _size_at(4), "lz4": _size_at(0), "zstd": _zstd, "bz2": _stream(lambda file, _: bz2.BZ2File(file)),
    "gzip": _deflated(_stream(lambda file, _: gzip.GzipFile(fileobj=file))), "lzma": _stream(_lzma),
    "zlib": _deflated(_stream(lambda file, _: _Zlib(file.read())))}


BESIDE = 1 << 16  # bytes of a chunk besides its values, such as checksums and headers
TEXT_BYTES = 1 << 10  # allowed per value of variable-length text
FILTERED_BYTES = 16  # allowed per value between filters, whatever their type
MARKS = ("zarr.json", ".zarray", ".zgroup")


def is_zarr(folder: Path) -> bool:
    """Return whether a folder is a Zarr array or group."""
    return any((folder / mark).is_file() for mark in MARKS)


@dataclass(frozen=True)
class ForeignArray:
    """An array in a folder, which is opened where its rows are read; missing chunks have the fill value.

    member : its name in the group, None if the folder itself is the array. unit_bytes : the size of the chunks that are
    decoded to read one row.
    """

    folder: Path
    name: str
    member: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    unit_bytes: int

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return some rows; raise DataError if a chunk cannot be decoded, or is larger than its shape allows."""
        with _explained(self.name):
            node: Any = zarr.open(str(self.folder), mode="r")
            array = node if self.member is None else node[self.member]
            _require_harmless(array, self.name)
            return np.asarray(_bounded(array, self.name)[rows])


def list_arrays(folder: Path, name: str) -> dict[str, ForeignArray]:
    """Return the arrays of a group by name, or a single array as X."""
    with _explained(name):
        node = zarr.open(str(folder), mode="r")
        if isinstance(node, zarr.Array):
            return {"X": _describe(folder, name, None, node)}
        return {member: _describe(folder, name, member, array) for member, array in node.arrays()}


@dataclass(frozen=True)
class ZarrTree:
    """The groups and arrays of a folder by their paths; "" is the folder itself."""

    folder: Path
    name: str

    def attributes(self, member: str) -> JsonObject:
        """Return the attributes of a group or an array."""
        return dict(self._node(member).attrs)

    def members(self, group: str) -> list[str]:
        """Return the names of what a group holds; nothing of an array, or of a path that does not exist."""
        with _explained(self.name):
            root: Any = zarr.open(str(self.folder), mode="r")
            node = root.get(group) if group else root
            return sorted(node.keys()) if isinstance(node, zarr.Group) else []

    def array(self, member: str) -> ForeignArray:
        """Return the array at a path, which must be one."""
        with _explained(self.name):
            return _describe(self.folder, self.name, member, self._node(member))

    def _node(self, member: str) -> Any:
        with _explained(self.name):
            root: Any = zarr.open(str(self.folder), mode="r")
            return root[member] if member else root


def _describe(folder: Path, name: str, member: str | None, array: zarr.Array) -> ForeignArray:
    _require_harmless(array, f"{name}[{member or 'X'!r}]")
    dtype = np.dtype(array.dtype)
    # Zarr decodes only a few of the chunks that contain a row at a time.
    beside = int(np.prod([-(-size // chunk) for size, chunk in zip(array.shape[1:], array.chunks[1:], strict=True)]))
    n_parallel = min(beside, int(zarr.config.get("async.concurrency")))
    return ForeignArray(folder, name, member, array.shape, dtype,
                        n_parallel * int(np.prod(array.chunks)) * dtype.itemsize)


def _require_harmless(array: zarr.Array, name: str) -> None:
    """Raise DataError if reading an array would unpickle objects."""
    described = json.dumps(array.metadata.to_dict(), default=str)
    require("pickle" not in described, f"{name} contains Python objects, stored with pickle", error=DataError,
            why="unpickling a file runs whatever code it contains", fix="save it again with a numeric or text dtype")


def _bounded(array: "zarr.Array[Any]", name: str) -> "zarr.Array[Any]":
    """Return an array whose chunks cannot decompress to more than their shape and type allow.

    Raises DataError: a codec is unknown; later, when rows are read, a chunk is too large.
    """
    metadata: Any = array.metadata
    if metadata.zarr_format == 3:
        metadata = replace(metadata, codecs=_bounded_codecs(metadata.codecs, name))
    else:
        cell = _cell_bytes(np.dtype(array.dtype))
        max_bytes = BESIDE + prod(metadata.chunks) * (max(cell, FILTERED_BYTES) if metadata.filters else cell)
        filters = metadata.filters
        compressor = metadata.compressor
        metadata = replace(
            metadata, filters=filters and tuple(_bounded_filter(codec, max_bytes, name) for codec in filters),
            compressor=compressor and _bounded_filter(compressor, max_bytes, name))
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


def _bounded_filter(codec: Codec, max_bytes: int, name: str) -> Codec:
    if codec.codec_id in UNPACKED:
        return BoundedFilter(codec, max_bytes, name)
    require_known(codec.codec_id, name)
    return codec


def _cell_bytes(dtype: np.dtype) -> int:
    return TEXT_BYTES if dtype.kind in "OT" else dtype.itemsize


@dataclass(frozen=True)
class BoundedCodec(BytesBytesCodec):
    """A codec of version 3 that checks the decompressed size of a chunk before it decodes."""

    codec: Any
    kind: str
    configuration: Mapping[str, Any]
    name: str

    is_fixed_size = False

    def to_dict(self) -> Any:
        return self.codec.to_dict()

    def evolve_from_array_spec(self, array_spec: "ArraySpec") -> Self:
        return replace(self, codec=self.codec.evolve_from_array_spec(array_spec))

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]) -> Any:
        chunks = list(chunks_and_specs)
        for chunk, spec in chunks:
            if chunk is not None:
                max_bytes = BESIDE + prod(spec.shape) * _cell_bytes(spec.dtype.to_native_dtype())
                await asyncio.to_thread(require_bounded, self.kind, self.configuration, chunk.to_bytes(), max_bytes,
                                        self.name)
        return await self.codec.decode(chunks)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: "ArraySpec") -> int:
        return int(self.codec.compute_encoded_size(input_byte_length, chunk_spec))


class BoundedFilter(Codec):
    """A compressor or filter of version 2 that checks the decompressed size of a chunk before it decodes."""

    codec_id = "bounded"

    def __init__(self, codec: Codec, max_bytes: int, name: str):
        self.codec = codec
        self.max_bytes = max_bytes
        self.name = name

    def encode(self, buf: Any) -> Any:
        return self.codec.encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        require_bounded(self.codec.codec_id, self.codec.get_config(), bytes(buf), self.max_bytes, self.name)
        return self.codec.decode(buf, out)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn the errors of Zarr and its codecs into a DataError that names the folder."""
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


def publish_array(source: Path, target: Path, attributes: JsonObject) -> None:
    """Add attributes to a written array and move it to its final path atomically."""
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
    """Copy an array to a path in an object store, never over a different object, its description last.

    All writers copy the chunks in the same order. Of two writers, the first to copy a chunk in which they differ goes
    on, and the other stops without having written anything else than the first one.
    """
    chunks = sorted(path.relative_to(source).as_posix() for path, _ in files_in(source))
    for name in (name for name in chunks if name != DESCRIPTION):
        if (target / name).create(bytes(read_file(source / name))) is None:
            raise _exists(target)
    if (target / DESCRIPTION).create(description) is None:
        raise _exists(target)


def _exists(target: Path) -> DataError:
    return DataError(explain(f"{target} exists", why="another process has written it in the meantime",
                             fix="use another path"))
