"""Cluster kernels: a linear learner on the virtual samples of an affinity of all points, without a graph.

    basis       the leading eigenpairs of the normalized affinity, of the base kernel with each bandwidth
    selection   bandwidth, transfer function, learner
    models      the model, and `base`, the same learner in the base kernel

References
----------
Chapelle, Weston, Scholkopf, "Cluster kernels for semi-supervised learning", NIPS 2002; Hou, Zhang, Zhou, "Storage fit
learning with unlabeled data", IJCAI 2017, Algorithm 2.
"""

import warnings
from dataclasses import asdict, dataclass, fields
from functools import cached_property, partial
from itertools import product
from typing import Literal

from ..base.digest import JsonObject
from ..base.errors import explain
from ..base.units import MEMORY_BUDGET
from ..execution.cost import Cost, cost_of, gram_seconds
from ..kernels.base import BaseKernels
from ..kernels.cluster import ClusterBasis, Degrees
from ..kernels.cluster_params import Approximation, ClusterParams, basis_cost, basis_of
from ..kernels.landmarks import LandmarkParams
from ..kernels.stochastic import StochasticParams, stochastic_bytes
from ..kernels.transfer import Transfer, TransferParams
from ..learners.linear.kernel_model import sample_model
from ..learners.target.target import Target
from ..report.record import ReportText
from ..report.sections.solver import cluster_section
from ..selection.by_labels import ModelsMade
from ..storage.blocks import STEP_BYTES
from .linear import (
    BASE,
    FEWER_LABELS,
    Features,
    LinearEvaluator,
    LinearGrid,
    LinearModel,
    LinearParams,
    LinearSections,
    LinearSelection,
    Variant,
    fit_models,
    models_step,
    selection_step,
)
from .plan_inputs import PlanInputs
from .sections import KernelSection
from .step import Context, Method, Step, cost_of_test_points

ALIKE = 1e-4  # the contrast below which a model of the usual C says next to nothing


@dataclass(frozen=True, kw_only=True)
class ClusterModel(LinearModel):
    """A linear learner in a cluster kernel of all points.

    Parameters
    ----------
    approximation : "exact", "nystrom", "stochastic", "landmarks" or StochasticParams
        How the eigenpairs are computed: "exact", of all points; "nystrom", from
        landmarks; "stochastic", by proximal steps on random Fourier features of rbf
        and laplacian kernels, extended to new points by landmarks, with the rank
        that the memory budget allows (`StochasticParams` says how many steps, and
        more); or "landmarks", of the landmarks alone, for comparison, which uses no
        other unlabeled points.
    transfer : str or TransferParams
        What becomes of an eigenvalue of the affinity: "polynomial", a random walk
        of 5 steps, "exponential", "linear", "step", "poly_step", which is that of
        the papers, or `TransferParams`.
    C : float
        The penalty of the loss against the norm; the kernel has a unit diagonal.
    landmarks : int, float, "auto" or LandmarkParams
        The number of landmarks, their share of the points, or `LandmarkParams`;
        "auto" is as many as the memory budget allows, at most 2,000.
    rank : int, "auto" or None
        The rank of the kernel from landmarks. Eigenvalues that equal the last one
        within a hundredth are kept with it. "auto" is k of s landmarks with s = k
        log k, and all where all points are landmarks; null keeps all.
    degrees : "auto", "exact" or "landmarks"
        How the degrees of the affinity are computed: "exact", in O(n^2 d) time;
        "landmarks", those of the Nystrom approximation, in O(n s); "auto" is exact
        up to 100,000 points that are not all landmarks.
    """

    kind: Literal["cluster"] = "cluster"
    approximation: Approximation | StochasticParams = ClusterParams.approximation
    transfer: Transfer | TransferParams = TransferParams.transfer
    C: float = 10.0
    landmarks: int | float | Literal["auto"] | LandmarkParams = "auto"
    rank: int | Literal["auto"] | None = ClusterParams.rank
    degrees: Degrees | Literal["auto"] = ClusterParams.degrees

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.transferred, self.basis(MEMORY_BUDGET)  # raises where a value is out of range

    @property
    def transferred(self) -> TransferParams:
        """Return what becomes of an eigenvalue."""
        given = self.transfer
        return given if isinstance(given, TransferParams) else TransferParams(transfer=given)

    def basis(self, budget: int) -> ClusterParams:
        """Return how the eigenpairs are found; budget : bytes by which landmarks are counted."""
        given, landmarks = self.approximation, self.landmarks
        if not isinstance(landmarks, LandmarkParams):
            landmarks = LandmarkParams(n_landmarks=landmarks, random_state=self.random_state)
        if isinstance(given, StochasticParams):
            return ClusterParams(approximation="stochastic", steps=given, landmarks=landmarks, rank=self.rank,
                                 degrees=self.degrees, budget=budget)
        return ClusterParams(approximation=given, steps=StochasticParams(random_state=self.random_state),
                             landmarks=landmarks, rank=self.rank, degrees=self.degrees, budget=budget)


