"""Predictions in tables and files of arrays: what NumPy and the csv module write of all, whatever the blocks."""

import csv
import io
from functools import partial

import numpy as np
import pytest
import zarr

from dssl import SemiSupervisedClassifier
from dssl.base.errors import DataError
from dssl.estimators import predict_to as predict_to_module
from dssl.estimators.predict_to import predict_to_zarr
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.learners.linear.kernel_model import KernelModel
from dssl.learners.model import predict_blocks
from dssl.learners.on_graph.blend import BlendedModel
from dssl.learners.probabilities import Calibration
from dssl.learners.target.coding import CODINGS, margins_of
from dssl.pipeline.predict import to_file as predict_to_file_module
from dssl.pipeline.predict.to_file import predict_to_file
from dssl.storage.blocks import ArrayRows, write_dense
from dssl.storage.store import StoredParts
from tests.memory import traced_peak

POINTS = np.random.default_rng(0).normal(size=(12, 3))
FAR = 2  # of the new points, of which the model says nothing


def model(coding, columns, classes, points=POINTS):
    rng = np.random.default_rng(len(points))
    return KernelModel(RBF(1.5), points, rng.normal(size=(len(points), columns)), rng.normal(size=columns),
                       CODINGS[coding](np.array(classes)), {"n_labeled": 12})


def new_points(n):
    X = np.random.default_rng(1).normal(size=(n, 3))
    X[:FAR] += 1000
    return X


def as_table(made, X, empty, *, rejects):
    """Return what the csv module makes of the rows, labels or values, leads of labels, and which reject."""
    text, labels, values = io.StringIO(), made.predict(X), made.values(X)
    head = [made.coding.written_as] if labels.ndim == 1 else [f"value {j}" for j in range(labels.shape[1])]
    lines = [[row, *("" if none else own for own in np.atleast_1d(label).tolist())]
             for row, (label, none) in enumerate(zip(labels, empty, strict=True))]
    if made.coding.written_as == "label":
        head.append("score")
        margins, codes = margins_of(values, made.coding), made.coding.codes(values)
        for line, own, code, none in zip(lines, margins.tolist(), codes.tolist(), empty, strict=True):
            line.append("" if none else f"{own.pop(code) - max(own):.9g}")
    if rejects:
        head.append("rejected")
        for line, none in zip(lines, empty, strict=True):
            line.append("true" if none else "false")
    csv.writer(text, lineterminator="\n").writerows([["row", *head], *lines])
    return text.getvalue()


def cells(text):
    """Return the lines of a table, their numbers as such."""
    return [[float(cell) if cell[:1].isdigit() or cell[:1] == "-" else cell for cell in line]
            for line in csv.reader(io.StringIO(text))]


def assert_same_table(path, expected):
    """Compare two texts, their numbers up to the rounding of sums in blocks of another height."""
    assert cells(path.read_text()) == [
        [pytest.approx(cell, rel=1e-8) if isinstance(cell, float) else cell for cell in line]
        for line in cells(expected)]


@pytest.mark.parametrize(("coding", "columns", "classes", "absent"), [
    ("one_vs_rest", 3, ["a", 'the "b"', "ccc"], None), ("one_vs_one", 3, [3, 4, 9], -1),
    ("one_vs_rest", 1, [0.5, 1.5], None), ("one_vs_rest", 1, [False, True], None),
    ("values", 1, [], np.nan), ("values", 2, [], None)])
@pytest.mark.parametrize("n", [0, 150])
def test_a_file_holds_what_the_model_predicts(coding, columns, classes, absent, n, tmp_path):
    made, X = model(coding, columns, classes), new_points(n)
    same = partial(np.testing.assert_allclose, rtol=1e-11) if coding == "values" else np.testing.assert_array_equal
    labels, far = made.predict(X), np.arange(n) < FAR
    for budget in (6000, 1 << 30):  # blocks of some 15 rows, and one
        execution = InProcess(2, budget)
        facts = predict_to_file(made, X, tmp_path / "all.npy", execution)
        same(np.load(tmp_path / "all.npy"), labels)
        assert np.load(tmp_path / "all.npy").dtype == labels.dtype
        assert (facts["n"], facts["unsupported"]) == (n, int(far.sum()))
        predict_to_file(made, X, tmp_path / "all.csv", execution)
        assert_same_table(tmp_path / "all.csv", as_table(made, X, far & False, rejects=False))
        predict_to_file(made, X, tmp_path / "some.csv", execution, reject=True)
        assert_same_table(tmp_path / "some.csv", as_table(made, X, far, rejects=True))
        if n and absent is None and classes:
            with pytest.raises(DataError, match="2 points get no label"):
                predict_to_file(made, X, tmp_path / "some.npy", execution, reject=True)
            assert not (tmp_path / "some.npy").exists()
        elif n and absent is not None:
            predict_to_file(made, X, tmp_path / "some.npy", execution, reject=True)
            same(np.load(tmp_path / "some.npy"), np.where(far, absent, labels))
    assert {path.name for path in tmp_path.iterdir()} <= {"all.npy", "all.csv", "some.csv", "some.npy"}


