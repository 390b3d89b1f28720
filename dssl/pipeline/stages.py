"""The stages of a pipeline as a table: what each depends on, and the function that makes its artifact.

Each function reads the artifacts it needs, writes parts through the execution, and returns JSON attributes. The
formulas are elsewhere; here data get their names.
"""

from collections.abc import Iterable
from typing import Any

from ..data.readers import format_of
from ..data.sources import Source, find_source, fingerprint
from ..params import digest
from .context import Stage
from .covariances import make_columns, make_covariance, make_subsample, make_system, regularizer_columns
from .graphs import graph_params, make_graph, make_health, make_neighbors, make_vertices, vertices_params
from .laprls import landmark_params, laprls_params, make_landmarks, make_laprls
from .points import make_dataset, make_labels, make_points, make_split
from .scoring import make_scores
from .spec import Spec
from .training import make_models, make_selection


def _regularizer(spec: Spec) -> dict[str, Any]:
    return {"laplacian": spec.graph.laplacian, "ridge": spec.graph.ridge}


def _split_params(spec: Spec) -> dict[str, Any]:
    data = spec.data.model_dump(include={"keep", "unlabeled", "points", "test", "seed"})
    # As pairs: the keys of a JSON mapping are text, and the classes 1 and "1" are not the same.
    classes = None if spec.data.classes is None else [[name, members] for name, members in spec.data.classes.items()]
    task = {"task": spec.data.task} if spec.data.task != "classification" else {}
    rows = {"rows": spec.data.rows} if spec.data.rows != "all" else {}
    return {**data, "classes": classes, **task, **rows}


def _system_params(spec: Spec) -> dict[str, Any]:
    # The number of columns decides how much preparation pays; the powers only through it.
    return {**_regularizer(spec), "n_columns": regularizer_columns(spec),
            **spec.solver.model_dump(include={"method", "tolerance", "max_iterations"})}


def _columns_params(spec: Spec) -> dict[str, Any]:
    return {"powers": spec.powers, **spec.solver.model_dump(include={"block_columns", "form"})}


def _training_params(spec: Spec) -> dict[str, Any]:
    budget = {"graph": spec.graph.model_dump(exclude={"duplicates", "given"})} if "budget" in spec.baselines else {}
    return {"kernel": spec.kernel.model_dump(include={"name", "parameters"}), "kind": spec.model.kind,
            "baselines": list(spec.baselines), "seed": spec.subsample.seed, **budget}


def _selection_params(spec: Spec) -> dict[str, Any]:
    grid = spec.grid()
    if grid is None:
        return {"power": spec.graph.power, "eta": spec.learner.eta, "C": spec.learner.C,
                "bandwidth": spec.kernel.bandwidth, "baselines": list(spec.baselines)}
    return {**_training_params(spec), "grid": grid, "bandwidths": [kernel.bandwidth for kernel in spec.kernels()]}


# Of the points and of their graph: what every kind of model begins with.
SHARED: tuple[Stage, ...] = (
    Stage("dataset", 2, (), lambda spec: {"read": spec.data.read}, make_dataset),
    Stage("split", 1, ("dataset",), _split_params, make_split),
    Stage("labels", 1, ("split",), lambda spec: spec.labels.model_dump(), make_labels),
    Stage("points", 1, ("dataset", "split"), lambda spec: {"scale": spec.data.scale}, make_points),
    Stage("vertices", 1, ("points",), vertices_params, make_vertices),
    Stage("neighbors", 2, ("dataset", "split", "points", "vertices"),
          graph_params("n_neighbors", "method", "metric", "seed", given="neighbors"), make_neighbors),
    Stage("graph", 2, ("dataset", "split", "neighbors"),
          graph_params("weights", "bandwidth", "symmetrize", given="weights"), make_graph),
    Stage("health", 2, ("split", "vertices", "neighbors", "graph", "labels"), lambda spec: {}, make_health),
)
SCORES = Stage("scores", 2, ("split", "points", "models"), lambda spec: {}, make_scores)

STAGES: tuple[Stage, ...] = (
    *SHARED,
    Stage("subsample", 2, ("labels", "vertices"), lambda spec: spec.subsample.model_dump(), make_subsample),
    Stage("system", 2, ("vertices", "graph"), _system_params, make_system),
    Stage("columns", 2, ("system", "subsample"), _columns_params, make_columns),
    Stage("covariance", 3, ("vertices", "system", "subsample", "columns"), lambda spec: {"powers": spec.powers},
          make_covariance),
    Stage("selection", 1, ("points", "labels", "subsample", "covariance"), _selection_params, make_selection),
    Stage("models", 2, ("split", "points", "labels", "subsample", "covariance", "selection"), _training_params,
          make_models),
    SCORES,
)

LAPRLS: tuple[Stage, ...] = (
    *SHARED,
    Stage("landmarks", 1, ("points", "vertices", "labels"), landmark_params, make_landmarks),
    Stage("models", 1, ("split", "points", "labels", "vertices", "graph", "landmarks"), laprls_params, make_laprls),
    SCORES,
)

# By `model.kind`.
TABLES: dict[str, tuple[Stage, ...]] = {"svm": STAGES, "ridge": STAGES, "laprls": LAPRLS}


def stages_of(spec: Spec) -> tuple[Stage, ...]:
    """Return the stages of a spec in the order in which they run."""
    return TABLES[spec.model.kind]


def stage_names(stages: Iterable[Stage]) -> list[str]:
    """Return the names of stages in the order in which they run."""
    return [stage.name for stage in stages]


def all_stage_names() -> list[str]:
    """Return the names of the stages of all tables, each once."""
    return list(dict.fromkeys(name for table in TABLES.values() for name in stage_names(table)))


def dependents(name: str, stages: Iterable[Stage]) -> set[str]:
    """Return a stage of a table and all that depend on it."""
    found = {name}
    for stage in stages:
        if found & set(stage.needs):
            found.add(stage.name)
    return found


def source_of(spec: Spec) -> tuple[Source, str]:
    """Return the local file of a spec's source, and the digest of its bytes and of the format they are read in."""
    params = spec.data.ingest_params()
    source = find_source(spec.data.source, labels=params.labels, format=params.format)
    return source, digest({"bytes": fingerprint(source), "format": format_of(source.path, params.format)})
