"""Compressed files, unpacked as streams into a scratch folder so that any bytes of them can be read."""

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

from ...errors import DataError, explain
from ...storage.files import draft_of

OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}


def unpack(path: Path, folder: Path) -> Path:
    """Return the file that a compressed file holds, unpacked into `folder`; any other file and folder as it is.

    Raise DataError if the compressed bytes are damaged or cut short.
    """
    opener = OPENERS.get(path.suffix.lower())
    if opener is None or path.is_dir():
        return path
    out = scratch_file(path, folder, path.stem)
    with opener(path) as source:
        write_stream(source, out, path)
    return out


def scratch_file(path: Path, folder: Path, stem: str) -> Path:
    """Return the name in `folder` for something unpacked from `path`; two sources never share one."""
    return folder / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}-{stem}"


def write_stream(source: IO[bytes], out: Path, path: Path) -> None:
    """Write a decompressing stream to `out`; a damaged stream leaves no file behind."""
    with draft_of(out) as draft, open(draft, "wb") as target:
        try:
            shutil.copyfileobj(source, target, 1 << 20)
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            if getattr(error, "errno", None) in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES):
                raise
            raise DataError(explain(
                f"{path} is damaged: it cannot be unpacked beyond byte {target.tell():,}",
                why=f"its compressed bytes are cut short or changed ({error})",
                fix="copy or download the file again")) from error
