"""Some training points: their graph in the plane, those of which the model is least certain, which to label next."""

import shlex
from collections.abc import Sequence
from typing import Any

from ..markup import Html, counted, figure, joined, number, percent, plain_label, table, tag
from ..page import Section
from ..plots import picture_plot

MOST_CELLS = 6  # of a row that are shown


def sample_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return the picture, the least certain points and those to label next."""
    found = facts.get("sample") or {}
    if not found.get("picture"):
        return None
    title = "The points, and which to label next" if {"next", "suggested"} & set(found) else "The points"
    return Section("sample", title, joined((picture(found), _least(found), _next(found, result))))


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
    """Return the rows to label next with what stands in them, or of many points the command that tells them."""
    rows, many = found.get("next"), found.get("suggested")
    command = tag("code", f"dssl suggest {shlex.quote(str(result.get('model', 'RUN')))} --out to_label.csv")
    if not rows:
        told = tag("p", command, f" tells which of the {number(many)} training points to label next, and writes a file "
                   "to fill in.")
        return joined((tag("h3", "Which to label next"), told)) if many else Html("")
    first = rows[0]
    columns = [name for name in ("identifier", "row", "line") if first.get(name) is not None]
    several = len({row.get("file") for row in rows}) > 1
    columns = [*(["file"] if several else []), *columns, "predicted", "probability"]
    if all(row.get("probability") is None for row in rows):
        columns.remove("probability")
    cells = [name for name, cell in first.get("cells", {}).items() if cell != first.get("identifier")][:MOST_CELLS]

    def shown(row: dict[str, Any], name: str) -> str:
        value = row.get(name)
        if name in ("predicted", "probability"):
            return "nothing" if value is None else percent(value) if name == "probability" else number(
                value) if isinstance(value, float) else plain_label(value, 40)
        return str(value)

    head = [{"row": "row, from 0", "line": "line, from 1"}.get(name, name) for name in columns]
    told = tag("p", "Labels of these rows would say the most, the best first. ", command, " writes the same rows to a "
               "file to fill in, and prints how the next run reads it.")
    return joined((tag("h3", "Which to label next"), told, table((*head, *cells), [
        (*(shown(row, name) for name in columns), *(plain_label(row["cells"][name], 40) for name in cells))
        for row in rows])))


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
