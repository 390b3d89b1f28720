"""Some training points: their graph in the plane, those of which the model is least certain, which to label next."""

from collections.abc import Sequence
from typing import Any

from ..markup import Html, at, counted, figure, joined, number, percent, plain_label, table, tag
from ..page import Section
from ..plots import picture_plot


def sample_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return the picture, the least certain points and those to label next."""
    found = facts.get("sample") or {}
    if not found.get("picture"):
        return None
    return Section("sample", "The points, and which to label next" if "next" in found else "The points", joined((
        picture(found), _least(found), _next(found, result))))


def picture(found: dict[str, Any]) -> Html:
    """Return the drawing of what the stage `sample` found."""
    own, n = found["picture"], found.get("n")
    shown, lines = len(own["points"]), own["lines"]
    which = "All" if shown == n else f"All {number(shown)} distinct" if own["whole"] else (
        f"{number(shown)} of the {number(n)}")
    axes = ("first column, scaled", "second column, scaled") if own["plane"] else ("", "") if lines else (
        "first principal component", "second component")
    told = [f"{which} training points in the color of what the model says" + (
        "; those with a label are ringed." if own["labeled"] else ".")]
    if lines:
        drawn = len(own["edges"])
        some = "" if drawn == lines else f", the shortest {number(drawn)} of {number(lines)}"
        told.append(f"Lines join neighbors in the graph{some}." if own["whole"] else
                    f"Lines join each point to its nearest among those that are drawn{some}; the graph itself has all "
                    "points.")
        if not own["plane"]:
            told.append("Points are near each other where few and short steps along the lines lead from one to the "
                        "other (Isomap); pieces of the graph that no line joins are set side by side.")
    return figure(picture_plot(own["points"], own["codes"], own["classes"], own["edges"], own["labeled"], axes),
                  " ".join(told))


def _among(found: dict[str, Any]) -> str:
    judged, n = found.get("judged"), found.get("n")
    return f"Of {counted(judged, 'point')} without a label" + (
        f", drawn from the {number(n)} training points" if judged is not None and n and judged < n / 2 else "")


def _least(found: dict[str, Any]) -> Html:
    least = found.get("least")
    if not least:
        return Html("")
    said = ("those whose two likeliest classes are closest in probability" if found.get("calibrated") else
            "those whose two best classes have the closest scores; there are no probabilities, which take two labels "
            "of each class")
    return joined((tag("h3", "Where the model is least certain"), tag("p", f"{_among(found)}, {said}."),
                   _table(least, bool(found.get("calibrated")))))


def _next(found: dict[str, Any], result: dict[str, Any]) -> Html:
    rows = found.get("next")
    if not rows:
        return Html("")
    classes = bool(at(found, "picture", "classes"))
    how = ("uncertain, far from the points that have a label, and far from each other" if classes else
           "far from the points that have a label and from each other, where points are many; a model of quantities "
           "tells no probabilities")
    command = f"dssl suggest {result.get('model', 'RUN')} --out to_label.csv"
    return joined((tag("h3", "Which to label next"), tag("p", f"{_among(found)}: {how}. The best first. ", tag(
        "code", command), " chooses among all points, by the graph where there is one, and writes a file to fill in."),
        _table(rows, bool(found.get("calibrated")))))


def _table(rows: Sequence[dict[str, Any]], calibrated: bool) -> Html:
    shown = percent if calibrated else number
    if not any("score" in row for row in rows):
        return table(("row of the source", "predicted"), [
            (str(row["row"]), number(row["predicted"])) for row in rows], (0, 1))
    beside = "probability" if calibrated else "score"

    def told(row: dict[str, Any], name: str, score: str) -> str:
        return "nothing" if row.get(name) is None else f"{plain_label(row[name], 40)} ({shown(row.get(score))})"

    return table(("row of the source", f"predicted ({beside})", f"next likeliest ({beside})"), [
        (str(row["row"]), told(row, "predicted", "score"), told(row, "second", "second_score")) for row in rows], (0,))
