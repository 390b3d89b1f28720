"""A run that is handed to an engine: what is frozen of it, how often it was started, and how it ended.

    runs/RUN/submission/submission.json   the job's name, versions, folder and options
    runs/RUN/submission/spec.json         the checked spec
    runs/RUN/submission/cluster.json      the checked cluster description
    runs/RUN/submission/job.sh            what the engine was handed (of Kubernetes job.yaml)
    runs/RUN/submission/engine.json       by what name the engine knows it; the first who writes it has submitted
    runs/RUN/submission/reserve           bytes that make room for the records of an end, should the disk be full
    runs/RUN/starts/N.json, N-end.json    how much was finished when start N began, and how it ended
    runs/RUN/cancelled.json               somebody asked for the end
    runs/RUN/exit.json                    the exit code, once nothing will be started any more
    submissions/DIGEST/N.json             which run is that of a spec: the newest; an earlier one has ended

These files are the truth. The engine is asked only whether it still knows the job.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, cast

from .. import __version__
from ..base.digest import digest
from ..base.errors import COME_BACK, TERMINATED, ClusterError, DataError, require
from ..storage.files import path_at, read_json, write_file, write_json
from ..storage.manifests import BEGUN, PUBLISHED, libraries
from .records import SPEC, STAGES, STATUS, new_run_id, read_spec, require_no_secret, stages_of
from .status import StatusRecord, read_status

if TYPE_CHECKING:  # importing either takes seconds, and a scheduler or parent of a worker needs neither
    from ..storage.artifacts import Workspace
    from .spec import Spec

DESCRIPTION = Path("submission", "submission.json")  # in the folder of a run that was submitted
ENVIRONMENT = ("DSSL_DATA",)  # variables that a job is started with
RESTARTABLE = (COME_BACK, TERMINATED, ClusterError.exit_code)  # exit codes of a start that another may continue
RESERVE = 1 << 18  # bytes
HANDING_OVER = 300.0  # seconds after which a run that no engine has is lost
State = Literal["submitted", "running", "restarting", "done", "failed", "cancelled", "stopped", "lost", "interrupted"]
ENDED = ("done", "failed", "cancelled", "stopped", "lost", "interrupted")


class Frozen(TypedDict):
    """What is frozen of a run besides spec and cluster description."""

    digest: str
    name: str
    version: str
    libraries: Mapping[str, str]
    python: str
    cwd: str
    host: str
    options: Mapping[str, Any]
    submitted: float
    environment: Mapping[str, str]


class EngineRecord(TypedDict):
    """By what an engine knows a job."""

    engine: str
    host: str
    time: float
    handle: Mapping[str, Any]
    folder: str


class ExitRecord(TypedDict):
    """How a run ended."""

    code: int
    state: State
    why: str
    time: float
    starts: int


class RunState(StatusRecord, total=False):
    """What is known of a run, submitted or not."""

    starts: int
    engine: EngineRecord | None
    exit: ExitRecord


Knows = Callable[[EngineRecord], bool]  # whether the engine of a record knows the job


@dataclass(frozen=True)
class Submission:
    """One submitted run, by its folder."""

    folder: Path

    @classmethod
    def at(cls, folder: Path) -> Self:
        """Return the submission of a run's folder; raise DataError if that run was not submitted."""
        require((folder / DESCRIPTION).is_file(), f"run {folder.name} was not submitted",
                error=DataError, why="it was started with `dssl run`, which runs in the terminal",
                fix="see `dssl status`")
        return cls(folder)

    @classmethod
    def freeze(cls, workspace: Workspace, spec: Spec, cluster: Mapping[str, Any], options: Mapping[str, Any]) -> Self:
        """Write what a run is to do into a new folder; no engine knows of it yet.

        Raises SpecError: the spec or the cluster description holds a secret of the environment.
        """
        fields = spec.to_dict(mode="json")
        require_no_secret("the spec", json.dumps(fields))
        require_no_secret("the cluster description", json.dumps(dict(cluster)))
        folder = workspace.root / "runs" / new_run_id()
        made = cls(folder)
        try:
            (folder / "logs").mkdir(parents=True)
            # In the order that it has: that of classes or columns is part of the addresses of a run.
            write_file(made._file("spec.json"), json.dumps(fields, indent=1, allow_nan=False).encode())
            write_json(made._file("cluster.json"), dict(cluster))
            made._file("reserve").write_bytes(bytes(RESERVE))
            write_json(folder / DESCRIPTION, {
                "digest": digest({"spec": fields, "workspace": str(workspace.root)})[:16], "name": spec.name,
                "version": __version__, "libraries": libraries(), "python": sys.executable, "cwd": os.getcwd(),
                "host": socket.gethostname(), "options": dict(options), "submitted": time.time(),
                "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}})
        except BaseException:
            made.discard()
            raise
        return made

    def discard(self) -> None:
        """Remove the folder of a run that no engine knows of."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, name: str) -> Path:
        return self.folder / "submission" / name

    @property
    def described(self) -> Frozen:
        """Return what was frozen besides spec and cluster."""
        described: Frozen = read_json(self.folder / DESCRIPTION)
        return described

    @property
    def spec(self) -> dict[str, Any]:
        """Return the frozen spec."""
        spec: dict[str, Any] = read_json(self._file("spec.json"))
        return spec

    @property
    def cluster(self) -> dict[str, Any]:
        """Return the frozen cluster description."""
        description: dict[str, Any] = read_json(self._file("cluster.json"))
        return description

    @property
    def job_name(self) -> str:
        """Return the name of the engine's job: the same for the same spec in the same workspace."""
        return f"dssl-{self.described['digest']}"

    @property
    def engine(self) -> EngineRecord | None:
        """Return by what the engine knows the job; None until it has been handed over."""
        path = self._file("engine.json")
        return cast(EngineRecord, read_json(path) | {"folder": str(self.folder)}) if path.is_file() else None

    def claim(self, workspace: Workspace, knows: Knows) -> Path:
        """Make this the run of its spec unless another is under way; return the folder of the one that is.

        Two who submit at once agree, since a file is created by one of them.
        """
        place = workspace.root / "submissions" / self.described["digest"]
        while True:
            newest = max((int(path.stem) for path in place.glob("*.json")), default=-1)
            if newest >= 0:
                run = workspace.root / "runs" / read_json(place / f"{newest}.json")["run"]
                if run.is_dir() and state_of(run, knows)["state"] not in ENDED:
                    return run
            if write_json(place / f"{newest + 1}.json", {"run": self.folder.name}, exclusive=True):
                return self.folder

    def render(self, name: str, text: str) -> Path:
        """Write what the engine is handed; return the file. Raises SpecError: it holds a secret of the environment."""
        require_no_secret(f"the rendered {name}", text)
        path = self._file(name)
        path.write_text(text, encoding="utf-8")
        return path

    def hand_over(self, engine: str, handle: Mapping[str, Any]) -> None:
        """Note by what the engine knows the job."""
        write_json(self._file("engine.json"), {"engine": engine, "host": socket.gethostname(), "time": time.time(),
                                               "handle": dict(handle)}, exclusive=True)

    def require_this_version(self) -> None:
        """Raise ClusterError if this process runs another version of dssl than the one that submitted."""
        wanted = self.described["version"]
        require(wanted == __version__, f"dssl {__version__} on {socket.gethostname()}, the run was submitted by "
                f"{wanted}", error=ClusterError, why="two versions may compute different results",
                fix=f"install dssl {wanted} where the job runs, or submit again")

    # ---- how it goes

    @property
    def starts(self) -> int:
        """Return how often the driver has begun."""
        return len([path for path in (self.folder / "starts").glob("*.json") if "-" not in path.stem])

    def begin(self) -> int:
        """Note that the driver begins; return the number of this start."""
        number = self.starts
        while not write_json(self.folder / "starts" / f"{number}.json",
                             {"begun": time.time(), "finished": self.finished()}, exclusive=True):
            number += 1
        return number

    def end(self, start: int, code: int, why: str) -> None:
        """Note how a start ended: for good, unless another may continue."""
        if code in RESTARTABLE and not self.is_cancelled:
            self._record(f"starts/{start}-end.json", {"code": code, "why": why, "time": time.time()})
        else:
            state: State = "cancelled" if self.is_cancelled and code else "failed" if code else "done"
            self.finish(code, state, why)

    def finish(self, code: int, state: State, why: str) -> None:
        """Note that nothing is started any more; the first who says so is heard."""
        self._record("exit.json", {"code": code, "state": state, "why": why, "time": time.time(),
                                   "starts": self.starts})
        self._file("reserve").unlink(missing_ok=True)

    def _record(self, name: str, fields: Mapping[str, Any]) -> None:
        """Write down an end, unless somebody has; on a full disk in the room that was reserved for it."""
        path = self.folder / name
        try:
            write_json(path, dict(fields), exclusive=True)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._file("reserve").unlink(missing_ok=True)
            write_json(path, dict(fields), exclusive=True)

    @property
    def exit(self) -> ExitRecord | None:
        """Return how the run ended; None while it may go on."""
        path = self.folder / "exit.json"
        return read_json(path) if path.is_file() else None

    def cancel(self) -> None:
        """Note that somebody asks for the end."""
        write_json(self.folder / "cancelled.json", {"time": time.time(), "host": socket.gethostname()}, exclusive=True)

    @property
    def cancelled(self) -> Mapping[str, Any] | None:
        """Return from which host somebody has asked for the end, and when; None where nobody has."""
        path = self.folder / "cancelled.json"
        return read_json(path) if path.is_file() else None

    @property
    def is_cancelled(self) -> bool:
        """Return whether somebody has asked for the end."""
        return self.cancelled is not None

    def finished(self) -> int:
        """Return how many artifacts and parts of the run are finished: what a start adds to is its progress."""
        if not (self.folder / STAGES).is_file():
            return 0
        root = self.folder.parents[1] / "artifacts"
        count = 0
        for name in stages_of(self.folder):
            if (root / name / PUBLISHED).is_file():
                count += 1
            if (root / name / BEGUN).is_file():
                count += sum(1 for _ in (root / name).glob("**/receipts/*.json"))
        return count

    def settle(self, max_restarts: int) -> int:
        """Return the run's exit code, or `COME_BACK` where the engine is to start it again.

        It is started again after an interruption, as long as the last start has finished something, and at most
        `max_restarts` times.
        """
        if (ended := self.exit) is not None:
            return int(ended["code"])
        last = self.starts - 1
        if self.is_cancelled:
            self.finish(TERMINATED, "cancelled", "somebody cancelled it")
        elif last < 0:
            self.finish(1, "failed", "no process of the job has started the pipeline; see the log of the job")
        else:
            path = self.folder / "starts" / f"{last}-end.json"
            end: Mapping[str, Any] = read_json(path) if path.is_file() else {
                "code": 1, "why": "the driver process was killed or crashed before it could say why"}
            begun = read_json(self.folder / "starts" / f"{last}.json")["finished"]
            code = 1 if end["code"] in (COME_BACK, TERMINATED) else end["code"]
            if self.finished() <= begun:
                self.finish(code, "failed", f"{end['why']}; start {last + 1} made no progress, so it is not started "
                                            "again")
            elif last >= max_restarts:
                self.finish(code, "failed", f"{end['why']}; it was started again {last} times, and max_restarts is "
                                            f"{max_restarts}")
            else:
                return COME_BACK
        ended = self.exit
        assert ended is not None
        return int(ended["code"])


def state_of(folder: Path, knows: Knows) -> RunState:
    """Return what is known of a run: its status.json, with `state`, and of a submitted one `exit` and `starts`.

    Of a run that ended, the record of its end counts; of one that runs, its heartbeat; of others whether the engine
    still knows the job. One that was cancelled begins no start any more: it has ended once the engine does not know it,
    or, where the engine cannot be asked from here, after `HANDING_OVER` seconds.
    """
    if (folder / STATUS).is_file():
        status = read_status(folder)
    else:
        spec = read_spec(folder / SPEC) if (folder / SPEC).is_file() else {}
        status = {"run": folder.name, "name": spec.get("name"), "state": "lost", "error": None}
    try:
        submission = Submission.at(folder)
    except DataError:
        return {**status}
    described, engine = submission.described, submission.engine
    state: RunState = {**status, "name": described["name"], "starts": submission.starts, "engine": engine}
    if (ended := submission.exit) is not None:
        return {**state, "state": ended["state"], "exit": ended}
    if status["state"] == "running":
        return state
    if engine is None:
        is_lost = time.time() - described["submitted"] > HANDING_OVER
    else:
        is_lost = not knows(engine)
    cancelled = submission.cancelled
    if cancelled is not None and (is_lost or time.time() - cancelled["time"] > HANDING_OVER):
        return {**state, "state": "cancelled", "exit": {
            "code": TERMINATED, "state": "cancelled", "why": "it was cancelled while no process of it was at work",
            "time": cancelled["time"], "starts": state["starts"]}}
    if is_lost:
        return {**state, "state": "lost", "error": {
            "type": "Lost", "what": "the engine knows nothing of the job, and it has left no exit record",
            "why": "its machine stopped, it was killed, or it could not write to the workspace",
            "fix": "see `dssl logs`, and submit again: finished parts are kept"}}
    has_run = submission.starts > 1 or (submission.starts == 1 and (folder / STATUS).is_file())
    return {**state, "state": "restarting" if has_run else "submitted"}


def find_run(workspace: Workspace, name: str | None, *, submitted: bool = False) -> Path:
    """Return the folder of a run; raise DataError if there is none, or more than one.

    name : the run's folder, its result.json, its identity or the beginning of that; None means the newest run.
    submitted : of None the newest that was submitted.
    """
    if name is not None:
        path = path_at(name)
        path = path.resolve() if isinstance(path, Path) else path
        folder = path.parent if path.name == "result.json" else path
        if folder.parent.name == "runs" and folder.is_dir():
            return folder
    matching = [path for path in workspace.runs if name is None or path.name.startswith(name)]
    if name is None and submitted:
        matching = [path for path in matching if (path / DESCRIPTION).is_file()]
    exact = [path for path in matching if path.name == name]
    kind, called = "submitted run" if submitted else "run", f" {name}" if name else ""
    require(bool(matching), f"{workspace.root} has no {kind}{called}", error=DataError,
            why="each run has a folder in runs/", fix="see `dssl status`, or check --workspace")
    require(name is None or len(exact or matching) == 1, f"{len(matching)} runs begin with {name!r}", error=DataError,
            why="one run is meant", fix=f"write more of it: {', '.join(path.name for path in matching[:5])}")
    return (exact or matching)[-1]
