"""What a run leaves of itself in its folder, checked where it is read: its spec and its result."""

from pathlib import Path
from typing import Any, cast

from ..base.errors import IntegrityError, require
from ..report.record import Result
from ..report.text import at
from ..storage.files import named_in, read_record

RESULT, SPEC = "result.json", "spec.json"
PATHS = {"model": "model_path", "report": "report", "predictions": "predictions"}  # by their keys in a document
FIX = "run the pipeline again: what is in its workspace is used, and a record is written"


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
