"""Tasks on the workers of a Dask client.

What takes long to import, Zarr and Numba, is imported where tasks run or are stored: the schedulers of submitted runs
and the parents of their workers import this file, and need neither.
"""

import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from threading import Event
from typing import Any, ClassVar

import dask
import psutil
from dask.utils import parse_timedelta
from distributed import Client, KilledWorker, get_client, get_worker, wait
from distributed import Future as WorkerFuture
from distributed.comm import CommClosedError
from threadpoolctl import threadpool_limits

from .. import __version__
from ..base.digest import digest
from ..base.errors import ClusterError, IntegrityError, Preempted, TaskFailed, explain
from ..base.profiler import return_freed_memory
from ..base.units import MEMORY_BUDGET
from ..base.urls import is_loopback, is_object_url
from ..storage.blocks import Parts, Receipt, Rows, write_dense
from ..storage.cache import limit_caches, release_caches
from ..storage.files import is_visible, path_at, remove_tree, resolved_path
from ..storage.objects import ObjectPath
from ..storage.write_behind import settle
from .cost import PAUSE_SHARE, WorkerRoom
from .in_process import InProcess, delayed_parts
from .tasks import SHARED_CHUNK, Execution, Placed, Task, run_part
from .threads import Answer
from .watchdog import PATIENCE, Watchdog
from .window import Finished, run_in_window
from .work import Work
from .worker_kinds import processors, require_memory, require_version, this_kind

NEAR = 0.9  # caches are released above this share of the memory at which a worker is paused


@dataclass(frozen=True)
class WorkerMemory:
    """The budget of one task, and the process size at which Dask pauses the worker (bytes, None for never)."""

    budget: int
    pause: int | None
    threads: int = 1

    _last: ClassVar[type | None] = None  # the type of the task that ran last in this process

    @contextmanager
    def around(self, task: object) -> Iterator[None]:
        """Release caches before and after a task if the process is close to being paused."""
        limit_caches(self.budget)
        if type(task) is not WorkerMemory._last:
            WorkerMemory._last = type(task)
            self._keep_below(0 if self.pause is None else self.pause - self.budget * self.threads)
        try:
            yield
        finally:
            self._keep_below(0 if self.pause is None else int(NEAR * self.pause))

    def _keep_below(self, limit: int) -> None:
        if self.pause is not None and psutil.Process().memory_info().rss > limit and release_caches():
            return_freed_memory()


MIN_WINDOW = 24  # submitted tasks at a time, which hides the 10 ms round trip of a message
LAST_PARTS = 60.0  # seconds in which running tasks may still finish when the time of a batch job is nearly over
_LIMITED = False


def run_on_worker(task: Task, parts: Parts, index: int, memory: WorkerMemory, version: str,
                  mark: Path | None = None) -> Receipt:
    """Run one task on one core of a worker, whatever started the worker.

    version : the driver's version of dssl; a worker with another version raises ClusterError.
    mark : a file that the driver has written among the parts; a worker that cannot see it raises ClusterError.
    """
    global _LIMITED
    require_version({"dssl": __version__}, version, get_worker().address)
    if mark is not None and not is_visible(mark):
        raise ClusterError(explain(
            f"the worker {get_worker().address} cannot open {mark.parent}",
            why="the process that started the run sees the folder; the worker would write to a different one",
            fix="start workers with the endpoint and the credentials of the store in their environment"
                if isinstance(mark, ObjectPath) else
                "use a workspace on a file system that every machine mounts at the same path, and run the workers as a "
                "user who may write there"))
    if not _LIMITED:  # Dask's nanny limits BLAS and OpenMP, but neither Numba nor workers without a nanny
        import numba

        threadpool_limits(1)
        numba.set_num_threads(1)
        return_freed_memory()
        _LIMITED = True
    with memory.around(task):
        return run_part(task, parts, index)


@dataclass(frozen=True)
class ClusterSettings:
    """How a cluster treats workers that are silent, die or run out of memory.

    worker_ttl : seconds of silence after which a worker counts as dead, None for never. allowed_failures : the workers
    that a task may kill. pauses : the distinct shares of their memory limits above which workers start no task.
    """

    worker_ttl: float | None
    allowed_failures: int
    pauses: tuple[float, ...]


