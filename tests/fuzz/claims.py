"""What must hold for any input: it is read or accepted, or refused with one message; nothing else happens."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dssl.base.errors import DsslError, SpecError
from dssl.data.dataset import MANIFEST, Dataset
from dssl.data.ingest import ingest
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.spec import Spec
from dssl.runtime.start import load_runtime
from dssl.storage.blocks import MemoryParts, Parts
from dssl.storage.store import StoredParts

from .files import File

BUDGET = 8 << 20  # bytes a task may take: a file that declares more is refused, however small it is


def text_of(error: DsslError) -> str:
    """Return the message of an error, which says what, why and how to go on."""
    text = str(error)
    assert text.strip(), "an error without a message"
    assert "\n  why: " in text, text
    assert "\n  fix: " in text, text
    return text


def read_or_refused(file: File, folder: Path, *, stored: bool = True) -> Dataset | str:
    """Write the file into an empty folder and ingest it; return the data set, or the message of its refusal.

    A data set is finite, has the shape it declares, and is the same read row by row. A refusal leaves nothing behind.
    """
    out, cache = folder / "out", folder / "cache"
    source = file.write(folder)
    options = dict(file.options)
    if options.get("labels"):
        options["labels"] = str(folder / options["labels"])
    before = sorted(path.name for path in folder.iterdir())
    parts: Parts = StoredParts(out) if stored else MemoryParts()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            data = ingest(source, parts, InProcess(1, BUDGET), scratch=None if stored else cache, **options)
        except DsslError as error:
            left = sorted(path.name for path in folder.iterdir() if path != cache)
            assert left == before, f"a refusal leaves {set(left) - set(before)} behind"
            assert not (cache.is_dir() and any(cache.iterdir())), "a refusal leaves unpacked files behind"
            return text_of(error)
        again = ingest(source, MemoryParts(), InProcess(1, BUDGET), scratch=cache,
                       **{**options, "block_rows": 1})
    assert not (out / MANIFEST).exists(), "only save finishes a data set"
    _require_equal(data, again)
    return data


def _require_equal(data: Dataset, again: Dataset) -> None:
    arrays, known = data.to_arrays()
    others, known_again = again.to_arrays()
    X = arrays["X"]
    assert X.shape == data.X.shape == (len(data), data.X.shape[1])
    assert min(X.shape) > 0
    assert X.dtype.kind == "f"
    assert np.isfinite(X).all()
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert len(array) == len(X)
        assert array.dtype == others[name].dtype, name
        np.testing.assert_array_equal(array, others[name])
    for name in ("label_names", "feature_names", "target"):
        assert known[name] == known_again[name], name
    if "y" in arrays:
        assert not np.isinf(arrays["y"]).any()


def leaves(folder: Path) -> dict[str, Any]:
    """Return the size of every file below a folder, to see what was written."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}


def understood_or_refused(source: Any, folder: Path, overrides: tuple[str, ...] = ()) -> Spec | str:
    """Load a spec and plan it; return the spec, or the message of its refusal. Nothing is written to the folder.

    A spec that is understood has the same meaning after it was written down, and a plan or a reason that there is none.
    """
    before = leaves(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            spec = load_spec(source, overrides)
        except SpecError as error:
            assert leaves(folder) == before
            return text_of(error)
        again = load_spec(spec.to_dict())
        assert repr(again) == repr(spec)  # as text: NaN may mark the points without a label
        try:
            stages = plan(spec.to_dict(), workspace=folder / "work").records()
        except DsslError as error:
            text_of(error)
        else:
            assert all(stage["status"] == "to run" for stage in stages)
    assert leaves(folder) == before
    assert not (folder / "work").exists()
    return spec


def described_or_refused(source: Any) -> Any:
    """Load a cluster description; return it, or the message of its refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return load_runtime(source)
        except SpecError as error:
            return text_of(error)
