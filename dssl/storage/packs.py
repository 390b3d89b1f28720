"""Packs: the small files of a part as one object, since each request to an object store takes time and money.

A pack is a ZIP archive with uncompressed members, which Zarr's own `ZipStore` can open too.
"""

import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from .cache import FETCHED
from .files import read_file, retrying, write_part_file
from .frames import damaged_error
from .objects import ObjectPath

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
