"""Stored arrays: what is damaged is noticed and named, what is whole reads back as it was written."""

import errno
import shutil
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError, IntegrityError, ParameterError
from dssl.storage import cache as cache_module
from dssl.storage import store
from dssl.storage.array_files import create_array
from dssl.storage.cache import ArrayCache, release_caches
from dssl.storage.files import draft_of, read_json, write_json
from dssl.storage.store import StoredArrays, StoredParts, StoredRows
from dssl.storage.verify import verify_parts

from ..stored import flip


@pytest.fixture
def parts(tmp_path):
    """A shared array of four chunks and one part of two arrays."""
    made = StoredParts(tmp_path / "stage")
    made.allocate("X", (100, 3), np.float32, 30)
    X = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    made.write_range(0, {"X": X[:60]})
    made.write_range(60, {"X": X[60:]})
    made.write(0, {"ids": np.arange(50), "count": np.array(7)})
    made.finish(0, {"rows": [0, 100]})
    return made


def chunks(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "zarr.json")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("damage", [flip, truncate, lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("chunk", range(4))
def test_damage_to_a_shared_array_is_named(parts, damage, chunk):
    verify_parts(parts)
    file = chunks(parts.folder / "shared" / "X")[chunk]
    damage(file)
    with pytest.raises(IntegrityError) as error:
        parts.rows("X").read_all()
    assert f"{file} is " in str(error.value)
    with pytest.raises(IntegrityError, match="run again"):
        verify_parts(parts)
    sound = (chunk + 1) % 4 * 30
    assert len(parts.rows("X").read(sound, sound + 10)) == 10


@pytest.mark.parametrize("damage", [flip, truncate, lambda path: path.unlink()])
@pytest.mark.parametrize("name", ["ids", "count"])
def test_damage_to_a_part_is_named(parts, damage, name):
    file = chunks(parts.attempt_folder(0) / name)[0]
    damage(file)
    with pytest.raises(IntegrityError) as error:
        parts.read(0)
    assert str(file) in str(error.value)
    with pytest.raises(IntegrityError):
        verify_parts(parts)


def test_a_chunk_in_the_place_of_another_is_noticed(parts):
    """Both chunks carry right checksums; only the one of the whole array shows that they were exchanged."""
    parts.write(1, {"ids": np.arange(50) + 1})
    parts.finish(1, {})
    first, second = (chunks(parts.attempt_folder(index) / "ids")[0] for index in (0, 1))
    first.write_bytes(second.read_bytes())
    with pytest.raises(IntegrityError, match="is not what was written"):
        parts.read(0)


def test_missing_arrays_and_folders_are_named(parts):
    (parts.folder / "shared" / "X" / "zarr.json").unlink()
    with pytest.raises(IntegrityError, match="X is not a Zarr array"):
        parts.rows("X")
    with pytest.raises(IntegrityError, match="000005 is missing"):
        parts.read(5)
    (parts.folder / "receipts" / "000000.json").write_text('{"rows": [0')
    with pytest.raises(IntegrityError, match=r"000000\.json is not a JSON file"):
        parts.receipts(200)


def test_zeros_are_written_and_read_as_they_are(tmp_path):
    parts = StoredParts(tmp_path)
    parts.allocate("X", (10, 2), np.float64, 4)
    parts.write_range(0, {"X": np.zeros((10, 2))})
    parts.write(0, {"zeros": np.zeros(5), "none": np.empty((0, 3)), "scalar": np.array(0.0)})
    assert_array_equal(parts.rows("X").read_all(), np.zeros((10, 2)))
    read = parts.read(0)
    assert_array_equal(read["zeros"], np.zeros(5))
    assert (read["none"].shape, read["scalar"].shape) == ((0, 3), ())
    parts.finish(0, {})
    verify_parts(parts)


@pytest.mark.parametrize("array", [
    np.arange(7, dtype=np.int8), np.array([True, False]), np.array([1.5, np.nan, -np.inf]), np.array(3),
    np.arange(24, dtype=">f4").reshape(2, 3, 4), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
])
def test_parts_read_back_as_written(tmp_path, array):
    parts = StoredParts(tmp_path)
    parts.write(3, {"a": array})
    actual = parts.read(3)["a"]
    assert actual.shape == array.shape
    assert_array_equal(actual, array)


def test_writes_that_share_a_chunk_are_refused(parts):
    block = np.ones((30, 3), np.float32)
    for start, rows in ((10, 30), (0, 20), (0, 45), (90, 5)):
        with pytest.raises(ParameterError, match="do not fill chunks of 30"):
            parts.write_range(start, {"X": np.resize(block, (rows, 3))})


def test_columns_are_written_by_whole_chunks_too(tmp_path):
    parts, Z = StoredParts(tmp_path), np.random.default_rng(1).normal(size=(20, 10))
    parts.allocate("Z", Z.shape, Z.dtype, 8, block_columns=4)
    for start in (0, 4, 8):
        parts.write_range(start, {"Z": Z[:, start:start + 4]}, axis=1)
    assert_array_equal(parts.rows("Z").read_all(), Z)
    with pytest.raises(ParameterError, match="columns 2 to 6 of Z do not fill chunks of 4"):
        parts.write_range(2, {"Z": Z[:, 2:6]}, axis=1)
    file = tmp_path / "shared" / "Z" / "c" / "1" / "2"
    flip(file)
    with pytest.raises(IntegrityError, match="c/1/2 is damaged"):
        parts.rows("Z").read_all()


def test_text_and_objects_are_refused(tmp_path):
    for array in (np.array(["a"]), np.array([None], object)):
        with pytest.raises(DataError, match="cannot store dtype"):
            create_array(tmp_path / "a", array.shape, array.dtype, 1)


def test_an_array_is_kept_if_it_fits_and_made_anew_if_not(parts):
    before = parts.rows("X").read_all()
    parts.allocate("X", (100, 3), np.float32, 30)
    assert_array_equal(parts.rows("X").read_all(), before)
    parts.allocate("X", (100, 3), np.float32, 50)
    with pytest.raises(IntegrityError, match="is missing"):
        parts.rows("X").read_all()


def test_rows_in_any_order(parts):
    rows = StoredRows(parts.folder / "shared" / "X")
    X = rows.read_all()
    ids = np.array([99, 0, 30, 29, 0, 61])
    assert_array_equal(rows.take(ids), X[ids])
    assert rows.take(np.array([], int)).shape == (0, 3)
    assert_array_equal(np.concatenate([block for _, block in rows.blocks(37)]), X)
    assert rows.read(5, 5).shape == (0, 3)


def test_arrays_are_read_once_until_their_content_changes(parts):
    first = StoredArrays(parts, 0).load()
    assert StoredArrays(StoredParts(parts.folder), 0).load()["ids"] is first["ids"]
    with pytest.raises(ValueError, match="read-only"):
        first["ids"][0] = 1
    parts.write(0, {"ids": np.arange(50) + 1, "count": np.array(7)})
    assert StoredArrays(parts, 0).load()["ids"][0] == 1


def test_the_cache_of_arrays_keeps_to_its_size(tmp_path, monkeypatch):
    cache = ArrayCache(2000)
    monkeypatch.setattr(store, "ARRAYS", cache)
    parts = StoredParts(tmp_path)
    for index in range(4):
        parts.write(index, {"a": np.full(100, index)})
        StoredArrays(parts, index).load()
        assert cache.nbytes <= 2000
    assert [arrays["a"][0] for arrays in cache.entries.values()] == [2, 3]
    parts.write(4, {"a": np.zeros(1000)})
    large = [StoredArrays(parts, 4).load()["a"] for _ in range(2)]  # larger than the cache: read, and not kept
    assert large[0] is not large[1]
    assert [arrays["a"][0] for arrays in cache.entries.values()] == [2, 3], "nothing goes for what is not kept"
    assert not large[0].flags.writeable


def test_what_is_kept_is_given_back(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_module, "_CACHES", [])
    cache, parts = ArrayCache(2000), StoredParts(tmp_path)
    monkeypatch.setattr(store, "ARRAYS", cache)
    parts.write(0, {"a": np.full(100, 7)})
    held = StoredArrays(parts, 0).load()
    assert release_caches()
    assert cache.nbytes == 0
    assert held["a"][0] == 7  # who has it has it still
    assert not release_caches(), "there is nothing left"


def test_what_a_process_has_written_it_need_not_read(tmp_path, monkeypatch):
    cache, parts = ArrayCache(2000), StoredParts(tmp_path)
    monkeypatch.setattr(store, "ARRAYS", cache)
    a = np.asfortranarray(np.arange(20.0).reshape(4, 5))
    parts.write(0, {"a": a})
    StoredArrays(parts, 0).keep({"a": a})
    monkeypatch.setattr(parts, "read", None)
    held = parts.arrays(0).load()["a"]
    assert_array_equal(held, a, strict=True)
    assert held.flags.c_contiguous
    assert not held.flags.writeable


def test_of_many_exclusive_writers_one_wins(tmp_path):
    path, won = tmp_path / "manifest.json", []
    writers = [threading.Thread(target=lambda i=i: won.append((i, write_json(path, {"by": i}, exclusive=True))))
               for i in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    winners = [i for i, first in won if first]
    assert len(winners) == 1
    assert read_json(path) == {"by": winners[0]}
    assert [file.name for file in tmp_path.iterdir()] == ["manifest.json"]
    write_json(path, {"by": "another"})
    assert read_json(path) == {"by": "another"}


def test_a_deleted_array_of_a_part_is_missed(tmp_path):
    parts = StoredParts(tmp_path)
    parts.write(0, {"kept": np.arange(3), "lost": np.arange(4)})
    shutil.rmtree(parts.attempt_folder(0) / "lost")
    for read in (lambda: parts.read(0), lambda: parts.arrays(0).load()):
        with pytest.raises(IntegrityError, match="lost"):
            read()


def test_an_error_of_a_write_names_the_file(tmp_path):
    """The system names none where a disk is full."""
    with pytest.raises(OSError, match="No space") as error, draft_of(tmp_path / "chunk"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert error.value.filename == str(tmp_path / "chunk")
