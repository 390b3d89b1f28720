"""Lines of progress: one as a stage begins its tasks, few while it runs, one when it ends."""

import io

from rich.console import Console

from dssl.progress import Reporter


def told(events, **options):
    """Return the lines of a list of (seconds, event)."""
    out, now = io.StringIO(), [0.0]
    with Reporter("two processes", Console(file=out, width=100), clock=lambda: now[0], **options) as reporter:
        for seconds, event in events:
            now[0] = seconds
            reporter.tell(event)
    return out.getvalue().splitlines()


def run_of(stage, seconds, tasks):
    """Return the events of a stage of equally long tasks."""
    yield 0.0, {"event": "stage", "stage": stage, "status": "to run"}
    for done in range(tasks + 1):
        yield seconds * done / tasks, {"event": "progress", "stage": stage, "done": done, "of": tasks}
    yield seconds, {"event": "stage", "stage": stage, "status": "done", "seconds": seconds}


def test_a_long_stage_tells_at_most_every_ten_seconds():
    lines = told(run_of("columns", 60.0, 600))
    assert lines[0] == "running on two processes"
    assert "0 of 600 tasks" in lines[1]
    assert "columns  done       60.00 s" in lines[-1]
    assert [line.split()[-4] for line in lines[2:-1]] == ["100", "200", "300", "400", "500"]
    assert "10.00 s" in lines[2]


def test_a_stage_of_one_task_is_one_line():
    assert len(told(run_of("system", 60.0, 1))) == 2


def test_a_stage_without_tasks_and_a_cached_one():
    events = [(0, {"event": "stage", "stage": "split", "status": "cached"}),
              (0, {"event": "stage", "stage": "split", "status": "cached", "seconds": 0.0})]
    assert told(events)[1].split() == ["split", "cached", "0.00", "s"]


def test_quiet_tells_nothing():
    assert told(run_of("columns", 60.0, 600), quiet=True) == []


def test_a_heartbeat_tells_rate_and_time_left():
    """Where nothing else was told for a while: a task of an hour, or a stage that has none."""
    def beat(seconds, **known):
        return seconds, {"event": "heartbeat", "stage": "columns", "seconds": seconds, "done": None, "of": None,
                         "rate": None, "time_left": None} | known

    lines = told([(0.0, {"event": "stage", "stage": "columns", "status": "to run"}),
                  beat(10.0), (12.0, {"event": "progress", "stage": "columns", "done": 0, "of": 9}),
                  (18.0, {"event": "progress", "stage": "columns", "done": 1, "of": 9, "rate": 0.1, "time_left": 80.0}),
                  beat(20.0, done=1, of=9, rate=0.1, time_left=80.0),
                  beat(30.0, done=2, of=9, rate=0.01, time_left=7000.0)])
    assert [line.split()[2] for line in lines[1:]] == ["10.00", "20.00", "30.00"]
    assert lines[2].endswith("1 of 9 tasks, 0.1 a second, 80 s left")
    assert lines[3].endswith("2 of 9 tasks, 0.01 a second, 1.9 h left")
