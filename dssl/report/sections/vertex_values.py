"""The function that a learner found on the graph: kernels and solves, whom no label reaches, how good it is there."""

from collections.abc import Sequence
from typing import Any

from ..error_measure import measure_of
from ..page import Section
from ..rendering import rendered
from ..text import at, counted, number, percent

LEARNERS = {
    "ridge": "ridge regression in graph kernels, averaged", "laplace": "the harmonic function of the labels",
    "poisson": "the potential of the labels as sources of a flow",
}
MOST_KERNELS = 12


def values_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return what the fit found, the errors on labels held out and on unlabeled points, and the shares of kernels."""
    values = facts.get("vertex_values") or {}
    if "learner" not in values:
        return None
    hidden = at(facts, "scores", "transductive") or {}
    by, learner, kernels = measure_of(result.get("metrics") or {}), values["learner"], values.get("kernels") or []
    lost, shares = values.get("unreached"), values.get("class_shares")
    rows: list[tuple[str, Any]] = [
        ("learner", f"{learner}: {LEARNERS.get(learner, learner)}"),
        ("how it was computed", computed(values.get("functions") or values.get("solver") or {})),
        ("class sizes in the spec", ", ".join(map(percent, shares)) if shares else None),
        ("diffusion of labels", f"{counted(values['diffusions'], 'step')}; "
         f"{counted(values['changed_in_last'], 'vertex', 'vertices')} changed in the last"
         if "diffusions" in values else None),
        ("training points that no label reaches", None if lost is None else number(lost) + (
            ": they have no prediction" if lost else "")),
        ("error on labels held out one by one", by.shown(values[f"held_out_{by.key}"])
         if f"held_out_{by.key}" in values else None),
        ("unlabeled training points whose labels are known",
         f"{by.with_interval(hidden)}, {counted(hidden.get('n_test'), 'point')}" if hidden else None),
        ("new points, the test", by.with_interval(result.get("metrics") or {})),
    ]
    return Section("values", "The function on the graph", rendered(
        "values.html", rows=rows, kernels=leading_kernels(kernels)))


def leading_kernels(kernels: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how many graph kernels there are, and as rows of a table those that count for most."""
    best = sorted(kernels, key=lambda kernel: -kernel["share"])[:MOST_KERNELS]
    return {"n": len(kernels), "rows": [
        (number(kernel["ridge"]), number(kernel["power"]), "yes" if kernel["by_degree"] else "no",
         percent(kernel["share"])) for kernel in best]}


def computed(evidence: dict[str, Any]) -> str | None:
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
    return ", ".join(steps) + (f"; {counted(solved['functions'], 'kernel function')} by solves" if solved else "")
