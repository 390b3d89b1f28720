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
