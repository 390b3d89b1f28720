"""The rows of tables as they stand in their files: cells as they are written, and the line that each begins at."""

import gzip

import pandas as pd
import pytest

from dssl.data.ingest import open_source
from dssl.data.ingest_params import IngestParams
from dssl.data.readers.file_rows import FileRows
from dssl.data.sources import find_source

TEXT = 'id,size,note\r\nu1,"1,200.5","two\r\nlines"\r\n\r\nu2,3,"said ""no"""\r\nu3,,é\r\n'
CELLS = [("u1", "1,200.5", "two\r\nlines"), ("u2", "3", 'said "no"'), ("u3", "", "é")]


def rows_of(source, scratch, n_rows, **options):
    params = IngestParams(target="none", when_text="one_hot", when_missing="impute", **options)
    reader = open_source(find_source(source), params, scratch=scratch)
    found = FileRows.of(reader, vars(params), n_rows)
    assert found is not None
    return found


def written_plainly(path):
    path.write_bytes(TEXT.encode())


def written_with_a_mark(path):
    path.write_bytes(TEXT.encode("utf-8-sig"))


def written_in_utf_16(path):
    path.write_bytes(TEXT.encode("utf-16"))


def written_in_latin_1(path):
    path.write_bytes(TEXT.encode("latin-1"))


def compressed(path):
    path.write_bytes(gzip.compress(TEXT.encode()))


@pytest.mark.parametrize(("write", "name", "options"), [
    (written_plainly, "t.csv", {}), (written_with_a_mark, "t.csv", {}), (written_in_utf_16, "t.csv", {}),
    (written_in_latin_1, "t.csv", {"encoding": "latin-1"}), (compressed, "t.csv.gz", {})])
def test_cells_and_lines_are_those_of_the_file(tmp_path, write, name, options):
    write(tmp_path / name)
    rows = rows_of(str(tmp_path / name), tmp_path, 3, **options)
    assert rows.names == ("id", "size", "note")
    assert [row.cells for row in rows] == CELLS
    assert [row.line for row in rows] == [2, 5, 6]


def test_rows_of_several_files_follow_each_other(tmp_path):
    for part in ("1", "2"):
        (tmp_path / f"t{part}.csv").write_text(f"id,size\n{part}a,1.5\n{part}b,2.5\n", encoding="utf-8")
    rows = rows_of(str(tmp_path / "t*.csv"), tmp_path, 4)
    assert [(row.line, row.cells[0]) for row in rows.take([3, 0])] == [(3, "2b"), (2, "1a")]
    assert rows.take([3])[0].file.endswith("t2.csv")


def test_rows_of_parquet_are_counted_where_no_column_is_asked_for(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0, None]}).to_parquet(tmp_path / "t.parquet")
    rows = rows_of(str(tmp_path / "t.parquet"), tmp_path, 3)
    assert [row.cells for row in rows.of_columns([])] == [(), (), ()]
    assert [row.cells for row in rows] == [("1.0",), ("2.0",), ("",)]
