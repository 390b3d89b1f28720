"""The model of tags: one fitted model a tag, of which those on one graph search it once for all."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...base.digest import JsonObject
from ...storage.blocks import Rows
from ...storage.csr import Points
from ..model import Model, fit_attributes, model_type, register_model
from ..probabilities import Calibration
from ..target.coding import margins_of
from ..target.tags import TagCoding
from .blend import BlendedModel
from .model import GraphModel

VERSION = 1


@dataclass(frozen=True)
class TagCalibration:
    """What makes the scores of tags probabilities, one calibration of two classes a tag."""

    tags: Sequence[Calibration]

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each tag (n, c) from scores (n, c)."""
        return np.column_stack([tag.probabilities(np.column_stack([-column, column]))[:, 1]
                                for tag, column in zip(self.tags, scores.T, strict=True)])


def graph_part(model: Model) -> GraphModel | None:
    """Return the part of a model that is on a graph; None where it has none."""
    if isinstance(model, BlendedModel):
        return model.graph
    return model if isinstance(model, GraphModel) else None


def with_graph_part(model: Model, **changes: Any) -> Model:
    """Return a model with another index in its part on a graph."""
    graph = graph_part(model)
    if graph is None:
        return model
    changed = replace(graph, **changes)
    return replace(model, graph=changed) if isinstance(model, BlendedModel) else changed


def with_shared_index(model: Model, earlier: Sequence[Model]) -> Model:
    """Return a model that holds the index and the scales of an earlier one with an equal index, where there is one."""
    graph = graph_part(model)
    if graph is None:
        return model
    parts = {id(part.index): part for part in map(graph_part, earlier) if part is not None and part.k == graph.k}
    shared = next((part for part in parts.values() if graph.index.equals(part.index)), None)
    return model if shared is None else with_graph_part(model, index=shared.index, scales=shared.scales)


@dataclass(frozen=True, eq=False)
class TagModel(Model):
    """A model of two classes for each tag, whose value is the margin of the second; NaN where it is unsupported.

    index_of : for each model the first model that shares its index.
    """

    models: tuple[Model, ...]
    coding: TagCoding
    index_of: tuple[int, ...]
    attributes: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, models: Sequence[Model], names: np.ndarray) -> "TagModel":
        """Return the model of models, of which those with equal indexes hold one, see `with_shared_index`."""
        first = dict[tuple[int, int], int]()
        index_of = []
        for number, model in enumerate(models):
            graph = graph_part(model)
            index_of.append(number if graph is None else first.setdefault((id(graph.index), graph.k), number))
        return cls(tuple(models), TagCoding(names), tuple(index_of))

    @property
    def n_features(self) -> int:
        return self.models[0].n_features

    @property
    def n_columns(self) -> int:
        return len(self.models)

    def block_values(self, X: Points) -> tuple[np.ndarray, np.ndarray]:
        values = np.empty((X.shape[0], len(self.models)))
        searches = dict[int, tuple[np.ndarray, np.ndarray]]()
        for column, (model, first) in enumerate(zip(self.models, self.index_of, strict=True)):
            graph = graph_part(model)
            if graph is not None and first not in searches:
                searches[first] = graph.index.nearest(X, graph.k)
            if isinstance(model, (BlendedModel, GraphModel)):
                at_points, unsupported = model.block_values(X, searches[first])
            else:
                at_points, unsupported = model.block_values(X)
            values[:, column] = margins_of(at_points, model.coding)[:, 1]
            if model.abstains:
                values[unsupported, column] = np.nan
        return values, np.asarray(np.isnan(values).all(axis=1))

    def block_support(self, X: Points) -> np.ndarray:
        """Return the smallest support of the models."""
        return np.min([model.block_support(X) for model in self.models], axis=0)

    def row_bytes(self, rows: Rows) -> int:
        return 8 * len(self.models) + max(model.row_bytes(rows) for model in self.models)

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
                        **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "TagModel":
        rest = fit_attributes(attributes, "TagModel", VERSION, ("models", "index_of"))
        stored = [dict[str, np.ndarray]() for _ in attributes["models"]]
        for key, array in arrays.items():
            number, _, name = key.partition("/")
            stored[int(number)][name] = array
        models = list[Model]()
        for each, first, described in zip(stored, attributes["index_of"], attributes["models"], strict=True):
            each |= {name: array for name, array in stored[first].items() if _of_index(name)}
            model, shared = model_type(described).from_arrays(each, described), None
            if first < len(models):
                shared = graph_part(models[first])
            models.append(model if shared is None else with_graph_part(model, index=shared.index))
        return cls(tuple(models), TagCoding(np.array(attributes["classes"])), tuple(attributes["index_of"]), rest)


def _of_index(key: str) -> bool:
    return key.removeprefix("graph/").startswith("index.")


register_model("TagModel", TagModel)
