"""Caches of a process from one task to the next: arrays that many tasks read, bounded, and released when asked."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

CACHE_BYTES = 1 << 30  # where no execution has said how much
FETCHED_BYTES = 32 << 20  # the most of `FETCHED`
FETCHED_SHARE = 8  # of a task's memory budget it has one part in so many

Loaded = dict[str, np.ndarray]


class Cache(ABC):
    """A cache of this process; `release_caches` knows every one."""

    def __init__(self) -> None:
        _CACHES.append(self)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Return the bytes that are kept."""

    @abstractmethod
    def clear(self) -> None:
        """Empty the cache; what is in use at the moment stays alive with its user."""


_CACHES: list[Cache] = []


def release_caches() -> bool:
    """Let go of everything that this process keeps; return whether there was something."""
    kept = [one for one in _CACHES if one.nbytes]
    for one in kept:
        one.clear()
    return bool(kept)


class ArrayCache(Cache):
    """Named arrays by key, up to `limit` bytes, of which those go first that were asked for longest ago.

    limit : the memory budget of the tasks that run here. Arrays that exceed it are read by each task, and not kept.
    """

    def __init__(self, limit: int = CACHE_BYTES):
        super().__init__()
        self.limit = limit
        self.entries = OrderedDict[Hashable, Loaded]()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        return sum(_bytes_of(arrays) for arrays in list(self.entries.values()))

    def get(self, key: Hashable, measure: Callable[[], int], read: Callable[[], Loaded]) -> Loaded:
        """Return the arrays of a key, read where they are not kept; there is room for their bytes before that."""
        with self._lock:
            if key in self.entries:
                self.entries.move_to_end(key)
                return self.entries[key]
            nbytes = measure()
            keeps = nbytes <= self.limit
            while keeps and self.entries and self.nbytes + nbytes > self.limit:
                self.entries.popitem(last=False)
            arrays = read()
            for array in arrays.values():
                array.flags.writeable = False
            if keeps:
                self.entries[key] = arrays
            return arrays

    def clear(self) -> None:
        with self._lock:
            self.entries.clear()


def _bytes_of(arrays: Mapping[str, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())


class ObjectCache(Cache):
    """What was fetched of objects that never change, up to `limit` bytes, the last that were asked for."""

    def __init__(self, limit: int = FETCHED_BYTES):
        super().__init__()
        self.limit = limit
        self._held = OrderedDict[Path, tuple[Any, int]]()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        return sum(size for _, size in list(self._held.values()))

    def get(self, key: Path, fetch: Callable[[], tuple[Any, int]]) -> Any:
        """Return what lies at a path, fetched with its size where it is not kept."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key][0]
        value, size = fetch()  # meanwhile others may ask
        self.keep(key, value, size)
        return value

    def keep(self, key: Path, value: Any, size: int) -> None:
        """Keep what lies at a path, if there is room for it."""
        with self._lock:
            self._held.pop(key, None)
            if size <= self.limit:
                self._held[key] = value, size
                total = self.nbytes
                while total > self.limit:
                    total -= self._held.popitem(last=False)[1][1]

    def forget(self, folder: Path) -> None:
        """Let go of what lies below a folder."""
        with self._lock:
            for path in [path for path in self._held if path.is_relative_to(folder)]:
                del self._held[path]

    def clear(self) -> None:
        with self._lock:
            self._held.clear()


def limit_caches(budget: int) -> None:
    """Bound what this process keeps by the memory budget of a task."""
    ARRAYS.limit = budget
    FETCHED.limit = min(FETCHED_BYTES, budget // FETCHED_SHARE)


ARRAYS = ArrayCache()
FETCHED = ObjectCache()