def on_one_machine(workers: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether the workers, as the scheduler describes them by address, run on the machine of the scheduler."""
    return all(is_loopback(worker["host"]) for worker in workers.values())


class OnDask(Execution):
    """Runs tasks on the workers of a Dask client; parts go through storage that every worker can open.

    patience : seconds without a running worker after which a wait ends with ClusterError. beside : see `WorkerRoom`.
    """

    in_workers = True

    def __init__(self, client: Client, memory_budget: int | None = None, patience: float = PATIENCE, beside: int = 0):
        self.client = client
        self.watchdog = Watchdog(client, patience)
        workers = client.scheduler_info(n_workers=-1)["workers"]
        kinds = client.run(this_kind, on_error="return") if workers else {}
        for address, kind in kinds.items():
            require_version(kind, __version__, address)
        self.processors = processors(kinds)
        limited = [WorkerRoom(worker["memory_limit"], worker["nthreads"], address, beside=beside)
                   for address, worker in workers.items() if worker["memory_limit"]]
        for address, worker in workers.items():
            require_memory(worker["memory_limit"], address)
        self.smallest_worker = WorkerRoom.smallest(limited)
        self._pause = min((int(PAUSE_SHARE * worker.memory_limit) for worker in limited), default=None)
        # By default half the share of a thread, since NumPy cannot spill.
        share = min((worker.memory_limit // worker.threads for worker in limited), default=2 * MEMORY_BUDGET)
        room = self.smallest_worker.room if self.smallest_worker is not None else MEMORY_BUDGET
        self.memory_budget = memory_budget or min(MEMORY_BUDGET, share // 2, room)
        threads = client.nthreads().values()
        self.tasks_per_process = max(threads, default=1)
        self.tasks_at_once = max(sum(threads), 1)
        # While one task runs, the other workers of its machine are idle, so it may use their cores.
        self.threads_alone = self.tasks_at_once if on_one_machine(workers) else self.tasks_per_process
        # What stops the works that began in each body of `stopping_works`; also of the copies that `within` makes.
        self._begun: dict[int, list[Event]] = {}
        self._folder: str | None = None
        self._scratches = count(1)  # shared with the copies that `within` makes: they use one folder

    @property
    def is_open(self) -> bool:
        return bool(self.client.status == "running")

    def concurrently(self, work: Callable[[], Answer]) -> Callable[[], Answer]:
        done, stopped = Future[Answer](), Event()
        for begun in [*self._begun.values()]:
            begun.append(stopped)
        settle()  # what the work's tasks may read
        Work(work, done, stopped).start()
        return done.result

    @contextmanager
    def stopping_works(self) -> Iterator[None]:
        begun: list[Event] = []
        self._begun[id(begun)] = begun
        try:
            yield
        finally:
            del self._begun[id(begun)]
            for stopped in begun:
                stopped.set()

    def ask_workers(self, question: Callable[..., Answer], *arguments: object) -> dict[str, Answer]:
        answers: dict[str, Answer] = self.client.run(question, *arguments)
        return answers

    def versions(self, names: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """Return the versions of packages, Dask and Python on "here", the "scheduler", and each worker address."""
        answer: Any = self.client.get_versions(packages=names)
        return {process: described["packages"] for process, described in (
            ("here", answer["client"]), ("scheduler", answer["scheduler"]), *answer["workers"].items())}

    def settings(self) -> "ClusterSettings":
        """Return how the cluster treats workers that are silent, die or run out of memory."""
        # The scheduler need not have dssl installed, so it runs a function of Dask.
        scheduler, setting = self.client.run_on_scheduler, dask.config.get
        ttl = scheduler(setting, "distributed.scheduler.worker-ttl", None)
        pauses = self.client.run(setting, "distributed.worker.memory.pause", 0.8).values()
        return ClusterSettings(parse_timedelta(ttl, default="s") if ttl else None,
                               scheduler(setting, "distributed.scheduler.allowed-failures", 3),
                               tuple(sorted({float(share) for share in pauses if share})))

    def scratch(self) -> Parts:
        """Return parts in a temporary folder, which every worker must be able to open; it lives as long as this.

        It lies in `scratch_folder` (which a pipeline's run sets), Dask's `temporary-directory`, or the system's.
        """
        if self._folder is None:
            folder = self.scratch_folder or dask.config.get("temporary-directory", None)
            self._folder = f"{folder}/dssl-{uuid.uuid4().hex}" if folder and is_object_url(folder) else \
                mkdtemp(prefix="dssl-", dir=folder)
            weakref.finalize(self, remove_tree, resolved_path(self._folder))
        from ..storage.store import StoredParts

        return StoredParts(f"{self._folder}/{next(self._scratches)}")

    def share_rows(self, rows: Rows) -> Rows:
        if not rows.held:
            return rows
        height = max(1, SHARED_CHUNK // rows.row_bytes)
        from ..storage.views import write_sparse

        parts = self.scratch()
        return write_sparse(rows, parts, height) if rows.is_sparse else write_dense(rows, parts, "rows", height)

    @property
    def _memory(self) -> WorkerMemory:
        return WorkerMemory(self.memory_budget, self._pause, self.tasks_per_process)

    def map_delayed(self, blocks: Sequence[Any], task: Callable[[Any], Task], parts: Parts) -> list[Receipt]:
        receipts: dict[int, Receipt] = {}
        settle(removals=True)
        run = partial(run_on_worker, memory=self._memory, version=__version__)

        def done(placed: Placed, receipt: Receipt) -> list[Placed]:
            receipts[placed.index] = receipt
            return []

        with self._waiting(done) as collect:
            futures: list[Any] = self.client.compute(delayed_parts(run, blocks, task, parts))
            collect([Placed(future, parts, index) for index, future in enumerate(futures)], len(futures),
                    lambda placed: placed.task)
        return [receipts[index] for index in range(len(futures))]

    def _run(self, pending: Sequence[Placed], done: Callable[[Placed, Receipt], list[Placed]]) -> None:
        settle(removals=True)  # workers may write to folders that are being removed
        numbers, memory = count(), self._memory
        stage = digest({"parts": repr(pending[0].parts), "at": time.time_ns()})[:12]
        marks: dict[int, Path | None] = {}

        def submit(placed: Placed) -> WorkerFuture:
            task, home = placed.task, getattr(placed.task, "home", None)
            restriction = {} if home is None or not homes else {
                "workers": [homes[home % len(homes)]], "allow_other_workers": True}
            # No retries: an exception would occur again. The scheduler itself reruns a task whose worker died.
            return self.client.submit(run_on_worker, task, placed.parts, placed.index, memory, __version__,
                                      mark_in(placed.parts), pure=False,
                                      key=f"{type(task).__name__}-{stage}-{next(numbers)}", **restriction)

        from ..storage.store import StoredParts

        def mark_in(parts: Parts) -> Path | None:
            if id(parts) not in marks:
                marks[id(parts)] = stack.enter_context(parts.marked()) if isinstance(parts, StoredParts) else None
            return marks[id(parts)]

        with self._waiting(done) as collect, ExitStack() as stack:
            threads = self.client.nthreads()
            homes = sorted(threads)
            # A window of submitted tasks keeps the scheduler's memory small.
            collect(pending, max(MIN_WINDOW, 3 * sum(threads.values())), submit)

    @contextmanager
    def _waiting(self, done: Callable[[Placed, Receipt], list[Placed]]) -> Iterator[Callable[..., None]]:
        """Yield a function that submits tasks, a window of them at a time, and waits for them.

        Raises
        ------
        ClusterError : the connection to the cluster is lost, or no worker runs. TaskFailed : a task kills its workers.
        """
        running: dict[WorkerFuture, Placed] = {}

        def finish(placed: Placed, receipt: Receipt) -> list[Placed]:
            self.watchdog.saw_work()
            return done(placed, receipt)

        def look() -> None:
            self.allowed()
            Work.heed()
            self.watchdog.look()

        def stored(future: WorkerFuture, placed: Placed) -> Receipt | None:
            # The receipt is stored with the parts. Reading it saves the 2 ms of asking the worker, which may have died.
            if future.status == "finished":
                with suppress(IntegrityError):
                    return placed.parts.receipt(placed.index)
            return None

        def collect(pending: Sequence[Placed], window: int, submit: Callable[[Placed], Any]) -> None:
            self.watchdog.begin()
            with Finished() as finished:
                run_in_window(pending, window, submit, finish, running, finished, look, stored)

        try:
            yield collect
        except KilledWorker as error:
            raise TaskFailed(explain(
                f"task {error.task} killed {error.last_worker.address} and every worker that tried it",
                why="a task that repeatedly kills its worker usually needs more memory than the worker has",
                fix="give workers more memory, or lower memory_budget so that blocks get smaller, then run again: "
                    "finished parts are kept")) from error
        except BaseException as error:
            is_connection_error = isinstance(error, CommClosedError) or type(error).__name__ == "FutureCancelledError"
            if is_connection_error or self.client.status != "running":
                raise ClusterError(explain(
                    f"the connection to the scheduler at {getattr(self.client.scheduler, 'addr', '?')} was lost",
                    why="running tasks can no longer report their results",
                    fix="start the cluster again and repeat the command: finished parts are kept")) from error
            if isinstance(error, ClusterError):  # a scheduler that does not answer cannot cancel anything either
                raise
            if isinstance(error, Preempted):  # running tasks have time to finish
                with suppress(TimeoutError):
                    wait(list(running), timeout=LAST_PARTS)
            self.client.cancel(list(running))
            if isinstance(error, FileNotFoundError) and error.filename and path_at(error.filename).exists():
                raise ClusterError(explain(
                    f"a worker cannot open {error.filename}, though the process that started the run can",
                    why="a task reads its data on the machine on which it runs",
                    fix="keep data on a file system that every machine mounts at the same path")) from error
            raise


def active_execution(memory_budget: int | None = None) -> Execution | None:
    """Return the execution on the active Dask client, one thread inside a Dask task, and None without either."""
    with suppress(ValueError):  # raised outside of Dask tasks
        get_worker()
        return InProcess(1, memory_budget or MEMORY_BUDGET)  # a task that waits for other tasks can deadlock
    with suppress(ValueError):  # raised if no client is active
        return OnDask(get_client(), memory_budget)
    return None
