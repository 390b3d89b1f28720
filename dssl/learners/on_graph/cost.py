"""The costs of learners on the graph, of their tasks and of the steps in the caller's process."""

from collections.abc import Sequence

from ...execution.cost import Cost, block_count, cost_of, kernel_seconds
from ...graph.functions import MAX_BY_SOLVERS, functions_cost
from ...graph.regularizer import solve_cost
from ...kernels.gram import BLOCK_BYTES
from ...knn.exact.inverted_index import measured_row_bytes
from ...knn.index import index_bytes, indexing_bytes, require_index
from ...knn.metric import AnyMetric
from ...storage.blocks import Rows
from ...storage.store import whole_bytes
from ..average import GROUPS
from ..kernel_family import KERNELS
from ..model import block_height
from .class_sizes import MAX_ROUNDS, STEPS
from .graph_ridge import CONCENTRATION_VERTICES, SAMPLE, GraphRidgeParams, members_bytes
from .held_out import columns_at_once
from .model import caller_bytes

PRODUCT_SECONDS = 2e-9  # of an entry and a column of a product in a round of a cut, with what follows it
INDEXED_SECONDS, QUERY_SECONDS = 1e-5, 1e-4  # to index a point, and to query an index, on one core


def cut_cost(n: int, nnz: int, c: int) -> Cost:
    """Return the cost of a `CutTask` on n vertices with nnz weights and c classes.

    The weights as read, summed over points, normalized, and as a system in float32; 13 arrays (n, c).
    """
    peak = 64 * nnz + 80 * n + 104 * n * c
    return cost_of(1, 16 * nnz, 8 * n * c, peak, peak, PRODUCT_SECONDS * MAX_ROUNDS * (STEPS + 1) * nnz * c)


def n_ridges(families: Sequence[GraphRidgeParams]) -> int:
    """Return how many ridges the kernels of families have, each of which has a system of its own."""
    return len({ridge for family in families for ridge, *_ in family.kernels})


def computed_bytes(n: int, m: int, families: Sequence[GraphRidgeParams]) -> int:
    """Return an upper bound of what tasks write of the kernels of m labeled and the sampled points of n vertices.

    Solvers write all powers of a ridge, and the Lanczos process the kernels and a block tridiagonal matrix.
    """
    kernels = {kernel for family in families for kernel in family.kernels}
    powers = members_bytes(m, n_ridges(families) * max(power for _, power, _ in kernels))
    params = families[0].functions
    matrices = 16 * params.max_steps * min(m, params.block_columns) * m
    return powers if n <= MAX_BY_SOLVERS else max(powers, members_bytes(m, len(kernels)) + matrices)


def learner_cost(n: int, nnz: int, m: int, c: int, family: GraphRidgeParams | None, *, guess: bool,
                 sized: bool, min_columns: int = 0, again: bool = False) -> Cost:
    """Return the cost of a learner on n vertices with nnz weights and m labels of c columns.

    family : of ridge in graph kernels; None for a learner that solves one system. sized : whether class sizes are
    known. min_columns : a lower bound of the vertices with columns. again : whether the kernels of the same labeled
    points are there. The caller holds three copies of the weights, to find components, and the kernels of a family at
    labeled and sampled points: as tasks wrote them while they are put together, then with six arrays of a kernel.
    """
    caller, solved = caller_bytes(n, nnz) + 32 * n * c, solve_cost(n, nnz, c, guess=guess)
    cut = cut_cost(n, nnz, max(c, 2)) if sized else cost_of(0, 0, 0, 0)
    if family is None:
        return cost_of(1 + cut.tasks, solved.read + cut.read, 9 * n * c, max(caller, solved.peak, cut.peak),
                       max(solved.smallest_peak, cut.smallest_peak), solved.seconds + cut.seconds)
    sampled, kernels = min(n, m + SAMPLE), len(family.kernels)
    functions = functions_cost(n, nnz, min(max(m, min_columns), n), sampled, kernels, c, family.functions,
                               n_ridges([family]), max(power for _, power, _ in family.kernels), guess=guess,
                               again=again)
    matrices = members_bytes(m, kernels)
    peak = max(kernels_bytes(n, nnz, m, c, family), functions.peak, cut.peak)
    return cost_of(functions.tasks + cut.tasks, functions.read + cut.read, 9 * n * c, peak,
                   max(matrices, functions.smallest_peak, cut.smallest_peak), functions.seconds + cut.seconds)


