"""A large CSV file: what dssl takes to read it, beside pandas and pyarrow alone.

    python -m tests.benchmarks.read_csv [--megabytes 200] [--folder /tmp] [--tables numbers mixed]

One JSON line a table and reader, each in a process of its own: seconds, processor seconds (of all threads), and how far
the resident memory rose (bytes). `numbers` holds 20 columns of numbers, `mixed` also money, percent, units, bounds,
categories, words for missing cells and free text. pandas and pyarrow parse it into memory, where what is no plain
number stays text. dssl decides what each column is by all rows (`scan`); `ingest` also reads the rows, fills gaps,
makes columns of categories, checks them and writes them to a folder of float32 arrays. The last two readers yield a
column as text with the lines of its rows, and ten whole rows.
"""

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from dssl.base.profiler import PeakMemory
from dssl.data.ingest import ingest
from dssl.data.ingest_params import IngestParams
from dssl.data.readers.file_rows import FileRows
from dssl.data.source_reader import open_source
from dssl.data.sources import find_source
from dssl.execution.in_process import InProcess
from dssl.storage.store import StoredParts

ROWS = 50_000  # written at once
PARAMS = IngestParams(target="label", when_missing="impute", when_text="one_hot")


def numbers(rng: np.random.Generator) -> dict[str, Any]:
    """Return rows of 20 columns of numbers and a label."""
    columns: dict[str, Any] = {f"x{j}": rng.normal(size=ROWS).round(5) for j in range(15)}
    columns |= {f"n{j}": rng.integers(0, 10**6, ROWS) for j in range(5)}
    return columns | {"label": rng.integers(0, 3, ROWS)}


def mixed(rng: np.random.Generator) -> dict[str, Any]:
    """Return rows of columns that are written as people write them."""
    plain = numbers(rng)
    income, words = rng.gamma(2, 3000, ROWS), ["good", "bad", "late", "fine", "again", "never", "price"]
    gap = rng.random(ROWS) < 0.01
    comments = rng.choice([" ".join(rng.choice(words, 5)) for _ in range(5000)], ROWS)
    return {name: plain[name] for name in ("x0", "x1", "x2", "n0", "n1")} | {
        "income": np.where(gap, "n.a.", [f"${value:,.2f}" for value in income]),
        "rate": [f"{value:.1f}%" for value in 100 * rng.beta(2, 5, ROWS)],
        "height": [f"{value} cm" for value in rng.integers(140, 200, ROWS)],
        "crp": np.where(gap, "<0.5", [f"{value:.2f}" for value in rng.gamma(2, 3, ROWS) + 0.5]),
        "plan": rng.choice(["Basic", "Plus", "Pro"], ROWS), "region": rng.choice(["n", "s", "e", "w"], ROWS),
        "member": rng.choice(["yes", "no"], ROWS), "comment": comments, "label": plain["label"]}


TABLES: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {"numbers": numbers, "mixed": mixed}


def write(path: Path, name: str, n_bytes: int) -> int:
    """Write a table of at least so many bytes; return its rows."""
    rng, rows = np.random.default_rng(0), 0
    piece = pa.table(TABLES[name](rng))
    with arrow_csv.CSVWriter(path, piece.schema) as writer:
        while not rows or path.stat().st_size < n_bytes:
            writer.write(piece)
            rows += ROWS
            piece = pa.table(TABLES[name](rng))
    return rows


def by_pandas(path: Path, folder: Path) -> None:
    import pandas as pd

    pd.read_csv(path)


def by_pyarrow(path: Path, folder: Path) -> None:
    arrow_csv.read_csv(path)


def by_pyarrow_in_one_thread(path: Path, folder: Path) -> None:
    arrow_csv.read_csv(path, arrow_csv.ReadOptions(use_threads=False))


def by_scan(path: Path, folder: Path) -> None:
    open_source(find_source(path), PARAMS, scratch=folder).scan()


def by_ingest(path: Path, folder: Path, threads: int = 1) -> None:
    ingest(path, StoredParts(folder / f"parts-{threads}"), InProcess(threads), PARAMS)


def by_ingest_in_two_threads(path: Path, folder: Path) -> None:
    by_ingest(path, folder, 2)


def rows_of(path: Path, folder: Path) -> FileRows:
    reader = open_source(find_source(path), PARAMS, scratch=folder)
    with open(path, "rb") as file:
        rows = FileRows.of(reader, sum(1 for _ in file) - 1)
    assert rows is not None
    return rows


def by_rows_of_a_column(path: Path, folder: Path) -> None:
    rows = rows_of(path, folder)
    assert sum(len(block.lines) for block in rows.blocks(["n0"]))


def by_ten_rows(path: Path, folder: Path) -> None:
    rows = rows_of(path, folder)
    assert len(rows.take([2 * k + 3 for k in range(10)])) == 10


READERS = {"pandas.read_csv": by_pandas, "pyarrow.csv": by_pyarrow,
           "pyarrow.csv, one thread": by_pyarrow_in_one_thread, "dssl scan": by_scan,
           "dssl ingest, one thread": by_ingest, "dssl ingest, two threads": by_ingest_in_two_threads,
           "dssl, a column as it stands": by_rows_of_a_column, "dssl, ten rows as they stand": by_ten_rows}


def measured(reader: str, path: Path, folder: Path, warm: Path) -> dict[str, Any]:
    """Return what a reader takes, once it has read a small file, so that imports and compiled functions are there."""
    (folder / "warm").mkdir()
    READERS[reader](warm, folder / "warm")
    begin, cpu = time.perf_counter(), time.process_time()
    with PeakMemory() as peak:
        READERS[reader](path, folder)
    return {"seconds": round(time.perf_counter() - begin, 2), "cpu_seconds": round(time.process_time() - cpu, 2),
            "peak_bytes": peak.bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="for the files; unset: where temporary files go")
    parser.add_argument("--readers", nargs="+", default=list(READERS), choices=list(READERS))
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    given = parser.parse_args()
    for name in given.tables:
        with tempfile.TemporaryDirectory(dir=given.folder) as base:
            path, warm = Path(base) / f"{name}.csv", Path(base) / "warm.csv"
            rows = write(path, name, given.megabytes * 10**6)
            write(warm, name, 1)
            for i, reader in enumerate(given.readers):
                folder = Path(base) / str(i)
                folder.mkdir()
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                    took = pool.submit(measured, reader, path, folder, warm).result()
                print(json.dumps({"table": name, "rows": rows, "bytes": path.stat().st_size, "reader": reader} | took),
                      flush=True)


if __name__ == "__main__":
    main()
