"""Frames: bytes compressed by zstd with the CRC-32C of the compressed bytes, so that a flipped bit is an error."""

from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numcodecs.zstd import Zstd

from ..base.errors import IntegrityError, explain

ZSTD_LEVEL = 1
CRC_BYTES = 4
CRC_AT_ONCE = 1 << 20


def crc(stored: bytes | memoryview) -> bytes:
    """Return the CRC-32C of bytes, little-endian; a `memoryview` is copied in small pieces."""
    value = 0
    for start in range(0, len(stored), CRC_AT_ONCE):
        value = google_crc32c.extend(value, bytes(stored[start:start + CRC_AT_ONCE]))
    return value.to_bytes(CRC_BYTES, "little")


def pack(values: bytes | memoryview | np.ndarray) -> tuple[bytes, bytes]:
    """Compress a contiguous buffer; return the result and its checksum."""
    packed = Zstd(level=ZSTD_LEVEL).encode(values)
    return packed, crc(packed)


def unpack(packed: bytes | memoryview, checksum: bytes | memoryview, size: int, out: np.ndarray | None = None) -> Any:
    """Return the `size` bytes that `pack` compressed; raise ValueError with the reason if they are damaged.

    out : a contiguous buffer of so many bytes, into which they are written, and which is returned then. The header is
    checked before decompression: a frame of 64 KB can contain gigabytes of zeros.
    """
    if crc(packed) != checksum:
        raise ValueError("its bytes do not match their checksum")
    if (unpacked := content_size(packed)) != size:
        raise ValueError(f"it decompresses to {'an unknown number of' if unpacked is None else f'{unpacked:,}'} bytes, "
                         f"expected {size:,}")
    try:
        return Zstd(level=ZSTD_LEVEL).decode(packed, out)
    except RuntimeError as error:
        raise ValueError(f"it does not decompress ({error})") from error


def content_size(packed: bytes | memoryview) -> int | None:
    """Return the decompressed size in the header of a zstd frame (RFC 8878, 3.1.1.1), None if it is not given."""
    if len(packed) < 5:
        return None
    flags = packed[4]
    is_single = bool(flags & 0x20)
    width = (int(is_single), 2, 4, 8)[flags >> 6]
    begin = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    if not width or len(packed) < begin + width:
        return None
    return int.from_bytes(packed[begin:begin + width], "little") + (256 if width == 2 else 0)


def damaged_error(file: Path, path: Path, why: str) -> IntegrityError:
    """Return the error for a file of the array at `path` that does not contain what was written."""
    return array_error(f"{file} is damaged", path, why, "; then check the disk")


def array_error(what: str, path: Path, why: str, then: str = "") -> IntegrityError:
    """Return the error for a missing or damaged array; the fix names the artifact to which it belongs."""
    marks = ("manifest.json", "begun.json")
    artifact = next((above for above in path.parents if any((above / mark).exists() for mark in marks)), path)
    return IntegrityError(explain(
        what, why=why, fix=f"delete {artifact} and run again: only that artifact is made again{then}"))
