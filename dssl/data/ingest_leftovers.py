"""The leftovers of interrupted or refused ingests, which are resumed or removed, and the lock of a data set."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..base.errors import DataError, IntegrityError, ParameterError, require
from ..storage.blocks import Parts, Receipt
from ..storage.lease import lock_at
from ..storage.lock import Lock
from ..storage.objects import ObjectPath
from ..storage.store import MANIFEST, StoredParts

PART_FOLDERS = ("receipts", "parts", "shared", "within")  # of StoredParts, in the order of their removal
LOCKS = ("lock.json", ".lock")  # the files of the lock of a data set


def is_vacant(folder: Path) -> bool:
    """Return whether a folder is empty or does not exist; locks do not count."""
    return not folder.exists() or all(path.name in LOCKS for path in folder.iterdir())


def one_writer(folder: Path) -> Lock:
    """Return the lock of the data set in a folder; the folder is removed afterwards if nothing was written to it.

    Entering it raises LockedError if another process writes the data set, and ClusterError if the object store does not
    honor conditional writes.
    """
    return lock_at(folder / LOCKS[0], why="the rows of two processes that write one data set would be mixed",
                   fix="wait until it ends, then try again", clears=True)


def clear_other_parts(parts: Parts, key: str) -> None:
    """Remove the unfinished parts of an ingest with other bytes or parameters; raise IntegrityError for other parts."""
    if all(receipt.get("ingest") == key for receipt in _receipts(parts)):
        return
    require(_unfinished(parts), f"{parts!r} holds parts of something else", error=IntegrityError,
            why="their rows would be mixed with those of this file", fix="delete the folder, or name another one")
    _remove(parts)


def _unfinished(parts: Parts) -> bool:
    """Return whether the parts belong to an ingest that did not finish."""
    receipts = _receipts(parts)
    return (isinstance(parts, StoredParts) and not (parts.folder / MANIFEST).exists() and bool(receipts)
            and all("ingest" in receipt for receipt in receipts))


def _receipts(parts: Parts) -> list[Receipt]:
    """Return the listed receipts; any that the listing misses are detected by their keys when the ingest ends."""
    if not isinstance(parts, StoredParts) or parts.ledger.is_new:
        return []
    return [parts.receipt(index) for index in parts.listed()]


def _remove(parts: Parts) -> None:
    """Delete what an ingest wrote, and the folder if it is empty then."""
    assert isinstance(parts, StoredParts)
    for name in PART_FOLDERS:
        parts.clear(name)
    _remove_if_empty(parts.folder)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def scratch_folder(folder: str | Path | None, parts: Parts) -> Iterator[Path]:
    """Yield a temporary folder for unpacked files; afterwards it is removed, and so is an empty folder of parts.

    If the data are refused, the parts are removed as well: the same bytes would be refused again.
    """
    stored = parts.folder if isinstance(parts, StoredParts) else None
    was_empty = isinstance(parts, StoredParts) and (
        parts.ledger.is_new or not any((parts.folder / name).exists() for name in PART_FOLDERS))
    beside = stored / "unpacked" if folder is None and stored and not isinstance(stored, ObjectPath) else None
    if beside:
        shutil.rmtree(beside, ignore_errors=True)  # left by a killed ingest
        folder = beside
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="dssl-", dir=folder) as made:
            yield Path(made)
    except (DataError, ParameterError):
        if was_empty or _unfinished(parts):
            _remove(parts)
        raise
    finally:
        if beside:
            shutil.rmtree(beside, ignore_errors=True)
            _remove_if_empty(beside.parent)
