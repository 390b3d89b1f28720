"""Why a stage runs again: what differs from the most similar artifact of that stage in the workspace."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...base.errors import IntegrityError
from ...storage.artifacts import Artifact
from ...storage.manifests import PUBLISHED, Manifest, read_manifest
from ...storage.objects import ObjectPath

N_COMPARED = 20  # the newest artifacts of the stage
MAX_CHANGES = 3  # with more of them, the other artifact is not an earlier one of the same work


def changes_in_words(artifact: Artifact, files: Mapping[str, str]) -> str:
    """Return what differs from the most similar artifact of the stage, such as "power: 2 -> 3"; "" if none is similar.

    files : the names of the files among its inputs, by input. An earlier artifact knows only the digests of its own.

    Only a folder is searched: in an object store each manifest would take a request.
    """
    if isinstance(artifact.root, ObjectPath):
        return ""
    every = (_changes(artifact, earlier, files) for earlier in _newest(artifact.folder.parent))
    changes = min(every, key=len, default=[])
    return ", ".join(changes) if len(changes) <= MAX_CHANGES else ""


def _newest(folder: Path) -> Iterator[Manifest]:
    """Yield the manifests of the newest artifacts in the folder of a stage.

    One that another process removes meanwhile, or that is damaged, is left out: no run reads it, and `dssl verify`
    reports it.
    """
    times = dict[Path, int]()
    for path in folder.glob(f"*/{PUBLISHED}"):
        with suppress(FileNotFoundError):
            times[path] = path.stat().st_mtime_ns
    for path in sorted(times, key=lambda path: times[path], reverse=True)[:N_COMPARED]:
        with suppress(FileNotFoundError, IntegrityError):
            yield read_manifest(path)


def _changes(artifact: Artifact, earlier: Manifest, files: Mapping[str, str]) -> list[str]:
    """Return a phrase for each version, parameter or input that differs."""
    before, after = dict(_leaves(earlier["params"])), dict(_leaves(artifact.params))
    names = [name for name in before | after if before.get(name) != after.get(name)]
    inputs = [name for name in earlier["inputs"] | artifact.inputs
              if earlier["inputs"].get(name) != artifact.inputs.get(name)]
    versions = [earlier["version"], artifact.version]
    return [*([f"version of the stage: {versions[0]} -> {versions[1]}"] if versions[0] != versions[1] else []),
            *(f"{name}: {_text(before.get(name))} -> {_text(after.get(name))}" for name in names),
            *(f"the contents of {files[name]} are new" if name in files else f"another {name}" for name in inputs)]


def _leaves(params: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the value of each parameter."""
    if isinstance(params, Mapping) and params:
        for key, value in params.items():
            yield from _leaves(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, params


def _text(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 20 else f"{text[:17]}..."
