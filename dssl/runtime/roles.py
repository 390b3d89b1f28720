"""A run as one command that many processes start: the rank of each says if it is scheduler, driver or worker.

    rank 0     the scheduler; it writes its address and the certificates of this start into the run's folder
    rank 1     the driver; it runs the pipeline on the others
    rank 2...  a Nanny with its worker process, which the Nanny restarts if it dies

`dask_jobqueue.runner.BaseRunner` does the same, but its workers have no Nanny by default, and thus no memory limit, no
pinned threads and no restart.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import dask
from distributed import Client, Nanny, Scheduler
from distributed.comm import connect
from distributed.security import Security

from ..base.digest import JsonObject
from ..base.errors import ClusterError, explain
from ..execution.on_dask import OnDask
from ..storage.files import draft_of
from .description import RankedRuntime

LOOK_EVERY = 0.5  # seconds between two checks for a file, or for the driver
CONNECT_SECONDS = 10.0  # for which a driver tries to connect to one scheduler
# Number of workers that may end while a task is assigned to them. It is high because nobody watches a submitted run, an
# engine may end its workers at any time, and Dask also counts workers on which a task only waited.
SETTINGS = {"distributed.scheduler.allowed-failures": 10}
DRIVER_TIMEOUT = 15.0  # seconds after which a scheduler ends that its driver has left
DRIVER = "driver"  # the name of its client, since others may look at a scheduler before the driver has come
KEYS = ("tls_ca_file", "tls_client_cert", "tls_client_key", "tls_scheduler_cert", "tls_scheduler_key",
        "tls_worker_cert", "tls_worker_key")


@dataclass(frozen=True)
class Meeting:
    """The file by which the ranks of one start of a job find each other; the scheduler writes it.

    Only its owner can read it. If an engine restarts single ranks, the file belongs to the newest scheduler, which may
    have been killed; so the other ranks wait until a scheduler answers.
    """

    folder: Path
    start: str
    timeout: float = 3.0  # seconds in which a running scheduler must answer

    @property
    def path(self) -> Path:
        return self.folder / f"address-{self.start}.json"

    def announce(self, address: str, security: Security) -> None:
        """Write the address of the scheduler, and the certificates for it."""
        with draft_of(self.path) as draft:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump({"address": address, **{key: getattr(security, key) for key in KEYS}}, file)

    def wait(self, seconds: float) -> tuple[str, Security]:
        """Return the address of a scheduler that answers, with certificates; raise ClusterError if none does."""
        until = time.monotonic() + seconds
        while True:
            with suppress(FileNotFoundError):
                record: JsonObject = json.loads(self.path.read_text(encoding="utf-8"))
                address = record.pop("address")
                security = Security(require_encryption=True, **record)
                if asyncio.run(_answers(address, security, self.timeout)):
                    return address, security
            if time.monotonic() >= until:
                raise ClusterError(explain(
                    f"the scheduler of this job did not start within {seconds:.0f} seconds",
                    why=f"it would have written its address to {self.path}",
                    fix="see `dssl logs RUN --rank 0`, and check that all processes of the job see the same folder"))
            time.sleep(LOOK_EVERY)

    def forget(self, address: str) -> None:
        """Remove the file of a scheduler that ends; the file of a later scheduler stays."""
        with suppress(FileNotFoundError):
            if json.loads(self.path.read_text(encoding="utf-8"))["address"] == address:
                self.path.unlink()


async def _answers(address: str, security: Security, seconds: float) -> bool:
    """Return whether a scheduler answers and accepts the certificates."""
    try:
        comm = await connect(address, timeout=seconds, **security.get_connection_args("client"))
    except OSError:
        return False
    await comm.close()
    return True


def forget_meetings(folder: Path) -> None:
    """Remove the address files of killed schedulers from a run's folder."""
    for path in folder.glob("address-*.json"):
        path.unlink(missing_ok=True)


def serve_scheduler(meeting: Meeting, runtime: RankedRuntime) -> None:
    """Run the scheduler until the driver ends it, has left for `DRIVER_TIMEOUT`, or does not come in `join_timeout`."""
    _leave_signals_to_the_driver()

    async def serve() -> None:
        security = Security.temporary()
        async with Scheduler(host=runtime.host, port=0, interface=runtime.interface, security=security,
                             protocol="tls://", dashboard=runtime.serves_dashboard,
                             dashboard_address="127.0.0.1:0") as scheduler:
            meeting.announce(scheduler.address, security)
            last_seen = time.monotonic() + runtime.join_timeout  # the driver may come later
            try:
                while scheduler.status.name == "running":
                    await asyncio.sleep(LOOK_EVERY)
                    now = time.monotonic()
                    if any(client.startswith(f"{Client.__name__}-{DRIVER}-") for client in scheduler.clients):
                        last_seen = now
                    elif now - last_seen > DRIVER_TIMEOUT:
                        break
            finally:
                meeting.forget(scheduler.address)  # before it ends, so that readers of the file wait for the next one

    with dask.config.set({**runtime.settings(), **SETTINGS}):
        asyncio.run(serve())


def serve_worker(meeting: Meeting, runtime: RankedRuntime) -> None:
    """Run a Nanny with its worker until the scheduler ends it or stops."""
    _leave_signals_to_the_driver()
    address, security = meeting.wait(runtime.join_timeout)

    async def serve() -> None:
        async with Nanny(address, nthreads=runtime.threads_per_worker, memory_limit=runtime.worker_memory(),
                         security=security, protocol="tls://", host=runtime.host, interface=runtime.interface,
                         dashboard=False, death_timeout=runtime.join_timeout,
                         env={"NUMBA_NUM_THREADS": str(runtime.threads_per_worker)}) as nanny:
            await nanny.finished()

    with dask.config.set(runtime.settings()):
        asyncio.run(serve())


@contextmanager
def driven(meeting: Meeting, runtime: RankedRuntime, workers: int, memory_budget: int) -> Iterator[tuple[OnDask, str]]:
    """Yield the execution on the other ranks of a job, and one line that describes it; end the ranks afterwards.

    workers : their number. The run starts after `join_timeout` with the workers that have connected; raises
    ClusterError if none has.
    """
    seconds = runtime.join_timeout
    with dask.config.set(runtime.settings()), _connected(meeting, seconds) as client:
        try:
            with suppress(TimeoutError):
                client.wait_for_workers(workers, timeout=seconds)
            connected = len(client.scheduler_info(n_workers=-1)["workers"])
            if connected == 0:
                raise ClusterError(explain(
                    f"none of the {workers} workers has connected within {seconds:.0f} seconds",
                    why="tasks run on workers",
                    fix="see the logs of the workers: `dssl logs RUN --rank 2`, and so on"))
            yield (OnDask(client, memory_budget, runtime.patience, runtime.beside),
                   f"{connected} of {workers} workers, {runtime.threads_per_worker} thread(s) each")
        finally:
            if client.status == "running":
                client.shutdown()


def _connected(meeting: Meeting, seconds: float) -> Client:
    """Return a client of the scheduler.

    A scheduler may end at that moment, since an earlier driver has disconnected; then wait for the next scheduler.
    """
    until = time.monotonic() + seconds
    while True:
        address, security = meeting.wait(until - time.monotonic())
        with suppress(OSError):
            return Client(address, security=security, timeout=CONNECT_SECONDS, name=DRIVER)


def _leave_signals_to_the_driver() -> None:
    """Ignore the signals that an engine sends to all processes of a job: the driver ends the other ones."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
