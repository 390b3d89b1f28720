"""Several files as one: the rows of all, columns by name, labels of one type, and files that do not belong together."""

import csv
import gzip
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl.base.errors import DataError
from dssl.data.dataset import Dataset
from dssl.data.ingest import ingest, open_dataset
from dssl.data.ingest_params import IngestParams
from dssl.data.readers import csv as csv_reader
from dssl.data.readers import lines
from dssl.data.readers.csv import CsvReader
from dssl.data.readers.file_rows import FileRows
from dssl.data.source_files import fingerprint, matching_paths, natural_order
from dssl.data.source_reader import open_source
from dssl.data.sources import find_source
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts

ENDINGS = ["csv", "csv.gz", "parquet", "npz", "svm"]


def table(n=50, random_state=0):
    rng = np.random.default_rng(random_state)
    frame = pd.DataFrame(np.round(rng.normal(size=(n, 3)), 3) + 10, columns=["a", "b", "c"])
    return frame.assign(y=rng.integers(0, 3, n))


def write(frame, path):
    ending = path.name.split(".", 1)[1]
    X, y = frame.drop(columns="y").to_numpy(), frame["y"].to_numpy()
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "csv.gz":
        path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    elif ending == "parquet":
        frame.to_parquet(path, row_group_size=7)
    elif ending == "npz":
        np.savez(path, X=X, y=y)
    else:
        lines = (f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row))
                 for row, label in zip(X, y, strict=True))
        path.write_text("\n".join(lines) + "\n")
    return path


def open_all(pattern, **options):
    return ingest(pattern, MemoryParts(), InProcess(1), dtype="float64", **options)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("height", [1, 13, None])
def test_parts_give_the_rows_of_the_whole(tmp_path, ending, height):
    whole = table(50)
    for number, (start, stop) in enumerate([(0, 20), (20, 21), (21, 50)], start=9):
        write(whole[start:stop], tmp_path / f"part-{number}.{ending}")
    data = open_all(tmp_path / f"part-*.{ending}", block_rows=height)
    assert_array_equal(data.X.read_all(), whole[["a", "b", "c"]])
    assert_array_equal(data.targets(), whole["y"])
    assert data.attributes["source"] == str(tmp_path / f"part-*.{ending}")
    listed = open_all([str(tmp_path / f"part-{i}.{ending}") for i in (9, 10, 11)])
    assert_array_equal(listed.X.read_all(), data.X.read_all())
    assert listed.attributes["fingerprint"] == data.attributes["fingerprint"]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5), data=st.data())
def test_any_rows_can_be_read_on_their_own(tmp_path_factory, sizes, data):
    folder, whole = tmp_path_factory.mktemp("joined"), table(sum(sizes))
    for i, (start, size) in enumerate(zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True)):
        write(whole[start:start + size], folder / f"p{i}.csv")
    reader = open_source(find_source([folder / f"p{i}.csv" for i in range(len(sizes))]), scratch=folder)
    start = data.draw(st.integers(0, len(whole) - 1))
    stop = data.draw(st.integers(start + 1, len(whole)))
    reader.scan()
    block = reader.narrow(start, stop).read(start, stop)
    assert_array_equal(block.X, whole[["a", "b", "c"]][start:stop])
    assert_array_equal(block.y, whole["y"][start:stop])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_are_matched_by_name_in_the_order_of_the_first_file(tmp_path, ending):
    whole = table(30)
    write(whole[:10], tmp_path / f"1.{ending}")
    write(whole[10:][["c", "y", "a", "b"]], tmp_path / f"2.{ending}")
    data = open_all(tmp_path / f"?.{ending}", block_rows=4)
    assert data.feature_names == ["a", "b", "c"]
    assert_array_equal(data.X.read_all(), whole[["a", "b", "c"]])
    assert_array_equal(data.targets(), whole["y"])


@pytest.mark.parametrize("height", [1, 2, 3, None])
def test_text_in_one_file_makes_the_target_text_in_all(tmp_path, height):
    (tmp_path / "1.csv").write_text("a,y\n1,07\n2,7\n")
    (tmp_path / "2.csv").write_text("a,y\n3,oak\n4,\n")
    data = open_all(tmp_path / "*.csv", header=True, block_rows=height)
    assert data.attributes["label_names"] == ["07", "7", "oak"]
    assert_array_equal(data.targets(), [0, 1, 2, -1])
    for name, y in (("1", [1, 2]), ("2", ["1", "oak"])):
        pd.DataFrame({"a": [1.0, 2.0], "y": y}).to_parquet(tmp_path / f"{name}.parquet")
    data = open_all(tmp_path / "*.parquet", block_rows=height)
    assert (data.attributes["label_names"], data.targets().tolist()) == (["1", "2", "oak"], [0, 1, 0, 2])


