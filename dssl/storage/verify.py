"""Read again what was written, to the last byte."""

from collections.abc import Iterable
from pathlib import Path

from .array_files import check_chunks, forget_arrays
from .blocks import row_ranges
from .files import files_in
from .part_files import split_path
from .store import StoredParts, StoredRows


def verify_parts(parts: StoredParts, files: Iterable[Path] | None = None) -> None:
    """Read every byte of every shared array and part; raise IntegrityError on the first that is not as written.

    files : those that a manifest names; by default those that are there.
    """
    arrays, numbers, receipts = set[Path](), set[tuple[Path, int]](), set[tuple[Path, int]]()
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
    """Read what the finished parts of a stage wrote, and return their number; what is under way is left out.

    Raise IntegrityError if a receipt, or an array that it is of, is missing or not as written.
    """
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
