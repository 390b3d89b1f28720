"""Strategies of files: valid ones of every format, the same with changed bytes, and text near a grammar."""

import bz2
import csv
import gzip
import io
import lzma
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import zarr
from hypothesis import strategies as st
from scipy import sparse

COMPRESS = {".gz": lambda raw: gzip.compress(raw, 1, mtime=0), ".bz2": bz2.compress, ".xz": lzma.compress}
ENDINGS = (".npz", ".npy", ".csv", ".tsv", ".data", ".svm", ".idx", ".parquet")
IDX_CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
NUMBERS = (0.0, 1.0, -1.0, 2.5, -0.125, 3e-7, 1e30, 255.0)
MISSING = ("", "NA", "?", "nan")


@dataclass(frozen=True)
class File:
    """A file to be read: its name, bytes and reader's options, and other files beside it."""

    name: str
    raw: bytes
    options: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, bytes] = field(default_factory=dict)
    folder: str | None = None  # what is read, where it is a folder and this file a part of it

    @property
    def source(self) -> str:
        """The name of what is read."""
        return self.folder or self.name

    def write(self, place: Path) -> Path:
        """Write the files into a place; return the path of what is read."""
        for name, raw in {**self.beside, self.name: self.raw}.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(raw)
        return place / self.source


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d) of finite numbers and integer labels y (n,)."""
    n, d = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    X = np.array(draw(st.lists(st.sampled_from(NUMBERS), min_size=n * d, max_size=n * d))).reshape(n, d)
    return X, np.array(draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n)), np.int64)


def _bytes_of(save: Any, *args: Any, **arrays: Any) -> bytes:
    out = io.BytesIO()
    save(out, *args, **arrays)
    return out.getvalue()


@st.composite
def npz_files(draw: st.DrawFn) -> File:
    """Return an npz file, dense or CSR, with some of the members that a reader looks for."""
    X, y = draw(tables())
    members: dict[str, Any] = {}
    if draw(st.booleans()):
        dtype = draw(st.sampled_from(["<f4", "<f8", ">f8", "u1", "<i4", "?"]))
        X = X if dtype in ("<f4", "<f8", ">f8") else np.abs(X) < 2
        members["X"] = np.asarray(X.astype(dtype), order=draw(st.sampled_from(["C", "F"])))
    else:
        rows = sparse.csr_array(X)
        members |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": np.array(rows.shape)}
    kind = draw(st.sampled_from(["integers", "floats", "text", "none"]))
    if kind != "none":
        members["y"] = {"integers": y, "floats": np.where(y < 0, np.nan, y), "text": y.astype(str)}[kind]
    if draw(st.booleans()):
        members["columns"] = np.array([f"c{i}" for i in range(X.shape[1])])
        members["y_names"] = np.array(["ash", "elm", "oak", "yew"])
    if draw(st.booleans()):
        members["split"] = (np.arange(len(X)) % 2).astype(np.uint8)
    return File("t.npz", _bytes_of(draw(st.sampled_from([np.savez, np.savez_compressed])), **members))


@st.composite
def npy_files(draw: st.DrawFn) -> File:
    """Return an npy file with its labels in a second one."""
    X, y = draw(tables())
    labels = draw(st.sampled_from([y, y.astype(np.float64), y.astype(str), y.astype("S")]))
    return File("t.npy", _bytes_of(np.save, X.astype(draw(st.sampled_from(["<f4", ">f8"])))),
                {"labels": "labels.npy"}, {"labels.npy": _bytes_of(np.save, labels)})


def idx_bytes(array: np.ndarray) -> bytes:
    """Return the bytes of an IDX file."""
    code = IDX_CODES[array.dtype.str[1:]]
    return (bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            + array.astype(array.dtype.newbyteorder(">")).tobytes())


@st.composite
def idx_files(draw: st.DrawFn) -> File:
    """Return an IDX file of images, with the file of labels beside it or without."""
    X, y = draw(tables())
    images = np.repeat(X[:, :, None], 2, axis=2).astype(draw(st.sampled_from(["f4", "f8"])))
    if draw(st.booleans()):
        return File("t-images-idx3-ubyte", idx_bytes(images), {},
                    {"t-labels-idx1-ubyte": idx_bytes(np.abs(y).astype("u1"))})
    return File("t.idx", idx_bytes(images))


@st.composite
def svmlight_files(draw: st.DrawFn) -> File:
    """Return svmlight text, with comments, blank lines and either kind of line end."""
    X, y = draw(tables())
    first, end = draw(st.integers(0, 1)), draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    for row, label in zip(X, y, strict=True):
        pairs = " ".join(f"{j + first}:{value:g}" for j, value in enumerate(row) if value or j == X.shape[1] - 1)
        lines.append(f"{label} {pairs}" + draw(st.sampled_from(["", "", " # a comment", " ", end])))
    text = end.join(lines) + draw(st.sampled_from(["", end]))
    options = draw(st.sampled_from([{}, {}, {"n_columns": X.shape[1] + 1}, {"zero_based": first == 0}]))
    return File("t.svm", text.encode(), options)


@st.composite
def csv_files(draw: st.DrawFn) -> File:
    """Return delimited text with any delimiter, quoting, header, missing marker, decimal mark and line end."""
    X, y = draw(tables())
    delimiter = draw(st.sampled_from([",", ";", "\t", "|", " "]))
    decimal = draw(st.sampled_from([".", ","])) if delimiter != "," else "."
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    header, blank = draw(st.booleans()), delimiter == " "
    names = [draw(st.sampled_from(["a", "höhe", 'x "y"', "1", "p,q", "b c"])) + str(j) for j in range(X.shape[1])]
    missing = draw(st.sampled_from(MISSING[1:] if blank else MISSING))
    marked = draw(st.sampled_from(["label", "cell", "none"]))
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting,
                        lineterminator=draw(st.sampled_from(["\n", "\r\n"])))
    if header:
        writer.writerow([name.replace(" ", "_").replace('"', "'") if blank else name for name in [*names, "label"]])
    as_text = draw(st.booleans())
    for i, (row, label) in enumerate(zip(X, y, strict=True)):
        cells = [f"{value:g}".replace(".", decimal) for value in row]
        if marked == "cell" and i == len(X) - 1:
            cells[0] = missing
        writer.writerow([*cells, missing if marked == "label" and label < 0 else
                         f"class {label}".replace(" ", "_" if blank else " ") if as_text else int(label)])
    text = out.getvalue()
    raw = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"])) + (text if draw(st.booleans()) else text.rstrip()).encode()
    given = {"delimiter": "whitespace" if blank else delimiter, "header": header, "decimal": decimal, "missing": "NA",
             "target": "label" if header else -1}
    chosen = draw(st.sets(st.sampled_from(sorted(given))))
    name = {"\t": "t.tsv", " ": "t.data"}.get(delimiter, "t.csv")
    return File(name, raw, {option: given[option] for option in sorted(chosen | ({"decimal"} & {*given}))})


@st.composite
def parquet_files(draw: st.DrawFn) -> File:
    """Return a Parquet file of numbers, with labels that are numbers or text, in row groups of any size."""
    X, y = draw(tables())
    frame = pd.DataFrame(X.astype(draw(st.sampled_from(["f4", "f8"]))), columns=[f"c{j}" for j in range(X.shape[1])])
    if draw(st.booleans()):
        frame["c0"] = np.arange(len(X))
    kind = draw(st.sampled_from(["integers", "missing", "text", "category"]))
    text = pd.Series(y.astype(str)).where(y >= 0)
    frame["label"] = {"integers": y, "missing": np.where(y < 0, np.nan, y), "text": text,
                      "category": text.astype("category")}[kind]
    raw = _bytes_of(lambda out: frame.to_parquet(out, index=False, row_group_size=draw(st.integers(1, 9)),
                                                 compression=draw(st.sampled_from(["snappy", "gzip", "zstd", None]))))
    return File("t.parquet", raw, draw(st.sampled_from([{}, {}, {"target": "label"}, {"drop": ("c0",)}])))


@st.composite
def zarr_files(draw: st.DrawFn) -> File:
    """Return one file of a Zarr group of version 2 or 3, with the others beside it."""
    X, y = draw(tables())
    version, chunk = draw(st.sampled_from([2, 3])), draw(st.integers(1, 9))
    with tempfile.TemporaryDirectory(prefix="dssl-fuzz-") as folder:
        group = zarr.open_group(f"{folder}/t.zarr", mode="w", zarr_format=version)
        for name, array in {"X": X, "y": y, "split": (np.arange(len(X)) % 2).astype(np.uint8)}.items():
            if name == "X" or draw(st.booleans()):
                group.create_array(name, data=array, chunks=(chunk, *array.shape[1:]))
        held = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(Path(folder).rglob("*"))
                if path.is_file()}
    name = draw(st.sampled_from(sorted(held)))
    return File(name, held.pop(name), {}, held, "t.zarr")


single_files = st.one_of(npz_files(), npy_files(), idx_files(), svmlight_files(), csv_files(), parquet_files())
valid_files = single_files | zarr_files()


@st.composite
def packed(draw: st.DrawFn, files: st.SearchStrategy[File] = single_files) -> File:
    """Return a file as it is, or compressed."""
    file = draw(files)
    ending = draw(st.sampled_from(["", "", "", *COMPRESS]))
    return replace(file, name=file.name + ending, raw=COMPRESS[ending](file.raw)) if ending else file


# ---- changed bytes

SPECIAL = (b"\0", b"\xff", b"\n", b"\r", b'"', b",", b"\xff\xff\xff\xff", b"\x7f" + b"\xff" * 7, b"nan", b"inf",
           b"1e999",
           b"-1", b"99999999999999999999", b"\xc3", b"\xe2\x80\xa8", b"\x1c", b":", b"#")
fractions = st.integers(0, 999)
edits = st.one_of(
    st.tuples(st.just("flip"), fractions, st.integers(1, 255)),
    st.tuples(st.just("insert"), fractions, st.sampled_from(SPECIAL) | st.binary(min_size=1, max_size=6)),
    st.tuples(st.just("replace"), fractions, st.sampled_from(SPECIAL)),
    st.tuples(st.just("delete"), fractions, st.integers(1, 40)),
    st.tuples(st.just("truncate"), fractions, st.none()),
    st.tuples(st.just("repeat"), fractions, st.integers(1, 40)),
)


def edited(raw: bytes, kind: str, fraction: int, value: Any) -> bytes:
    """Return bytes with one change at a place, counted in thousandths of their length."""
    at = len(raw) * fraction // 1000
    before, after = raw[:at], raw[at:]
    if kind == "flip":
        return before + bytes(byte ^ value for byte in after[:1]) + after[1:]
    if kind == "insert":
        return before + value + after
    if kind == "replace":
        return before + value + after[len(value):]
    if kind == "delete":
        return before + after[value:]
    if kind == "truncate":
        return before
    return before + after[:value] + after


@st.composite
def damaged(draw: st.DrawFn) -> File:
    """Return a valid file with up to three changes, or the head of one before the tail of another."""
    file = draw(packed() | packed() | zarr_files())
    raw = file.raw
    if draw(st.integers(0, 5)) == 0:
        other = draw(packed()).raw
        raw = raw[:len(raw) * draw(fractions) // 1000] + other[len(other) * draw(fractions) // 1000:]
    for edit in draw(st.lists(edits, min_size=1, max_size=3)):
        raw = edited(raw, *edit)
    if file.beside and not file.folder and draw(st.booleans()):
        name, beside = next(iter(file.beside.items()))
        return replace(file, beside={name: edited(beside, *draw(edits))})
    return replace(file, raw=raw)


@st.composite
def damaged_inside(draw: st.DrawFn) -> File:
    """Return a file whose compression is sound, and what it holds is not: the sums of archives hide no change."""
    file = draw(single_files)
    raw = file.raw
    if file.name == "t.npz":
        return replace(file, raw=_rewritten(raw, draw(st.integers(0, 9)), draw(st.lists(edits, min_size=1,
                                                                                        max_size=2))))
    for edit in draw(st.lists(edits, min_size=1, max_size=2)):
        raw = edited(raw, *edit)
    ending = draw(st.sampled_from([*COMPRESS]))
    return replace(file, name=file.name + ending, raw=COMPRESS[ending](raw))


def _rewritten(raw: bytes, which: int, changes: list[tuple[str, int, Any]]) -> bytes:
    """Return an npz archive in which one member is changed and the checksums are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as source, zipfile.ZipFile(out, "w") as target:
        for i, name in enumerate(source.namelist()):
            member = source.read(name)
            if i == which % len(source.namelist()):
                for change in changes:
                    member = edited(member, *change)
            target.writestr(name, member)
    return out.getvalue()


