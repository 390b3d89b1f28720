"""What a process that was killed leaves among parts; nobody may write to them while it is removed."""

from collections.abc import Iterable
from pathlib import Path

from ..base.errors import IntegrityError
from .files import files_in, read_json
from .objects import ObjectPath
from .part_files import split_path
from .store import MARK, StoredParts


def forget_unreadable(parts: StoredParts) -> None:
    """Delete the receipts, here and within, of parts whose descriptions cannot be read: they are not finished.

    They are not waited for until they are on the disk, so a power cut may leave them empty; objects are written whole.
    """
    if isinstance(parts.folder, ObjectPath):
        return
    for index in parts.listed():
        try:
            parts.receipt(index)
            for described in parts.place(index).rglob("*.json") if parts.attempt_of(index) else ():
                read_json(described)
        except IntegrityError:
            parts.receipt_path(index).unlink()
            parts.ledger.forget(parts.receipt_path(index))
    for folder in (parts.folder / "within").glob("*"):
        forget_unreadable(parts.within(folder.name))


def clear_unfinished(parts: StoredParts, files: Iterable[Path] | None = None) -> list[Path]:
    """Delete the attempts that are of no part, here and within, and return the files that stay.

    files : a list of those here, which may be old: what is not in it stays.
    """
    kept, attempts = list[Path](), dict[tuple[Path, int], dict[str, list[Path]]]()
    for path in (path for path, _ in files_in(parts.folder)) if files is None else files:
        folder, kind, *steps = split_path(parts.folder, path)
        if kind.startswith(MARK):  # of a process that was killed
            path.unlink()
        elif kind == "parts" and len(steps) > 2:
            attempts.setdefault((folder, int(steps[0])), {}).setdefault(steps[1], []).append(path)
        else:
            kept.append(path)
    for (folder, index), by_name in attempts.items():
        inner = StoredParts(folder, parts.ledger)
        attempt = parts.ledger.attempt(inner.part(index)) or inner.attempt_of(index)
        for name in by_name:
            if name == attempt:
                kept += by_name[name]
            else:
                inner.discard(index, name)
    return kept
