"""A fitted function of a kernel: what it predicts, and how it is stored."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from dssl.base.errors import DataError, IntegrityError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF, Linear, Polynomial
from dssl.kernels.deformed import landmark_deformation
from dssl.learners.linear.kernel_model import MIN_SUPPORT, KernelModel, expand
from dssl.learners.model import (
    MODELS,
    BlockValues,
    PredictTask,
    model_type,
    predict_blocks,
    register_model,
    stored_models,
)
from dssl.learners.target.coding import CODINGS, OneVsRest, Values
from dssl.storage.blocks import ArrayRows, budget_beside
from dssl.storage.store import StoredParts
from tests import reference

RNG = np.random.default_rng(0)
POINTS, NEW = RNG.normal(size=(12, 3)), RNG.normal(size=(7, 3))


def model(coding="one_vs_rest", columns=3, classes=("a", "b", "c"), kernel=None):
    return KernelModel(kernel or RBF(1.5), POINTS, RNG.normal(size=(12, columns)), RNG.normal(size=columns),
                       CODINGS[coding](np.array(classes)), {"n_labeled": 12})


def test_values_are_the_formula():
    made = model()
    assert_allclose(made.values(NEW), made.kernel(NEW, POINTS) @ made.coef + made.intercept, rtol=1e-12)
    assert_array_equal(made.predict(NEW), np.array(["a", "b", "c"])[np.argmax(made.values(NEW), axis=1)])


@pytest.mark.parametrize(("coding", "columns", "classes", "shape", "dtype"), [
    ("one_vs_one", 3, ["a", "b", "c"], (0,), "U"), ("one_vs_rest", 2, [4, 9], (0,), "i"),
    ("values", 1, [], (0,), "f"), ("values", 2, [], (0, 2), "f"),
])
def test_no_rows_give_no_predictions(coding, columns, classes, shape, dtype):
    found = model(coding, columns, classes).predict(np.empty((0, 3)))
    assert found.shape == shape
    assert found.dtype.kind == dtype


@pytest.mark.parametrize("shape", [(5, 2), (5, 4), (3,), (2, 3, 1)])
def test_other_features_are_an_error(shape):
    with pytest.raises(DataError, match="the model was fitted on 3 features"):
        model().values(np.zeros(shape))


def test_votes_are_counted_and_ties_parted_by_margins():
    coding = model("one_vs_one").coding
    # Columns: a against b, a against c, b against c; positive for the first of the pair.
    values = np.array([[1.0, 1, 1], [-1, 1, 1], [-1, -1, -1], [2, -1, 1], [0.5, -1, 2]])
    scores = coding.scores(values)
    assert_array_equal(coding.codes(values), [0, 1, 2, 0, 1])  # a cycle in the last two rows: the larger margins win
    assert_allclose(scores[0], [2 + 2 / 9, 1 + 0, -2 / 9], atol=1e-12)
    assert (np.abs(scores - np.round(scores)) < 1 / 3).all()


@pytest.mark.parametrize("classes", [["a", "b", "c"], [3, 4, 9], [0.5, 1.0, 2.5]])
@pytest.mark.parametrize("kernel", [RBF(1.5), Polynomial(2, 0.5, 1.0), Linear()])
def test_arrays_and_back(classes, kernel):
    made = model("one_vs_one", 3, classes, kernel)
    arrays, attributes = made.to_arrays()
    again = KernelModel.from_arrays(arrays, json.loads(json.dumps(attributes)))
    assert again.kernel == kernel
    assert again.attributes == {"n_labeled": 12}
    assert_array_equal(again.coding.classes, made.coding.classes, strict=True)
    assert_array_equal(again.values(NEW), made.values(NEW))
    assert_array_equal(again.predict(NEW), made.predict(NEW), strict=True)


def test_booleans_and_values_come_back():
    arrays, attributes = model("one_vs_one", 1, [False, True]).to_arrays()
    assert KernelModel.from_arrays(arrays, json.loads(json.dumps(attributes))).predict(NEW).dtype == bool
    arrays, attributes = model("values", 2, []).to_arrays()
    assert KernelModel.from_arrays(arrays, json.loads(json.dumps(attributes))).predict(NEW).shape == (7, 2)


def test_another_noun_or_version_is_refused():
    arrays, attributes = model().to_arrays()
    for change in ({"type": "DeformedKernel"}, {"version": 99}):
        with pytest.raises(IntegrityError, match="is not a KernelModel"):
            KernelModel.from_arrays(arrays, attributes | change)


def test_a_function_as_kernel_cannot_be_stored():
    with pytest.raises(ParameterError, match="cannot be stored"):
        model(kernel=lambda X, Z: X @ Z.T).to_arrays()


def test_a_deformed_kernel_is_rewritten_in_its_base_kernel():
    A = np.linalg.inv(np.cov(RNG.normal(size=(5, 40))) + np.eye(5))
    kernel = landmark_deformation(RBF(1.5), POINTS[:5], A, 3.0)
    coef, intercept = RNG.normal(size=(12, 2)), np.array([0.5, -1.0])
    made = expand(kernel, POINTS, coef, intercept, Values())
    assert made.kernel == RBF(1.5)
    assert made.points.shape == (17, 3)
    assert_allclose(made.values(NEW), kernel(NEW, POINTS) @ coef + intercept, rtol=1e-9, atol=1e-12)
    plain = expand(RBF(1.5), POINTS, coef, intercept, Values())
    assert_array_equal(plain.points, POINTS)


def test_support_is_the_largest_kernel_value_relative_to_the_diagonal():
    rng = np.random.default_rng(0)
    points, new = rng.normal(size=(6, 2)), np.concatenate([rng.normal(size=(9, 2)), [[1e3, 0.0]]])
    model = KernelModel(RBF(0.5), points, rng.normal(size=(6, 2)), np.array([0.5, -2.0]), OneVsRest(np.arange(2)))
    execution = InProcess(2, memory_budget=3000)
    (values, unsupported), support = model.values_and_unsupported(new, execution), model.support(new, execution)
    assert_allclose(support, reference.rbf(new, points, 0.5).max(axis=1), rtol=1e-12)
    assert_allclose(values, model.values(new), rtol=1e-12)
    assert_array_equal(values[-1], [0.5, -2.0])  # the intercept alone
    assert support[-1] < MIN_SUPPORT
    assert_array_equal(unsupported, support < MIN_SUPPORT)
    assert_allclose(model.support(new), support, rtol=1e-12)
    assert model.support(np.empty((0, 2))).shape == (0,)
    linear = KernelModel(Linear(), points, np.ones((6, 1)), np.zeros(1), Values())
    expected = np.abs(new @ points.T).max(axis=1) / (points**2).sum(axis=1).max()
    assert_allclose(linear.support(new), expected, rtol=1e-12)
    with pytest.raises(DataError, match="fitted on 2 features"):
        model.support(np.zeros((3, 5)))


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 40), rows=st.integers(1, 45), threads=st.integers(1, 3))
def test_values_and_support_do_not_depend_on_blocks_nor_threads(n, rows, threads):
    X, kernel = np.random.default_rng(n).normal(size=(n, 3)), RBF(1.2)
    made = model(kernel=kernel)
    held = made.points.nbytes + made.coef.nbytes + made.intercept.nbytes
    execution = InProcess(threads, budget_beside(held + 24 * 12 * 3 + rows * (kernel.row_bytes(3, 12) + 8 * 3)))
    assert made.block_height(ArrayRows(X), execution.memory_budget, held) == min(rows, n)
    assert_allclose(made.values(X, execution), kernel(X, POINTS) @ made.coef + made.intercept, rtol=1e-11, atol=1e-13)
    assert_allclose(made.support(X, execution), kernel(X, POINTS).max(axis=1), rtol=1e-13)


def test_any_function_is_a_kernel_of_a_model_that_is_not_stored():
    made = model(kernel=lambda A, B: rbf_kernel(A, B))
    found = made.values(NEW, InProcess(1, 3000))
    assert_allclose(found, rbf_kernel(NEW, POINTS) @ made.coef + made.intercept, rtol=1e-12)


def test_stored_rows_and_a_stored_model_go_to_tasks_as_their_paths(tmp_path):
    X, made, parts = np.random.default_rng(2).normal(size=(20, 3)), model(), StoredParts(tmp_path)
    parts.allocate("X", X.shape, X.dtype, 8)
    for start in range(0, 20, 8):
        parts.write_range(start, {"X": X[start:start + 8]})
    arrays, attributes = made.to_arrays()
    parts.write(0, {f"mine.{name}": array for name, array in arrays.items()})
    shared, out = stored_models(parts, {"mine": attributes}), StoredParts(tmp_path / "found")
    predict_blocks(parts.rows("X"), shared, BlockValues(), InProcess(2), out)
    assert_allclose(out.rows("values").read_all(), made.values(X), rtol=1e-11)
    assert len(pickle.dumps(PredictTask(parts.rows("X"), shared, BlockValues(), 0, 8))) < 2000


def test_interrupted_predictions_resume_with_what_is_missing(tmp_path):
    X, parts, calls = np.random.default_rng(3).normal(size=(20, 3)), StoredParts(tmp_path), []

    def kernel(A, B):
        if len(A) == 5:  # a block of rows; the diagonal is asked of the points themselves
            calls.append(len(A))
            if len(calls) == 2:
                raise OSError("the disk is gone")
        return A @ B.T

    made = model(kernel=kernel)
    held = made.points.nbytes + made.coef.nbytes + made.intercept.nbytes
    execution = InProcess(1, budget_beside(held + 24 * 12 * 3 + 5 * (24 * 12 + 16 * 3 + 8 * 3)))
    shared = made.shared(execution)
    with pytest.raises(OSError, match="disk"):
        predict_blocks(ArrayRows(X), shared, BlockValues(), execution, parts)
    predict_blocks(ArrayRows(X), shared, BlockValues(), execution, parts)
    assert_allclose(parts.rows("values").read_all(), X @ POINTS.T @ made.coef + made.intercept, rtol=1e-13)
    assert calls == [5, 5, 5, 5, 5], "four blocks, one of them twice"


def test_a_model_of_another_type_is_registered_and_opened(monkeypatch):
    class Shifted(KernelModel):
        @classmethod
        def from_arrays(cls, arrays, attributes):
            found = KernelModel.from_arrays(arrays, attributes | {"type": "KernelModel"})
            return cls(found.kernel, found.points, found.coef, found.intercept + 1.0, found.coding)

    arrays, attributes = model().to_arrays()
    attributes["type"] = "Shifted"
    with pytest.raises(IntegrityError, match="no model is of type 'Shifted'"):
        model_type(attributes)
    monkeypatch.setattr("dssl.learners.model.MODELS", dict(MODELS))
    register_model("Shifted", Shifted)
    opened = model_type(attributes).from_arrays(arrays, attributes)
    assert_allclose(opened.values(NEW), RBF(1.5)(NEW, POINTS) @ arrays["coef"] + arrays["intercept"] + 1.0, rtol=1e-12)
