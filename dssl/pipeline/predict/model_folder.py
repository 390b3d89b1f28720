"""Where the models of a run lie, and what they follow from."""

from pathlib import Path

from ...base.errors import DataError, IntegrityError, explain, require
from ...storage.artifacts import Workspace
from ...storage.files import named_in, path_at
from ...storage.manifests import Manifest, manifest_of, read_manifest
from ..records import STATUS, read_result
from ..status import read_status


def model_folder(path: str | Path) -> Path:
    """Return the folder of the models of a run's folder, its result.json, or the folder that this names as "model".

    Raises DataError: there is no model.
    """
    path = path_at(path)
    result = path if path.name == "result.json" else path / "result.json"
    folder = path
    if result.is_file():
        named = read_result(result).get("model")
        if named is None:
            raise DataError(explain(f"the run of {result} has no model", fix="run the pipeline without --until",
                                    why="it was stopped before the stage that fits it"))
        folder = named_in(result.parent, named).resolve()  # wherever its workspace is now
    if not (folder / "manifest.json").is_file():
        _refuse_removed(folder)
        require(path.exists(), f"{path} does not exist", error=DataError, why="a prediction needs the model of a run",
                fix="pass the result.json, the folder or, with --workspace, the name of a finished run; `dssl inspect` "
                    "lists those of a workspace")
        require(folder == path, f"the model of the run is gone: {folder}", error=DataError,
                why=f"{result} names it, and it was deleted or moved",
                fix="run the pipeline again: only what is missing is made anew")
        _refuse_unfinished(path)
        raise DataError(explain(f"{path} holds no model", why="a model is the folder of a finished run's models stage",
                                fix='pass the "model" path of `dssl run --json`, or the result.json of the run'))
    return folder


def _refuse_unfinished(path: Path) -> None:
    """Raise DataError if a path is the folder of a run that has not come to its end."""
    if (path / STATUS).is_file():
        status = read_status(path)
        state, error = status["state"], status.get("error")
        why = "it is done, but its result.json is missing" if state == "done" else \
            f"its state is {state}" + (f": {error['what']}" if error else "")
        raise DataError(explain(f"the run of {path} has no model", why=why, fix="wait for its end" if state == "running"
                                else "run the pipeline again: finished parts are kept"))


def _refuse_removed(folder: Path) -> None:
    """Raise DataError if an artifact's folder was removed by `dssl gc`."""
    workspace = Workspace(folder.resolve().parents[2]) if len(folder.resolve().parents) > 2 else None
    day = workspace.removed().get(f"{folder.parent.name}/{folder.name}") if workspace else None
    require(day is None, f"{folder} was removed by dssl gc on {day}", error=DataError,
            why="no run that was kept needed it",
            fix="run the pipeline again: what is missing is made anew, with equal bytes")


def model_manifest(folder: Path) -> Manifest:
    """Return the manifest of an artifact that a model follows from.

    Raises DataError: `dssl gc` removed it. IntegrityError: it is missing or damaged.
    """
    path = manifest_of(folder)
    if not path.is_file():
        _refuse_removed(folder)
        raise IntegrityError(explain(f"{folder} is missing", why="the model of the run follows from it, and it was "
                                     "deleted or moved",
                                     fix="run the pipeline again: only what is missing is made anew"))
    return read_manifest(path)
