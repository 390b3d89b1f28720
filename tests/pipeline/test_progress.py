"""What a run says of itself while it goes on: lines of progress, its status, and how long it still takes."""

import errno
import io
import json
import os
import pty
import re
import socket
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.console import Console

from dssl.base.errors import DataError, NotConverged
from dssl.cli.progress import EVERY, Activity, Reporter
from dssl.execution.in_process import InProcess
from dssl.pipeline.contents import inspect
from dssl.pipeline.plan import inputs as rates
from dssl.pipeline.plan.inputs import Rates, rates_of, slowness
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.progress import BEAT, Board, in_notebook
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run
from dssl.pipeline.status import Status, TimeLeft, read_status
from dssl.storage.artifacts import Workspace
from tests.memory import traced_peak


def printed(events, **options):
    """Return the lines of a list of (seconds, event)."""
    out, now = io.StringIO(), [0.0]
    with Reporter("two processes", Console(file=out, width=100), clock=lambda: now[0], **options) as reporter:
        for seconds, event in events:
            now[0] = seconds
            reporter.on_event(event)
    return out.getvalue().splitlines()


def run_of(stage, seconds, tasks):
    """Return the events of a stage of equally long tasks."""
    yield 0.0, {"event": "stage", "stage": stage, "status": "to run"}
    for done in range(tasks + 1):
        yield seconds * done / tasks, {"event": "progress", "stage": stage, "done": done, "of": tasks}
    yield seconds, {"event": "stage", "stage": stage, "status": "done", "seconds": seconds}


def test_a_long_stage_tells_at_most_every_ten_seconds():
    lines = printed(run_of("columns", 60.0, 600))
    assert lines[0] == "running on two processes"
    assert "0 of 600 tasks" in lines[1]
    assert "columns  done       60.00 s" in lines[-1]
    assert [line.split()[-4] for line in lines[2:-1]] == ["100", "200", "300", "400", "500"]
    assert "10.00 s" in lines[2]


def test_a_stage_of_one_task_is_one_line():
    assert len(printed(run_of("system", 60.0, 1))) == 2


def test_a_stage_without_tasks_and_a_cached_one():
    events = [(0, {"event": "stage", "stage": "split", "status": "cached"}),
              (0, {"event": "stage", "stage": "split", "status": "cached", "seconds": 0.0})]
    assert printed(events)[1].split() == ["split", "cached", "0.00", "s"]


def test_quiet_tells_nothing():
    assert printed(run_of("columns", 60.0, 600), quiet=True) == []


def test_a_heartbeat_tells_rate_and_time_left():
    """Where nothing else was told for a while: a task of an hour, or a stage that has none."""
    def beat(seconds, **known):
        return seconds, {"event": "heartbeat", "stage": "columns", "seconds": seconds, "done": None, "of": None,
                         "rate": None, "time_left": None} | known

    lines = printed([(0.0, {"event": "stage", "stage": "columns", "status": "to run"}),
                  beat(10.0), (12.0, {"event": "progress", "stage": "columns", "done": 0, "of": 9}),
                  (18.0, {"event": "progress", "stage": "columns", "done": 1, "of": 9, "rate": 0.1, "time_left": 80.0}),
                  beat(20.0, done=1, of=9, rate=0.1, time_left=80.0),
                  beat(30.0, done=2, of=9, rate=0.01, time_left=7000.0)])
    assert [line.split()[2] for line in lines[1:]] == ["10.00", "20.00", "30.00"]
    assert lines[2].endswith("1 of 9 tasks, 0.1 a second, 1.3 min left")
    assert lines[3].endswith("2 of 9 tasks, 0.01 a second, 1.9 h left")


def heartbeat(stage, **known):
    return {"event": "heartbeat", "stage": stage, "seconds": 0.0, "done": None, "of": None, "rate": None,
            "time_left": None, "run_left": 100.0} | known


