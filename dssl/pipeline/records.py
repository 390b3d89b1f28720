"""What a run leaves of itself in its folder, checked where it is read: spec, result, and what each stage took."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ..base.errors import IntegrityError, require
from ..report.record import Result, StageRecord
from ..report.text import at
from ..storage.files import named_in, read_record

RESULT, SPEC = "result.json", "spec.json"
PATHS = {"model": "model_path", "report": "report", "predictions": "predictions"}  # by their keys in a document
FIX = "run the pipeline again: what is in its workspace is used, and a record is written"


@dataclass(frozen=True)
class StageRun:
    """What one stage of a run took.

    status : "done", or "cached" where an earlier run had made it. address : of its artifact. disk_bytes : what that
    keeps on disk. peak_rss_bytes : the most that a process held; predicted_peak_bytes, measured_peak_bytes, ratio : see
    the report. estimated_seconds : what its cost gives, before the rates of this machine; None where it was cached.
    graph : where several are tried, the values of the one that it is of. why : it ran, or was
    cached; see `PlannedStage`.
    """

    name: str
    status: Literal["done", "cached"]
    address: str
    seconds: float
    peak_rss_bytes: int = 0
    predicted_peak_bytes: int | None = None
    measured_peak_bytes: int | None = None
    ratio: float | None = None
    estimated_seconds: float | None = None
    disk_bytes: int = 0
    graph: str = ""
    why: str = ""

    def to_dict(self) -> StageRecord:
        """Return the JSON form."""
        return cast(StageRecord, {name: value for name, value in asdict(self).items() if name != "graph" or value})


def read_result(path: Path) -> Result:
    """Return the document of a finished run.

    Raises IntegrityError: the file is damaged, or names what does not lie in its workspace.
    """
    result = cast(Result, read_record(path, {"run": str, "name": str, "status": str, "stages": list}, fix=FIX))
    root = path.resolve().parents[min(2, len(path.resolve().parents) - 1)]
    for stage in result["stages"]:
        sound = isinstance(stage, dict) and all(isinstance(stage.get(key), str) for key in ("name", "address"))
        require(sound, f"{path} is damaged", why="a stage in it lacks name or address", fix=FIX, error=IntegrityError)
    for key in PATHS:
        named = at(result, key)
        inside = named is None or (isinstance(named, str) and "\0" not in named
                                   and named_in(path.resolve().parent, named).is_relative_to(root))
        require(inside, f"{path} names {named!r} as {key}", fix=FIX, error=IntegrityError,
                why=f"what a run has made lies in its workspace, {root}")
    return result


def read_spec(path: Path) -> dict[str, Any]:
    """Return the spec of a run, with all defaults; raise IntegrityError if it is damaged."""
    return read_record(path, {}, fix=FIX)
