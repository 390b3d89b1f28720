"""The multi-scale eigen kernel: a linear learner on eigenfunctions of graph Laplacians of many scales.

    basis       the eigenfunctions, each of the scale at which its eigenvalue is most stable
    selection   the learner
    models      the model, and `base`, the same learner in the base kernel

References
----------
Mhaskar, Pereverzyev, Semenov, Semenova, "Data based construction of kernels for classification", 2018.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Literal

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import DsslError, SpecError, explain
from ..base.types import Matrix
from ..base.units import MEMORY_BUDGET
from ..execution.cost import Cost, cost_of
from ..kernels.gram import BLOCK_BYTES
from ..kernels.multiscale import MultiscaleMap, MultiscaleParams, multiscale_cost, multiscale_map
from ..learners.linear.kernel_model import multiscale_model, scaled_features
from ..learners.model import Model
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Target
from ..report.record import ReportText
from ..report.sections.solver import multiscale_section, regions_section
from ..selection.by_labels import ModelsMade
from ..storage.blocks import PartWriter, Rows
from .linear import (
    BASE,
    FEWER_LABELS,
    Features,
    LinearEvaluator,
    LinearModel,
    LinearParams,
    LinearSections,
    Variant,
    fit_models,
    models_step,
    selection_step,
)
from .plan_inputs import PlanInputs
from .step import Context, Method, Step, cost_of_test_points

USUAL_SCALES = 50  # that a plan counts on before they are known; 25 to 60 of data sets so far
GRID, DRAWN = 80, 600  # places a side, and points, of a drawing of what is predicted in the plane


@dataclass(frozen=True, kw_only=True)
class MultiscaleModel(LinearModel):
    """A linear learner in the multi-scale eigen kernel of all points.

    Parameters
    ----------
    eps_0 : float or "auto"
        The first scale, in squared units of the features; "auto" is half the
        squared median distance of two points.
    q : float
        The ratio of each scale to the one before, between 0 and 1.
    threshold : float
        The second eigenvalue of the graph Laplacian below which there are no
        further scales.
    n_eigenpairs : int or "auto"
        The number of eigenpairs of the kernel beside the constant; "auto" is an
        eighth of the landmarks, but at least 100, or all of fewer landmarks.
    n_landmarks : int or "auto"
        The number of points whose graph Laplacians are decomposed, drawn at random,
        with the labeled ones among them as long as these are no more than half.
        Other points have extended eigenfunctions, as new points have. "auto" is as
        many as the memory budget allows, 2,000 at most, and all points where there
        are fewer.
    outlier_share : float
        The share of the landmarks that are dropped at most, 0 to 0.5, because they
        lie apart from the others. Scales end where the other landmarks fall apart.
    unit_diagonal : bool
        Whether the kernel is scaled to unit diagonal, so that no point weighs more
        than others. False is the kernel of the paper.
    C : float
        The penalty of the loss against the norm, 1 / alpha, for a kernel whose
        diagonal, or its median, is 1. The rule of the paper is to interpolate,
        which 1e6 does.
    """

    kind: Literal["multiscale"] = "multiscale"
    eps_0: float | Literal["auto"] = MultiscaleParams.eps_0
    q: float = MultiscaleParams.q
    threshold: float = MultiscaleParams.threshold
    n_eigenpairs: int | Literal["auto"] = MultiscaleParams.n_eigenpairs
    n_landmarks: int | Literal["auto"] = MultiscaleParams.n_landmarks
    outlier_share: float = MultiscaleParams.outlier_share
    unit_diagonal: bool = MultiscaleParams.unit_diagonal
    C: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.multiscale(MEMORY_BUDGET)  # raises where a value is out of range

    def multiscale(self, budget: int) -> MultiscaleParams:
        """Return how the kernel is made; budget : bytes by which landmarks are counted."""
        names = {item.name for item in fields(MultiscaleParams)} - {"budget"}
        return MultiscaleParams(**{name: getattr(self, name) for name in names}, budget=budget)


@dataclass(frozen=True, kw_only=True)
class MultiscaleSections(LinearSections):
    """The sections of a linear learner in a multi-scale kernel, and of the same learner in the base kernel."""

    model: MultiscaleModel

    @cached_property
    def params(self) -> "MultiscaleKernelParams":
        return self.linear_params(MultiscaleKernelParams, multiscale=self.model.multiscale(self.budget))

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        losses = self.tried("loss", self.model.loss)
        if self.task == "regression" and set(losses) != {"squared"}:
            yield "model.loss", SpecError(explain(f"model.loss: {', '.join(losses)}, and data.task is regression",
                                                  why="quantities have no classes to tell apart", fix="use squared"))


@dataclass(frozen=True, kw_only=True)
class MultiscaleKernelParams(LinearParams):
    """What a model in a multi-scale kernel follows from; multiscale : how the kernel is made."""

    multiscale: MultiscaleParams

    def variants(self) -> list[Variant]:
        return [{}]

    def features(self, context: Context, variant: Variant, target: Target) -> Features:
        features, budget = map_in(context), context.execution.memory_budget
        self.require_fits(target, features.width, budget)
        return Features(scaled_features(features, context.points("train"), target.labeled, budget),
                        partial(multiscale_model, features), {})


def make_basis(context: Context, params: MultiscaleParams) -> dict[str, JsonObject]:
    """Find the eigenfunctions; a killed run goes on after the scales that were done."""
    scales = context.parts.within("scales")
    features = multiscale_map(context.points("train"), params, context.target().labeled, context.execution, scales)
    PartWriter(context.parts, 0).write(**features.arrays())
    scales.remove()
    return {"basis": features.attributes}


def map_in(context: Context) -> MultiscaleMap:
    return MultiscaleMap.of(context.arrays("basis"), context.attributes("basis")["basis"])


def make_models(context: Context, params: MultiscaleKernelParams) -> ModelsMade:
    """Fit the model and its baseline; tell what is predicted in the plane, of points that have two columns."""
    models, attributes = fit_models(context, params)
    regions = regions_of(models["model"], context.points("train"), context.target())
    return attributes if regions is None else {**attributes, "regions": regions}


def regions_of(model: Model, points: Rows, target: Target) -> dict[str, object] | None:
    """Return what is predicted of points in the plane and around them; JSON, None where there are not two columns.

    corners : the least and largest of each column. grid : rows from below of predictions, codes or quantities. points,
    predicted : of some training points; labeled, known : of the labeled ones.
    """
    if points.shape[1] != 2:
        return None
    some = np.unique(np.linspace(0, len(points) - 1, DRAWN).astype(int))
    drawn, labeled = dense_of(points.take(some)), dense_of(points.take(target.labeled[:DRAWN]))
    both = np.concatenate([drawn, labeled])
    margin = 0.15 * np.ptp(both, axis=0).max()
    low, high = both.min(axis=0) - margin, both.max(axis=0) + margin
    across, up = (np.linspace(low[i], high[i], GRID) for i in (0, 1))
    places = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)

    def predicted(X: np.ndarray) -> np.ndarray:
        labels = model.predict(X)
        if isinstance(model.coding, ClassCoding):
            return np.searchsorted(model.coding.classes, labels)
        return labels.reshape(len(X), -1)[:, 0].round(6)

    return {
        "corners": [low.tolist(), high.tolist()], "grid": predicted(places).reshape(GRID, GRID).tolist(),
        "points": drawn.tolist(), "predicted": predicted(drawn).tolist(), "labeled": labeled.tolist(),
        "known": target.coded[:DRAWN].reshape(len(labeled), -1)[:, 0].tolist(),
        "classes": [str(name) for name in model.coding.classes] if isinstance(model.coding, ClassCoding) else []}


def dense_of(X: Matrix) -> np.ndarray:
    """Return points as an array of float64, which they may be no longer."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)


