"""The kinds of models by name: those of dssl, and those that are registered, by plugins for instance.

A method runs as a kind in a workspace. The kinds `clustering`, of a graph, and `kernel_clustering`, without one, are
k-means in a kernel, with optional labels: classes, where the data set has them, are what the clusters are compared
with; nothing learns from them.
"""

from dataclasses import replace
from typing import Any, get_type_hints

from ..base.errors import ParameterError, explain, require
from ..execution.cost import Cost
from ..methods.plan_inputs import PlanInputs
from ..methods.step import Method
from ..report.sections.sample import clusters_section
from .dataset import DATASET
from .graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES
from .load import CLUSTERS, METHODS, SPECS, kind_spec_of, spec_of
from .points import LABELS, POINTS, SCALED_POINTS
from .predict.stage import predictions_with
from .sample import sample_with
from .scoring import agreement_with, scores_with, with_scored
from .spec import KindSpec, Spec
from .split import SPLIT
from .stage import Kind, Stage, stages_of


def kind_of_method(method: Method, spec: KindSpec) -> Kind:
    """Return the kind that runs a method by pipeline files of such a spec."""
    def predicted_cost(f: PlanInputs, spec: Spec) -> Cost:
        cost = f.cost_of_tags(lambda of_tag: method.scores_cost(of_tag, spec.params))
        return replace(cost, tasks=cost.tasks // len(f.each_tag()))  # one predicts all tags

    def scores_cost(f: PlanInputs, spec: Spec) -> Cost:
        params, cost = spec.params, predicted_cost(f, spec)
        n_models = 1 + len(params.baselines)
        if spec.data.tags is not None:  # one model after the other
            cost = replace(cost, tasks=n_models * cost.tasks, read=n_models * cost.read)
        return with_scored(cost, f, n_models, asked=getattr(params, "scoring", None) is not None)

    points = SCALED_POINTS if method.data.scaled_by_labels else POINTS
    graph = (VERTICES, NEIGHBORS, GRAPH, HEALTH) if method.has_graph else ()
    return Kind.of(spec, (
        DATASET, SPLIT, LABELS, points, *graph, *stages_of(method, spec.spec),
        sample_with(predicted_cost, method), scores_with(scores_cost, method),
        predictions_with(predicted_cost, method),
    ), report_text=method.report_text, baselines=method.baselines, takes_tags=True)


def _unlabeled(stage: Stage) -> Stage:
    """Return a stage that reads no labels."""
    return replace(stage, needs=tuple(name for name in stage.needs if name != "labels"))


def kind_of_clusters(method: Method) -> Kind:
    """Return the kind that runs a method of clusters."""
    def assigned_cost(f: PlanInputs, spec: Spec) -> Cost:
        return method.scores_cost(f, spec.params)

    graph = (VERTICES, NEIGHBORS, GRAPH, _unlabeled(HEALTH)) if method.has_graph else ()
    spec = SPECS[method.name]
    sample = _unlabeled(sample_with(assigned_cost, method))
    sample = replace(sample, section=None)  # it is in that of the clusters
    return Kind.of(spec, (
        DATASET, SPLIT, POINTS, *graph, *stages_of(method, spec.spec), sample,
        _unlabeled(predictions_with(assigned_cost)), agreement_with(assigned_cost),
    ), report_text=method.report_text, baselines=method.baselines, answer=clusters_section)


KINDS: dict[str, Kind] = {**{method.name: kind_of_method(method, SPECS[method.name]) for method in METHODS},
                          **{method.name: kind_of_clusters(method) for method in CLUSTERS}}


def register_kind(kind: Kind) -> None:
    """Make a kind of model known under its name.

    Raises ParameterError: there is another of that name, a stage needs one that does not come before it, or one that
    makes its parameters of other sections than the spec has.
    """
    require(KINDS.get(kind.name, kind) == kind, f"there is another kind of model named {kind.name!r}",
            why="a spec names its kind", fix="choose another name")
    seen: set[str] = set()
    for stage in kind.stages:
        missing = set(stage.needs) - seen
        if missing or stage.name in seen:
            raise ParameterError(explain(
                f"stage {stage.name} of kind {kind.name} {f'needs {sorted(missing)}' if missing else 'is there twice'}",
                why="stages run in their order", fix="list what a stage needs before it, and each stage once"))
        seen.add(stage.name)
        asked = _spec_of(stage)
        if asked is not None and not issubclass(kind.spec, asked):
            raise ParameterError(explain(
                f"stage {stage.name} of kind {kind.name} makes its parameters of a {asked.__name__}, and the spec is a "
                f"{kind.spec.__name__}", why="it would read sections that no spec of the kind has",
                fix=f"derive {kind.spec.__name__} from {asked.__name__}, or leave the stage out"))
    KINDS[kind.name] = SPECS[kind.name] = kind


def register_method(method: Method) -> None:
    """Make a method known as a kind of model under its name, with the pipeline files that its sections make.

    Raises ParameterError: there is another kind of that name.
    """
    register_kind(kind_of_method(method, spec_of(method)))


def kind_of(fields: dict[str, Any]) -> Kind:
    """Return the kind of model that a mapping names; the default where it names none, or none there is."""
    return KINDS[kind_spec_of(fields).name]


def _spec_of(stage: Stage) -> type | None:
    """Return the class of specs that a stage makes its parameters of; None where it does not say."""
    hints: dict[str, object] = get_type_hints(getattr(stage.params, "__func__", stage.params))
    asked = next((hint for name, hint in hints.items() if name != "return"), None)
    return asked if isinstance(asked, type) else None


def all_stage_names() -> list[str]:
    """Return the names of the stages of all kinds, each once."""
    return list(dict.fromkeys(name for kind in KINDS.values() for name in kind.names))
