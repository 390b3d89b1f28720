"""The lock of a folder in an object store: a lease with an epoch, changed by compare-and-swap only.

    lease = {epoch, beat, and its holder: host, boot, namespace, pid, started, token}

A process that takes the lease increments the epoch, and its holder increments the beat. No clock of the store or of
another host is read: a process takes the lease over after it has seen the same beat for `lease` seconds of its own
clock. The holder has stopped by then, since it stops if it could not renew the lease for `SAFE` of these by its clock.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, Unpack, cast

from ..base.errors import ClusterError, LockedError, explain
from .lock import LEASE_SECONDS, FolderLock, Holder, Lock, LockOptions, clock, folder_is_held_by, is_gone, is_holder
from .object_client import Version
from .objects import ObjectPath

LOCK = "lock.json"  # the file of the lock of a workspace


@lru_cache(maxsize=64)
def require_exclusive(root: ObjectPath) -> None:
    """Check with four requests, once per process, that a store honors conditional writes.

    Raises ClusterError: of two writers both succeed, so two runs could write the same parts; or the
    store is not writable.
    """
    probe = root / f"probe-{os.urandom(8).hex()}"
    try:
        created = not probe.is_refused("create", b"first")
        twice = not probe.is_refused("create", b"second")
        stale = {"e_tag": '"0123456789abcdef0123456789abcdef"'} | ({"version": "1"} if root.parts[0] == "gs:" else {})
        replaced = not probe.is_refused(stale, b"third")
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise ClusterError(explain(
            f"the store of {root} cannot be used: {error.strerror or error}", why="the workspace must be writable",
            fix="check the bucket, the endpoint and the credentials in the environment, such as AWS_ENDPOINT_URL and "
                "AWS_ACCESS_KEY_ID")) from None
    if twice or replaced or not created:
        what = "replaces an object that has changed" if replaced else "refuses to create an object"
        if twice:
            what = "creates an object that exists"
        raise ClusterError(explain(
            f"the store of {root} {what}, against the condition of the request",
            why="it ignores conditional requests, so two runs could own the workspace at once and mix their parts",
            fix="use a store that honors If-None-Match and If-Match, such as AWS S3, MinIO, Ceph or R2, or a folder"))


SAFE = 0.75  # a holder stops if it could not renew the lease for this share of its seconds
STALE_SECONDS = 10 * LEASE_SECONDS  # `dssl status` calls a holder lost after so long


def lock_at(path: Path, wait: float = 0.0, **options: Unpack[LockOptions]) -> Lock:
    """Return the lock with the file or object at a path; wait, options : see `Lock`."""
    kind = ObjectLease if isinstance(path, ObjectPath) else FolderLock
    return kind(path, wait=wait, **options)


class ObjectLease(Lock):
    """The lock of a folder in an object store."""

    path: ObjectPath
    give_back = 10.0  # how many seconds a process that ends waits for the release of the lease
    _last_beat: tuple[Any, float] | None = None  # the last beat of the holder, and when it was first seen
    _lives = True  # whether the holder was seen to renew it
    _record: Holder  # the content of the lease since this process renewed it
    _taker: Holder | None = None  # the process that took the lease over from this one

    def _take(self) -> Self:
        require_exclusive(self.path.parent)
        begun = clock()
        holder, version = _read(self.path)
        if holder is None:
            self._record = {**self._this_process, "epoch": 1, "beat": 0}
            taken = self.path.create(_bytes(self._record))
        else:
            if is_holder(holder) and not self._is_abandoned(holder):
                raise self._held_by(holder)
            epoch = holder["epoch"] if isinstance(holder.get("epoch"), int) else 0
            self._record = {**self._this_process, "epoch": epoch + 1, "beat": 0}
            taken = self.path.swap(_bytes(self._record), version)
        if taken is None:
            raise LockedError(explain(f"another process has just taken the lock {self.path}",
                                      why="several processes started at the same time", fix="try again"))
        self._version = taken
        self._renewed = begun
        self._start_renewing()
        return self

    def _is_abandoned(self, holder: Holder) -> bool:
        """Return whether the holder is gone, or has not renewed the lease for `LEASE_SECONDS` of this clock."""
        beat = (holder["token"], holder.get("epoch"), holder.get("beat"))
        if self._last_beat is None or self._last_beat[0] != beat:
            self._lives = self._last_beat is not None and self._last_beat[0][0] == beat[0]
            self._last_beat = beat, clock()
        gone = is_gone(holder)
        if gone is not None:
            self._lives = not gone
            return gone
        return clock() - self._last_beat[1] > self.lease

    def _may_be_dead(self) -> bool:
        return self._last_beat is not None and not self._lives

    def _renew(self) -> None:
        while not self._released.wait(self.lease / 6):
            begun = clock()
            record: Holder = {**self._record, "beat": self._record["beat"] + 1}
            with suppress(OSError):  # if the store does not respond, there is time for another attempt
                version = self.path.swap(_bytes(record), self._version)
                if version is None:
                    self._taker = _read(self.path)[0] or {}
                    return
                self._record = record
                self._version = version
                self._renewed = begun
        with suppress(OSError):  # otherwise the next process sees that this one is gone, or waits
            # No other process can have taken the lease so early, so this deletes no other holder's lease.
            if self.clears and clock() - self._renewed <= SAFE * self.lease and all(
                    path == self.path for path in self.path.parent.iterdir()):
                self.path.unlink(missing_ok=True)
                return
            self.path.swap(_bytes({"epoch": self._record["epoch"]}), self._version)

    def check(self) -> None:
        age = clock() - self._renewed
        if self._taker is not None:
            who = f"process {self._taker['pid']} on {self._taker['host']}" if is_holder(self._taker) else "somebody"
            raise LockedError(explain(
                f"{who} has taken over the lock {self.path} from this process",
                why=f"this process renewed it {age:.0f} seconds ago; {self.why}",
                fix="find out what delayed this process, then run again: finished parts are kept"))
        if age > SAFE * self.lease:
            raise LockedError(explain(
                f"another process may take {self.path}, which this process holds",
                why=f"it was not renewed for {age:.0f} seconds; {self.why}",
                fix="check whether the store can be reached, then run again: finished parts are kept"))

    def __exit__(self, *exc: object) -> None:
        """Let the renewing thread release the lease; give up after a while if the store does not respond."""
        self._released.set()
        self._renewer.join(self.give_back)


def is_held_by(path: Path, host: str, pid: int) -> bool:
    """Return whether a process holds the lock at a path and, as far as this machine can tell, still runs.

    It serves status displays only: for a holder on another host it compares the clocks of the store and this machine.
    """
    if not isinstance(path, ObjectPath):
        return folder_is_held_by(path, host, pid)
    holder, _ = _read(path)
    if not is_holder(holder) or holder is None or (holder["host"], holder["pid"]) != (host, pid):
        return False
    gone = is_gone(holder)
    return not gone if gone is not None else time.time() - path.stat().st_mtime < STALE_SECONDS


def _read(path: ObjectPath) -> tuple[Holder | None, Version]:
    """Return the content of a lease, {} if it is unreadable and belongs to nobody, and None if there is none."""
    try:
        stored, version = path.get()
    except FileNotFoundError:
        return None, {}
    try:
        record = json.loads(bytes(stored))
    except ValueError:
        record = {}
    return cast(Holder, record) if isinstance(record, dict) else {}, version


def _bytes(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True).encode()
