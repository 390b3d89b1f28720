"""What the stages of a learner in a deformed kernel take, in the terms of `costs.py`."""

from ...execution.cost import Cost, cost_of, count
from ...graph.regularizer import system_cost
from ...kernels.subsample import ROW_CHUNK, column_width, product_rows, stored_factors
from ...solvers.direct import LARGEST
from ...solvers.solve import METHODS, opened_bytes, stored_bytes
from ...storage.store import decoding_bytes, whole_bytes
from ..cost import of_those, scores_of
from ..facts import Facts

SAMPLED = 1000  # points of the median distance


def n_subsample(f: Facts) -> int:
    """Return the number of points at which functions are measured."""
    return f.found("subsample", "n_subsample", *(2 * (min(f.spec.subsample.size, f.n),)), "subsample")


def solvers(f: Facts) -> set[str]:
    """Return the solver that is used, or those that may be."""
    method = f.spec.solver.method
    if "system" in f.attributes:
        return {f.attributes["system"]["params"]["method"]}
    if method != "auto":
        return {method}
    if f.vertices <= LARGEST:
        return {"direct"}
    f.estimated.add("solver")
    return {"deflated", "amg"}


def n_solved(f: Facts) -> int:
    """Return how many columns are solved, over all steps of their chains."""
    return n_subsample(f) * ((max(f.spec.powers) + 1) // 2)


def subsample(f: Facts) -> Cost:
    return cost_of(0, 16 * f.n_labeled, 8 * n_subsample(f), 24 * f.n + 16 * n_subsample(f), 24 * f.n)


def system(f: Facts) -> Cost:
    methods = solvers(f)
    f.estimated.update(*(METHODS[method].stored_guess for method in methods))
    return system_cost(f.vertices, f.nnz, n_solved(f), methods, guess=f.bound == "most")


def columns(f: Facts) -> Cost:
    """The solver's arrays, and of a block of columns the right-hand sides and all that solving them takes."""
    n, names = f.vertices, _factors(f)
    steps = max(f.spec.powers) if f.spec.solver.form == "restriction" else (max(f.spec.powers) + 1) // 2
    # While the last step is solved, what earlier steps are stored for is kept; one of it is the right-hand sides.
    earlier = {name for name in names if int(name.lstrip("RZA")) < steps}
    kept = len(earlier - {f"Z{steps - 1}", f"A{steps - 1}"}) + (steps > 1)
    found = []
    for method in sorted(solvers(f)):
        if "system" in f.attributes:
            stored = int(f.attributes["system"]["stored_bytes"])
        else:
            stored = stored_bytes(method, n, f.nnz, n_solved(f), guess=f.bound == "most")
            f.estimated.update(METHODS[method].stored_guess)
        width = column_width(n, f.spec.powers, f.spec.solver.block_columns, f.budget, stored)
        own = stored + opened_bytes(method, n, f.nnz, guess=f.bound == "most")
        f.estimated.update(METHODS[method].held_guess)
        # The first right-hand sides are nearly all zeros, which the system does not store.
        peak = own + METHODS[method].solve_bytes(n, width, width) + 8 * n * width * kept
        found.append(cost_of(count(n_subsample(f), width), stored, 8 * n * n_subsample(f) * len(names), peak,
                             own + METHODS[method].solve_bytes(n, 1, 1)))
    return of_those(f, found)


def _factors(f: Facts) -> list[str]:
    powers = f.spec.powers
    return [f"A{p}" for p in powers] if f.spec.solver.form == "restriction" else stored_factors(powers)


def covariance(f: Facts) -> Cost:
    """A range of rows of the factors, decoded a band at a time, and their product; in the driver, a few such products.
    """
    n, s, powers = f.vertices, n_subsample(f), f.spec.powers
    square, factors = 8 * s * s, len(_factors(f))
    product = square * len(powers)
    driver = 2 * product + 2 * square + whole_bytes(square)
    if f.spec.solver.form == "restriction":
        whole = 8 * n * s * factors
        return cost_of(0, whole, product, whole + driver, whole)
    height = product_rows(n, s, powers, f.budget)
    rows = 8 * s * height
    width = min(f.spec.solver.block_columns, s)
    band = 8 * min(ROW_CHUNK, n) * s
    decoding = decoding_bytes(band, 8 * min(ROW_CHUNK, n) * width) + (band if height > ROW_CHUNK else 0)
    peak = max(factors * rows + decoding, factors * rows + product + square // 2, driver)
    tasks = count(n, height)
    return cost_of(tasks, 8 * n * s * factors, (tasks + 1) * product, peak, 8 * s * factors + product)


def _square(f: Facts) -> int:
    """Return the bytes of all covariances, of what deforms a kernel with one of them, and of kernels of the labels.

    To deform: a permuted covariance, a Gram matrix, a sum with it and its temporary, and a factor.
    """
    s, m, d = n_subsample(f), f.n_labeled, f.width
    return 8 * s * s * (len(f.spec.powers) + 5) + 24 * (s + m) * d + 8 * m * (3 * m + 3 * s)


def _training_read(f: Facts) -> int:
    """Return the bytes that one task of the training reads."""
    s = n_subsample(f)
    return 8 * s * s * len(f.spec.powers) + min(f.n, 3 * max(s, f.n_labeled, SAMPLED)) * f.row_bytes


def selection(f: Facts) -> Cost:
    """The same for each model and bandwidth, and a kernel of the labels a fold; nothing where there is no grid."""
    grid, m, s = f.spec.grid, f.n_labeled, n_subsample(f)
    if grid is None:
        return cost_of(0, 0, 0, 0)
    tasks = len({"model", *f.spec.baselines} - {"shuffled"}) * len(f.spec.kernels())
    peak = _square(f) + 8 * m * m * (grid.folds + 2) + 24 * s * (m + min(s, m))
    return cost_of(tasks, tasks * _training_read(f), 0, peak, 8 * s * s * (len(f.spec.powers) + 3))


def models(f: Facts) -> Cost:
    """Covariances on the subsample, and the makings of one deformed kernel after the other; a task of its own."""
    s, m = n_subsample(f), f.n_labeled
    written = (len(f.spec.baselines) + 1) * (s + m) * (f.row_bytes + 8 * f.n_outputs)
    return cost_of(1, _training_read(f), written, _square(f), 8 * s * s * (len(f.spec.powers) + 3))


def scores(f: Facts) -> Cost:
    """The points of a model are the subsample and the labeled ones, with a column a pair of classes in an SVM."""
    is_svm = f.spec.model.kind == "svm"
    outputs = max(1, f.n_classes * (f.n_classes - 1) // 2) if is_svm else f.n_outputs
    return scores_of(f, n_subsample(f) + f.n_labeled, outputs, 8 if is_svm or f.is_regression else 16)
