"""The model of tags: one fitted model a tag, of which those on one graph search it once for all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...base.digest import JsonObject
from ...base.types import Matrix
from ...storage.blocks import Rows
from ..model import Model, Nearest, fit_attributes, model_type, register_model
from ..target.coding import TagCoding, margins_of
from ..target.tags import Tags

VERSION = 2


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
