"""What estimators on a graph are given beside labels: what another model says of the points."""

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..base.errors import DataError, ParameterError, require
from ..base.types import MatrixLike
from ..data.inputs import in_order, labels_of
from ..execution.tasks import Execution
from ..learners.soft_labels import as_numbers, require_embeddings, require_soft_labels, vector_probabilities
from ..learners.tags import Tags
from ..learners.target.target import Classes, Target
from ..selection.base_estimator import base_estimator_of
from ..storage.blocks import Rows
from .arguments import GraphLike, LabelsLike, Learnable, NumbersLike, OtherModel, PointsLike
from .classifier import CalibratedClassifier
from .method import MethodEstimator
from .points import fitted_columns


def names_of(table: object, axis: str) -> list[Any] | None:
    """Return the names of the columns or of the rows ("index") of a DataFrame; None where they only count them."""
    if not (hasattr(table, "iloc") and hasattr(getattr(table, axis, None), "tolist")):
        return None
    names: list[Any] = getattr(table, axis).tolist()
    return None if names == list(range(len(names))) else names


def text_of_name(name: Any) -> str:
    """Return a name as text, of a whole number without a fraction."""
    is_whole = isinstance(name, Real) and not isinstance(name, (bool, np.bool_)) and float(name).is_integer()
    return str(int(name)) if is_whole else str(name)


def positions_of(wanted: np.ndarray, names: list[Any] | None, what: str) -> list[int] | None:
    """Return the position of each of the wanted names among others, as text; None where none of them is there.

    Raises DataError: only some of them are.
    """
    texts, asked = [text_of_name(name) for name in names or ()], [text_of_name(name) for name in wanted.tolist()]
    missing = sorted(set(asked) - set(texts))
    if len(missing) == len(set(asked)):
        return None
    require(not missing, f"{what} names {texts[:8]}, and not {missing[:8]}", error=DataError,
            why="the names of a DataFrame say which of its columns or rows is of which class",
            fix="name all of them so, or pass an array without names, .to_numpy(), in the order of `classes`")
    return [texts.index(name) for name in asked]


