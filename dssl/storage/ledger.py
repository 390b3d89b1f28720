"""A record of the files of parts that a process wrote or read, so that it need not list folders.

Listings can be out of date, in cached directories and in some stores. So each writer of a file that a manifest names
records its SHA-256. The receipt of a task carries the records of all files that the task wrote (`journal`). The records
of files that the stage's own process wrote between tasks go into the next receipt that this process writes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock

_JOURNAL: ContextVar[dict[str, str] | None] = ContextVar("journal", default=None)


@contextmanager
def journal() -> Iterator[None]:
    """Keep a journal of the files that this thread writes, for the receipt of the task that it runs.

    If a task runs tasks, the outer journal gets the same entries.
    """
    around = _JOURNAL.get()
    checksums: dict[str, str] = {}
    token = _JOURNAL.set(checksums)
    try:
        yield
    finally:
        _JOURNAL.reset(token)
        if around is not None:
            around.update(checksums)


class Ledger:
    """The known description files below a folder, and the known attempts that wrote parts.

    root : the folder. is_new : whether this process created it, so that it knows all files. is_complete : whether
    nothing will be written there any more.
    """

    def __init__(self, root: Path, *, is_new: bool = False, is_complete: bool = False):
        self.root = root
        self.is_new = is_new
        self.is_complete = is_complete
        self._files: dict[str, str] = {}  # their SHA-256, by path
        self._unreceipted: set[str] = set()  # written by this process, but in no receipt yet
        self._attempts: dict[str, str] = {}  # by the folder of the part
        self._writing: set[str] = set()  # the folders of attempts that have written something
        self._lock = Lock()

    def wrote(self, path: Path, checksum: str) -> None:
        """Record a description file that this process has written."""
        written = _JOURNAL.get()
        name = str(path)
        if written is not None:
            written[name] = checksum
        with self._lock:
            self._files[name] = checksum
            if written is None:
                self._unreceipted.add(name)

    def learn(self, path: Path, checksum: str, checksums: Mapping[str, str]) -> None:
        """Record a receipt that was read, and the description files that it lists by their paths from the root."""
        with self._lock:
            self._files[str(path)] = checksum
            self._files |= {f"{self.root}/{name}": digest for name, digest in checksums.items()}

    def learn_all(self, files: Mapping[str, str]) -> None:
        """Record the description files of a manifest by their paths from the root, and the attempts of its parts."""
        with self._lock:
            for name, checksum in files.items():
                self._files[f"{self.root}/{name}"] = checksum
                before, is_part, after = f"/{name}".partition("/parts/")
                number, _, inside = after.partition("/")
                if is_part and "/" in inside:
                    self._attempts[f"{self.root}{before}/parts/{number}"] = inside.partition("/")[0]

    def checksums_for(self, folder: Path) -> dict[str, str]:
        """Return the checksums for a receipt in a folder, by paths from the root: of the files that its task wrote.

        Outside of a task, these are the files below the folder that are in no receipt yet.
        """
        written = _JOURNAL.get()
        below = f"{folder}/"
        root = f"{self.root}/"
        with self._lock:
            if written is None:
                written = {name: self._files[name] for name in self._unreceipted if name.startswith(below)}
                self._unreceipted -= written.keys()
        return {name.removeprefix(root): written[name] for name in sorted(written) if name.startswith(root)}

    def forget(self, path: Path) -> None:
        """Drop the records of a file, or of a folder and everything in it."""
        written = _JOURNAL.get()
        name = str(path)
        below = f"{path}/"
        with self._lock:
            for table in (self._files, self._attempts, *([] if written is None else [written])):
                for key in [key for key in table if key == name or key.startswith(below)]:
                    del table[key]
            for names in (self._unreceipted, self._writing):
                names -= {key for key in names if key == name or key.startswith(below)}

    def files(self) -> dict[str, str]:
        """Return the SHA-256 of all known description files by their paths from the root."""
        with self._lock:
            return {name.removeprefix(f"{self.root}/"): checksum for name, checksum in self._files.items()}

    def knows_of(self, folder: Path) -> bool:
        """Return whether any description file below a folder is known."""
        below = f"{folder}/"
        with self._lock:
            return any(name.startswith(below) for name in self._files)

    def knows(self, path: Path) -> bool:
        """Return whether a description file is known."""
        return str(path) in self._files

    def note_writing(self, attempt: Path) -> None:
        """Record the folder of an attempt that has written arrays or buckets."""
        with self._lock:
            self._writing.add(str(attempt))

    def has_written(self, attempt: Path) -> bool:
        """Return whether the attempt in a folder has written anything."""
        return str(attempt) in self._writing

    def note_attempt(self, part: Path, attempt: str) -> None:
        """Record which attempt wrote a part."""
        with self._lock:
            self._attempts[str(part)] = attempt

    def attempt(self, part: Path) -> str | None:
        """Return the attempt that wrote a part, None if it is not known."""
        return self._attempts.get(str(part))
