"""How a model was solved, the evidence that it was, and what it is made of.

Linear systems; the eigenfunctions of a cluster kernel and of a multi-scale kernel; functions on the graph, and what the
automatic model chose among them.
"""

from collections.abc import Mapping, Sequence
from itertools import starmap

from ...base.digest import BANDWIDTH
from ..error_metric import errors_among, metric_of
from ..page import Finding, Section, rendered
from ..plots import regions_plot, scales_plot, second_plot
from ..record import HELD_OUT_POINTS, Attributes, RunRecord
from ..text import ABSENT, at, counted, duration, finite, listed, number, percent

DEGREES = {"exact": "exact, of all pairs of points", "landmarks": "from the landmarks"}


def solver_section(run: RunRecord) -> Section | None:
    """Return the system, the method and why it was taken, the worst residual, and the methods considered."""
    system, columns = run.stage("system"), run.stage("columns")
    evidence = columns.get("solver") or system.get("solver") or {}
    method, considered = evidence.get("method"), evidence.get("considered") or []
    if method is None:
        return None
    tol, worst = finite(at(system, "params", "tol")), finite(columns.get("max_residual"))
    known = worst is not None and tol is not None
    missed = known and worst > tol  # type: ignore[operator]
    within = "" if not known else ": the tolerance was not met" if missed else ": every column meets it"
    extra = [f"{number(evidence['n_vectors'])} eigenvectors" if "n_vectors" in evidence else "",
             f"levels of {_levels(evidence)} unknowns" if "level_sizes" in evidence else "",
             f"{number(evidence['factor_entries'])} entries, {number(evidence['fill'])} for each of the lower triangle"
             if "fill" in evidence else ""]
    rows: list[tuple[str, object]] = [
        ("system", f"{system.get('laplacian', '')} graph Laplacian plus a ridge of {number(system.get('ridge'))} on "
                   "the diagonal, to the power "
                   f"{listed(list(run.at('covariance', 'mean_diagonal') or ()), 5)}; "
                   f"{counted(system.get('n'), 'unknown')}"),
        ("method", f"{method}: {', '.join(filter(None, [evidence.get('description'), *extra]))}"),
        ("why", _why(at(run.spec, "solver", "method"), evidence, len(considered))),
        ("columns solved", number(columns.get("columns"))),
        ("iterations, worst column", number(columns.get("max_iterations"))),
        ("worst relative residual", f"{number(worst)}, tolerance {number(tol)}{within}"),
    ]
    tried = [(item.get("method"), number(item.get("n_vectors")), number(item.get("fill")),
              number(item.get("probe_iterations")), item.get("work")) for item in considered]
    alarm = [Finding("worst residual", f"{number(worst)} > {number(tol)}", "warning",
                     "Inaccurate columns give an inaccurate kernel. Raise solver.max_iter or graph.ridge.")
             ] if missed else []
    return Section("solver", "Solver evidence", rendered("solver.html", alarms=alarm, rows=rows, considered=tried))


def _levels(evidence: Attributes) -> str:
    return " > ".join(number(rows) for rows in evidence.get("level_sizes") or []) or ABSENT


def _why(asked: object, evidence: Attributes, n_considered: int) -> str:
    if n_considered == 1:
        return "the probe columns took so few iterations that no other method was tried"
    if n_considered:
        return (f"the least work for these columns, as counted on probe columns, of "
                f"{counted(n_considered, 'method')} considered")
    if asked == evidence.get("method"):
        return "the spec asks for it"
    return str(evidence.get("reason", ABSENT))


METHODS = {
    "nystrom-direct": "Gram matrices of the landmarks, factored for each pair of penalties",
    "nystrom-pcg": "preconditioned conjugate gradients on landmarks", "nystrom-cg": "conjugate gradients on landmarks",
    "direct": "a factorization on all points", "cg": "conjugate gradients on all points",
    "pcg": "conjugate gradients on all points, preconditioned on landmarks",
}
HELD_OUT = {"closed_form": "predicted exactly in closed form, from one fit for all folds",
            "refit": "predicted by one fit per fold"}
STEPS = {"prepare": "blocks and Gram matrices", "cross_validation": "cross-validation", "solve": "solve"}


