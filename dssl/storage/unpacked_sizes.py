"""To how many bytes packed ones unpack, which is asked before they do: 65 kB can hold 2.3 GB.

The size is that in the header, where the codec keeps to it; else they are unpacked piece by piece until they are too
many. Codecs are known by their names in Zarr.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from ..base.errors import DataError, explain, require
from .frames import content_size

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
        self._rest, self._state = packed, zlib.decompressobj()

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
        flags, window = packed[place + 4], packed[place + 5]
        largest = BLOCK
        place += 5 + (0, 1, 2, 4)[flags & 3] + (int(bool(flags & 32)), 2, 4, 8)[flags >> 6]
        if not flags & 32:
            largest = min(BLOCK, (1 << (10 + (window >> 3))) // 8 * (8 + (window & 7)))
            place += 1
        is_last = False
        while not is_last and place + 3 <= len(packed):
            block = int.from_bytes(packed[place:place + 3], "little")
            is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
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