# ---- what the steps take


def _size_of(f: PlanInputs, params: MultiscaleKernelParams) -> tuple[int, int]:
    """Return the numbers of landmarks and eigenpairs: those that were found, or that the budget lets be."""
    if "basis" in f.attributes:
        basis = f.attributes["basis"]["basis"]
        return basis["landmarks"], basis["eigenpairs"]
    s = params.multiscale.count(f.n, f.d)
    return s, params.multiscale.pairs_of(s)


def _basis_cost(f: PlanInputs, params: MultiscaleKernelParams) -> Cost:
    scales = len(f.attributes["basis"]["basis"]["scales"]) if "basis" in f.attributes else USUAL_SCALES
    return multiscale_cost(f.n, f.d, f.row_bytes, *_size_of(f, params), scales)


def _learner_bytes(f: PlanInputs, params: MultiscaleKernelParams) -> int:
    (s, k), m = _size_of(f, params), f.n_labeled
    map_bytes = 8 * s * (k + f.d)
    return map_bytes + max(8 * 3 * m * (k + 1) + learner.bytes(m, max(k + 1, m)) for learner in params.learners) + min(
        f.budget // 8, m * 8 * (3 * s + 4 * k))


def _selection_cost(f: PlanInputs, params: MultiscaleKernelParams) -> Cost:
    return cost_of(0, f.n_labeled * f.row_bytes, 0, _learner_bytes(f, params) if params.cv else 0, 0)


def _models_cost(f: PlanInputs, params: MultiscaleKernelParams) -> Cost:
    (s, k), regions = _size_of(f, params), 0
    if f.d == 2:
        regions = min(GRID**2 * 8 * (4 * s + 4 * k), BLOCK_BYTES)
    written = 8 * (s * (f.d + k) + f.n_labeled * (f.d + f.n_outputs))
    return cost_of(0, f.n_labeled * f.row_bytes, written, _learner_bytes(f, params) + written + regions, 0)


def _scores_cost(f: PlanInputs, params: MultiscaleKernelParams) -> Cost:
    """Return that of models of landmarks, and what their distances become: weights of a scale, and features."""
    s, k = _size_of(f, params)
    return cost_of_test_points(f, params.kernels.for_costs(), max(s, f.n_labeled), 2, f.n_outputs, 8,
                               beside=8 * (3 * s + 4 * k), maps=16 * s * k)


_FEWER = "lower model.n_landmarks"
REPORT_TEXT = ReportText(
    model="A linear model in a kernel of eigenfunctions of graph Laplacians, each at the scale at which its eigenvalue "
          "is most stable. Points are similar if short steps connect them.",
    changed="kernel that merely changed", cause="changed kernel", graph="model.threshold", norm="model.C",
    folds="Held-out points stay among the points that define the kernel.")
MULTISCALE_KERNEL = Method(
    "multiscale", ("classification", "regression"), (
        Step("basis", 4, ("points", "labels"), lambda params: params.multiscale, make_basis, _basis_cost,
             f"{_FEWER}, {FEWER_LABELS}", intermediate=True, section=multiscale_section),
        selection_step(6, _selection_cost, _FEWER, REPORT_TEXT),
        models_step(12, _models_cost, _FEWER, make_models, section=regions_section, leads=True)),
    _scores_cost, REPORT_TEXT, (BASE,), MultiscaleSections, evaluator=LinearEvaluator.of)
