"""The result of a run: its figures as attributes, its model, its report; and as a notebook shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from ..base.errors import DataError, explain, require
from ..base.types import MatrixLike
from ..data.dataset import Dataset
from ..data.scaling.drift import Drift
from ..data.scaling.out_of_range import warn_out_of_range
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..methods.step import Context
from ..report.record import Attributes, Scores, Unreachable
from ..selection.suggest import Criterion
from ..storage.artifacts import Workspace
from ..storage.blocks import Rows
from ..storage.files import named_in, path_at
from .dataset import dataset_of
from .predict.model import FittedPipeline, open_model
from .records import PATHS, RESULT, SPEC, STATUS, StageRun, read_result, read_spec
from .shown_result import ShownResult
from .status import read_status
from .suggested_rows import SuggestedRows
from .suggestion import suggest_rows


@dataclass(frozen=True, eq=False, repr=False)
class RunResult(ShownResult):
    """What a run came to: its figures, its model and its report.

    Parameters
    ----------
    run : str
        The identity of the run.
    name : str
        The name of the spec.
    status : "done" or "stopped"
        "stopped" after the stage `until`.
    folder : Path
        The folder of the run.
    stages : tuple of StageRun
        What each stage took.
    peak_rss_bytes : int
        The most memory that a process held.
    intermediate_bytes : int
        What `dssl gc --intermediate` frees of `disk_bytes`.
    until : str or None
        The stage after which the run stopped.
    metrics : dict
        The scores of the model on the test points; of a clustering `sizes`, the points of
        each cluster, and how well these agree with the classes, where these are known.
    baselines : dict
        The scores of each baseline; of a clustering `agreement` is the adjusted Rand index
        of its clusters with those of the model.
    gain : dict
        The gain of the model over each baseline, such as `gain["over_base"]`, with its
        95 % interval and the p-value of the paired test.
    transductive : dict
        The scores on the training points whose labels were not shown.
    verdict : tuple of str
        Whether the unlabeled data helped, in sentences.
    selection : dict
        The values that were chosen, by model.
    graphs : sequence of dict
        What came of each graph, where several were tried; the chosen one first.
    unreachable : dict
        The training points that are unreachable from any label.
    notes : tuple of str
        What there is to know of the data, a line each.
    model_path : Path or None
        The folder of the models; None of a run that was stopped.
    report : Path or None
        The page; None of a run that was stopped.
    predictions : Path or None
        The table of every row of the source; None where the spec asks for none, or
        there are more rows than are predicted without being asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import RunResult, run
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> np.savez("moons.npz", X=X, y=classes)
    >>> spec = {"name": "moons", "data": {"source": "moons.npz"},
    ...         "labels": {"per_class": 4}, "model": {"kind": "graph"}}
    >>> folder = run(spec, until="labels").folder
    >>> RunResult.open(folder).until
    'labels'
    """

    run: str
    name: str
    status: Literal["done", "stopped"]
    folder: Path
    stages: tuple[StageRun, ...]
    peak_rss_bytes: int
    intermediate_bytes: int = 0
    until: str | None = None
    metrics: Scores = field(default_factory=Scores)
    baselines: Mapping[str, Scores] = field(default_factory=dict)
    gain: Attributes = field(default_factory=dict)
    transductive: Scores = field(default_factory=Scores)
    verdict: tuple[str, ...] = ()
    selection: Mapping[str, Attributes] = field(default_factory=dict)
    graphs: Sequence[Attributes] = ()
    unreachable: Unreachable = field(default_factory=Unreachable)
    notes: tuple[str, ...] = ()
    model_path: Path | None = None
    report: Path | None = None
    predictions: Path | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any], folder: Path) -> Self:
        """Return the result of a run's JSON document.

        Parameters
        ----------
        document : dict
            The document, with paths as they are or relative to the folder.
        folder : Path
            The folder of the run.

        Returns
        -------
        RunResult
            The result.
        """
        known = {item.name for item in fields(cls)}
        given = {name: value for name, value in document.items() if name in known - set(PATHS)}
        for key, name in PATHS.items():
            if document.get(key):
                given[name] = named_in(folder, document[key])
        stages = tuple(StageRun(**stage) for stage in document["stages"])
        lines = {name: tuple(document.get(name, ())) for name in ("verdict", "notes")}
        return cls(**given | {"folder": folder, "stages": stages, **lines})

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Return the result of a finished run.

        Parameters
        ----------
        path : str or Path
            The folder of the run, or its result.json.

        Returns
        -------
        RunResult
            The result.

        Raises
        ------
        DataError
            There is none.
        """
        place = path_at(path)
        folder = place.parent if place.name == RESULT else place
        ended = not (folder / STATUS).is_file() or (folder / RESULT).is_file()
        state = "" if ended else f", its run is {read_status(folder)['state']}"
        require((folder / RESULT).is_file(), f"{path} holds no result{state}", error=DataError,
                why="it is written at the end of a run", fix="name the folder of a finished run: WORKSPACE/runs/RUN")
        return cls.of(read_result(folder / RESULT), folder.resolve())

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document of `dssl run --json`.

        Returns
        -------
        dict
            All attributes, with paths as text.
        """
        document = {item.name: getattr(self, item.name) for item in fields(self)}
        document |= {"stages": [stage.to_dict() for stage in self.stages], "verdict": list(self.verdict),
                     "notes": list(self.notes)}
        keys = {name: key for key, name in PATHS.items()}
        return {keys.get(name, name): str(value) if isinstance(value, Path) else value
                for name, value in document.items()}

    @property
    def workspace(self) -> Path:
        """The folder of the workspace."""
        return self.folder.parent.parent

    @property
    def spec(self) -> dict[str, Any]:
        """The spec as it was checked, with all defaults."""
        return read_spec(self.folder / SPEC)

    @property
    def dataset(self) -> Dataset:
        """The points and targets of the source, as they are stored.

        Reading it raises DataError if they were removed, as by `dssl gc
        --intermediate`.
        """
        address = next(stage.address for stage in self.stages if stage.name == "dataset")
        workspace = Workspace(self.workspace)
        require((workspace.folder_of("dataset", address) / "manifest.json").is_file(), error=DataError,
                what=f"the data set of the run {self.run} was removed", why="predictions do not need it",
                fix="run the pipeline again with from_stage='dataset'")
        artifact = workspace.artifact_in("dataset", address)
        return dataset_of(Context({"dataset": artifact}, {}, artifact.parts, current_execution()))

    def model(self, name: str = "model") -> FittedPipeline:
        """Return the fitted model, or a baseline's.

        Parameters
        ----------
        name : str
            "model", or the name of a baseline, such as "base".

        Returns
        -------
        FittedPipeline
            What predicts points.

        Raises
        ------
        DataError
            The run was stopped before it had a model, there is none of that name, or it
            was removed.
        """
        return open_model(self._models(), name)

    def predict(self, X: str | Path | MatrixLike, *, model: str = "model",
                execution: Execution | None = None) -> np.ndarray:
        """Return the predicted classes or quantities of points.

        Parameters
        ----------
        X : str, Path, DataFrame, array-like or sparse matrix
            The points as the training points were given: a source (a path, a URL, a
            pattern), a DataFrame with its columns, or an array or sparse matrix (m, d)
            of what these became, unscaled.
        model : str
            "model", or the name of a baseline.
        execution : Execution or None
            Where the tasks run; None is the active Dask client, or threads of this
            process.

        Returns
        -------
        ndarray, shape (m,)
            The classes or quantities.

        Warns
        -----
        OutOfRange
            Values are out of the range of the training points.
        UserWarning
            A category did not occur in the training data.
        """
        execution = execution or current_execution()
        fitted = self.model(model)
        return fitted.predict(_compared(fitted, X, execution), execution)

    def predict_proba(self, X: str | Path | MatrixLike, *, model: str = "model",
                      execution: Execution | None = None) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : str, Path, DataFrame, array-like or sparse matrix
            The points, as in `predict`.
        model : str
            "model", or the name of a baseline.
        execution : Execution or None
            Where the tasks run, as in `predict`.

        Returns
        -------
        ndarray, shape (m, n_classes)
            The probabilities, in the order of `classes`.

        Raises
        ------
        DataError
            The model has no probabilities.
        """
        execution = execution or current_execution()
        fitted = self.model(model)
        return fitted.predict_proba(_compared(fitted, X, execution), execution)

    def drift(self, X: str | Path | MatrixLike, *, execution: Execution | None = None) -> Drift:
        """Return how the distribution of new points differs from that of the training points.

        Parameters
        ----------
        X : str, Path, DataFrame, array-like or sparse matrix
            The points, as in `predict`.
        execution : Execution or None
            Where the tasks run, as in `predict`.

        Returns
        -------
        Drift
            What has changed, and whether chance explains it.

        Raises
        ------
        DataError
            The training points are sparse, or the run ended without a model.
        """
        fitted, execution = self.model(), execution or current_execution()
        return fitted.compared(fitted.rows_of(X, execution), execution).require_drift()

    def export(self, path: str | Path, *, model: str = "model", overwrite: bool = False) -> Path:
        """Write the model to one file, as `dssl export` does.

        Parameters
        ----------
        path : str or Path
            A path that ends in .zip or .onnx.
        model : str
            "model", or the name of a baseline.
        overwrite : bool
            Whether a file that holds no exported model is replaced too.

        Returns
        -------
        Path
            The path.
        """
        return self.model(model).export(path, overwrite=overwrite)

    def suggest(self, count: int = 10, *, criterion: Criterion = "auto", random_state: int = 0,
                execution: Execution | None = None) -> SuggestedRows:
        """Return which rows of the source to label next.

        Parameters
        ----------
        count : int
            How many rows.
        criterion : str
            By what rows are compared, as in `suggest_labels`.
        random_state : int
            The seed of every random choice.
        execution : Execution or None
            Where the tasks run, as in `predict`.

        Returns
        -------
        SuggestedRows
            The rows, the best first.

        Raises
        ------
        DataError
            The run learned from no labels, or holds fewer points without a label.
        ParameterError
            The kind of model has no graph, or predicts quantities, and the criterion
            asks for it.
        IntegrityError
            An artifact is damaged.
        """
        return suggest_rows(self.folder, execution or current_execution(), count=count, criterion=criterion,
                            random_state=random_state)

    @property
    def classes(self) -> np.ndarray:
        """The classes, in the order of the columns of probabilities.

        Reading it raises DataError where the model predicts quantities.
        """
        classes = getattr(self.model().model.coding, "classes", None)
        if classes is None:
            raise DataError(explain(f"{self.name} has no classes", why="it predicts quantities", fix="see metrics"))
        return classes

    def _models(self) -> Path:
        if self.model_path is None:
            raise DataError(explain(f"the run {self.run} has no model", why=f"it was stopped after {self.until}",
                                    fix="run the pipeline without --until"))
        return self.model_path


def _compared(fitted: FittedPipeline, X: str | Path | MatrixLike, execution: Execution) -> Rows:
    """Return points as rows that the model predicts; warn of values that are out of the range of the training points.
    """
    rows = fitted.rows_of(X, execution)
    warn_out_of_range(fitted.ranges, rows, execution, fitted.dataset.get("feature_names"), stacklevel=4)
    return rows
