"""Tags: several labels a point, each of them a class of its own that a point has or has not; and their model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse

from ..base.digest import JsonObject
from ..base.errors import DataError, require
from ..base.missing import missing_values
from ..base.types import Matrix
from ..storage.blocks import Rows
from .model import Model, Nearest, fit_attributes, model_type, register_model
from .target.coding import TagCoding, margins_of
from .target.encoding import UNLABELED, require_even_rows
from .target.target import Classes

VERSION = 2
SHOWN = 10  # names that a message lists


@dataclass(frozen=True, eq=False)
class Tags:
    """labeled (l,) : the row numbers of points with a known entry. coded (l, c) : 1, 0, or -1 where unknown.

    names (c,) : of the tags.
    """

    labeled: np.ndarray
    coded: np.ndarray
    names: np.ndarray

    @property
    def coding(self) -> TagCoding:
        return TagCoding(self.names)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        return {"labeled": self.labeled, "tags": self.coded}, {"tags": self.names.tolist()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], attributes: JsonObject) -> "Tags":
        """Return the tags from the arrays and attributes of `to_arrays`, or from those of all points without `labeled`.
        """
        names = np.array(attributes["tags"])
        return cls(arrays["labeled"], arrays["tags"], names) if "labeled" in arrays else cls.of(arrays["tags"], names)

    def described(self) -> JsonObject:
        """Return a summary of the labels: how many points have each tag, and how many have not."""
        n_positive, n_negative = self.n_by_entry
        return {"with_tag": n_positive.tolist(), "without_tag": n_negative.tolist(), "not_learned": self.not_learned()}

    @classmethod
    def of(cls, codes: np.ndarray, names: np.ndarray) -> "Tags":
        """Return the tags from the entries of all points (n, c), see `encode_tags`."""
        labeled = np.flatnonzero((codes != UNLABELED).any(axis=1))
        return cls(labeled, codes[labeled], names)

    def take(self, positions: np.ndarray) -> Self:
        """Return the tags of the labeled points at these positions."""
        return replace(self, labeled=self.labeled[positions], coded=self.coded[positions])

    def of_tag(self, column: int) -> Classes:
        """Return the labels of one tag, of the classes 0 and 1."""
        known = np.flatnonzero(self.coded[:, column] != UNLABELED)
        return Classes(self.labeled[known], self.coded[known, column].astype(np.int64), np.arange(2))

    def of_columns(self, columns: np.ndarray) -> Self:
        """Return the tags in some columns, at the points where one of them is known."""
        some = replace(self, coded=self.coded[:, columns], names=self.names[columns])
        return some.take(np.flatnonzero((some.coded != UNLABELED).any(axis=1)))

    @property
    def n_by_entry(self) -> np.ndarray:
        """Return how many labeled points have each tag, and how many have not, (2, c)."""
        return np.array([(self.coded == 1).sum(axis=0), (self.coded == 0).sum(axis=0)])

    def most_balanced(self) -> Classes:
        """Return the labels of the tag that has the most labels of the rarer of its two classes."""
        return self.of_tag(int(self.n_by_entry.min(axis=0).argmax()))

    @property
    def learnable(self) -> np.ndarray:
        """Return the columns of tags that some labeled point has, and another has not."""
        return np.flatnonzero(self.n_by_entry.all(axis=0))

    def constants(self) -> np.ndarray:
        """Return the score (c,) of each tag that is not learnable: 1 where all labels have it, -1 where none has it.

        NaN of a learnable tag, and of one that is known at no point.
        """
        n_positive, n_negative = self.n_by_entry
        every, none = (n_positive > 0) & (n_negative == 0), (n_negative > 0) & (n_positive == 0)
        return np.select([every, none], [1.0, -1.0], np.nan)

    def not_learned(self) -> list[str]:
        """Return what is said of tags that are not learnable, a line for each reason."""
        n_positive, n_negative = self.n_by_entry
        every, none = (n_positive > 0) & (n_negative == 0), (n_negative > 0) & (n_positive == 0)
        lines = []
        for what, then, chosen in (("no labeled point has", "predicted nowhere", none),
                                   ("every labeled point has", "predicted everywhere", every),
                                   ("no point has a known entry of", "unknown everywhere",
                                    n_positive + n_negative == 0)):
            if names := self.names[chosen].tolist():
                lines.append(f"tags that {what}: {_listed(names)}; {'they are' if len(names) > 1 else 'it is'} {then}")
        return lines

    def require_learnable(self) -> None:
        """Raise DataError unless there is a tag that some labeled point has, and another has not."""
        require(len(self.learnable) > 0, "; ".join(self.not_learned()) or "no point has a known tag", error=DataError,
                why="a tag is learned from points with it and points without it",
                fix="label points with, and points without one of the tags" if (self.coded == 0).any() else
                "pass 0 where a point does not have a tag; -1 and missing entries say that nobody knows")


def is_indicator(y: object) -> bool:
    """Return whether labels are a matrix of two columns or more."""
    if isinstance(y, (sparse.sparray, sparse.spmatrix)):
        return bool(y.shape[1] > 1)
    shape = tuple(np.shape(y) if hasattr(y, "shape") else np.shape(y[:1]) if isinstance(y, (list, tuple)) else ())
    return len(shape) == 2 and shape[-1] > 1


def encode_tags(y: Any, unlabeled: object = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries (n, c), int8, 1, 0 and -1 where unknown, and the names (c,) of the tags.

    y : array-like, shape (n, c) : of 0 and 1, or booleans; the names are those of the columns of a DataFrame, else 0 to
        c - 1. The entries that a sparse matrix does not store are 0.
    unlabeled : a marker of unknown entries beside -1 and missing values.

    Raises DataError: an entry is none of these, or two columns have one name.
    """
    require_even_rows(y)
    names = np.array(list(getattr(y, "columns", range(np.shape(y)[1] if hasattr(y, "shape") else len(y[0])))))
    twice = sorted({str(name) for name in names.tolist() if names.tolist().count(name) > 1})
    require(not twice, f"two columns of y are named {_listed(twice)}", error=DataError,
            why="each tag needs a name of its own", fix="rename one, or join them")
    values = np.asarray(y.toarray() if sparse.issparse(y) else y)
    values = values.astype(object) if values.dtype.kind in "UT" else values
    missing = missing_values(values.ravel()).reshape(values.shape)
    filled = np.where(missing, UNLABELED, values)
    unknown = filled == UNLABELED if unlabeled is None else (filled == UNLABELED) | (filled == unlabeled)
    yes, no = ((filled == code) & ~unknown for code in (1, 0))
    wrong = np.argwhere(~(yes | no | unknown))
    first = [(row, names[column].item(), values[row, column:column + 1].tolist()[0]) for row, column in
             wrong[:1].tolist()]
    require(not first, error=DataError,
            what=f"y has {len(names)} columns, and entries that are not 0, 1 or -1: {len(wrong):,}; the first as "
                 f"(row, column, entry): {first}",
            why="each of several columns is a tag, 1 at points that have it and 0 at those that do not",
            fix="pass 1, 0, and -1 or NaN where it is unknown; for one of several classes pass one column")
    return np.where(unknown, UNLABELED, yes).astype(np.int8), names


