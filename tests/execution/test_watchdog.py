"""A wait for a cluster on which nothing works ends in its time, with its cause."""

import pytest

from dssl.base.errors import ClusterError
from dssl.execution.watchdog import Watchdog

ADDRESS = "tcp://1.2.3.4:5"


class FakeClient:
    """Answers as a scheduler with these workers does."""

    def __init__(self, *answers):
        self.answers, self.scheduler, self.asked = list(answers), self, 0
        self.addr = "tcp://scheduler:8786"

    def identity(self):
        """Is what is asked."""

    def sync(self, question, **options):
        assert question == self.identity
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"workers": {f"{ADDRESS}{number}": worker for number, worker in enumerate(answer)}}


def worker(status="running", memory=0):
    return {"status": status, "memory_limit": 1 << 30, "metrics": {"memory": memory}}


def waited(*answers, seconds=121, work_at=None):
    """Look every second for so long; return the client, and the second and message of the error if one was raised."""
    client, now = FakeClient(*answers), [0.0]
    dog = Watchdog(client, 120.0, clock=lambda: now[0])
    for second in range(1, seconds + 1):
        now[0] = second
        if second == work_at:
            dog.saw_work()
        try:
            dog.look()
        except ClusterError as error:
            return client, second, str(error)
    return client, None, ""


@pytest.mark.parametrize(("answers", "text"), [
    ([[]], "no worker has connected to the scheduler at tcp://scheduler:8786 for 120 seconds"),
    ([[worker()], []], "the scheduler at tcp://scheduler:8786 has had no workers for"),
    ([[worker("paused", 900 << 20), worker("paused")]], f"{ADDRESS}0 holds 900 MiB of 1,024"),
    ([[worker("paused")]], "all 1 workers at tcp://scheduler:8786 have been paused for 120 seconds"),
    ([[worker("closing")]], "has had no workers"), ([TimeoutError()], "has not answered for 120 seconds"),
])
def test_the_cause_is_named_in_time(answers, text):
    _, second, message = waited(*answers, seconds=200)
    assert 120 <= second <= 140
    assert text in message
    assert "finished parts are kept" in message


@pytest.mark.parametrize("answers", [
    [[worker()]], [[worker("paused"), worker()]], [[]] * 9 + [[worker()]] * 9 + [[]],
])
def test_while_one_worker_runs_it_goes_on(answers):
    assert waited(*answers, seconds=200)[1] is None


def test_a_scheduler_is_not_asked_while_tasks_finish():
    client, now = FakeClient([worker()]), [0.0]
    dog = Watchdog(client, 120.0, clock=lambda: now[0])
    for second in range(100):
        now[0] = second
        dog.saw_work()
        dog.look()
    assert client.asked == 0
    assert waited([worker()], seconds=100)[0].asked == 10


def test_a_task_that_finished_begins_the_time_anew():
    assert waited([], seconds=200, work_at=100)[1] is None
    assert 220 <= waited([], seconds=300, work_at=100)[1] <= 240
    assert waited(OSError("lost"), seconds=200)[1] is None  # the futures of a lost scheduler say so
