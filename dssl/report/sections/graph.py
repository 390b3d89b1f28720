"""How the graph was made, and what each figure of its health means."""

from typing import Any

from ..page import Finding, Level, Section
from ..rendering import rendered
from ..text import at, counted, finite, number, percent

RECALL = 0.95
FEW_EDGES = 20
Told = tuple[str, Level, str] | None  # figures, level, meaning; nothing where the stage tells nothing of it


def graph_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return how the graph was made, a box of what asks for attention, and a table of what was looked at."""
    made, lists, health = facts.get("graph") or {}, facts.get("neighbors") or {}, facts.get("health") or {}
    if not (made or lists or health):
        return None
    looked_at = {
        "recall of the neighbor lists": _recall(health), "components": _components(health),
        "points that no label reaches": _unreached(health), "neighbors a point": _degrees(health),
        "hubs": _hubs(health), "equal rows": _vertices(health), "copied points": _duplicates(health),
        "neighbors of one class": _homophily(health), "vanishing weights": _raised(made)}
    findings = [Finding(subject, *finding) for subject, finding in looked_at.items() if finding is not None]
    return Section("graph", "Graph health", rendered(
        "graph.html", made={key: made.get(key) for key in ("weights", "bandwidth", "width", "symmetrize")},
        lists={key: lists.get(key) for key in ("method", "metric", "n_neighbors")}, findings=findings,
        alarms=[item for item in findings if item.level == "warning"]))


def _recall(health: dict[str, Any]) -> Told:
    recall, lower = at(health, "recall", "recall"), finite(at(health, "recall", "lower"))
    if recall is None or lower is None:
        return None
    if at(health, "recall", "certified") == "exact":
        return percent(recall), "good", "The search was exact: every listed neighbor is a true one."
    how = f"{percent(recall)}, at least {percent(lower)}; worst row {percent(at(health, 'recall', 'worst_row'), 0)}"
    checked = (f"Certified by brute force on {counted(at(health, 'recall', 'rows'), 'random row')} "
               f"({counted(at(health, 'recall', 'trials'), 'neighbor')}, lower end of Wilson's 95 % interval). ")
    if lower >= RECALL:
        return how, "good", f"{checked}The few that are missing matter little."
    return how, "warning", (f"{checked}Below {percent(RECALL, 0)} the graph misses true neighbors. Set graph.method to "
                            "exact, or raise graph.n_neighbors.")


def _components(health: dict[str, Any]) -> Told:
    count, share = at(health, "components", "count"), finite(at(health, "components", "largest_share"))
    if count is None or share is None:
        return None
    if count == 1:
        return "1", "good", "The graph hangs together: a label can reach every point."
    isolated = at(health, "isolated", "count") or 0
    figures = (f"{number(count)}; the largest holds {percent(share)} of the points"
               + (f"; {counted(isolated, 'point')} without any neighbor" if isolated else ""))
    if share >= 0.95:
        return figures, "note", "A few small pieces lie apart; labels do not pass over."
    if at(health, "unreached", "count") == 0:
        return figures, "note", "Labels do not pass from one piece to another; each piece holds a labeled point."
    return figures, "warning", ("The graph is in pieces, and labels do not pass from one to another. Raise "
                                "graph.n_neighbors.")


def _unreached(health: dict[str, Any]) -> Told:
    count = at(health, "unreached", "count")
    if count is None:
        return None
    if not count:
        return "0", "good", "Every component holds a labeled point."
    ids, where = at(health, "unreached", "ids") or [], at(health, "unreached", "components")
    share = f" ({percent(count / health['n'], 2)})" if health.get("n") else ""
    places = f" in {counted(where, 'component')}" if where else ""
    return f"{number(count)}{share}{places}; rows {_first(ids, 10, count)} of the source", "warning", (
        "They lie in components without a labeled point: about them the graph says nothing. A base kernel predicts "
        "them; a learner on the graph alone does not. unreached.csv beside this page lists them. Label one point of "
        "each, or raise graph.n_neighbors.")


def _degrees(health: dict[str, Any]) -> Told:
    degree = health.get("degree")
    if not degree:
        return None
    figures = ", ".join(f"{name} {number(degree.get(name))}" for name in ("min", "median", "mean", "max"))
    if degree.get("min") == 0:
        return figures, "warning", "Points without a neighbor get nothing from the graph."
    return figures, "good", f"{counted(health.get('edges'), 'edge')}; no point is without a neighbor."


def _hubs(health: dict[str, Any]) -> Told:
    count, rule = at(health, "hubs", "count"), at(health, "hubs", "rule") or "far more neighbors than others"
    if count is None:
        return None
    if not count:
        return "0", "good", f"No point has {rule}."
    largest = [f"{hub['id']} ({number(hub['degree'])})" for hub in at(health, "hubs", "largest") or []]
    figures = f"{counted(count, 'point')} with {rule}; the largest, with degrees: {_first(largest, 5, count)}"
    if count > 0.01 * health.get("n", count):
        return figures, "warning", ("Hubs join points that have little in common, as happens in many dimensions. Try "
                                    "the cosine metric, fewer features or symmetrize: minimum.")
    return figures, "note", "They join points that have little in common; so few of them do little harm."


def _first(values: list[Any], most: int, count: int) -> str:
    """Return the first of so many values, and whether there are more."""
    return ", ".join(map(str, values[:most])) + (", …" if count > len(values[:most]) else "")


def _vertices(health: dict[str, Any]) -> Told:
    count, copied = at(health, "vertices", "count"), at(health, "vertices", "copied_points")
    if not copied or count is None:
        return None
    largest = number(at(health, "vertices", "largest_multiplicity"))
    return f"{counted(copied, 'point')} with copies, up to {largest} of one; {counted(count, 'distinct point')}", \
        "note", ("Each distinct point is one vertex that counts as many, so copies do not crowd out its neighbors. "
                 "graph.duplicates: keep makes one vertex a row.")


def _duplicates(health: dict[str, Any]) -> Told:
    count, share = at(health, "duplicates", "points"), finite(at(health, "duplicates", "share"))
    if count is None or share is None:
        return None
    if not count:
        known = at(health, "vertices", "copied_points")
        return None if known else ("0", "good", "No two points are equal.")
    figures = f"{number(count)} ({percent(share)})"
    if share < 0.1:
        return figures, "note", "Their nearest neighbor is a copy; so few do little harm."
    return figures, "warning", ("Copies fill one another's neighbor lists and cut the graph. Set graph.duplicates: "
                                "collapse, drop equal rows, or raise graph.n_neighbors above the number of copies.")


def _homophily(health: dict[str, Any]) -> Told:
    edges, share, chance = (at(health, "homophily", key) for key in ("edges", "share", "by_chance"))
    if edges is None:
        return None
    if not edges or share is None or chance is None:
        return "no edge joins two labeled points", "note", "Too few labels to judge the graph by."
    figures = f"{percent(share)} of {counted(edges, 'edge')} between labeled points; {percent(chance)} by chance"
    better = (share - chance) / (1 - chance) if chance < 1 else 1.0
    if edges < FEW_EDGES:
        return figures, "note", "Too few such edges to judge the graph by."
    if better < 0.1:
        return figures, "warning", ("Neighbors share a class hardly more often than by chance: this graph cannot help. "
                                    "Try another data.scale, another metric, or other features.")
    if better < 0.5:
        return figures, "note", "Neighbors often differ in class; the graph helps a little at best."
    return figures, "good", "Neighbors mostly share their class, which is what the method builds on."


def _raised(graph: dict[str, Any]) -> Told:
    raised = graph.get("raised")
    if raised is None:
        return None
    if not raised:
        return "0", "good", "No weight had to be raised."
    if graph.get("weights") == "given":
        text = ("These given edges were as good as absent beside the median weight. Give weights that differ less, or "
                "leave these edges out.")
    elif graph.get("width") is not None:
        text = "These edges were as good as absent: points far from all others end there. A few do little harm."
    else:
        text = ("These edges were as good as absent: the bandwidth is too small for part of the data. "
                "Raise graph.bandwidth, or use weights: self_tuned.")
    return f"{number(raised)} raised to {number(graph.get('floor'))}", "warning", text
