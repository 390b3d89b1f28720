"""The kind `laprls`: Laplacian regularized least squares on landmarks.

    model     Laplacian regularized least squares on the landmarks
    base      the same without the graph, gamma_I = 0, with its own gamma_A, on the same landmarks
    shuffled  the model with the mean of the graph's energy over all relabelings of its vertices
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...execution.cost import Cost, cost_of
from ...kernels.base import BaseKernels, Kernel
from ...kernels.landmarks import landmark_count, landmarks_cost
from ...learners.class_prior import LABELS as LABEL_FREQUENCIES
from ...learners.laprls.chosen import MOST_LABELS
from ...learners.laprls.cost import Systems, dense_cost, nystrom_cost, restored_cost, systems_seconds
from ...learners.laprls.params import SystemParams
from ...learners.laprls.penalties import Penalties
from ...learners.laprls.problem import (
    DENSE,
    WITHOUT_LANDMARKS,
    FittedLapRLS,
    LapRLSParams,
    LapRLSProblem,
    PreparedLapRLS,
    landmarks_of,
)
from ...learners.laprls.products import gram_bytes
from ...learners.losses import SQUARES
from ...learners.probabilities import calibration_attributes
from ...learners.structure import fits_a_task, structure_cost
from ...learners.target.target import Target
from ...methods.step import Context
from ...report.sections.laprls import laprls_section
from ...report.sections.selection import selection_section
from ...report.words import BASE, Baseline, Words
from ...selection.by_labels import LabelFolds, by_labels, most_repetitions, with_prior
from ...selection.calibration import FOLDS
from ...selection.chosen import chosen_folds
from ...selection.held_out_scores import HeldOut
from ...selection.laprls import VERSIONS
from ...storage.blocks import PartWriter
from ...storage.views import SelectedRows
from ..dataset import DATASET
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES
from ..plan.facts import Facts
from ..points import LABELS, POINTS
from ..predict.stage import predictions_with
from ..sample import SAMPLE_OF_GRAPH
from ..scoring import SCORES, scores_cost
from ..split import SPLIT
from ..stage import Kind, Stage
from .laprls_search import FitParams, blocks_in, kernels_of, landmarks_for, make_selection
from .laprls_spec import LapRLSPipeline
from .specs import SPECS

SURE = 20  # times the seconds of Gram matrices: iterations that take more are not chosen, whatever is found yet
HALO = 3.0  # of unknown blocks: in few dimensions less than 1; 2.8 for the 123 features of a9a


@dataclass(frozen=True)
class ChoiceOfLandmarks:
    """How landmarks are chosen, None where the solver takes all points; the kernels where they measure leverage."""

    landmarks: LapRLSParams
    kernels: BaseKernels | None

    @classmethod
    def of(cls, spec: LapRLSPipeline) -> "ChoiceOfLandmarks":
        own = spec.laprls()
        bare = LapRLSParams(landmarks=own.landmarks, budget=own.budget, system=SystemParams(
            solver=own.system.solver if own.system.solver in DENSE else "auto"))
        return cls(bare, kernels_of(spec) if own.landmarks.method == "leverage" else None)


def make_landmarks(context: Context, params: ChoiceOfLandmarks) -> dict[str, Any]:
    """Choose the landmarks among the distinct training points; by leverage, those of each bandwidth."""
    vertices, points = context.vertex_rows(), context.points("train")
    rows = vertices.distinct(points)
    labeled = np.unique(vertices.vertex_of(context.arrays("labels")["labeled"]))
    # The other methods do not ask a kernel.
    kernels: list[Any] = [None] if params.kernels is None else params.kernels.on(points)
    found = [landmarks_of(rows, kernel, params.landmarks, labeled, context.execution) for kernel in kernels]
    for index, chosen in enumerate(found):
        if chosen is not None:
            PartWriter(context.parts, index).write(**chosen.to_arrays())
    return {"landmarks": [{"count": chosen.points.shape[0], **chosen.attributes} for chosen in found if chosen]}


def make_models(context: Context, params: FitParams) -> dict[str, Any]:
    """Fit the model and its baselines with the parameters that were chosen."""
    target, kernels = context.target(params.prior), params.kernels.on(context.points("train"))
    selection, problem = context.attributes("selection"), params.problem(context, target)
    systems: dict[int, dict[str, Penalties]] = {}
    for name, choice in selection["choices"].items():
        system = next(system for system in problem.allowed["model" if name == "shuffled" else name]
                      if (system.gamma_A, system.gamma_I) == (choice["gamma_A"], choice["gamma_I"]))
        systems.setdefault(params.number(choice), {})[name] = replace(system, control=name == "shuffled")
    arrays: dict[str, np.ndarray] = {}
    models: dict[str, Any] = {}
    evidence: list[dict[str, Any]] = []
    folds, weight = None, target.label_weights(params.weight)
    left_out, of_model = dict[str, list[HeldOut]](), list[HeldOut]()
    for number, own in systems.items():
        prepared = _prepared(context, params.of_number(problem, number), kernels[params.kernel(number)], number, params)
        found = prepared.fitted(own)
        folds = folds or LabelFolds.of(target, a_fit_each=not prepared.solver.at_once, curve=prepared.solver.at_once)
        evidence.append({**params.named(number), **found.evidence, "models": list(own)})
        for name in own:
            judged = name in ("model", "base")
            # A control is moved as the model is.
            held = _left_out(prepared, own[name], folds, weight) if judged else of_model
            model, calibration, moved = with_prior(found.models[name], target, held)
            if judged:
                left_out[name] = moved
            if name == "model":
                of_model = held
            probable = calibration_attributes(calibration) if name == "model" else {}
            described, models[name] = _described(context, target, replace(found, models={name: model}), name,
                                                 params.named(number), probable)
            arrays |= {f"{name}.{key}": array for key, array in described.items()}
    PartWriter(context.parts, 0).write(**arrays)
    blocks_in(context).remove()
    assert folds is not None  # there is a model
    return {"models": {name: models[name] for name in problem.names}, "evidence": evidence,
            "by_labels": by_labels(target, folds, {name: own for name, own in left_out.items() if own})}


def _prepared(context: Context, problem: LapRLSProblem, kernel: Kernel, number: int,
              params: FitParams) -> PreparedLapRLS:
    """Return the systems of a kernel: from the Gram matrices that the selection kept, or by the method it used."""
    selection, landmarks = context.attributes("selection"), landmarks_for(context, params.kernel(number))
    kept = selection["kept"][number] if selection["folds"] else None
    if kept is not None:
        assert landmarks is not None  # Gram matrices are of landmarks
        stored = context.inputs["selection"].parts.within(f"gram{number}").read(0)
        return problem.restored(kernel, context.execution, landmarks.points, stored, kept)
    if selection["folds"]:
        system = replace(problem.params.system, solver=selection["evidence"][number]["method"])
        problem = replace(problem, params=replace(problem.params, system=system))
    shares = context.parts.within(f"shares{number}")
    prepared = problem.prepared(kernel, context.execution, held_out=False, parts=shares, landmarks=landmarks)
    shares.remove()
    return prepared


def _left_out(prepared: PreparedLapRLS, pair: Penalties, folds: LabelFolds,
              weight: np.ndarray | None) -> list[HeldOut]:
    """Return the values at labels held out; none where that does not fit the memory budget."""
    target = prepared.problem.target
    return [] if prepared.solver.left_out is None else [
        HeldOut(target, target.coding, prepared.left_out(pair, own), own, weight) for own in folds.repetitions]


def _described(context: Context, target: Target, found: FittedLapRLS, name: str, named: dict[str, Any],
               probable: dict[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and attributes of a model."""
    system, model = found.chosen[name], found.models[name]
    values = model.values(SelectedRows(context.points("train"), target.labeled), context.execution)
    return replace(model, attributes={
        "name": name, "n_labeled": len(target.labeled), "parameters": {
            "gamma_A": system.gamma_A, "gamma_I": system.gamma_I, **named},
        **target.missed(values, model.coding), **probable}).to_arrays()


