"""A fitted estimator as one file: a zip of `estimator.json` and of arrays, without pickles.

`estimator.json` is the tree of the estimator's attributes. Text, whole numbers, finite floats, True, False, None and
lists stand for themselves; everything else is a dict with one key that says what it is:

    {"array": NAME}                          the array in the member arrays/NAME.npy, named by its content
    {"model": {...}, "arrays": {...}}        a model, as the artifacts of runs hold it (`Model.to_arrays`)
    {"object": "module:Class", "state": ...} an estimator, or a dataclass of dssl, with its attributes
    {"kernel": {...}}, {"tuple": [...]}, {"dict": [[key, value], ...]}, {"float": "nan"}, ...

Reading a file creates instances of estimators and dataclasses of dssl, and runs no code that the file names. What
`export` writes cannot serve here: it keeps what predicts, not what was fitted.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from ..base.digest import JsonObject
from ..base.errors import DataError, IntegrityError, ParameterError, explain, require
from ..kernels.base import MercerKernel, kernel_from_dict
from ..knn.index import NeighborIndex
from ..learners.model import Model, model_type
from ..storage.files import archive_at, draft_of, names_in_zip, path_at, require_replaceable

FORMAT = 1
TREE = "estimator.json"
NODES = {"array", "scalar", "float", "masked", "objects", "tuple", "dict", "dtype", "path", "sparse", "kernel", "model",
         "index", "object"}
SPARSE = {name: getattr(sparse, name) for name in ("csr_array", "csr_matrix", "csc_array", "csc_matrix")}


class SavedEstimator(BaseEstimator):
    """An estimator that can be written to a file; `dssl.load` reads it."""

    def save(self, path: str | Path, *, report: bool = True, overwrite: bool = False) -> Path:
        """Write the fitted estimator to one file, which `dssl.load` reads.

        The file is a zip of JSON and arrays, without pickles. The loaded estimator
        predicts the same bits, and has `transduction_`, `evidence_` and the parameters.
        The points of the fit are not stored, apart from those that the model keeps.

        Parameters
        ----------
        path : str or Path
            The file, or the URL of an object; an estimator that was saved there is
            replaced when all of the new one is written.
        report : bool
            Whether the comparison with the supervised baseline is computed now, which
            takes a few fits, so that the loaded estimator has `by_labels_` and
            `report`.
        overwrite : bool
            Whether a file that is no saved estimator is replaced too.

        Returns
        -------
        Path
            The path.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            `fit` was not called.
        ParameterError
            A parameter is a function, or an object of another package. Or there is no such
            folder, or the path holds something else.

        Examples
        --------
        >>> import dssl
        >>> import numpy as np
        >>> from sklearn.datasets import make_moons
        >>> X, classes = make_moons(200, noise=0.05, random_state=0)
        >>> y = np.where(np.arange(200) < 10, classes, -1)
        >>> path = dssl.LapSVC().fit(X, y).save("moons.dssl")
        >>> dssl.load(path).score(X, classes)
        1.0
        """
        check_is_fitted(self)
        target = path_at(path)
        require_replaceable(target, "saved estimators", lambda path: TREE in names_in_zip(path), overwrite=overwrite)
        with draft_of(target) as draft, zipfile.ZipFile(draft, "w") as archive:
            writer = _Writer(archive, report)
            tree = {"format": FORMAT, "dssl": __version__, "estimator": writer.described(self, type(self).__name__)}
            archive.writestr(TREE, json.dumps(tree, indent=1, allow_nan=False))
        return target

    def _complete(self, report: bool) -> None:
        """Compute what needs the points of the fit, which are not stored."""


class _Writer:
    """Describes values as JSON, and writes their arrays to a zip, equal ones once."""

    def __init__(self, archive: zipfile.ZipFile, report: bool):
        self.archive, self.report, self.names = archive, report, set[str]()

    def described(self, value: object, at: str) -> Any:
        """Return a value as JSON; at : what it is, for errors."""
        if value is None or (isinstance(value, (bool, int, str)) and not isinstance(value, np.generic)):
            return value
        if isinstance(value, float) and not isinstance(value, np.generic):
            return value if np.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ma.MaskedArray):
            return {"masked": [self.described(value.data, at), self.described(np.ma.getmaskarray(value), at)]}
        if isinstance(value, np.generic):
            return {"scalar": self.array(np.asarray(value))}
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return {"objects": [self.described(each, at) for each in value.ravel()], "shape": list(value.shape)}
            return {"array": self.array(value)}
        if isinstance(value, (list, tuple)):
            items = [self.described(each, f"{at}[{number}]") for number, each in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if isinstance(value, Mapping):
            return {"dict": [[self.described(key, at), self.described(each, f"{at}[{key!r}]")]
                             for key, each in value.items()]}
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if isinstance(value, Path):
            return {"path": str(value)}
        if type(value).__name__ in SPARSE:
            matrix: Any = value
            parts = [self.array(array) for array in (matrix.data, matrix.indices, matrix.indptr)]
            return {"sparse": type(value).__name__, "arrays": parts, "shape": list(matrix.shape)}
        if isinstance(value, MercerKernel):
            return {"kernel": self.described(value.to_dict(), at)}
        if isinstance(value, Model):
            arrays, attributes = value.to_arrays()
            return {"model": self.described(attributes, at),
                    "arrays": {name: self.array(np.asarray(array)) for name, array in arrays.items()}}
        if isinstance(value, NeighborIndex):
            return {"index": self.described(value.attributes, at),
                    "arrays": {name: self.array(array) for name, array in value.to_arrays().items()}}
        return self.of_object(value, at)

    def of_object(self, value: Any, at: str) -> JsonObject:
        """Describe an estimator or a dataclass of dssl."""
        cls = type(value)
        if not _is_of_dssl(cls):
            raise ParameterError(explain(
                f"{at} is a {cls.__name__} of {cls.__module__}, which cannot be saved",
                why="a file without pickles holds no functions, and no objects of other packages",
                fix="give it by name, as in base_estimator='boosting'; of a search, save best_estimator_; or pickle "
                    "the estimator, and load pickles from trusted places alone"))
        if isinstance(value, SavedEstimator):
            for name, each in value.get_params(deep=False).items():
                self.described(each, f"{at}.{name}")  # raises before anything is computed
            value._complete(self.report)
        state = value.__getstate__() if isinstance(value, BaseEstimator) else {
            field.name: getattr(value, field.name) for field in fields(value)}
        state = {name: self.described(each, f"{at}.{name}") for name, each in state.items()}
        return {"object": f"{cls.__module__}:{cls.__qualname__}", "state": state}

    def array(self, array: np.ndarray) -> str:
        """Write an array unless an equal one is there; return its name."""
        with io.BytesIO() as head:
            np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
            digest = hashlib.sha256(head.getvalue())
        digest.update(np.ascontiguousarray(array.T if array.flags.fnc else array).reshape(-1).view(np.uint8).data)
        name = digest.hexdigest()[:32]
        if name not in self.names:
            self.names.add(name)
            with self.archive.open(f"arrays/{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        return name


def _is_of_dssl(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "dssl" and (is_dataclass(cls) or issubclass(cls, BaseEstimator))


def load_estimator(path: str | Path) -> Any:
    """Return the fitted estimator that `save` wrote.

    Raises DataError: there is no such file, or it is of another kind. IntegrityError: it is damaged, or was written by
    another version of dssl that stores it otherwise.
    """
    source = path_at(path)
    require(source.exists(), f"{path} does not exist", error=DataError, why="an estimator is read from it",
            fix="pass what `save` wrote, or the folder of a run")
    try:
        with archive_at(source) as archive:
            names = archive.namelist()
            require(TREE in names, error=DataError, what=f"{path} is no estimator that `save` wrote",
                    why="it was exported, for NumPy alone" if "dssl_model.py" in names else f"it has no {TREE}",
                    fix="put the file first in sys.path, import dssl_model, and call dssl_model.load(path)"
                    if "dssl_model.py" in names else "pass what `save` wrote, or the folder of a run")
            tree = json.loads(archive.read(TREE))
            require(tree["format"] <= FORMAT, f"{path} has format {tree['format']}", error=IntegrityError,
                    why=f"dssl {tree['dssl']} wrote it, and this is dssl {__version__}, which reads format {FORMAT}",
                    fix=f"install dssl {tree['dssl']} or newer")
            return _Reader(archive, f"{path}, which dssl {tree['dssl']} wrote,").value(tree["estimator"])
    except zipfile.BadZipFile as error:
        whole = str(error) == "File is not a zip file"
        raise (DataError if whole else IntegrityError)(explain(
            f"{path} is no estimator that `save` wrote, or is cut short" if whole else f"{path} is damaged: {error}",
            why="the file is a zip of JSON and arrays", fix="copy it again, or save the estimator again")) from error
    except (KeyError, AttributeError, TypeError, ValueError, NotImplementedError, StopIteration) as error:
        if isinstance(error, (DataError, IntegrityError)):
            raise
        raise IntegrityError(explain(f"{path} is damaged: {error!r}", why="its parts do not fit one another",
                                     fix="copy it again, or save the estimator again")) from error


class _Reader:
    """Makes values of what `_Writer` described; source : the file, for errors."""

    def __init__(self, archive: zipfile.ZipFile, source: str):
        self.archive, self.source, self.arrays = archive, source, dict[str, np.ndarray]()

    def value(self, node: object) -> Any:
        """Return the value of a node of the tree."""
        if isinstance(node, list):
            return [self.value(each) for each in node]
        if not isinstance(node, dict):
            return node
        kind = next(iter(node))
        if kind not in NODES:
            raise ValueError(f"a node of kind {kind!r}")
        return getattr(self, f"_{kind}")(node)

    def array(self, name: str) -> np.ndarray:
        """Return an array, one for all places that have it."""
        if name not in self.arrays:
            with self.archive.open(f"arrays/{name}.npy") as member:
                self.arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
        return self.arrays[name]

    def _array(self, node: JsonObject) -> np.ndarray:
        return self.array(node["array"])

    def _scalar(self, node: JsonObject) -> Any:
        return self.array(node["scalar"])[()]

    def _float(self, node: JsonObject) -> float:
        return float(node["float"])

    def _masked(self, node: JsonObject) -> np.ma.MaskedArray:
        return np.ma.masked_array(*map(self.value, node["masked"]))

    def _objects(self, node: JsonObject) -> np.ndarray:
        objects = np.empty(len(node["objects"]), object)
        objects[:] = self.value(node["objects"])
        return objects.reshape(node["shape"])

    def _tuple(self, node: JsonObject) -> tuple:
        return tuple(map(self.value, node["tuple"]))

    def _dict(self, node: JsonObject) -> dict:
        return {self.value(key): self.value(each) for key, each in node["dict"]}

    def _dtype(self, node: JsonObject) -> np.dtype:
        return np.dtype(node["dtype"])

    def _path(self, node: JsonObject) -> Path:
        return path_at(node["path"])

    def _sparse(self, node: JsonObject) -> sparse.sparray | sparse.spmatrix:
        return SPARSE[node["sparse"]](tuple(map(self.array, node["arrays"])), shape=tuple(node["shape"]))

    def _kernel(self, node: JsonObject) -> MercerKernel:
        return kernel_from_dict(self.value(node["kernel"]))

    def _model(self, node: JsonObject) -> Model:
        attributes = self.value(node["model"])
        return model_type(attributes).from_arrays({name: self.array(array) for name, array in node["arrays"].items()},
                                                  attributes)

    def _index(self, node: JsonObject) -> NeighborIndex:
        return NeighborIndex.from_arrays({name: self.array(array) for name, array in node["arrays"].items()},
                                         self.value(node["index"]))

    def _object(self, node: JsonObject) -> object:
        module, _, name = node["object"].partition(":")
        known = module.partition(".")[0] == "dssl"
        try:
            cls = getattr(import_module(module), name) if known else None
        except (ImportError, AttributeError):
            cls = None
        state = {key: self.value(each) for key, each in node["state"].items()}
        same = isinstance(cls, type) and _is_of_dssl(cls) and (
            not is_dataclass(cls) or {field.name for field in fields(cls)} == set(state))
        require(same, f"{self.source} holds a {name} of another form", error=IntegrityError,
                why=f"it is stored otherwise by this dssl {__version__}",
                fix="install the dssl that wrote it, or fit again")
        made: Any = object.__new__(cls)  # type: ignore[arg-type]  # it is a class, as `same` says
        made.__dict__.update(state)
        return made
