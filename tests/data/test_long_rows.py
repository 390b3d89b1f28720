"""Rows and chunks that unpack to far more than any row or chunk holds: refused by a few bytes of their heads."""

import gzip
import resource

import numpy as np
import pytest
from numcodecs.zstd import Zstd

from dssl.base.errors import DataError, IntegrityError
from dssl.data.ingest import ingest
from dssl.data.readers.lines import LONGEST
from dssl.execution.in_process import InProcess
from dssl.storage.array_files import open_array, read_rows
from dssl.storage.frames import content_size, crc
from dssl.storage.store import StoredParts

LONG = b"0" * (LONGEST + (1 << 17))


@pytest.mark.parametrize(("name", "text", "line"), [
    ("t.csv.gz", b"a,b,label\n1,2,x\n" + LONG + b",1,y\n", 3), ("t.csv.gz", LONG + LONG, 1),
    ("t.csv", b"a,b,label\n" + b"1,2,x\n" * 20_000 + LONG + b",1,y\n" + b"1,2,x\n" * 10, 20_002),
    ("t.svm", b"1 1:1\n1 1:" + LONG + b"\n", 2)])
def test_a_row_that_is_none_is_named_by_its_line(tmp_path, name, text, line):
    (tmp_path / name).write_bytes(gzip.compress(text, 1) if name.endswith("gz") else text)
    with pytest.raises(DataError, match=rf"line {line} \(byte [\d,]+\) has (more than )?[\d,]+ bytes"):
        ingest(tmp_path / name, StoredParts(tmp_path / "data"), InProcess(1))


@pytest.mark.parametrize("size", [1, 200, 255, 256, 300, 65_791, 65_792, 1 << 20])
def test_a_frame_says_to_how_much_it_unpacks(size):
    assert content_size(Zstd(level=1).encode(bytes(size))) == size
    assert content_size(b"") is None


def test_a_chunk_that_unpacks_to_gigabytes_is_damaged(tmp_path):
    parts = StoredParts(tmp_path / "parts")
    parts.write(0, {"x": np.ones((5, 2))})
    path = next(tmp_path.rglob("zarr.json")).parent
    chunk = next(actual for actual in sorted(path.rglob("*")) if actual.is_file() and actual.name != "zarr.json")
    packed = Zstd(level=1).encode(np.zeros(1 << 30, np.uint8))
    assert len(packed) < 1 << 17
    chunk.write_bytes(packed + crc(packed))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(IntegrityError, match=r"decompresses to 1,073,741,824 bytes, expected 80"):
        read_rows(path, 0, open_array(path).shape[0])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19  # kB
