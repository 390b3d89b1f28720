"""Readers of file formats: `open_reader` finds the one for a file, by its ending or by the format's name."""

import re
from pathlib import Path
from typing import Any

from ...errors import DataError, ParameterError, explain, require
from .base import OPENERS, Block, Reader, Scan, unpack
from .csv import CsvReader
from .idx import IdxReader
from .npy import NpyReader
from .npz import NpzReader
from .parquet import ParquetReader
from .svmlight import SvmlightReader

__all__ = ["FORMATS", "Block", "Reader", "Scan", "format_of", "open_reader"]

FORMATS: dict[str, type[Any]] = {
    reader.format: reader for reader in (NpzReader, NpyReader, SvmlightReader, CsvReader, IdxReader, ParquetReader)
}
ENDINGS = {
    ".npz": "npz", ".npy": "npy", ".csv": "csv", ".tsv": "csv", ".data": "csv",
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".idx": "idx",
    ".parquet": "parquet", ".pq": "parquet",
}
IDX_NAME = re.compile(r"idx\d(-\w+)?$")  # train-images-idx3-ubyte


def plain_name(path: Path) -> str:
    """Return the name of a file without the ending of its compression."""
    return path.name.removesuffix(path.suffix) if path.suffix.lower() in OPENERS else path.name


def format_of(path: Path, format: str | None = None) -> str:
    """Return the format of a file: the one named, or the one its ending stands for.

    Raises
    ------
    ParameterError : the format has no reader. DataError : the ending stands for no format.
    """
    if format is not None:
        require(format in FORMATS, f"format={format!r}", why="dssl has no reader for it",
                fix=f"use one of {', '.join(sorted(FORMATS))}, or convert the file to npz")
        return format
    name = plain_name(path).lower()
    if IDX_NAME.search(name):
        return IdxReader.format
    found = ENDINGS.get(Path(name).suffix)
    if found is None:
        raise DataError(explain(
            f"{path.name} has an ending that stands for no format", fix="name the format with `format:` ("
            f"{', '.join(sorted(FORMATS))}); LIBSVM files are svmlight; convert HDF5 and others to npz or Parquet",
            why=f"formats are told by their endings: {', '.join(ENDINGS)}, ...-idx3-ubyte, each also with "
                f"{', '.join(OPENERS)}",
        ))
    return found


def open_reader(path: str | Path, format: str | None = None, *, scratch: str | Path, labels: str | Path | None = None,
                **options: Any) -> Reader:
    """Return the reader of a local file. Compressed files are unpacked into `scratch`, which every worker must see.

    Parameters
    ----------
    labels : a second file with the labels, for formats that keep them apart (npy, idx).
    options : what the format understands, see the readers; None leaves an option at its default.

    Raises
    ------
    DataError : the file is missing, empty, damaged, or of no known format.
    ParameterError : the format does not understand an option.
    """
    path, scratch = Path(path), Path(scratch)
    for file in (path, *([Path(labels)] if labels else [])):
        require(file.is_file(), f"{file} is not a file", why="there are no rows to read", error=DataError,
                fix="check the path; a data set that dssl wrote is opened with open_dataset")
        require(file.stat().st_size > 0, f"{file} is empty: 0 bytes", why="there are no rows to read", error=DataError,
                fix="copy or download the file again")
    reader = FORMATS[format_of(path, format)]
    given = {name: value for name, value in {**options, "labels": labels}.items() if value is not None}
    unknown = sorted(set(given) - set(reader.options))
    if unknown:
        raise ParameterError(explain(
            f"{', '.join(f'{name}={given[name]!r}' for name in unknown)} does not apply to {path.name}",
            why=f"the {reader.format} format understands {', '.join(reader.options)}",
            fix="remove the option, or name another format with `format:`",
        ))
    if labels is not None:
        given["labels"] = _plain(Path(labels), scratch)
    return reader(_plain(path, scratch), str(path), scratch, **given)


def _plain(path: Path, scratch: Path) -> Path:
    return unpack(path, scratch) if path.suffix.lower() in OPENERS else path