@pytest.mark.parametrize("tasks_at", [(), (3.7,), (5.5, 11.9, 12.1, 26.3), tuple(0.3 * i for i in range(400))])
def test_no_stage_is_silent_for_more_than_ten_seconds(tasks_at):
    """Whatever its tasks do: what is told between two lines never hides that one is due."""
    out, now, told_at = io.StringIO(), [0.0], []
    with Reporter("here", Console(file=out, width=120), clock=lambda: now[0]) as reporter:
        reporter.on_event({"event": "stage", "stage": "neighbors", "status": "to run"})
        events = [(float(second), heartbeat("neighbors")) for second in range(1, 120)]
        events += [(at, {"event": "progress", "stage": "neighbors", "done": i, "of": 400})
                   for i, at in enumerate(tasks_at)]
        for now[0], event in sorted(events, key=lambda event: event[0]):
            before = out.tell()
            reporter.on_event(event)
            if out.tell() > before:
                told_at.append(now[0])
    gaps = [later - earlier for earlier, later in zip([0.0, *told_at], [*told_at, 120.0], strict=True)]
    assert max(gaps) <= EVERY + BEAT
    assert len(told_at) <= 120 / (EVERY - 2 * BEAT) + 1
    assert "run: 1.7 min left" in out.getvalue()


def a_run(stages=3, seconds=4.0):
    """Return the events of a run of one cached stage and of some that take long, with the second of each."""
    yield 0.0, {"event": "run", "run": "r", "name": "moons", "stages": stages, "cached": 1,
                "run_left": stages * seconds, "estimated": stages * seconds, "at_least": False}
    yield 0.0, {"event": "stage", "stage": "dataset", "status": "cached"}
    yield 0.0, {"event": "stage", "stage": "dataset", "status": "cached", "seconds": 0.0}
    for number in range(stages):
        begin, name = seconds * number, f"stage{number}"
        yield begin, {"event": "stage", "stage": name, "status": "to run", "run_left": (stages - number) * seconds}
        yield begin + seconds / 2, {"event": "progress", "stage": name, "done": 3, "of": 6, "rate": 1.0,
                                    "time_left": seconds / 2, "run_left": (stages - number) * seconds - seconds / 2}
        yield begin + seconds, {"event": "stage", "stage": name, "status": "done", "seconds": seconds,
                                "run_left": (stages - number - 1) * seconds}


def test_a_board_has_one_line_for_the_run_and_collapses_what_ended():
    now = [0.0]
    board = Board(lambda: now[0])
    for now[0], event in a_run():
        board.tell(event)
        if event.get("done") == 3 and event["stage"] == "stage1":
            assert board.summary() == "moons: 50 % in 6.0 s, about 6.0 s left"
            assert board.rows(20) == [("", "cached", "1 stages"), ("stage0", "done", "4.0 s"),
                                      ("stage1", "running", "2.0 s  3 of 6 tasks, 2.0 s left"),
                                      ("", "waiting", "1 stages")]
    assert board.summary() == "moons: 100 % in 12 s"
    assert board.rows(3) == [("", "cached", "1 stages"), ("", "done", "2 stages in 8.0 s"), ("stage2", "done", "4.0 s")]


def until_closed(own):
    """Return all that was written to the other end of a pseudo-terminal, which passes it on in pieces."""
    pieces = []
    while True:
        try:
            pieces.append(os.read(own, 1 << 16))
        except OSError as err:
            if err.errno != errno.EIO:      # EIO: the other end is closed
                raise
            return b"".join(pieces).decode()


