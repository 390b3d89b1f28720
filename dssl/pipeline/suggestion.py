"""`dssl suggest`: which rows to label next, from what a run has solved: its graph, its labels and its model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..base.errors import DataError, explain, require
from ..data.readers.formats import is_table
from ..data.source_files import fingerprint
from ..data.sources import find_source
from ..execution.tasks import Execution
from ..methods.step import Context
from ..selection.suggest import Criterion, SuggestParams
from ..storage.artifacts import Artifact, Workspace
from ..storage.files import named_in, path_at
from ..storage.manifests import manifest_of
from .kinds import all_stage_names
from .load import load_spec
from .plan.plan import DEFAULT_WORKSPACE, plan
from .predict.model import open_model
from .predict.model_folder import model_folder, model_manifest
from .records import SPEC, read_result, read_spec
from .suggested_rows import SuggestedRows, choose_rows, with_places
from .validation import ingest_params

YAML = (".yaml", ".yml")


def finished_models(name: str | Path, workspace: str | Path, overrides: Sequence[str] = ()) -> Path:
    """Return the folder of the models of a run, by its folder, result.json or identity, or of a spec that has been run.

    overrides : KEY.KEY=VALUE of a spec, as `dssl run --set` takes them.

    Raises DataError: there is none, or a run that is named has overrides.
    """
    path, run = path_at(name), Workspace.at(workspace).root / "runs" / str(name)
    if path.suffix not in YAML:
        require(not overrides, f"{name} is a run, and --set sets values of a spec", error=DataError,
                why="a finished run has a spec of its own", fix="leave --set out, or name the pipeline file")
        return model_folder(run if run.is_dir() and not path.exists() else path)
    made = plan(load_spec(path, tuple(overrides)), workspace=workspace)
    artifact = made.artifact(made.kind.model) if made.kind.model else None
    if artifact is None or not artifact.exists:
        given = f" with {', '.join(overrides)}" if overrides else ""
        raise DataError(explain(f"{path} has not been run in {workspace}{given}",
                                fix="run it first, name the --set values of its run, or check --workspace",
                                why="points are chosen by its graph, its labels and its model"))
    return artifact.folder


def artifacts_behind(folder: Path) -> dict[str, Artifact]:
    """Return the artifact in a folder and all that it follows from, by stage.

    Raises DataError: `dssl gc` removed one of them. IntegrityError: a manifest is missing or damaged, or is that of
    another artifact.
    """
    workspace, artifacts, pending = Workspace.at(folder.parents[2]), dict[str, Artifact](), [folder]
    stages = all_stage_names()
    while pending:
        described = model_manifest(pending.pop())
        artifact = workspace.artifact(described["stage"], described["version"], described["params"],
                                      described["inputs"])
        artifacts[artifact.stage] = artifact
        behind = [folder.parents[1] / stage / address[:24] for stage, address in artifact.inputs.items()
                  if stage not in artifacts and stage != artifact.stage]  # under which name files are from outside
        pending += [place for place in behind if place.parent.name in stages or manifest_of(place).is_file()]
    return artifacts


def suggest_rows(run: str | Path, execution: Execution, *, count: int = 10, criterion: Criterion = "auto",
                 random_state: int = 0, workspace: str | Path = DEFAULT_WORKSPACE,
                 overrides: Sequence[str] = ()) -> SuggestedRows:
    """Return which rows of the source of a finished run to label next; `run` as `finished_models`.

    The graph, the labels and the model are those of the run; only eigenvectors of the graph are computed, and what the
    model says where a criterion asks for that. count, criterion, random_state : as in `SuggestParams`.
    overrides : values of a spec that is named, as `dssl run --set` takes them.

    Raises DataError: there is no such run; it learned from no labels, or holds fewer points without a label; or `dssl
    gc` removed an artifact that its model follows from. ParameterError: its kind of model has no graph, or predicts
    quantities, and the criterion asks for it. IntegrityError: an artifact is missing or damaged.
    """
    params = SuggestParams(count=count, criterion=criterion, random_state=random_state)
    folder = finished_models(run, workspace, overrides)
    behind = artifacts_behind(folder)
    require("labels" in behind, f"{run} learned from no labels", why="those of its rows would be added to them",
            fix="name a run of a classification or a regression", error=DataError)
    require("tags" not in behind["labels"].attributes, f"{run} learned several labels a point", error=DataError,
            why="a criterion asks how sure the model is of one class of a row", fix="choose rows in Python with "
            "dssl.suggest_labels(X, y), which takes y of tags")
    context = Context(behind, {}, behind[folder.parent.name].parts, execution)
    suggested, spec = choose_rows(context, open_model(folder).model, params), _spec_of(folder)
    files = (spec.get("labels") or {}).get("file") or ()
    return replace(_placed(suggested, spec, behind["dataset"].attributes),
                   label_files=(files,) if isinstance(files, str) else tuple(files))


def _spec_of(folder: Path) -> dict[str, Any]:
    """Return the spec of the newest run whose models lie in a folder; an empty one where none is there any more."""
    for result in sorted(folder.parents[2].glob("runs/*/result.json"), reverse=True):
        named = read_result(result).get("model")
        if named and named_in(result.parent, named).resolve() == folder.resolve() and (result.parent / SPEC).is_file():
            return read_spec(result.parent / SPEC)
    return {}


def _placed(suggested: SuggestedRows, spec: dict[str, Any], attributes: dict[str, Any]) -> SuggestedRows:
    """Return rows with their places in the files of a run's source; without, where that is not there as it was read."""
    dataset = attributes["dataset"]
    suggested = replace(suggested, weight=(spec.get("labels") or {}).get("weight"))
    if not spec or not is_table(dataset.get("format", "")):
        return suggested
    read = ingest_params(spec["data"]["read"], "data.read")
    try:
        source = find_source(spec["data"]["source"], labels=read.labels, format=read.format, download=False)
    except DataError:
        return suggested
    return with_places(suggested, source, read, attributes) if fingerprint(source) == dataset["fingerprint"] \
        else suggested
