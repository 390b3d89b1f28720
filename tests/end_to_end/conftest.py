"""The command line as its users run it: its exit code and its two streams, of a process or of a call in this one."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dssl.cli.main import main

REPOSITORY = Path(__file__).parents[2]
LOCAL = REPOSITORY / "cluster" / "local.yaml"
COMMAND = [sys.executable, "-m", "dssl"]

SLOW_COLUMNS = """
name: slow_columns
data: {source: digits, test: {count: 360}, scale: global_range}
labels: {per_class: 2}
model: {kind: svm, n_landmarks: 400}
solver: {method: gauss_seidel, block_columns: 4}
kernel: {bandwidth: 0.5*median}
"""


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Return standard output as the one JSON document it is."""
        return json.loads(self.out)


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    """The environment of the commands: a cache of their own, and warnings as a user sees them."""
    cache = tmp_path_factory.mktemp("cache")
    return {name: value for name, value in os.environ.items() if not name.startswith("DSSL_")} | {
        "DSSL_CACHE": str(cache), "PYTHONWARNINGS": "default", "COLUMNS": "200"}


@pytest.fixture(scope="session")
def dssl(environment) -> Callable[..., Outcome]:
    """Run one command to its end, in this process: a second instead of several, and every warning is an error."""
    def call(*arguments: Any) -> Outcome:
        done = CliRunner(env={"DSSL_CACHE": environment["DSSL_CACHE"]}).invoke(main, list(map(str, arguments)),
                                                                              catch_exceptions=False)
        return Outcome(done.exit_code, done.stdout, done.stderr)
    return call


@pytest.fixture(scope="session")
def process(environment) -> Callable[..., Outcome]:
    """Run one command to its end, in a process of its own."""
    def call(*arguments: Any, cwd: Path | None = None) -> Outcome:
        done = subprocess.run([*COMMAND, *map(str, arguments)], env=environment, cwd=cwd, capture_output=True,
                              text=True, timeout=200)
        return Outcome(done.returncode, done.stdout, done.stderr)
    return call


def heed_interrupts() -> None:
    """Undo that a shell has its background jobs, and all that they start, ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(environment):
    """Start a command in a process group of its own; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def call(*arguments: Any) -> subprocess.Popen[str]:
        started.append(subprocess.Popen([*COMMAND, *map(str, arguments)], env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, start_new_session=True,
                                        preexec_fn=heed_interrupts))
        return started[-1]

    yield call
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture(scope="session")
def slow_columns(tmp_path_factory) -> Path:
    """A spec whose columns are 100 tasks of some seconds in all."""
    path = tmp_path_factory.mktemp("spec") / "slow_columns.yaml"
    path.write_text(SLOW_COLUMNS)
    return path


@pytest.fixture(scope="session")
def undisturbed(dssl, slow_columns, tmp_path_factory) -> dict[str, Any]:
    """The result of the slow pipeline when nothing happens to it."""
    return dssl("run", slow_columns, "--workspace", tmp_path_factory.mktemp("undisturbed"), "--on", "in-process",
                "--json").document


def receipts(workspace: Path) -> dict[str, tuple[int, bytes]]:
    """Return modification time and content of the receipts of the columns, by number."""
    found = {}
    for path in workspace.glob("artifacts/columns/*/*/receipts/[0-9]*.json"):
        found[path.stem] = (path.stat().st_mtime_ns, path.read_bytes())
    return found


def wait_for_receipts(workspace: Path, min_count: int, process: subprocess.Popen[str]) -> None:
    """Return when so many columns are solved; fail if the process ends before."""
    deadline = time.monotonic() + 120
    while len(receipts(workspace)) < min_count:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "the columns were not reached"
        time.sleep(0.02)


def outcome(result: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a run found, without when and where."""
    return tuple(result[key] for key in ("metrics", "baselines", "gain", "unreachable"))