class SoftLabelsEstimator(MethodEstimator):
    """An estimator whose fit takes what another model says of the points.

    It is given as `soft_labels`, by the vectors `class_embeddings` in the space of X, or as `base_estimator`, which is
    fitted to the labels; classes : the names of the columns of the first two. A DataFrame names them itself.
    """

    base_estimator: OtherModel | None
    class_embeddings: ArrayLike | None = None  # of a classifier
    classes: ArrayLike | None = None  # of a classifier
    random_state: int
    _soft_labels: np.ndarray | None = None
    _soft_names: list[Any] | None = None  # of its columns
    _read_embeddings: Any = None  # while a fit goes on, which asks for them several times

    def fit(self, X: PointsLike, y: LabelsLike | None = None, sample_weight: NumbersLike | None = None,
            graph: GraphLike | None = None, soft_labels: NumbersLike | None = None) -> Self:
        """Fit on all points, labeled and unlabeled; return self.

        Parameters
        ----------
        X : array-like, shape (n, d)
            All points, or any other input that `dssl.data.inputs.rows_of` reads.
        y : array-like, shape (n,) or (n, c), or None
            The labels, with the marker of points that have none; of several labels a
            point a column each, 1 where the point has it, 0 where not, and -1 or NaN
            where that is unknown; of a regressor the targets, of which a row with a NaN
            is unlabeled. None takes the target of a
            Dataset X; with soft labels or class embeddings of a classifier it says that
            no point is labeled.
        sample_weight : array-like, shape (n,), or None
            What the loss of each labeled point counts, finite and >= 0, relative to the
            mean of these weights; with 0 the point counts as unlabeled. None is 1 each.
            Weights of unlabeled points are not read: they have no loss, and every point
            counts alike in the graph.
        graph : Graph, sparse matrix, Neighbors or pair of arrays, or None
            A graph in place of the one made of X: a `Graph`, which serves any number of
            fits; weights (n, n); or neighbor lists, `Neighbors` or (ids, distances), both
            (n, k).
        soft_labels : array-like, shape (n, n_classes), (n,) or (n, c), or None
            What another model says of the points: the probabilities of the classes,
            with rows of sum 1 and columns in the order of `classes_`, or as `classes`
            or a DataFrame names them; of tags (several labels a point) the probability of each; of a
            regressor predicted targets. It must not have seen the labels. How much
            it counts beside the labels is chosen by these.

        Returns
        -------
        estimator
            The estimator itself.

        Raises
        ------
        ParameterError
            A parameter is out of range, or two of soft_labels, class_embeddings and
            base_estimator are given.
        DataError
            y is of another length, has no label, or of a classifier fewer than two
            classes, or is a quantity; or soft labels have another shape, or rows that
            are not finite or no probabilities.
        NotConverged
            A solve ended above its tolerance.
        BudgetError
            What has to be held does not fit the memory budget.
        ValueError
            X is not finite.
        """
        given = [name for name, value in (("soft_labels", soft_labels), ("class_embeddings", self.class_embeddings),
                                          ("base_estimator", self.base_estimator)) if value is not None]
        require(len(given) < 2, " and ".join(given), error=ParameterError,
                why="one other model is pooled with the labels",
                fix="leave all but one out, or average their probabilities into soft_labels")
        if self.base_estimator is not None:
            _ = base_estimator_of(self.base_estimator, classes=hasattr(self, "predict_proba"), random_state=0)
        require(self.classes is None or soft_labels is not None or self.class_embeddings is not None,
                f"classes={self.classes!r}", error=ParameterError, fix="leave classes out",
                why="it names the columns of soft_labels or the rows of class_embeddings, and there are none")
        table = None if soft_labels is None else labels_of(soft_labels)
        self._soft_names = names_of(table, "columns")
        self._soft_labels = None if table is None else as_numbers(table, "soft_labels")
        self._read_embeddings = self._embeddings()
        try:
            return super().fit(X, y, sample_weight, graph)
        finally:
            self._soft_labels = self._soft_names = self._read_embeddings = None

    def _soft(self, rows: Rows, target: Target, execution: Execution) -> np.ndarray | None:
        if self._soft_labels is not None:
            names = target.names if isinstance(target, Classes) else None
            values = require_soft_labels(self._soft_labels, len(rows), names)
            require(names is not None or values.shape[1] == target.columns().shape[1], error=DataError,
                    what=f"soft_labels has {values.shape[1]} columns for targets of {target.columns().shape[1]}",
                    why="there is one for each target", fix="pass what the other model predicts for each target")
            return values if names is None else self._in_order(values, names)
        if self.class_embeddings is None:
            return None
        table = in_order(self._embeddings(), fitted_columns(self))
        embeddings = require_embeddings(table, rows.shape[1])
        vectors = np.asarray(self.scaling_.transform(embeddings), np.float64)
        assert isinstance(target, Classes)
        return self._in_order(vector_probabilities(rows, vectors), target.names)

    def _embeddings(self) -> Any:
        """Return `class_embeddings` in this process."""
        if self.class_embeddings is None or self._read_embeddings is not None:
            return self._read_embeddings
        return labels_of(self.class_embeddings)

    def _in_order(self, values: np.ndarray, names: np.ndarray) -> np.ndarray:
        """Return columns in the order that the other model has them as those of the ascending classes."""
        stated = self._stated_classes(names)
        return values if stated is None else values[:, np.argsort(stated, kind="stable")]

    def _stated_classes(self, known: np.ndarray) -> np.ndarray | None:
        """Return the classes in the order in which the other model has them; None where nobody says.

        known (k,) : those of the labels. A DataFrame names them, unless its names are none of `classes` or of y.
        Raises DataError: it has some of the names, or more than `classes` has, or texts where the classes are numbers.
        """
        if self._soft_labels is not None:
            what, names = "soft_labels", self._soft_names
        else:
            what, names = "the index of class_embeddings", names_of(self._embeddings(), "index")
        stated = None if self.classes is None else np.asarray(self.classes)
        wanted = known if stated is None else stated
        if names is None or not len(wanted):
            return stated if names is None else np.asarray(names)
        positions = positions_of(wanted, names, what)
        if positions is None:
            return stated
        others = [name for position, name in enumerate(names) if position not in positions]
        is_number = wanted.dtype.kind in "iuf"
        fits = not others or (stated is None and not (is_number and any(
            not text_of_name(name).lstrip("-").isdigit() for name in others)))
        require(fits, f"{what} names {names[:8]}, and {'classes' if stated is not None else 'y'} has "
                f"{wanted.tolist()[:8]}", error=DataError, why="the names of a DataFrame say which of its columns or "
                "rows is of which class", fix="name the same classes in both")
        of_position = dict(zip(positions, wanted.tolist(), strict=True))
        ordered = [of_position.get(position, name) for position, name in enumerate(names)]
        convert = float if wanted.dtype.kind == "f" else int
        return np.asarray([convert(name) for name in ordered], wanted.dtype) if is_number else np.asarray(ordered)


