"""Bounded caches that keep arrays in a process from one task to the next."""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from threading import Lock, local
from typing import Any, Generic, TypeVar

import numpy as np

CACHE_BYTES = 1 << 30  # the default limit, unless an execution sets one
FETCHED_BYTES = 32 << 20  # the maximum limit of `FETCHED`
FETCHED_SHARE = 8  # `FETCHED` gets at most 1/8 of a task's memory budget
FACTOR_BYTES = 64 << 20  # the maximum limit of `FACTORS`
FACTOR_SHARE = 16  # `FACTORS` gets at most 1/16 of a task's memory budget

Loaded = dict[str, np.ndarray]
Value = TypeVar("Value")


class Cache(ABC):
    """A cache of this process, which `release_caches` can empty."""

    def __init__(self) -> None:
        _CACHES.append(self)

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Return the bytes in the cache."""

    @abstractmethod
    def clear(self) -> None:
        """Empty the cache; values in use stay alive with their users."""


_CACHES: list[Cache] = []


def release_caches() -> bool:
    """Empty all caches of this process; return whether there was anything in them."""
    filled = [cache for cache in _CACHES if cache.nbytes]
    for cache in filled:
        cache.clear()
    return bool(filled)


class ArrayCache(Cache):
    """A least-recently-used cache of named arrays, up to `limit` bytes.

    limit : the memory budget of the tasks in this process. Larger arrays are read by each task and not cached.
    """

    def __init__(self, limit: int = CACHE_BYTES):
        super().__init__()
        self.limit = limit
        self.entries = OrderedDict[Hashable, Loaded]()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        return sum(_bytes_of(arrays) for arrays in list(self.entries.values()))

    def get(self, key: Hashable, size_of: Callable[[], int], read: Callable[[], Loaded]) -> Loaded:
        """Return the arrays of a key, reading them if they are not cached; room is made for them before that."""
        with self._lock:
            if key in self.entries:
                self.entries.move_to_end(key)
                return self.entries[key]
            nbytes = size_of()
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
    """A least-recently-used cache of immutable objects, up to `limit` bytes."""

    def __init__(self, limit: int = FETCHED_BYTES):
        super().__init__()
        self.limit = limit
        self._held = OrderedDict[Path, tuple[Any, int]]()
        self._lock = Lock()

    @property
    def nbytes(self) -> int:
        return sum(size for _, size in list(self._held.values()))

    def get(self, key: Path, fetch: Callable[[], tuple[Any, int]]) -> Any:
        """Return the value at a path; if it is not cached, `fetch` returns it with its size."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key][0]
        value, size = fetch()  # without the lock, so that other threads can use the cache
        self.keep(key, value, size)
        return value

    def keep(self, key: Path, value: object, size: int) -> None:
        """Add the value at a path unless it exceeds the limit."""
        with self._lock:
            self._held.pop(key, None)
            if size <= self.limit:
                self._held[key] = value, size
                total = self.nbytes
                while total > self.limit:
                    total -= self._held.popitem(last=False)[1][1]

    def forget(self, folder: Path) -> None:
        """Drop the values below a folder."""
        with self._lock:
            for path in [path for path in self._held if path.is_relative_to(folder)]:
                del self._held[path]

    def clear(self) -> None:
        with self._lock:
            self._held.clear()


class ThreadCache(Generic[Value]):
    """A least-recently-used cache of each thread for itself, up to `limit` bytes.

    Values end in the thread that made them, at the latest with it, and are used by no other: an object of SuperLU
    belongs to its thread. `release_caches` does not empty it.
    """

    def __init__(self, limit: int):
        self.limit, self._thread = limit, local()

    def get(self, key: bytes, make: Callable[[], tuple[Value, int]]) -> Value:
        """Return the value of a key; if it is not cached, `make` returns it with its size."""
        held: OrderedDict[bytes, tuple[Value, int]] = self._thread.__dict__.setdefault("held", OrderedDict())
        if key in held:
            held.move_to_end(key)
            return held[key][0]
        value, size = make()
        if size <= self.limit:
            held[key] = value, size
            while sum(each for _, each in held.values()) > self.limit:
                held.popitem(last=False)
        return value

    def clear(self) -> None:
        """Empty the cache of this thread."""
        self._thread.__dict__.pop("held", None)


def limit_caches(budget: int) -> None:
    """Limit the caches of this process according to the memory budget of a task."""
    ARRAYS.limit = budget
    FETCHED.limit = min(FETCHED_BYTES, budget // FETCHED_SHARE)
    FACTORS.limit = min(FACTOR_BYTES, budget // FACTOR_SHARE)


ARRAYS = ArrayCache()
FETCHED = ObjectCache()
FACTORS = ThreadCache[Any](FACTOR_BYTES)  # of matrices by their digests