# ---- bytes and text of no file

random_files = st.builds(File, st.builds("t{}{}".format, st.sampled_from(ENDINGS), st.sampled_from(["", *COMPRESS])),
                         st.builds(bytes.__add__, st.sampled_from([b"", b"PK\3\4", b"\x93NUMPY\1\0", b"\0\0\x08\1",
                                                                   b"\x1f\x8b\x08\0", b"BZh9", b"\xfd7zXZ\0", b"PAR1"]),
                                   st.binary(max_size=80)))

cells = st.one_of(st.sampled_from(["1", "0", "-2.5", "1e5", "1,5", "", " ", "NA", "?", "true", "False", "inf", "nan",
                                   '"',
                                   '""', '"a', 'a"b', '"1"', "oak", "label", "y", "0x1F", "1_000", "١", "\x85",
                                   "\u2028", "\x0b", "\x1c", "é", "#", "1.5.2", "--1", "+3", "1e400", "9" * 25]),
                  st.text(max_size=4))
csv_text = st.builds(
    lambda rows, delimiter, end: end.join(delimiter.join(row) for row in rows),
    st.lists(st.lists(cells, min_size=1, max_size=4), min_size=1, max_size=6),
    st.sampled_from([",", ";", "\t", "|", " ", "  ", ", "]), st.sampled_from(["\n", "\r\n", "\r", "\n\n", "\n \n"]))
