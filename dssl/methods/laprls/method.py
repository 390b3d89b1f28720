"""Functions with penalties on the norm and on the graph's energy, on landmarks: `laprls` and `lapsvm`.

    landmarks   the points that functions are sums over
    selection   penalties, bandwidth and loss
    models      the model and its baselines

    model     least loss of the labels, with penalties on the norm and on how much the function varies along the graph
    base      the same without the graph, gamma_I = 0, with its own gamma_A, on the same landmarks
    shuffled  the model with the mean of the graph's energy over all relabelings of its vertices

`laprls` has the squared loss, `lapsvm` others.
"""

from dataclasses import replace
from functools import partial

from ...base.digest import JsonObject
from ...execution.cost import Cost, cost_of
from ...graph.spectral_concentration import concentration_cost, fits_a_task
from ...kernels.landmarks import landmark_count, landmarks_cost
from ...learners.laprls.cost import Fits, SystemSizes, dense_cost, nystrom_cost, restored_cost, systems_seconds
from ...learners.laprls.penalties import MAX_LABELS, Penalties, PenaltyScale, by_ratio
from ...learners.laprls.problem import DENSE, WITHOUT_LANDMARKS
from ...learners.laprls.products import gram_bytes
from ...learners.losses import SQUARES
from ...learners.probabilities import FOLDS
from ...report.record import BASE, Baseline, ReportText
from ...report.sections.selection import selection_section
from ...report.sections.solver import laprls_section
from ...selection.by_labels import LabelFolds
from ...selection.folds import FoldParams
from ...selection.laprls import automatic_folds
from ..plan_inputs import PlanInputs, guessing_unless
from ..step import Method, Step, cost_of_test_points
from .sections import LapRLSSections, LapSVMSections
from .steps import (
    MANY_LABELS,
    ChoiceOfLandmarks,
    PenaltyEvaluator,
    PenaltyParams,
    make_landmarks,
    make_models,
    make_selection,
)

SURE = 20  # times the seconds of Gram matrices: iterations that take more are not chosen, whatever is found yet
HALO = 3.0  # of unknown blocks: in few dimensions less than 1; 2.8 for the 123 features of a9a


def _n_landmarks(f: PlanInputs, p: PenaltyParams) -> int:
    """Return the number of landmarks; 0 for the methods that take all points."""
    if "landmarks" in f.attributes:
        return max((item["count"] for item in f.attributes["landmarks"]["landmarks"]), default=0)
    params = p.laprls
    if params.system.solver in WITHOUT_LANDMARKS:
        return 0
    given = params.landmarks.n_landmarks
    if isinstance(given, int):  # is meant, however few distinct rows the file may turn out to have
        return min(given, f.distinct_points.upper)
    return landmark_count(params.landmarks, min(f.n_labeled, f.vertices), f.vertices,
                          params.max_landmarks(f.vertices, f.row_bytes))


def _landmarks_are_known(f: PlanInputs, p: PenaltyParams) -> bool:
    return ("landmarks" in f.attributes or p.laprls.system.solver in WITHOUT_LANDMARKS
            or isinstance(p.laprls.landmarks.n_landmarks, int))


_guesses_landmarks = guessing_unless(_landmarks_are_known, "landmarks")


def _n_points(f: PlanInputs, p: PenaltyParams) -> int:
    """Return the points of a model: the landmarks, or all distinct points."""
    return f.vertices if p.laprls.system.solver in DENSE else _n_landmarks(f, p)


@_guesses_landmarks
def _landmarks_cost(f: PlanInputs, p: PenaltyParams) -> Cost:
    landmarks, solver = p.laprls.landmarks, p.laprls.system.solver
    return landmarks_cost("uniform" if solver in DENSE else landmarks.method, f.n, f.vertices, _n_landmarks(f, p),
                          f.row_bytes, f.width, len(p.kernels.bandwidths), f.budget)


def _tried(f: PlanInputs, p: PenaltyParams) -> list[Penalties]:
    """Return the pairs of penalties that are tried, with those of the base model."""
    candidates = p.laprls.candidates(("base",), PenaltyScale((float(f.n_labeled),), f.n))
    return list(dict.fromkeys(system for systems in candidates.values() for system in systems))


def _n_held_out_systems(f: PlanInputs, p: PenaltyParams) -> int:
    """Return the systems that cross-validation solves."""
    several = p.laprls.n_pairs > 1 or len(p.numbers) > 1
    is_chosen = p.laprls.chosen and f.n_labeled > f.n_outputs  # with a label of each class left when one is held out
    return len(_tried(f, p)) * _n_folds(f, p) if several and (p.cv or is_chosen) else 0


