"""Frames: bytes compressed by zstd with the CRC-32C of the compressed bytes, so that a flipped bit is an error. Packs.

A pack has the small files of a part as one object, since each request to an object store takes time and money. It is a
ZIP archive with uncompressed members, which Zarr's own `ZipStore` can open too.
"""

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numcodecs.zstd import Zstd

from ..base.errors import IntegrityError, explain
from .cache import FETCHED
from .files import read_file, retrying, write_part_file
from .objects import ObjectPath

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


PACK = "arrays.zip"  # in the folder of an attempt
PACK_BYTES = 8 << 20  # the maximum size of a pack; the files of larger parts are separate objects

Members = dict[str, bytes]
Pieces = tuple[bytes, ...]  # the content of a file


def write_part(folder: Path, files: Iterable[tuple[str, Pieces]]) -> Iterator[tuple[Path, Pieces]]:
    """Write the files of a part, given by name and content; yield the path and the content of each written file.

    In an object store they form one pack, unless they exceed `PACK_BYTES` in total.
    """
    held: list[tuple[str, Pieces]] = []
    size = 0
    packs = isinstance(folder, ObjectPath)
    for name, pieces in files:
        held.append((name, pieces))
        size += sum(map(len, pieces))
        packs &= size <= PACK_BYTES
        if not packs:
            yield from _write_all(folder, held)
            held = []
    yield from _write_all(folder, [(PACK, (_packed(held),))] if packs else held)


def _write_all(folder: Path, files: Iterable[tuple[str, Pieces]]) -> Iterator[tuple[Path, Pieces]]:
    for name, pieces in files:
        write_part_file(folder / name, *pieces)
        yield folder / name, pieces


def _packed(files: Iterable[tuple[str, Pieces]]) -> bytes:
    """Return an archive of files; equal files give equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, pieces in files:
            archive.writestr(zipfile.ZipInfo(name), b"".join(pieces))
    return out.getvalue()


def members_of(pack: Path, stored: bytes | memoryview) -> Members:
    """Return the files of a pack by name; raise IntegrityError if it is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(stored)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError) as error:
        raise damaged_error(pack, pack, f"it cannot be read as an archive ({error})") from error


@retrying
def packed_in(folder: Path) -> Path | None:
    """Return the pack in the folder of an attempt, None if there is none."""
    if not isinstance(folder, ObjectPath):
        return None
    try:
        _members(folder / PACK)
    except FileNotFoundError:
        return None
    return folder / PACK


def _members(pack: ObjectPath) -> Members:
    def fetch() -> tuple[Members, int]:
        members = members_of(pack, pack.get()[0])
        return members, sum(map(len, members.values()))

    content: Members | memoryview = FETCHED.get(pack, fetch)
    if isinstance(content, dict):
        return content
    members = members_of(pack, content)  # this process has written it and cached the bytes
    FETCHED.keep(pack, members, sum(map(len, members.values())))
    return members


@retrying
def read_once(path: Path) -> memoryview:
    """Return the bytes of an immutable file, which may be in a pack; objects are cached in this process."""
    if not isinstance(path, ObjectPath):
        return read_file(path)
    steps = path.parts
    at = steps.index(PACK) if PACK in steps[:-1] else 0
    if at < 3 or steps[at - 3] != "parts":
        def fetch() -> tuple[memoryview, int]:
            content = path.get()[0]
            return content, len(content)

        fetched: memoryview = FETCHED.get(path, fetch)
        return fetched
    name = "/".join(steps[at + 1:])
    members = _members(type(path)(*steps[:at + 1]))
    if name not in members:
        raise FileNotFoundError(name)
    return memoryview(members[name])
