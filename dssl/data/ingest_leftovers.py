"""What an ingest leaves in the folder of its parts when it is cut off or refused, and how it is taken up or removed;
and that one process at a time writes a data set.
"""

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

OWN_FOLDERS = ("receipts", "parts", "shared", "within")  # of StoredParts, in the order of their removal
LOCKS = ("lock.json", ".lock")  # of who writes the data set


def is_vacant(folder: Path) -> bool:
    """Return whether nothing is in a folder, or it is not there; locks do not count."""
    return not folder.exists() or all(path.name in LOCKS for path in folder.iterdir())


def one_writer(folder: Path) -> Lock:
    """Keep other processes from writing the data set in a folder meanwhile; a folder where nothing comes is removed.

    Its `with` raises LockedError: another process writes it. ClusterError: it lies in a store that cannot tell which is
    first.
    """
    return lock_at(folder / LOCKS[0], why="the rows of two processes that write one data set would be mixed",
                   fix="wait until it ends, then try again", clears=True)


def clear_other_parts(parts: Parts, key: str) -> None:
    """Remove what an ingest of other bytes or parameters left unfinished; refuse to touch a finished data set."""
    if all(receipt.get("ingest") == key for receipt in _receipts(parts)):
        return
    require(_unfinished(parts), f"{parts!r} holds parts of something else", error=IntegrityError,
            why="its rows would be mixed with those of this file", fix="delete the folder, or name another one")
    _remove(parts)


def _unfinished(parts: Parts) -> bool:
    """Return whether the parts are those of an ingest that did not end."""
    receipts = _receipts(parts)
    return (isinstance(parts, StoredParts) and not (parts.folder / MANIFEST).exists() and bool(receipts)
            and all("ingest" in receipt for receipt in receipts))


def _receipts(parts: Parts) -> list[Receipt]:
    """Return the receipts that are there; others than a list shows are found by their keys when the ingest ends."""
    if not isinstance(parts, StoredParts) or parts.ledger.is_new:
        return []
    return [parts.receipt(index) for index in parts.listed()]


def _remove(parts: Parts) -> None:
    """Delete what an ingest wrote, and the folder if nothing else is in it."""
    assert isinstance(parts, StoredParts)
    for name in OWN_FOLDERS:
        parts.clear(name)
    _remove_if_empty(parts.folder)


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def scratch_folder(folder: str | Path | None, parts: Parts) -> Iterator[Path]:
    """Yield a new folder for unpacked files that is gone afterwards, and with it a folder of parts left empty.

    Data that are refused leave no parts either: the same bytes would be refused again, so none is worth going on with.
    """
    stored = parts.folder if isinstance(parts, StoredParts) else None
    was_empty = isinstance(parts, StoredParts) and (
        parts.ledger.is_new or not any((parts.folder / name).exists() for name in OWN_FOLDERS))
    beside = stored / "unpacked" if folder is None and stored and not isinstance(stored, ObjectPath) else None
    if beside:
        shutil.rmtree(beside, ignore_errors=True)  # a killed ingest leaves it
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