def _n_landmarks(f: Facts[LapRLSPipeline]) -> int:
    """Return the number of landmarks; 0 for the methods that take all points."""
    if "landmarks" in f.attributes:
        return max((item["count"] for item in f.attributes["landmarks"]["landmarks"]), default=0)
    params = f.spec.laprls()
    if f.spec.model.solver in WITHOUT_LANDMARKS:
        return 0
    f.estimated.add("landmarks")
    given = params.landmarks.n_landmarks
    if isinstance(given, int):  # is meant, however few distinct rows the file may turn out to have
        return min(given, replace(f, bound="most").vertices)
    return landmark_count(params.landmarks, min(f.n_labeled, f.vertices), f.vertices,
                          params.most_landmarks(f.vertices, f.row_bytes))


def _n_points(f: Facts[LapRLSPipeline]) -> int:
    """Return the points of a model: the landmarks, or all distinct points."""
    return f.vertices if f.spec.model.solver in DENSE else _n_landmarks(f)


def _landmarks_cost(f: Facts[LapRLSPipeline]) -> Cost:
    own, solver = f.spec.model.landmarks, f.spec.model.solver
    return landmarks_cost("uniform" if solver in DENSE else own.method, f.n, f.vertices, _n_landmarks(f), f.row_bytes,
                          f.width, len(f.spec.kernels()), f.budget)


