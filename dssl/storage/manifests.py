"""The files of an artifact's folder that say what it is: how it was begun, and its manifest, which is written last."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

from ..base.errors import IntegrityError, explain
from .files import read_file, read_record, require_name, value_of

BEGUN = "begun.json"
PUBLISHED = "manifest.json"
MANIFESTS = "manifests"  # <stage>/<address>.json: of artifacts that were removed, and that kept ones follow from
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "zarr", "dask", "pyamg")


class Manifest(TypedDict):
    """What the manifest of an artifact says; `files` has the SHA-256 of every description by its path."""

    stage: str
    version: int
    address: str
    params: dict[str, Any]
    inputs: dict[str, str]
    attributes: dict[str, Any]
    layout: str
    files: dict[str, str]
    libraries: dict[str, str]
    seal: NotRequired[str]


class Begun(TypedDict):
    """Under which conditions an artifact was begun, and the name of the folder of its parts."""

    conditions: dict[str, Any]
    layout: str


def manifest_of(folder: Path) -> Path:
    """Return where the manifest of an artifact's folder is: in it, or where `dssl gc` keeps that of a removed one."""
    published = folder / PUBLISHED
    kept = kept_manifest(folder)
    return published if published.is_file() or not kept.is_file() else kept


def kept_manifest(folder: Path) -> Path:
    """Return where the manifest of an artifact's folder is kept once `dssl gc` has removed the artifact."""
    return folder.parents[2] / MANIFESTS / folder.parent.name / f"{folder.name}.json"


@cache
def libraries() -> dict[str, str]:
    """Return the versions of what a result may depend on; a quarter second of reading metadata."""
    return {name: version(name) for name in LIBRARIES}


def read_begun(path: Path) -> Begun:
    """Return conditions and layout of an artifact that was begun; raise IntegrityError if its file is damaged."""
    begun = read_record(path, {"conditions": dict, "layout": str},
                        fix=f"delete {path.parent} and run again: only that artifact is made anew")
    require_name(begun["layout"], path)
    return cast(Begun, begun)


def read_manifest(path: Path) -> Manifest:
    """Return a manifest; raise IntegrityError if a byte of its content changed since it was written."""
    return checked_manifest(bytes(read_file(path)), path)


def checked_manifest(text: bytes, path: Path) -> Manifest:
    """Return the manifest of the text of its file; raise IntegrityError as `read_manifest` does."""
    manifest = value_of(text, path)
    body = {name: value for name, value in manifest.items() if name != "seal"} if isinstance(manifest, dict) else {}
    if not body or manifest.get("seal") != seal_of(body):
        raise IntegrityError(explain(
            f"{path} is damaged", why="its content does not match the SHA-256 in it",
            fix=f"delete {path.parent} and run again: only that artifact is made anew"))
    return cast(Manifest, manifest)


def seal_of(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what a manifest holds beside it."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
