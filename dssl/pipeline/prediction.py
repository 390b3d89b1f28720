"""Open the model of a run, to predict new points."""

from pathlib import Path

import numpy as np

from ..blocks import Rows, as_rows
from ..data.scaling import ScaledRows, Scaling
from ..data.store import StoredParts, read_json
from ..errors import DataError, explain
from ..execution import Execution
from ..models.base import KernelModel
from .artifacts import read_manifest
from .training import load_model


class FittedPipeline:
    """A model with the scaling of its training points: predicts raw points."""

    def __init__(self, scaling: Scaling, model: KernelModel):
        self.scaling, self.model = scaling, model

    def predict(self, X: Rows, execution: Execution | None = None) -> np.ndarray:
        """Return the predicted labels of raw points X (n, d), shape (n,)."""
        return self.model.predict(ScaledRows(as_rows(X), self.scaling), execution)


def open_model(path: str | Path, name: str = "model") -> FittedPipeline:
    """Return a fitted pipeline from the folder that a result names as "model", or from the result.json itself.

    Raises
    ------
    DataError : there is no model. IntegrityError : it is damaged.
    """
    folder = Path(path)
    if folder.name == "result.json" and folder.is_file():
        folder = Path(read_json(folder)["model"])
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        raise DataError(explain(f"{path} holds no model", why="a model is the folder of a finished run's models stage",
                                fix='pass the "model" path of `dssl run --json`, or the result.json of the run'))
    described = read_manifest(manifest)
    models = described["attributes"].get("models", {})
    if name not in models:
        raise DataError(explain(f"{folder} has no model named {name!r}", why="the run fitted no such model",
                                fix=f"choose one of {', '.join(models)}"))
    points = folder.parent.parent / "points" / described["inputs"]["points"][:24]
    scaling = Scaling.from_arrays(StoredParts(points).within("scaling").read(0),
                                  read_manifest(points / "manifest.json")["attributes"]["scaling"])
    return FittedPipeline(scaling, load_model(StoredParts(folder).read(0), models, name))