def _tried(f: Facts[LapRLSPipeline]) -> tuple[int, int]:
    """Return the pairs of penalties with those of the base model, and the systems that cross-validation solves."""
    params, chosen = f.spec.laprls(), f.spec.selection
    tried = params.n_pairs + (0 if 0.0 in params.gamma_I else len(params.gamma_A))
    several = params.n_pairs > 1 or len(f.spec.kernels()) * len(f.spec.losses()) > 1
    told = params.chosen and f.n_labeled > f.n_outputs  # with a label of each class left when one is held out
    return tried, tried * _n_folds(f) if several and (chosen or told) else 0


def _n_folds(f: Facts[LapRLSPipeline]) -> int:
    """Return the number of folds of a repetition; 0 where nothing is chosen."""
    params, chosen = f.spec.laprls(), f.spec.selection
    if chosen:
        return chosen.cv().count(f.n_labeled)
    return chosen_folds(params.system, f.n_labeled, 0).count(f.n_labeled) if params.chosen else 0


def _systems(f: Facts[LapRLSPipeline]) -> Systems:
    """Return what the costs of the systems follow from."""
    params, (tried, held) = f.spec.laprls(), _tried(f)
    columns = 1 if f.n_outputs == 2 else f.n_outputs  # two classes have one
    written = (len(f.spec.baselines) + 1) * _n_points(f) * (f.row_bytes + 8 * f.n_outputs)
    return Systems(v=f.vertices, m=f.n_labeled, nnz=f.nnz, s=_n_landmarks(f), row_bytes=f.row_bytes, columns=columns,
                   folds=_n_folds(f) + 1, pairs=tried + params.n_pairs, held=held,
                   kernels=len(f.spec.kernels()) * len(f.spec.losses()), written=written, params=params.system,
                   budget=f.budget,
                   smooth=params.loss != SQUARES,
                   repetitions=f.spec.selection.repetitions if f.spec.selection else 1)


def _evidence(f: Facts[LapRLSPipeline]) -> list[dict[str, Any]] | None:
    """Return what is known of the systems: by the selection that prepared them, or by the fit; None of neither yet."""
    known = (f.attributes.get(stage, {}).get("evidence") for stage in ("selection", "models"))
    found = next((evidence for evidence in known if evidence is not None), None)
    return None if found is None else [item for item in found if "method" in item]


def _halo(f: Facts[LapRLSPipeline]) -> float:
    """Return the neighbors that blocks read beside their own points, as a share of these."""
    found = _evidence(f)
    if found is not None:
        return max((item["blocks"]["halo"] for item in found or () if "blocks" in item), default=0.0)
    f.estimated.add("neighbors beyond blocks")
    return HALO if f.bound == "most" else 0.0


def _preparing_costs(f: Facts[LapRLSPipeline], systems: Systems) -> dict[str, Cost]:
    """Return those of systems from the points by method: of the one that is used, or of those that may be."""
    solver, found = f.spec.model.solver, _evidence(f)
    if solver in DENSE:
        return {solver: dense_cost(systems, solver)}
    if found is not None:
        methods = sorted({item["method"] for item in found})
    elif solver != "auto" or systems.inductive:
        methods = [solver if solver != "auto" else "nystrom-direct"]
    else:
        fits = gram_bytes(systems.s, systems.summed_folds, points=True) <= f.budget
        direct, pcg = systems_seconds(systems, "nystrom-direct", HALO), systems_seconds(systems, "nystrom-pcg", 0.0)
        methods = ["nystrom-direct"] if fits else []
        if not fits or pcg < SURE * direct:
            f.estimated.add("solver")
            methods.append("nystrom-pcg")
    return {method: nystrom_cost(systems, method, _halo(f)) for method in methods}


