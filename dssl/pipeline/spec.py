"""The pipeline file: YAML checked by pydantic, before any work, with the path of what is wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from ..data.ingest import IngestParams
from ..data.scaling import ScalingKind, ScalingParams
from ..errors import DsslError, SpecError, explain
from ..graph.neighbors import NeighborParams
from ..graph.regularizer import RegularizerParams
from ..graph.weights import WeightParams
from ..kernels.base import Kernel, kernel_from
from ..learners.laprls.problem import LapRLSParams
from ..selection.search import GridParams
from ..solvers.solve import SolverParams
from .model_spec import UNUSED, LapRLSSpec, LearnerSpec, ModelSpec, Section, SelectionSpec, check_laprls, key_path
from .plain_yaml import is_file, parse_yaml, require_plain

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"


def ingest_params(options: dict[str, Any], where: str) -> IngestParams:
    """Return the reader's parameters of a mapping; raise SpecError with the names of those that are wrong."""
    known = set(IngestParams.__dataclass_fields__)
    unknown = sorted(set(options) - known)
    if unknown:
        raise SpecError(explain(f"{where}: {', '.join(map(str, unknown))}", why="the readers have no such option",
                                fix=f"the options are {', '.join(sorted(known))}"))
    try:
        return TypeAdapter(IngestParams).validate_python(options)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'options'}: {item['msg']}" for item in error.errors())
        raise SpecError(explain(f"{where}: {wrong}", why="the reader cannot be told so",
                                fix="see the options in IngestParams")) from error


class TestSplit(Section):
    """Which points are kept for testing: a number, a share, or the split that the data set comes with."""

    count: int | None = Field(default=None, ge=1)
    fraction: float | None = Field(default=None, gt=0, lt=1)
    official: bool = False

    @model_validator(mode="after")
    def _one_of_them(self) -> "TestSplit":
        if sum((self.count is not None, self.fraction is not None, self.official)) != 1:
            raise ValueError("set exactly one of count, fraction and official")
        return self


class DataSpec(Section):
    """Where the points come from, which of them are used, and what is to be predicted of them."""

    task: Literal["classification", "regression"] = Field(
        "classification", description="classification reads the target as classes, regression as quantities; without "
                                      "a target (NaN, an empty cell) a point is unlabeled")
    source: str | list[str] = Field(description="a name (see dssl ingest --help), a path, a pattern such as "
                                    "part-*.csv, or a URL; or a list of them")
    read: dict[str, Any] = Field(default_factory=dict, description="options of the reader; see IngestParams")
    keep: list[str | int | float] | None = Field(None, description="classes to keep, such as [4, 9]")
    classes: dict[str | int, list[str | int | float]] | None = Field(None, description="joined classes by name")
    unlabeled: str | int | float | None = Field(None, description="the marker of unlabeled points")
    rows: Literal["all", "official_train"] = Field("all", description="which rows of the source are used: all, or the "
                                                   "training rows of the split that it comes with")
    points: int | None = Field(None, ge=2, description="labeled and unlabeled points used; all but the test points")
    test: TestSplit = TestSplit(fraction=0.2)
    scale: ScalingKind = "standardize"
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _rows_can_be_tested(self) -> "DataSpec":
        if self.rows == "official_train" and self.test.official:
            raise ValueError("rows: official_train leaves the official test rows out; set test.count or test.fraction")
        return self

    def ingest_params(self) -> IngestParams:
        """Return the reader's parameters."""
        return ingest_params(self.read, "data.read")


class LabelSpec(Section):
    """How many labels the method is shown."""

    count: int | None = Field(None, ge=1)
    per_class: int | None = Field(None, ge=1)
    fraction: float | None = Field(None, gt=0, le=1)
    given: bool = Field(False, description="show every label that the training points have")
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _one_of_them(self) -> "LabelSpec":
        if sum((self.count is not None, self.per_class is not None, self.fraction is not None, self.given)) != 1:
            raise ValueError("set exactly one of count, per_class, fraction and given")
        return self


