"""What the automatic model chose: the scaling of the features, and the weights of graph and labels."""

from typing import Any

from ..error_measure import errors_among, measure_of
from ..page import Section
from ..record import RunRecord
from ..rendering import rendered
from ..text import counted, number, percent
from .vertex_values import computed, leading_kernels

CHOSEN = {"graph": "harmonic functions on the graph", "nearest_labels": "the nearest labeled points"}


def choice_section(run: RunRecord) -> Section | None:
    """Return what was chosen, by which figures, and what the held-out labels say of the graph."""
    choice = run.at("models", "choice")
    if not choice:
        return None
    metrics, hidden = run.metrics, run.hidden
    by, errors = measure_of(metrics), errors_among(hidden)
    of_hidden = errors.with_interval(hidden) if by == errors else f"{errors.noun} of {errors.with_interval(hidden)}"
    scale, share = run.at("points", "scale") or {}, choice.get("graph_share")
    unreached = choice.get("unreached")
    judged, sizes = scale.get("label_losses") or {}, choice.get("class_shares")
    rows: list[tuple[str, Any]] = [
        ("selected method", CHOSEN.get(choice.get("chosen"), choice.get("chosen"))),
        ("weight of the graph kernels", None if share is None else
         f"{percent(share)}; kernels on the labels have the rest"),
        ("spectral concentration of the graph (1 for noise)",
         number(choice["structure"]) if "structure" in choice else None),
        ("scaling of the features", scale.get("kind")),
        ("widest column range, relative to the lower quartile", number(scale["ranges"]) if "ranges" in scale else None),
        ("leave-one-out squared error on the labels, by scaling", ", ".join(
            f"{kind} {number(loss)}" for kind, loss in judged.items()) or None),
        ("solver", computed(choice.get("functions") or choice.get("solver") or {})),
        ("labels that the other labels contradict", "; ".join(
            f"row {odd['row']}: {number(odd['value'])}, predicted from the others as {number(odd['prediction'])}"
            for odd in choice.get("odd_labels") or []) or None),
        ("class sizes given in the spec", ", ".join(map(percent, sizes)) if sizes else None),
        ("training points unreachable from any label", None if unreached is None else number(unreached) + (
            "; the supervised baseline predicts them" if unreached else "")),
        ("error on the unlabeled training points whose labels are known",
         f"{of_hidden}, {counted(hidden.get('n_test'), 'point')}" if hidden else None),
        (by.name, by.with_interval(metrics) if metrics else None),
    ]
    alone = [kernel for kernel in choice.get("kernels_of_labels") or [] if kernel["share"] >= 0.0005]
    shown = [(number(kernel["bandwidth"]), number(kernel["penalty"]), percent(kernel["share"]))
             for kernel in sorted(alone, key=lambda kernel: -kernel["share"])]
    return Section("choice", "Automatic choices", rendered(
        "choice.html", rows=rows, kernels=leading_kernels(choice.get("kernels") or []), of_labels=shown))
