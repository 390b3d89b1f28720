"""What the page says of `model.kind: laprls`: the penalties that were chosen, landmarks, and the solve."""

from typing import Any

from .findings import Finding
from .markup import Html, at, counted, duration, finite, joined, number, percent, table, tag
from .plots import penalties_plot

METHODS = {
    "nystrom-direct": "Gram matrices of the landmarks, factored for each pair of penalties",
    "nystrom-pcg": "preconditioned conjugate gradients on landmarks", "nystrom-cg": "conjugate gradients on landmarks",
    "direct": "a factorization on all points", "cg": "conjugate gradients on all points",
    "pcg": "conjugate gradients on all points, preconditioned on landmarks",
}
STEPS = {"prepare": "blocks and Gram matrices", "cross_validation": "cross-validation", "solve": "solve"}
SHUFFLED = ("The control: the model with the mean of the graph's energy over all relabelings of its points, a penalty "
            "as strong that knows nothing about where they lie. A real gain must also beat this one.")
MODEL = "Least squares on the labels, with penalties on the norm and on how much the function varies along the graph."


def is_laprls(facts: dict[str, Any]) -> bool:
    """Return whether the facts are of a run of this kind of model."""
    return bool(at(facts, "models", "evidence"))


def penalty_findings(facts: dict[str, Any]) -> list[Finding]:
    """Return what the chosen penalties say of the graph, and which lie on the edge of their grid."""
    found = []
    choice, tried = at(facts, "models", "choices", "model") or {}, at(facts, "models", "grid", "model") or []
    if choice.get("gamma_I") == 0:
        several = len({row.get("gamma_I") for row in tried}) > 1
        found.append(Finding(
            "gamma_I", "0 was chosen" if several else "0", "warning",
            "The graph does not help here: by cross-validation on the labels no weight of it does better than none. "
            "The model is the base model." if several else
            "The model is the base model: unlabeled points served as landmarks alone."))
    for name in ("gamma_A", "gamma_I"):
        values = sorted({row[name] for row in tried if finite(row.get(name))})
        if len(values) > 1 and choice.get(name) in (values[0], values[-1]):
            end = "smallest" if choice[name] == values[0] else "largest"
            found.append(Finding(name, f"{number(choice[name])}, the {end} that was tried", "note",
                                 f"The best value may lie beyond: extend selection.{name}."))
    return found


def choices(facts: dict[str, Any]) -> Html:
    """Return the penalties of each model, and the errors of cross-validation over the grid."""
    chosen, folds = at(facts, "models", "choices") or {}, at(facts, "models", "folds")
    grid = at(facts, "models", "grid") or {}
    is_value = at(facts, "split", "task") == "regression"
    shown, key, measure = (number, "rmse", "rmse") if is_value else (percent, "error", "error")
    rows = [(tag("b", name), number(row.get("gamma_A")), number(row.get("gamma_I")),
             str(row.get("bandwidth") or "median"),
             *([shown(row.get(key)), number(row.get("rmse"))][is_value:] if folds else []),
             *([number(len(grid[name])) if name in grid else ""] if folds else []))
            for name, row in sorted(chosen.items(), key=lambda item: item[0] != "model")]
    head = ("", "gamma_A", "gamma_I", "bandwidth",
            *([f"{measure} in cross-validation", "rmse"][:2 - is_value] if folds else []),
            *(["tried"] if folds else []))
    listing = joined((tag("h3", "Chosen penalties" if folds else "Penalties"),
                      table(head, rows, (1, 2, 4, 5, 6))))
    if not folds:
        return listing
    second = "" if is_value else ", of equals the lowest rmse from the codes ±1"
    note = tag("p", f"Chosen on the labels by {counted(folds, 'fold')}: the lowest {measure}{second}. The shuffled "
               "control takes the model's.", class_="small")
    best = chosen.get("model") or {}
    of_bandwidth = [row for row in grid.get("model") or [] if row.get("bandwidth") == best.get("bandwidth")]
    several = len({(row["gamma_A"], row["gamma_I"]) for row in of_bandwidth}) > 1
    figure = tag("figure", penalties_plot(of_bandwidth, key, best), tag(
        "figcaption", f"{measure.capitalize()} in cross-validation of each pair of penalties, at the bandwidth "
        f"{best.get('bandwidth') or 'median'}; the chosen pair is framed.")) if several else ""
    return joined((listing, note, figure))


def evidence(facts: dict[str, Any]) -> Html:
    """Return how the systems were made and solved, a table for each bandwidth that a model was fitted at."""
    found = at(facts, "models", "evidence") or []
    return joined(_evidence(item, len(found) > 1) for item in found if item.get("models"))


def _evidence(item: dict[str, Any], several: bool) -> Html:
    method, landmarks, whitening = item.get("method", ""), item.get("landmarks") or {}, item.get("whitening")
    blocks, iterations, seconds = item.get("blocks") or {}, item.get("iterations") or [], item.get("seconds") or {}
    expected = item.get("expected_seconds") or {}
    dropped = landmarks.get("dropped_duplicates")
    rows: list[tuple[Any, Any]] = [
        ("points and labels", f"{counted(item.get('points'), 'distinct point')}, "
                              f"{counted(item.get('labels'), 'label')}"),
        ("landmarks", f"{number(landmarks.get('count'))}, {landmarks.get('method')}"
         + (f"; {counted(dropped, 'equal one')} left out" if dropped else "") if landmarks else None),
        ("whitening", f"rank {number(whitening.get('rank'))} of {number(landmarks.get('count'))}, condition "
         f"{number(whitening.get('condition'))}, cut-off {number(whitening.get('cutoff'))}" if whitening else None),
        ("blocks", f"{number(blocks.get('count'))} of {number(blocks.get('rows'))} points; "
         f"{percent(blocks.get('halo'))} of the points are read again as neighbors" if blocks else None),
        ("method", f"{method}: {METHODS.get(method, method)}"),
        ("why", "the fewest seconds expected of one core: " + ", ".join(
            f"{name} {duration(value)}" for name, value in expected.items()) if expected else None),
        ("preconditioner", f"{item['preconditioner']}" + (
            f", {counted(item['sampled_edges'], 'sampled edge')}" if item.get("sampled_edges") else "")
         if "preconditioner" in item else None),
        ("iterations", ", ".join(map(number, iterations)) if iterations else None),
        ("worst relative residual", number(item.get("max_residual"))),
        ("time", ", ".join(f"{name} {duration(seconds[step])}" for step, name in STEPS.items() if step in seconds)
         or None),
    ]
    head = tag("h3", f"Bandwidth {item.get('bandwidth') or 'median'}: {', '.join(item['models'])}") if several else ""
    return joined((head, table((), [row for row in rows if row[1] is not None])))
