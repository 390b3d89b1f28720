"""Checks of stored parts: reads every byte, lists the arrays, and removes what killed processes left."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from ..base.errors import IntegrityError
from .array_files import DESCRIPTION, check_chunks, forget_arrays, open_array, split_path
from .blocks import row_ranges
from .files import files_in, read_json
from .frames import PACK, members_of
from .objects import ObjectPath
from .store import MARK, StoredParts, StoredRows


def verify_parts(parts: StoredParts, files: Iterable[Path] | None = None) -> None:
    """Read every byte of all shared arrays and parts; raise IntegrityError for the first damage.

    files : the files that a manifest names; by default those that exist.
    """
    arrays: set[Path] = set()
    numbers: set[tuple[Path, int]] = set()
    receipts: set[tuple[Path, int]] = set()
    for path in (path for path, _ in files_in(parts.folder)) if files is None else files:
        folder, kind, *steps = split_path(parts.folder, path)
        if kind == "shared":
            arrays.add(folder / kind / steps[0])
        elif kind == "parts":
            numbers.add((folder, int(steps[0])))
        elif kind == "receipts":
            receipts.add((folder, int(path.stem)))
    for path in sorted(arrays):
        forget_arrays(path)
        rows = StoredRows(path)
        for start, stop in row_ranges(len(rows), rows.chunk_rows):
            rows.read(start, stop)
    for folder, index in sorted({*numbers, *receipts}):
        inner = StoredParts(folder, parts.ledger)
        inner.check(index, inner.receipt(index) if (folder, index) in receipts else {})


def verify_finished(parts: StoredParts) -> int:
    """Read the finished parts of a stage and return their number; unfinished parts are ignored."""
    numbers = parts.listed()
    forget_arrays(parts.folder)
    for index in numbers:
        receipt = parts.receipt(index)
        parts.check(index, receipt)
        axis = "rows" if "rows" in receipt else "columns"
        for name in receipt.get("arrays", ()):
            check_chunks(parts.folder / "shared" / name, int(axis == "columns"), *receipt[axis])
    return len(numbers) + sum(verify_finished(parts.within(folder.name)) for folder in (parts.folder / "within").glob(
        "*"))


def forget_unreadable(parts: StoredParts) -> None:
    """Delete the receipts of parts, also within, whose description files are unreadable: these parts are not finished.

    Description files are not flushed to disk, so a power cut may leave them empty; objects are written whole.
    """
    if isinstance(parts.folder, ObjectPath):
        return
    for index in parts.listed():
        try:
            parts.receipt(index)
            for described in parts.attempt_folder(index).rglob("*.json") if parts.attempt_of(index) else ():
                read_json(described)
        except IntegrityError:
            parts.receipt_path(index).unlink()
            parts.ledger.forget(parts.receipt_path(index))
    for folder in (parts.folder / "within").glob("*"):
        forget_unreadable(parts.within(folder.name))


def clear_unfinished(parts: StoredParts, files: Iterable[Path] | None = None) -> list[Path]:
    """Delete abandoned attempts, also within, and return the remaining files.

    files : a listing of the folder, which may be out of date; files that are not in it stay.
    """
    remaining: list[Path] = []
    attempts: dict[tuple[Path, int], dict[str, list[Path]]] = {}
    for path in (path for path, _ in files_in(parts.folder)) if files is None else files:
        folder, kind, *steps = split_path(parts.folder, path)
        if kind.startswith(MARK):  # left by a process that was killed
            path.unlink()
        elif kind == "parts" and len(steps) > 2:
            attempts.setdefault((folder, int(steps[0])), {}).setdefault(steps[1], []).append(path)
        else:
            remaining.append(path)
    for (folder, index), by_name in attempts.items():
        inner = StoredParts(folder, parts.ledger)
        attempt = parts.ledger.attempt(inner.part(index)) or inner.attempt_of(index)
        for name in by_name:
            if name == attempt:
                remaining += by_name[name]
            else:
                inner.discard(index, name)
    return remaining


def _name_in(folder: Path, path: Path) -> str:
    """Return the path of an array relative to its parts, without the attempt that wrote it."""
    steps = [step for step in path.relative_to(folder).parts if step != PACK]
    if "parts" in steps[:-1]:
        del steps[steps.index("parts") + 2]
    return "/".join(steps)


class ArrayDescription(TypedDict):
    """A stored array, as `dssl inspect` lists it."""

    name: str
    shape: list[int]
    dtype: str
    chunks: list[int]
    bytes: int
    bytes_on_disk: int


def describe_arrays(folder: Path) -> list[ArrayDescription]:
    """Return a description of every array in a folder; reads no values."""
    sizes = Counter[Path]()
    for path, size in files_in(folder):
        packed = members_of(path, path.read_bytes()) if path.name == PACK else None
        sizes.update({path: size} if packed is None
                     else {path / name: len(content) for name, content in packed.items()})
    arrays = sorted(path.parent for path in sizes if path.name == DESCRIPTION)
    bytes_of = Counter[Path]()
    for path, size in sizes.items():
        for above in path.parents:
            bytes_of[above] += size
    return [{"name": _name_in(folder, path), "shape": list(array.shape), "dtype": str(array.dtype),
             "chunks": list(array.chunks), "bytes": int(array.nbytes), "bytes_on_disk": bytes_of[path]}
            for path, array in ((path, open_array(path)) for path in arrays)]
