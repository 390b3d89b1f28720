"""The nearest-neighbor baseline: each point gets the label of the nearest labeled point.

For models with class frequencies, label weights or a metric for decisions, the baseline uses the same: its scores are
the negative distances to the nearest labeled points of each class, shifted like the scores of the model
(`prior_shift.py`), or to known class sizes.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from ..base.digest import JsonObject
from ..base.types import Matrix
from ..execution.tasks import Execution
from ..graph.weights.rules import Binary
from ..knn.index import NeighborIndex
from ..knn.metric import AnyMetric
from ..storage.blocks import Rows
from ..storage.views import SelectedRows
from .class_prior import LABELS, ClassPrior, smoothed
from .model import Model, coding_of, fit_attributes, register_model
from .on_graph.class_sizes import offset_to
from .on_graph.model import GraphModel, scored, signed
from .prior_shift import prior_shift
from .target.coding import Coding
from .target.target import Classes, Target

VERSION = 1
MAX_NEIGHBORS = 100  # labeled points that are searched for the nearest of each class


def fit_nearest(rows: Rows, target: Target, metric: AnyMetric, execution: Execution,
                attributes: JsonObject | None = None, k: int = 1) -> GraphModel:
    """Return the model that gives a point the mean label of its k nearest labeled points among rows (n, d).

    Raises BudgetError where the index of the labeled points does not fit.
    """
    m = len(target.labeled)
    return GraphModel(NeighborIndex.of(SelectedRows(rows, target.labeled), metric, execution),
                      signed(target.indicators(), target), np.ones(m, bool), np.zeros(m),
                      Binary(), min(k, m), scored(target), attributes or {})


def fit_nearest_baseline(rows: Rows, target: Target, metric: AnyMetric, weight: np.ndarray | None,
                        shares: np.ndarray | None, execution: Execution,
                        attributes: JsonObject | None = None) -> Model:
    """Return the baseline for a target with a class prior and a scoring.

    weight (l,) : of the labels. shares (n_classes,) : known class sizes, which replace the prior.
    """
    plain = fit_nearest(rows, target, metric, execution, attributes)
    needs_scores = isinstance(target, Classes) and len(target.names) > 1 and (
        weight is not None or shares is not None or target.prior != LABELS or target.scoring != "accuracy")
    if not needs_scores:
        return plain
    assert isinstance(target, Classes)
    k = min(len(target.labeled), MAX_NEIGHBORS)
    model = NearestByClass(plain.index, target.coded, k, np.zeros(plain.n_columns), plain.coding, plain.attributes)
    if shares is not None:
        return model.shifted(offset_to(model.values(rows, execution), model.coding, shares))
    held_out = model.held_out(SelectedRows(rows, target.labeled).read_all())
    unweighted = ClassPrior("given", tuple(smoothed(target.coded, len(target.names), None).tolist()))
    return model.shifted(prior_shift(target, held_out, model.coding, weight, unweighted).columns)


@dataclass(frozen=True, eq=False)
class NearestByClass(Model):
    """Minus the distance to the nearest labeled point of each class, for two classes their difference, plus an offset.

    index : of the labeled points, codes (m,) : their classes. A class that none of the k nearest points has gets the
    distance of the last.
    """

    index: NeighborIndex
    codes: np.ndarray
    k: int
    offset: np.ndarray
    coding: Coding
    attributes: JsonObject = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        return self.index.n_features

    @property
    def n_columns(self) -> int:
        return len(self.offset)

    def block_values(self, X: Matrix) -> tuple[np.ndarray, np.ndarray]:
        distances, ids = self.index.nearest(X, self.k)
        return self._scores(distances, ids), np.zeros(len(distances), bool)

    def held_out(self, X: Matrix) -> np.ndarray:
        """Return the leave-one-out values (m, c) of the labeled points."""
        distances, ids = self.index.nearest(X, self.k + 1)
        distances[ids == np.arange(len(ids))[:, None]] = np.inf
        return self._scores(distances, ids)

    def _scores(self, distances: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the values (q, c) from neighbors in ascending order; infinite distances are ignored."""
        last = np.where(np.isfinite(distances), distances, 0.0).max(axis=1, keepdims=True)
        nearest = np.tile(last, (1, len(self.coding.classes)))
        np.minimum.at(nearest, (np.arange(len(ids))[:, None], self.codes[ids]), distances)
        scores = -nearest
        return (scores[:, 1:] - scores[:, :1] if self.n_columns == 1 else scores) + self.offset

    def shifted(self, offset: np.ndarray) -> "NearestByClass":
        """Return the model plus an offset (c,)."""
        return replace(self, offset=self.offset + offset)

    def block_support(self, X: Matrix) -> np.ndarray:
        return np.ones(X.shape[0])

    def row_bytes(self, rows: Rows) -> int:
        return self.index.query_bytes(rows, self.k) + 16 * self.k + 24 * len(self.coding.classes)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        return {**self.index.to_arrays(), "codes": self.codes, "offset": self.offset}, {
            "type": "NearestByClass", "version": VERSION, "coding": self.coding.name,
            "classes": self.coding.classes.tolist(), "index": self.index.attributes, "n_neighbors": self.k,
            **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "NearestByClass":
        rest = fit_attributes(attributes, "NearestByClass", VERSION, ("index", "n_neighbors"))
        return cls(NeighborIndex.from_arrays(arrays, attributes["index"]), arrays["codes"], attributes["n_neighbors"],
                   arrays["offset"], coding_of(attributes), rest)


register_model("NearestByClass", NearestByClass)
