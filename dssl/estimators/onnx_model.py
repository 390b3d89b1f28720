"""Write an exported kernel model as an ONNX graph of standard operators.

The input is `X` (n, d), float32, before scaling. The outputs of a classifier are `label` (n,), and `probabilities`
(n, n_classes) where the model is calibrated, else `scores`; of a regressor `values` (n, c). Computed in float64
between, since the squared distances of a kernel cancel, and returned in float32. NaN in X is a missing cell of a table
whose missing cells became the means of their columns.
"""

import json
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base.digest import JsonObject
from ..base.errors import ParameterError, explain, require

OPSET = 17
PRODUCER = "dssl"
IR_VERSION = 8  # of the first release with this opset, so that older runtimes read the file
LARGEST = (1 << 31) - (1 << 20)  # bytes of the numbers of a model; protobuf ends at 2 GiB
Described = tuple[str, str, list[str | int]]  # an output by its name, its type and its shape
FIX = "export to a .zip, which NumPy alone predicts with, or fit LapSVC, LapRLSClassifier or LapRLSRegressor"


def write_onnx(path: Path, described: JsonObject, arrays: dict[str, np.ndarray]) -> None:
    """Write a model as `export_model` describes it."""
    node = described["model"]
    require(node["type"] == "kernel", f"a model of type {node['type']!r}, such as that of "
            "SemiSupervisedClassifier, cannot be written as ONNX", fix=FIX,
            why="it searches neighbors or sums several kernels, and an ONNX file holds one kernel")
    require(node["kernel"]["type"] != "laplacian", "a laplacian kernel cannot be written as ONNX", fix=FIX,
            why="sums of absolute differences are no product of matrices, and would hold n x m x d numbers")
    columns = described["cells"]["columns"] if described["cells"] else []
    texts = [column["name"] for column in columns if column["kind"] == "category"]
    require(not texts, f"columns of text, such as {next(iter(texts), '')!r}, cannot be written as ONNX",
            why="its input X is a matrix of numbers", fix="export to a .zip, whose module reads tables with text")
    size = 8 * sum(array.size for array in arrays.values())
    require(size < LARGEST, f"the model has {size:,} bytes of numbers", fix="export to a .zip, or take fewer landmarks",
            why="an ONNX file is of at most 2 GiB")
    try:
        import onnx
    except ImportError as error:
        raise ParameterError(explain("ONNX needs the package onnx", why="it is an optional dependency",
                                     fix='pip install onnx')) from error
    graph = _Graph(onnx)
    X = graph.add("Cast", "X", to=onnx.TensorProto.DOUBLE)
    fills = [column.get("fill") for column in columns]
    if None not in fills and fills:
        X = graph.add("Where", graph.add("IsNaN", X), np.array(fills, np.float64), X)
    values = _kernel_values(graph, node, _scaled(graph, X, described, arrays), arrays)
    outputs: list[Described] = [("values", "FLOAT", ["n", len(arrays[f"{node['at']}.intercept"])])]
    if described["classes"] is None:
        graph.add("Cast", values, name="values", to=onnx.TensorProto.FLOAT)
    else:
        outputs = _classes(graph, described, values)
    tensors = onnx.helper.make_tensor_value_info
    model = onnx.helper.make_model(onnx.helper.make_graph(
        graph.nodes, "dssl", [tensors("X", onnx.TensorProto.FLOAT, ["n", described["n_features"]])],
        [tensors(name, getattr(onnx.TensorProto, kind), shape) for name, kind, shape in outputs], graph.constants),
        producer_name=PRODUCER, producer_version=described["dssl"], ir_version=IR_VERSION,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)])
    onnx.helper.set_model_props(model, {"feature_names": json.dumps(described["feature_names"]),
                                        "classes": json.dumps(described["classes"])})
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


class _Graph:
    """Nodes in their order, and the constants that they read; values are named by what they are."""

    def __init__(self, onnx: ModuleType):
        self.onnx, self.nodes, self.constants = onnx, list[Any](), list[Any]()

    def add(self, operator: str, *inputs: str | ArrayLike, name: str | None = None, **attributes: float) -> str:
        """Add a node; return the name of its output. Inputs are names, or arrays and numbers, which become constants.
        """
        output = name or f"{operator.lower()}_{len(self.nodes)}"
        read = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        self.nodes.append(self.onnx.helper.make_node(operator, read, [output], **attributes))
        return output

    def constant(self, value: ArrayLike) -> str:
        """Add a constant; floats are float64."""
        array = np.asarray(value)
        array = np.ascontiguousarray(array, np.float64) if array.dtype.kind == "f" else array
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def squares(self, rows: str) -> str:
        """Return the sums of squares of rows, (n, 1)."""
        return self.add("ReduceSum", self.add("Mul", rows, rows), np.array([1]), keepdims=1)

    def unit(self, rows: str) -> str:
        """Return rows of length 1; zero rows stay."""
        length = self.add("Sqrt", self.squares(rows))
        is_zero = self.add("Equal", length, 0.0)
        return self.add("Div", rows, self.add("Where", is_zero, 1.0, length))