class SoftLabelsClassifier(CalibratedClassifier, SoftLabelsEstimator):
    """A classifier of some labels, or of none where another model knows the classes."""

    @property
    def _n_opinions(self) -> int | None:
        """The number of classes that another model knows before any label is seen; None if there is none."""
        given = self._soft_labels if self._soft_labels is not None else self._embeddings()
        if given is None or np.ndim(given) != 2:
            return None
        return np.shape(given)[0 if self._soft_labels is None else 1]

    def _labels_of_fit(self, X: PointsLike, y: LabelsLike | None) -> MatrixLike | None:
        if y is None and self._n_opinions is not None and getattr(X, "y", None) is None:
            return None
        return self._labels(X, y)

    def _class_names(self, known: np.ndarray) -> np.ndarray | None:
        """Return the ascending names of all classes, where another model knows them.

        known (k,) : the classes of the labels. Raises DataError: they are not among the names, or those are not as many
        as the columns.
        """
        count = self._n_opinions
        if count is None:
            return None
        stated = self._stated_classes(known)
        names = np.unique(stated) if stated is not None else known if len(known) else np.arange(count)
        what = "soft_labels" if self._soft_labels is not None else "class_embeddings"
        who = "y has" if stated is None else "its names are" if self.classes is None else "classes names"
        require(len(names) == count and (stated is None or len(stated) == count), error=DataError,
                what=f"{what} has {count} classes, but {who} {len(names)} different ones",
                why="each class has one column of soft_labels, or one row of class_embeddings",
                fix="name all of them in their order by classes=[...]")
        strange = [name for name in known.tolist() if name not in names.tolist()]
        require(not strange, f"y has classes that are not in `classes`: {strange[:5]}",
                error=DataError, why="soft labels have a column for each class",
                fix="add them to classes, or correct y")
        return names

    def _with_all_classes(self, target: Classes) -> Classes:
        """Return the labels of a target as codes of all classes that another model knows."""
        names = self._class_names(target.names)
        return target if names is None else target.of_names(names)

    def _check_tags(self, target: Tags) -> None:
        super()._check_tags(target)
        for name in ("class_embeddings", "classes"):
            require(getattr(self, name) is None, f"{name} is given, and y has {len(target.names)} columns",
                    error=ParameterError, why="it is of classes of which a point has one",
                    fix="leave it out; soft_labels takes the probability of each tag")
        if self._soft_labels is not None:
            require(np.ndim(self._soft_labels) == 2 and self._soft_labels.shape[1] == len(target.names),
                    f"soft_labels has shape {np.shape(self._soft_labels)}, and y has {len(target.names)} columns",
                    why="each tag has a column of probabilities", fix="pass one column a tag", error=DataError)
            positions = positions_of(np.asarray(target.names), self._soft_names, "soft_labels")
            self._soft_labels = self._soft_labels if positions is None else self._soft_labels[:, positions]

    def _of_tag(self, column: int) -> Self:
        tag = super()._of_tag(column)
        if self._soft_labels is not None:
            tag._soft_labels = np.column_stack([1 - self._soft_labels[:, column], self._soft_labels[:, column]])
        return tag

    def _learn_tag(self, *given: Any) -> Self:
        try:
            return super()._learn_tag(*given)
        finally:
            self._soft_labels = None

    def _target(self, y: MatrixLike | None, n: int) -> Classes | Tags:
        marker = -1 if self.unlabeled is None else self.unlabeled
        target = super()._target(np.full(n, marker) if y is None else y, n)
        return target if isinstance(target, Tags) else self._with_all_classes(target)

    def _check(self, target: Learnable) -> None:
        if self._n_opinions is None or isinstance(target, Tags):
            super()._check(target)
            return
        assert isinstance(target, Classes)
        require(len(target.names) >= 2, f"one class, {target.names.tolist()}", error=DataError,
                why="a classifier tells at least two classes apart",
                fix="pass the probabilities of two classes or more")
        target.with_prior(target.prior)
        self.classes_ = target.names
