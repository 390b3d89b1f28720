"""How the graph was made, and what each figure of its health means."""

from typing import Any

from ...base.wilson import interval_of_share
from ..page import Finding, Level, Section, rendered
from ..record import Attributes, RunRecord
from ..text import at, counted, finite, number, percent, with_interval

RECALL = 0.95
FEW_EDGES = 20
Assessment = tuple[str, Level, str] | None  # figures, level and meaning; None of what is not known


def graph_section(run: RunRecord) -> Section | None:
    """Return how the graph was made, a box of what asks for attention, and a table of what was looked at."""
    made, lists, health = run.stage("graph"), run.stage("neighbors"), run.stage("health")
    if not (made or lists or health):
        return None
    looked_at = {
        "recall of the neighbor lists": _recall(health), "effort of the neighbor search": _effort(lists),
        "components": _components(health),
        "points unreachable from any label": _unreachable(health), "neighbors per point": _degrees(health),
        "hubs": _hubs(health), "merged duplicates": _vertices(health), "duplicate points": _duplicates(health),
        "edges within a class": _homophily(health), "vanishing weights": _raised(made)}
    findings = [Finding(subject, *finding) for subject, finding in looked_at.items() if finding is not None]
    return Section("graph", "Graph health", rendered(
        "graph.html", made={key: at(made, key) for key in ("weights", "bandwidth", "width", "symmetrize")},
        lists={key: lists.get(key) for key in ("method", "metric", "n_neighbors")}, findings=findings,
        alarms=[item for item in findings if item.level == "warning"]))


def _recall(health: Attributes) -> Assessment:
    recall, lower = at(health, "recall", "recall"), finite(at(health, "recall", "lower"))
    if recall is None or lower is None:
        return None
    if at(health, "recall", "certified") == "exact":
        return percent(recall), "good", "The search was exact, so every listed neighbor is a true neighbor."
    how = f"{percent(recall)}, at least {percent(lower)}; worst row {percent(at(health, 'recall', 'worst_row'), 0)}"
    checked = (f"Brute force on {counted(at(health, 'recall', 'rows'), 'random row')} certifies this "
               f"({counted(at(health, 'recall', 'trials'), 'neighbor')}; lower end of Wilson's 95 % interval). ")
    if lower >= RECALL:
        return how, "good", f"{checked}The few missing neighbors matter little."
    return how, "warning", (f"{checked}Below {percent(RECALL, 0)} the graph misses true neighbors. Set graph.method to "
                            "exact, or raise graph.n_neighbors.")


def _effort(lists: Attributes) -> Assessment:
    effort, overlaps = lists.get("effort"), lists.get("overlaps", [])
    if effort is None:
        return None
    wider = [f"in {leaves:.1f} leaves each" for leaves in overlaps]
    if lists["scanned"]:
        wider.append("among all points by their coordinates")
    if lists["filled_exactly"] == lists["n"]:
        wider.append("exactly")
    how = f"The points were searched {' and then '.join(wider)}, with {counted(lists['joins'], 'join')}."
    times = f"{effort:.1f} times a usual search"
    if len(wider) == 1 and overlaps:
        return times, "good", how
    return times, "note", f"{how} Few leaves find too few true neighbors here, as with noise in many columns."


def _components(health: Attributes) -> Assessment:
    count, share = at(health, "components", "count"), finite(at(health, "components", "largest_share"))
    if count is None or share is None:
        return None
    if count == 1:
        return "1", "good", "The graph is connected, so a label can reach every point."
    isolated = at(health, "isolated", "count") or 0
    figures = (f"{number(count)}; the largest contains {percent(share)} of the points"
               + (f"; {counted(isolated, 'point')} without any neighbor" if isolated else ""))
    if share >= 0.95:
        return figures, "note", "A few small components are separate, and no label passes between components."
    if "unreachable" not in health:  # a clustering, without labels
        return figures, "note", ("Nothing passes between components, so each is a cluster, or several. With more large "
                                 "components than clusters, raise graph.n_neighbors.")
    if at(health, "unreachable", "count") == 0:
        return figures, "note", "No label passes between components, but every component contains a labeled point."
    return figures, "warning", ("The graph has several large components, and nothing passes between them. Raise "
                                "graph.n_neighbors.")


def _unreachable(health: Attributes) -> Assessment:
    count = at(health, "unreachable", "count")
    if count is None:
        return None
    if not count:
        return "0", "good", "Every component contains a labeled point."
    if health.get("labeled") == 0:
        return "all, since no point is labeled", "note", (
            "What is predicted comes from another model alone, and the graph smooths it.")
    ids, where = at(health, "unreachable", "ids") or [], at(health, "unreachable", "components")
    share = f" ({percent(count / health['n'], 2)})" if health.get("n") else ""
    places = f" in {counted(where, 'component')}" if where else ""
    return f"{number(count)}{share}{places}; rows {_first(ids, 10, count)} of the source", "warning", (
        "These points lie in components without a labeled point, so the graph says nothing about them. A base kernel "
        "predicts them, but a learner on the graph alone does not. unreachable.csv next to this page lists them. Label "
        "one point of each component, or raise graph.n_neighbors.")


