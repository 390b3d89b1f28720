"""The rows of tables as they stand in their files: cells as they are written, and the line that each begins at."""

import csv
import gzip
import io

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.data.ingest_params import IngestParams
from dssl.data.readers import csv as csv_reader
from dssl.data.readers import lines
from dssl.data.readers.csv import CsvReader
from dssl.data.readers.file_rows import FileRows
from dssl.data.source_reader import open_source
from dssl.data.sources import find_source

TEXT = 'id,size,note\r\nu1,"1,200.5","two\r\nlines"\r\n\r\nu2,3,"said ""no"""\r\nu3,,é\r\n'
CELLS = [("u1", "1,200.5", "two\r\nlines"), ("u2", "3", 'said "no"'), ("u3", "", "é")]


def rows_of(source, scratch, n_rows, **options):
    params = IngestParams(target="none", when_text="one_hot", when_missing="impute", **options)
    reader = open_source(find_source(source), params, scratch=scratch)
    actual = FileRows.of(reader, n_rows)
    assert actual is not None
    return actual


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


def by_python(text):
    """Return (line, cells) of each record after the header, by Python's reader."""
    records, line, actual = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True), 1, []
    for cells in records:
        if len(cells) > 1 or "".join(cells).strip():
            actual.append((line, tuple(cell.strip() for cell in cells)))
        line = records.line_num + 1
    return actual[1:]


@settings(max_examples=25, deadline=None)
@given(records=st.lists(st.tuples(st.sampled_from(["1", " 2", "u v", "", "é"]), st.sampled_from(
    ["3", '"a,b"', '"two\nlines"', '"two\r\nlines\n"', ' "x"', '"said ""no"""', '""'])), min_size=1, max_size=30),
    blanks=st.lists(st.integers(0, 29), max_size=5), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_cells_and_lines_are_those_that_python_reads(tmp_path_factory, records, blanks, end, last):
    folder = tmp_path_factory.mktemp("rows")
    text = end.join(["a,b", *(("  " + end) * blanks.count(i) + ",".join(record) for i, record in enumerate(records))])
    text += end if last else ""
    (folder / "t.csv").write_bytes(text.encode())
    expected = by_python(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "STRIDE", 20)
        patch.setattr(csv_reader, "PIECE_BYTES", 60)
        rows = rows_of(str(folder / "t.csv"), folder, len(expected), header=True, delimiter=",")
        assert [(row.line, row.cells) for row in rows] == expected
        assert [(row.line, row.cells) for row in rows.take([*range(len(expected))])] == expected
        assert rows.readers[0].places([len(expected) - 1])[0].endswith(f"line {expected[-1][0]}")


def test_a_few_rows_are_taken_without_reading_the_file(tmp_path, monkeypatch):
    text = "id,size\n" + "".join(f"u{i},{i}.5\n" for i in range(60_000))
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    rows, read = rows_of(str(tmp_path / "t.csv"), tmp_path, 60_000), []
    stretch = CsvReader._stretch

    def counted(reader, start, stop):
        actual = stretch(reader, start, stop)
        read.append(len(actual[2]))
        return actual

    monkeypatch.setattr(CsvReader, "_stretch", counted)
    assert [(row.line, row.cells) for row in rows.take([50_000, 3])] == [(50_002, ("u50000", "50000.5")),
                                                                        (5, ("u3", "3.5"))]
    assert 0 < sum(read) < len(text) / 3


def test_rows_of_several_files_follow_each_other(tmp_path):
    for part in ("1", "2"):
        (tmp_path / f"t{part}.csv").write_text(f"id,size\n{part}a,1.5\n{part}b,2.5\n", encoding="utf-8")
    rows = rows_of(str(tmp_path / "t*.csv"), tmp_path, 4)
    assert [(row.line, row.cells[0]) for row in rows.take([3, 0])] == [(3, "2b"), (2, "1a")]
    assert rows.take([3])[0].file.endswith("t2.csv")


def test_rows_of_parquet_are_counted_where_no_column_is_asked_for(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0, None]}).to_parquet(tmp_path / "t.parquet")
    rows = rows_of(str(tmp_path / "t.parquet"), tmp_path, 3)
    assert [row.cells for block in rows.blocks([]) for row in block.rows()] == [(), (), ()]
    assert [row.cells for row in rows] == [("1.0",), ("2.0",), ("",)]
