"""Decompress files as streams into a scratch folder, so that any range of their bytes can be read."""

import bz2
import errno
import gzip
import hashlib
import lzma
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ...base.errors import DataError, explain, require
from ...storage.files import draft_of

OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}
LARGE, TIMES = 1 << 30, 100  # bytes that any file may unpack to, and times its size that a larger one may
MAY_BE_MADE = f"data seldom unpack to more than {TIMES} times their size: it may be made to fill the disk"
RESERVE = 1 << 28  # bytes of the disk that are left to others
PIECE, CHECKED = 1 << 20, 1 << 26  # bytes at a time, and those that the disk is asked for


def unpack(path: Path, folder: Path) -> Path:
    """Return the file that a compressed file holds, unpacked into `folder`; any other file and folder as it is.

    Raise DataError if the compressed bytes are damaged or cut short, or unpack to far more than files of data do.
    """
    opener = OPENERS.get(path.suffix.lower())
    if opener is None or path.is_dir():
        return path
    out = scratch_file(path, folder, path.stem)
    with opener(path) as source:
        write_stream(source, out, path, max_unpacked(path.stat().st_size))
    return out


def scratch_file(path: Path, folder: Path, stem: str) -> Path:
    """Return the name in `folder` for something unpacked from `path`; two sources never share one."""
    return folder / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}-{stem}"


def write_stream(source: IO[bytes], out: Path, path: Path, limit: int | None = None) -> None:
    """Write a decompressing stream to `out`; a damaged stream, or one that is too large, leaves no file behind.

    limit : bytes that it may have; None for any number.

    Raises DataError: it is damaged, has more, or leaves too little of the disk.
    """
    with draft_of(out) as draft, open(draft, "wb") as target:
        written = looked = 0
        try:
            while piece := source.read(PIECE):
                if limit is not None and written + len(piece) > limit:
                    raise _too_large(path, limit)
                target.write(piece)
                written += len(piece)
                if written >= looked + CHECKED:
                    require_space(out.parent, CHECKED, path)
                    looked = written
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES):
                raise
            raise DataError(explain(
                f"{path} is damaged: it cannot be unpacked beyond byte {target.tell():,}",
                why=f"its compressed bytes are cut short or changed ({error})",
                fix="copy or download the file again")) from error


def max_unpacked(packed: int) -> int:
    """Return how many bytes a file of so many may unpack to."""
    return max(LARGE, TIMES * packed)


def require_usual(name: str, path: Path, nbytes: int) -> None:
    """Raise DataError if the arrays of an .npz file have more bytes than it may unpack to."""
    packed = path.stat().st_size
    require(nbytes <= max_unpacked(packed), f"{name} ({packed:,} bytes) holds arrays of {nbytes:,} bytes",
            why=MAY_BE_MADE, fix="if it is right, save it again with numpy.savez, which does not compress",
            error=DataError)


def require_space(folder: Path, nbytes: int, path: Path | str) -> None:
    """Raise DataError unless a folder's disk has room for so many bytes of what is unpacked from `path`."""
    free_bytes = shutil.disk_usage(folder).free
    require(nbytes + RESERVE <= free_bytes, f"{path} unpacks to more than the disk of {folder} has room for: "
            f"{free_bytes:,} bytes are free", why="it is unpacked there, so that any rows of it can be read, and "
            f"{RESERVE:,} bytes are left to others", error=DataError,
            fix="free space, or name a workspace on a larger disk")


def _too_large(path: Path, limit: int) -> DataError:
    return DataError(explain(
        f"{path} ({path.stat().st_size:,} bytes) unpacks to more than {limit:,} bytes",
        why=MAY_BE_MADE, fix="if it is right, unpack it yourself, and name the file that comes out"))
