"""One writer at a time in a folder of an object store: a lease with an epoch, changed by compare-and-swap alone.

    lease = {epoch, beat, and who holds it: host, boot, namespace, pid, started, token}

Whoever takes it adds one to the epoch, whoever holds it adds one to the beat. No clock of a store or of another host is
looked at: a lease is taken over when this process has seen one beat for `lease` seconds of its own clock. Its holder
has ended by then, since it stops when it could not renew it for `SAFE` of these by its own.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, cast

from ..base.errors import ClusterError, LockedError, explain
from .lock import LEASE_SECONDS, FolderLock, Holder, Lock, clock, folder_is_held_by, is_gone, is_holder
from .object_client import Version
from .objects import ObjectPath


@lru_cache(maxsize=64)
def require_exclusive(root: ObjectPath) -> None:
    """Try with four requests whether a store lets one of two writers win, once a process.

    Raises ClusterError: it lets both win, so that nothing could keep two runs from writing the same parts; or it
    cannot be written.
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
            f"the store of {root} cannot be used: {error.strerror or error}", why="a workspace is written there",
            fix="check the bucket, the endpoint and the credentials in the environment, such as AWS_ENDPOINT_URL and "
                "AWS_ACCESS_KEY_ID")) from None
    if twice or replaced or not created:
        what = "replaces an object that has changed" if replaced else "refuses to create an object"
        if twice:
            what = "creates an object that is there"
        raise ClusterError(explain(
            f"the store of {root} {what}, though it is asked not to",
            why="it ignores conditional requests, so two runs could own the workspace at once and mix their parts",
            fix="use a store that honors If-None-Match and If-Match, such as AWS S3, MinIO, Ceph or R2, or a folder"))


SAFE = 0.75  # of a lease without a renewal, after which a holder stops
STALE_SECONDS = 10 * LEASE_SECONDS  # after which `dssl status` calls a holder lost


def lock_at(path: Path, **options: Any) -> Lock:
    """Return the lock whose file or object is at a path; options : see `Lock`."""
    return ObjectLease(path, **options) if isinstance(path, ObjectPath) else FolderLock(path, **options)


class ObjectLease(Lock):
    """One writer at a time in a folder of an object store."""

    path: ObjectPath
    give_back = 10.0  # seconds for which a process that ends waits until the lease is given back
    _seen: tuple[Any, float] | None = None  # the beat that was seen last, and since when
    _lives = True  # whether its holder was seen to renew it
    _record: Holder  # what the lease says since this process renewed it
    _taker: Holder | None = None  # who has it now, where it was lost

    def _take(self) -> Self:
        require_exclusive(self.path.parent)
        begun = clock()
        holder, version = _read(self.path)
        if holder is None:
            self._record = {**self._mine, "epoch": 1, "beat": 0}
            taken = self.path.create(_bytes(self._record))
        else:
            if is_holder(holder) and not self._is_free(holder):
                raise self._held_by(holder)
            epoch = holder["epoch"] if isinstance(holder.get("epoch"), int) else 0
            self._record = {**self._mine, "epoch": epoch + 1, "beat": 0}
            taken = self.path.swap(_bytes(self._record), version)
        if taken is None:
            raise LockedError(explain(f"another process has just taken the lock {self.path}",
                                      why="several processes started at the same time", fix="try again"))
        self._version = taken
        self._renewed = begun
        self._start_renewing()
        return self

    def _is_free(self, holder: Holder) -> bool:
        """Return whether the holder is gone, or has not renewed the lease for as long as this process looks at it."""
        beat = (holder["token"], holder.get("epoch"), holder.get("beat"))
        if self._seen is None or self._seen[0] != beat:
            self._lives = self._seen is not None and self._seen[0][0] == beat[0]
            self._seen = beat, clock()
        gone = is_gone(holder)
        if gone is not None:
            self._lives = not gone
            return gone
        return clock() - self._seen[1] > self.lease

    def _may_be_dead(self) -> bool:
        return self._seen is not None and not self._lives

    def _renew(self) -> None:
        while not self._released.wait(self.lease / 6):
            begun = clock()
            record: Holder = {**self._record, "beat": self._record["beat"] + 1}
            with suppress(OSError):  # of a store that is away there is time for another attempt
                version = self.path.swap(_bytes(record), self._version)
                if version is None:
                    self._taker = _read(self.path)[0] or {}
                    return
                self._record = record
                self._version = version
                self._renewed = begun
        with suppress(OSError):  # who comes next sees that this process is gone, or waits
            # No other process may take it so early, and so nothing of another is deleted.
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
                fix="see what held this process up, then run again: finished parts are kept"))
        if age > SAFE * self.lease:
            raise LockedError(explain(
                f"another process may take {self.path}, which this process holds",
                why=f"it was not renewed for {age:.0f} seconds; {self.why}",
                fix="see whether the store can be reached, then run again: finished parts are kept"))

    def __exit__(self, *exc: object) -> None:
        """Have the thread that renews the lease give it back; it goes on after a while if the store does not answer."""
        self._released.set()
        self._renewer.join(self.give_back)


def is_held_by(path: Path, host: str, pid: int) -> bool:
    """Return whether a process holds the lock at a path and, as far as this machine can see, still runs.

    For whoever looks at a run: of a holder on another host, what the store and this machine say of the time counts.
    """
    if not isinstance(path, ObjectPath):
        return folder_is_held_by(path, host, pid)
    holder, _ = _read(path)
    if not is_holder(holder) or holder is None or (holder["host"], holder["pid"]) != (host, pid):
        return False
    gone = is_gone(holder)
    return not gone if gone is not None else time.time() - path.stat().st_mtime < STALE_SECONDS


def _read(path: ObjectPath) -> tuple[Holder | None, Version]:
    """Return what a lease says, {} if it cannot be read and so belongs to nobody, and None where there is none."""
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
