"""Reader of curved manifolds: a file with a few parameters, from which rows are computed."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from ...base.errors import DataError, ParameterError, explain, sentences
from ...storage.files import draft_of
from ..synthetic import CurvedManifolds, ManifoldParams
from .base import Block, Reader, Scan


def write_manifolds(path: Path, params: ManifoldParams) -> None:
    """Write the file of their parameters, atomically."""
    with draft_of(path) as draft:
        draft.write_text(json.dumps(asdict(params), sort_keys=True), encoding="utf-8")


class ManifoldReader(Reader):
    """X and classes of the `ManifoldParams` in a JSON file."""

    format: ClassVar[str] = "manifolds"
    endings: ClassVar[tuple[str, ...]] = (".manifolds",)

    def __init__(self, path: Path, name: str, scratch: Path):
        self.path, self.name = path, name

    def _look(self) -> Scan:
        try:
            fields = json.loads(self.path.read_text(encoding="utf-8"))
            params = ManifoldParams(**fields)
        except ParameterError as error:
            what, why, fix = sentences(str(error))
            raise DataError(explain(f"{self.name}: {what}", why=why, fix=fix)) from error
        except (ValueError, TypeError) as error:
            raise DataError(explain(f"{self.name} describes no manifolds: {error}", why="it is JSON of their sizes",
                                    fix="name manifolds:POINTSxCOLUMNS, which writes such a file")) from error
        self._made = CurvedManifolds(params)
        return Scan(n_rows=params.points, n_columns=params.columns, dtype="float32", target="class",
                    row_bytes=4 * params.columns, is_made=True)

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        self.scan()
        X, y = self._made.read(start, stop)
        return Block(X, y.astype(str).astype(object) if text_target else y)
