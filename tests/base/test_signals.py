"""Signals wait while something must not be interrupted, and are not lost where Python drops exceptions."""

import gc
import multiprocessing
import os
import signal
import threading

import pytest

from dssl.base.errors import Terminated
from dssl.base.signals import (
    heed_signals,
    interrupts_not_inherited,
    raise_interrupted,
    raise_terminated,
    signals_deferred,
    signals_raised,
)
from tests.handlers import handled


@pytest.fixture(autouse=True)
def as_in_a_command():
    with handled({signal.SIGTERM: raise_terminated, signal.SIGINT: raise_interrupted}):
        yield


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_comes_after_what_must_not_be_interrupted():
    done = []

    def body():
        with signals_deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("all of it")

    with pytest.raises(Terminated):
        body()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGTERM) is raise_terminated


def test_an_error_within_is_raised_as_it_is():
    with pytest.raises(KeyError), signals_deferred():
        raise KeyError
    assert signal.getsignal(signal.SIGTERM) is raise_terminated


def test_an_interrupt_while_processes_start_comes_at_the_end():
    done = []

    def body():
        with interrupts_not_inherited():
            interrupt()
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        body()
    assert done == ["all of it"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def blocks_interrupts(answers):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt()
    answers.put(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def test_processes_that_are_started_meanwhile_are_not_interrupted():
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=blocks_interrupts, args=(answers,))
    with interrupts_not_inherited():
        process.start()
    process.join()
    assert (process.exitcode, answers.get()) == (0, True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_in_a_callback_of_the_garbage_collector_is_raised_afterwards():
    def callback(phase, info):
        if phase == "stop":
            gc.callbacks.remove(callback)
            interrupt()

    heed_signals()  # nothing has arrived
    gc.callbacks.append(callback)
    gc.collect()  # Python drops what is raised
    with pytest.raises(KeyboardInterrupt):
        heed_signals()


def test_a_command_raises_signals_and_leaves_the_handlers_as_they_were():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with pytest.raises(Terminated), signals_raised():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    heed_signals()  # of the next command none has arrived


def test_other_threads_have_no_handlers():
    seen = []

    def work():
        with signals_deferred(), signals_raised():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [raise_terminated]