@dataclass(frozen=True, kw_only=True)
class ClusterKernel(KernelSection):
    """The base kernel, on the scaled features; nowhere negative."""

    bandwidth: float | str | None = "0.25*median"


@dataclass(frozen=True, kw_only=True)
class ClusterGrid(LinearGrid):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them.

    Parameters
    ----------
    bandwidth : list of float or str, or None
        Of the base kernel.
    """

    bandwidth: tuple[float | str, ...] | None = None
    transfer: tuple[Transfer, ...] | None = None
    leading: tuple[int | Literal["auto"], ...] | None = None
    exponent: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ClusterSelection(LinearSelection):
    """Parameters chosen by cross-validation; held-out points stay among those that make the kernel."""

    grid: ClusterGrid = ClusterGrid()


@dataclass(frozen=True, kw_only=True)
class ClusterSections(LinearSections):
    """The sections of a linear learner in a cluster kernel, without a graph."""

    kernel: ClusterKernel = ClusterKernel()
    model: ClusterModel
    selection: ClusterSelection | None = None

    @cached_property
    def params(self) -> "ClusterKernelParams":
        given = self.model.transferred
        values = product(*(self.tried(item.name, getattr(given, item.name)) for item in fields(TransferParams)))
        transfers = (TransferParams(transfer=transfer, leading=leading, exponent=exponent)
                     for transfer, leading, exponent in values)
        return self.linear_params(ClusterKernelParams, cluster=self.model.basis(self.budget),
                                  transfers=tuple(dict.fromkeys(transfers)))


@dataclass(frozen=True)
class BasisParams:
    """The base kernels, and how the eigenpairs of each are found."""

    kernels: BaseKernels
    cluster: ClusterParams


@dataclass(frozen=True, kw_only=True)
class ClusterKernelParams(LinearParams):
    """What a model in a cluster kernel follows from.

    cluster : how eigenpairs are found. transfers : the transfer functions that are tried.
    """

    cluster: ClusterParams
    transfers: tuple[TransferParams, ...]

    def variants(self) -> list[Variant]:
        return [{"bandwidth": bandwidth, **asdict(transfer)} for bandwidth in self.kernels.bandwidths
                for transfer in self.transfers]

    def features(self, context: Context, variant: Variant, target: Target) -> Features:
        transfer = TransferParams(**{item.name: variant[item.name] for item in fields(TransferParams)})
        budget, n = context.execution.memory_budget, len(target.labeled)
        basis = basis_in(context, self, self.kernels.bandwidths.index(variant["bandwidth"]))
        samples = basis.samples(transfer, n)
        self.require_fits(target, samples.width, budget)
        F = samples.of_rows(context.points("train"), target.labeled, budget)
        return Features(F, partial(sample_model, samples), {
            "features": samples.width, "contrast": basis.contrast(transfer, n),
            "truncated": basis.attributes.get("truncated", False)})


def make_basis(context: Context, params: BasisParams) -> dict[str, list[JsonObject]]:
    """Find the eigenpairs of each kernel; a killed run goes on after the last that was done, or the last tile of it."""
    points, labeled, bases = context.points("train"), context.target().labeled, []
    for number, kernel in enumerate(params.kernels.on(points)):
        place, shares = context.parts.within(f"basis{number}"), context.parts.within(f"degrees{number}")
        if place.receipt_of(0) is None:
            basis = basis_of(points, kernel, params.cluster, labeled, context.execution, shares)
            place.write(0, basis.to_arrays())
            place.finish(0, {"basis": basis.attributes})
            shares.remove()
        bases.append({"bandwidth": params.kernels.bandwidths[number], **place.receipt(0)["basis"]})
    return {"bases": bases}


def basis_in(context: Context, params: ClusterKernelParams, number: int) -> ClusterBasis:
    """Return the eigenpairs of a kernel, by its number."""
    kernel = params.kernels.at(params.kernels.bandwidths[number], context.points("train"))
    attributes = context.attributes("basis")["bases"][number]
    return ClusterBasis.from_arrays(kernel, context.inputs["basis"].parts.within(f"basis{number}").read(0), attributes)


def make_models(context: Context, params: ClusterKernelParams) -> ModelsMade:
    """Fit the model and its baseline; warn where all points are nearly alike in the kernel, or its rank cuts it off."""
    attributes = fit_models(context, params)[1]
    contrast = attributes["models"]["model"]["contrast"]
    if attributes["models"]["model"]["truncated"]:
        warnings.warn(explain(
            "the affinity has more large eigenvalues than stochastic steps keep, by their rank",
            why="it is nearly the identity: few points are similar, and the kernel lacks many of them",
            fix='use approximation="nystrom", or compare a larger bandwidth, such as "0.5*median"'),
            UserWarning, stacklevel=2)
    if contrast < ALIKE:
        warnings.warn(explain(
            "all points are nearly alike in the cluster kernel", why=f"its second eigenvalue is {contrast:.1g} of "
            "its first, and the loss counts little against it", fix="use a smaller bandwidth or exponent, or "
            "another transfer function; a much larger C may do"), UserWarning, stacklevel=2)
    return attributes


# ---- what the steps take


def _n_landmarks(f: PlanInputs, params: ClusterKernelParams) -> int:
    """Return the landmarks of a kernel: those that were found, or that the budget lets be."""
    if "basis" in f.attributes:
        return max(int(basis["landmarks"]) for basis in f.attributes["basis"]["bases"])
    return params.cluster.count(min(f.n_labeled, f.n), f.n, f.d)


def _basis_cost(f: PlanInputs, params: ClusterKernelParams) -> Cost:
    cluster, s, kernels = params.cluster, _n_landmarks(f, params), len(params.kernels.bandwidths)
    cost = basis_cost(cluster.points_of(s, f.n), f.d, f.row_bytes, s, cluster.degrees_of(s, f.n), kernels, f.budget)
    if cluster.approximation != "stochastic":
        return cost
    rows = f.dense(f.n, f.width)
    steps = cluster.steps_within(rows)
    peak = stochastic_bytes(rows, steps.n_features, steps.rank, f.budget, held=False) - STEP_BYTES
    passes = kernels * (steps.steps + 1)
    return cost_of(cost.tasks + passes, cost.read + passes * f.n * (f.row_bytes + 8 * steps.rank),
                   cost.written + passes * 4 * f.n * steps.rank, max(cost.peak, peak), cost.smallest_peak,
                   cost.seconds + passes * gram_seconds(f.n, steps.rank, f.d))


def _learner_bytes(f: PlanInputs, params: ClusterKernelParams) -> int:
    s, m = _n_landmarks(f, params), f.n_labeled
    k = params.cluster.rank_of(s, f.n) or s
    return max(8 * (m * k + 2 * s * k) + learner.bytes(m, max(k, m)) for learner in params.learners)


def _selection_cost(f: PlanInputs, params: ClusterKernelParams) -> Cost:
    held = _learner_bytes(f, params) if params.cv else 0
    return cost_of(0, f.n_labeled * f.row_bytes, 0, held, held)


def _models_cost(f: PlanInputs, params: ClusterKernelParams) -> Cost:
    s = _n_landmarks(f, params)
    written = (s + f.n_labeled) * (8 * f.d + 8 * f.n_outputs) + 8 * s * s
    held = _learner_bytes(f, params) + written
    return cost_of(0, f.n_labeled * f.row_bytes, written, held, held)


def _scores_cost(f: PlanInputs, params: ClusterKernelParams) -> Cost:
    """Return that of a model of the landmarks, and what their kernels become: scaled, and virtual samples."""
    s = _n_landmarks(f, params)
    k = params.cluster.rank_of(s, f.n) or s
    return cost_of_test_points(f, params.kernels.for_costs(), max(s, f.n_labeled), 2, f.n_outputs, 8,
                               beside=8 * (s + 2 * k), maps=16 * s * k)


_FEWER = "lower model.landmarks"
REPORT_TEXT = ReportText(
    model="A linear model in a cluster kernel. Points are similar if many paths of similar points connect them.",
    changed="kernel that merely changed", cause="changed kernel", graph="model.transfer", norm="model.C",
    folds="Held-out points stay among the points that define the kernel.")
CLUSTER_KERNEL = Method(
    "cluster", ("classification",), (
        Step("basis", 2, ("points", "labels"), lambda params: BasisParams(params.kernels, params.cluster), make_basis,
             _basis_cost, f"{_FEWER}, {FEWER_LABELS}", intermediate=True, section=cluster_section),
        selection_step(7, _selection_cost, _FEWER, REPORT_TEXT),
        models_step(13, _models_cost, _FEWER, make_models)),
    _scores_cost, REPORT_TEXT, (BASE,), ClusterSections, evaluator=LinearEvaluator.of)
