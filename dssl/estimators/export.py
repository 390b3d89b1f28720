"""Write a fitted model as one file: a zip of JSON, arrays and the module `numpy_model.py`, which needs NumPy alone.

Or, of a model in one kernel, as an ONNX graph (`onnx_model.py`).
"""

import hashlib
import io
import json
import zipfile
from functools import singledispatch
from pathlib import Path

import numpy as np

from .. import __version__
from ..base.digest import JsonObject
from ..base.errors import DsslError, ParameterError, explain, require
from ..base.missing import MISSING
from ..base.types import Matrix
from ..data.columns import Columns
from ..data.ingest_params import IngestParams
from ..data.readers.cell_text import BOUND, NUMBER_GAPS, TRUTH, numbers_among
from ..data.scaling.scaling import Scaling
from ..data.table_cells import number_format
from ..graph.weights.rules import Binary, Heat, SelfTuned
from ..kernels.base import RBF, Cosine, LaplacianKernel, Linear, Polynomial
from ..knn.exact.blocks import DensePoints
from ..knn.metric import metric_of
from ..learners.kernel_family import KernelSum
from ..learners.linear.kernel_model import KernelModel
from ..learners.model import Model
from ..learners.on_graph.blend import BlendedModel
from ..learners.on_graph.model import GraphModel
from ..learners.probabilities import CALIBRATION, Calibration, TagCalibration
from ..learners.tags import TagModel
from ..learners.target.coding import ClassCoding, TagCoding
from ..storage.files import draft_of, names_in_zip, path_at, read_file, require_replaceable
from . import numpy_model
from .onnx_model import PRODUCER, write_onnx

MODULE = "dssl_model.py"  # the name of the loader in the file
Described = tuple[JsonObject, dict[str, np.ndarray]]  # a node of the model for JSON, and its arrays
FIX = "predict with dssl itself: `dssl predict`, or keep the estimator with `model.save(path)`"


def export_model(path: str | Path, model: Model, scaling: Scaling, calibration: Calibration | TagCalibration | None,
                 feature_names: list[str] | None = None, cells: JsonObject | None = None, *,
                 overwrite: bool = False) -> Path:
    """Write a model with the scaling of its features to a file that ends in .zip or .onnx; return its path.

    calibration : of the probabilities; None takes that of the model's attributes, if it has one. cells : how the cells
    of a table become the numbers of the features, `cells_of_table`, if it has others than numbers. overwrite : whether
    a file that holds no exported model is replaced too.

    Raises ParameterError: the model, its kernel, metric or weights are of a kind that the module does not evaluate;
    the path is a folder, its folder does not exist, or there is another file.
    """
    out = path_at(path)
    require(out.suffix in (".zip", ".onnx"), f"{out} ends in {out.suffix or 'nothing'}",
            why="the model is a zip file, or an ONNX graph", fix="name a path that ends in .zip or .onnx")
    require_replaceable(out, "exported models", _is_exported, overwrite=overwrite)
    node, arrays = _node(model, "model")
    known = model.attributes.get(CALIBRATION)
    of_classes = isinstance(model.coding, ClassCoding | TagCoding)
    described = {
        "format": numpy_model.FORMAT, "dssl": __version__, "n_features": model.n_features,
        "feature_names": feature_names, "cells": cells, "coding": model.coding.name,
        "classes": model.coding.classes.tolist() if of_classes else None,
        "classes_dtype": model.coding.classes.dtype.str, "rejects": model.rejects,
        "calibration": calibration.to_dict() if calibration is not None else known,
        "scaling": scaling.kind if scaling.kind in ("none", "unit_norm") else "columns",
        "model": node, "n_values": model.n_columns}
    stored, _ = scaling.to_arrays()
    arrays |= {f"scaling.{name}": array for name, array in stored.items()}
    once = dict[int, str]()  # the name of each array that is written; models of tags share some
    described["arrays"] = {name: once.setdefault(id(array), name) for name, array in arrays.items()}
    try:
        text = json.dumps(described, indent=1)
    except TypeError as error:
        raise _unknown(f"classes of type {model.coding.classes.dtype} cannot be exported") from error
    if out.suffix == ".onnx":
        with draft_of(out) as draft:
            write_onnx(draft, described, arrays)
        return out
    with draft_of(out) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", text)
        archive.write(numpy_model.__file__, MODULE)
        for name in once.values():
            with io.BytesIO() as buffer:
                np.save(buffer, arrays[name], allow_pickle=False)
                archive.writestr(f"{name}.npy", buffer.getvalue())
    return out