rectangular_text = st.builds(
    lambda flat, width, delimiter: "\n".join(delimiter.join(flat[i:i + width]) for i in range(0, len(flat), width)),
    st.lists(st.sampled_from(["1", "0", "-2.5", "1e5", "", "NA", "true", "False", '"1"', "oak", "é", '"a,b"', "inf",
                              " 1", "1 ", "0x1F", "1_000", "١", '""', "TRUE", "nan", "-", "1e400", "\x85", "\x1c"]),
             min_size=2, max_size=12), st.integers(1, 4), st.sampled_from([",", ";", "\t", " "]))
pairs = st.one_of(st.sampled_from(["1:1", "2:0.5", "3:-1e3", "1:", ":1", "0:2", "1:nan", "2:inf", "5:1e400", "a:1",
                                   "-1:2",
                                   "1:2:3", "2147483648:1", "99999999999999999999:1", "qid:3", "#", "# x", "1:1,",
                                   "+4:1",
                                   "1:0x1F", "1:1_0", "\x0b", "1.5:2", "\xa0", "7:١"]), st.text(max_size=4))
svmlight_text = st.builds(
    lambda lines, end: end.join(" ".join(line) for line in lines),
    st.lists(st.builds(lambda label, rest: [label, *rest],
                       st.sampled_from(["1", "-1", "0", "2.5", "+1", "nan", "", "1,2", "oak", "1e5", "inf", "#",
                                        "9" * 20]),
                       st.lists(pairs, max_size=4)), min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
text_files = st.one_of(
    st.builds(File, st.sampled_from(["t.csv", "t.csv", "t.tsv", "t.data"]), (csv_text | rectangular_text).map(
        lambda text: text.encode("utf-8", "surrogatepass"))),
    st.builds(File, st.just("t.svm"), svmlight_text.map(lambda text: text.encode("utf-8", "surrogatepass"))))

# ---- options

option_values = st.fixed_dictionaries({}, optional={
    "format": st.sampled_from(["npz", "npy", "svmlight", "csv", "idx", "parquet", "zarr", "dssl", ""]),
    "target": st.sampled_from(["none", "y", "label", "", "X", 0, -1, 7, -99, "0", "-1", "--1", "²", "a0"]),
    "dtype": st.sampled_from(["float32", "float64", "int8", ""]),
    "labels": st.sampled_from(["labels.npy", "nowhere.npy", "", "."]),
    "split": st.sampled_from(["split", "y", "none", "X", ""]),
    "header": st.booleans(),
    "delimiter": st.sampled_from([",", ";", "\t", " ", "whitespace", "", ",,", '"', "\n", "\r", "\0", "é", "€", "1",
                                  ".",
                                  "a", "\\", "\x1c", "\U0001f333"]),
    "decimal": st.sampled_from([".", ",", "", "ab", ";", '"', "\n", "1", "e", "é", " ", "-"]),
    "encoding": st.sampled_from(["utf-8", "latin-1", "cp1252", "utf-16", "utf-8-sig", "ascii", "rot13", "idna", "hex",
                                 "base64", "punycode", "unicode_escape", "utf-7", "", "no such", "utf-32", "undefined",
                                 "mbcs", "cp037", "shift_jis", "a\0b"]),
    "missing": st.sampled_from(["", "1", "oak", "-", ("1", "2"), ()]),
    "drop": st.sampled_from([(), (0,), ("a0",), (0, 0), (-1,), (9,), (0, 1, 2, 3, 4), ("label",), ("",)]),
    "n_columns": st.sampled_from([1, 5, 0, -1, 1 << 20, 1 << 40, 1 << 70]),
    "zero_based": st.booleans(),
})


@st.composite
def with_options(draw: st.DrawFn) -> File:
    """Return a valid file or text near one, with options that fit it or do not."""
    file = draw(valid_files | text_files)
    return replace(file, options={**file.options, **draw(option_values)})
