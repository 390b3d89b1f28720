"""svmlight text, against scikit-learn's own reader."""

import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from dssl.base.errors import DataError
from dssl.data.readers.formats import open_reader

from .reading import dense, read_all


def write(tmp_path, text, name="points.svm"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def random_file(path, n=4000, zero_based=False, labels=(0, 1, 2)):
    rng = np.random.default_rng(3)
    X = sparse.random_array((n, 30), density=0.2, rng=rng, format="csr")
    dump_svmlight_file(X, rng.choice(labels, n), str(path), zero_based=zero_based)
    return path


@pytest.mark.parametrize("zero_based", [False, True])
def test_reads_what_sklearn_reads(tmp_path, zero_based):
    path = random_file(tmp_path / "points.svm", zero_based=zero_based)
    X, y = load_svmlight_file(str(path), zero_based=zero_based)
    scan, block = read_all(path, tmp_path)
    assert (scan.n_rows, scan.n_columns) == X.shape
    assert_array_equal(block.X, X.toarray())
    assert_array_equal(block.y, y)
    assert block.y.dtype == np.int64


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (1, 2), (700, 3100), (3999, 4000), (0, 4000)])
def test_any_rows_can_be_read_on_their_own(tmp_path, start, stop):
    path = random_file(tmp_path / "points.svm")
    _, whole = read_all(path, tmp_path, np.float32)
    reader = open_reader(path, scratch=tmp_path)
    block = dense(reader.narrow(start, stop).read(start, stop), np.float32)
    assert_array_equal(block.X, whole.X[start:stop])
    assert_array_equal(block.y, whole.y[start:stop])


def test_gzip_equals_plain_and_names_without_endings_need_a_format(tmp_path):
    path = random_file(tmp_path / "points.svm", n=300)
    packed = write(tmp_path, gzip.compress(path.read_bytes()), "a9a.gz")
    with pytest.raises(DataError, match=r"stands for no format[\s\S]*svmlight"):
        read_all(packed, tmp_path)
    scan, block = read_all(packed, tmp_path, format="svmlight")
    plain_scan, plain = read_all(path, tmp_path)
    assert scan == plain_scan
    assert_array_equal(block.X, plain.X)


def test_comments_blank_lines_empty_rows_and_real_targets(tmp_path):
    path = write(tmp_path, "# a comment 9:9\n\n+1.5 1:2 # 7:3\r\n -2 qid:4 3:0.25\n   \n3\n4 2:1e-3")
    scan, block = read_all(path, tmp_path)
    assert (scan.n_rows, scan.n_columns) == (4, 3)
    assert_array_equal(block.X, [[2, 0, 0], [0, 0, 0.25], [0, 0, 0], [0, 1e-3, 0]])
    assert block.y.tolist() == [1.5, -2, 3, 4]


def test_more_columns_than_the_file_shows(tmp_path):
    scan, block = read_all(write(tmp_path, "1 1:2\n0 2:3\n"), tmp_path, n_columns=5)
    assert scan.n_columns == 5
    assert_array_equal(block.X, [[2, 0, 0, 0, 0], [0, 3, 0, 0, 0]])
    _, from_zero = read_all(write(tmp_path, "1 1:2\n0 2:3\n"), tmp_path, zero_based=True)
    assert_array_equal(from_zero.X, [[0, 2, 0], [0, 0, 3]])


@pytest.mark.parametrize(("text", "options", "message"), [
    ("1 1:2\n0 2:x\n", {}, r"points\.svm line 2 \(byte 6\) is not svmlight text: '0 2:x'"),
    ("1 1:2\n0 3:1 2:1\n", {}, "line 2 .*sorted"),
    ("1 1:2\n1,2 1:1\n", {}, "line 2 .*1,2"),
    ("1 1:2\n1:3 2:2\n", {}, "line 2"),
    ("1 1:2\n1 -4:3\n", {}, "line 2"),
    ("1 1:2\n0 7:1\n", {"n_columns": 3}, "column 7, though n_columns is 3"),
    ("1 0:2\n", {"zero_based": False}, "column 0, though zero_based is false"),
    ("1\n2\n", {}, "no column:value pairs"),
    ("1 99999999999:1\n", {}, "the largest possible"),
    ("# only a comment\n", {}, "has no rows"),
    ("1 1:2\0\n", {}, "zero bytes"),
])
def test_refused_with_the_place(tmp_path, text, options, message):
    with pytest.raises(DataError, match=message):
        read_all(write(tmp_path, text), tmp_path, **options)


@pytest.mark.slow
def test_a_bad_line_far_into_the_file_is_located(tmp_path):
    reader = open_reader(write(tmp_path, "1 1:2 2:1\n" * 30_000 + "1 1:z\n" + "1 1:2\n" * 5), scratch=tmp_path)
    with pytest.raises(DataError, match="line 30001"):
        reader.read(29_000, 30_003)
