"""A file of JSON lines in which each measurement is made once, so that a run goes on where another ended."""

import json
from pathlib import Path
from typing import Any


class LineFile:
    """Lines that are in a file, and those that are added to it.

    path : the file, which need not exist. keys : the entries that together identify a line.
    """

    def __init__(self, path: Path, keys: tuple[str, ...]):
        self.path = path
        self.keys = keys
        self.lines: list[dict[str, Any]] = []
        if path.exists():
            self.lines = [json.loads(text) for text in path.read_text().splitlines()]
        self._present = {self._key(line) for line in self.lines}

    def __contains__(self, line: dict[str, Any]) -> bool:
        return self._key(line) in self._present

    def add(self, line: dict[str, Any]) -> None:
        """Write a line to the file at once."""
        self.lines.append(line)
        self._present.add(self._key(line))
        with self.path.open("a") as out:
            out.write(json.dumps(line) + "\n")

    def _key(self, line: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(line[name] for name in self.keys)
