"""What a run is doing, for whoever looks: `status.json` in its folder, and an event every second.

The seconds left are what the plan estimates, times what the stages have taken beside that so far.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Required, Self, TypedDict, cast

from ..base.errors import described
from ..storage.files import read_record, write_file
from ..storage.lease import LOCK, is_held_by
from .progress import BEAT, Event, Events
from .records import STATUS

PRIOR_SECONDS = 3.0  # for which the plan counts as much as what stages took
SOON = 0.05  # share of a stage's tasks from which on their rate counts, and not the plan
LATE = 0.1  # of the time that a stage has taken, which it takes at least once it is late
LOOK_EVERY = 0.5  # seconds between two looks at whether there is something to write
WRITE_EVERY = 10.0  # seconds after which the file is written though nothing changed


class TimeLeft:
    """What is known of the stages of a run, and what follows for those that are left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._estimated = self._took = PRIOR_SECONDS
        self._stage: float | None = None  # what the stage under way was estimated at
        self._later = 0.0
        self._begun = clock()

    def begin(self, estimated: float | None, later: float) -> None:
        """Note that a stage begins; estimated : seconds of it, later : of those after it."""
        self._stage, self._later, self._begun = estimated, later, self._clock()

    def end(self, seconds: float, made: bool) -> None:
        """Note that the stage has ended; made : whether it was not cached."""
        if made and self._stage is not None:
            self._estimated += self._stage
            self._took += seconds
        self._stage = None

    @property
    def factor(self) -> float:
        """Return how many times the plan's estimate the stages so far took."""
        return self._took / self._estimated

    def left(self, time_left: float | None = None) -> float:
        """Return the seconds left; time_left : of the stage under way by the rate of its tasks, None if unknown."""
        later = self.factor * self._later
        if self._stage is None:
            return later
        elapsed = self._clock() - self._begun
        if time_left is not None:
            return time_left + later
        return max(self.factor * self._stage - elapsed, LATE * elapsed) + later


class Ended(TypedDict):
    """A stage of a run that has ended."""

    name: str
    status: str
    seconds: float


class StatusRecord(TypedDict, total=False):
    """What a run's `status.json` says."""

    run: Required[str]
    name: str | None
    state: Required[str]
    stage: str | None
    done: int | None
    of: int | None
    rate: float | None
    time_left: float | None
    run_left: float | None
    stages: list[Ended]
    host: str
    pid: int
    started: str
    updated: str
    error: Mapping[str, str] | None


class Progress(TypedDict):
    """How fast the tasks of a stage are done (tasks a second), and how long the others take (seconds)."""

    rate: float | None
    time_left: float | None


