"""What the estimators of linear models on features share."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from ..base.errors import require
from ..execution.tasks import Execution
from ..learners.target.target import Target
from ..methods.linear import LinearParams
from ..methods.memory import MemoryWorkspace
from ..methods.step import Context, Fit
from ..selection.cluster import rows_of_samples
from ..storage.blocks import Rows
from .base import SearchedEstimator
from .method import MethodEstimator


class LinearEstimator(MethodEstimator, SearchedEstimator):
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

    def _told(self, context: Context, params: Any) -> dict[str, Any]:
        model = context.attributes("models")["models"]["model"]
        return {**self._basis(context, params),
                **{name: model[name] for name in ("features", "contrast") if name in model}}

    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None,
                      repetitions: Sequence[Sequence[np.ndarray]], tried: Sequence[dict[str, Any]],
                      scoring: str | None, execution: Execution, kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """As the base class says: one basis serves all folds, features and learners."""
        basis, params = self.method.steps[0], self._params()
        needed, bases = basis.params(params), kept.setdefault("bases", [])  # compared: a base kernel may be a function
        made = next((workspace for known, workspace in bases if known == needed), None)
        if made is None:
            made = MemoryWorkspace(Fit(rows, target, weight), execution)
            made.run([basis], params)
            bases.append((needed, made))
        context, features, rows_found = made.context(), dict[str, np.ndarray](), list[dict[str, Any]]()
        for values in tried:
            params = clone(self).set_params(**values)._params()
            variant = params.variants()[0]
            if str(variant) not in features:
                features[str(variant)] = params.features(context, variant, target).F
            rows_found += rows_of_samples(features[str(variant)], target, params.learners, repetitions, scoring, weight)
        return rows_found

    def uses_graph(self, tried: Iterable[dict[str, Any]]) -> bool:
        return False
