"""One writer at a time in a folder, on any number of machines that share it."""

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
from typing import Any, Self, TypedDict, TypeGuard, cast

import psutil

from ..base.errors import IntegrityError, LockedError, explain
from .files import read_json, write_json

WAIT_STEP = 0.2  # seconds between looks at a lock that is waited for
LEASE_SECONDS = 60.0  # a lock whose holder has not renewed it for so long is free
BOOT, NAMESPACE = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")  # of Linux alone


def clock() -> float:
    """Return the seconds of this machine's clock, which goes on where it can while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Holder(TypedDict, total=False):
    """Who holds a lock, as its file says; an object's has the epoch and the beat of its lease too."""

    host: str
    boot: str
    namespace: str
    pid: int
    started: float
    token: str
    epoch: int
    beat: int


class WaitsForLock(UserWarning):
    """Another process writes to the folder, and is waited for."""


class Lock(ABC):
    """One writer at a time in a folder.

    wait : seconds for which another holder is waited for, after a warning; 0 raises LockedError at once. It is taken
    over when its process is gone, if this process can see it (`here`), or else when it was not renewed for `lease`
    seconds, so nobody has to remove one by hand. No two clocks are compared.
    clears : whether a folder that holds nothing else is removed when the lock is given back.
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
        self._mine = cast(Holder, {**here(), "pid": os.getpid(), "token": os.urandom(8).hex(),
                                   "started": psutil.Process().create_time()})
        self._released = threading.Event()
        self._renewed = 0.0  # see `clock`

    def __enter__(self) -> Self:
        given_up = time.monotonic() + self.wait
        announced = False
        while True:
            try:
                return self._take()
            except LockedError as error:
                if time.monotonic() >= given_up and not self._may_be_dead():
                    raise
                if not announced:
                    warnings.warn(f"{error.args[0].splitlines()[0]}: waiting for it", WaitsForLock, stacklevel=3)
                    announced = True
                time.sleep(WAIT_STEP)

    @abstractmethod
    def _take(self) -> Self:
        """Take the lock; raise LockedError if there is another holder."""

    def _may_be_dead(self) -> bool:
        """Return whether a longer look would tell if the holder lives."""
        return False

    @abstractmethod
    def check(self) -> None:
        """Raise LockedError if another process holds the lock, or may take it since it could not be renewed."""

    @abstractmethod
    def __exit__(self, *exc: object) -> None:
        """Give the lock back."""

    def _held_by(self, holder: Holder) -> LockedError:
        """Return the error of a lock that another process has."""
        return LockedError(explain(f"process {holder['pid']} on {holder['host']} is using {self.path.parent}",
                                   why=self.why, fix=self.fix))

    def _start_renewing(self) -> None:
        self._renewer = threading.Thread(target=self._renew, daemon=True)
        self._renewer.start()

    @abstractmethod
    def _renew(self) -> None:
        """Renew the lock until it is given back; run by a thread."""


class FolderLock(Lock):
    """One writer at a time in a folder: a file with its holder, renewed while it lives.

    The times of its renewal are those of the folder's file system.
    """

    def _take(self) -> Self:
        with self._guard():
            holder = _holder(self.path)
            if holder and not _is_free(self.path, holder, self.lease):
                raise self._held_by(holder)
            self.path.unlink(missing_ok=True)
            if not write_json(self.path, self._mine, exclusive=True):
                raise LockedError(explain(f"another process has just taken the lock {self.path}",
                                          why="several processes started at the same time", fix="try again"))
        self._renewed = clock()
        self._start_renewing()
        return self

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Let one process at a time look at the lock and change it, or two would take over the same stale one."""
        guard = self.path.with_name(".lock")
        while True:
            try:
                file = os.open(guard, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:  # no folder yet, or another process has just removed it
                _make_folder(guard.parent)
                continue
            try:
                with suppress(OSError):  # a file system without such locks: the exclusive link decides most races
                    fcntl.flock(file, fcntl.LOCK_EX)
                if _is_at(guard, file):
                    yield
                    return
            finally:
                os.close(file)

    @property
    def _held(self) -> bool:
        return (_holder(self.path) or {}).get("token") == self._mine["token"]

    def _renew(self) -> None:
        while not self._released.wait(self.lease / 6):
            with suppress(OSError), self._guard():  # of a file server that is away there is time for another attempt
                if self._held:
                    os.utime(self.path)
                    self._renewed = clock()

    def check(self) -> None:
        age = clock() - self._renewed
        late = age > self.lease
        try:
            holder = _holder(self.path)
        except OSError:
            holder = self._mine  # a lock that cannot be read now is ours as long as it was renewed
        mine = holder is not None and holder.get("token") == self._mine["token"]
        if mine and not late:
            return
        if holder and not mine:
            what = f"process {holder['pid']} on {holder['host']} has taken over the lock {self.path} from this process"
        elif mine:
            what = f"another process may take {self.path}, which this process holds"
        else:
            what = f"{self.path} is no longer the lock of this process: another process may have taken it"
        known = f"it was not renewed for {age:.0f} seconds" if late else (
            f"this process renewed it {age:.0f} seconds ago, so that another process took it to be dead, or somebody "
            f"changed the file")
        raise LockedError(explain(
            what, why=f"{known}; {self.why}",
            fix="see what held this process up, then run again: finished parts are kept" if late else
                "see what else writes to the folder, then run again: finished parts are kept"))

    def __exit__(self, *exc: object) -> None:
        self._released.set()
        self._renewer.join()
        with self._guard():
            if self._held:  # a run that was thought dead may have lost it
                self.path.unlink(missing_ok=True)
            if self.clears and not self.path.exists():
                self._remove_folder()

    def _remove_folder(self) -> None:
        """Remove the folder if nothing but the guard, which this process has, is in it."""
        guard = self.path.with_name(".lock")
        if all(path == guard for path in guard.parent.iterdir()):
            guard.unlink(missing_ok=True)  # whoever waits for it sees that it is gone, and begins again
            with suppress(OSError):  # another process has already made a guard of its own
                guard.parent.rmdir()


def _make_folder(path: Path) -> None:
    """Make a folder, which other processes may make, and remove, at the same time."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if path.is_symlink():  # that leads nowhere
            raise


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def here() -> dict[str, str | None]:
    """Return what has to agree before a process number can be looked up: host, boot and PID namespace.

    Containers may have one host name, and number their processes each from 1; a host begins anew when it is started.
    """
    return {"host": socket.gethostname(),
            "boot": BOOT.read_text(encoding="ascii").strip() if BOOT.exists() else None,
            "namespace": os.readlink(NAMESPACE) if os.path.lexists(NAMESPACE) else None}


def is_gone(holder: Holder) -> bool | None:
    """Return whether the process that holds a lock is gone; None where this process cannot see it."""
    place = here()
    if place != {name: holder.get(name) for name in place}:
        return None
    try:  # a process with the same number and another start is another process
        return abs(psutil.Process(int(holder["pid"])).create_time() - float(holder["started"])) > 1
    except psutil.NoSuchProcess:
        return True


def folder_is_held_by(path: Path, host: str, pid: int) -> bool:
    """Return whether a process holds the lock of a folder and is still there."""
    try:
        holder = _holder(path)
        return not (not holder or (holder["host"], holder["pid"]) != (host, pid) or _is_free(path, holder))
    except FileNotFoundError:  # given back meanwhile
        return False


def _is_free(path: Path, holder: Holder, lease: float = LEASE_SECONDS) -> bool:
    """Return whether the holder of a lock is gone."""
    gone = is_gone(holder)
    if gone is not None:
        return gone
    now = path.with_name(".lock")
    os.utime(now)
    return now.stat().st_mtime - path.stat().st_mtime > lease


def _holder(path: Path) -> Holder | None:
    """Return who holds a lock: None where there is none, {} if it cannot be read and so belongs to nobody."""
    try:
        holder = read_json(path)
    except FileNotFoundError:
        return None
    except IntegrityError:
        return {}
    return holder if is_holder(holder) else {}


def is_holder(record: Any) -> TypeGuard[Holder]:
    """Return whether a record says who holds a lock."""
    kinds = {"host": str, "pid": int, "token": str, "started": float}
    return isinstance(record, dict) and all(isinstance(record.get(name), kind) for name, kind in kinds.items())
