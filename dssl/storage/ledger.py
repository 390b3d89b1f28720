"""What a process knows of the files of parts because it wrote or read them, so that no list is asked for them.

A list may be old: where directories are cached, and in some stores. So whoever writes a file that a manifest names
notes its SHA-256. What a task writes, in whatever process, wherever it goes, its receipt tells (`journal`); what the
process that runs the stage writes between tasks, the next receipt that it writes itself tells.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock

_JOURNAL: ContextVar[dict[str, str] | None] = ContextVar("journal", default=None)


@contextmanager
def journal() -> Iterator[None]:
    """Have this thread keep a journal of what it writes meanwhile, for the receipt of the task that it runs.

    The journal around this one, of a task that runs tasks, gets the same entries.
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
    """The descriptions below a folder that are known, and the attempts that are known to have written parts.

    root : the folder. is_new : whether no other process has written there before this one made it. is_complete :
    whether nothing is written there any more.
    """

    def __init__(self, root: Path, *, is_new: bool = False, is_complete: bool = False):
        self.root = root
        self.is_new = is_new
        self.is_complete = is_complete
        self._files: dict[str, str] = {}  # their SHA-256, by path
        self._unreceipted: set[str] = set()  # written here, and in no receipt
        self._attempts: dict[str, str] = {}  # by the folder of the part
        self._writing: set[str] = set()  # the folders of attempts that have written
        self._lock = Lock()

    def wrote(self, path: Path, checksum: str) -> None:
        """Note a description that this process has written."""
        written = _JOURNAL.get()
        name = str(path)
        if written is not None:
            written[name] = checksum
        with self._lock:
            self._files[name] = checksum
            if written is None:
                self._unreceipted.add(name)

    def learn(self, path: Path, checksum: str, checksums: Mapping[str, str]) -> None:
        """Note a receipt that was read, and the descriptions that it tells of by their paths from the root."""
        with self._lock:
            self._files[str(path)] = checksum
            self._files |= {f"{self.root}/{name}": digest for name, digest in checksums.items()}

    def learn_all(self, files: Mapping[str, str]) -> None:
        """Note the descriptions of a manifest by their paths from the root, and the attempts that they are of."""
        with self._lock:
            for name, checksum in files.items():
                self._files[f"{self.root}/{name}"] = checksum
                before, is_part, after = f"/{name}".partition("/parts/")
                number, _, inside = after.partition("/")
                if is_part and "/" in inside:
                    self._attempts[f"{self.root}{before}/parts/{number}"] = inside.partition("/")[0]

    def checksums_for(self, folder: Path) -> dict[str, str]:
        """Return what a receipt in a folder tells of, by paths from the root: what its task wrote.

        Outside of a task it lists what was written below the folder and is in no other receipt.
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
        """Forget what is known of a file, or of a folder and all that is in it."""
        written = _JOURNAL.get()
        name = str(path)
        below = f"{path}/"
        with self._lock:
            for known in (self._files, self._attempts, *([] if written is None else [written])):
                for gone in [other for other in known if other == name or other.startswith(below)]:
                    del known[gone]
            for names in (self._unreceipted, self._writing):
                names -= {other for other in names if other == name or other.startswith(below)}

    def files(self) -> dict[str, str]:
        """Return the SHA-256 of all descriptions that are known, by their paths from the root."""
        with self._lock:
            return {name.removeprefix(f"{self.root}/"): checksum for name, checksum in self._files.items()}

    def knows_of(self, folder: Path) -> bool:
        """Return whether any description below a folder is known."""
        below = f"{folder}/"
        with self._lock:
            return any(name.startswith(below) for name in self._files)

    def knows(self, path: Path) -> bool:
        """Return whether a description is known."""
        return str(path) in self._files

    def note_writing(self, attempt: Path) -> None:
        """Note the folder of an attempt that has written arrays or buckets."""
        with self._lock:
            self._writing.add(str(attempt))

    def has_written(self, attempt: Path) -> bool:
        """Return whether an attempt has written, by its folder."""
        return str(attempt) in self._writing

    def note_attempt(self, part: Path, attempt: str) -> None:
        """Note which attempt wrote a part."""
        with self._lock:
            self._attempts[str(part)] = attempt

    def attempt(self, part: Path) -> str | None:
        """Return the attempt that is known to have written a part."""
        return self._attempts.get(str(part))