class GivenGraph(Section):
    """A graph from a file, over all rows of the source in order, in place of the one made of the points."""

    weights: str | None = Field(None, description="scipy.sparse.save_npz of symmetric weights (n, n); the search and "
                                                  "the weighting are then ignored")
    neighbors: str | None = Field(None, description="npz of ids and distances, both (n, k), with or without each row's "
                                                    "own id; the search is then ignored, n_neighbors with it")

    @model_validator(mode="after")
    def _one_of_them(self) -> "GivenGraph":
        if (self.weights is None) == (self.neighbors is None):
            raise ValueError("set exactly one of weights and neighbors")
        return self

    @property
    def kind(self) -> Literal["weights", "neighbors"]:
        """Return which of the two it is."""
        return "neighbors" if self.weights is None else "weights"

    @property
    def path(self) -> str:
        """Return the file's path or URL."""
        return str(self.neighbors if self.weights is None else self.weights)


class GraphSpec(Section):
    """The neighbor graph of all training points, and the regularizer Q = R^power it makes."""

    duplicates: Literal["collapse", "keep"] = Field(
        default="collapse", description="collapse makes equal rows one vertex that counts as many points; keep makes "
                                        "one vertex a row")
    given: GivenGraph | None = Field(default=None, description="a graph from a file; equal rows are then kept apart")
    n_neighbors: int = 10
    method: Literal["auto", "exact", "descent"] = "auto"
    metric: Literal["euclidean", "cosine"] = "euclidean"
    weights: Literal["binary", "heat", "self_tuned"] = "self_tuned"
    bandwidth: float | None = None
    symmetrize: Literal["maximum", "minimum", "mean"] = "maximum"
    laplacian: Literal["normalized", "unnormalized"] = "normalized"
    ridge: float = 0.01
    power: int = 2
    seed: int = 0

    def neighbors(self) -> NeighborParams:
        """Return the search's parameters."""
        return NeighborParams(n_neighbors=self.n_neighbors, method=self.method, metric=self.metric, seed=self.seed)

    def weighting(self) -> WeightParams:
        """Return the weights' parameters."""
        return WeightParams(kind=self.weights, bandwidth=self.bandwidth, symmetrize=self.symmetrize)

    def regularizer(self) -> RegularizerParams:
        """Return the regularizer's parameters."""
        return RegularizerParams(laplacian=self.laplacian, ridge=self.ridge, power=self.power)


class SubsampleSpec(Section):
    """The points at which functions are measured: the labeled ones, as many as fit, and a random draw of the others."""

    size: int = Field(default=1000, ge=1)
    seed: int = Field(default=0, ge=0)


class SolverSpec(Section):
    """How the columns of the subsample are solved."""

    method: Literal["auto", "jacobi", "deflated", "amg", "direct"] = "auto"
    tolerance: float = 1e-6
    max_iterations: int = 3000
    block_columns: int = 64
    form: Literal["energy", "restriction"] = "energy"

    def params(self) -> SolverParams:
        """Return the solver's parameters."""
        return SolverParams(method=self.method, tolerance=self.tolerance, max_iterations=self.max_iterations,
                            block_columns=self.block_columns)


class KernelSpec(Section):
    """The base kernel, on the scaled features."""

    name: Literal["rbf", "laplacian", "linear", "polynomial", "cosine"] = "rbf"
    bandwidth: float | str | None = None
    parameters: dict[str, int | float] = Field(default_factory=dict, description="other parameters, such as degree")

    def check(self) -> Kernel:
        """Return the kernel with these parameters; two points stand in for the data that give a median its value."""
        parameters: dict[str, Any] = dict(self.parameters)
        return kernel_from(self.name, self.bandwidth, rows=np.array([[0.0], [1.0]]), **parameters)