def kernels_bytes(n: int, nnz: int, m: int, c: int, family: GraphRidgeParams) -> int:
    """Return what the caller of a learner holds to put the kernels of a family together; see `learner_cost`."""
    written, pairs = computed_bytes(n, m, [family]), 48 * m * (m + min(n, m + SAMPLE))
    return caller_bytes(n, nnz) + 32 * n * c + members_bytes(m, len(family.kernels)) + max(written, pairs)


def label_bytes(m: int, c: int, family: GraphRidgeParams) -> int:
    """Return what the fits of the kernels of m labels of c columns take, with the shares of all members of a blend."""
    grouped = (GROUPS + 1) * (len(KERNELS) + len(family.kernels))
    return 8 * (m * (3 * m + m + SAMPLE) + (2 * len(KERNELS) + grouped) * m * c)


def concurrent_bytes(points: Rows, nnz: int, m: int, c: int, family: GraphRidgeParams, metric: AnyMetric) -> int:
    """Return what the caller of a blend takes where it fits the kernels of labels while tasks compute others."""
    n = len(points)
    indexing = indexing_bytes(points, metric) + caller_bytes(n, nnz)
    return label_bytes(m, c, family) + max(indexing, kernels_bytes(n, nnz, m, c, family))


def held_out_cost(n: int, nnz: int, m: int, c: int, families: Sequence[GraphRidgeParams], n_folds: int, *, systems: int,
                  budget: int, guess: bool) -> Cost:
    """Return the cost of held-out values of m labeled points, by ridge in families and by `systems` systems.

    The caller holds the columns of all kernels, also as tasks wrote them, and an eigendecomposition. A
    system has the columns of all folds or one for each label, whichever are fewer, in blocks of `columns_at_once`.
    """
    caller, costs = 40 * nnz + 60 * n, list[Cost]()
    if families:
        kernels = list(dict.fromkeys(kernel for family in families for kernel in family.kernels))
        sampled, matrices = min(n, m + SAMPLE), members_bytes(m, len(kernels))
        functions = functions_cost(n, nnz, min(m, n), sampled, len(kernels), c, families[0].functions,
                                   n_ridges(families), max(power for _, power, _ in kernels), guess=guess)
        written = computed_bytes(n, m, families)
        peak = max(functions.peak, caller + matrices + max(written, 72 * m * (m + sampled)))
        costs.append(cost_of(functions.tasks, functions.read, 0, peak, max(matrices, functions.smallest_peak),
                             functions.seconds))
    # With fewer columns of folds than labels, folds may be fitted one after the other.
    columns = min(m, n_folds * c) if guess or m <= n_folds * c else c
    height = columns_at_once(n, budget)
    blocks = block_count(columns, height)
    if systems:
        solved = solve_cost(n, nnz, min(columns, height), guess=guess)
        costs.append(cost_of(systems * blocks, systems * blocks * solved.read, 0, max(caller, solved.peak) + 8 * m * m,
                           solved.smallest_peak, systems * blocks * solved.seconds))
    return cost_of(sum(one.tasks for one in costs), sum(one.read for one in costs), 0, max(one.peak for one in costs),
                   max(one.smallest_peak for one in costs), sum(one.seconds for one in costs))


