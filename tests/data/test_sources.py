"""Names, paths and URLs; what they are found as, and what is said when they are nowhere."""

import gzip
import hashlib
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn import datasets

from dssl.base.errors import DataError, ParameterError
from dssl.data.ingest import open_dataset
from dssl.data.readers.manifolds import BLOCK_ROWS, CurvedManifolds, ManifoldParams
from dssl.data.source_files import Source, fingerprint
from dssl.data.sources import BUNDLED, TWO_MOONS, find_source, save_npz, table_of_frame
from dssl.storage.files import resolved_path
from dssl.storage.objects import ObjectPath


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a folder; a file named cut... ends early."""

    def log_message(self, *args):
        """Keep the log out of the test's output."""

    def do_GET(self):
        if "cut" not in self.path:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"a,y\n1,0\n")
        self.close_connection = True
        return None


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


def test_a_name_is_looked_up_in_dssl_data_then_in_the_cache(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("DSSL_DATA", str(tmp_path))
    np.savez(cache / "moons.npz", X=np.eye(2))
    assert find_source("moons", download=False).path == cache / "moons.npz"
    (tmp_path / "moons.csv.gz").write_bytes(gzip.compress(b"1,2\n"))
    assert find_source("moons", download=False).path == tmp_path / "moons.csv.gz"
    np.savez(tmp_path / "moons.npz", X=np.eye(2))
    assert find_source("moons", download=False).path == tmp_path / "moons.npz"


def test_a_name_that_is_nowhere(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("DSSL_DATA", str(tmp_path))
    np.savez(tmp_path / "letter.npz", X=np.eye(2))
    with pytest.raises(DataError) as error:
        find_source("leter", download=False)
    text = str(error.value)
    assert "no data set 'leter'" in text
    assert str(tmp_path) in text
    assert str(cache) in text
    assert "did you mean letter?" in text
    with pytest.raises(DataError, match=r"check the path$"):
        find_source(tmp_path / "letter.csv", download=False)
    with pytest.raises(DataError, match="check the path, which is relative to the folder in which the command runs"):
        find_source("letter.csv", download=False)
    with pytest.raises(DataError, match="is a folder"):
        find_source(tmp_path)


def test_a_folder_of_the_same_name_does_not_hide_a_named_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "iris").mkdir()
    assert len(open_dataset("iris")) == 150
    with pytest.raises(DataError, match=r"has no dataset\.json"):
        open_dataset(tmp_path / "iris")


def test_two_moons_are_those_of_sklearn(monkeypatch):
    monkeypatch.delenv("DSSL_DATA", raising=False)
    data, (X, y) = open_dataset(TWO_MOONS, dtype="float64"), datasets.make_moons(2000, noise=0.05, random_state=0)
    assert_array_equal(data.X.read_all(), X)
    assert_array_equal(data.targets(), y)
    assert data.named_targets()[:2].tolist() == [["upper", "lower"][code] for code in y[:2]]


@pytest.mark.parametrize("name", sorted({*BUNDLED} - {TWO_MOONS}))
def test_bundled_sets_equal_those_of_sklearn(name, monkeypatch):
    monkeypatch.delenv("DSSL_DATA", raising=False)
    bunch = getattr(datasets, f"load_{name}")()
    data = open_dataset(name, dtype="float64")
    assert_array_equal(data.X.read_all(), bunch.data)
    assert_array_equal(data.targets(), bunch.target)
    assert data.feature_names == [str(column) for column in bunch.feature_names]
    if name != "diabetes":
        assert data.attributes["label_names"] == [str(label) for label in bunch.target_names]
        assert data.named_targets().tolist() == [str(bunch.target_names[code]) for code in bunch.target]


def test_the_fingerprint_is_the_sha256_of_the_bytes(tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
    one = fingerprint(tmp_path / "x")
    assert one == hashlib.sha256(b"x" * 1000).hexdigest()
    two = fingerprint(Source("x", tmp_path / "x", tmp_path / "y"))
    swapped = fingerprint(Source("x", tmp_path / "y", tmp_path / "x"))
    assert len({one, two, swapped}) == 3


def test_bundled_files_have_equal_bytes_wherever_they_are_made(tmp_path):
    for name in ("one.npz", "two.npz"):
        save_npz(tmp_path / name, np.eye(3), np.arange(3), ["a", "b", "c"], [])
    assert fingerprint(tmp_path / "one.npz") == fingerprint(tmp_path / "two.npz")


def test_http_is_downloaded_once(server, cache):
    folder, url = server
    (folder / "points.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
    data = open_dataset(f"{url}/points.csv")
    assert_array_equal(data.X.read_all(), [[1, 2], [3, 4]])
    (folder / "points.csv").unlink()
    assert_array_equal(open_dataset(f"{url}/points.csv").targets(), [0, 1])
    assert find_source(f"{url}/points.csv", download=False).path.is_relative_to(cache)


def test_the_labels_of_an_idx_url_are_downloaded_too(server):
    folder, url = server
    for name, raw in (("images-idx2-ubyte", b"\0\0\x08\x02\0\0\0\x02\0\0\0\x03abcdef"),
                      ("labels-idx1-ubyte", b"\0\0\x08\x01\0\0\0\x02\x07\x09")):
        (folder / f"train-{name}.gz").write_bytes(gzip.compress(raw))
    data = open_dataset(f"{url}/train-images-idx2-ubyte.gz")
    assert_array_equal(data.X.read_all(), [[97, 98, 99], [100, 101, 102]])
    assert_array_equal(data.targets(), [7, 9])


def test_downloads_that_fail_leave_nothing(server, cache):
    _, url = server
    with pytest.raises(DataError, match=r"cannot download .*absent\.csv[\s\S]*404"):
        find_source(f"{url}/absent.csv")
    with pytest.raises(DataError, match=r"cut\.csv[\s\S]*8 of 1,000 bytes arrived"):
        find_source(f"{url}/cut.csv")
    with pytest.raises(DataError, match="downloads are off"):
        find_source(f"{url}/absent.csv", download=False)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_objects_are_read_as_they_are_now(cache, s3):
    place = resolved_path(s3)
    for number, text in ((2, "a,y\n3,0\n"), (10, "a,y\n4,1\n"), (1, "a,y\n1,0\n2,1\n")):
        (place / f"part-{number}.csv").write_text(text)
    assert_array_equal(open_dataset(f"{s3}/part-1.csv").X.read_all(), [[1], [2]])
    assert_array_equal(open_dataset(f"{s3}/part-*.csv").X.read_all(), [[1], [2], [3], [4]])
    (place / "part-1.csv").write_text("a,y\n7,0\n8,1\n")
    assert_array_equal(open_dataset(f"{s3}/part-1.csv").X.read_all(), [[7], [8]])
    (place / "part-1.csv").unlink()
    assert find_source(f"{s3}/part-1.csv", download=False).path.read_text() == "a,y\n7,0\n8,1\n"
    with pytest.raises(DataError, match=r"cannot download[\s\S]*No such file"):
        find_source(f"{s3}/part-1.csv")
    with pytest.raises(DataError, match="no object matches"):
        find_source(f"{s3}/none-*.csv")
    assert_array_equal(open_dataset(f"{s3}/part-??.csv").X.read_all(), [[4]])


def upload(folder, place):
    for path in folder.rglob("*"):
        if path.is_file():
            (place / path.relative_to(folder).as_posix()).write_bytes(path.read_bytes())


def test_a_zarr_group_and_a_data_set_are_read_from_a_store_as_they_are_now(cache, s3, tmp_path):
    place, X, y = resolved_path(s3), np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    group = zarr.create_group(tmp_path / "points.zarr")
    group.create_array("X", data=X, chunks=(7, 2))
    group.create_array("y", data=y)
    open_dataset(tmp_path / "points.zarr").save(tmp_path / "stored")
    for name in ("points.zarr", "stored"):
        upload(tmp_path / name, place / name)
        actual, here = open_dataset(f"{s3}/{name}"), open_dataset(tmp_path / name)
        assert_array_equal(actual.X.read_all(), X)
        assert_array_equal(actual.y.read_all(), y)
        assert fingerprint(find_source(f"{s3}/{name}")) == fingerprint(find_source(tmp_path / name))
        assert_array_equal(here.X.read_all(), X)
    zarr.open_array(tmp_path / "points.zarr" / "X", mode="r+")[:] = -X
    upload(tmp_path / "points.zarr", place / "points.zarr")
    assert_array_equal(open_dataset(f"{s3}/points.zarr").X.read_all(), -X)
    before = find_source(f"{s3}/points.zarr").path
    shutil.rmtree(before)
    assert find_source(f"{s3}/points.zarr").path == before
    assert [path.name for path in before.parent.iterdir()] == ["points.zarr"]
    (place / "more" / "a.csv").write_text("a\n1\n")
    with pytest.raises(DataError, match=r"more is a folder[\s\S]*neither a data set that dssl wrote nor a Zarr"):
        find_source(f"{s3}/more")


def test_a_folder_that_changes_while_it_is_downloaded_is_not_kept(cache, s3, tmp_path, monkeypatch):
    place = resolved_path(s3)
    zarr.create_array(tmp_path / "X.zarr", data=np.zeros((20, 2)), chunks=(7, 2))
    upload(tmp_path / "X.zarr", place / "X.zarr")
    download = ObjectPath.download

    def and_change(path, file):
        download(path, file)
        (place / "X.zarr" / "c" / "0" / "0").write_bytes(b"other")

    monkeypatch.setattr(ObjectPath, "download", and_change)
    with pytest.raises(DataError, match=r"X\.zarr has changed[\s\S]*during the download"):
        find_source(f"{s3}/X.zarr")
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_urls_with_secrets_are_refused(tmp_path):
    for url in ("https://user:hush@host/p.csv", "https://host/p.csv?X-Amz-Signature=hush", "s3://K:hush@bucket/p.csv"):
        for source, options in ((url, {}), ([str(tmp_path / "a.npy"), url], {}), ("iris", {"labels": url})):
            with pytest.raises(DataError, match="credentials never belong in a URL") as refusal:
                find_source(source, **options)
            assert "hush" not in str(refusal.value)


def test_other_schemes_are_refused(cache):
    with pytest.raises(DataError, match="cannot read ftp://"):
        find_source("ftp://host/points.csv")


def test_file_urls_are_read_in_place(tmp_path):
    (tmp_path / "my points.csv").write_text("1,0\n")
    assert find_source((tmp_path / "my points.csv").as_uri()).path == tmp_path / "my points.csv"
    with pytest.raises(DataError, match="is not a file"):
        find_source((tmp_path / "absent.csv").as_uri())


def test_an_openml_table_becomes_numbers():
    bunch = datasets.load_iris(as_frame=True)
    X, y, names = table_of_frame(bunch.data, bunch.target.map(dict(enumerate(bunch.target_names))), "iris")
    assert_array_equal(X, bunch.data.to_numpy().astype(np.float32) if X.dtype == np.float32 else bunch.data.to_numpy())
    assert_array_equal(y, bunch.target)
    assert names == ["setosa", "versicolor", "virginica"]
    digits = pd.Series(["5", "0", "4"], dtype="category")
    X, y, names = table_of_frame(pd.DataFrame({"a": [0, 255, 7]}), digits, "mnist")
    assert (X.dtype, y.tolist(), names) == (np.uint8, [5, 0, 4], [])
    with pytest.raises(DataError, match="column 'color' holds text: 'red'"):
        table_of_frame(pd.DataFrame({"color": ["red"]}), None, "cars")


# Curved manifolds: any range of rows is the same however it is made, and a spec can name them as its source


PARAMS = ManifoldParams(points=3 * BLOCK_ROWS + 100, columns=20, classes=3, dimension=4, seed=5)
X, Y = CurvedManifolds(PARAMS).read(0, PARAMS.points)


@given(st.integers(0, len(X)), st.integers(0, len(X)))
@settings(max_examples=10, deadline=None)
def test_a_range_is_the_same_however_it_is_made(a, b):
    start, stop = sorted((a, b))
    actual, classes = CurvedManifolds(PARAMS).read(start, stop)
    np.testing.assert_array_equal(actual, X[start:stop])
    np.testing.assert_array_equal(classes, Y[start:stop])


def test_rows_differ_by_seed():
    other = CurvedManifolds(ManifoldParams(points=100, columns=20, classes=3, dimension=4, seed=6)).read(0, 100)[0]
    assert not np.array_equal(other, X[:100])


def test_a_class_is_a_curved_manifold_of_its_dimension():
    """What the first axes leave out: of a small ball's points next to nothing, of a whole class much more."""
    made = CurvedManifolds(ManifoldParams(points=60_000, columns=20, classes=1, dimension=2, noise=0.0))
    points = made.read(0, 60_000)[0].astype(np.float64)
    near = np.argsort(((points - points[0]) ** 2).sum(axis=1))[:100]
    spreads = [np.linalg.svd(item - item.mean(axis=0), compute_uv=False)**2 for item in (points[near], points)]
    of_ball, of_all = (spread[2:].sum() / spread.sum() for spread in spreads)
    assert of_ball < 0.001 < 0.02 < of_all


def test_a_source_of_any_size_is_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path))
    dataset = open_dataset("manifolds:5000x20:5")
    expected = CurvedManifolds(ManifoldParams(points=5000, columns=20, seed=5)).read(0, 5000)
    np.testing.assert_array_equal(dataset.X.read_all(), expected[0])
    np.testing.assert_array_equal(dataset.targets(), expected[1])
    assert fingerprint(find_source("manifolds:5000x20:5")) != fingerprint(find_source("manifolds:5000x20"))


@pytest.mark.parametrize("text", ["{", '{"points": 10, "rows": 3}', "[]"])
def test_a_damaged_description_is_refused(tmp_path, text):
    path = tmp_path / "broken.manifolds"
    path.write_text(text)
    with pytest.raises(DataError, match="describes no manifolds"):
        open_dataset(path)


def test_sizes_are_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path))
    with pytest.raises(ParameterError, match="points=0"):
        open_dataset("manifolds:0x20")