@pytest.mark.parametrize("height", [1, 2, None])
def test_whole_numbers_and_fractions_are_fractions(tmp_path, height):
    (tmp_path / "1.csv").write_text("a,y\n1,1\n2,2\n")
    (tmp_path / "2.csv").write_text("a,y\n3,0.5\n4,\n")
    y = open_all(tmp_path / "*.csv", block_rows=height).targets()
    assert y.dtype == np.float64
    assert_array_equal(y, [1, 2, 0.5, np.nan])


def test_names_of_integer_labels_are_matched_as_text(tmp_path):
    for name, names in (("1", ["oak", "ash"]), ("2", ["ash", "elm"])):
        np.savez(tmp_path / f"{name}.npz", X=np.ones((3, 1)), y=[0, 1, -1], y_names=names)
    data = open_all(tmp_path / "*.npz", block_rows=2)
    assert data.attributes["label_names"] == ["ash", "elm", "oak"]
    assert_array_equal(data.targets(), [2, 0, -1, 0, 1, -1])
    np.savez(tmp_path / "2.npz", X=np.ones((3, 1)), y=[1, 1, 0], y_names=["oak", "ash"])
    same = open_all(tmp_path / "*.npz")
    assert (same.attributes["label_names"], same.targets().tolist()) == (["oak", "ash"], [0, 1, -1, 1, 1, 0])


def test_svmlight_files_of_different_width_and_first_column(tmp_path):
    (tmp_path / "1.svm").write_text("1 1:5 2:6\n")
    (tmp_path / "2.svm").write_text("0 0:7 4:8\n")
    data = open_all(tmp_path / "*.svm", block_rows=1)
    assert_array_equal(data.X.read_all(), [[0, 5, 6, 0, 0], [7, 0, 0, 0, 8]])  # counted from 0, as one of them is
    (tmp_path / "2.svm").write_text("0 1:7 4:8\n")
    assert_array_equal(open_all(tmp_path / "*.svm").X.read_all(), [[5, 6, 0, 0], [7, 0, 0, 8]])


def test_sparse_rows_stay_sparse(tmp_path):
    X = sparse.random_array((9, 5), density=0.4, rng=np.random.default_rng(0), format="csr")
    for i, rows in enumerate((X[:4], X[4:])):
        np.savez(tmp_path / f"{i}.npz", data=rows.data, indices=rows.indices, indptr=rows.indptr, shape=rows.shape)
    reader = open_source(find_source(tmp_path / "?.npz"), scratch=tmp_path / "s")
    assert reader.scan().nnz == X.nnz
    assert_array_equal(reader.read(2, 8).X.toarray(), X[2:8].toarray())


def test_typed_columns_of_several_files(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "b": [5.0, 6.0], "y": [0, 1]}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"b": ["x", None], "a": [3.0, 4.0], "y": [0, 1]}).to_parquet(tmp_path / "2.parquet")
    reader = open_source(find_source(tmp_path / "?.parquet"), IngestParams(when_text="one_hot"), scratch=tmp_path)
    X = reader.read(1, 4).X
    assert X[0].tolist() == [2, 3, 4]
    assert X[1].tolist() == ["6", "x", None]
    assert reader.read(0, 2).X[1].tolist() == ["5", "6"]  # text in one file is text in all


def test_labels_of_each_file_by_a_pattern(tmp_path):
    for i, n in ((2, 3), (10, 2)):
        np.save(tmp_path / f"x-{i}.npy", np.full((n, 2), i))
        np.save(tmp_path / f"y-{i}.npy", np.full(n, i))
    data = open_all(tmp_path / "x-*.npy", labels=str(tmp_path / "y-*.npy"))
    assert_array_equal(data.X.read_all()[:, 0], [2, 2, 2, 10, 10])
    assert_array_equal(data.targets(), [2, 2, 2, 10, 10])
    with pytest.raises(DataError, match="2 files and 1 files of labels"):
        open_all(tmp_path / "x-*.npy", labels=str(tmp_path / "y-2.npy"))


