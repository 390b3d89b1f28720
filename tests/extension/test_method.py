"""A method that dssl does not have: one file, and one line that registers it.

A linear learner on Nystrom features of the base kernel, whose landmarks are drawn from all points.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

import dssl
from dssl.estimators.arguments import base_kernels
from dssl.estimators.classifier import CalibratedClassifier
from dssl.estimators.method import LinearEstimator
from dssl.estimators.targets import prior_of
from dssl.execution.cost import cost_of
from dssl.kernels.nystrom import LandmarkMap, whiten_lower
from dssl.learners.class_prior import ClassWeight
from dssl.learners.linear.kernel_model import KernelModel
from dssl.methods.linear import (
    BASE,
    Features,
    LinearEvaluator,
    LinearModel,
    LinearParams,
    LinearSections,
    fit_models,
    models_step,
    selection_step,
)
from dssl.methods.step import Method, Step, cost_of_test_points
from dssl.pipeline.kinds import KINDS, register_method
from dssl.pipeline.load import SPECS
from dssl.report.record import ReportText
from dssl.storage.blocks import PartWriter


@dataclass(frozen=True, kw_only=True)
class NystromModel(LinearModel):
    """A linear learner on Nystrom features.

    Parameters
    ----------
    n_landmarks : int
        Points that the features are of, drawn from all.
    """

    kind: Literal["nystrom"] = "nystrom"
    C: float = 10.0
    n_landmarks: int = 30


@dataclass(frozen=True, kw_only=True)
class NystromSections(LinearSections):
    """The sections of a linear learner on Nystrom features."""

    model: NystromModel

    @cached_property
    def params(self) -> "NystromParams":
        return self.linear_params(NystromParams, n_landmarks=self.model.n_landmarks)


@dataclass(frozen=True, kw_only=True)
class NystromParams(LinearParams):
    n_landmarks: int

    def variants(self) -> list[dict[str, Any]]:
        return [{"bandwidth": bandwidth} for bandwidth in self.kernels.bandwidths]

    def features(self, context, variant, target) -> Features:
        kernel = self.kernels.at(variant["bandwidth"], context.points("train"))
        S = context.arrays("basis")["landmarks"]
        features = LandmarkMap(kernel, S, whiten_lower(kernel(S, S)).T)

        def model(b, intercept, coding):
            return KernelModel(kernel, S, features.T @ b, intercept, coding)

        return Features(features(context.points("train").take(target.labeled)), model, {})


def make_landmarks(context, params):
    points = context.points("train")
    chosen = np.random.default_rng(params.random_state).permutation(len(points))[:params.n_landmarks]
    PartWriter(context.parts, 0).write(landmarks=points.take(np.sort(chosen)))
    return {"n_landmarks": len(chosen)}


def landmarks_cost(f, params):
    return cost_of(0, params.n_landmarks * f.row_bytes, params.n_landmarks * f.row_bytes, 24 * f.n)


def fit_cost(f, params):
    return cost_of(1, f.n_labeled * f.row_bytes, 8 * params.n_landmarks**2, 32 * params.n_landmarks**2)


REPORT_TEXT = ReportText(model="A linear model on Nystrom features.", changed="features that changed",
                   cause="changed features", graph="model.n_landmarks", norm="model.C",
                   folds="Held-out points stay among the landmarks.")
NYSTROM = Method(
    "nystrom", ("classification",), (
        Step("basis", 1, ("points", "labels"), lambda params: params, make_landmarks, landmarks_cost, "use fewer"),
        selection_step(1, fit_cost, "use fewer", REPORT_TEXT),
        models_step(1, fit_cost, "use fewer", lambda context, params: fit_models(context, params)[1])),
    lambda f, p: cost_of_test_points(f, p.kernels.for_costs(), p.n_landmarks, 2, f.n_outputs, 8),
    REPORT_TEXT, (BASE,), NystromSections, evaluator=LinearEvaluator.of)


class NystromSVC(CalibratedClassifier, LinearEstimator):
    regressor, method, without_graph, joint = "SemiSupervisedRegressor", NYSTROM, "it has no graph", ("C",)

    def __init__(self, kernel="rbf", *, bandwidth=0.5, C=NystromModel.C, loss=NystromModel.loss,
                 n_landmarks=NystromModel.n_landmarks, class_prior=None, class_weight=None, scale="auto",
                 memory_budget=None, unlabeled=None, random_state=0):
        self.kernel, self.bandwidth, self.C, self.loss, self.n_landmarks = kernel, bandwidth, C, loss, n_landmarks
        self.class_prior, self.class_weight, self.scale = class_prior, class_weight, scale
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _params(self):
        model = self.section(NystromModel)
        return NystromParams(kernels=base_kernels(self), learners=(model.learner,), n_landmarks=model.n_landmarks,
                             prior=prior_of(self.class_prior, None), weight=ClassWeight.of(self.class_weight),
                             random_state=self.random_state)

    def _basis(self, context, params):
        return context.attributes("basis")


def test_a_method_is_one_file(monkeypatch, pipeline, moons, tmp_path):
    monkeypatch.setattr("dssl.pipeline.kinds.KINDS", KINDS)
    try:
        register_method(NYSTROM)

        # estimator, with baseline, learning curve, report and search
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 2))
        y = np.where(np.arange(120) < 24, X[:, 0] * X[:, 1] > 0, -1)
        model = NystromSVC().fit(X, y)
        assert model.score(X, (X[:, 0] * X[:, 1] > 0).astype(int)) > 0.75
        assert {"model", "base"} <= set(model.by_labels_["scores"])
        assert "A linear model on Nystrom features." in model.report(tmp_path / "report.html")
        assert dssl.GridSearch(NystromSVC(), {"C": [0.1, 10.0]}, cv=3).fit(X, y).best_params_["C"] in (0.1, 10.0)

        # pipeline: the file, selection, plan, run, report and predictions
        commands = pipeline({**moons, "model": {"kind": "nystrom", "n_landmarks": 40}, "kernel": {"bandwidth": 0.5},
                             "selection": {"cv": 2, "grid": {"C": [0.1, 10.0]}}})
        assert [*commands.plan()][4:8] == ["basis", "selection", "models", "sample"]
        assert commands.run()["status"] == "done"
        assert "A linear model on Nystrom features." in commands.page()
        assert {*commands.predicted()} == {"up", "down"}
    finally:
        for known in (KINDS, SPECS):
            known.pop("nystrom", None)