def cells_of_table(columns: Columns, read: IngestParams, decimal: str | None) -> JsonObject:
    """Return how the cells of a table become numbers, for `numpy_model`.

    read : how the table of the training points was read. decimal : its decimal mark.
    """
    words = {word: float(value) for line in TRUTH for value, some in enumerate(line) for word in some}
    missing, format = read.missing_texts, number_format(read, decimal)
    return {"columns": columns.describe()["columns"], "fills": columns.fill is not None,
            "dtype": np.dtype(read.dtype).name, "missing": [*MISSING, *missing], "gaps": list(NUMBER_GAPS),
            "missing_numbers": numbers_among(missing), "truths": words, "decimal": format.decimal,
            "number": format.pattern, "before_unit": format.before_unit, "marks": format.marks, "bound": BOUND}


def _is_exported(path: Path) -> bool:
    if path.suffix == ".zip":
        return MODULE in names_in_zip(path)
    return PRODUCER.encode() in bytes(read_file(path)[:64])  # an ONNX file begins with its producer


def _unknown(what: str) -> DsslError:
    return ParameterError(explain(what, why="an exported model is evaluated by NumPy alone, which has the common kinds",
                                  fix=FIX))


@singledispatch
def _node(model: Model, at: str) -> Described:
    """Return the node of a model whose arrays are named from `at` on."""
    raise _unknown(f"a {type(model).__name__} cannot be exported")


@_node.register
def _(model: TagModel, at: str) -> Described:
    nodes, arrays, equal = list[JsonObject](), _named(at, constants=model.constants), dict[str, np.ndarray]()
    for column, each in zip(model.learned, model.models, strict=True):
        node, stored = _node(each, f"{at}.{column}")
        nodes.append({**node, "column": column, "coding": each.coding.name, "rejects": each.rejects})
        arrays |= {name: equal.setdefault(_digest(array), array) for name, array in stored.items()}
    return {"type": "tags", "at": at, "models": nodes}, arrays


def _digest(array: np.ndarray) -> str:
    return f"{array.dtype.str} {array.shape} {hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()}"


@_node.register
def _(model: BlendedModel, at: str) -> Described:
    parts = {name: _node(getattr(model, name), f"{at}.{name}") for name in ("graph", "kernels", "supervised")}
    arrays = {key: array for _, some in parts.values() for key, array in some.items()}
    return {"type": "blend", "at": at, **{name: node for name, (node, _) in parts.items()}}, arrays


@_node.register
def _(model: GraphModel, at: str) -> Described:
    searched, rule = model.index.searched, model.rule
    metric = metric_of(searched.metric).name
    if metric not in ("euclidean", "cosine") or not isinstance(searched, DensePoints):
        what = "sparse points" if searched.rows.is_sparse else f"the metric {metric}"
        raise _unknown(f"a graph of {what} cannot be exported")
    if not isinstance(rule, Binary | Heat | SelfTuned):
        raise _unknown(f"weights={rule.name!r} cannot be exported")
    (layout,) = searched.layouts()
    points = np.empty_like(layout.rows)
    points[layout.ids] = layout.rows
    return ({"type": "graph", "at": at, "metric": metric, "k": model.k, "rule": rule.name, "scale": rule.scale},
            _named(at, points=points, values=model.values_at, reachable=model.reachable, scales=model.scales))


@_node.register
def _(model: KernelSum, at: str) -> Described:
    return ({"type": "kernel_sum", "at": at, "bandwidths": list(model.bandwidths)},
            _named(at, points=_dense(model.points), coef=model.coef, offset=model.offset))


@_node.register
def _(model: KernelModel, at: str) -> Described:
    kernel = model.kernel
    if not isinstance(kernel, RBF | LaplacianKernel | Linear | Polynomial | Cosine):
        raise _unknown(f"kernel={kernel!r} cannot be exported")
    return ({"type": "kernel", "at": at, "kernel": kernel.to_dict()},
            _named(at, points=_dense(model.points), coef=model.coef, intercept=model.intercept))


def _named(at: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{at}.{name}": np.asarray(array) for name, array in arrays.items()}


def _dense(points: Matrix) -> np.ndarray:
    return points.toarray() if hasattr(points, "toarray") else np.asarray(points)
