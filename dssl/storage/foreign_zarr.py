"""The door to Zarr that others wrote: arrays of version 2 or 3 on a local disk, read as Zarr reads them.

They need not carry checksums, and a chunk that is missing stands for its fill value; what dssl writes itself is read by
`store`, which knows better.
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
from typing import Any, Self

import numpy as np
import zarr
from numcodecs.abc import Codec
from zarr.abc.codec import ArrayArrayCodec, BytesBytesCodec
from zarr.codecs import ShardingCodec

from ..base.errors import DataError, explain, require
from .array_files import DESCRIPTION
from .files import files_in, json_bytes, read_file, read_json, write_json
from .frames import content_size
from .objects import ObjectPath

DEFLATED = 1032  # times at most that deflated bytes unpack to
PIECE = 1 << 20
BLOCK, MAGIC = 1 << 17, b"\x28\xb5\x2f\xfd"  # the largest block of zstd, and how its frames begin
# Codecs whose result is as large as what they are given, or bounded by a type and a number of cells.
GROW_NOT = frozenset({
    "adler32", "astype", "base64", "bitround", "bytes", "categorize", "crc32", "crc32c", "delta", "fixedscaleoffset",
    "fletcher32", "jenkins_lookup3", "json2", "msgpack2", "packbits", "quantize", "shuffle", "vlen-array",
    "vlen-bytes", "vlen-utf8"})


def require_known(kind: str, name: str) -> None:
    """Raise DataError if nothing is known of a codec."""
    require(kind in GROW_NOT, f"{name} has chunks of the codec {kind!r}", error=DataError,
            why="dssl cannot tell to how many bytes they unpack, which may be more than the memory has",
            fix="write it again with zstd, blosc, gzip, lz4 or no compression")


def require_bounded(kind: str, configuration: Mapping[str, Any], packed: bytes, most: int, name: str) -> None:
    """Raise DataError if a chunk unpacks to more than `most` bytes."""
    if UNPACKED[kind](packed, configuration, most) > most:
        raise DataError(explain(
            f"{name} has a chunk of {len(packed):,} bytes that unpacks to more than {most:,} bytes",
            why="shape and type of its chunks leave room for no more; it is damaged, or made to fill the memory",
            fix="copy the folder again, or write it again with Zarr 2 or 3"))


def _counted(source: Any, most: int) -> int:
    """Return how many bytes a stream unpacks to, or a number above `most`."""
    count = 0
    while count <= most and (piece := source.read(PIECE)):
        count += len(piece)
    return count


def _deflated(
    counted: Callable[[bytes, Mapping[str, Any], int], int],
) -> Callable[[bytes, Mapping[str, Any], int], int]:
    """Return how to count deflated bytes, most of which need not be unpacked for it."""
    return lambda packed, configuration, most: (
        DEFLATED * len(packed) if DEFLATED * len(packed) <= most else counted(packed, configuration, most))


class _Zlib(io.RawIOBase):
    """The bytes of a zlib stream, a piece at a time."""

    def __init__(self, packed: bytes):
        self._rest = packed
        self._state = zlib.decompressobj()

    def read(self, size: int = -1) -> bytes:
        piece = self._state.decompress(self._rest, size)
        self._rest = self._state.unconsumed_tail
        return piece


def _zstd(packed: bytes, configuration: Mapping[str, Any], most: int) -> int:
    """Return what the head of the first frame says, to which the codec keeps; or what its blocks have at least.

    All but the last of a frame that tells no size are taken for full, as they are unless a writer is made to hurry.
    """
    size = content_size(packed)
    return size if size is not None else max(0, _zstd_blocks(packed) - BLOCK)


def _zstd_blocks(packed: bytes) -> int:
    """Return the most bytes that the blocks of zstd frames unpack to; see RFC 8878, section 3.1.1."""
    place = count = 0
    while packed[place:place + 4] == MAGIC and place + 5 < len(packed):
        flags = packed[place + 4]
        window = packed[place + 5]
        largest = BLOCK
        place += 5 + (0, 1, 2, 4)[flags & 3] + (int(bool(flags & 32)), 2, 4, 8)[flags >> 6]
        if not flags & 32:
            largest = min(BLOCK, (1 << (10 + (window >> 3))) // 8 * (8 + (window & 7)))
            place += 1
        is_last = False
        while not is_last and place + 3 <= len(packed):
            block = int.from_bytes(packed[place:place + 3], "little")
            is_last = bool(block & 1)
            kind = block >> 1 & 3
            size = block >> 3
            count += largest if kind == 2 else size  # 2: compressed; 0: as it is; 1: one byte, many times
            place += 3 + (1 if kind == 1 else size)
        place += 4 * bool(flags & 4)  # a checksum
    return count


def _size_at(place: int) -> Callable[[bytes, Mapping[str, Any], int], int]:
    """Return how to read the size in a header, of 4 bytes at a place."""
    return lambda packed, configuration, most: int.from_bytes(packed[place:place + 4], "little")


def _stream(open_stream: Callable[..., Any]) -> Callable[[bytes, Mapping[str, Any], int], int]:
    """Return how to count what a stream of some packed bytes and a configuration holds."""
    def unpacked(packed: bytes, configuration: Mapping[str, Any], most: int) -> int:
        with open_stream(io.BytesIO(packed), configuration) as stream:
            return _counted(stream, most)

    return unpacked


def _lzma(file: Any, configuration: Mapping[str, Any]) -> Any:
    return lzma.LZMAFile(file, format=configuration.get("format"), filters=configuration.get("filters"))


# By codec, the bytes that packed ones unpack to; where these are more than some number, any above it.
UNPACKED: dict[str, Callable[[bytes, Mapping[str, Any], int], int]] = {
    "blosc": _size_at(4), "lz4": _size_at(0), "zstd": _zstd, "bz2": _stream(lambda file, _: bz2.BZ2File(file)),
    "gzip": _deflated(_stream(lambda file, _: gzip.GzipFile(fileobj=file))), "lzma": _stream(_lzma),
    "zlib": _deflated(_stream(lambda file, _: _Zlib(file.read())))}


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
        filters = metadata.filters
        compressor = metadata.compressor
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
        self.codec = codec
        self.most = most
        self.name = name

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