def _fewest(costs: dict[str, Cost]) -> str:
    """Return the method that takes the fewest seconds, which is the one that is chosen."""
    return min(costs, key=lambda method: costs[method].seconds)


def _of_method(f: Facts[LapRLSPipeline], costs: dict[str, Cost], method: str) -> Cost:
    """Return what a method takes, with the memory of whichever it will be."""
    bound = f.one_of(costs.values())
    return replace(costs[method], peak=bound.peak, least=bound.least)


def _selection_cost(f: Facts[LapRLSPipeline]) -> Cost:
    costs = _preparing_costs(f, _systems(f)) if _tried(f)[1] else {"none": cost_of(0, 0, 0, 0)}
    found = _of_method(f, costs, _fewest(costs))
    params = f.spec.laprls()
    if not (params.chosen and params.uses_graph and f.n_labeled <= MOST_LABELS):
        return found
    if not fits_a_task(f.vertices, f.nnz, f.budget):
        return found
    structure = structure_cost(f.vertices, f.nnz)
    return Cost(found.tasks + structure.tasks, found.read + structure.read, found.written,
                max(found.peak, structure.peak), max(found.least, structure.least), found.seconds + structure.seconds,
                found.asked + structure.asked)


def _models_cost(f: Facts[LapRLSPipeline]) -> Cost:
    """Return that of systems from the points; or, where a selection kept their Gram matrices, or will, from these."""
    of, n_models = _systems(f), len(f.spec.baselines) + 1
    # Labels are left out of the model and of the base; of all where classes are as frequent as something else says.
    judged = 2 if f.spec.prior == LABEL_FREQUENCIES else n_models
    times = judged * most_repetitions(f.n_labeled)
    own = replace(of, held=1, folds=1, repetitions=1, pairs=of.pairs + FOLDS,
                  params=replace(of.params, held_out_points="transductive"))
    costs = _preparing_costs(f, own)
    if any(f.attributes["selection"].get("kept", [])) if "selection" in f.attributes else of.held:
        kept = restored_cost(own, n_models, f.n_labeled, times)
        costs |= {"nystrom-direct": kept} if "nystrom-direct" in costs else {}
    unknown = of.held and "selection" not in f.attributes
    return _of_method(f, costs, _fewest(_preparing_costs(f, of) if unknown else costs))


def _scores_cost(f: Facts[LapRLSPipeline]) -> Cost:
    return scores_cost(f, _n_points(f), f.n_outputs, 8 if f.is_regression else 16)


WORDS = Words(
    model="Least squares on the labels, with penalties on the norm and on how much the function varies along the "
          "graph.", changed="penalty that merely smooths", cause="added penalty", graph="model.gamma_I",
    norm="model.gamma_A", penalties=("gamma_A", "gamma_I"))
BASELINES = (BASE, Baseline(
    "shuffled", "The control: the model with the mean of the graph's energy over all relabelings of its points, a "
                "penalty as strong that knows nothing about where they lie. A real gain must also beat this one."))
_FEWER = "use fewer landmarks: model.landmarks.n_landmarks; or model.solver auto, if the one given takes all points"
LAPRLS = Kind.of(SPECS["laprls"], (
    DATASET, SPLIT, LABELS, POINTS, VERTICES, NEIGHBORS, GRAPH, HEALTH,
    Stage("landmarks", VERSIONS["landmarks"], ("points", "vertices", "labels"), ChoiceOfLandmarks.of, make_landmarks,
          _landmarks_cost, _FEWER),
    Stage("selection", VERSIONS["selection"],
          ("split", "points", "labels", "vertices", "neighbors", "graph", "landmarks"), FitParams.of, make_selection,
          _selection_cost, _FEWER, intermediate=True, section=partial(selection_section, words=WORDS), leads=True),
    Stage("models", 10, ("split", "points", "labels", "vertices", "neighbors", "graph", "landmarks", "selection"),
          FitParams.of, make_models, _models_cost, _FEWER, section=laprls_section),
    SAMPLE_OF_GRAPH, predictions_with(_scores_cost),
    replace(SCORES, cost=_scores_cost, remedy=_FEWER),
), words=WORDS, baselines=BASELINES)
