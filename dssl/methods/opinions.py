"""The keys of a pipeline file by which another model says something of the points, or of the classes."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..base.digest import require_one_of
from ..base.errors import require

ClassName = str | int | float
OpinionKind = Literal["soft_labels", "class_embeddings"]


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
        """Return how they are read."""
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
        """Return how they are read."""
        if isinstance(self.classes, str):
            return OpinionParams("class_embeddings", (), None, self.classes)
        return OpinionParams("class_embeddings", (), tuple(self.classes))


def require_classes(classes: tuple[ClassName, ...] | None) -> None:
    """Raise ParameterError unless there are at least two classes, all of them different."""
    require(classes is None or len(np.unique(np.array(classes))) == len(classes) > 1, f"classes={list(classes or ())}",
            why="a classifier tells at least two classes apart, and beside text the number 1 is the class '1'",
            fix="name two classes or more, each once")


OpinionSection = SoftLabelSection | ClassEmbeddingSection
