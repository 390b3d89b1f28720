"""The registry of file formats; `open_reader` selects a reader by the ending of a file or the name of a format."""

from pathlib import Path
from typing import Any

from ...base.errors import DataError, explain, require
from ...base.plugins import Registry
from .anndata import AnnDataZarrReader, H5adReader
from .base import Reader
from .compressed import OPENERS, unpack
from .csv import CsvReader
from .lines import SvmlightReader
from .manifolds import ManifoldReader
from .npy import IdxReader, NpyReader, NpzReader
from .parquet import ArrowReader, ParquetReader
from .stored import StoredReader, ZarrReader, all_files, stored_files

HDF5 = {"h5", "hdf5", "hdf"}  # endings of files that are not read
FORMATS: Registry[Reader] = Registry(
    "format", NpzReader, NpyReader, SvmlightReader, CsvReader, IdxReader, ParquetReader, ArrowReader, H5adReader,
    AnnDataZarrReader, ZarrReader, StoredReader, ManifoldReader, attribute="format")


def folder_format(path: Path) -> str | None:
    """Return the format of a data set that is a folder: dssl, anndata, zarr, or None if it is none of these."""
    readers: list[type[Reader]] = [StoredReader, *FORMATS.classes()]  # data sets of dssl take precedence
    return next((reader.format for reader in readers if reader.is_at(path)), None)


def is_table(format: str) -> bool:
    """Return whether a format has columns that can be left out, and may be text."""
    return format in FORMATS and FORMATS.named(format).is_table


def files_of(folder: Path) -> dict[str, str]:
    """Return the relative paths of the files of a data set in a folder, by the names under which they are hashed."""
    if folder_format(folder) == StoredReader.format:
        return stored_files(folder)
    return {name: name for name in all_files(folder)}


def format_of_ending(path: Path) -> str | None:
    """Return the format that belongs to the ending of a file, compressed or not; None if there is none."""
    name = Path(path.name.lower())
    name = name.with_suffix("") if name.suffix in OPENERS else name
    return next((reader.format for reader in FORMATS.classes() if reader.is_named(name.name)), None)


def endings() -> list[str]:
    """Return the file name endings of all formats."""
    return [ending for reader in FORMATS.classes() for ending in reader.endings]


def format_of(path: Path, format: str | None = None) -> str:
    """Return the format of a file: the given one, or the one that belongs to its ending."""
    if format is not None:
        FORMATS.named(format, "format", "use one of these, or convert the file to npz")
        return format
    name = folder_format(path) or format_of_ending(path)
    stem, _, ending = path.name.removesuffix(path.suffix if path.suffix in OPENERS else "").rpartition(".")
    require(name is not None or ending.lower() not in HDF5, f"{path.name} is HDF5 by its ending", error=DataError,
            why="of HDF5 only AnnData is read (.h5ad): other files have no rule for which array holds the points",
            fix=f"save the array of the points as .npy in Python, numpy.save('{stem}.npy', "
                f"h5py.File('{stem}.{ending}')['NAME'][:]), and the labels as a second .npy file (`labels:`); or, if "
                "it is AnnData, set `format: h5ad`")
    if name is None:
        raise DataError(explain(
            f"{path.name} has an ending that stands for no format", fix="name the format with `format:` ("
            f"{', '.join(sorted(FORMATS))}); LIBSVM files are svmlight; convert others to npz or Parquet",
            why=f"formats are recognized by their endings: {', '.join(endings())}, ...-idx3-ubyte, each also with "
                f"{', '.join(OPENERS)}"))
    return name


def open_reader(path: str | Path, format: str | None = None, *, scratch: str | Path, labels: str | Path | None = None,
                **options: object) -> Reader:
    """Return the reader of a local file. Compressed files are unpacked into `scratch`, which every worker must open.

    labels : a second file with the labels, for formats with separate labels (npy, idx).
    options : the options of the format, see the readers; None keeps the default.

    Raises DataError: the file is missing, empty, damaged, or of no known format. ParameterError:
    the format does not have an option.
    """
    path, scratch = Path(path), Path(scratch)
    for file in (path, *([Path(labels)] if labels else [])):
        require(file.is_file() or bool(folder_format(file)), f"{file} is not a file", error=DataError,
                why="there are no rows to read", fix="check the path")
        require(file.is_dir() or file.stat().st_size > 0, f"{file} is empty: 0 bytes", error=DataError,
                why="there are no rows to read", fix="copy or download the file again")
    reader: type[Any] = FORMATS.named(format_of(path, format))
    require(path.is_dir() == reader.is_folder, f"{path} is {'a folder' if path.is_dir() else 'a file'}",
            error=DataError, why=f"the {reader.format} format is {'a folder' if reader.is_folder else 'a file'}",
            fix="leave `format:` unset, or name another path")
    options_used = {name: value for name, value in {**options, "labels": labels}.items() if value is not None}
    unknown = sorted(set(options_used) - set(reader.options))
    shown = ", ".join(f"{name}={value if isinstance(value, Path) else repr(value)}"
                      for name, value in options_used.items() if name in unknown)
    inside = ""
    if "labels" in unknown:
        inside = "; the labels of this format stand in the file itself, as the array y of an .npz file or as a " \
            "column of a table"
    elif "split" in unknown and reader.is_table:
        inside = "; a pipeline takes the split of a table from data.test.column"
    require(not unknown, f"{shown} does not apply to {path.name}",
            why=f"the {reader.format} format understands {', '.join(reader.options)}",
            fix=f"remove the option, or name another format with `format:`{inside}")
    if labels is not None:
        options_used["labels"] = unpack(Path(labels), scratch).absolute()
    # Absolute, since a worker may run in another folder.
    return reader(unpack(path, scratch).absolute(), str(path), scratch, **options_used)
