"""What reads points of any input, and predicts them by its model."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ..base.digest import JsonObject, is_real
from ..base.errors import DataError, explain, require
from ..base.units import size_of
from ..data.dataset import Dataset
from ..data.findings import warn_identifiers
from ..data.frames import as_pandas, index_labels
from ..data.inputs import header_of, in_order, rows_of
from ..data.scaling.drift import Drift
from ..data.scaling.out_of_range import warn_out_of_range
from ..data.scaling.outliers import warn_outlier_rows, warn_unlike
from ..data.scaling.scaling import Scaling, ScalingKind, ScalingParams, Unscaled, fit_scaling, scaled
from ..execution.current import current_execution
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.knn_graph import KNNGraph
from ..knn.lists import Neighbors
from ..learners.model import Model
from ..storage.blocks import ArrayRows, Rows
from .arguments import GraphLike, GroupedParams, PointsLike
from .predict_to import predict_to_zarr


def fitted_columns(model: object) -> Sequence[object]:
    """Return the names of the columns of a model's fit, texts or numbers; none where they had no names."""
    names: Sequence[object] = getattr(model, "_fit_columns", ())
    return names


class PointReader(GroupedParams):
    """What reads points of any input, scales their features, and has a model of them, `model_`.

    scale : of the features, `ScalingParams.kind`, the one that pipelines know as `data.scale`. scaling_ : Scaling, what
    the points of the fit made of it, applied to all that are predicted.
    """

    model_: Model
    memory_budget: int | str | None
    scale: ScalingKind
    scaling_: Scaling
    predicts_by_lists: ClassVar[bool] = False  # whether distances of new points are compared with those of the graph

    def _execution(self) -> Execution:
        """Return what runs the tasks, with the memory that one may take; raise ParameterError where that is no size."""
        return current_execution(None if self.memory_budget is None else size_of(self.memory_budget))

    @property
    def _column_names(self) -> list[str]:
        """The names of the columns of the fit; none where they had no names."""
        return [str(name) for name in getattr(self, "feature_names_in_", [])]

    def _points(self, X: PointsLike, execution: Execution, *, reset: bool, warns: bool = False) -> Rows:
        """Return the points as rows that every task can read, after checking them; sets or compares the columns.

        Columns of new points are put in the order of the fit by their names.

        warns : of values out of the range of the fit, of an array in this process.
        """
        X = as_pandas(X)
        if not reset:
            X = in_order(X, fitted_columns(self))
        header = header_of(X)
        if header is not None:  # names are compared before anything is computed
            twice = [*dict.fromkeys(header.columns[header.columns.duplicated()])]
            require(not twice, f"X has several columns named {', '.join(map(repr, twice[:5]))}", error=DataError,
                    why="columns of new points are found by their names", fix="rename them, or pass X.to_numpy()")
            validate_data(self, header, reset=reset, skip_check_array=True)
        self._compare_numbers([] if header is None else [*header.columns], reset=reset)
        rows = rows_of(X, execution, type(self).__name__)
        if header is None:
            validate_data(self, np.empty((0, *rows.shape[1:])), reset=reset, skip_check_array=True)
        if warns and isinstance(rows, ArrayRows) and self.scaling_.seen is not None:  # others would be read twice
            warn_out_of_range(self.scaling_.seen, rows, InProcess(memory_budget=execution.memory_budget),
                              self._column_names or None)
        return execution.share_rows(rows)

    def _compare_numbers(self, columns: list[object], *, reset: bool) -> None:
        """Keep the names of the columns of the fit, or compare numbers that are names with those of new points."""
        if reset:
            self._fit_columns = columns
            return
        for new, known in zip(columns, fitted_columns(self), strict=False):
            if is_real(new) and is_real(known) and new != known and new == new:
                raise DataError(explain(
                    f"X has a column {new} where the points of the fit had {known}",
                    why="columns of new points are found by their names, also by numbers",
                    fix="pass the columns of the fit, or X.to_numpy() with the columns in their order"))

    def _scaling_of(self, X: PointsLike, rows: Rows, execution: Execution, graph: GraphLike | None = None) -> Scaling:
        """Return the scaling of all points of a fit: that of the features of which a graph was made, or of their own.

        graph : what `fit` is given. Lists of neighbors that were found elsewhere are of the features as they are, which
        then stay so where new points are compared with them.

        Raises ParameterError: no scaling of that name, or the graph was made of features of another one.
        """
        params = self._scaling_params() if graph is None else ScalingParams(kind=self.scale)
        given = graph.scaling if isinstance(graph, Graph) else None
        if given is not None:
            require(params.kind in ("auto", given.kind), f"scale={params.kind!r}, and a graph of features scaled by "
                    f"{given.kind!r}", why="new points would be compared with the graph's in other units",
                    fix=f"leave scale out, or build the graph with scale={params.kind!r}")
            return given
        names = self._column_names
        if not isinstance(params, Unscaled):
            warn_unlike(rows, None, params.kind, names)
        self._warn_of_identifiers(rows)
        lists = graph.neighbors is not None if isinstance(graph, Graph) else isinstance(graph, (Neighbors, tuple, list))
        if lists and self.predicts_by_lists and params.kind == "auto":
            params = ScalingParams(kind="none")
        scaling = fit_scaling(rows, None, params, execution, feature_names=names or None,
                              categories=X.categories if isinstance(X, Dataset) else None)
        warn_outlier_rows(scaling.attributes.get("outliers"), names or None, partial(index_labels, X))
        return scaling

    def _scaling_params(self) -> ScalingParams:
        """Return the scaling of features for the metric of a graph that is made of them."""
        graph = getattr(self, "graph", None)
        return graph.scaling(self.scale) if isinstance(graph, KNNGraph) else ScalingParams(kind=self.scale)

    def _warn_of_identifiers(self, rows: Rows) -> None:
        """Warn of columns that look like identifiers, of an array whose columns have names."""
        if self._column_names and isinstance(rows, ArrayRows):
            warn_identifiers(rows.array, self._column_names)

    def _new_rows(self, X: PointsLike, execution: Execution, *, warns: bool = True) -> Rows:
        """Return points as the model sees them."""
        check_is_fitted(self, "model_")
        return scaled(self._points(X, execution, reset=False, warns=warns), self.scaling_, execution)

    def _values(self, X: PointsLike) -> np.ndarray:
        execution = self._execution()  # what it shares is gone when it is, so it outlives the rows
        rows = self._new_rows(X, execution)  # raises where there is no model yet
        return self.model_.values(rows, execution)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PointPredictor(PointReader):
    """What predicts points by its model."""

    def predict(self, X: PointsLike) -> np.ndarray:
        """Return what is predicted for points.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points, or any other input that `fit` reads.

        Returns
        -------
        ndarray, shape (n,) or (n, c)
            The labels or clusters; of several labels a point 1 and 0 in a column each, -1
            where there is no prediction; of a regressor the targets, a column each where
            there are several.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            `fit` was not called.
        DataError
            X has other columns than the points of the fit.
        """
        execution = self._execution()  # what it shares is gone when it is, so it outlives the rows
        return self._predicted(self._new_rows(X, execution), execution)

    def _predicted(self, rows: Rows, execution: Execution) -> np.ndarray:
        """Return what is predicted for rows of this estimator's columns; no label where the model rejects a point."""
        values, unsupported = self.model_.values_and_unsupported(rows, execution)
        labels = self.model_.coding.labels(values)
        return self.model_.coding.mask_labels(labels, unsupported) if self.model_.rejects else labels

    def export(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the model to one file, which NumPy alone, or an ONNX runtime, can predict with.

        A .zip holds JSON, arrays and the module `dssl_model`, which reads it: no pickle,
        and nothing of dssl. An .onnx file is a graph of standard operators, which needs
        the package onnx to be written. Both predict dense rows with the columns of the fit,
        before scaling.

        Parameters
        ----------
        path : str or Path
            A path that ends in .zip or .onnx. The file has some 4 MB for each million
            numbers of the points that the model keeps, 8 MB of float64 and in ONNX.
        overwrite : bool
            Whether a file that holds no exported model is replaced too.

        Returns
        -------
        Path
            The path.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            `fit` was not called.
        ParameterError
            The model is of another kind than of a graph by Euclidean distance or
            cosine, or of a named kernel; in ONNX, than of a named kernel other than
            "laplacian". Or onnx is not installed. Or the path is a folder, its folder
            does not exist, or there is another file.
        """
        from .export import export_model

        check_is_fitted(self, "model_")
        names = getattr(self, "feature_names_in_", None)
        return export_model(path, self.model_, self.scaling_, getattr(self, "calibration_", None),
                            None if names is None else list(map(str, names)), overwrite=overwrite)

    def drift(self, X: PointsLike) -> Drift:
        """Return how the distribution of new points differs from that of the points of the fit.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.

        Returns
        -------
        Drift
            How many points are `n_out` of range, and the `columns` that have changed in
            location or spread; `alarm` says whether chance explains it, and
            `in_words()` what has changed.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            `fit` was not called.
        DataError
            The distribution of the points of the fit is not known: they are sparse, or
            their scaling is that of a graph that was read from a file.

        Notes
        -----
        Exact tests of two shares compare the points with a sample of at most 10,000
        points of the fit. Of batches whose points are drawn independently, as those of
        the fit were, at most one in 1,000 raises an alarm.

        Examples
        --------
        >>> import numpy as np
        >>> from dssl import LapSVC
        >>> X = np.random.default_rng(0).normal(size=(1000, 3))
        >>> y = np.where(np.arange(1000) < 20, X[:, 0] > 0, -1)
        >>> model = LapSVC().fit(X, y)
        >>> model.drift(X[:500]).alarm, model.drift(X[:500] + 0.5).alarm
        (False, True)
        """
        check_is_fitted(self, "model_")
        seen, execution = self.scaling_.seen, self._execution()
        require(seen is not None, "the ranges of the points of the fit are not known", error=DataError,
                why="the graph was read from a file, which has its scaling alone", fix="fit without that graph")
        assert seen is not None
        return seen.compare(self._points(X, execution, reset=False), execution).require_drift()

    def predict_to(self, X: PointsLike, out: str | Path) -> JsonObject:
        """Write what `predict(X)` returns to a new Zarr array, in blocks, where the tasks run.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points. They need not fit in memory: a Dataset, a Zarr or a Dask array.
        out : str or Path
            A path that ends in .zarr and does not exist yet, on storage that every worker
            can open, or such a URL of an object store.

        Returns
        -------
        dict
            `n`, `unsupported` and `rejected` points, and `counts` by class, or `values`
            with `min`, `mean` and `max`.

        Raises
        ------
        DataError
            The path exists or has another ending, or its folder does not exist.
        ClusterError
            The store lets two writers write one object.

        Notes
        -----
        Classes that are numbers are written as such; of others their codes are, and the
        attribute `classes` of the array names them.
        """
        execution = self._execution()
        rows = self._new_rows(X, execution)
        return predict_to_zarr(self.model_, rows, out, execution)

    def support(self, X: PointsLike) -> np.ndarray:
        """Return how near each point is to what the model has seen.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.

        Returns
        -------
        ndarray, shape (n,)
            From 1 down to 0; in which measure, `block_support` of `KernelModel` and of
            `GraphModel` say.
        """
        execution = self._execution()
        rows = self._new_rows(X, execution, warns=False)
        return self.model_.support(rows, execution)