def test_on_a_terminal_the_run_is_one_picture_that_fits_it():
    """On a pseudo-terminal of ten lines: the last picture stands, and none was higher than the screen."""
    own, other = pty.openpty()
    with ThreadPoolExecutor() as pool, os.fdopen(other, "w") as file:
        written = pool.submit(until_closed, own)
        console = Console(file=file, width=70, height=10)
        assert console.is_terminal
        now = [0.0]
        with Reporter("here", console, clock=lambda: now[0]) as reporter:
            for now[0], event in a_run(30):
                reporter.on_event(event)
            reporter._live.refresh()
    os.close(own)
    pictures = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).strip().splitlines()
                for text in written.result().split("\x1b[2K")]
    assert max(map(len, pictures)) < 10
    whole, cached, done, *last = [line.strip() for line in pictures[-1]]
    assert whole.startswith("moons: 100 % in 2.0 min")
    assert (cached.split(), done.split()) == (["cached", "1", "stages"], ["done", "26", "stages", "in", "1.7", "min"])
    assert [line.split()[0] for line in last] == [f"stage{i}" for i in range(26, 30)]


def test_a_short_activity_tells_nothing_and_a_long_one_its_tasks():
    out = io.StringIO()
    with Activity("predict", Console(file=out, width=100), every=0.05) as activity:
        activity.count(2, 8)
        time.sleep(0.12)
    lines = out.getvalue().splitlines()
    assert 1 <= len(lines) <= 3
    assert re.match(r" +predict  running +0\.\d\d s  2 of 8 tasks", lines[0])
    quiet = io.StringIO()
    with Activity("predict", Console(file=quiet)):
        pass
    assert quiet.getvalue() == ""


def test_a_notebook_shows_one_output_that_is_replaced(monkeypatch):
    shown = []

    class Handle:
        def update(self, page):
            shown.append(page)

    def display(page, display_id):
        shown.append(page)
        return Handle()

    ipython, drawing = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    drawing.HTML, drawing.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", drawing)
    now = [0.0]
    with in_notebook(lambda: now[0]) as tell:
        for now[0], event in a_run():
            tell(event)
    assert len(shown) > 5
    assert "<td>stage1</td><td>running</td><td>2.0 s  3 of 6 tasks" in "".join(shown)
    assert "moons: 100 % in 12 s" in shown[-1]
    ipython.get_ipython = lambda: types.SimpleNamespace()  # of a terminal
    with in_notebook() as tell:
        assert tell is None


# What a run says of itself while it goes on: its events, the heartbeat, and `status.json`


def status_in(workspace):
    return json.loads(next(workspace.glob("runs/*/status.json")).read_text())


def quick(folder, tell):
    return Status(folder, "one", "name", tell, look_every=0.02, beat=0.1)


def test_a_heartbeat_comes_while_nothing_else_does(tmp_path):
    events = []
    with quick(tmp_path, events.append) as status:
        time.sleep(0.25)
        assert events == []  # no stage has begun
        status.tell({"event": "stage", "stage": "columns", "status": "to run", "estimated": 1.0,
                     "later": 2.0})
        status.tell({"event": "progress", "stage": "columns", "done": 4, "of": 10})
        time.sleep(0.25)
        status.tell({"event": "progress", "stage": "columns", "done": 6, "of": 10})
        time.sleep(0.25)
        seen = json.loads((tmp_path / "status.json").read_text())
        status.end("done")
    beats = [event for event in events if event["event"] == "heartbeat"]
    assert 3 <= len(beats) <= 5
    assert (beats[0]["stage"], beats[0]["done"], beats[0]["of"], beats[0]["rate"]) == ("columns", 4, 10, None)
    progress = [event for event in events if event["event"] == "progress"]
    assert progress[0]["time_left"] is None
    assert 4 < progress[1]["rate"] < 8.1  # the four that were there are not of this run
    assert progress[1]["time_left"] == pytest.approx(4 / progress[1]["rate"], abs=0.1)
    assert (seen["state"], seen["stage"], seen["done"], seen["of"]) == ("running", "columns", 6, 10)
    assert (seen["host"], seen["pid"]) == (socket.gethostname(), os.getpid())
    ended = json.loads((tmp_path / "status.json").read_text())
    assert (ended["state"], ended["stage"], ended["error"]) == ("done", None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_a_listener_that_fails_at_a_heartbeat_ends_the_run(tmp_path):
    def listener(event):
        if event["event"] == "heartbeat":
            raise ValueError("enough")

    def invoked():
        with quick(tmp_path, listener) as status:
            status.tell({"event": "stage", "stage": "columns", "status": "to run", "estimated": 1.0,
                     "later": 2.0})
            time.sleep(0.3)
            status.tell({"event": "progress", "stage": "columns", "done": 1, "of": 2})

    with pytest.raises(ValueError, match="enough"):
        invoked()
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "failed"


@pytest.mark.slow
def test_a_run_keeps_its_status(spec, tmp_path):
    run(spec, workspace=tmp_path / "done", execution=InProcess(1))
    assert status_in(tmp_path / "done")["state"] == "done"
    execution = InProcess(1)
    with pytest.raises(NotConverged):
        run(spec, set=["solver.max_iter=1"], workspace=tmp_path / "failed", execution=execution)
    assert execution.counter is None  # whoever uses it next tells nothing to this run
    failed = status_in(tmp_path / "failed")
    assert (failed["state"], failed["stage"], failed["name"]) == ("failed", "columns", "small")
    assert failed["error"]["type"] == "NotConverged"
    assert all(failed["error"][key] for key in ("what", "why", "fix"))
    assert [stage["name"] for stage in failed["stages"]][-1] == "system"
    found = inspect(failed["run"], Workspace.at(tmp_path / "failed"))
    assert (found["status"], found["progress"]["error"]) == ("unfinished", failed["error"])

    def interrupt(event):
        if event.get("stage") == "graph":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, workspace=tmp_path / "interrupted", execution=InProcess(1), events=interrupt)
    assert status_in(tmp_path / "interrupted")["state"] == "interrupted"