class Status:
    """Keeps a run's `status.json`, and passes on its events with what they do not say.

    To "progress" it adds `rate` (tasks a second in this run of the stage, None until a task has finished) and
    `time_left` (seconds, None until the share `SOON` of them has); and it tells {"event": "heartbeat", "stage",
    "seconds", "done", "of", "rate", "time_left"} every `BEAT` seconds, from a thread of its own, never while another
    event is sent. To all it adds `run_left`, the seconds that the whole run still takes, as `TimeLeft` estimates them.

    The file says `state` ("running", "done", "stopped", "failed", "interrupted"), stage, tasks, rate and time left, the
    stages that have ended, and of what failed the error as `errors.described` does; `host` and `pid` say whose it is.
    A run that is killed leaves "running", which `read_status` turns into "lost".
    """

    def __init__(self, folder: Path, run: str, name: str, tell: Events, *, look_every: float = LOOK_EVERY,
                 beat: float = BEAT):
        self._look_every, self._beat_every = look_every, beat
        self.path, self._tell = folder / STATUS, tell
        self._known: StatusRecord = {
            "run": run, "name": name, "state": "running", "stage": None, "done": None, "of": None, "rate": None,
            "time_left": None, "run_left": None, "stages": [], "host": socket.gethostname(), "pid": os.getpid(),
            "started": _now(), "error": None}
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._failed: Exception | None = None  # in a listener, when it got a heartbeat
        self._stage_begun = self._tasks_begun = time.monotonic()
        self._before = 0  # tasks that were finished when the stage began
        self._changed = True
        self._left = TimeLeft()

    def __enter__(self) -> Self:
        self._write()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._ended.set()
        self._thread.join()
        if error is not None:
            state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            self._known.update({"state": state, "error": described(error)})
        self._write()

    def end(self, state: str) -> None:
        """Say how the run ended."""
        with self._lock:
            self._known.update({"state": state, "stage": None, "done": None, "of": None, "rate": None,
                                "time_left": None, "run_left": None})

    def tell(self, event: Event) -> None:
        """Take note of an event, and pass it on."""
        with self._lock:
            if self._failed is not None:
                raise self._failed
            if event["event"] == "progress":
                event = {**event, **self._progress(event["done"] or 0, event["of"] or 0)}
            elif event["event"] == "stage" and "seconds" in event:
                self._left.end(event["seconds"], event["status"] != "cached")
                self._known["stages"].append(
                    {"name": event["stage"] or "", "status": event["status"], "seconds": event["seconds"]})
            elif event["event"] == "stage":
                self._stage_begun = time.monotonic()
                self._left.begin(event["estimated"], event["later"])
                self._known.update({"stage": event["stage"], "done": None, "of": None, "rate": None, "time_left": None})
            elif event["event"] == "run":
                self._left.begin(None, event["estimated"] or 0.0)
            self._changed = True
            self._tell({**event, "run_left": self._run_left()})

    def _run_left(self) -> float:
        """Note how long the run still takes, and return it."""
        seconds = round(self._left.left(self._known["time_left"]), 1)
        self._known["run_left"] = seconds
        return seconds

    def _progress(self, done: int, of: int) -> Progress:
        """Note the tasks of a stage; return their rate, and the time left."""
        if self._known["done"] is None:  # the first word of this stage
            self._tasks_begun, self._before = time.monotonic(), done
        rate = (done - self._before) / max(time.monotonic() - self._tasks_begun, 1e-9) if done > self._before else None
        left = (of - done) / rate if rate and done >= SOON * of else None
        progress: Progress = {"rate": rate and round(rate, 3), "time_left": None if left is None else round(left, 1)}
        self._known.update({"done": done, "of": of, **progress})
        return progress

    def _beat(self) -> None:
        now = written = time.monotonic()
        while not self._ended.wait(self._look_every):
            with self._lock:
                if self._changed or time.monotonic() - written >= WRITE_EVERY:
                    self._write()
                    written = time.monotonic()
                if time.monotonic() - now >= self._beat_every and self._known["stage"] is not None:
                    now = time.monotonic()
                    known = self._known
                    beat: Event = {
                        "event": "heartbeat", "seconds": round(now - self._stage_begun, 3), "stage": known["stage"],
                        "done": known["done"], "of": known["of"], "rate": known["rate"],
                        "time_left": known["time_left"], "run_left": self._run_left()}
                    try:
                        self._tell(beat)
                    except Exception as error:  # raised again where the run tells its next event
                        self._failed = error
                        return

    def _write(self) -> None:
        self._changed = False
        # Not worth a run, and not a wait for the disk: another is written soon.
        with suppress(OSError):
            write_file(self.path, json.dumps({**self._known, "updated": _now()}, indent=1).encode())


def read_status(folder: Path) -> StatusRecord:
    """Return what a run's status.json says; "lost" where it says "running" and the process is gone.

    A run holds the lock of its workspace to its end, so that one without the lock has ended without a word.

    Raises FileNotFoundError: there is no status.
    """
    status = cast(StatusRecord, read_record(folder / STATUS, {"state": str, "host": str, "pid": int},
                                            fix="delete the folder of this run and run again: finished parts are kept"))
    lock = folder.resolve().parents[1] / LOCK
    if status["state"] == "running" and not is_held_by(lock, status["host"], status["pid"]):
        status.update({"state": "lost", "error": {
            "type": "Lost", "what": f"process {status['pid']} on {status['host']} is gone",
            "why": "it was killed, or its machine stopped", "fix": "run again: finished parts are kept"}})
    return status


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
