"""What a run leaves of itself in its folder, checked where it is read: its spec, result, stages and artifacts.

What is written down for an engine holds no secret of the environment in which it is written.
"""

import json
import os
import re
import shlex
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

from ..base.errors import IntegrityError, SpecError, explain, require
from ..report.record import Result
from ..report.text import at
from ..storage.files import named_in, read_json, read_record, write_json

RESULT, SPEC, STATUS = "result.json", "spec.json", "status.json"
STAGES = "stages.json"  # the folders of the artifacts that a run makes or uses
ARTIFACT = re.compile(r"\w+/[0-9a-f]{24}")  # the folder of an artifact, in that of all
PATHS = {"model": "model_path", "report": "report", "predictions": "predictions"}  # by their keys in a document
FIX = "delete the folder of this run, and run the pipeline again: what is in its workspace is used"
NAMES = re.compile("KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)  # of variables whose values look like secrets
SHORTEST = 6  # characters; a shorter value, such as "us" of KEYMAP, occurs by chance


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

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {name: value for name, value in asdict(self).items() if name != "graph" or value}


def read_result(path: Path) -> Result:
    """Return the document of a finished run; raise IntegrityError if damaged, or if it names paths elsewhere."""
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


def new_run_id() -> str:
    """Return a name for a run's folder that none has: by time, and a random number."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:6]}"


def write_stages(run: Path, folders: Sequence[Path]) -> None:
    """Write into a run's folder which artifacts it makes or uses."""
    write_json(run / STAGES, [f"{folder.parent.name}/{folder.name}" for folder in folders])


def stages_of(run: Path) -> set[str]:
    """Return the folders of the artifacts that a run makes or uses, which `write_stages` wrote.

    None of a run that was submitted and has not begun. Raises IntegrityError: the file is missing or damaged.
    """
    if not (run / STAGES).exists() and not (run / STATUS).exists() and (run / "submission").is_dir():
        return set()
    wanted = "nothing else says which artifacts are the run's, and all of them would be removed"
    fix = f"remove the run too, with --drop {run.name}; or put the file back"
    try:
        folders = read_json(run / STAGES)
    except FileNotFoundError as error:
        raise IntegrityError(explain(f"{run} has no {STAGES}", why=wanted, fix=fix)) from error
    except IntegrityError as error:
        raise IntegrityError(explain(f"{run / STAGES} is cut short or damaged", why=wanted, fix=fix)) from error
    sound = isinstance(folders, list) and all(isinstance(name, str) and ARTIFACT.fullmatch(name) for name in folders)
    require(sound, error=IntegrityError,
            what=f"{run / STAGES} holds no list of artifacts", why=wanted, fix=fix)
    return set(folders)


def require_no_secret(what: str, text: str, environment: Mapping[str, str] = os.environ) -> None:
    """Raise SpecError if a text to be written down contains the value of a variable that looks like a secret.

    The error names the variable, never its value.
    """
    for name, value in sorted(environment.items()):
        if not NAMES.search(name) or len(value) < SHORTEST or os.path.exists(value):  # such as the path of a key
            continue
        # As text, for a shell, in JSON, and quoted in YAML.
        forms = {value, shlex.quote(value), json.dumps(value)[1:-1], value.replace("'", "''")}
        require(not any(form in text for form in forms), error=SpecError,
                what=f"{what} contains the value of the environment variable {name}",
                why="whoever can read the workspace, or can ask the engine for the job, would learn it",
                fix=f"remove the value from the spec and the cluster description, and let the job read {name} where it "
                    "runs: from its environment, from a file that only you can read, or from a Secret of Kubernetes; "
                    f"if {name} is no secret, unset it for this command")
