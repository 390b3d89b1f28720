"""Submitted runs on this machine, whose processes a test may kill."""

import json
import os
import socket
import subprocess
import sys
from contextlib import chdir, closing, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil
from click.testing import CliRunner

from dssl.cli.main import main
from dssl.pipeline.records import STATUS
from dssl.runtime.engine import Rank

from ..faults.machines import BUDGET, REPOSITORY, SPEC, wait_until
from ..stored import contents

CANARY = {"AWS_SECRET_ACCESS_KEY": "canary-3141592653"}  # a secret that no file of a run may hold
SLOWLY = CANARY | {"DASK_DISTRIBUTED__WORKER__PRELOAD": '["tests.faults.slowly"]', "PYTHONPATH": str(REPOSITORY)}


def free_port():
    """Return a port of loopback at which nothing answers."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def kill(process):
    """Kill a process and all that it has started, as the end of its machine does."""
    for one in (*process.children(recursive=True), process):
        with suppress(psutil.NoSuchProcess):
            one.kill()


class JsonHandler(BaseHTTPRequestHandler):
    """Answers requests of HTTP by JSON, and logs none."""

    def log_message(self, *words):
        pass

    def answer(self, code, made):
        text = json.dumps(made).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class Submitted:
    """A workspace with runs that `dssl submit` has handed over."""

    def __init__(self, folder: Path, cluster: str = "{kind: local, workers: 2, memory_limit: 2GiB}"):
        self.folder, self.workspace = folder, folder / "work"
        self.spec, self.cluster = folder / "faults.yaml", folder / "cluster.yaml"
        self.spec.write_text(SPEC)
        self.cluster.write_text(cluster)
        self.environment, self.inside, self.options = os.environ | SLOWLY, (), ("--memory-budget", BUDGET)

    def dssl(self, *command, code=0, seconds=600):
        """Run a command in the workspace; return what it prints.

        It is called in this process, or started by the command of `inside`, which `env` is where it needs its own.
        """
        command = [*map(str, command), "--workspace", str(self.workspace)]
        if self.inside:
            done = subprocess.run([*self.inside, sys.executable, "-m", "dssl", *command], capture_output=True,
                                  text=True, timeout=seconds, check=False, env=self.environment, cwd=self.folder)
            ended, error = done.returncode, None
        else:
            with chdir(self.folder):
                done = CliRunner(env=self.environment).invoke(main, command)
            ended, error = done.exit_code, done.exception
        assert ended == code, f"{done.stdout}{done.stderr}{error}{self.logs()}"
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    def submit(self, *options):
        """Hand the spec over; return the folder of the run."""
        said = self.dssl("submit", self.spec, "--on", self.cluster, "--json", *self.options, *options)
        return Path(json.loads(said)["folder"])

    def fires_twice(self, to):
        """Have a schedule of every minute fire until nothing is left to do; return its name, still installed."""
        self.dssl("schedule", self.spec, "--on", self.cluster, "--at", "* * * * *", "--to", to, "--install")
        [schedule] = self.workspace.glob("schedules/*")
        log = schedule / "log"

        def said():
            text = log.read_text() if log.is_file() else ""
            assert not {"failed", "error:"} & set(text.split()), text + self.logs()
            return text

        wait_until(lambda: ": done" in said(), "a run that is done", 600)
        made = contents(self.workspace)
        wait_until(lambda: "nothing has changed since the last run" in said(), "a firing with nothing to do", 600)
        assert said().count("submitted as") == len(list(self.workspace.glob("runs/*"))) == 1
        assert contents(self.workspace) == made
        return schedule.name

    def rank(self, run, number, start=0):
        """Return the process of a rank."""
        for process in psutil.process_iter(["cmdline", "environ"]):
            own = process.info
            if own["cmdline"] and own["cmdline"][-2:] == ["rank", str(run)] and own["environ"]:
                rank = Rank.of(own["environ"])
                if (rank.count, rank.number, rank.start) == (4, number, str(start)):
                    return process
        return None

    def workers(self, run, start=0):
        """Return the processes of the workers that are there, each with what it has started."""
        return [self.rank(run, number, start) for number in (2, 3) if self.rank(run, number, start) is not None]

    def wait_for(self, run, stage, parts=1):
        """Wait until so many parts of a stage are finished, or until it has begun where that is 0."""
        def is_so():
            if (run / "exit.json").exists():
                return True
            if parts:
                return len(list(self.workspace.glob(f"artifacts/{stage}/*/*/receipts/[0-9]*.json"))) >= parts
            return (run / STATUS).exists() and json.loads((run / STATUS).read_text())["stage"] == stage

        wait_until(is_so, f"{parts} parts of {stage}", 300)
        assert not (run / "exit.json").exists(), self.logs()

    def logs(self):
        """Return all that the processes have said."""
        paths = sorted(self.folder.glob("work/runs/*/logs/*"))
        return "".join(f"--- {path.name}\n{path.read_text()}" for path in paths)

    def files_with_the_canary(self):
        """Return the files, of the workspace and beside it, that hold the secret."""
        secret = CANARY["AWS_SECRET_ACCESS_KEY"].encode()
        return [path for path in self.folder.rglob("*") if path.is_file() and secret in path.read_bytes()]

    def end(self):
        """Kill what is left."""
        for process in psutil.process_iter(["cmdline"]):
            if any(str(self.workspace) in word for word in process.info["cmdline"] or []):
                with suppress(psutil.NoSuchProcess):  # it may end meanwhile
                    kill(process)