def _listed(names: Sequence[Any]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more


def with_shared_index(model: Model, earlier: Sequence[Model]) -> Model:
    """Return a model that holds the index and the scales of an earlier one with an equal index, where there is one."""
    part = model.on_graph
    if part is None:
        return model
    parts = {id(other.index): other for other in (each.on_graph for each in earlier)
             if other is not None and other.k == part.k}
    shared = next((other for other in parts.values() if part.index.equals(other.index)), None)
    return model if shared is None else model.with_index(shared.index, shared.scales)


@dataclass(frozen=True, eq=False)
class TagModel(Model):
    """A model of two classes for each tag, whose value is the margin of the second; NaN where it is unsupported.

    models : of the tags in the columns `learned`. constants (c,) : the values of the others, see `Tags.constants`.
    index_of : for each model the first that shares its index.
    """

    models: tuple[Model, ...]
    coding: TagCoding
    learned: tuple[int, ...]
    constants: np.ndarray
    index_of: tuple[int, ...]
    attributes: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, models: Sequence[Model], target: Tags, attributes: JsonObject | None = None) -> "TagModel":
        """Return the model of those of the learnable tags, of which those with one index share it."""
        first = dict[tuple[int, int], int]()
        index_of = []
        for number, model in enumerate(models):
            part = model.on_graph
            index_of.append(number if part is None else first.setdefault((id(part.index), part.k), number))
        return cls(tuple(models), TagCoding(target.names), tuple(target.learnable.tolist()), target.constants(),
                   tuple(index_of), attributes or {})

    @property
    def n_features(self) -> int:
        return self.models[0].n_features

    @property
    def n_columns(self) -> int:
        return len(self.constants)

    def block_values(self, X: Matrix) -> tuple[np.ndarray, np.ndarray]:
        values = np.tile(self.constants, (X.shape[0], 1))
        searches = dict[int, Nearest]()
        for column, model, first in zip(self.learned, self.models, self.index_of, strict=True):
            part = model.on_graph
            if part is None:
                at_points, unsupported = model.block_values(X)
            else:
                if first not in searches:
                    searches[first] = part.index.nearest(X, part.k)
                at_points, unsupported = model.block_values_near(X, searches[first])
            values[:, column] = margins_of(at_points, model.coding)[:, 1]
            if model.rejects:
                values[unsupported, column] = np.nan
        return values, np.asarray(np.isnan(values[:, list(self.learned)]).all(axis=1))

    def block_support(self, X: Matrix) -> np.ndarray:
        return np.min([model.block_support(X) for model in self.models], axis=0)

    def row_bytes(self, rows: Rows) -> int:
        return 8 * self.n_columns + max(model.row_bytes(rows) for model in self.models)

    def fixed_bytes(self, rows: Rows) -> int:
        return max(model.fixed_bytes(rows) for model in self.models)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        arrays, described = dict[str, np.ndarray](), []
        for number, (model, first) in enumerate(zip(self.models, self.index_of, strict=True)):
            stored, attributes = model.to_arrays()
            described.append(attributes)
            arrays |= {f"{number}/{key}": array for key, array in stored.items()
                       if first == number or not _of_index(key)}
        return arrays, {"type": "TagModel", "version": VERSION, "coding": self.coding.name,
                        "classes": self.coding.classes.tolist(), "models": described, "index_of": list(self.index_of),
                        "learned": list(self.learned),
                        "constants": [None if value != value else value for value in self.constants.tolist()],
                        **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "TagModel":
        return cls._of_arrays(arrays, attributes, [model_type(each).maker(each) for each in attributes["models"]])

    @classmethod
    def maker(cls, attributes: JsonObject) -> Callable[[dict[str, np.ndarray]], Model]:
        return partial(cls._of_arrays, attributes=attributes,
                       makers=[model_type(each).maker(each) for each in attributes["models"]])

    @classmethod
    def _of_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject,
                   makers: Sequence[Callable[[dict[str, np.ndarray]], Model]]) -> "TagModel":
        rest = fit_attributes(attributes, "TagModel", VERSION, ("models", "index_of", "learned", "constants"))
        stored = [dict[str, np.ndarray]() for _ in attributes["models"]]
        for key, array in arrays.items():
            number, _, name = key.partition("/")
            stored[int(number)][name] = array
        models = list[Model]()
        for each, first, make in zip(stored, attributes["index_of"], makers, strict=True):
            each |= {name: array for name, array in stored[first].items() if _of_index(name)}
            model = make(each)
            shared = models[first].on_graph if first < len(models) else None
            models.append(model if shared is None else model.with_index(shared.index, shared.scales))
        return cls(tuple(models), TagCoding(np.array(attributes["classes"])), tuple(attributes["learned"]),
                   np.array(attributes["constants"], float), tuple(attributes["index_of"]), rest)


def _of_index(key: str) -> bool:
    return key.removeprefix("graph/").startswith("index.")


register_model("TagModel", TagModel)
