"""What estimators of a method share: a fit runs its steps in memory; and those of linear models on features."""

from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..base.digest import JsonObject
from ..base.errors import explain, require
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.vertices import Vertices
from ..learners.model import Model
from ..learners.on_graph.graph_ridge import LastKernelRows
from ..learners.probabilities import CALIBRATION, Calibration, TagCalibration
from ..learners.tags import TagModel
from ..learners.target.target import Target
from ..methods.evaluation import MemoryWorkspace
from ..methods.linear import LinearParams
from ..methods.step import Context, Fit, Method, SideResults
from ..report.page import Page, leading_and_following, page
from ..report.record import RunRecord
from ..report.sections.answer import answer_section, in_order
from ..report.sections.quality import HELD_OUT, quality_section, tags_answer, tags_section
from ..report.sections.scores import curve_section
from ..storage.blocks import Rows
from .arguments import GraphLike
from .base import PointEstimator


class MethodEstimator(PointEstimator):
    """An estimator whose fit runs the steps of a method."""

    method: ClassVar[Method]
    kept_steps: ClassVar[tuple[str, ...]] = ()  # intermediate steps whose arrays `_evidence` reads
    calibration_: Calibration | TagCalibration | None  # of a classifier; the latter of tags (several labels a point)
    model_: Model
    _attributes: dict[str, JsonObject]  # the attributes of what the steps made, by step
    estimators_: list[Self | None]  # of tags, the fit of each
    _last: LastKernelRows | None = None  # while tags are learned
    _begun: tuple[MemoryWorkspace, Any] | None  # what the comparison with the baseline goes on from
    _by_labels: JsonObject | None

    def _run(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Graph | None, params: Any,
             execution: Execution, vertices: Vertices | None = None) -> None:
        """Run the steps without a baseline, and set `model_`, `calibration_` and `evidence_`.

        vertices : which points are duplicates, where there is no graph that says so.
        """
        made = MemoryWorkspace(Fit(rows, target, weight, graph, vertices, soft=self._soft(rows, target, execution),
                                   side=SideResults(self._last)), execution)
        made.run(self.method.steps, self._comparing(params, False), keep={*self.method.read_last, *self.kept_steps})
        self._begun, self._by_labels = (made, params), None
        self._attributes = {**{name: artifact.attributes for name, artifact in made.artifacts.items()}, "labels": {
            **target.to_arrays()[1], **target.described(), "n_labeled": len(target.labeled)}}
        self.model_ = made.fit.side.models["model"]
        self.evidence_ = self._evidence(made.context(), params)
        if self.method.at_training is not None:
            values, unsupported = self.method.at_training(made.context())
            self._transduction = self.model_.coding.mask_labels(self.model_.coding.labels(values), unsupported)
        made.tidy(self.method)
        described = self._attributes["models"]["models"]["model"]
        if hasattr(self, "classes_"):
            self.calibration_ = Calibration.from_dict(described[CALIBRATION]) if CALIBRATION in described else None

    @property
    def by_labels_(self) -> JsonObject:
        """What held-out labels say of the model and of its supervised baseline.

        `scores` of the model, the baseline (`base`) and the most frequent class, or of a regressor the mean; the `gain`
        in error over the baseline with its `p_value`, and what that says of the `unlabeled_data`; and the `curve` of
        errors by the number of labels. With another model (`soft_labels`, `class_embeddings`, `base_estimator`) there
        are also the scores of that alone (`other`), and `without_other`, the same without it, which says whether the
        unlabeled data helps. Each label is predicted by fits without it; the unlabeled points are the same.

        It takes several fits of the learner, on features or a kernel that `fit` has left, and is computed when it is
        first asked for. A pickle holds it only if it has been asked for. Of tags (several labels a point) it is a dict
        of these by tag.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            `fit` was not called, or this was not asked for before the estimator was
            stored.
        """
        check_is_fitted(self, "model_")
        if isinstance(self.model_, TagModel):
            return {name: tag.by_labels_ for name, tag in zip(self.model_.coding.classes.tolist(), self.estimators_,
                                                              strict=True) if tag is not None}
        if self._by_labels is None:
            if self._begun is None:
                raise NotFittedError(explain(
                    "by_labels_ and report were not asked for before the estimator was stored",
                    why="the points of the fit are not stored with it", fix="fit again, or ask for them before"))
            made, params = self._begun  # which keeps what the execution of the fit shares until the end
            if not made.execution.is_open:
                made = replace(made, execution=self._execution())
            made.run(self.method.last, self._comparing(params, True))
            self._by_labels = made.artifacts["models"].attributes["by_labels"]
            self._begun = None
        return self._by_labels

    def _complete(self, report: bool) -> None:
        super()._complete(report)
        if report and getattr(self, "_begun", None) is not None:
            _ = self.by_labels_

    def __getstate__(self) -> dict[str, object]:
        return super().__getstate__() | {"_begun": None}

    def _soft(self, rows: Rows, target: Target, execution: Execution) -> np.ndarray | None:
        """Return what another model says of the points, (n, c); None where none does."""
        return None

    def _comparing(self, params: Any, compares: bool) -> Any:
        """Return the parameters of a fit that compares the model with its baseline, or does not."""
        return replace(params, baselines=("base",) if compares else ())

    @abstractmethod
    def _evidence(self, context: Context, params: Any) -> JsonObject:
        """Keep what the steps have made beside the model, and return what is known of it, for `evidence_`."""

    def report(self, path: str | Path | None = None) -> str:
        """Return the report of the fit, one self-contained HTML page.

        It says whether the unlabeled data helped, by labels that the model and its
        supervised baseline were fitted without, and how the model was made.

        Parameters
        ----------
        path : str, Path or None
            The file that it is written to, if any.

        Returns
        -------
        str
            The page.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            `fit` was not called.
        """
        check_is_fitted(self, "model_")
        of = f"{self.evidence_['n_labeled']:,} labeled and {self.evidence_['n_unlabeled']:,} unlabeled points"
        if isinstance(self.model_, TagModel):
            require("held_out" in self.evidence_, "y has several columns", why="this learner has no held-out values of "
                    "all tags", fix="write the report of each tag, estimators_[0].report(path)")
            html = page(type(self).__name__, of, [
                tags_section(self.evidence_["held_out"], HELD_OUT, self.evidence_["n_labeled"]),
                tags_answer(self.evidence_["in_words"])])
        else:
            html = self._report(of)
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html

    def _report(self, of: str) -> Page:
        points = {"scaling": self.scaling_.to_arrays()[1], "scale": self.evidence_["scale"]}
        counts, classes = JsonObject(), getattr(self, "classes_", None)
        # Predictions are counted where nothing says how good they are; a stored estimator may lack them.
        if classes is not None and not self.by_labels_.get("n") and (
                self._transduction is not None or hasattr(self, "_fit_X")):
            numbers = [int((self.transduction_ == each).sum()) for each in classes]
            counts = {"predictions": {"made": True, "classes": classes.tolist(), "counts": numbers}}
        run = RunRecord({**self._attributes, **counts, "points": points}, {"gain": {"by_labels": self.by_labels_}})
        leading, following = leading_and_following(self.method.steps)
        others = [answer_section(run, self.method.report_text, self.method.baselines), curve_section(run),
                  *(section(run) for section in (*leading, *following))]
        return page(type(self).__name__, of, in_order(run, self.method.report_text, quality_section(run), others))


