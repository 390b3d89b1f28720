"""The section `data` of a pipeline file: where the points come from, which are used, and how features are scaled.

Beside it the keys by which another model says something of the points, or of the classes.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ..base.digest import require_at_least, require_one_of, require_random_state
from ..base.errors import require
from ..data.ingest_params import IngestParams
from ..data.scaling.scaling import ScalingKind, ScalingParams

LearningTask = Literal["classification", "regression", "clustering"]
ClassName = str | int | float
OpinionKind = Literal["soft_labels", "class_embeddings"]


@dataclass(frozen=True, kw_only=True)
class TestSplit:
    """Which points are kept for testing: a number, a share, those that the source names, or none.

    Parameters
    ----------
    count : int or None
        Their number.
    fraction : float or None
        Their share, above 0 and below 1.
    groups : str or None
        Beside fraction: a column of the source, a table, that says which rows belong together, such as the visits of a
        patient. All rows of a group are tested or none, and unlabeled rows of tested groups are not trained on. The
        column is no feature.
    column : str or None
        A column of the source, a table, that says train or test (0 or 1) of each row, and is no feature.
    official : bool
        The split that the data set comes with.
    none : bool
        No test points: held-out labels judge the model.
    """

    count: int | None = None
    fraction: float | None = None
    groups: str | None = None
    column: str | None = None
    official: bool = False
    none: bool = False

    def __post_init__(self) -> None:
        require_at_least(self, 1, "count")
        require(self.fraction is None or 0 < self.fraction < 1, f"fraction={self.fraction}, expected above 0 and below "
                "1", why="it is the share of the points that test", fix="use 0.2, or none: true")
        require(self.groups is None or self.fraction is not None, f"groups={self.groups!r}, without fraction",
                why="groups are tested as a whole until their rows are this share", fix="add fraction: 0.2")
        require_one_of(self, "count", "fraction", "column", "official", "none")

    @property
    def by_row(self) -> bool:
        """Return whether the source says of each row whether it tests, or which rows are tested together.

        Then unlabeled rows of the tested part are not trained on.
        """
        return self.official or self.column is not None or self.groups is not None


@dataclass(frozen=True, kw_only=True)
class TagSection:
    """Several labels a point: the columns of a table that hold them, in place of one target.

    Parameters
    ----------
    column : str or None
        One column with the tags of each row: a list of text or of integers (Parquet,
        Arrow), or text. A row with an empty cell is unlabeled; one with an empty
        list, or of text with the separator alone, has none of the tags.
    separator : str or None
        Of a column of text: what separates two tags, such as ";". null is a column
        of lists.
    columns : list of str or None
        In place of both, a column for each tag: 1 (yes, true) where a row has it, 0
        (no, false) where not, and an empty cell where that is unknown.
    """

    column: str | None = None
    separator: str | None = None
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        require_one_of(self, "column", "columns")
        require(self.separator is None or (self.column is not None and self.separator != ""),
                f"separator={self.separator!r}", why="it stands between the tags of one column of text",
                fix="name that column with tags.column, or leave the separator out")
        require(self.columns is None or 1 < len(self.columns) == len(set(self.columns)), f"columns={self.columns}",
                why="each tag has a column of its own, and one alone is a target", fix="list two columns or more, each "
                "once; for one, name it in data.read.target")

    @property
    def names(self) -> tuple[str, ...]:
        return self.columns or (str(self.column),)


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """Where the points come from, which of them are used, and what is to be predicted of them.

    Parameters
    ----------
    task : "classification", "regression" or "clustering"
        classification reads the target as classes, regression as quantities; without a target (NaN, an empty cell) a
        point is unlabeled; clustering needs none.
    source : str or list of str
        A name (see dssl ingest --help), a path, a pattern such as part-*.csv, or a URL; or a list of them.
    read : IngestParams
        Options of the reader; see IngestParams.
    keep : list or None
        Classes to keep, such as [4, 9].
    classes : dict or None
        Joined classes by name.
    tags : TagSection or None
        Several labels a point, in place of data.read.target; see TagSection.
    unlabeled : str, int, float or None
        The marker of unlabeled points.
    rows : "all" or "official_train"
        Which rows of the source are used: all, or the training rows of the split that it comes with.
    points : int or None
        Labeled and unlabeled points used; all but the test points.
    test : TestSplit
        Which points are kept for testing.
    scale : str
        Of the features; auto standardizes columns whose ranges differ and leaves those of one unit, such as pixels and
        embeddings; see ScalingParams.
    random_state : int
        Of the draw of the points and of the test points.
    grows : bool
        A run goes on from the last one of this spec: it reads files that are new alone, and adds their rows to the
        graph and the model; see docs/growing.md.
    """

    task: LearningTask = "classification"
    source: str | list[str]
    read: IngestParams = IngestParams()
    keep: list[str | int | float] | None = None
    classes: dict[str | int, list[str | int | float]] | None = None
    tags: TagSection | None = None
    unlabeled: str | int | float | None = None
    rows: Literal["all", "official_train"] = "all"
    points: int | None = None
    test: TestSplit = TestSplit(fraction=0.2)
    scale: ScalingKind = ScalingParams.kind
    random_state: int = 0
    grows: bool = False
    scaled_by_labels: ClassVar[bool] = False  # whether the labels choose how features are scaled

    def __post_init__(self) -> None:
        require_at_least(self, 2, "points")
        require_random_state(self.random_state)
        require(self.rows == "all" or not self.test.official, "rows='official_train', and test.official",
                why="the official test rows are then left out", fix="set test.count or test.fraction")


@dataclass(frozen=True, kw_only=True)
class ScaledByLabels(DataSection):
    """Where the points come from, with a scaling that the labels choose.

    Parameters
    ----------
    scale : str
        Of the features; auto chooses by the columns' ranges, and by the leave-one-out residuals of kernels on the
        labels.
    """

    scale: ScalingKind = "auto"
    scaled_by_labels = True


@dataclass(frozen=True, kw_only=True)
class ClusteringData(DataSection):
    """Where the points come from; classes, where there are any, are what the clusters are compared with."""

    task: LearningTask = "clustering"
    test: TestSplit = TestSplit(none=True)


@dataclass(frozen=True)
class OpinionParams:
    """How the opinion of another model is read.

    columns : of the source, in the order of the classes; empty where a file has them. classes : of the columns of soft
    labels, or of the rows of class embeddings; None of predicted quantities. class_column : the column of the file that
    names the classes, None where they are listed.
    """

    kind: OpinionKind
    columns: tuple[str, ...]
    classes: tuple[ClassName, ...] | None
    class_column: str | None = None

    @property
    def count(self) -> int | None:
        """Return the number of classes, 1 of quantities; None where a file names the classes."""
        return None if self.class_column is not None else 1 if self.classes is None else len(self.classes)


@dataclass(frozen=True, kw_only=True)
class SoftLabelSection:
    """What another model says of each row of the source: class probabilities, or predicted targets.

    Parameters
    ----------
    columns : list, dict or None
        Columns of the source, a table, which are then no features: a list in the order
        of `classes`, or the column of each class; of a regression one column of
        predicted targets.
    file : str or None
        A file of such columns (.npy or a table) with one row for each row of the
        source.
    classes : list or None
        The classes of the columns, in their order.
    """

    columns: list[str] | dict[ClassName, str] | None = None
    file: str | None = None
    classes: list[ClassName] | None = None

    def __post_init__(self) -> None:
        require_one_of(self, "columns", "file")
        names = [] if self.columns is None else [*self.params.columns]
        require(self.columns is None or bool(names), "columns is empty", why="soft labels are read from these columns",
                fix="name one column of each class, of a regression the one of predicted targets, or give file")
        require(len(set(names)) == len(names), f"columns={names}", why="each class has a column of its own",
                fix="name each column once")
        if isinstance(self.columns, dict):
            require(self.classes is None, f"classes={self.classes}", fix="leave classes out",
                    why="columns names the class of each column")
        elif self.columns is not None and self.classes is not None:
            require(len(names) == len(self.classes), f"columns={names}, and {len(self.classes)} classes",
                    why="each class has a column", fix="list columns and classes in the same order")
        require_classes(self.params.classes)

    @property
    def params(self) -> OpinionParams:
        if isinstance(self.columns, dict):
            return OpinionParams("soft_labels", tuple(self.columns.values()), tuple(self.columns))
        return OpinionParams("soft_labels", tuple(self.columns or ()),
                             None if self.classes is None else tuple(self.classes))


@dataclass(frozen=True, kw_only=True)
class ClassEmbeddingSection:
    """A vector of each class in the space of the features, such as a text embedding of its name.

    Parameters
    ----------
    file : str
        A file (.npy or a table) with one row for each class and the columns of the
        features.
    classes : str or list
        The classes of the rows, in their order; or the column of a table that names
        them.
    """

    file: str
    classes: str | list[ClassName]

    def __post_init__(self) -> None:
        require_classes(self.params.classes)

    @property
    def params(self) -> OpinionParams:
        if isinstance(self.classes, str):
            return OpinionParams("class_embeddings", (), None, self.classes)
        return OpinionParams("class_embeddings", (), tuple(self.classes))


def require_classes(classes: tuple[ClassName, ...] | None) -> None:
    """Raise ParameterError unless there are at least two classes, all of them different."""
    require(classes is None or len(np.unique(np.array(classes))) == len(classes) > 1, f"classes={list(classes or ())}",
            why="a classifier tells at least two classes apart, and beside text the number 1 is the class '1'",
            fix="name two classes or more, each once")


OpinionSection = SoftLabelSection | ClassEmbeddingSection