def _degrees(health: Attributes) -> Assessment:
    degree = health.get("degree")
    if not degree:
        return None
    figures = ", ".join(f"{name} {number(degree.get(name))}" for name in ("min", "median", "mean", "max"))
    if degree.get("min") == 0:
        return figures, "warning", "Points without a neighbor get no information from the graph."
    return figures, "good", f"The graph has {counted(health.get('edges'), 'edge')}, and every point has a neighbor."


def _hubs(health: Attributes) -> Assessment:
    count, rule = at(health, "hubs", "count"), at(health, "hubs", "rule") or "many more neighbors than other points"
    if count is None:
        return None
    if not count:
        return "0", "good", f"No point has {rule}."
    largest = [f"{hub['id']} ({number(hub['degree'])})" for hub in at(health, "hubs", "largest") or []]
    figures = f"{counted(count, 'point')} with {rule}; the largest, with degrees: {_first(largest, 5, count)}"
    if count > 0.01 * health.get("n", count):
        return figures, "warning", ("Hubs connect points that have little in common, which happens in high dimensions. "
                                    "Try the cosine metric, fewer features or symmetrize: minimum.")
    return figures, "note", "Hubs connect points that have little in common, but so few of them do little harm."


def _first(values: list[Any], limit: int, count: int) -> str:
    """Return the first of so many values, and whether there are more."""
    return ", ".join(map(str, values[:limit])) + (", …" if count > len(values[:limit]) else "")


def _vertices(health: Attributes) -> Assessment:
    count, duplicated = at(health, "vertices", "count"), at(health, "vertices", "copied_points")
    if not duplicated or count is None:
        return None
    largest = number(at(health, "vertices", "largest_multiplicity"))
    figures = f"{counted(duplicated, 'point')} in groups of up to {largest}; {counted(count, 'distinct point')}"
    return figures, "note", ("Each distinct point is one vertex, weighted by the number of its rows, so duplicates do "
                             "not crowd out other neighbors. Set graph.duplicates to keep for one vertex per row.")


def _duplicates(health: Attributes) -> Assessment:
    count, share = at(health, "duplicates", "points"), finite(at(health, "duplicates", "share"))
    if count is None or share is None:
        return None
    if not count:
        known = at(health, "vertices", "copied_points")
        return None if known else ("0", "good", "No two points are equal.")
    figures = f"{number(count)} ({percent(share)})"
    if share < 0.1:
        return figures, "note", "Their nearest neighbor is a duplicate, but so few of them do little harm."
    return figures, "warning", ("Duplicates fill the neighbor lists of one another and disconnect the graph. Set "
                                "graph.duplicates: collapse, drop equal rows, or raise graph.n_neighbors above the "
                                "number of duplicates.")


def _homophily(health: Attributes) -> Assessment:
    edges, share, chance = (at(health, "homophily", key) for key in ("edges", "share", "by_chance"))
    if edges is None:
        return None
    if not edges or share is None or chance is None:
        return "no edge connects two labeled points", "note", "There are too few labels to judge the graph."
    low, high = interval_of_share(share, edges)
    figures = (f"{with_interval(percent, share, (low, high))} of {counted(edges, 'edge')} between labeled points; "
               f"{percent(chance)} by chance")
    better = (share - chance) / (1 - chance) if chance < 1 else 1.0
    if edges < FEW_EDGES:
        return figures, "note", "There are too few such edges to judge the graph."
    if low <= chance < 1:
        return figures, "warning" if better < 0.1 else "note", (
            "Neighbors do not share a class clearly more often than by chance. If that is so, this graph cannot help: "
            "try another data.scale, another metric, or other features.")
    if better < 0.1:
        return figures, "warning", (
            "Neighbors share a class hardly more often than by chance, so this graph can hardly help: try another "
            "data.scale, another metric, or other features.")
    if better < 0.5:
        return figures, "note", ("Neighbors share a class only somewhat more often than by chance, so the graph helps "
                                 "a little at best.")
    return figures, "good", "Neighbors mostly share a class, which is what the method assumes."


def _raised(graph: Attributes) -> Assessment:
    raised = graph.get("raised")
    if raised is None:
        return None
    if not raised:
        return "0", "good", "No edge weight had to be raised."
    if graph.get("weights") == "given":
        text = ("These weights were negligible compared with the median weight. Give weights that differ less, or "
                "remove these edges.")
    elif graph.get("width") is not None:
        text = "These weights were negligible because the edges lead to outliers. A few of them do little harm."
    else:
        text = ("These weights were negligible because the bandwidth is too small for part of the data. "
                "Raise graph.bandwidth, or use weights: self_tuned.")
    return f"{number(raised)} raised to {number(graph.get('floor'))}", "warning", text