def laprls_section(run: RunRecord) -> Section | None:
    """Return how the systems were made and solved, a table for each bandwidth that a model was fitted at."""
    evidence = run.at("models", "evidence") or []
    shown = [{"bandwidth": item.get("bandwidth") or BANDWIDTH, "models": item["models"], "rows": _evidence(item)}
             for item in evidence if item.get("models")]
    return Section("solver", "Solver evidence", rendered(
        "laprls.html", evidence=shown, several=len(evidence) > 1)) if shown else None


def _evidence(item: Attributes) -> list[tuple[str, object]]:
    method, landmarks, whitening = item.get("method", ""), item.get("landmarks") or {}, item.get("whitening")
    blocks, iterations, seconds = item.get("blocks") or {}, item.get("iterations") or [], item.get("seconds") or {}
    expected, held_out = item.get("expected_seconds") or {}, item.get("held_out")
    dropped = landmarks.get("dropped_duplicates")
    return [
        ("points and labels", f"{counted(item.get('points'), 'distinct point')}, "
                              f"{counted(item.get('labels'), 'label')}"),
        ("landmarks", f"{number(landmarks.get('count'))}, {landmarks.get('method')}"
         + (f"; {counted(dropped, 'duplicate')} dropped" if dropped else "") if landmarks else None),
        ("whitening", f"rank {number(whitening.get('rank'))} of {number(landmarks.get('count'))}, condition "
         f"{number(whitening.get('condition'))}, cut-off {number(whitening.get('cutoff'))}" if whitening else None),
        ("blocks", f"{number(blocks.get('count'))} of {number(blocks.get('rows'))} points; "
         f"{percent(blocks.get('halo'))} of the points are read again for other blocks" if blocks else None),
        ("method", f"{method}: {METHODS.get(method, method)}"),
        ("why", "the lowest expected time on one core: " + ", ".join(
            f"{name} {duration(value)}" for name, value in expected.items()) if expected else None),
        ("preconditioner", f"{item['preconditioner']}" + (
            f", {counted(item['sampled_edges'], 'sampled edge')}" if item.get("sampled_edges") else "")
         if "preconditioner" in item else None),
        ("loss", f"{item['loss']}, by Newton steps: " + ", ".join(map(number, item.get("newton_steps") or []))
         if "loss" in item else None),
        ("held-out points", f"{HELD_OUT.get(held_out['method'], held_out['method'])}; {held_out['held_out_points']}: "
         f"they {HELD_OUT_POINTS[held_out['held_out_points']]}" if held_out else None),
        ("iterations", ", ".join(map(number, iterations)) if iterations else None),
        ("worst relative residual", number(item.get("max_residual"))),
        ("time", ", ".join(f"{name} {duration(seconds[step])}" for step, name in STEPS.items() if step in seconds)
         or None),
    ]


def transductive_section(run: RunRecord) -> Section | None:
    """Return what the fit says of itself."""
    evidence, landmarks = run.at("models", "evidence") or {}, run.stage("landmarks")
    if not evidence:
        return None
    rows = [("landmarks", f"{number(landmarks.get('n_landmarks'))}, {landmarks.get('method')}; rank "
                          f"{number(evidence.get('rank'))}"),
            ("Newton steps of each column", ", ".join(map(number, evidence.get("steps") or []))),
            ("requested share of unlabeled points on the positive side",
             ", ".join(map(percent, evidence.get("share") or []))),
            ("achieved share", ", ".join(map(percent, evidence.get("achieved_share") or [])))]
    return Section("solver", "Transductive SVM", rendered("transductive.html", rows=rows))


def cluster_section(run: RunRecord) -> Section | None:
    """Return a row a bandwidth."""
    bases = run.at("basis", "bases") or []
    if not bases:
        return None
    rows = [(basis.get("bandwidth") or BANDWIDTH, number(basis.get("landmarks")), number(basis.get("rank")),
             f"{number(basis.get('largest'))} to {number(basis.get('smallest'))}",
             DEGREES.get(basis.get("degrees", "")), number(basis.get("mean_degree")),
             duration((basis.get("seconds") or {}).get("all"))) for basis in bases]
    truncated = any(basis.get("truncated") for basis in bases)
    return Section("basis", "Cluster kernel", rendered("cluster.html", rows=rows, truncated=truncated))


