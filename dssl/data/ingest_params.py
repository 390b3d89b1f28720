"""The parameters of reading a source, without the readers, so that a spec can be checked quickly."""

from dataclasses import dataclass
from typing import Literal

from ..base.digest import JsonObject
from ..base.errors import require

WhenMissing = Literal["error", "impute"]
WhenText = Literal["error", "one_hot"]
READER_OPTIONS = ("target", "split", "matrix", "header", "delimiter", "decimal", "encoding", "missing", "drop",
                  "n_columns", "zero_based", "thousands", "percent", "categories")


@dataclass(frozen=True, kw_only=True)
class IngestParams:
    """How a file is read. None takes the default of the format; an option that the format does not have is refused.

    Parameters
    ----------
    format : str or None
        npz, npy, svmlight, csv, parquet, arrow, idx, h5ad, anndata, zarr or dssl; by default it follows from the
        ending, or from what the folder holds.
    target : str, int or None
        Column (csv, parquet, arrow: name or number; h5ad, anndata: of obs) or member (npz, zarr) of the labels; "none"
        for no target.
    dtype : "float32" or "float64"
        The type of X.
    block_rows : int or None
        Rows of one block; by default about 32 MB of X, or less if the memory budget requires it.
    labels : str or None
        Second file with the labels (npy, idx).
    split : str or None
        Member (npz, zarr) or column of obs (h5ad, anndata) that is 0 for training and 1 for test.
    matrix : str or None
        Of AnnData: the points, X (the default), layers/NAME or obsm/NAME, such as obsm/X_pca.
    header : bool or None
        Of delimited text: whether the first line contains names.
    delimiter : str or None
        Of delimited text: the character between two cells.
    decimal : str or None
        Of tables: the decimal mark, "." or ",".
    encoding : str or None
        Of delimited text, such as utf-8 or cp1252.
    missing : str, list of str or None
        Of tables: texts that mark a missing cell.
    thousands : str or None
        Of tables: the thousands separator, or "none".
    percent : bool or None
        Of tables: whether a percent sign divides a number by 100.
    drop : list or None
        Of tables: columns to leave out, by name or number.
    categories : list or None
        Of tables: columns whose numbers are codes of categories.
    keep_ids : bool or list of str
        Columns of tables that look like identifiers, dates or free text are left out, unless they are named here or
        this is true.
    n_columns : int or None
        Of svmlight text: the number of columns.
    zero_based : bool or None
        Of svmlight text: whether the first column is 0.
    when_missing : "error" or "impute"
        impute: a missing number becomes the mean of its column over the rows that have it, and a missing text a
        category of its own. This takes a second pass; the encoding is recorded in the attributes.
    when_text : "error" or "one_hot"
        one_hot: a column of text becomes one 0/1 column per category (csv, parquet, arrow). This takes a second pass.
    sparse : bool or None
        Whether X is stored as CSR; by default if the file is sparse (svmlight, CSR in npz), has at least 1,000
        columns, and stores at most a tenth of the entries.
    """

    format: str | None = None
    target: str | int | None = None
    dtype: Literal["float32", "float64"] = "float32"
    block_rows: int | None = None
    labels: str | None = None
    split: str | None = None
    matrix: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: str | tuple[str, ...] | None = None
    thousands: str | None = None
    percent: bool | None = None
    drop: tuple[str | int, ...] | None = None
    categories: tuple[str | int, ...] | None = None
    keep_ids: bool | tuple[str, ...] = False
    n_columns: int | None = None
    zero_based: bool | None = None
    when_missing: WhenMissing = "error"
    when_text: WhenText = "error"
    sparse: bool | None = None

    def __post_init__(self) -> None:
        require(self.dtype in ("float32", "float64"), f"dtype={self.dtype!r}", why="X is stored as floats",
                fix="use float32, or float64 if 7 digits are too few")
        for name, known in (("when_missing", ("error", "impute")), ("when_text", ("error", "one_hot"))):
            require(getattr(self, name) in known, f"{name}={getattr(self, name)!r}", why="it is no choice",
                    fix=f"use {' or '.join(known)}")
        for name, marks in (("decimal", (".", ",")), ("thousands", (",", ".", " ", "'", "none"))):
            mark = getattr(self, name)
            require(mark is None or mark in marks, f"{name}={mark!r}", why="numbers are not written with this mark",
                    fix=f"use one of {', '.join(map(repr, marks))}")
        require(self.decimal is None or self.decimal != self.thousands, f"decimal and thousands are {self.decimal!r}",
                why="one mark cannot be both", fix="set one of them, or thousands: none")
        for name in ("block_rows", "n_columns"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"{name}={value}", why="it must be at least 1", fix="leave it unset")

    @property
    def has_text(self) -> bool:
        """Whether features may be text."""
        return self.when_text != "error"

    @property
    def encodes(self) -> bool:
        """Whether columns are encoded, for which a first pass over the whole file is needed."""
        return self.has_text or self.when_missing != "error"

    @property
    def missing_texts(self) -> tuple[str, ...]:
        """The texts that mark a missing cell, beside the usual ones."""
        return (self.missing,) if isinstance(self.missing, str) else tuple(self.missing or ())

    def reader_options(self) -> JsonObject:
        """Return the options that are set and that concern the reader."""
        options = {name: value for name in READER_OPTIONS if (value := getattr(self, name)) is not None}
        return options | ({"when_text": self.when_text} if self.has_text else {})