class SearchedEstimator(MethodEstimator):
    """An estimator whose candidates `GridSearch` evaluates, by the evaluator of its method."""

    vectorized: ClassVar[tuple[str, ...]] = ()  # the parameters of which one evaluation varies many at a time
    several: ClassVar[tuple[str, ...]] = ()  # those of which a candidate may have several values


class LinearEstimator(SearchedEstimator):
    """An estimator that runs the steps of a method whose model is linear in features of all points."""

    without_graph: ClassVar[str]  # why it takes none
    groups: ClassVar[dict[str, type]] = {}
    defaults: ClassVar[dict[str, dict[str, float]]] = {}

    @abstractmethod
    def _params(self) -> LinearParams:
        """Return the parameters of the method."""

    @abstractmethod
    def _basis(self, context: Context, params: Any) -> JsonObject:
        """Keep what the step `basis` has made, and return its attributes."""

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: GraphLike | None,
               params: LinearParams, execution: Execution) -> None:
        require(graph is None, "graph is given", why=self.without_graph,
                fix="leave it out, or use LapSVC, LapRLSClassifier or GraphKernelRidge")
        self._run(rows, target, weight, None, params, execution)

    def _evidence(self, context: Context, params: Any) -> JsonObject:
        model = context.attributes("models")["models"]["model"]
        return {**self._basis(context, params),
                **{name: model[name] for name in ("features", "contrast") if name in model}}