def multiscale_section(run: RunRecord) -> Section | None:
    """Return the counts, the scale and eigenvalue of each index, and the second eigenvalue of each scale."""
    basis = run.at("basis", "basis") or {}
    if not basis.get("index"):
        return None
    scales = basis["scales"]
    rows = (
        ("landmarks", number(basis.get("landmarks"))),
        ("outliers that are no landmarks", number(basis.get("outliers"))),
        ("eigenpairs", number(basis.get("eigenpairs"))),
        ("scales", f"{number(len(scales))}, from {number(scales[0])} to {number(scales[-1])}"),
        ("skipped", f"{counted(basis.get('passed_over'), 'index', 'indices')}: at the scale of the most stable "
                        "eigenvalue the denominator of the extension vanishes at or near a landmark"),
        ("unstable at all scales", f"{counted(basis.get('unsound'), 'index', 'indices')}, extended as a mean where the "
                                  f"denominator is small: {percent(basis.get('unsound_share'))} of points and indices"),
        ("dropped", f"{counted(basis.get('dropped'), 'index', 'indices')} with an eigenvalue of 0"),
        ("time", duration((basis.get("seconds") or {}).get("all"))))
    return Section("basis", "Multi-scale kernel", rendered(
        "multiscale.html", rows=rows, second=second_plot(scales, basis["second"]),
        scales=scales_plot(basis["index"], [scales[j] for j in basis["chosen"]], basis["eigenvalues"])))


def regions_section(run: RunRecord) -> Section | None:
    """Return what is predicted of points in the plane and around them; None where there are not two columns."""
    regions = run.at("models", "regions")
    if not regions:
        return None
    return Section("regions", "What is predicted where", rendered("regions.html", drawing=regions_plot(**regions)))


# ---- functions on the graph


LEARNERS = {
    "ridge": "ridge regression in graph kernels, averaged", "laplace": "the harmonic function of the labels",
    "poisson": "the potential of the labels as sources of a flow",
}
MAX_KERNELS = 12
SHOWN_SHARE = 0.0005  # below, a weight is shown as 0.0 %


def values_section(run: RunRecord) -> Section | None:
    """Return the evidence of the fit, errors on held-out labels and unlabeled points, and the weights of kernels."""
    values = run.stage("vertex_values")
    if "learner" not in values:
        return None
    hidden, metrics = run.hidden, run.metrics
    by, learner, kernels = metric_of(metrics), values["learner"], values.get("kernels") or []
    unreachable, shares = values.get("unreachable"), values.get("class_bounds")
    rows: list[tuple[str, object]] = [
        ("learner", f"{learner}: {LEARNERS.get(learner, learner)}"),
        ("solver", computed(values.get("functions") or values.get("solver") or {})),
        ("class sizes given in the spec", ", ".join(starmap(_share_text, shares)) if shares else None),
        ("another model", _other_model(values)),
        ("cut into classes of these sizes",
         f"{counted(values['cut_rounds'], 'round')}; {percent(values['moved_in_last'])} of the points changed class in "
         f"the last, and the sizes are missed by {percent(values['size_error'])} of them"
         if "cut_rounds" in values else None),
        ("training points unreachable from any label", None if unreachable is None else number(unreachable) + (
            "; they have no prediction" if unreachable else "")),
        ("leave-one-out error on the labels", by.shown(values[f"held_out_{by.key}"])
         if f"held_out_{by.key}" in values else None),
        ("error on the unlabeled training points whose labels are known",
         f"{by.with_interval(hidden)}, {counted(hidden.get('n_test'), 'point')}" if hidden else None),
        (by.name, by.with_interval(metrics) if metrics else None),
    ]
    return Section("values", "The function on the graph", rendered(
        "values.html", rows=rows, kernels=leading_kernels(kernels)))


def leading_kernels(kernels: Sequence[Attributes]) -> dict[str, object]:
    """Return how many graph kernels there are, and as rows of a table those with the largest weights."""
    weighted = [kernel for kernel in kernels if kernel["share"] >= SHOWN_SHARE]
    best = sorted(weighted, key=lambda kernel: -kernel["share"])[:MAX_KERNELS]
    return {"n": len(kernels), "rows": [
        (number(kernel["ridge"]), number(kernel["power"]), "yes" if kernel["by_degree"] else "no",
         percent(kernel["share"])) for kernel in best]}


def computed(evidence: Attributes) -> str | None:
    """Return the method with its steps or iterations and what they left."""
    method = evidence.get("method")
    if not method:
        return None
    steps = [", ".join(method) if isinstance(method, list) else str(method)]
    steps += [counted(evidence[key], one) for key, one in (("steps", "step"), ("iterations", "iteration"))
             if key in evidence]
    steps += [f"{name} {number(evidence[key])}" for key, name in (("tol", "tol"), (
        "residual", "worst relative residual")) if key in evidence]
    solved = evidence.get("solved")
    solves = f"; {counted(solved['functions'], 'kernel function')} from linear solves" if solved else ""
    return ", ".join(steps) + solves


