"""A shuffle is a stable sort by bucket, and a bucket that is not as it was written is an error that names its file."""

from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError, IntegrityError, ParameterError
from dssl.execution.exchange.shuffle import gather, pieces, scatter
from dssl.storage.blocks import MemoryParts, PartWriter
from dssl.storage.bucket_file import ENTRY
from dssl.storage.store import StoredParts
from dssl.storage.verify import verify_finished, verify_parts

WRITERS, BUCKETS = 3, 4


def write(parts, index, bucket, n_buckets=BUCKETS, **arrays):
    parts.finish(index, scatter(PartWriter(parts, index), np.asarray(bucket), n_buckets, **arrays))


@given(st.data())
def test_it_is_a_stable_sort_by_bucket(data):
    n_buckets, writers = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
    buckets = [np.array(data.draw(st.lists(st.integers(0, n_buckets - 1), max_size=12)), int) for _ in range(writers)]
    place = np.split(np.arange(sum(map(len, buckets))), np.cumsum([len(bucket) for bucket in buckets]))
    with TemporaryDirectory() as folder:
        for parts in (MemoryParts(), StoredParts(folder)):
            for index, bucket in enumerate(buckets):
                write(parts, index, bucket, n_buckets, place=place[index])
            actual = [gather(parts, writers, bucket)["place"] for bucket in range(n_buckets)]
            order = np.argsort(np.concatenate(buckets), kind="stable")
            assert_array_equal(np.concatenate(actual), order)
            assert_array_equal([len(rows) for rows in actual],
                               np.bincount(np.concatenate(buckets), minlength=n_buckets))


@pytest.fixture(params=["memory", "stored"])
def parts(request, tmp_path):
    return MemoryParts() if request.param == "memory" else StoredParts(tmp_path / "stage")


@pytest.mark.parametrize("n_rows", [0, 5])
@pytest.mark.parametrize("dtype", ["?", "<i4", ">f8", "<u8", "<f4", "u1"])
def test_types_and_widths_stay(parts, n_rows, dtype):
    values = np.arange(n_rows * 6).reshape(n_rows, 3, 2).astype(dtype)
    write(parts, 0, np.full(n_rows, 1), values=values, number=np.arange(n_rows))
    for bucket in range(BUCKETS):
        actual = gather(parts, 1, bucket)
        assert actual["values"].dtype == np.dtype(dtype).newbyteorder("<") or isinstance(parts, MemoryParts)
        assert_array_equal(actual["values"], values if bucket == 1 else values[:0])
        assert list(actual) == ["values", "number"]


def test_a_row_may_go_into_several_buckets(parts):
    for index, (bucket, rows, x) in enumerate((([2, 0, 2], np.array([1, 1, 0]), [7, 8]), ([2], None, [9]))):
        parts.finish(index, scatter(PartWriter(parts, index), np.array(bucket), BUCKETS, rows, x=np.array(x)))
    assert_array_equal(gather(parts, 2, 2)["x"], [8, 7, 9])
    assert [piece["x"].tolist() for piece in pieces(parts, 2, 2)] == [[8, 7], [9]]
    assert [piece["x"].tolist() for piece in pieces(parts, 2, 0)] == [[8]]
    with pytest.raises(ParameterError, match="equal length"):
        scatter(PartWriter(parts, 2), np.array([2]), BUCKETS, np.array([0, 1]), x=np.array([9]))


def test_a_part_holds_arrays_of_its_own_beside_its_buckets(parts):
    writer = PartWriter(parts, 0, "attempt")
    receipt = scatter(writer, np.array([0, 1]), BUCKETS, x=np.arange(2)) | writer.write(item=np.arange(3))
    parts.finish(0, receipt, "attempt")
    assert_array_equal(parts.read(0)["item"], np.arange(3))
    assert_array_equal(gather(parts, 1, 1)["x"], [1])


@pytest.mark.parametrize("bucket", [[0, 4], [-1, 0], [0]])
def test_wrong_buckets_are_refused(parts, bucket):
    with pytest.raises(ParameterError, match="bucket"):
        write(parts, 0, bucket, x=np.arange(2))


