"""Find the files of a source, which is a path, a URL, or the name of a data set.

`manifolds:POINTSxCOLUMNS` or `manifolds:POINTSxCOLUMNS:SEED` stands for curved manifolds of that size (`manifolds.py`).
Another name is looked up in `$DSSL_DATA`, then in the cache (`$DSSL_CACHE`, default ~/.cache/dssl), then among the sets
that scikit-learn bundles, then on OpenML. Whatever it is, it ends as a local file, addressed by its bytes.
"""

import difflib
import hashlib
import os
import re
import shutil
import socket
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import pandas as pd

from ..base.errors import DataError, explain, require
from ..base.profiler import library
from ..base.urls import STORES, hosts_alone, is_object_url, is_url, require_no_secret
from ..storage import objects
from ..storage.files import draft_of
from .readers.compressed import OPENERS
from .readers.formats import endings, folder_format, format_of_ending
from .readers.manifolds import ManifoldParams, write_manifolds
from .readers.npy import IdxReader, labels_beside, labels_name
from .source_files import FileRecord, Source, copy_of, joined, last_copy, matching_paths, path_of
from .targets import target_of, whole_numbers

MANIFOLDS = re.compile(r"manifolds:(\d+)x(\d+)(?::(\d+))?$")  # points, columns, seed
TWO_MOONS = "two_moons"  # 2,000 points of scikit-learn's `make_moons` with noise 0.05
BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", TWO_MOONS, "wine")  # of scikit-learn
OPENML_NAMES = {"mnist": "mnist_784", "fashion_mnist": "Fashion-MNIST", "usps": "USPS", "covtype": "covertype"}
OPENML_TRAIN_ROWS = {"mnist_784": 60_000, "Fashion-MNIST": 60_000}  # the official test rows follow them
OPENML_HOST = "www.openml.org"
SCHEMES = ("http", "https", *STORES)
TIMEOUT = 30  # seconds without a byte from a server


def find_source(name: str | Path | Sequence[str | Path], *, labels: str | Path | None = None, format: str | None = None,
                download: bool = True, known: Sequence[FileRecord] = ()) -> Source:
    """Return the file or files that a path, URL or name stands for; downloads go to the cache, once.

    name : or several of them; a path with `*`, `?` or `[` stands for the files that match it, in natural order
        (part-2 before part-10), `**` for folders at any depth.
    labels : path or URL of the labels; unset, those of an IDX file are looked for beside it under their
        conventional name. format : of the file, where its ending does not tell. download : whether to use the network.
    known : files that were read before. An object without labels that its store says is one of them is not downloaded
        before `fetch` asks for it.

    Raise DataError saying where it was looked for, and which names are near, if nothing is found.
    """
    names = [str(name)] if isinstance(name, (str, Path)) else [str(text) for text in name]
    require(len(names) > 0, "the source is an empty list", why="there are no rows to read", error=DataError,
            fix="name a file, a URL or a data set")
    for text in (*names, *([] if labels is None else [str(labels)])):
        if is_url(text):
            require_no_secret(text, DataError)
    expanded = [path for text in names for path in matching_paths(text)]
    records = {record.name: record for record in known}
    if len(expanded) == 1:
        return _find_one(expanded[0], labels, format, download, records)
    label_files = [None] * len(expanded) if labels is None else matching_paths(str(labels))
    require(len(label_files) == len(expanded), f"{len(expanded)} files and {len(label_files)} files of labels",
            why="each file has its own labels, in the same order", error=DataError,
            fix="give `labels` as a pattern that matches one file for each")
    sources = [_find_one(text, beside, format, download, records)
             for text, beside in zip(expanded, label_files, strict=True)]
    name_of: dict[Path, str] = {}
    for source in sources:
        place = source.path.resolve()
        require(place not in name_of, f"{source.name} and {name_of.get(place)} are one file", error=DataError,
                why="its rows would be there twice", fix="name each file once")
        name_of[place] = source.name
    shown = ", ".join(names)
    return joined(sources, shown if len(shown) <= 200 else f"{names[0]} and {len(names) - 1} more")