def _n_folds(f: PlanInputs, p: PenaltyParams) -> int:
    """Return the number of folds of a repetition; 0 where nothing is chosen."""
    if p.laprls.chosen:
        return automatic_folds(p.laprls.system, f.n_labeled, 0).count(f.n_labeled)
    return p.cv.count(f.n_labeled) if isinstance(p.cv, FoldParams) else 0


def _systems(f: PlanInputs, p: PenaltyParams) -> SystemSizes:
    """Return what the costs of the systems follow from."""
    params, tried = p.laprls, _tried(f, p)
    # float64 takes more memory; until the distinct points are counted, half of all is taken for their number.
    distinct = f.distinct_points.lower // 2 if f.distinct_points.what else f.vertices
    system = params.of_points(distinct, max(f.n_labeled, 1)).system
    columns = 1 if f.n_outputs == 2 else f.n_outputs  # two classes have one
    written = (len(p.baselines) + 1) * _n_points(f, p) * (f.row_bytes + 8 * f.n_outputs)
    return SystemSizes(v=f.vertices, m=f.n_labeled, nnz=f.nnz, s=_n_landmarks(f, p), row_bytes=f.row_bytes,
                       columns=columns, folds=_n_folds(f, p) + 1, pairs=len(tried) + params.n_pairs,
                       held_out_systems=_n_held_out_systems(f, p), kernels=len(p.numbers), written=written,
                       params=system, budget=f.budget, smooth=params.loss != SQUARES,
                       ratios=len(by_ratio(tried)),
                       repetitions=p.cv.repetitions if isinstance(p.cv, FoldParams) else 1)


def _fits(f: PlanInputs, p: PenaltyParams) -> Fits:
    """Return what is fitted: the labels are held out of the model and of the base, to calibrate and to compare them."""
    names, compares, solver = ("model", *p.baselines), bool(p.baselines), p.laprls.system.solver
    iterates = solver in ("nystrom-pcg", "nystrom-cg") or (
        solver in ("pcg", "cg") and p.laprls.loss == SQUARES)  # a fit each time
    folds = LabelFolds.of_sizes(f.class_sizes, a_fit_each=iterates, one_above=MANY_LABELS,
                               curve=compares and not iterates)
    n_models = len({"model", "base"} & {*names}) if compares or not f.is_regression else 0
    chosen = f.attributes["selection"]["choices"].values() if "selection" in f.attributes else ()
    return Fits(len(names), len({p.number(row) for row in chosen}) or min(len(p.numbers), len({*names} - {"shuffled"})),
                compares, n_models * tuple(tuple(map(len, of_time)) for of_time in folds.repetitions))


def _evidence(f: PlanInputs) -> list[JsonObject] | None:
    """Return what is known of the systems: by the selection that prepared them, or by the fit; None of neither yet."""
    known = (f.attributes.get(stage, {}).get("evidence") for stage in ("selection", "models"))
    first = next((evidence for evidence in known if evidence is not None), None)
    return None if first is None else [item for item in first if "method" in item]


def _halo(f: PlanInputs) -> float:
    """Return the neighbors that blocks read beside their own points, as a share of these."""
    evidence = _evidence(f)
    if evidence is not None:
        return max((item["blocks"]["halo"] for item in evidence if "blocks" in item), default=0.0)
    return HALO if f.bound == "upper" else 0.0


def _preparing_costs(f: PlanInputs, p: PenaltyParams, systems: SystemSizes) -> dict[str, Cost]:
    """Return those of systems from the points by method: of the one that is used, or of those that may be."""
    solver, evidence = p.laprls.system.solver, _evidence(f)
    if solver in DENSE:
        return {solver: dense_cost(systems, solver)}
    if evidence is not None:
        methods = sorted({item["method"] for item in evidence})
    elif solver != "auto" or systems.inductive:
        methods = [solver if solver != "auto" else "nystrom-direct"]
    else:
        fits = gram_bytes(systems.s, systems.summed_folds, points=True) <= f.budget
        direct, pcg = systems_seconds(systems, "nystrom-direct", HALO), systems_seconds(systems, "nystrom-pcg", 0.0)
        methods = ["nystrom-direct"] if fits else []
        if not fits or pcg < SURE * direct:
            methods.append("nystrom-pcg")
    guesses = (*["solver"] * (evidence is None and "nystrom-pcg" in methods and solver == "auto"),
               *["neighbors beyond blocks"] * (evidence is None))
    return {method: nystrom_cost(systems, method, _halo(f)).guessing(*guesses) for method in methods}


