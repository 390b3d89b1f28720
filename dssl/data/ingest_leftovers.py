"""What an ingest leaves in the folder of its parts when it is cut off or refused, and how it is taken up or removed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import DataError, IntegrityError, ParameterError, require
from ..storage.blocks import Parts
from ..storage.store import MANIFEST, StoredParts

OWN_FOLDERS = ("receipts", "parts", "shared", "within")  # of StoredParts, in the order of their removal


def remove_surveys(parts: Parts) -> None:
    """Delete what surveys wrote, this one's and those that were cut off; the attributes say what came of it."""
    if isinstance(parts, StoredParts):
        within = parts.within("surveys").folder
        shutil.rmtree(within, ignore_errors=True)
        if within.parent.is_dir() and not any(within.parent.iterdir()):
            within.parent.rmdir()


def clear_other_parts(parts: Parts, key: str) -> None:
    """Remove what an ingest of other bytes or parameters left unfinished; refuse to touch a finished data set."""
    others = [index for index, receipt in parts.receipts().items() if receipt.get("ingest") != key]
    if not others:
        return
    require(_unfinished(parts), f"{parts!r} holds parts of something else", error=IntegrityError,
            why="its rows would be mixed with those of this file", fix="delete the folder, or name another one")
    assert isinstance(parts, StoredParts)
    _remove(parts)


def _unfinished(parts: Parts) -> bool:
    """Return whether the parts are those of an ingest that did not end."""
    receipts = parts.receipts().values()
    return (isinstance(parts, StoredParts) and not (parts.folder / MANIFEST).exists() and bool(receipts)
            and all("ingest" in receipt for receipt in receipts))


def _remove(parts: StoredParts) -> None:
    """Delete what an ingest wrote, and the folder if nothing else is in it."""
    for name in OWN_FOLDERS:
        shutil.rmtree(parts.folder / name, ignore_errors=True)
    if parts.folder.is_dir() and not any(parts.folder.iterdir()):
        parts.folder.rmdir()


@contextmanager
def scratch_folder(folder: str | Path | None, parts: Parts) -> Iterator[Path]:
    """Yield a new folder for unpacked files that is gone afterwards, and with it a folder of parts left empty.

    Data that are refused leave no parts either: the same bytes would be refused again, so none is worth going on with.
    """
    empty = isinstance(parts, StoredParts) and not any((parts.folder / name).exists() for name in OWN_FOLDERS)
    own = parts.folder / "unpacked" if folder is None and isinstance(parts, StoredParts) else None
    if own:
        shutil.rmtree(own, ignore_errors=True)  # a killed ingest leaves it
        folder = own
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="dssl-", dir=folder) as made:
            yield Path(made)
    except (DataError, ParameterError):
        if isinstance(parts, StoredParts) and (empty or _unfinished(parts)):
            _remove(parts)
        raise
    finally:
        if own:
            shutil.rmtree(own, ignore_errors=True)
            if not any(own.parent.iterdir()):
                own.parent.rmdir()