def _find_one(location: str | objects.ObjectPath, labels: str | objects.ObjectPath | Path | None, format: str | None,
              download: bool, known: Mapping[str, FileRecord]) -> Source:
    text = str(location)
    if is_object_url(text) and labels is None and text in known and download:
        copy = copy_of(objects.object_path(text) if isinstance(location, str) else location, _urls())
        if copy.version == known[text].version:
            return Source(text, copy.path, version=known[text].version, digest=known[text].digest)
        path = copy.fetched()
    else:
        path = _download(location, download) if is_url(text) else _local(text, download)
    beside = None
    if labels is not None:
        beside = _download(labels, download) if is_url(str(labels)) else path_of(str(labels))
        require(beside.is_file(), f"labels {labels} is not a file", why="the labels are read from it",
                fix="check the path", error=DataError)
    elif (format or format_of_ending(path)) == IdxReader.format:
        parts = urlsplit(text) if is_url(text) else None
        named = labels_name(PurePosixPath(parts.path).name) if parts else None
        beside = _download(urlunsplit(parts._replace(path=str(PurePosixPath(parts.path).with_name(named)))),
                           download) if parts and named else labels_beside(path)
        require(beside != path, f"{path} holds labels", why="points are read from the file of images",
                fix="name the file of images", error=DataError)
    return Source(text, path, beside, version=path.parent.name if is_object_url(text) and beside is None else "")


def fetch(file: Source) -> None:
    """Download a file unless the cache has it."""
    if is_object_url(file.name) and not file.path.exists():
        path = copy_of(objects.object_path(file.name), _urls()).fetched()
        require(path == file.path, f"{file.name} has changed", error=DataError, fix="run again",
                why="the object differs from the one for which the run was planned")


def cache_folder() -> Path:
    """Return the folder of downloads."""
    return Path(os.environ.get("DSSL_CACHE") or Path.home() / ".cache" / "dssl").expanduser()


def _urls() -> Path:
    """Return the folder of downloaded URLs."""
    return cache_folder() / "urls"


# ---- paths and names


def _local(text: str, download: bool) -> Path:
    path = path_of(text)
    if path.is_file() or folder_format(path):
        return path
    if made := MANIFOLDS.match(text):
        return _manifolds(*(int(number or 0) for number in made.groups()))
    looks_like_path = len(path.parts) > 1 or path.suffix in endings() or path.suffix in OPENERS
    require(not looks_like_path or not path.is_dir(), f"{text} is a folder", error=DataError,
            why="it is neither a data set that dssl wrote nor a Zarr array or group",
            fix=f"name a file in it, or several with a pattern such as {text}/*.csv")
    configured = os.environ.get("DSSL_DATA")
    folders = [*([Path(configured).expanduser()] if configured else []), cache_folder()]
    if not looks_like_path:
        for folder in folders:
            if file := named_files(folder).get(text):
                return file
        if text in BUNDLED:
            return _bundled(text)
        if download and _online():
            return _openml(text)
    known = sorted({*BUNDLED, *(name for folder in folders for name in named_files(folder))})
    near = difflib.get_close_matches(path.name.split(".")[0], known, n=5, cutoff=0.9 if looks_like_path else 0.5)
    looked = [f"the file {path.absolute()}"]
    if not looks_like_path:
        looked += [f"{folder} ({'no such folder' if not folder.is_dir() else f'{len(named_files(folder))} files'})"
                   for folder in folders]
        looked += ["the sets of scikit-learn", "OpenML (no network)" if download else "not OpenML (downloads are off)"]
    fix = f"did you mean {' or '.join(near)}? " if near else ""
    here = "" if path.is_absolute() else ", which is relative to the folder in which the command runs"
    fix += f"check the path{here}" if looks_like_path else \
        f"give a path or URL, or set DSSL_DATA to the folder of {text}.npz"
    raise DataError(explain(f"no data set {text!r}", why="looked for it at " + "; ".join(looked), fix=fix))


