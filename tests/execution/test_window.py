"""Waiting for tasks: an interrupt comes out where it breaks nothing, once, and is never lost."""

import os
import signal
import threading
import time
from itertools import count

import pytest

from dssl.base import signals
from dssl.base.errors import ClusterError, Terminated
from dssl.base.signals import raise_interrupted, raise_preempted, raise_terminated
from dssl.execution.in_process import InProcess
from dssl.execution.tasks import Placed
from dssl.execution.window import Finished, run_in_window
from dssl.storage.blocks import MemoryParts
from tests.handlers import handled

HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: raise_terminated,
            signal.SIGUSR1: raise_preempted}


@pytest.fixture(autouse=True)
def heeded():
    with handled(HANDLERS):
        yield


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def later():
    timer = threading.Timer(0.1, interrupt)
    timer.start()
    return timer


def steps_of(*actions):
    """Return how many actions were done, and whether an interrupt was raised."""
    done = 0
    try:
        with Finished() as finished:
            for action in actions:
                action(finished)
                done += 1
    except KeyboardInterrupt:
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        return done, True
    return done, False


def put(finished):
    finished.put("a task")


def get(finished):
    assert finished.get() == "a task"


@pytest.mark.parametrize(("actions", "done"), [
    ([lambda finished: later(), get], 1),  # it wakes who waits
    ([put, lambda finished: interrupt(), put, get], 3),  # it comes before what has finished, and not between
    ([put, lambda finished: interrupt()], 2),  # nobody asks for it: at the end
    ([lambda finished: interrupt(), put, lambda finished: interrupt(), put], 2),  # the second one at once
])
def test_an_interrupt_is_raised_where_it_breaks_nothing(actions, done):
    assert steps_of(*actions) == (done, True)
    assert steps_of(put, put, get, get) == (4, False)


def test_termination_is_raised_as_such_where_it_breaks_nothing():
    def terminated():
        with Finished() as finished:
            os.kill(os.getpid(), signal.SIGTERM)
            finished.put("a task")
            finished.get()

    with pytest.raises(Terminated):
        terminated()
    assert signal.getsignal(signal.SIGTERM) is raise_terminated


def test_the_handler_of_a_command_waits_as_well():
    signal.signal(signal.SIGINT, raise_interrupted)
    done = []

    def interrupted():
        with Finished() as finished:
            interrupt()
            done.append(True)
            finished.put("a task")
            finished.get()

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is raise_interrupted


def test_no_task_begins_after_an_interrupt_that_was_lost(monkeypatch):
    monkeypatch.setattr(signals, "_arrived", [KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        InProcess(1).map([], MemoryParts())


def test_a_handler_of_somebody_else_stays():
    seen = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    with Finished() as finished:
        interrupt()
        finished.put("a task")
        assert finished.get() == "a task"
    assert seen == [signal.SIGINT]


def test_tasks_in_threads_are_interrupted_between_two_and_what_is_done_is_kept():
    started = count()

    def nap(out):
        if next(started) == 10:
            interrupt()
        time.sleep(0.02)
        return out.write()

    parts = MemoryParts()
    with pytest.raises(KeyboardInterrupt):
        InProcess(2).map([nap] * 500, parts)
    done = set(parts.receipts(200))
    assert 2 < len(done) < 500
    receipts = InProcess(2).map([nap] * len(done), parts)
    assert len(receipts) == len(done)


class LostResult:
    """A future whose result was lost with its worker, as Dask's are: it is finished, and then is not for a while."""

    def __init__(self, *outcomes, status="finished"):
        self.outcomes, self.status = list(outcomes), status

    def add_done_callback(self, call):
        call(self)

    def result(self, timeout):
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def collected(future, look=lambda: None):
    actual = {}

    def done(placed, receipt):
        actual[placed.index] = receipt
        return []

    with Finished() as finished:
        run_in_window([Placed(None, None, 7)], 1, lambda placed: future, done, {}, finished, look,
                      look_every=0.0)
    return actual


def test_a_result_that_was_lost_is_waited_for_with_open_eyes():
    looks = []
    assert collected(LostResult(TimeoutError(), TimeoutError(), {"a": 1}), lambda: looks.append(1)) == {7: {"a": 1}}
    assert len(looks) >= 2

    def no_worker():
        raise ClusterError("all workers are gone")

    with pytest.raises(ClusterError, match="all workers are gone"):
        collected(LostResult(*[TimeoutError()] * 9), no_worker)
    with pytest.raises(TimeoutError, match="of the task"):
        collected(LostResult(TimeoutError("of the task"), status="error"))
