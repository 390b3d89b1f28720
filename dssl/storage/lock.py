"""The lock of a folder: one writer at a time, on any number of machines that share the folder."""

import fcntl
import os
import socket
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, TypedDict, TypeGuard, cast

import psutil

from ..base.errors import DataError, IntegrityError, LockedError, explain
from .files import read_json, write_json

WAIT_STEP = 0.2  # seconds between two attempts to take a lock
LEASE_SECONDS = 60.0  # a lock that was not renewed for so long counts as abandoned
BOOT, NAMESPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")  # exist on Linux only


def clock() -> float:
    """Return the seconds of a monotonic clock that, where possible, also counts while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Holder(TypedDict, total=False):
    """The holder of a lock, as its file records it; epoch and beat exist in object stores only."""

    host: str
    boot: str
    namespace: str
    pid: int
    started: float
    token: str
    epoch: int
    beat: int


class WaitsForLock(UserWarning):
    """Another process holds the lock, and this process waits for it."""


class LockOptions(TypedDict, total=False):
    """What `Lock` takes besides `wait`."""

    why: str
    fix: str
    clears: bool
    lease: float


class Lock(ABC):
    """The lock of a folder, which has one writer at a time.

    A lock is taken over if its holder is gone and this process can see that (`host_identity`), or if it was not renewed
    for `lease` seconds; nobody has to remove a lock by hand. Clocks of two machines are never compared.

    wait : seconds to wait for another holder, after a warning; with 0, LockedError is raised at once.
    clears : whether a folder that contains nothing else is removed when the lock is released.
    """

    def __init__(self, path: Path, *, why: str = "two runs would write the same parts",
                 fix: str = "wait for it (--wait), or choose another --workspace", wait: float = 0.0,
                 clears: bool = False, lease: float = LEASE_SECONDS):
        self.path = path
        self.why = why
        self.fix = fix
        self.wait = wait
        self.clears = clears
        self.lease = lease
        self._this_process = cast(Holder, {**host_identity(), "pid": os.getpid(), "token": os.urandom(8).hex(),
                                   "started": psutil.Process().create_time()})
        self._released = threading.Event()
        self._renewed = 0.0  # see `clock`

    def __enter__(self) -> Self:
        deadline = time.monotonic() + self.wait
        announced = False
        while True:
            try:
                return self._take()
            except LockedError as error:
                if time.monotonic() >= deadline and not self._may_be_dead():
                    raise
                if not announced:
                    warnings.warn(f"{error.args[0].splitlines()[0]}: waiting for it", WaitsForLock, stacklevel=3)
                    announced = True
                time.sleep(WAIT_STEP)

    @abstractmethod
    def _take(self) -> Self:
        """Take the lock; raise LockedError if there is another holder."""

    def _may_be_dead(self) -> bool:
        """Return whether waiting a little longer would show if the holder is alive."""
        return False

    @abstractmethod
    def check(self) -> None:
        """Raise LockedError if another process holds the lock, or may take it since it could not be renewed."""

    @abstractmethod
    def __exit__(self, *exc: object) -> None:
        """Release the lock."""

    def _held_by(self, holder: Holder) -> LockedError:
        """Return the error for a lock that another process holds."""
        return LockedError(explain(f"process {holder['pid']} on {holder['host']} is using {self.path.parent}",
                                   why=self.why, fix=self.fix))

    def _start_renewing(self) -> None:
        self._renewer = threading.Thread(target=self._renew, daemon=True)
        self._renewer.start()

    @abstractmethod
    def _renew(self) -> None:
        """Renew the lock until it is released; runs in a thread."""


class FolderLock(Lock):
    """The lock of a folder as a file that names its holder, and that the holder touches while it lives.

    All times are those of the folder's file system.
    """

    def _take(self) -> Self:
        with self._guard():
            holder = _holder(self.path)
            if holder and not _is_abandoned(self.path, holder, self.lease):
                raise self._held_by(holder)
            self.path.unlink(missing_ok=True)
            if not write_json(self.path, self._this_process, exclusive=True):
                raise LockedError(explain(f"another process has just taken the lock {self.path}",
                                          why="several processes started at the same time", fix="try again"))
        self._renewed = clock()
        self._start_renewing()
        return self

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Let one process at a time inspect and change the lock, so that two cannot take over the same stale lock."""
        guard = self.path.with_name(".lock")
        while True:
            try:
                file = os.open(guard, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:  # the folder does not exist yet, or another process has just removed it
                _make_folder(guard.parent)
                continue
            try:
                with suppress(OSError):  # on a file system without such locks, the exclusive link decides most races
                    fcntl.flock(file, fcntl.LOCK_EX)
                if _is_at(guard, file):
                    yield
                    return
            finally:
                os.close(file)

    @property
    def _held(self) -> bool:
        return (_holder(self.path) or {}).get("token") == self._this_process["token"]

    def _renew(self) -> None:
        while not self._released.wait(self.lease / 6):
            with suppress(OSError), self._guard():  # if a file server does not respond, there is time to try again
                if self._held:
                    os.utime(self.path)
                    self._renewed = clock()

    def check(self) -> None:
        age = clock() - self._renewed
        late = age > self.lease
        try:
            holder = _holder(self.path)
        except OSError:
            holder = self._this_process  # a lock that cannot be read now is ours as long as we renewed it
        is_holding = holder is not None and holder.get("token") == self._this_process["token"]
        if is_holding and not late:
            return
        if holder and not is_holding:
            what = f"process {holder['pid']} on {holder['host']} has taken over the lock {self.path} from this process"
        elif is_holding:
            what = f"another process may take {self.path}, which this process holds"
        else:
            what = f"{self.path} is no longer the lock of this process: another process may have taken it"
        known = f"it was not renewed for {age:.0f} seconds" if late else (
            f"this process renewed it {age:.0f} seconds ago; another process took it for dead, or somebody changed the "
            "file")
        raise LockedError(explain(
            what, why=f"{known}; {self.why}",
            fix="find out what delayed this process, then run again: finished parts are kept" if late else
                "find out what else writes to the folder, then run again: finished parts are kept"))

    def __exit__(self, *exc: object) -> None:
        self._released.set()
        self._renewer.join()
        with self._guard():
            if self._held:  # another process may have taken the lock over
                self.path.unlink(missing_ok=True)
            if self.clears and not self.path.exists():
                self._remove_folder()

    def _remove_folder(self) -> None:
        """Remove the folder if it contains nothing but the guard, which this process holds."""
        guard = self.path.with_name(".lock")
        if all(path == guard for path in guard.parent.iterdir()):
            guard.unlink(missing_ok=True)  # a process that waits for it notices, and starts again
            with suppress(OSError):  # another process has already created a new guard
                guard.parent.rmdir()


def _make_folder(path: Path) -> None:
    """Create a folder that other processes may create or remove at the same time."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if path.is_symlink():  # a dangling link
            raise
    except FileNotFoundError as error:
        if not path.parent.is_dir():
            raise
        raise DataError(explain(f"the folder {path} cannot be made: {error.strerror}",
                                why=f"{path.parent} is there but takes no new folders, as those of /proc do",
                                fix="name a folder on a disk, for example by --workspace")) from error


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def host_identity() -> dict[str, str | None]:
    """Return what must be equal for a process number to have the same meaning: host, boot and PID namespace.

    Several containers can have the same host name, and each numbers its processes from 1, as a rebooted host does.
    """
    return {"host": socket.gethostname(),
            "boot": BOOT.read_text(encoding="ascii").strip() if BOOT.exists() else None,
            "namespace": os.readlink(NAMESPACE) if os.path.lexists(NAMESPACE) else None}


def is_gone(holder: Holder) -> bool | None:
    """Return whether the process that holds a lock is gone; None if this process cannot tell.

    A process that has ended stays in the table of processes until its parent asks for its code, which the first process
    of many containers never does.
    """
    identity = host_identity()
    if identity != {name: holder.get(name) for name in identity}:
        return None
    try:  # a process with the same number and another start is another process
        process = psutil.Process(int(holder["pid"]))
        return process.status() == psutil.STATUS_ZOMBIE or abs(process.create_time() - float(holder["started"])) > 1
    except psutil.NoSuchProcess:
        return True


def folder_is_held_by(path: Path, host: str, pid: int) -> bool:
    """Return whether a process holds the lock of a folder and still runs."""
    try:
        holder = _holder(path)
        return not (not holder or (holder["host"], holder["pid"]) != (host, pid) or _is_abandoned(path, holder))
    except FileNotFoundError:  # released in the meantime
        return False


def _is_abandoned(path: Path, holder: Holder, lease: float = LEASE_SECONDS) -> bool:
    """Return whether the holder of a lock is gone, or has not renewed it for `lease` seconds."""
    gone = is_gone(holder)
    if gone is not None:
        return gone
    now = path.with_name(".lock")
    os.utime(now)
    return now.stat().st_mtime - path.stat().st_mtime > lease


def _holder(path: Path) -> Holder | None:
    """Return the holder of a lock, None if there is no lock, {} if it is unreadable and so belongs to nobody."""
    try:
        holder = read_json(path)
    except FileNotFoundError:
        return None
    except IntegrityError:
        return {}
    return holder if is_holder(holder) else {}


def is_holder(record: object) -> TypeGuard[Holder]:
    """Return whether a record names the holder of a lock."""
    kinds = {"host": str, "pid": int, "token": str, "started": float}
    return isinstance(record, dict) and all(isinstance(record.get(name), kind) for name, kind in kinds.items())