def _other_model(evidence: Attributes) -> str | None:
    """Return what held-out labels say of another model, with its weights beside those of the learner."""
    other = evidence.get("other_model")
    if not other:
        return None
    return (f"{other['in_words']}; weights: learner {number(other['learner_weight'])}, other model "
            f"{number(other['weight'])}, other model smoothed on the graph {number(other['smoothed_weight'])}")


CHOSEN = {"graph": "harmonic functions on the graph", "nearest_labels": "the nearest labeled points"}


def _scaling(scale: Attributes, scaling: Attributes) -> str | None:
    """Return the selected scaling; of "auto" also what that did to the numbers and to the categories."""
    kind, numbers = scale.get("kind"), scaling.get("numbers")
    if kind != "auto" or numbers is None:
        return kind
    return f"auto: {numbers} for columns of numbers, and columns that encode text scaled apart from them"


def _why_kept(scale: Attributes, losses: Mapping[str, float]) -> str:
    """Return why the selected scaling is not the one with the lowest loss, where it is not."""
    kind = str(scale.get("kind"))
    if kind not in losses or losses[kind] <= min(losses.values()):
        return ""
    return ("; another scaling than the one that the column ranges suggest is selected only where its error is clearly "
            "lower")


def choice_section(run: RunRecord) -> Section | None:
    """Return what was chosen, by which figures, and what the held-out labels say of the graph."""
    choice = run.at("models", "choice")
    if not choice:
        return None
    metrics, hidden = run.metrics, run.hidden
    by, errors = metric_of(metrics), errors_among(hidden)
    of_hidden = errors.with_interval(hidden) if by == errors else f"{errors.noun} of {errors.with_interval(hidden)}"
    scale, share = run.at("points", "scale") or {}, choice.get("graph_share")
    unreachable = choice.get("unreachable")
    label_losses, sizes = scale.get("label_losses") or {}, choice.get("class_bounds")
    rows: list[tuple[str, object]] = [
        ("selected method", CHOSEN.get(choice.get("chosen"), choice.get("chosen"))),
        ("weight of the graph kernels", None if share is None else
         f"{percent(share)}; kernels on the labels have the rest"),
        ("spectral concentration of the graph (1 for noise)",
         number(choice["spectral_concentration"]) if "spectral_concentration" in choice else None),
        ("scaling of the features", _scaling(scale, run.at("points", "scaling") or {})),
        ("widest column range, relative to the lower quartile", number(scale["ranges"]) if "ranges" in scale else None),
        ("leave-one-out squared error on the labels, by scaling", ", ".join(
            f"{kind} {number(loss)}" for kind, loss in label_losses.items()) + _why_kept(scale, label_losses) or None),
        ("solver", computed(choice.get("functions") or choice.get("solver") or {})),
        ("labels that the other labels contradict", "; ".join(
            f"row {odd['row']}: {number(odd['value'])}, predicted from the others as {number(odd['prediction'])}"
            for odd in choice.get("odd_labels") or []) or None),
        ("class sizes given in the spec", ", ".join(starmap(_share_text, sizes)) if sizes else None),
        ("another model", _other_model(choice)),
        ("training points unreachable from any label", None if unreachable is None else number(unreachable) + (
            "; the supervised baseline predicts them" if unreachable else "")),
        ("error on the unlabeled training points whose labels are known",
         f"{of_hidden}, {counted(hidden.get('n_test'), 'point')}" if hidden else None),
        (by.name, by.with_interval(metrics) if metrics else None),
    ]
    alone = [kernel for kernel in choice.get("kernels_of_labels") or [] if kernel["share"] >= SHOWN_SHARE]
    shown = [(number(kernel["bandwidth"]), number(kernel["penalty"]), percent(kernel["share"]))
             for kernel in sorted(alone, key=lambda kernel: -kernel["share"])]
    return Section("choice", "Automatic choices", rendered(
        "choice.html", rows=rows, kernels=leading_kernels(choice.get("kernels") or []), of_labels=shown))


def _share_text(low: float, high: float) -> str:
    return percent(low) if low == high else f"{percent(low)} to {percent(high)}"
