"""The pipeline file: the sections that every kind of model has, checked with the path of what is wrong.

Sections are frozen dataclasses, of which pydantic makes instances from YAML; those that say how a method works stand in
`methods.sections`. Each checks its own values when it is made; what one section asks of another is in `mistakes`.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from ..base.digest import require_at_least, require_one_of, require_random_state
from ..base.errors import DataError, DsslError, SpecError, explain, raised, require
from ..base.units import budget_of
from ..data.ingest_params import IngestParams
from ..data.label_files import have_column
from ..data.scaling.scaling import ScalingParams
from ..data.source_files import Source
from ..data.sources import find_source
from ..learners.class_prior import EQUAL, LABELS, ClassPrior, ClassWeight
from ..methods.data_sections import DataSection, LearningTask, SoftLabelSection
from ..methods.sections import GivenGraph, GraphSections, KernelSections, ModelSection, Sections
from .validation import FORBID, adapter_of

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
OF_ONE_LABEL = {  # why a key is not there where a point has several labels
    "data.read.target": "the tags are what is learned",
    "data.grows": "a run with tags reads all rows",
    "data.unlabeled": "an empty cell marks tags that are unknown",
    "selection.grid.graph": "all tags have one graph, and each chooses for itself"}
MAX_PREDICTIONS = 10_000_000  # rows of a source that are all predicted without being asked for


@dataclass(frozen=True, kw_only=True)
class LabelSection:
    """How many labels the method is shown.

    Parameters
    ----------
    count : int or None
        So many in all.
    per_class : int or None
        So many of each class.
    fraction : float or None
        This share of the training points, above 0, at most 1.
    given : bool
        Every label that the training points have.
    file : str, list of str or None
        CSV files with the columns row and label, such as dssl suggest writes: labels of training points, shown beside
        those.
    weight : str or None
        The column of what each label weighs, as sample_weight does in an estimator's fit: of labels.file where that has
        it, else of the source, a table, whose features it is then none of. Weights are finite and >= 0; a label of
        weight 0 is not shown.
    random_state : int
        Of the draw.
    """

    count: int | None = None
    per_class: int | None = None
    fraction: float | None = None
    given: bool = False
    file: str | list[str] | None = None
    weight: str | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        require_at_least(self, 1, "count", "per_class")
        require(self.fraction is None or 0 < self.fraction <= 1, f"fraction={self.fraction}, expected above 0, at most "
                "1", why="it is the share of the training points whose labels are shown", fix="use given: true for all")
        require_random_state(self.random_state)
        require_one_of(self, "count", "per_class", "fraction", "given")

    @cached_property
    def weighs_in_files(self) -> bool:
        """Return whether all files of labels have the column of weights."""
        return self.weight is not None and self.file is not None and have_column(self.paths, self.weight)

    @property
    def source(self) -> Source | None:
        """Return the files of labels; None where there are none."""
        try:
            return None if self.file is None else find_source(self.file, format="csv")
        except DataError as error:
            raise DataError(f"labels.file: {error}") from error

    @property
    def paths(self) -> list[Path]:
        """Return the paths of the files of labels."""
        source = self.source
        return [] if source is None else [file.path for file in source.files]


@dataclass(frozen=True, kw_only=True)
class PredictionsSection:
    """The table of what is predicted of every row of the source, beside the report.

    Parameters
    ----------
    format : "auto", "csv", "parquet", "h5ad" or "none"
        Of predictions_all; auto writes CSV of up to 10,000,000 rows, and says so where there are more and none are
        predicted; csv and parquet predict any number of rows, none leaves it out. h5ad is a copy of the source, an
        .h5ad file, with dssl_label, dssl_probability and dssl_role in obs.
    safe_csv : bool
        Whether text in it that a spreadsheet would take for a formula (it begins with =, +, - or @) gets an apostrophe
        before it.
    """

    format: Literal["auto", "csv", "parquet", "h5ad", "none"] = "auto"
    safe_csv: bool = False

    @property
    def limit(self) -> int | None:
        """Return the number of rows up to which all are predicted; None for any number."""
        return {"none": 0, "auto": MAX_PREDICTIONS}.get(self.format)

    @property
    def ending(self) -> str:
        """Return the format of the file."""
        return self.format if self.format in ("parquet", "h5ad") else "csv"


@dataclass(frozen=True, kw_only=True)
class Spec(Sections):
    """A whole pipeline: what to compute, never where. Each kind of model adds the sections that its stages read.

    Parameters
    ----------
    name : str
        Of the run, in lower case.
    data : DataSection
        Where the points come from.
    labels : LabelSection or None
        How many labels are shown.
    model : ModelSection
        What is fitted.
    predictions : PredictionsSection
        What is written.
    memory_budget : int, str or None
        That a task may take, such as 600MB; null is 1GiB.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    name: str
    data: DataSection
    labels: LabelSection | None = None
    model: ModelSection
    predictions: PredictionsSection = PredictionsSection()
    memory_budget: int | str | None = None

    def __post_init__(self) -> None:
        require(NAME.fullmatch(self.name) is not None, f"name={self.name!r}", error=SpecError,
                why="runs, folders and jobs are named by it", fix="use up to 64 of a-z, 0-9, ., _ and -, a letter or "
                "digit first")
        try:
            _ = self.budget
        except DsslError as error:
            raise SpecError(f"memory_budget: {error}") from error

    @property
    def budget(self) -> int:
        """Return the bytes that a task may take, where nobody says otherwise."""
        return budget_of(self.memory_budget)

    @cached_property
    def read(self) -> IngestParams:
        """Return how the source is read: without the columns that are no features."""
        read = self.data.read if self.data.tags is None else replace(self.data.read, target="none")
        others = [name for names in self.columns_beside.values() for name in names if name not in (read.drop or ())]
        return replace(read, drop=(*(read.drop or ()), *others)) if others else read

    @cached_property
    def columns_beside(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of the source that are no features, by the key that names them."""
        labels, opinion = self.labels, self.model.opinion
        weight = () if labels is None or labels.weight is None or labels.weighs_in_files else (labels.weight,)
        tags = () if self.data.tags is None else self.data.tags.names
        test = self.data.test
        return {"data.tags": tags, "labels.weight": weight,
                "data.test.column": () if test.column is None else (test.column,),
                "data.test.groups": () if test.groups is None else (test.groups,),
                "model.soft_labels.columns": () if opinion is None else opinion.params.columns}

    @property
    def has_label_files(self) -> bool:
        return self.labels is not None and self.labels.file is not None

    @property
    def task(self) -> LearningTask:
        return self.data.task

    @property
    def prior(self) -> ClassPrior:
        """Return how frequent the classes are: as they are given, by size or share, or as labels say.

        Of labels that were drawn so many a class frequencies mean nothing: classes are equally frequent then.

        Raises ParameterError: both sizes and shares are given, or shares of quantities.
        """
        prior = self.model.prior()
        require(prior is None or prior.source == "sizes" or self.task == "classification",
                "model.class_prior, and data.task is regression", why="quantities have no classes", fix="leave it out")
        if prior is None:
            return EQUAL if self.labels is not None and self.labels.per_class is not None else LABELS
        return prior

    @property
    def weight(self) -> ClassWeight:
        """Return what the labels of each class weigh; raise ParameterError of weights where there are no classes."""
        weight = self.model.weight()
        require(weight == ClassWeight() or self.task == "classification",
                "model.class_weight, and data.task is regression", why="quantities have no classes", fix="leave it out")
        return weight

    @property
    def scaling(self) -> ScalingParams | None:
        """Return how features are scaled for the graph's metric; None where the labels choose.

        Raises ParameterError: the metric takes values as they are, and a scaling is asked for by name.
        """
        params = ScalingParams(kind=self.data.scale)
        if isinstance(self, GraphSections) and self.graph.given is None:
            params = self.graph.scaling(self.data.scale)
        return None if params.kind == "auto" and self.data.scaled_by_labels else params

    @property
    def given_graph(self) -> GivenGraph | None:
        """Return the graph that is given as a file, None where there is none."""
        return self.graph.given if isinstance(self, GraphSections) else None

    def to_dict(self, *, mode: Literal["python", "json"] = "python", changed_only: bool = False) -> dict[str, Any]:
        """Return the spec as a mapping that `load_spec` takes; changed_only : without what is as it is by default."""
        cls: Any = type(self)
        dumped: dict[str, Any] = adapter_of(cls).dump_python(self, mode=mode, exclude_defaults=changed_only)
        if changed_only:
            dumped["model"] = {"kind": self.model.kind, **dumped.get("model", {})}
        return dumped

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        """Yield what one section asks and another cannot give, with the path of a section."""
        yield from super().mistakes()
        yield from self._tag_mistakes()
        for given in ("prior", "weight"):
            yield from raised("", partial(getattr, self, given))
        for place, is_wrong, what, why, fix in self._contradictions():
            if is_wrong:
                yield place, SpecError(explain(what, why=why, fix=fix))

    def _contradictions(self) -> Iterator[tuple[str, bool, str, str, str]]:
        """Yield what sections may ask of each other: the path of one, whether it is wrong, and its message."""
        data, labels, opinion = self.data, self.labels, self.model.opinion
        target, weight = data.read.target, None if labels is None else labels.weight
        columns = () if opinion is None else opinion.params.columns
        is_tag = data.tags is not None and weight in data.tags.names
        yield ("labels", labels is not None and self.task == "clustering", f"labels: model.kind is {self.model.kind}",
               "no stage of that kind would read it", "leave it out")
        yield ("labels.per_class", data.tags is not None and labels is not None and labels.per_class is not None,
               "labels.per_class, and data.tags", "a row with several tags is of no one class",
               "set labels.count or labels.fraction")
        yield ("labels.weight", weight is not None and (is_tag or weight == target),
               f"labels.weight={weight!r}, and {'data.tags has' if is_tag else 'data.read.target is'} that column",
               "a column is the label, or what the label weighs", "name another column, or leave it out")
        yield ("predictions.format", self.predictions.format == "h5ad" and not str(data.source).endswith(".h5ad"),
               "predictions.format is h5ad, and data.source is no single .h5ad file",
               "the labels are written into a copy of it", "set predictions.format to csv or parquet")
        yield ("labels.weight", weight is not None and weight in columns,
               f"labels.weight={weight!r}, and model.soft_labels.columns has that column",
               "a column is what a label weighs, or what another model says", "name another column, or leave it out")
        yield ("model.soft_labels", target in columns,
               f"model.soft_labels.columns has {target!r}, and data.read.target is that column",
               "what another model says is no label", "name another column, or leave it out")
        named: dict[str, Collection[object]] = {
            "data.read.target": (target,), "data.read.categories": data.read.categories or (),
            "data.read.keep_ids": () if isinstance(data.read.keep_ids, bool) else data.read.keep_ids,
            **self.columns_beside}
        for name in ("data.test.column", "data.test.groups"):
            for other, column in ((key, each) for key in named if key != name for each in named[key]):
                yield (name, column in named[name], f"{name}={column!r}, and {other} names that column too",
                       "a column says one thing of a row", "name another column, or leave one of them out")
        yield ("data.read.split", data.read.split is not None and data.rows == "all" and not data.test.official,
               f"data.read.split={data.read.split!r}, and data.test does not use it", "rows that it marks would be "
               "trained on", "set data.test: {official: true}, or data.rows: official_train; of a table "
               f"data.test: {{column: {data.read.split}}} in place of data.read.split")
        yield ("data.test", target == "none" and (opinion is not None or self.has_label_files) and not data.test.none,
               "data.test, and data.read.target is none",
               "test points need a target in the source, which predictions are compared with",
               "set data.test: {none: true}: labels that are held out then tell how good the model is")
        yield ("labels", target == "none" and labels is not None and labels.file is not None and not labels.given,
               "labels are drawn from the source, and data.read.target is none",
               "all labels are in labels.file, which are shown without a draw",
               "set labels.given: true in place of count, per_class or fraction")
        yield ("data.grows", data.grows and isinstance(opinion, SoftLabelSection) and opinion.file is not None,
               "data.grows, and model.soft_labels.file", "the file has as many rows as when it was made",
               "write soft labels as columns of the source, or leave data.grows out")
        yield ("data.grows", data.grows and self.given_graph is not None, "data.grows, and graph.given",
               "a graph that is given has as many rows as when it was made", "leave one of them out")
        yield ("data.read.target", self.task == "regression" and target == "none" and not self.has_label_files,
               "data.read.target is none, and data.task is regression",
               "a regression learns from targets, also where there are soft labels",
               "name the column of the targets, which may be empty where they are unknown, or labels.file")
        for name, value in (("data.keep", data.keep), ("data.classes", data.classes),
                            ("labels.per_class", labels.per_class if labels else None)):
            yield (name, self.task == "regression" and value is not None,
                   f"{name}={value}, and data.task is regression", "quantities have no classes",
                   "leave it out" if name != "labels.per_class" else "set labels.count or labels.fraction")
        yield ("data.unlabeled", self.task == "regression" and isinstance(data.unlabeled, str),
               f"data.unlabeled={data.unlabeled!r}, and data.task is regression",
               "a quantity is a number, so its marker is one",
               "name a number; empty cells and NaN are unlabeled anyway")

    def _tag_mistakes(self) -> Iterator[tuple[str, DsslError]]:
        """Yield each key that is of one label a point where there are several."""
        if self.data.tags is None:
            return
        if self.data.task != "classification":
            yield "data.tags", SpecError(explain(f"data.tags, and data.task is {self.data.task}",
                                                 why="tags are classes that a point has or has not",
                                                 fix="leave data.tags out, or set data.task: classification"))
        model, graphs = self.model, getattr(getattr(getattr(self, "selection", None), "grid", None), "graph", None)
        for name, is_set in (
                ("data.read.target", self.data.read.target is not None), ("data.keep", self.data.keep is not None),
                ("data.classes", self.data.classes is not None), ("data.unlabeled", self.data.unlabeled is not None),
                ("data.grows", self.data.grows),
                ("labels.file", self.has_label_files),
                ("model.class_prior", not isinstance(getattr(model, "class_prior", None), str | None)),
                ("model.class_weight", not isinstance(getattr(model, "class_weight", None), str | None)),
                ("model.class_sizes", not isinstance(getattr(model, "class_sizes", None), str | None)),
                ("model.soft_labels", getattr(model, "soft_labels", None) is not None),
                ("model.class_embeddings", getattr(model, "class_embeddings", None) is not None),
                ("selection.grid.graph", graphs is not None and bool(graphs.values()[0]))):
            if is_set:
                why = OF_ONE_LABEL.get(name, "it is of one label a point, and each tag is learned by itself")
                yield name, SpecError(explain(f"{name}, and data.tags", why=why, fix="leave one of them out"))


@dataclass(frozen=True)
class KindSpec:
    """What a spec can say of a kind of model.

    name : `model.kind` in a spec. spec : its sections. tasks : what it serves, of `data.task`.
    """

    name: str
    spec: type[Spec]
    tasks: tuple[LearningTask, ...]

    def mistakes(self, spec: Spec) -> Iterator[tuple[str, DsslError]]:
        """Yield what a valid spec asks for and no stage of the kind has; the specs of dssl's own kinds allow none."""
        yield from ()


@dataclass(frozen=True, kw_only=True)
class GraphPipeline(GraphSections, Spec):
    """A pipeline whose stages make a graph of the training points."""


@dataclass(frozen=True, kw_only=True)
class KernelPipeline(KernelSections, Spec):
    """A pipeline of models in a kernel, with a stage that chooses their parameters, and models to compare with."""
