"""What the estimators of linear models on features share: a fit runs the steps of a method in memory."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..errors import require
from ..execution.tasks import Execution
from ..learners.probabilities import CALIBRATION, Calibration
from ..learners.target import Target
from ..methods.linear import LinearParams
from ..methods.step import Context, Fit, MemoryWorkspace, Method
from ..report.page import page
from ..report.sections.answer import answer_section
from ..report.sections.curve import curve_section
from ..selection.cluster import rows_of_samples
from ..storage.blocks import Rows
from .base import SearchedEstimator
from .calibrated import CalibratedClassifier


class LinearEstimator(SearchedEstimator):
    """An estimator that runs the steps of a method whose model is linear in features of all points."""

    method: ClassVar[Method]
    without_graph: ClassVar[str]  # why it takes none
    groups: ClassVar[dict[str, type]] = {}
    defaults: ClassVar[dict[str, dict[str, Any]]] = {}
    calibration_: Calibration | None  # of a classifier
    _facts: dict[str, dict[str, Any]]  # the attributes of what the steps made, by step

    @property
    def versions(self) -> dict[str, int]:  # type: ignore[override]
        """The versions of the steps."""
        return {step.name: step.version for step in self.method.steps}

    @abstractmethod
    def _params(self) -> LinearParams:
        """Return the parameters of the method."""

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: LinearParams,
               execution: Execution) -> None:
        require(graph is None, "graph is given", why=self.without_graph,
                fix="leave it out, or use LapSVC, LapRLSClassifier or GraphKernelRidge")
        made = MemoryWorkspace(Fit(rows, target, weight), execution)
        made.run(self.method.steps, params)
        self._facts = {**{name: artifact.attributes for name, artifact in made.artifacts.items()}, "labels": {
            **target.to_arrays()[1], **target.described(), "n_labeled": len(target.labeled)}}
        self.model_ = made.fit.models["model"]
        self.evidence_ = {**self._basis(made.context(), params), "by_labels": self._facts["models"]["by_labels"]}
        described = self._facts["models"]["models"]["model"]
        self.evidence_ |= {name: described[name] for name in ("features", "contrast") if name in described}
        if isinstance(self, CalibratedClassifier):
            self.calibration_ = Calibration.from_described(described[CALIBRATION]) if CALIBRATION in described else None

    def report(self, path: str | Path | None = None) -> str:
        """Return the report of the fit, one self-contained HTML page, and write it where a path is given.

        It says whether the unlabeled data helped, by labels that the model and its supervised baseline were fitted
        without, and how the features were made and the parameters chosen.

        Raises sklearn.exceptions.NotFittedError : `fit` was not called.
        """
        check_is_fitted(self, "model_")
        facts = {**self._facts, "points": {"scaling": self.scaling_.to_arrays()[1]}}
        result = {"gain": {"by_labels": facts["models"]["by_labels"]}}
        sections = [step.section(facts, result) for step in self.method.steps if step.section]
        html = page(type(self).__name__, f"of {self.evidence_['n_labeled']:,} labeled and "
                    f"{self.evidence_['n_unlabeled']:,} unlabeled points", [
                        answer_section(facts, result, self.method.words, self.method.baselines),
                        curve_section(facts, result), *sections])
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html

    @abstractmethod
    def _basis(self, context: Context, params: Any) -> dict[str, Any]:
        """Keep what the step `basis` has made, and return its attributes."""

    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None,
                      repetitions: Sequence[Sequence[np.ndarray]], tried: Sequence[dict[str, Any]],
                      scoring: str | None, execution: Execution, kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """As the base class says: one basis serves all folds, features and learners."""
        basis = self.method.steps[0]
        key = repr(basis.params(self._params()))  # a base kernel may be a function, or have unhashable parameters
        if key not in kept:
            kept[key] = MemoryWorkspace(Fit(rows, target, weight), execution)
            kept[key].run([basis], self._params())
        context, features, found = kept[key].context(), dict[str, np.ndarray](), list[dict[str, Any]]()
        for values in tried:
            params = clone(self).set_params(**values)._params()
            variant = params.variants()[0]
            if str(variant) not in features:
                features[str(variant)] = params.features(context, variant, target).F
            found += rows_of_samples(features[str(variant)], target, params.learners, repetitions, scoring, weight)
        return found

    def uses_graph(self, tried: Iterable[dict[str, Any]]) -> bool:
        return False