def test_what_is_no_number_is_refused(tmp_path):
    with pytest.raises(DataError, match="x of dtype <U1"):
        write(StoredParts(tmp_path), 0, [0], x=np.array(["a"]))


# Damage


@pytest.fixture
def stored(tmp_path):
    parts = StoredParts(tmp_path / "stage")
    rng = np.random.default_rng(0)
    for index in range(WRITERS):
        write(parts, index, rng.integers(BUCKETS, size=60), x=rng.normal(size=(60, 2)), i=rng.integers(99, size=60))
    return parts


def assert_noticed(parts, file):
    """Some bucket cannot be read, with an error that names the file, and `dssl verify` finds it too."""
    messages = []
    for bucket in range(BUCKETS):
        try:
            gather(parts, WRITERS, bucket)
        except IntegrityError as error:
            messages.append(str(error))
    assert messages
    assert all(str(file) in message and "run again" in message for message in messages)
    for verify in (verify_parts, verify_finished):
        with pytest.raises(IntegrityError, match="buckets"):
            verify(parts)


def test_every_flipped_byte_is_noticed(stored):
    file = stored.attempt_folder(1) / "buckets"
    raw = file.read_bytes()
    verify_parts(stored)
    assert verify_finished(stored) == WRITERS
    for at in [*range(0, len(raw) - 1, 37), len(raw) - 1]:
        file.write_bytes(raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1:])
        assert_noticed(stored, file)


@pytest.mark.parametrize("length", [0, 5, 100, 300, -1])
def test_missing_bytes_are_noticed(stored, length):
    file = stored.attempt_folder(2) / "buckets"
    file.write_bytes(file.read_bytes()[:length])
    assert_noticed(stored, file)


def test_a_missing_file_is_noticed(stored):
    file = stored.attempt_folder(0) / "buckets"
    file.unlink()
    assert_noticed(stored, file)


def test_the_buckets_of_another_part_are_noticed(stored):
    file = stored.attempt_folder(0) / "buckets"
    file.write_bytes((stored.attempt_folder(1) / "buckets").read_bytes())
    assert_noticed(stored, file)


def test_exchanged_entries_are_noticed(stored):
    file = stored.attempt_folder(0) / "buckets"
    raw = file.read_bytes()
    table = len(raw) - sum(int(entry["bytes"]) for entry in entries(raw)) - BUCKETS * ENTRY.itemsize
    first, second, rest = table, table + ENTRY.itemsize, table + 2 * ENTRY.itemsize
    file.write_bytes(raw[:first] + raw[second:rest] + raw[first:second] + raw[rest:])
    assert_noticed(stored, file)


def entries(raw):
    """Return the entries of a file of buckets, which lie behind its description."""
    at = 8 + int.from_bytes(raw[:8], "little") + 4
    return np.frombuffer(raw, ENTRY, BUCKETS, at)


def test_a_bucket_is_read_without_the_others(stored):
    """Whatever lies outside its entry and its frame may be lost."""
    file = stored.attempt_folder(0) / "buckets"
    raw = file.read_bytes()
    entry, last = entries(raw)[0], entries(raw)[BUCKETS - 1]
    before = gather(stored, WRITERS, 0)
    file.write_bytes(raw[:int(entry["start"] + entry["bytes"])])
    for name, array in gather(stored, WRITERS, 0).items():
        assert_array_equal(array, before[name])
    assert last["start"] > entry["start"]
    with pytest.raises(IntegrityError):
        gather(stored, WRITERS, BUCKETS - 1)


def test_no_frame_is_looked_for_where_nothing_is(monkeypatch):
    parts, read = MemoryParts(), []
    for writer in range(5):
        scatter(PartWriter(parts, writer), np.full(3, writer), 5, x=np.full(3, writer))
    whole = parts.read_bucket
    monkeypatch.setattr(parts, "read_bucket", lambda index, bucket: read.append(index) or whole(index, bucket))
    assert gather(parts, 5, 3)["x"].tolist() == [3, 3, 3]
    assert read == [0, 3]  # the first, for types and widths
