"""What a launcher of this machine does with ranks that end; these are lines of shell here."""

import signal
from itertools import count

import pytest

from dssl.runtime.engine import MAX_RESTARTS, Job, launch

RANKS = """
case $DSSL_RANK in
0) until [ -e {over} ]; do sleep 0.05; done;;  # the scheduler, which the driver ends
1) {driver}; touch {over};;
*) exit 3;;                                    # a worker that cannot live
esac
"""


@pytest.fixture(autouse=True)
def handlers():
    """Give signals back to the tests."""
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def launched(tmp_path, capfd):
    """Return a function that launches a job of three ranks, and returns what the launcher says."""
    (tmp_path / "logs").mkdir()

    def run(driver, finished=lambda: 0):
        (tmp_path / "rank.sh").write_text(RANKS.format(driver=driver, over=tmp_path / "over"))
        job = Job("dssl-1", tmp_path, ("/bin/sh", str(tmp_path / "rank.sh")), ("/bin/true",), tmp_path, ranks=3)
        assert launch(job, finished, look_every=0.01) == 0
        return capfd.readouterr().err

    return run


def test_a_worker_that_cannot_live_is_given_up(launched, tmp_path):
    driver = f"until [ -e {tmp_path}/enough ]; do sleep 0.1; done"

    def finished():  # which is asked for once at first, and each time that a worker has ended
        if next(asked) > MAX_RESTARTS:
            (tmp_path / "enough").touch()
        return 0

    asked = count()
    said = launched(driver, finished)
    assert said.count("is started again") == MAX_RESTARTS
    assert "rank 2 ended with 3, the 11th while no part was finished: it is not started again" in said


def test_workers_are_started_again_as_long_as_parts_are_finished(launched, tmp_path):
    def finished():
        if (number := next(asked)) > 2 * MAX_RESTARTS:
            (tmp_path / "enough").touch()
        return number

    asked = count()
    said = launched(f"until [ -e {tmp_path}/enough ]; do sleep 0.1; done", finished)
    assert said.count("is started again") > 2 * MAX_RESTARTS - 1
    assert "not started again" not in said


@pytest.mark.timeout(15)
def test_nobody_waits_for_ranks_whose_driver_was_killed(launched):
    """`GRACE` is longer than this test may take."""
    assert "rank 0 has not ended, and is killed" in launched("kill -9 $$")
