"""Columns that float32 would lose."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl.base.errors import DataError
from dssl.data.dataset import Dataset
from dssl.data.floats import RESOLVED, narrow_columns, refuse_indistinct_columns
from dssl.data.ingest import ingest
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts

RNG = np.random.default_rng(0)
SECONDS = 1.7e9 + RNG.integers(0, 3600, 300)  # a time in an hour: float32 tells 29 of them apart


def is_lost(column):
    """The rule as it is stated, on a whole column."""
    column = np.asarray(column, np.float64)
    spread, largest = column.max() - column.min(), np.abs(column).max()
    exact = (column.astype(np.float32) == column).all()
    return (not exact and 0 < spread < RESOLVED * float(np.spacing(np.float32(largest)))
            and spread >= RESOLVED * np.spacing(largest))


def refused(blocks):
    try:
        refuse_indistinct_columns([narrow_columns(block, np.float32) for block in blocks], None, "X", "fix")
    except DataError:
        return True
    return False


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(offset=st.sampled_from([0.0, 1.0, -3.7, 1e5, -1e9, 1e15, 1e-30, 2.0**25]), scale=st.integers(-30, 8),
       random_state=st.integers(0, 2**32), n=st.integers(1, 200), blocks=st.integers(1, 200), outlier=st.booleans(),
       kind=st.sampled_from([np.float64, np.int64]))
def test_any_blocks_find_what_the_rule_says(offset, scale, random_state, n, blocks, outlier, kind):
    rng = np.random.default_rng(random_state)
    column = np.clip(offset + rng.uniform(-1, 1, n) * max(abs(offset), 1e-30) * 10.0**scale, -9e18, 9e18).astype(kind)
    if outlier:
        column[rng.integers(n)] = 3 * offset
    X = np.column_stack([column, rng.normal(size=n).astype(kind)])
    pieces = [X[start:start + blocks] for start in range(0, n, blocks)]
    assert refused(pieces) == (is_lost(X[:, 0]) or is_lost(X[:, 1]))
    if np.abs(X[:, 0]).max() > 1e-41 or (X[:, 0] != 0).all():
        assert refused([sparse.csr_array(piece) for piece in pieces]) == refused(pieces)


@pytest.mark.parametrize(("column", "lost"), [
    (SECONDS, True), (SECONDS - 1.7e9, False), (np.full(9, 1.7e9 + 1), False), (1e5 + np.arange(300) * 1e-3, True),
    (np.arange(300) + 2.0**24 - 300, False), (2.0**30 + 128.0 * np.arange(300), False),
    (0.1 + 1e-17 * np.arange(9), False),
    (np.where(np.arange(9) % 2, 0.1 + 0.2, 0.3), False), (np.append(SECONDS, 0), False), (np.arange(9) * 1e-50, True),
    (np.array([0.0, 1.0] * 5), False), (np.linspace(0.1, 0.9, 9), False),
])
def test_columns_that_are_lost_and_those_that_are_not(column, lost):
    assert refused([np.asarray(column)[:, None]]) == lost == is_lost(column)


@pytest.mark.parametrize("height", [40, None])
@pytest.mark.parametrize("name", ["t.csv", "t.npz", "t.svm"])
def test_ingest_refuses_with_the_column_and_its_range(tmp_path, name, height):
    frame = pd.DataFrame({"a": RNG.normal(size=300), "time": SECONDS, "y": 1})
    if name == "t.csv":
        frame.to_csv(tmp_path / name, index=False)
    elif name == "t.npz":
        np.savez(tmp_path / name, X=frame[["a", "time"]].to_numpy(), columns=np.array(["a", "time"]))
    else:
        (tmp_path / name).write_text("".join(f"1 1:{a!r} 2:{t!r}\n" for a, t in zip(
            frame["a"].tolist(), frame["time"].tolist(), strict=True)))
    label = r"column 1 \(counted from 0\)" if name == "t.svm" else "column 'time'"
    message = label + rf" ranges from {SECONDS.min()} to {SECONDS.max()}, 28 steps of float32[\s\S]*dtype: float64"
    for sparse_rows in (None, True):
        with pytest.raises(DataError, match=message):
            ingest(tmp_path / name, MemoryParts(), InProcess(1), block_rows=height, sparse=sparse_rows)
        data = ingest(tmp_path / name, MemoryParts(), InProcess(1), block_rows=height, dtype="float64",
                      sparse=sparse_rows)
        assert_array_equal(data.X.read(0, 300)[:, [1]].ravel() if not sparse_rows else
                           data.X.read(0, 300).toarray()[:, 1], SECONDS)


def test_a_column_that_one_block_clears_is_kept(tmp_path):
    X = np.append(SECONDS, 5.0)[:, None]
    np.save(tmp_path / "t.npy", X)
    data = ingest(tmp_path / "t.npy", MemoryParts(), InProcess(1), block_rows=100)
    assert_array_equal(data.X.read_all(), X.astype(np.float32))


def test_arrays_of_integers_are_refused_and_floats_stay():
    X = SECONDS.astype(np.int64)[:, None]
    with pytest.raises(DataError, match=r"column 0 [\s\S]*pass X as float64"):
        Dataset.from_arrays(X)
    with pytest.raises(DataError, match=r"column 'time'"):
        Dataset.from_arrays(pd.DataFrame({"time": SECONDS.astype(np.int64), "kind": "a"}), when_text="one_hot")
    assert_array_equal(Dataset.from_arrays(SECONDS[:, None]).X.read_all(), SECONDS[:, None])
    assert_array_equal(Dataset.from_arrays(np.arange(2**24 - 9, 2**24)[:, None]).X.read_all()[:, 0],
                       np.arange(2**24 - 9, 2**24))


def test_a_fill_between_whole_numbers_does_not_make_their_column_a_lost_one(tmp_path):
    days = 16_000_000 + np.arange(100.0)
    days[::7] = np.nan
    fill = np.float32(np.nanmean(days))
    assert float(fill) != np.nanmean(days)
    np.save(tmp_path / "t.npy", days[:, None])
    stored = ingest(tmp_path / "t.npy", MemoryParts(), InProcess(1), when_missing="impute")
    frame = pd.DataFrame({"days": pd.array(days).astype("Int64")})
    for data in (stored, Dataset.from_arrays(frame, when_missing="impute")):
        assert data.X.dtype == np.float32
        assert_array_equal(data.X.read_all()[:, 0], np.where(np.isnan(days), fill, days))


def test_types_that_float32_holds_are_not_looked_at():
    def narrow(dtype, wanted=np.float32):
        return narrow_columns(np.ones((2, 1), dtype), wanted)

    assert all(narrow(dtype) is None for dtype in (bool, "u1", "i2", "f2", "f4", ">f4"))
    assert all(narrow(dtype) is not None for dtype in ("f8", ">f8", "i4", "u4", "i8"))
    assert narrow("f8", np.float64) is None


def test_several_columns_are_counted():
    X = np.column_stack([SECONDS, RNG.normal(size=300), SECONDS + 1])
    with pytest.raises(DataError, match=r"column 0 .*and so do 1 more columns"):
        refuse_indistinct_columns([narrow_columns(part, np.float32) for part in (X[:100], X[100:])], None, "X", "fix")
