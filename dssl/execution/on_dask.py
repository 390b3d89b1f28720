"""Tasks on the workers of a Dask client."""

import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

import dask
import numba
import psutil
from dask.utils import parse_timedelta
from distributed import Client, KilledWorker, get_client, get_worker, wait
from distributed.comm import CommClosedError
from threadpoolctl import threadpool_limits

from .. import __version__
from ..base.digest import digest
from ..base.errors import ClusterError, IntegrityError, Preempted, TaskFailed, explain
from ..base.profiler import return_freed_memory
from ..base.urls import is_object_url
from ..storage.blocks import Parts, Receipt, Rows, write_dense
from ..storage.cache import limit_caches, release_caches
from ..storage.files import is_there, path_at, place_of, remove_tree
from ..storage.objects import ObjectPath
from ..storage.pieces import write_sparse
from ..storage.store import StoredParts
from ..storage.write_behind import settle
from .cost import PAUSE_SHARE, WorkerRoom
from .in_process import InProcess, delayed_parts
from .size import MEMORY_BUDGET
from .tasks import SHARED_CHUNK, Execution, Task, run_part
from .watchdog import PATIENCE, Watchdog
from .window import Finished, run_in_window
from .worker_kinds import processors, require_memory, require_version, this_kind

NEAR = 0.9  # of the mark at which a worker is paused


@dataclass(frozen=True)
class WorkerMemory:
    """What the tasks of a worker may take together (bytes), and at how many of the process it is paused, or None."""

    budget: int
    pause: int | None
    threads: int = 1

    _last: ClassVar[type | None] = None  # the task that ran last in this process

    @contextmanager
    def around(self, task: object) -> Iterator[None]:
        """Give back what is kept before a task and after it, where that is needed."""
        limit_caches(self.budget)
        if type(task) is not WorkerMemory._last:
            WorkerMemory._last = type(task)
            self._keep_below(0 if self.pause is None else self.pause - self.budget * self.threads)
        try:
            yield
        finally:
            self._keep_below(0 if self.pause is None else int(NEAR * self.pause))

    def _keep_below(self, most: int) -> None:
        if self.pause is not None and psutil.Process().memory_info().rss > most and release_caches():
            return_freed_memory()


MIN_WINDOW = 24  # tasks under way, so that the 10 ms of a message's way there and back are not waited for
LAST_PARTS = 60.0  # seconds for which tasks under way are waited for when a batch job's time is nearly over
_LIMITED = False


def run_on_worker(task: Task, parts: Parts, index: int, memory: WorkerMemory, version: str,
                  mark: Path | None = None) -> Receipt:
    """Run one task in a worker that has one core for it, whatever started the worker.

    version : of dssl at the driver; raise ClusterError if this worker, which may have come later, has another.
    mark : a file that the driver has made among the parts; raise ClusterError if it is not there.
    """
    global _LIMITED
    require_version({"dssl": __version__}, version, get_worker().address)
    if mark is not None and not is_there(mark):
        raise ClusterError(explain(
            f"the worker {get_worker().address} cannot open {mark.parent}", why="it is there for the process that "
            "started the run; what the worker writes would come to another place",
            fix="start workers with the endpoint and the credentials of the store in their environment"
                if isinstance(mark, ObjectPath) else
                "name a workspace on a file system that every machine mounts at the same path, and have workers run as "
                "a user who may write there"))
    if not _LIMITED:  # Dask's nanny limits BLAS and OpenMP but neither Numba nor workers started without a nanny
        threadpool_limits(1)
        numba.set_num_threads(1)
        _LIMITED = True
    with memory.around(task):
        return run_part(task, parts, index)


