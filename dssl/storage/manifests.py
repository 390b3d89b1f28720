"""The files that describe an artifact: the record of how it began, and its manifest, which is written last."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from ..base.digest import JsonObject
from ..base.errors import IntegrityError, explain
from .files import read_file, read_record, require_name, value_of

BEGUN = "begun.json"
PUBLISHED = "manifest.json"
MANIFESTS = "manifests"  # <stage>/<address>.json: manifests of removed artifacts that others were made from
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "zarr", "dask", "pyamg")


class Manifest(TypedDict):
    """The manifest of an artifact; `files` has the SHA-256 of every description file by its path."""

    stage: str
    version: int
    address: str
    params: JsonObject
    inputs: dict[str, str]
    attributes: JsonObject
    layout: str
    files: dict[str, str]
    libraries: dict[str, str]
    seal: NotRequired[str]


class Begun(TypedDict):
    """The conditions under which an artifact was begun, and the name of the folder of its parts."""

    conditions: JsonObject
    layout: str


def manifest_of(folder: Path) -> Path:
    """Return the path of an artifact's manifest: in its folder, or archived if `dssl gc` has removed the artifact."""
    published = folder / PUBLISHED
    copy = archived_manifest(folder)
    return published if published.is_file() or not copy.is_file() else copy


def archived_manifest(folder: Path) -> Path:
    """Return the path of an artifact's manifest after `dssl gc` has removed the artifact."""
    return folder.parents[2] / MANIFESTS / folder.parent.name / f"{folder.name}.json"


@cache
def libraries() -> dict[str, str]:
    """Return the versions of the libraries that can influence a result; takes a quarter of a second."""
    return {name: version(name) for name in LIBRARIES}


def read_begun(path: Path) -> Begun:
    """Return the record of how an artifact began; raise IntegrityError if it is damaged."""
    begun = read_record(path, {"conditions": dict, "layout": str},
                        fix=f"delete {path.parent} and run again: only that artifact is made again")
    require_name(begun["layout"], path)
    return cast(Begun, begun)


def read_manifest(path: Path) -> Manifest:
    """Return a manifest; raise IntegrityError if its content has changed since it was written."""
    return checked_manifest(bytes(read_file(path)), path)


def checked_manifest(text: bytes, path: Path) -> Manifest:
    """Return a manifest from the content of its file; raise IntegrityError as `read_manifest` does."""
    manifest = value_of(text, path)
    body = {name: value for name, value in manifest.items() if name != "seal"} if isinstance(manifest, dict) else {}
    if not body or manifest.get("seal") != seal_of(body):
        raise IntegrityError(explain(
            f"{path} is damaged", why="its content does not match the SHA-256 in it",
            fix=f"delete {path.parent} and run again: only that artifact is made again"))
    return cast(Manifest, manifest)


def seal_of(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its seal."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
