"""Any bytes under any name are read in full or refused with a message, and a refusal leaves nothing behind."""

import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from dssl.base.errors import DataError
from dssl.data.sources import find_source

from .claims import read_or_refused, text_of
from .files import File, damaged, damaged_inside, packed, random_files, text_files, with_options
from .profile import thorough


def outcome(file):
    """Read one file in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="dssl-fuzz-"))
    try:
        return read_or_refused(file, folder)
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow
@thorough(12)
@given(packed())
def test_valid_files_are_read(file):
    found = outcome(file)
    if isinstance(found, str):  # a missing cell or a number that is not finite in X
        assert any(word in found for word in ("missing cell", "not finite", "label")), found


@pytest.mark.parametrize("files", [damaged(), damaged_inside(), random_files, text_files, with_options()],
                         ids=["damaged", "damaged inside", "random bytes", "text", "options"])
@pytest.mark.extended_cases("damaged", "damaged inside", "options", "random bytes")
def test_any_file_is_read_or_refused_with_a_message(files):
    refused = []

    @thorough(60)
    @given(files)
    def check(file):
        refused.append(isinstance(outcome(file), str))

    check()
    assert any(refused)


# ---- what fuzzing found


def test_a_value_that_is_refused_after_parts_were_written_leaves_none_of_them():
    assert "has a missing cell in row 0" in outcome(File("t.csv", b"?,1"))


@pytest.mark.parametrize("raw", [b'""', b'""\n""\n', b'\n""\n\n'])
@pytest.mark.parametrize("options", [{}, {"header": True}, {"delimiter": "whitespace"}])
def test_lines_of_empty_quotes_are_no_rows(raw, options):
    assert "no rows" in outcome(File("t.csv", raw, options)) or "no feature columns" in outcome(
        File("t.csv", raw, options))


@pytest.mark.parametrize(("at", "value"), [(6, b"\xd8\0"), (8, b"\xff\xff"), (10, b"\x0e\0"), (42, b"\xff\xff\xff\x7f"),
                                           (46, b"\xff\xff")], ids=["version", "flags", "method", "offset", "name"])
def test_directories_of_archives_that_are_damaged_are_refused(at, value):
    held = io.BytesIO()
    np.savez(held, X=np.ones((2, 1)))
    raw = held.getvalue()
    begin = raw.rindex(b"PK\1\2") + at
    assert "t.npz" in outcome(File("t.npz", raw[:begin] + value + raw[begin + len(value):]))


@pytest.mark.parametrize("labels", [np.array([0x110000, 65], "<u4").view("<U1"), np.array([b"\xff", b"a"], "S1")],
                         ids=["beyond Unicode", "not UTF-8"])
def test_labels_that_are_not_text_are_refused(labels):
    held = io.BytesIO()
    np.save(held, labels)
    X = io.BytesIO()
    np.save(X, np.ones((2, 1)))
    found = outcome(File("t.npy", X.getvalue(), {"labels": "labels.npy"}, {"labels.npy": held.getvalue()}))
    assert "labels that are not text" in found


@pytest.mark.parametrize("count", [b"\1", b"\4"], ids=["-1", "2"])
def test_a_parquet_footer_that_contradicts_itself_is_refused(count):
    held = io.BytesIO()
    pd.DataFrame({"a": [1.0], "y": [0]}).to_parquet(held, compression=None)
    raw, refused = held.getvalue(), []
    for at in range(len(raw) - 8 - int.from_bytes(raw[-8:-4], "little"), len(raw) - 8):
        changed = raw[:at] + count + raw[at + 1:]
        if raw[at] == 2:  # one row, as a zigzag varint; among other things that are 1
            rows = pq.read_metadata(io.BytesIO(changed))
            if rows.num_rows != rows.row_group(0).num_rows:
                refused.append(outcome(File("t.parquet", changed)))
    assert len(refused) == 2
    assert all("in its row groups" in found for found in refused)


@pytest.mark.parametrize("name", ["x" * 5000 + ".csv", "a/" + "x" * 300, "~nobody-of-that-name/t.csv", "a\0b.csv",
                                  "~nobody-of-that-name/*.csv", "x" * 300 + "*.csv"])
def test_names_that_no_file_can_have_are_refused(name):
    for arguments in ({}, {"labels": name}):
        with pytest.raises(DataError) as error:
            find_source("digits" if arguments else name, **arguments, download=False)
        text_of(error.value)


@pytest.mark.parametrize("url", ["http://[", "http://[::1/t.csv", "://", "file:///nowhere\0.csv", "gopher://a/b"])
def test_texts_that_are_no_urls_are_refused(url):
    with pytest.raises(DataError) as error:
        find_source(url, download=False)
    text_of(error.value)
