"""What the stages of `model.kind: laprls` take, in the terms of `costs.py`."""

import warnings
from dataclasses import replace
from typing import Any

from ...execution.cost import Cost, cost_of, count
from ...kernels.centers import SAMPLE_BYTES, SAMPLE_PER_CENTER
from ...kernels.gram import BLOCK_BYTES
from ...kernels.landmarks import landmark_count
from ...kernels.leverage import PILOT
from ...learners.laprls.dense import chunk_bytes
from ...learners.laprls.gram import SYSTEMS_IN_A_TASK, runs_within
from ...learners.laprls.iterations import factors_that_fit
from ...learners.laprls.preconditioner import sample_shares
from ...learners.laprls.problem import DENSE
from ...learners.laprls.products import block_bytes, gram_bytes
from ...learners.laprls.system import block_height, whitening_bytes
from ...storage.store import whole_bytes
from ..cost import of_those, scores_of
from ..facts import Facts

HALO = 3.0  # in few dimensions less than 1; 2.8 for the 123 features of a9a


def n_landmarks(f: Facts) -> int:
    """Return the number of landmarks; 0 for the methods that take all points."""
    if "landmarks" in f.attributes:
        return max((item["count"] for item in f.attributes["landmarks"]["landmarks"]), default=0)
    params = f.spec.laprls().landmarks
    if f.spec.model.solver in ("direct", "cg"):
        return 0
    # A number that the spec gives is meant, however few distinct rows the file may turn out to have.
    v = (replace(f, bound="most") if isinstance(params.n_landmarks, int) else f).vertices
    f.estimated.add("landmarks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of more landmarks than rows: the run says so
        return landmark_count(params, min(f.n_labeled, v), v)


def model_points(f: Facts) -> int:
    """Return the points of a model: the landmarks, or all distinct points."""
    return f.vertices if f.spec.model.solver in DENSE else n_landmarks(f)


def _folds(f: Facts) -> int:
    """Return the folds that labels have, with one for points that are never held out."""
    return f.spec.selection.folds + 1 if f.spec.selection else 1


def _outputs(f: Facts) -> int:
    """Return the columns of a system: two classes have one."""
    return 1 if f.is_regression or f.n_classes == 2 else f.n_classes


def _systems(f: Facts) -> tuple[int, int]:
    """Return the pairs of penalties with those of the baselines, and the systems that cross-validation solves."""
    params = f.spec.laprls()
    plain = 0 if 0.0 in params.gamma_I else len(params.gamma_A)
    tried = params.n_pairs + plain
    chosen = params.n_pairs > 1 or len(f.spec.kernels()) > 1
    return tried + params.n_pairs, tried * f.spec.selection.folds if f.spec.selection and chosen else 0


def landmarks(f: Facts) -> Cost:
    """In the driver: numbers of all rows, and the landmarks three times; centers and leverage take passes of blocks."""
    v, s, d = f.vertices, n_landmarks(f), f.width
    driver = 24 * f.n + 32 * v + 3 * s * f.row_bytes + whole_bytes(f.n * f.row_bytes)  # chunks that hold landmarks
    method, least = f.spec.model.landmarks.method, 24 * f.n + 3 * s * f.row_bytes
    if method == "uniform" or f.spec.model.solver in DENSE:
        return cost_of(0, 24 * f.n + s * f.row_bytes, s * (f.row_bytes + 8), driver, least)
    if method == "kmeans":
        sample = max(s, min(v, SAMPLE_PER_CENTER * s, SAMPLE_BYTES // (8 * d)))
        height = min(4096, v)
        peak = max(driver, 24 * d * sample, 48 * s * d + height * (8 * s + 32 * d + 48), 8 * 16 * s * d)
        tasks = 1 + 5 * count(v, height)
        return cost_of(tasks, tasks * height * f.row_bytes, 8 * s * d, peak, max(least, 48 * s * d))
    q = min(v, PILOT)
    peak = max(driver, 40 * q * q, 16 * q * q + min(f.budget, BLOCK_BYTES))
    each = len(f.spec.kernels())
    return cost_of(each * (2 + count(8 * v * q, BLOCK_BYTES)), each * (v + q) * f.row_bytes,
                   each * s * (f.row_bytes + 8), peak, max(least, 24 * q * q))


def _written(f: Facts) -> int:
    """Return the bytes of all models."""
    return (len(f.spec.baselines) + 1) * model_points(f) * (f.row_bytes + 8 * f.n_outputs)


def _split_bytes(f: Facts) -> int:
    """Return what the one task takes that orders the graph and cuts it into blocks."""
    return 60 * f.nnz + 80 * f.vertices


def _evidence(f: Facts) -> list[dict[str, Any]] | None:
    """Return what is known of the systems: by the selection that prepared them, or by the fit; None of neither yet."""
    known = [f.attributes[stage]["evidence"] for stage in ("selection", "models") if "evidence" in f.attributes.get(
        stage, {})]
    return known[0] if known else None


def _halo(f: Facts) -> float:
    """Return the neighbors that blocks read beside their own points, as a share of these."""
    found = _evidence(f)
    if found is not None:
        return max((item["blocks"]["halo"] for item in found if "blocks" in item), default=0.0)
    f.estimated.add("neighbors beyond blocks")
    return HALO if f.bound == "most" else 0.0


def _nystrom(f: Facts, method: str) -> Cost:
    """The graph in blocks; K of the landmarks and what whitens it; then a block and sums, or kept blocks and columns.
    """
    v, s, F = f.vertices, n_landmarks(f), _folds(f)
    size = f.spec.model.system().itemsize
    height = min(v, block_height(v, s, f.row_bytes, size, f.budget))
    pairs, held = _systems(f)
    square, kernels = 8 * s * s, len(f.spec.kernels())
    columns = 8 * s * _outputs(f) * (pairs + held)
    whitening = whitening_bytes(s, f.spec.model.system().cutoff)
    block, sums = height * block_bytes(s, f.row_bytes, size), gram_bytes(s, F, points=True, n_outputs=_outputs(f))
    blocks = count(v, height)
    runs = len(runs_within(blocks, sums, f.budget))
    fixed = max(_split_bytes(f), whitening, min(v * f.row_bytes, f.budget // 4) * 3)
    if method == "nystrom-direct":
        solving = sums + 4 * square + columns
        peak = max(fixed, block + sums, 2 * sums, solving)
        tasks = 2 + runs + count(pairs + held, SYSTEMS_IN_A_TASK)
        return cost_of(kernels * tasks, kernels * v * f.row_bytes, kernels * runs * sums + _written(f), peak,
                       max(whitening, sums))
    # Kernels that are kept, those of a block with its halo, and in the driver the preconditioner.
    reached = size * s * (1 + _halo(f))
    kept = min(int(reached * v), f.budget // 2)
    factors = min(pairs, factors_that_fit(s, f.budget))
    sampled = (4 + sample_shares(s, f.budget)) * square + min(f.budget // 4, 4 * square)
    peak = max(fixed, sampled, kept + int(reached * height) + square * (6 + factors) + 6 * columns)
    return cost_of(kernels * (3 + 2 * runs), kernels * v * f.row_bytes, _written(f), peak, max(whitening, 6 * square))


def _dense(f: Facts) -> Cost:
    """All points in one task: the kernel where it is kept, and what the method takes beside it."""
    v, s = f.vertices, n_landmarks(f)
    pairs, held = _systems(f)
    columns = 8 * v * _outputs(f) * (pairs + held)
    matrix = 8 * v * v
    graph = _split_bytes(f) + 3 * v * f.row_bytes
    if f.spec.model.solver == "direct":
        own = least = 3 * matrix
    else:
        own = 2 * matrix if 2 * matrix <= f.budget else 2 * min(chunk_bytes(f.budget // 2), matrix)
        own += 8 * v * 3 * s + 3 * 8 * s * s
        least = 2 * 8 * v + 8 * v * 3 * s
    tasks = len(f.spec.kernels()) * (2 if held else 1)
    return cost_of(tasks, tasks * v * f.row_bytes, _written(f), graph + own + 6 * columns, least)


def _preparing(f: Facts) -> Cost:
    """Systems from the points, by the method that is used, or by those that may be."""
    solver, found = f.spec.model.solver, _evidence(f)
    if solver in DENSE:
        return _dense(f)
    if found is not None:
        return of_those(f, [_nystrom(f, method) for method in sorted({
            item["method"] for item in found if "method" in item})])
    if solver != "auto":
        return _nystrom(f, solver)
    f.estimated.add("solver")
    fits = gram_bytes(n_landmarks(f), _folds(f), points=True) <= f.budget
    return of_those(f, [_nystrom(f, method) for method in ["nystrom-pcg", *(["nystrom-direct"] if fits else [])]])


def selection(f: Facts) -> Cost:
    """Systems of each kernel; nothing where there is nothing to choose."""
    return _preparing(f) if _systems(f)[1] else cost_of(0, 0, 0, 0)


def models(f: Facts) -> Cost:
    """Systems from the points; or, where a selection kept their Gram matrices, these and their factors."""
    selected = f.attributes.get("selection", {})
    if not any(selected.get("kept", [])):
        return _preparing(f)
    s, pairs = n_landmarks(f), len(f.spec.baselines) + 1
    sums, square = gram_bytes(s, _folds(f), points=True, n_outputs=_outputs(f)), 8 * s * s
    return cost_of(count(pairs, SYSTEMS_IN_A_TASK), sums, _written(f),
                   sums + 4 * square + 8 * s * _outputs(f) * pairs + min(f.n_labeled * f.row_bytes, f.budget), sums)


def scores(f: Facts) -> Cost:
    """A column a class, or one of a quantity."""
    return scores_of(f, model_points(f), f.n_outputs, 8 if f.is_regression else 16)
