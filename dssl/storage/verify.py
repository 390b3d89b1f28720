"""Read again what was written, to the last byte."""

from .array_files import check_chunks
from .blocks import row_ranges
from .store import StoredParts, StoredRows


def verify_parts(parts: StoredParts) -> None:
    """Read every byte of every shared array and part; raise IntegrityError on the first that is not as written."""
    for path in sorted((parts.folder / "shared").glob("*")):
        rows = StoredRows(path)
        for start, stop in row_ranges(len(rows), rows.chunk_rows):
            rows.read(start, stop)
    receipts = parts.receipts()
    for index in sorted({*receipts, *(int(path.name) for path in (parts.folder / "parts").glob("*"))}):
        parts.check(index, receipts.get(index, {}))
    for folder in sorted((parts.folder / "within").glob("*")):
        verify_parts(StoredParts(folder))


def verify_finished(parts: StoredParts) -> int:
    """Read what the finished parts of a stage wrote, and return their number; what is under way is left out.

    Raise IntegrityError if a receipt, or an array that it is of, is missing or not as written.
    """
    receipts = parts.receipts()
    for index, receipt in receipts.items():
        parts.check(index, receipt)
        axis = "rows" if "rows" in receipt else "columns"
        for name in receipt.get("arrays", ()):
            check_chunks(parts.folder / "shared" / name, int(axis == "columns"), *receipt[axis])
    return len(receipts) + sum(verify_finished(StoredParts(folder)) for folder in (parts.folder / "within").glob("*"))