def model_cost(points: Rows, row_bytes: int, m: int, metric: AnyMetric, c: int, base: bool, budget: int, *,
               sized: bool = False) -> Cost:
    """Return the cost of the models on distinct points of the shape and type of `points`, with the index.

    base : whether ridge in the base kernel is among them, with four matrices of the m labels. sized : whether class
    sizes are known, for which it predicts all points. Raises BudgetError where the index does not fit.
    """
    n = len(points)
    require_index(points, metric, budget)
    stored = index_bytes(points, metric) + 8 * n * (c + 2) + m * (2 * row_bytes + 16 * c)
    gram = (32 * m * m + 3 * m * row_bytes + sized * min(n * (24 * m + row_bytes), BLOCK_BYTES)) * base
    peak = max(indexing_bytes(points, metric), gram) + whole_bytes(index_bytes(points, metric)) + 24 * n * (c + 2)
    lower = max(index_bytes(points, metric), 24 * m * m * base)
    return cost_of(0, 2 * n * row_bytes, stored, peak, lower, INDEXED_SECONDS * n)


def automatic_cost(points: Rows, row_bytes: int, nnz: int, m: int, metric: AnyMetric, c: int,
                   family: GraphRidgeParams | None, *, guess: bool, sized: bool, budget: int,
                   again: bool = False) -> Cost:
    """Return the cost of the automatic fit of m labels on distinct points of the shape and type of `points`.

    family : the graph kernels of a blend; None for many labels, with one system that is solved twice. again : whether
    the kernels of the same labeled points are there. Raises
    BudgetError where the index of the points does not fit.
    """
    n = len(points)
    model = model_cost(points, row_bytes, m, metric, c, False, budget)
    learner = learner_cost(n, nnz, m, c, family, guess=guess, sized=sized, min_columns=CONCENTRATION_VERTICES,
                           again=again)
    labels = concurrent = 0
    if family is not None:
        labels = label_bytes(m, c, family) + members_bytes(m, len(family.kernels))
        concurrent = concurrent_bytes(points, nnz, m, c, family, metric)
    models = 24 * n * c + (2 * row_bytes + 8 * len(KERNELS) * c) * m * (family is not None)
    rows = (m + 2 * SAMPLE) * row_bytes * (family is not None)  # in memory, see `rows_of_blend`
    indexing = indexing_bytes(points, metric) + caller_bytes(n, nnz)
    together = (each for each in (indexing, concurrent) if each <= budget)  # in turns where it exceeds the budget
    peak = max(learner.peak, labels, model.peak, *together) + models + rows
    fits = 1 if family else 2
    return cost_of(fits * learner.tasks, fits * learner.read + model.read, model.written + models, peak,
                   max(learner.smallest_peak, model.smallest_peak), fits * learner.seconds + model.seconds)


def predicted_cost(points: Rows, row_bytes: int, n_train: int, n_test: int, m: int, k: int, metric: AnyMetric, c: int,
                   base: bool, budget: int, *, searches: bool = True) -> Cost:
    """Return the cost of predicting n_test points with a model of `points` and its baselines on m labels.

    searches : whether the neighbors of the points are not known yet. A task holds all models and a block of points; the
    caller the predictions of the training points.
    """
    n = len(points)
    models = index_bytes(points, metric) + 8 * n * (c + 2) + m * (2 * row_bytes + 24 * c)
    query = measured_row_bytes(points, metric) + 40 * k if points.is_sparse else 40 * points.shape[1] + 16 * k
    each = query + 8 * k * (4 + c) + (8 * m + 4 * row_bytes) * base + 2 * row_bytes
    height = block_height(each, max(n_test, 1), budget, models + int(whole_bytes(models)))
    tasks = block_count(max(n_test, 1), height)
    scored = 8 * n * (c + 2) + n_train * (24 * c + 60)
    return cost_of(tasks, n_test * row_bytes + tasks * models, 50 * n_test,
                   max(scored, models + whole_bytes(models) + min(height, n_test) * each), models,
                   QUERY_SECONDS * n_test * searches + kernel_seconds(n_test * m, row_bytes / 4) * base)
