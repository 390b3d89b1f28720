"""The files from outside that a spec names: its source, labels and soft labels beside it, and a given graph."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..base.digest import digest, is_whole
from ..base.errors import SpecError, explain, require
from ..data.readers.base import Scan
from ..data.readers.formats import format_of
from ..data.source_files import FileRecord, Source, digested, fingerprint
from ..data.sources import find_source
from ..methods.data_sections import TestSplit
from ..methods.step import File
from .graphs import given_file
from .soft_labels import OPINION
from .spec import Spec

NOWHERE = Path()  # of a source of which there is only the shape


def find_files(spec: Spec, known: Sequence[FileRecord] = ()) -> dict[str, File]:
    """Return the files from outside that a spec names, with the digest of their bytes and format.

    known : files of the source that were read before, which are not read again where their store says that they have
    not changed.

    Raises
    ------
    DataError : there is no such file. SpecError : predictions go into a copy of the source, which is several files.
    """
    params, given = spec.data.read, spec.given_graph
    source = find_source(spec.data.source, labels=params.labels, format=params.format, known=known)
    require(spec.predictions.format != "h5ad" or not source.more, error=SpecError,
            what=f"predictions.format is h5ad, and data.source={spec.data.source!r} matches {len(source.files)} files",
            why="the labels are written into a copy of one file", fix="set predictions.format to csv or parquet")
    files = {"source": source_file(digested(source), spec)}
    if spec.labels is not None and spec.labels.file is not None:
        labels = find_source(spec.labels.file, format="csv")
        files["labels"] = File(labels, fingerprint(labels))
    opinion = spec.model.opinion
    if opinion is not None and opinion.file is not None:
        soft = find_source(opinion.file)
        files[OPINION] = File(soft, fingerprint(soft))
    if given is not None:
        file = given_file(given.kind, given.path)
        files[given.kind] = File(file, fingerprint(file))
    return files


def source_file(source: Source, spec: Spec) -> File:
    """Return a source whose files know their digests, with the digest of all their bytes and their format."""
    return File(source, digest({"bytes": fingerprint(source),
                                "format": format_of(source.path, spec.data.read.format)}))


def shaped_source(spec: Spec, points: int | None, columns: int | None) -> tuple[Spec, dict[str, File], Scan]:
    """Return the spec, files and scan of a dense source of so many points and columns, which need not exist.

    All of its rows are used, an official test split is a fifth of them, and labels from a file are left out.

    Raises SpecError: one of the two is missing, or is no number of points or columns.
    """
    if not is_whole(points) or not is_whole(columns) or points < 2 or columns < 1:
        raise SpecError(explain(f"points={points!r}, columns={columns!r}", why="what a run takes follows from both, of "
                                "two points or more", fix="give both, such as --points 1e8 --columns 64"))
    labels, test = spec.labels, spec.data.test
    data = replace(spec.data, keep=None, rows="all", test=TestSplit(fraction=0.2) if test.official else test)
    dtype = np.dtype(data.read.dtype)
    scan = Scan(n_rows=points, n_columns=columns, dtype=dtype.name, target=None if data.task == "clustering" else "y",
                row_bytes=columns * dtype.itemsize, label_names=tuple(map(str, spec.data.keep or ())) or None)
    spec = replace(spec, data=data)
    if labels is not None and labels.file is not None:
        spec = replace(spec, labels=replace(labels, file=None))
    shape = f"{points:,} points, {columns:,} columns"
    return spec, {"source": File(Source(shape, NOWHERE), digest({"points": points, "columns": columns}))}, scan