def _fewest(costs: dict[str, Cost]) -> str:
    """Return the method that takes the fewest seconds, which is the one that is chosen."""
    return min(costs, key=lambda method: costs[method].seconds)


def _of_method(f: PlanInputs, costs: dict[str, Cost], method: str) -> Cost:
    """Return what a method takes, with the memory of whichever it will be."""
    bound = f.one_of(costs.values(), "solver")
    return replace(costs[method], peak=bound.peak, smallest_peak=bound.smallest_peak, guesses=bound.guesses)


@_guesses_landmarks
def _selection_cost(f: PlanInputs, p: PenaltyParams) -> Cost:
    costs = _preparing_costs(f, p, _systems(f, p)) if _n_held_out_systems(f, p) else {"none": cost_of(0, 0, 0, 0)}
    cost = _of_method(f, costs, _fewest(costs))
    params = p.laprls
    if not (params.chosen and params.uses_graph and f.n_labeled <= MAX_LABELS):
        return cost
    if not fits_a_task(f.vertices, f.nnz, f.budget):
        return cost
    return cost + concentration_cost(f.vertices, f.nnz)


@_guesses_landmarks
def _models_cost(f: PlanInputs, p: PenaltyParams) -> Cost:
    """Return that of systems from the points; or, where a selection kept their Gram matrices, or will, from these."""
    of, fits = _systems(f, p), _fits(f, p)
    whole = replace(of, held_out_systems=1, folds=1, repetitions=1, pairs=of.pairs + FOLDS, kernels=fits.kernels,
                    fits=fits, params=replace(of.params, held_out_points="transductive"))
    costs = _preparing_costs(f, p, whole)
    if any(f.attributes["selection"].get("kept", [])) if "selection" in f.attributes else of.held_out_systems:
        costs |= {"nystrom-direct": restored_cost(whole, fits, f.n_labeled)} if "nystrom-direct" in costs else {}
    unknown = of.held_out_systems and "selection" not in f.attributes
    return _of_method(f, costs, _fewest(_preparing_costs(f, p, of) if unknown else costs))


@_guesses_landmarks
def _scores_cost(f: PlanInputs, p: PenaltyParams) -> Cost:
    return cost_of_test_points(f, p.kernels.for_costs(), _n_points(f, p), len(p.baselines) + 1, f.n_outputs,
                               8 if f.is_regression else 16)


REPORT_TEXT = ReportText(
    model="Least squares on the labels, with penalties on the norm and on how much the function varies along the "
          "graph.", changed="penalty that merely smooths", cause="added penalty", graph="model.gamma_I",
    norm="model.gamma_A", penalties=("gamma_A", "gamma_I"))
BASELINES = (BASE, Baseline(
    "shuffled", "The control: the model with the mean of the graph energy over all relabelings of the points. This "
                "penalty is as strong, but holds no information about where the points lie. A real gain must also "
                "beat this control."))
_FEWER = "use fewer landmarks: model.landmarks.n_landmarks; or model.solver auto, if the one given takes all points"
STEPS = (
    Step("landmarks", 4, ("points", "vertices", "labels"), ChoiceOfLandmarks.of, make_landmarks, _landmarks_cost,
         _FEWER),
    Step("selection", 21, ("points", "labels", "vertices", "neighbors", "graph", "landmarks"), lambda p: p,
         make_selection, _selection_cost, _FEWER, intermediate=True,
         section=partial(selection_section, report_text=REPORT_TEXT), leads=True),
    Step("models", 21, ("points", "labels", "vertices", "neighbors", "graph", "landmarks", "selection"), lambda p: p,
         make_models, _models_cost, _FEWER, section=laprls_section))
LAPRLS = Method("laprls", ("classification", "regression"), STEPS, _scores_cost, REPORT_TEXT, BASELINES,
                LapRLSSections, has_graph=True, uses_graph=lambda params: params.laprls.uses_graph,
                evaluator=PenaltyEvaluator.of)
LAPSVM = replace(LAPRLS, name="lapsvm", tasks=("classification",), sections=LapSVMSections, report_text=replace(
    REPORT_TEXT, model="A support vector machine on the labels, with penalties on the norm and on how much the "
                       "function varies along the graph."))