@pytest.mark.parametrize(("first", "second", "message"), [
    ("a,b,y\n1,2,0\n", "a,c,y\n1,2,0\n", r"2\.csv and .*1\.csv have different columns: only .*1\.csv has 'b'; "
                                         r"only .*2\.csv has 'c'"),
    ("a,b,y\n1,2,0\n", "a,b,c,y\n1,2,3,0\n", r"only .*2\.csv has 'c'[\s\S]*`drop:`"),
    ("1,2,0\n3,4,1\n", "1,2,3,0\n", r"2\.csv has 3 features, .*1\.csv has 2"),
    ("a,label\n1,0\n", "a,y\n1,0\n", r"target of .*2\.csv is 'y', that of .*1\.csv 'label'"),
    ("a,y\n1,0\n", "a,y\n", r"2\.csv has no rows"),
])
def test_files_that_do_not_belong_together(tmp_path, first, second, message):
    (tmp_path / "1.csv").write_text(first)
    (tmp_path / "2.csv").write_text(second)
    with pytest.raises(DataError, match=message):
        open_all(tmp_path / "*.csv")


def test_targets_and_splits_are_in_all_files_or_none(tmp_path):
    np.savez(tmp_path / "1.npz", X=np.ones((2, 1)), y=[0, 1])
    for arrays, message in (({}, r"2\.npz has no target, .*1\.npz has one"),
                            ({"y": [0, 1], "split": [0, 1]}, r"2\.npz has a split, .*1\.npz has none")):
        np.savez(tmp_path / "2.npz", X=np.ones((2, 1)), **arrays)
        with pytest.raises(DataError, match=message):
            open_all(tmp_path / "*.npz")


def test_formats_are_not_mixed_and_files_not_named_twice(tmp_path):
    write(table(), tmp_path / "1.csv")
    write(table(), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet is parquet, .*1\.csv is csv"):
        open_all(tmp_path / "*")
    with pytest.raises(DataError, match=r"1\.csv and .*1\.csv are one file"):
        open_all([tmp_path / "*.csv", tmp_path / "1.csv"])


# ---- patterns


def test_files_that_match_are_in_natural_order(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("part-10.csv", "part-2.csv", "part-1.csv", "other.csv", "deep/part-3.csv", "deep/er/part-4.csv"):
        (tmp_path / name).write_text("1,2\n")

    def names(pattern):
        return [path.removeprefix(f"{tmp_path}/") for path in matching_paths(str(tmp_path / pattern))]

    assert names("part-*.csv") == ["part-1.csv", "part-2.csv", "part-10.csv"]
    assert names("part-?.csv") == ["part-1.csv", "part-2.csv"]
    assert names("part-[13]*.csv") == ["part-1.csv", "part-10.csv"]
    assert names("deep/**/*.csv") == ["deep/er/part-4.csv", "deep/part-3.csv"]
    assert names("no.csv") == ["no.csv"]
    assert sorted(["b9", "b010", "b10", "a11"], key=natural_order) == ["a11", "b9", "b010", "b10"]
    (tmp_path / "odd[1].csv").write_text("1,2\n")
    assert names("odd[1].csv") == ["odd[1].csv"]  # a file of that name is meant


def test_patterns_that_match_nothing(tmp_path, monkeypatch):
    (tmp_path / "one.csv").write_text("1,2\n")
    with pytest.raises(DataError, match=r"no file matches .*part-\*\.csv[\s\S]*holds one\.csv"):
        open_dataset(tmp_path / "part-*.csv")
    with pytest.raises(DataError, match="is not a folder"):
        open_dataset(tmp_path / "absent" / "*.csv")
    with pytest.raises(DataError, match="is a pattern"):
        open_dataset("https://host/part-*.csv")
    with pytest.raises(DataError, match="empty list"):
        open_dataset([])
    monkeypatch.chdir(tmp_path)
    assert len(open_dataset("*.csv")) == 1


def test_the_fingerprint_covers_every_file_and_their_order(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(f"1,{ord(name)}\n")
    sources = [["a", "b"], ["b", "a"], ["a", "b", "c"], ["a"]]
    actual = [fingerprint(find_source([tmp_path / f"{name}.csv" for name in names])) for names in sources]
    assert len(set(actual)) == 4
    assert actual[3] == fingerprint(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("1,0\n")
    assert fingerprint(find_source([tmp_path / "a.csv", tmp_path / "b.csv"])) != actual[0]


def test_stored_data_sets_are_joined_too(tmp_path):
    for name, y in (("one", ["oak", "ash", None]), ("two", ["elm", "oak", "oak"])):
        Dataset.from_arrays(pd.DataFrame(np.eye(3), columns=list("abc")), y).save(tmp_path / name)
    data = open_dataset([tmp_path / "one", tmp_path / "two"])
    assert_array_equal(data.X.read_all(), np.vstack([np.eye(3)] * 2))
    assert (data.attributes["label_names"], data.targets().tolist()) == (["ash", "elm", "oak"], [2, 0, -1, 1, 2, 2])


# The rows of tables as they stand in their files: cells as they are written, and the line that each begins at


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
