"""Frames: bytes compressed by zstd, with the CRC-32C of what is stored, so that a flipped bit is an error."""

from pathlib import Path
from typing import Any

import google_crc32c
from numcodecs.zstd import Zstd

from ..errors import IntegrityError, explain

ZSTD_LEVEL = 1
CRC_BYTES = 4


def crc(stored: bytes) -> bytes:
    """Return the CRC-32C of bytes, little-endian."""
    return google_crc32c.value(stored).to_bytes(CRC_BYTES, "little")


def pack(values: Any) -> tuple[bytes, bytes]:
    """Return the values of a contiguous buffer compressed, and the checksum of the result."""
    packed = Zstd(level=ZSTD_LEVEL).encode(values)
    return packed, crc(packed)


def unpack(packed: bytes, checksum: bytes) -> bytes:
    """Return the bytes that `pack` was given; raise ValueError, saying why, if they are not as it returned them."""
    if crc(packed) != checksum:
        raise ValueError("its bytes do not match their checksum")
    try:
        return Zstd(level=ZSTD_LEVEL).decode(packed)
    except RuntimeError as error:
        raise ValueError(f"it does not decompress ({error})") from error


def damaged(file: Path, path: Path, why: str) -> IntegrityError:
    """Return the error of a file of the array at `path` that holds something else than was written."""
    return lost(f"{file} is damaged", path, why, "; then check the disk")


def lost(what: str, path: Path, why: str, then: str = "") -> IntegrityError:
    """Return the error for an array that is not as it was written; the fix names the artifact that it belongs to."""
    marks = ("manifest.json", "begun.json")
    artifact = next((above for above in path.parents if any((above / mark).exists() for mark in marks)), path)
    return IntegrityError(explain(what, why=why, fix=f"delete {artifact} and run again: only that artifact is made anew"
                                                     + then))