def test_a_run_whose_process_is_gone_is_lost(tmp_path):
    workspace = Workspace.at(tmp_path)
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text("{}")
    status = Status(folder, "one", "name", lambda event: None)
    with workspace.lock(), status:
        assert read_status(folder)["state"] == "running"
        written = (folder / "status.json").read_text()
        status.end("done")
    assert read_status(folder)["state"] == "done"
    (folder / "status.json").write_text(written)  # as a process leaves it that is killed
    assert inspect("one", workspace)["progress"]["state"] == "lost"
    with pytest.raises(DataError, match="its run is lost"):
        RunResult.open(folder)
    with workspace.lock():  # another run of the same process number on another host
        (folder / "status.json").write_text(json.dumps({**json.loads(written), "host": "elsewhere"}))
        assert read_status(folder)["error"]["what"] == f"process {os.getpid()} on elsewhere is gone"


# How long a run still takes, and how fast a machine is: estimates that change nothing else


def test_what_stages_took_corrects_what_the_plan_says():
    now = [0.0]
    left = TimeLeft(lambda: now[0])
    left.begin(None, 100.0)
    assert left.left() == 100
    left.begin(30.0, 70.0)
    assert left.left() == 100
    now[0] = 10.0
    assert left.left() == 90
    left.end(90.0, made=True)  # three times as long
    assert left.factor == pytest.approx(93 / 33)
    left.begin(20.0, 50.0)
    assert left.left() == pytest.approx(93 / 33 * 70)
    assert left.left(time_left=7.0) == pytest.approx(7 + 93 / 33 * 50)
    now[0] = 1010.0  # far beyond what was estimated
    assert left.left() == pytest.approx(100 + 93 / 33 * 50)
    left.end(0.01, made=False)
    assert left.factor == pytest.approx(93 / 33)  # a stage that was there says nothing


def test_probes_take_no_memory_whose_price_depends_on_what_was_imported():
    """Where it comes from the system each time, the values of a kernel took eight times as long."""
    probes = rates._probes()
    for name in ("product", "kernel"):
        assert traced_peak(probes[name], 2 * rates.PROBE_SIZE**2) < 2 * rates.PROBE_SIZE**2, name


