"""How far this process grows: alone, nested, in threads, and where the system cannot tell."""

import threading
from multiprocessing import get_context

import numpy as np
import psutil
import pytest
from numba import njit

from dssl.base import profiler as measure
from dssl.base.profiler import PeakMemory, library, process_peak, return_freed_memory
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts

MB = 1 << 20


def take(megabytes):
    np.ones(megabytes * MB // 8)


@pytest.fixture(autouse=True)
def _as_in_a_run():
    return_freed_memory()


def test_a_peak_that_is_over_is_measured():
    with PeakMemory() as peak:
        take(160)
    assert peak.bytes == pytest.approx(160 * MB, rel=0.1)


def test_what_was_there_before_is_not_counted():
    held = np.ones(100 * MB // 8)
    with PeakMemory() as peak:
        take(60)
    assert len(held)
    assert peak.bytes == pytest.approx(60 * MB, rel=0.15)


def test_memory_that_was_freed_before_does_not_hide_what_is_taken():
    rows = [np.ones(1000) for _ in range(10_000)]  # 80 MB in small pieces, which the C library keeps
    del rows
    with PeakMemory() as peak:
        rows = [np.ones(1000) for _ in range(10_000)]
    assert len(rows) == 10_000
    assert peak.bytes == pytest.approx(80e6, rel=0.15)


def resident_after_holes(out):
    """Put how far this process grew by arrays of which the last alone is kept, once a large one was freed."""
    take(24)
    return_freed_memory()
    before = psutil.Process().memory_info().rss
    arrays = [np.ones(MB // 8) for _ in range(40)]
    del arrays[:-1]
    out.put(psutil.Process().memory_info().rss - before)


def test_what_is_freed_between_arrays_is_given_back_whatever_was_freed_before():
    context = get_context("spawn")
    out = context.Queue()
    process = context.Process(target=resident_after_holes, args=(out,))
    process.start()
    grown = out.get(timeout=60)
    process.join()
    assert grown < 10 * MB


def test_an_inner_measure_does_not_disturb_the_outer():
    with PeakMemory() as outer:
        take(120)
        with PeakMemory() as inner:
            take(40)
        take(20)
    assert inner.bytes == pytest.approx(40 * MB, rel=0.15)
    assert outer.bytes == pytest.approx(120 * MB, rel=0.1)


def test_an_error_leaves_no_measure_open():
    with pytest.raises(ValueError, match="inside"), PeakMemory():
        raise ValueError("inside")
    assert PeakMemory._open == []


def test_overlapping_measures_are_of_the_process():
    both, release = threading.Barrier(2), threading.Barrier(2)
    peaks = []

    def work():
        with PeakMemory() as peak:
            both.wait()
            block = np.ones(50 * MB // 8)
            release.wait()
        peaks.append((peak.bytes, len(block)))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(size for size, _ in peaks) == pytest.approx(100 * MB, rel=0.15)


def test_the_peak_of_the_process_outlives_a_reset():
    with PeakMemory():
        take(200)
    before = process_peak()
    with PeakMemory() as peak:
        take(1)
    assert process_peak() >= before > peak.bytes


def test_a_system_that_cannot_tell_says_none(monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "CLEAR", tmp_path / "none" / "clear_refs")
    with PeakMemory() as peak:
        take(10)
    assert peak.bytes is None


class HungryTask:
    def __call__(self, out):
        take(120)
        return {}


def test_receipts_hold_the_peak_of_their_task():
    execution = InProcess(1)
    receipt, = execution.map([HungryTask()], MemoryParts())
    assert receipt["task_peak_bytes"] == pytest.approx(120 * MB, rel=0.1)
    assert execution.largest_task_bytes == receipt["task_peak_bytes"]
    assert receipt["peak_rss_bytes"] > 120 * MB


def measured(out):
    """Put how far this process grew by nothing, by 5 MB beside what is loaded, and the most that it held."""
    return_freed_memory()
    with PeakMemory() as idle:
        pass
    with PeakMemory() as peak:
        held = np.ones(5 << 17)
        library("sklearn.svm")
        assert njit(lambda x: x.sum() + np.sqrt(x).max())(held) > 1
    out.put((idle.bytes, peak.bytes, process_peak()))


@pytest.mark.slow
def test_libraries_and_kernels_that_are_loaded_are_the_processs_own():
    """They take 150 MB; neither these nor what the process held that started it are taken for arrays."""
    held, context = np.ones(600 * MB // 8), get_context("spawn")
    out = context.Queue()
    process = context.Process(target=measured, args=(out,))
    process.start()
    idle, taken, whole = out.get(timeout=120)
    process.join()
    assert len(held)
    assert idle < 2 * MB
    assert 5 * MB <= taken < 15 * MB
    assert 150 * MB < whole < 600 * MB
