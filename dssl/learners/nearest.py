"""The labels of the nearest labeled points: what every model that knows of unlabeled points is to be compared with.

They name classes without scores. A model that is told how frequent classes are, what labels weigh, or for which metric
to decide has a baseline that is told the same: its scores are the distances to the nearest labeled points of each
class, whose smallest is that of the nearest point; they are shifted as the scores of the model are (`prior_shift`), or
until known class sizes are met.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..execution.tasks import Execution
from ..graph.weights.rules import Binary
from ..knn.index import NeighborIndex
from ..storage.blocks import Rows
from ..storage.views import SelectedRows
from .class_prior import LABELS, ClassPrior, smoothed
from .model import Model, coding_of, described_model, register_model
from .on_graph.class_sizes import offset_to
from .on_graph.model import GraphModel, scored, signed
from .prior_shift import prior_shift
from .target.coding import Coding
from .target.target import Classes, Target

VERSION = 1
MOST_SEARCHED = 100  # labeled points of which the nearest ones of each class are told; a class beyond is as far


def fit_nearest(rows: Rows, target: Target, metric: str, execution: Execution,
                attributes: dict[str, Any] | None = None, k: int = 1) -> GraphModel:
    """Return the model that gives a point the mean label of its k nearest labeled ones among rows (n, d).

    A labeled point has its own.

    Raises BudgetError: the index of the labeled points does not fit.
    """
    m = len(target.labeled)
    return GraphModel(NeighborIndex.of(SelectedRows(rows, target.labeled), metric, execution),
                      signed(target.indicators(), target), np.ones(m, bool), np.zeros(m),
                      Binary(), min(k, m), scored(target), attributes or {})


def fit_nearest_as_told(rows: Rows, target: Target, metric: str, weight: np.ndarray | None,
                        shares: np.ndarray | None, execution: Execution,
                        attributes: dict[str, Any] | None = None) -> Model:
    """Return the baseline of a model that knows what its target is told: a prior of the classes, and a scoring.

    weight (l,) : of the labels. shares (n_classes,) : known class sizes, which count in place of the prior.
    """
    plain = fit_nearest(rows, target, metric, execution, attributes)
    is_told = isinstance(target, Classes) and len(target.names) > 1 and (
        weight is not None or shares is not None or target.prior != LABELS or target.scoring != "accuracy")
    if not is_told:
        return plain
    assert isinstance(target, Classes)
    k = min(len(target.labeled), MOST_SEARCHED)
    model = NearestByClass(plain.index, target.coded, k, np.zeros(plain.n_columns), plain.coding, plain.attributes)
    if shares is not None:
        return model.moved(offset_to(model.values(rows, execution), model.coding, shares))
    held_out = model.held_out(SelectedRows(rows, target.labeled).read_all())
    counted = ClassPrior("given", tuple(smoothed(target.coded, len(target.names), None).tolist()))  # weights are not
    return model.moved(prior_shift(target, held_out, model.coding, weight, counted).columns)


@dataclass(frozen=True, eq=False)
class NearestByClass(Model):
    """Less the distances to the nearest labeled points of each class, of two classes their difference, and an offset.

    index : of the labeled points, codes (m,) : their classes. k : of so many neighbors; a class that none of them has
    is as far as the last of them. offset (c,).
    """

    index: NeighborIndex
    codes: np.ndarray
    k: int
    offset: np.ndarray
    coding: Coding
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        return self.index.n_features

    @property
    def n_columns(self) -> int:
        return len(self.offset)

    def block_values(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        distances, ids = self.index.nearest(X, self.k)
        return self._scores(distances, ids), np.zeros(len(distances), bool)

    def held_out(self, X: Any) -> np.ndarray:
        """Return the values (m, c) of the labeled points, each without itself."""
        distances, ids = self.index.nearest(X, self.k + 1)
        distances[ids == np.arange(len(ids))[:, None]] = np.inf
        return self._scores(distances, ids)

    def _scores(self, distances: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the values (q, c) of points whose neighbors are these, ascending; infinite distances count nothing."""
        last = np.where(np.isfinite(distances), distances, 0.0).max(axis=1, keepdims=True)
        nearest = np.tile(last, (1, len(self.coding.classes)))
        np.minimum.at(nearest, (np.arange(len(ids))[:, None], self.codes[ids]), distances)
        scores = -nearest
        return (scores[:, 1:] - scores[:, :1] if self.n_columns == 1 else scores) + self.offset

    def moved(self, offset: np.ndarray) -> "NearestByClass":
        """Return the model whose values are larger by an offset (c,)."""
        return replace(self, offset=self.offset + offset)

    def block_support(self, X: Any) -> np.ndarray:
        """Return 1: a point is as near to the labeled ones as its own nearest is."""
        return np.ones(X.shape[0])

    def row_bytes(self, rows: Rows) -> int:
        return self.index.query_bytes(rows, self.k) + 16 * self.k + 24 * len(self.coding.classes)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return named arrays and JSON attributes, read by `from_arrays`."""
        return {**self.index.to_arrays(), "codes": self.codes, "offset": self.offset}, {
            "type": "NearestByClass", "version": VERSION, "coding": self.coding.name,
            "classes": self.coding.classes.tolist(), "index": self.index.attributes, "n_neighbors": self.k,
            **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "NearestByClass":
        rest = described_model(attributes, "NearestByClass", VERSION, ("index", "n_neighbors"))
        return cls(NeighborIndex.from_arrays(arrays, attributes["index"]), arrays["codes"], attributes["n_neighbors"],
                   arrays["offset"], coding_of(attributes), rest)


register_model("NearestByClass", NearestByClass)