def named_files(folder: Path) -> dict[str, Path]:
    """Return the data files of a folder by the names of their data sets: mnist for mnist.npz, a9a for a9a.svm.gz."""
    if not folder.is_dir():
        return {}
    named: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.is_file() and format_of_ending(file):
            plain = Path(file.stem if file.suffix.lower() in OPENERS else file.name)
            stem = plain.stem if plain.suffix.lower() in endings() else plain.name
            if stem not in named or file.suffix == ".npz":
                named[stem] = file
    return named


# ---- data sets that scikit-learn contains or downloads, stored as npz


def _bundled(name: str) -> Path:
    path = cache_folder() / "bundled" / f"{name}.npz"
    if not path.is_file():
        datasets = library("sklearn.datasets")
        if name == TWO_MOONS:
            X, y = datasets.make_moons(2000, noise=0.05, random_state=0)
            save_npz(path, X, y, ["across", "up"], ["upper", "lower"])
            return path
        bunch = getattr(datasets, f"load_{name}")()
        names = [str(label) for label in getattr(bunch, "target_names", [])]
        save_npz(path, bunch.data, bunch.target, [str(name) for name in bunch.feature_names], names)
    return path


def _manifolds(points: int, columns: int, seed: int) -> Path:
    """Return the file that describes curved manifolds of these sizes."""
    path = cache_folder() / "generated" / f"manifolds-{points}x{columns}-{seed}.manifolds"
    if not path.is_file():
        write_manifolds(path, ManifoldParams(points=points, columns=columns, seed=seed))
    return path


def _online() -> bool:
    """Return whether OpenML answers, without long retries."""
    try:
        socket.create_connection((OPENML_HOST, 443), timeout=5).close()
    except OSError:
        return False
    return True


def _openml(name: str) -> Path:
    """Download a data set from OpenML into the cache."""
    known_as = OPENML_NAMES.get(name, name)
    try:
        bunch = library("sklearn.datasets").fetch_openml(known_as, as_frame=True, parser="auto", n_retries=2)
    except (ValueError, URLError, OSError) as error:
        raise DataError(explain(f"no data set {name!r}: OpenML does not give {known_as!r}", why=str(error),
                                fix="check the name at openml.org, or give a path or URL")) from error
    path = cache_folder() / f"{name}.npz"
    X, y, label_names = table_of_frame(bunch.data, bunch.target, name)
    save_npz(path, X, y, list(map(str, bunch.data.columns)), label_names, OPENML_TRAIN_ROWS.get(known_as))
    return path


def table_of_frame(frame: pd.DataFrame, target: pd.Series | None,
                   name: str) -> tuple[np.ndarray, np.ndarray | None, list[str]]:
    """Return (X, y, names of the labels) of a pandas table; labels that are numbers as text become numbers."""
    for column in frame.columns:
        require(pd.api.types.is_numeric_dtype(frame[column]), error=DataError,
                what=f"{name}: column {column!r} holds text: {str(frame[column].iloc[0])!r}",
                why="features are numbers; text has no distance",
                fix="fetch it with scikit-learn, code the column as numbers, and save X and y with numpy.savez")
    X = frame.to_numpy(np.float64)
    narrow = [dtype for dtype in (np.uint8, np.int16, np.float32)
              if np.array_equal(X.astype(dtype, casting="unsafe"), X)] if np.isfinite(X).all() else []
    X = X.astype(narrow[0]) if narrow else X
    if target is None or pd.api.types.is_numeric_dtype(target):
        return X, None if target is None else target.to_numpy(), []
    text = target.astype(object)
    numbers = pd.to_numeric(text, errors="coerce").to_numpy(np.float64)
    if not np.isnan(numbers).any():
        return X, whole_numbers(numbers), []
    codes, names = target_of(text, len(text))
    return X, codes, names or []


