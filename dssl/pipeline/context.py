"""What a stage is, and what its function gets."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.sources import Source
from ..execution.tasks import Execution, Progress
from ..storage.blocks import Parts, Rows
from ..storage.csr import BlockedCsrRows
from ..storage.store import StoredRows
from .artifacts import Artifact
from .spec import Spec


@dataclass(frozen=True)
class Context:
    """What a stage function gets: the spec, the artifacts it needs, its own parts, and where tasks run."""

    spec: Spec
    source: Source
    inputs: dict[str, Artifact]
    parts: Parts
    execution: Execution
    progress: Progress | None = None

    def arrays(self, stage: str) -> dict[str, np.ndarray]:
        """Return the arrays of part 0 of an input."""
        return self.inputs[stage].parts.read(0)

    def attributes(self, stage: str) -> dict[str, Any]:
        return self.inputs[stage].attributes

    def rows(self, stage: str, name: str) -> StoredRows:
        return self.inputs[stage].parts.rows(name)

    def points(self, name: str) -> Rows:
        """Return the scaled rows of "train" or "test": a shared array, or sparse rows in parts."""
        described = self.attributes("points").get(name)
        return BlockedCsrRows.of(self.inputs["points"].parts, described) if described else self.rows("points", name)


@dataclass(frozen=True)
class Stage:
    """A row of the table."""

    name: str
    version: int
    needs: tuple[str, ...]
    params: Callable[[Spec], dict[str, Any]]
    run: Callable[[Context], dict[str, Any]]
