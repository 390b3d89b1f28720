"""Rows added to a stored data set: what an ingest of all gives, and nothing lost when an append is killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError, IntegrityError, LockedError
from dssl.data import source_reader
from dssl.data.append import append
from dssl.data.dataset import MANIFEST, Dataset
from dssl.data.ingest import ingest, open_dataset
from dssl.data.source_files import fingerprint
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts
from dssl.storage.files import resolved_path
from dssl.storage.objects import ObjectPath
from dssl.storage.store import StoredParts


def arrays_of(data):
    arrays, _ = data.to_arrays()
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def store(source, folder, **options):
    return ingest(source, StoredParts(folder), InProcess(1), **options).save(folder)


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


NUMBERS = st.lists(st.sampled_from(["1", "2", "07", "0.5", ""]), min_size=1, max_size=5)
TEXTS = st.lists(st.sampled_from(["oak", "ash", "elm", "7", ""]), min_size=1, max_size=5).map(lambda y: [*y, "oak"])


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(files=st.one_of(st.lists(NUMBERS, min_size=2, max_size=3), st.lists(TEXTS, min_size=2, max_size=3)),
       height=st.integers(1, 4))
def test_appended_files_equal_files_read_at_once(tmp_path_factory, files, height):
    """X, the type of y, its codes and their names, whatever comes in which file."""
    folder = tmp_path_factory.mktemp("append")
    rows = iter(range(100))
    for i, labels in enumerate(files):
        (folder / f"{i}.csv").write_text("a,b,y\n" + "".join(f"{next(rows)},1,{label}\n" for label in labels))
    whole = ingest(folder / "*.csv", MemoryParts(), InProcess(1), header=True)
    store(folder / "0.csv", folder / "d", header=True)
    for i in range(1, len(files)):
        append(folder / f"{i}.csv", folder / "d", InProcess(1), block_rows=height)
    data = open_dataset(folder / "d")
    assert arrays_of(data) == arrays_of(whole)
    for name in ("label_names", "feature_names", "target", "format"):
        assert data.attributes[name] == whole.attributes[name]


def test_every_file_is_recorded(tmp_path):
    for i, rows in enumerate(("1,0\n", "2,1\n3,0\n")):
        (tmp_path / f"{i}.csv").write_text("a,y\n" + rows)
    first = store(tmp_path / "0.csv", tmp_path / "d")
    for again in (False, True):  # the same source twice: its rows are there twice
        append(tmp_path / "1.csv", tmp_path / "d", again=again)
    data = open_dataset(tmp_path / "d")
    assert_array_equal(data.X.read_all()[:, 0], [1, 2, 3, 2, 3])
    assert data.attributes["files"] == [
        {"name": str(tmp_path / f"{i}.csv"), "digest": fingerprint(tmp_path / f"{i}.csv"), "rows": rows}
        for i, rows in ((0, 1), (1, 2), (1, 2))]
    assert data.attributes["fingerprint"] != first.attributes["fingerprint"]
    assert_array_equal(first.X.read_all()[:, 0], [1])  # as it was opened


# Files that were read before


@pytest.fixture
def daily(tmp_path):
    """A data set of part-1 and part-2, and the pattern that its files are found by."""
    for i in (1, 2):
        write_part(tmp_path, i)
    store(tmp_path / "day=*" / "part-*.csv", tmp_path / "d")
    return tmp_path / "day=*" / "part-*.csv"


def write_part(folder, number, rows=((1, 0), (2, 1))):
    path = folder / f"day={number}" / f"part-{number}.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text("a,y\n" + "".join(f"{10 * number + a},{y}\n" for a, y in rows))
    return path


def test_only_new_files_are_read(daily, tmp_path, monkeypatch):
    opened = []
    real = source_reader.open_reader
    monkeypatch.setattr(source_reader, "open_reader", lambda path, *args, **kwargs: (
        opened.append(path.name), real(path, *args, **kwargs))[1])
    before = tree(tmp_path / "d")
    assert len(append(daily, tmp_path / "d")) == 4
    assert {name: old for name, old in tree(tmp_path / "d").items() if name != ".lock"} == before
    assert opened == []
    write_part(tmp_path, 10)
    shutil.copy(write_part(tmp_path, 11), tmp_path / "day=2" / "part-3.csv")  # equal bytes of two files are two files
    os.rename(tmp_path / "day=1" / "part-1.csv", tmp_path / "day=1" / "part-100.csv")  # its bytes were read
    data = append(daily, tmp_path / "d")
    assert [*dict.fromkeys(opened)] == ["part-3.csv", "part-10.csv", "part-11.csv"]
    assert_array_equal(data.X.read_all()[:, 0], [11, 12, 21, 22, 111, 112, 101, 102, 111, 112])
    assert [item["rows"] for item in data.attributes["files"]] == [2] * 5


@pytest.mark.parametrize(("harm", "message"), [
    (lambda path: path.write_text("a,y\n0,0\n"),
     r"part-1\.csv has changed[\s\S]*2 rows[\s\S]*files \(part-3\.csv\)[\s\S]*--again"),
    (lambda path: path.unlink(),
     r"part-1\.csv no longer exists[\s\S]*restore the missing files; or name .*part-3\.csv")])
def test_files_that_changed_or_vanished_are_reported(daily, tmp_path, harm, message):
    harm(tmp_path / "day=1" / "part-1.csv")
    new = write_part(tmp_path, 3)
    before = (tmp_path / "d" / MANIFEST).read_bytes()
    with pytest.raises(DataError, match=message):
        append(daily, tmp_path / "d")
    assert (tmp_path / "d" / MANIFEST).read_bytes() == before
    assert len(append(new, tmp_path / "d")) == 6  # named alone it is not asked for
    changed = append(daily, tmp_path / "d", again=True)
    assert len(changed) == 6 + 2 * len(list(tmp_path.glob("day=*/*"))) - (len(list(tmp_path.glob("day=1/*"))))


def test_objects_that_were_read_are_not_asked_for_again(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "first"))
    place = resolved_path(s3)
    for name in ("day=1/part-1.csv", "day=2/part-2.csv"):
        (place / name).write_text(f"a,y\n{name[4]},0\n")
    store(f"{s3}/day=*/part-*.csv", tmp_path / "d")
    (place / "day=2" / "part-10.csv").write_text("a,y\n10,1\n")
    asked = []
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "second"))
    for name in ("download", "version"):
        real = getattr(ObjectPath, name)
        monkeypatch.setattr(ObjectPath, name, lambda self, *args, real=real, name=name: (
            asked.append((name, self.name, self.listed is None)), real(self, *args))[1])
    data = append(f"{s3}/day=*/part-*.csv", tmp_path / "d")
    assert_array_equal(data.X.read_all()[:, 0], [1, 2, 10])
    assert [name for what, name, _ in asked if what == "download"] == ["part-10.csv"]
    assert not any(alone for what, _, alone in asked if what == "version")  # a list told it
    (place / "day=1" / "part-1.csv").write_text("a,y\n7,0\n")
    with pytest.raises(DataError, match=r"part-1\.csv has changed"):
        append(f"{s3}/day=*/part-*.csv", tmp_path / "d")
    (place / "day=1" / "part-1.csv").unlink()
    with pytest.raises(DataError, match=r"part-1\.csv no longer exists"):
        append(f"{s3}/day=*/part-*.csv", tmp_path / "d")


def test_columns_are_matched_by_name_and_options_are_kept(tmp_path):
    (tmp_path / "0.csv").write_text("id,a,b,kind\nx,1,2,oak\n")
    (tmp_path / "1.csv").write_text("kind,b,id,a\nash,4,y,3\n")
    (tmp_path / "2.csv").write_text("b,a,label\n6,5,oak\n")
    store(tmp_path / "0.csv", tmp_path / "d", drop=("id",), target="kind")
    append(tmp_path / "1.csv", tmp_path / "d")
    data = append(tmp_path / "2.csv", tmp_path / "d", target="label", drop=())
    assert_array_equal(data.X.read_all(), [[1, 2], [3, 4], [5, 6]])
    assert_array_equal(data.targets(), [1, 0, 1])
    assert (data.attributes["label_names"], data.feature_names) == (["ash", "oak"], ["a", "b"])


def test_other_formats_and_several_files(tmp_path):
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": [3.0, 4.0], "y": [0, 1]})
    store_from = Dataset.from_arrays(frame[["a", "b"]].to_numpy(), frame["y"], split=None)
    store_from.save(tmp_path / "d")  # float64, without names
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "u.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=frame[["a", "b"]], y=frame["y"])
    for source in ("t.csv", "t.parquet", "t.npz", "d"):
        append(tmp_path / source, tmp_path / "d")
    data = append([tmp_path / "t.csv", tmp_path / "u.csv"], tmp_path / "d", again=True)
    assert data.X.dtype == np.float64
    assert len(data) == 2 * (2 * (1 + 3) + 2)  # the folder added to itself is twice what it was
    assert_array_equal(data.X.read_all(), np.tile(frame[["a", "b"]].to_numpy(), (10, 1)))
    assert_array_equal(data.targets(), np.tile([0, 1], 10))


def test_splits_go_on_too(tmp_path):
    for i, split in enumerate(([0, 1], [1, 1, 0])):
        np.savez(tmp_path / f"{i}.npz", X=np.full((len(split), 2), i), split=split)
    store(tmp_path / "0.npz", tmp_path / "d")
    assert_array_equal(append(tmp_path / "1.npz", tmp_path / "d").split.read_all(), [0, 1, 1, 1, 0])


def test_labels_after_none_at_all(tmp_path):
    (tmp_path / "0.csv").write_text("a,y\n1,\n2,\n")
    (tmp_path / "1.csv").write_text("a,y\n3,oak\n4,\n")
    store(tmp_path / "0.csv", tmp_path / "d", header=True)
    data = append(tmp_path / "1.csv", tmp_path / "d")
    assert (data.targets().tolist(), data.attributes["label_names"]) == ([-1, -1, 0, -1], ["oak"])
    data = append(tmp_path / "0.csv", tmp_path / "d", again=True)
    assert data.targets().tolist() == [-1, -1, 0, -1, -1, -1]


BAD = {
    "names.csv": ("a,c,y\n1,2,0\n", r"names\.csv and .*d have different columns: only .*d has 'b'; only .*csv has 'c'"),
    "number.csv": ("1,2,3,0\n", r"number\.csv has 3 features, .*d has 2"),
    "unlabeled.csv": ("a,b\n1,2\n", r"the target of .*csv was assumed to be 'b'[\s\S]*with empty cells"),
    "text.csv": ("a,b,y\n1,2,oak\n", r"the labels of .*text\.csv are text, but those of the data set are numbers"),
    "missing.csv": ("a,b,y\n1,2,0\n1,,0\n", "column 'b' has a missing cell in row 1"),
    "rows.csv": ("a,b,y\n", "has no rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_sources_that_do_not_fit_leave_the_data_set_as_it_is(tmp_path, name):
    (tmp_path / "0.csv").write_text("a,b,y\n1,2,0\n")
    store(tmp_path / "0.csv", tmp_path / "d")
    before = tree(tmp_path / "d")
    text, message = BAD[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        append(tmp_path / name, tmp_path / "d")
    after = tree(tmp_path / "d")
    after.pop(".lock")
    assert after == before


def test_targets_splits_types_and_folders_that_do_not_fit(tmp_path):
    np.savez(tmp_path / "0.npz", X=np.ones((3, 2)), y=[0, 1, 2])
    store(tmp_path / "0.npz", tmp_path / "d")
    np.savez(tmp_path / "1.npz", X=np.ones((3, 2)))
    with pytest.raises(DataError, match=r"(?s)1\.npz has no target, .*d has one.*y of NaN to an npz file"):
        append(tmp_path / "1.npz", tmp_path / "d")
    np.savez(tmp_path / "1.npz", X=np.ones((3, 2)), y=[0, 1, 2], split=[0, 0, 1])
    with pytest.raises(DataError, match=r"1\.npz has a split, .*d has none"):
        append(tmp_path / "1.npz", tmp_path / "d")
    with pytest.raises(DataError, match="dtype=float64, but the data set is float32"):
        append(tmp_path / "0.npz", tmp_path / "d", dtype="float64")
    np.savez(tmp_path / "3.npz", X=np.ones((3, 3)), y=[0, 1, 2])
    with pytest.raises(DataError, match=r"has 3 features, .* has 2"):
        append(tmp_path / "3.npz", tmp_path / "d")
    for folder in ("absent", ""):
        with pytest.raises(DataError, match=r"has no dataset\.json[\s\S]*without --append"):
            append(tmp_path / "0.npz", tmp_path / folder)
    assert not (tmp_path / "absent").exists()


def test_numbers_after_names_are_refused(tmp_path):
    np.savez(tmp_path / "0.npz", X=np.ones((2, 2)), y=np.array(["oak", "ash"]))
    np.savez(tmp_path / "1.npz", X=np.ones((2, 2)), y=[0, 7], y_names=["oak", "ash"])
    store(tmp_path / "0.npz", tmp_path / "d")
    with pytest.raises(DataError, match=r"are numbers, but those of the data set are text"):
        append(tmp_path / "1.npz", tmp_path / "d")


def test_an_array_that_was_replaced_is_noticed(tmp_path):
    np.savez(tmp_path / "0.npz", X=np.ones((2, 2)))
    store(tmp_path / "0.npz", tmp_path / "d")
    append(tmp_path / "0.npz", tmp_path / "d", again=True)
    manifest = json.loads((tmp_path / "d" / MANIFEST).read_text())
    assert manifest["dssl_dataset"] == 2
    manifest["arrays"]["X"]["pieces"][1]["shape"] = [3, 2]
    (tmp_path / "d" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(IntegrityError, match=r"segments/0001/shared/X is .*expected .*\[3, 2\]"):
        open_dataset(tmp_path / "d")


SLOW = """
import sys
from dssl.data.append import append
from dssl.execution.in_process import InProcess
append(sys.argv[1], sys.argv[2], InProcess(1), block_rows=500)
"""


def start_append(source, folder):
    process = subprocess.Popen([sys.executable, "-c", SLOW, str(source), str(folder)], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(folder.glob("segments/0001/receipts/*.json")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return process


@pytest.mark.slow
def test_a_killed_append_changes_nothing_and_the_next_one_clears_it_up(tmp_path):
    X = np.random.default_rng(0).normal(size=(100_000, 4)).astype(np.float32)
    np.savez(tmp_path / "big.npz", X=X, y=np.arange(100_000) % 3)
    np.savez(tmp_path / "small.npz", X=X[:10], y=np.arange(10) % 3)
    folder = tmp_path / "d"
    before = arrays_of(store(tmp_path / "small.npz", folder))
    names, digest = (folder / MANIFEST).read_bytes(), fingerprint(folder)
    process = start_append(tmp_path / "big.npz", folder)
    try:
        with pytest.raises(LockedError, match=rf"process {process.pid} on [\s\S]*one data set"):
            append(tmp_path / "small.npz", folder)
        assert arrays_of(open_dataset(folder)) == before  # readable while rows are added
        process.send_signal(signal.SIGSTOP)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert (folder / "segments" / "0001").is_dir()
    assert (folder / MANIFEST).read_bytes() == names
    assert arrays_of(open_dataset(folder)) == before
    assert fingerprint(folder) == digest
    (folder / "segments" / "0007").mkdir()
    data = append(tmp_path / "big.npz", folder, InProcess(2))
    assert_array_equal(data.X.read_all(), np.vstack([X[:10], X]))
    assert [path.name for path in (folder / "segments").iterdir()] == ["0001"]
    assert not (folder / "lock.json").exists()
    ids = np.array([100_009, 3, 10, 9, 50_000, 3])
    assert_array_equal(data.X.take(ids), np.vstack([X[:10], X])[ids])


def test_an_appended_data_set_is_a_source_and_can_be_saved_elsewhere(tmp_path):
    np.savez(tmp_path / "0.npz", X=np.arange(20).reshape(10, 2), y=np.arange(10))
    store(tmp_path / "0.npz", tmp_path / "d", block_rows=4)
    data = append(tmp_path / "0.npz", tmp_path / "d", block_rows=3, again=True)
    for height in (1, 7, None):
        again = ingest(tmp_path / "d", MemoryParts(), InProcess(2), block_rows=height)
        assert arrays_of(again) == arrays_of(data)
    assert arrays_of(data.save(tmp_path / "copy")) == arrays_of(data)
    with pytest.raises(DataError, match="is not empty"):
        data.save(tmp_path / "d")


def test_minus_one_among_integers_stays_unlabeled_beside_text(tmp_path):
    (tmp_path / "first.csv").write_text("a,label\n1,oak\n2,ash\n3,oak\n")
    ingest(tmp_path / "first.csv", StoredParts(tmp_path / "set"), InProcess(1)).save(tmp_path / "set")
    np.savez(tmp_path / "more.npz", X=np.array([[4.0], [5.0]], np.float32), y=np.array([-1, -1]),
             columns=np.array(["a"]))
    actual = append(tmp_path / "more.npz", tmp_path / "set")
    assert actual.attributes["label_names"] == ["ash", "oak"]
    assert actual.y.read_all().tolist() == [1, 0, 1, -1, -1]