def _scaled(graph: _Graph, X: str, described: JsonObject, arrays: dict[str, np.ndarray]) -> str:
    if described["scaling"] == "unit_norm":
        return graph.unit(X)
    if len(arrays["scaling.lower"]):
        X = graph.add("Min", graph.add("Max", X, arrays["scaling.lower"]), arrays["scaling.upper"])
    if described["scaling"] == "none":
        return X
    return graph.add("Mul", graph.add("Sub", X, arrays["scaling.shift"]), arrays["scaling.factor"])


def _kernel_values(graph: _Graph, node: JsonObject, X: str, arrays: dict[str, np.ndarray]) -> str:
    """Return the values (n, c): a block of the kernel times the coefficients, plus the intercept."""
    kernel = node["kernel"]
    Z, coef, intercept = (arrays[f"{node['at']}.{name}"].astype(np.float64) for name in ("points", "coef", "intercept"))
    if kernel["type"] == "rbf":
        center = Z.mean(axis=0)
        X, Z = graph.add("Sub", X, center), Z - center
        products = graph.add("Gemm", X, Z, (Z**2).sum(axis=1)[None], alpha=-2.0, transB=1)
        squared = graph.add("Max", graph.add("Add", products, graph.squares(X)), 0.0)
        block = graph.add("Exp", graph.add("Mul", squared, -0.5 / kernel["bandwidth"] ** 2))
    elif kernel["type"] == "cosine":
        lengths = np.linalg.norm(Z, axis=1, keepdims=True)
        block = graph.add("Gemm", graph.unit(X), Z / np.where(lengths > 0, lengths, 1.0), transB=1)
    else:
        block = graph.add("Gemm", X, Z, transB=1)
        if kernel["type"] == "polynomial":
            block = graph.add("Add", graph.add("Mul", block, float(kernel["scale"])), float(kernel["offset"]))
            block = graph.add("Pow", block, float(kernel["degree"]))
    return graph.add("Gemm", block, coef, intercept[None])


def _classes(graph: _Graph, described: JsonObject, values: str) -> list[Described]:
    """Add the label and the probabilities or scores of values; return what describes these outputs."""
    proto = graph.onnx.TensorProto
    names = np.array(described["classes"], described["classes_dtype"])
    kinds = {"i": ("INT64", np.int64), "u": ("INT64", np.int64), "f": ("DOUBLE", np.float64), "b": ("BOOL", np.bool_)}
    kind, dtype = kinds.get(names.dtype.kind, ("STRING", object))
    n_classes = len(names)
    if described["coding"] == "one_vs_one":
        differences = np.zeros((n_classes * (n_classes - 1) // 2, n_classes))
        for row, (i, j) in enumerate(combinations(range(n_classes), 2)):
            differences[row, [i, j]] = 1.0, -1.0
        signs = graph.add("Where", graph.add("Greater", values, 0.0), 1.0, -1.0)
        lead = graph.add("MatMul", signs, differences)
        sums = graph.add("MatMul", values, differences)
        share = graph.add("Div", sums, graph.add("Mul", graph.add("Add", graph.add("Abs", sums), 1.0), 3.0))
        scores = graph.add("Add", graph.add("Div", graph.add("Add", lead, n_classes - 1.0), 2.0), share)
        margins = graph.add("Div", sums, float(n_classes))
    else:
        one_column = n_classes == 2 and described["n_values"] == 1
        margins = scores = graph.add("MatMul", values, np.array([[-1.0, 1.0]])) if one_column else values
    best = graph.add("ArgMax", scores, axis=1, keepdims=0)
    graph.add("Gather", names.astype(dtype), best, name="label")
    calibration = described["calibration"]
    if calibration is None:
        graph.add("Cast", scores, name="scores", to=proto.FLOAT)
    else:
        absent = np.where(calibration["present"], np.array(calibration.get("decision", 0.0)), np.inf)
        logs = graph.add("Sub", graph.add("Mul", margins, float(calibration["slope"])), absent)
        graph.add("Cast", graph.add("Softmax", logs, axis=1), name="probabilities", to=proto.FLOAT)
    return [("label", kind, ["n"]), ("scores" if calibration is None else "probabilities", "FLOAT", ["n", n_classes])]
