"""What the estimators of linear models on features share."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from ..base.errors import require
from ..execution.tasks import Execution
from ..learners.target.target import Target
from ..methods.linear import LinearParams
from ..methods.step import Context
from ..storage.blocks import Rows
from .method import SearchedEstimator


class LinearEstimator(SearchedEstimator):
    """An estimator that runs the steps of a method whose model is linear in features of all points."""

    without_graph: ClassVar[str]  # why it takes none
    groups: ClassVar[dict[str, type]] = {}
    defaults: ClassVar[dict[str, dict[str, Any]]] = {}

    @abstractmethod
    def _params(self) -> LinearParams:
        """Return the parameters of the method."""

    @abstractmethod
    def _basis(self, context: Context, params: Any) -> dict[str, Any]:
        """Keep what the step `basis` has made, and return its attributes."""

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: LinearParams,
               execution: Execution) -> None:
        require(graph is None, "graph is given", why=self.without_graph,
                fix="leave it out, or use LapSVC, LapRLSClassifier or GraphKernelRidge")
        self._run(rows, target, weight, None, params, execution)

    def _evidence(self, context: Context, params: Any) -> dict[str, Any]:
        model = context.attributes("models")["models"]["model"]
        return {**self._basis(context, params),
                **{name: model[name] for name in ("features", "contrast") if name in model}}