class OnDask(Execution):
    """Runs tasks on the workers of a Dask client; parts go through storage that every worker can open.

    patience : seconds without a running worker after which it ends with ClusterError. beside : see `WorkerRoom`.
    """

    def __init__(self, client: Client, memory_budget: int | None = None, patience: float = PATIENCE, beside: int = 0):
        self.client = client
        self.watchdog = Watchdog(client, patience)
        workers = client.scheduler_info(n_workers=-1)["workers"]
        kinds = client.run(this_kind, on_error="return") if workers else {}
        for place, kind in kinds.items():
            require_version(kind, __version__, place)
        self.processors = processors(kinds)
        limited = [WorkerRoom(worker["memory_limit"], worker["nthreads"], place, beside=beside)
                   for place, worker in workers.items() if worker["memory_limit"]]
        for place, worker in workers.items():
            require_memory(worker["memory_limit"], place)
        self.smallest_worker = WorkerRoom.smallest(limited)
        self._pause = min((int(PAUSE_SHARE * worker.memory_limit) for worker in limited), default=None)
        # By default half of a task's share, since NumPy cannot spill.
        share = min((worker.memory_limit // worker.threads for worker in limited), default=2 * MEMORY_BUDGET)
        room = self.smallest_worker.room if self.smallest_worker is not None else MEMORY_BUDGET
        self.memory_budget = memory_budget or min(MEMORY_BUDGET, share // 2, room)
        threads = client.nthreads().values()
        self.tasks_per_process = max(threads, default=1)
        self.tasks_at_once = max(sum(threads), 1)
        self._folder: str | None = None
        self._scratches = count(1)  # one for all that `within` makes of this: they share the folder

    def ask_workers(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        return self.client.run(question, *arguments)

    def versions(self, names: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """Return the versions of Python, of Dask and of packages on the client, the scheduler and by worker address."""
        answer: Any = self.client.get_versions(packages=names)
        return {place: described["packages"] for place, described in (
            ("here", answer["client"]), ("scheduler", answer["scheduler"]), *answer["workers"].items())}

    def settings(self) -> dict[str, Any]:
        """Return what the cluster does about workers that stop, die or are full, whoever started it.

        worker-ttl (seconds without a sign of life, None for ever), allowed-failures, and pause, the shares of their
        memory limits at which workers begin no task.
        """
        scheduler, of = self.client.run_on_scheduler, dask.config.get  # which need not know dssl
        silent = scheduler(of, "distributed.scheduler.worker-ttl", None)
        pauses = self.client.run(of, "distributed.worker.memory.pause", 0.8).values()
        return {"worker-ttl": parse_timedelta(silent, default="s") if silent else None,
                "allowed-failures": scheduler(of, "distributed.scheduler.allowed-failures", 3),
                "pause": sorted({float(share) for share in pauses if share})}

    def scratch(self) -> Parts:
        """Return parts in a folder that lives as long as this execution, and that every worker must be able to open.

        It is made in `scratch_folder` (a pipeline's run sets it), in Dask's `temporary-directory`, or in the system's.
        """
        if self._folder is None:
            place = self.scratch_folder or dask.config.get("temporary-directory", None)
            self._folder = f"{place}/dssl-{uuid.uuid4().hex}" if place and is_object_url(place) else \
                mkdtemp(prefix="dssl-", dir=place)
            weakref.finalize(self, remove_tree, place_of(self._folder))
        return StoredParts(f"{self._folder}/{next(self._scratches)}")

    def share_rows(self, rows: Rows) -> Rows:
        if not rows.held:
            return rows
        height = max(1, SHARED_CHUNK // rows.row_bytes)
        parts = self.scratch()
        return write_sparse(rows, parts, height) if rows.is_sparse else write_dense(rows, parts, "rows", height)

    @property
    def _memory(self) -> WorkerMemory:
        return WorkerMemory(self.memory_budget, self._pause, self.tasks_per_process)

    def map_delayed(self, blocks: Sequence[Any], task: Callable[[Any], Task], parts: Parts) -> list[Receipt]:
        receipts: dict[int, Receipt] = {}
        settle(removals=True)
        run = partial(run_on_worker, memory=self._memory, version=__version__)
        with self._waiting(parts, receipts.__setitem__) as collect:
            futures = self.client.compute(delayed_parts(run, blocks, task, parts))
            collect(list(enumerate(futures)), len(futures), lambda index, future: future)
        return [receipts[index] for index in range(len(futures))]

    def _run(self, pending: list[tuple[int, Task]], parts: Parts, done: Callable[[int, Receipt], None]) -> None:
        if not pending:
            return
        settle(removals=True)  # workers may write where something was removed
        stage = digest({"parts": repr(parts), "at": time.time_ns()})[:12]
        memory = self._memory

        def submit(index: int, task: Task) -> Any:
            home = getattr(task, "home", None)
            place = {} if home is None or not homes else {
                "workers": [homes[home % len(homes)]], "allow_other_workers": True}
            # No retries: an exception would come again. A task whose worker died is run again by the scheduler.
            return self.client.submit(run_on_worker, task, parts, index, memory, __version__, mark, pure=False,
                                      key=f"{type(task).__name__}-{stage}-{index}", **place)

        marked = parts.marked() if isinstance(parts, StoredParts) else nullcontext()
        with self._waiting(parts, done) as collect, marked as mark:
            threads = self.client.nthreads()
            homes = sorted(threads)
            # A window keeps the scheduler small: work on row blocks is never submitted all at once.
            collect(pending, max(MIN_WINDOW, 3 * sum(threads.values())), submit)

    @contextmanager
    def _waiting(self, parts: Parts, done: Callable[[int, Receipt], None]) -> Iterator[Callable[..., None]]:
        """Yield a function that submits a list of numbered tasks, a window of them at a time, and waits for them.

        Raise ClusterError where the cluster is lost or nothing works, TaskFailed where a task ends its workers.
        """
        running: dict[Any, int] = {}

        def finish(index: int, receipt: Receipt) -> None:
            self.watchdog.saw_work()
            done(index, receipt)

        def look() -> None:
            self.allowed()
            self.watchdog.look()

        def stored(future: Any, index: int) -> Receipt | None:
            # The receipt lies among the parts: its worker is not asked for it, who may have died, and 2 ms are saved.
            if future.status == "finished":
                with suppress(IntegrityError):
                    return parts.receipt(index)
            return None

        def collect(pending: list[tuple[int, Any]], window: int, submit: Callable[[int, Any], Any]) -> None:
            self.watchdog.begin()
            with Finished() as finished:
                run_in_window(pending, window, submit, finish, running, finished, look, stored)

        try:
            yield collect
        except KilledWorker as error:
            raise TaskFailed(explain(
                f"task {error.task} ended {error.last_worker.address} and every worker that tried it",
                why="a task that ends its worker again and again most often needs more memory than the worker has",
                fix="give workers more memory, or lower memory_budget so that blocks get smaller, then run again: "
                    "finished parts are kept")) from error
        except BaseException as error:
            lost = isinstance(error, CommClosedError) or type(error).__name__ == "FutureCancelledError"
            if lost or self.client.status != "running":
                raise ClusterError(explain(
                    f"the scheduler at {self.client.scheduler.addr if self.client.scheduler else '?'} was lost",
                    why="running tasks can no longer report their results",
                    fix="start the cluster again and repeat the command: finished parts are kept")) from error
            if isinstance(error, ClusterError):  # who does not answer cannot cancel; tasks without a mark end
                raise
            if isinstance(error, Preempted):  # there is time for what is under way
                with suppress(TimeoutError):
                    wait(list(running), timeout=LAST_PARTS)
            self.client.cancel(list(running))
            if isinstance(error, FileNotFoundError) and error.filename and path_at(error.filename).exists():
                raise ClusterError(explain(
                    f"a worker cannot open {error.filename}, which is there for the process that started the run",
                    why="a task reads it where it runs",
                    fix="keep data on a file system that every machine mounts at the same path")) from error
            raise


def active_execution(memory_budget: int | None = None) -> Execution | None:
    """Return the execution on the active Dask client, of a Dask task one without it, and None where neither is."""
    with suppress(ValueError):  # unless this is not a Dask task
        get_worker()
        return InProcess(1, memory_budget or MEMORY_BUDGET)  # a task that waits for other tasks can wait forever
    with suppress(ValueError):  # unless no client is active
        return OnDask(get_client(), memory_budget)
    return None