def save_npz(path: Path, X: np.ndarray, y: np.ndarray | None, columns: list[str], label_names: list[str],
             train_rows: int | None = None) -> None:
    """Write an npz file, atomically, with the same bytes on every machine."""
    arrays: dict[str, Any] = {"X": np.ascontiguousarray(X), "columns": np.array(columns, str)}
    if y is not None:
        arrays["y"] = y
    if label_names:
        arrays["y_names"] = np.array(label_names, str)
    if train_rows is not None and len(X) > train_rows:
        arrays["split"] = (np.arange(len(X)) >= train_rows).astype(np.uint8)
    with draft_of(path) as draft, open(draft, "wb") as file:
        np.savez(file, **arrays)


# ---- URLs


def _download(location: str | Path, download: bool) -> Path:
    """Return the cached copy of a URL, after downloading it if necessary; a file:// URL is the file itself."""
    if isinstance(location, objects.ObjectPath):
        return copy_of(location, _urls()).fetched() if download else last_copy(location, _urls())
    url = str(location)
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise DataError(explain(f"{url} is not a URL: {error}", why="the data are read from it",
                                fix="correct it, or give a path")) from error
    if parts.scheme == "file":
        path = path_of(urllib.request.url2pathname(parts.path))
        require(path.is_file(), f"{url} is not a file", why="there are no rows to read", fix="check the path",
                error=DataError)
        return path
    name = PurePosixPath(parts.path).name
    if parts.scheme in STORES and name:
        return _download(objects.object_path(url), download)
    require(parts.scheme in SCHEMES and bool(name), f"cannot read {url}", error=DataError,
            why=f"data are read from files at {', '.join(SCHEMES)} and file URLs", fix="give the URL of one file")
    folder = hashlib.sha256(f"{parts.scheme}://{parts.netloc}{PurePosixPath(parts.path).parent}?{parts.query}".encode())
    path = _urls() / folder.hexdigest()[:16] / name
    if path.is_file():
        return path
    require(download, f"{url} is not in the cache {path.parent}", why="downloads are off",
            fix="allow them, or download the file and give its path", error=DataError)
    try:
        with draft_of(path) as draft, open(draft, "wb") as file, urllib.request.urlopen(url, timeout=TIMEOUT) as source:
            shutil.copyfileobj(source, file, 1 << 20)
            expected = getattr(source, "headers", {}).get("Content-Length")
            if expected is not None and int(expected) != file.tell():
                raise OSError(f"{file.tell():,} of {int(expected):,} bytes arrived")
    except (OSError, ValueError) as error:
        if path.parent.is_dir() and not any(path.parent.iterdir()):
            path.parent.rmdir()
        raise DataError(explain(f"cannot download {url}", why=f"{type(error).__name__}: {hosts_alone(str(error))}",
                                fix="check the URL and the network, or download the file and give its path")) from error
    return path


def files_in(source: str) -> str:
    """Return a source; of a folder that is no data set the pattern of its files, if they have one format."""
    path = Path(source).expanduser()
    if not path.is_dir() or folder_format(path) is not None:
        return source

    def ending(file: Path) -> str:
        return "".join(file.suffixes[-2:]) if file.suffix.lower() in OPENERS else file.suffix

    suffixes = sorted({ending(file) for file in path.iterdir() if file.is_file() and format_of_ending(file)})
    if not suffixes:
        below = next((Path(folder, name) for folder, _, names in os.walk(path) for name in sorted(names)
                      if format_of_ending(Path(name))), None)
        fix = "name a file"
        if below is not None:
            pattern = os.path.join(source, *["*"] * (len(below.relative_to(path).parts) - 1), f"*{ending(below)}")
            fix = f"name those in its folders by '{pattern}'; values in names of folders, as year=2026, are not read"
        raise DataError(explain(f"no file in the folder {source} ends in one of {', '.join(endings())}", fix=fix,
                                why="the ending says how a file is read"))
    require(len(suffixes) == 1, f"{source} is a folder with files that end in {', '.join(suffixes)}",
            why="files of one format are read as one data set", error=DataError,
            fix=f"name some of them with a pattern, such as '{source}/*{suffixes[0]}'")
    return os.path.join(source, f"*{suffixes[0]}")