def test_a_speed_beside_other_references_is_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(rates, "measure_slowness", lambda: 2.5)
    slowness.cache_clear()
    assert slowness(tmp_path) == 2.5
    monkeypatch.setattr(rates, "measure_slowness", lambda: 9.0)
    monkeypatch.setattr(rates, "REFERENCE", {**rates.REFERENCE, "kernel": 1.0})
    slowness.cache_clear()
    assert slowness(tmp_path) == 9.0
    slowness.cache_clear()


def test_the_speed_of_a_machine_is_measured_once(tmp_path, monkeypatch):
    assert rates.measure_slowness(0.005) > 0
    monkeypatch.setattr(rates, "measure_slowness", lambda: 2.5)
    slowness.cache_clear()
    assert slowness(tmp_path) == 2.5
    monkeypatch.setattr(rates, "measure_slowness", lambda: 9.0)
    slowness.cache_clear()
    assert slowness(tmp_path) == 2.5
    known = json.loads((tmp_path / rates.SPEED_FILE).read_text())
    for wrong in (known | {"host": "another"}, known | {"measured": 0}, [], "{"):
        (tmp_path / rates.SPEED_FILE).write_text(wrong if isinstance(wrong, str) else json.dumps(wrong))
        slowness.cache_clear()
        assert slowness(tmp_path) == 9.0
    (tmp_path / "file").write_text("in the way")
    assert slowness(tmp_path / "file" / "cache") == 9.0  # where nothing can be kept
    slowness.cache_clear()


def test_earlier_runs_say_how_long_their_stages_take(tmp_path, monkeypatch):
    monkeypatch.setattr(rates, "slowness", lambda folder: 2.0)
    assert rates_of(Workspace.at(tmp_path)) == Rates(2.0)
    for number, (seconds, estimate) in enumerate([(60.0, 10.0), (50.0, 12.0), (1.0, None)]):
        folder = tmp_path / "runs" / f"2026-{number}"
        folder.mkdir(parents=True)
        stage = {"name": "columns", "seconds": seconds, "estimated_seconds": estimate}
        (folder / "result.json").write_text(json.dumps({"stages": [stage]}))
    (folder / "result.json").write_text("{")
    found = rates_of(Workspace.at(tmp_path))
    assert found.of("columns") == pytest.approx((110 + 2 * 2) / (22 + 2))
    assert found.of("graph") == 2.0


def test_seconds_alone_follow_from_the_machine(spec, tmp_path, monkeypatch):
    made = []
    for slow in (1.0, 3.0):
        monkeypatch.setattr(rates, "slowness", lambda folder, slow=slow: slow)
        made.append(plan(spec, workspace=tmp_path).records())
    for fast, slow in zip(*made, strict=True):
        assert slow["core_seconds"] == pytest.approx(3 * fast["core_seconds"], abs=2e-3)
        assert slow["wall_seconds"] == pytest.approx(3 * fast["wall_seconds"], abs=2e-3)
        times = {"core_seconds", "wall_seconds"}
        assert {key: value for key, value in slow.items() if key not in times} == {
            key: value for key, value in fast.items() if key not in times}


def test_a_run_notes_what_its_stages_were_estimated_at(finished, workspace):
    _, result = finished
    assert all(stage.estimated_seconds is not None and stage.estimated_seconds > 0 for stage in result.stages
               if stage.name in ("dataset", "columns", "neighbors"))
    assert set(rates_of(Workspace.at(workspace)).stages) >= {"dataset", "columns", "neighbors"}
    status = json.loads((workspace / "runs" / result.run / "status.json").read_text())
    assert (status["state"], status["run_left"]) == ("done", None)
    assert [stage["name"] for stage in status["stages"]] == [stage.name for stage in result.stages]


@pytest.mark.parametrize(("at_least", "words"), [(True, "1 cached; at least 12 s"), (False, "1 cached; about 12 s")])
def test_seconds_that_are_a_lower_bound_are_called_so(at_least, words):
    out = io.StringIO()
    with Reporter("here", Console(file=out, width=200)) as reporter:
        reporter.on_event(next(a_run())[1] | {"at_least": at_least})
    assert words in out.getvalue()