def test_predictions_into_one_file_at_once_do_not_mix(tmp_path, monkeypatch):
    """The last to finish is the file, whole; an array of Zarr is not replaced."""
    made, X, others = model("one_vs_rest", 3, ["a", "b", "c"]), new_points(100), new_points(70)[::-1]
    blocks, out = predict_blocks, tmp_path

    def interrupted(*given):
        receipts = blocks(*given)
        with monkeypatch.context() as undone:
            undone.setattr(module, "predict_blocks", blocks)
            write(made, others, out, InProcess(1, 6000))
        return receipts

    for name, module in (("p.csv", predict_to_file_module), ("p.npy", predict_to_file_module),
                         ("p.zarr", predict_to_module)):
        out, write = tmp_path / name, predict_to_zarr if name == "p.zarr" else predict_to_file
        with monkeypatch.context() as patched:
            patched.setattr(module, "predict_blocks", interrupted)
            if name == "p.zarr":
                with pytest.raises(DataError, match=r"(?s)p\.zarr exists.*in the meantime"):
                    write(made, X, out, InProcess(1, 6000))
            else:
                write(made, X, out, InProcess(1, 6000))
    with open(tmp_path / "p.csv", newline="") as file:
        assert [row["label"] for row in csv.DictReader(file)] == made.predict(X).tolist()
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), made.predict(X))
    assert zarr.open_array(str(tmp_path / "p.zarr"), mode="r").shape == (70,)
    assert {path.name for path in tmp_path.iterdir()} == {"p.csv", "p.npy", "p.zarr"}


def test_the_file_of_an_array_is_that_of_numpy(tmp_path):
    made, X = model("one_vs_rest", 3, ["a", "b", "c"]), new_points(100)
    predict_to_file(made, X, tmp_path / "ours.npy", InProcess(1, 6000))
    np.save(tmp_path / "theirs.npy", made.predict(X))
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()


def test_probabilities_stand_beside_labels_or_in_their_place(tmp_path):
    made, X, calibration = model("one_vs_rest", 3, ["a", "b", "c"]), new_points(100), Calibration(1.3, np.ones(3, bool))
    expected = calibration.probabilities(margins_of(made.values(X), made.coding))
    far, labels = np.arange(100) < FAR, made.predict(X)
    expected[far] = np.nan
    for budget in (6000, 1 << 30):
        given = {"reject": True, "calibration": calibration}
        for name in ("p.npy", "p.csv", "p.npz"):
            predict_to_file(made, X, tmp_path / name, InProcess(1, budget), of_all=True, **given)
        np.testing.assert_allclose(np.load(tmp_path / "p.npy"), expected, rtol=1e-12)
        head, *rows = csv.reader((tmp_path / "p.csv").read_text().splitlines())
        assert head == ["row", "label", "probability", "rejected", "probability a", "probability b", "probability c"]
        assert rows[0] == ["0", "", "", "true", "", "", ""]
        np.testing.assert_allclose(np.array([row[4:] for row in rows[FAR:]], float), expected[FAR:], rtol=1e-8)
        np.testing.assert_allclose([float(row[2]) for row in rows[FAR:]], expected[FAR:].max(axis=1), rtol=1e-8)
        assert [row[1] for row in rows[FAR:]] == labels[FAR:].tolist()
        with np.load(tmp_path / "p.npz") as found:
            assert set(found) == {"row", "label", "probability", "rejected", "probabilities", "classes"}
            np.testing.assert_array_equal(found["row"], np.arange(100))
            np.testing.assert_array_equal(found["label"], np.where(far, "", labels))
            np.testing.assert_array_equal(found["rejected"], far)
            np.testing.assert_allclose(found["probabilities"], expected, rtol=1e-12)
            np.testing.assert_allclose(found["probability"], expected.max(axis=1), rtol=1e-12)
            assert found["classes"].tolist() == ["a", "b", "c"]


@pytest.mark.slow
def test_the_memory_of_a_prediction_is_that_of_a_block_whatever_the_number_of_points(tmp_path):
    """A block of the kernel, and the model; and the lines of a table, beside a chunk of what they are made of."""
    made = model("one_vs_rest", 3, ["a", "b", "c"], np.random.default_rng(3).normal(size=(500, 3)))
    budget, peaks = 2_000_000, {}
    for n in (5_000, 20_000):
        rows = write_dense(ArrayRows(new_points(n)), StoredParts(tmp_path / str(n)), "X", 1000)
        for kind in ("npy", "csv"):
            peaks[n, kind] = traced_peak(
                lambda rows=rows, out=tmp_path / f"out.{kind}": predict_to_file(made, rows, out, InProcess(1, budget)),
                1.25 * budget)
    held = made.points.nbytes + made.coef.nbytes + made.intercept.nbytes
    height = made.block_height(rows, budget, held)
    formula = held + made.fixed_bytes(rows) + height * made.row_bytes(rows)
    assert 0.5 * budget < formula <= budget
    for (n, kind), peak in peaks.items():
        assert peak <= 1.25 * formula, (n, kind)
        assert peak >= 0.5 * formula, (n, kind)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_memory_of_the_default_model_is_that_of_a_block_whatever_the_number_of_points(tmp_path):
    """Ten million rows take what a few thousand take: the graph's index, the kernels, and a block of both."""
    X = np.random.default_rng(0).normal(size=(1_000, 20)).astype(np.float32)
    classes = (X[:, 0] + X[:, 1] > 0).astype(int)
    made = SemiSupervisedClassifier().fit(X, np.where(np.arange(len(X)) < 60, classes, -1)).model_
    assert isinstance(made, BlendedModel)
    budget, held, peaks = 4_000_000, made.shared(InProcess(1)).arrays.nbytes, {}
    for n in (3_000, 9_000):
        rows = write_dense(ArrayRows(np.tile(X, (n // len(X), 1))), StoredParts(tmp_path / str(n)), "X", 1000)
        peaks[n] = traced_peak(
            lambda rows=rows: predict_to_file(made, rows, tmp_path / "out.npy", InProcess(1, budget)), 1.25 * budget)
    height = made.block_height(rows, budget, held)
    formula = held + made.fixed_bytes(rows) + height * made.row_bytes(rows)
    assert 0.5 * budget < formula <= budget
    for n, peak in peaks.items():
        assert 0.4 * formula <= peak <= 1.25 * formula, n