class Spec(Section):
    """A whole pipeline: what to compute, never where."""

    name: str = Field(pattern=NAME)
    data: DataSpec
    labels: LabelSpec
    graph: GraphSpec = GraphSpec()
    subsample: SubsampleSpec = SubsampleSpec()
    solver: SolverSpec = SolverSpec()
    kernel: KernelSpec = KernelSpec()
    model: ModelSpec = LearnerSpec()
    selection: SelectionSpec | None = None
    baselines: list[Literal["base", "shuffled", "budget"]] = ["base", "shuffled"]  # noqa: RUF012  (frozen)

    @model_validator(mode="after")
    def _parts_agree(self) -> "Spec":
        if not {"base", "shuffled"} <= set(self.baselines):
            more = "" if self.model.kind == "laprls" else "; budget may be added"
            raise ValueError(f"baselines always holds base and shuffled{more}")
        if len(set(self.baselines)) < len(self.baselines):
            raise ValueError("baselines names one twice")
        if "budget" in self.baselines and self.subsample.size < 2:
            raise ValueError("the budget baseline is a graph of the subsample: subsample.size is at least 2 then")
        return self

    @property
    def learner(self) -> LearnerSpec:
        """Return the model of the kinds svm and ridge."""
        assert isinstance(self.model, LearnerSpec)
        return self.model

    @property
    def laprls(self) -> LapRLSSpec:
        """Return the model of the kind laprls."""
        assert isinstance(self.model, LapRLSSpec)
        return self.model

    def laprls_params(self) -> LapRLSParams:
        """Return the parameters of the kind laprls, with the grid of the selection."""
        return self.laprls.params(self.graph.laplacian, self.selection)

    def grid(self) -> GridParams | None:
        """Return the grid of the selection of the kinds svm and ridge, or None where there is none."""
        chosen, model = self.selection, self.learner
        if chosen is None:
            return None
        return GridParams(power=tuple(chosen.power or [self.graph.power]), eta=tuple(chosen.eta or [model.eta]),
                          C=tuple(chosen.C or [model.C]), folds=chosen.folds, seed=chosen.seed)

    def record(self) -> dict[str, Any]:
        """Return the spec with every default, without what its kind of model has no use for."""
        return self.model_dump(exclude=UNUSED if self.model.kind == "laprls" else None)

    @property
    def powers(self) -> tuple[int, ...]:
        """The powers of the regularizer that are solved for, ascending."""
        grid = self.grid()
        return tuple(sorted(grid.power)) if grid else (self.graph.power,)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the base kernel with each bandwidth of the selection."""
        chosen = self.selection.bandwidth if self.selection else None
        if not chosen:
            return (self.kernel,)
        if self.kernel.name not in ("rbf", "laplacian"):
            raise SpecError(explain(f"selection.bandwidth={chosen}, and kernel.name is {self.kernel.name}",
                                    why="that kernel has no bandwidth", fix="leave selection.bandwidth out"))
        return tuple(self.kernel.model_copy(update={"bandwidth": bandwidth}) for bandwidth in chosen)

    def _check_task(self) -> None:
        """Raise SpecError where a section asks a regression for classes."""
        if self.data.task != "regression":
            return
        for name, value in (("data.keep", self.data.keep), ("data.classes", self.data.classes),
                            ("labels.per_class", self.labels.per_class)):
            if value is not None:
                raise SpecError(explain(f"{name}={value}, and data.task is regression",
                                        why="quantities have no classes", fix="leave it out"
                                        if name != "labels.per_class" else "set labels.count or labels.fraction"))
        if isinstance(self.data.unlabeled, str):
            raise SpecError(explain(f"data.unlabeled={self.data.unlabeled!r}, and data.task is regression",
                                    why="a quantity is a number, so its marker is one",
                                    fix="name a number; empty cells and NaN are unlabeled anyway"))
        if self.model.kind == "svm":
            raise SpecError(explain("model.kind is svm, and data.task is regression",
                                    why="a support vector machine tells classes apart",
                                    fix="set model.kind to ridge or laprls"))

    def check(self) -> "Spec":
        """Return self after every section has made its parameters, which checks their values."""
        self._check_task()
        if self.selection is not None:
            self.selection.check(self.model.kind)
        own: tuple[tuple[str, Callable[[], Any]], ...]
        if self.model.kind == "laprls":
            check_laprls(self.model_fields_set, self.graph.model_fields_set, self.baselines)
            own = (("model", self.laprls_params),)
        else:
            own = (("model", self.learner.params), ("selection", self.grid))
        sections: tuple[tuple[str, Callable[[], Any]], ...] = (
            ("data.read", self.data.ingest_params), ("data.scale", lambda: ScalingParams(kind=self.data.scale)),
            ("graph", self.graph.neighbors), ("graph", self.graph.weighting), ("graph", self.graph.regularizer),
            ("solver", self.solver.params), ("kernel", self.kernel.check), *own,
            ("selection", lambda: [kernel.check() for kernel in self.kernels()]))
        for section, make in sections:
            try:
                make()
            except SpecError:
                raise
            except DsslError as error:
                raise SpecError(f"{section}: {error}") from error
        return self


def load_spec(source: str | Path | dict[str, Any], overrides: tuple[str, ...] | list[str] = ()) -> Spec:
    """Return the checked spec of a YAML file or a mapping, with `a.b=value` overrides applied.

    Raises
    ------
    SpecError : the file cannot be read or is not YAML, a key is unknown, a value is out of range. The message gives
        the path of each.
    """
    if isinstance(source, dict):
        origin, fields = "the spec", source
    else:
        origin, path = str(source), Path(source)
        if not is_file(path):
            near = sorted(str(p) for p in path.parent.glob("*.y*ml"))[:8] if path.parent.is_dir() else []
            raise SpecError(explain(f"there is no file {source}", why="the pipeline is read from it",
                                    fix=f"name one of: {', '.join(near)}" if near else "check the path"))
        try:
            fields = parse_yaml(path.read_text(encoding="utf-8"), origin)
        except UnicodeDecodeError as error:
            raise SpecError(explain(f"{origin} is not text: {error}", why="a spec is a YAML file in UTF-8",
                                    fix="name the YAML file")) from error
    if not isinstance(fields, dict):
        raise SpecError(explain(f"{origin} holds {type(fields).__name__}, expected a mapping",
                                why="a spec has sections: name, data, labels, graph, ...",
                                fix="see pipelines/quickstart.yaml"))
    require_plain(fields, origin)
    fields = _overridden(fields, overrides)
    require_plain(fields, origin)
    try:
        spec = Spec.model_validate(fields)
    except ValidationError as error:
        lines = [f"  {key_path(item['loc']) or 'spec'}: {_message(item)}"
                 + (f" (given: {item['input']!r})" if item["type"] != "missing" and _short(item["input"]) else "")
                 for item in error.errors()]
        raise SpecError(explain(f"{origin} is not a valid spec:\n" + "\n".join(lines),
                                why="a run starts only from a spec that is understood whole",
                                fix="correct these keys; `dssl schema` prints all keys with their meaning")) from error
    return spec.check()


def _message(item: Any) -> str:
    """Return what pydantic says; of a kind of model, that of all kinds."""
    wrong_kind = item["type"] == "literal_error" and key_path(item["loc"]) == "model.kind"
    return "Input should be 'svm', 'ridge' or 'laprls'" if wrong_kind else item["msg"]


def _short(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool)) and len(str(value)) < 80


def _overridden(fields: dict[str, Any], overrides: tuple[str, ...] | list[str]) -> dict[str, Any]:
    """Return a copy of the fields with each `a.b=value` set; values are YAML."""
    result = _copied(fields)
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = path.split(".")
        if not equals or not all(keys):
            raise SpecError(explain(f"--set {override!r} is not of the form key.key=value",
                                    why="it names one value of the spec", fix="for example --set model.eta=100"))
        place = result
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise SpecError(explain(f"--set {override!r}: {key!r} is a value, not a section",
                                        why="only sections hold keys", fix="name a key of a section"))
        place[keys[-1]] = parse_yaml(text, f"--set {override}")
    return result


def _copied(value: Any) -> Any:
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, dict) else value
