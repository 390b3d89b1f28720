"""Signals wait while something must not be interrupted."""

import os
import signal
import threading

import pytest

from dssl.base.errors import Terminated, raise_terminated
from dssl.base.signals import interrupts_ignored, signals_deferred


@pytest.fixture
def handled():
    before = signal.signal(signal.SIGTERM, raise_terminated)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_signal_comes_after_what_must_not_be_interrupted(handled):
    done = []

    def body():
        with signals_deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("all of it")

    with pytest.raises(Terminated):
        body()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGTERM) is raise_terminated


def test_an_error_within_is_raised_as_it_is(handled):
    with pytest.raises(KeyError), signals_deferred():
        raise KeyError
    assert signal.getsignal(signal.SIGTERM) is raise_terminated


def test_an_interrupt_is_ignored_for_a_while():
    before = signal.getsignal(signal.SIGINT)
    with interrupts_ignored():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_have_no_handlers(handled):
    seen = []

    def work():
        with signals_deferred(), interrupts_ignored():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [raise_terminated]
