"""The landmarks of functions with the graph as a penalty, and the evidence that their systems were solved."""

from typing import Any

from ...base.digest import BANDWIDTH
from ..page import Section
from ..record import Attributes, RunRecord
from ..rendering import rendered
from ..text import counted, duration, number, percent
from ..words import HELD_OUT_POINTS

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


def _evidence(item: Attributes) -> list[tuple[str, Any]]:
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
