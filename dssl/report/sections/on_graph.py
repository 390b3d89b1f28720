"""Functions on the graph: their kernels, solves and errors, and what the automatic model chose among them."""

from collections.abc import Mapping, Sequence
from itertools import starmap

from ..error_metric import errors_among, metric_of
from ..page import Section, rendered
from ..record import Attributes, RunRecord
from ..text import counted, number, percent

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
