"""Some training points: their graph in the plane, those of which the model is least certain, which to label next."""

import re
import shlex
from collections.abc import Sequence
from typing import Any, TypedDict, cast

from ..page import Section, Table
from ..plots import picture_plot
from ..record import Attributes, RunRecord
from ..rendering import rendered
from ..text import number, percent, plain_label

MAX_CELLS = 6  # of a row that are shown
MAX_DIGITS = 10  # of a number in a cell that is shown as it is


class Picture(TypedDict):
    """Points in the plane of whole numbers, with the codes of what is predicted, and the lines between neighbors.

    whole : whether all points are drawn. plane : whether the axes are the two features. lines : how many there are, of
    which the shortest are drawn.
    """

    points: Sequence[Sequence[int]]
    codes: Sequence[float]
    classes: Sequence[str]
    labeled: Sequence[int]
    edges: Sequence[Sequence[int]]
    whole: bool
    plane: bool
    lines: int


class Sample(TypedDict, total=False):
    """Some of the n training points: their picture, those of which the model is least certain, which to label next.

    n_examined : how many unlabeled points were examined. suggested : the points among which `dssl suggest` is to
    choose, where `next` is not known.
    """

    n: int
    picture: Picture
    n_examined: int
    calibrated: bool
    least_certain: Sequence[Attributes]
    next: Sequence[Attributes]
    suggested: int


def sample_section(run: RunRecord) -> Section | None:
    """Return the picture, the least certain points and those to label next."""
    sample = cast(Sample, run.stage("sample"))
    if not sample.get("picture"):
        return None
    title = "The points, and which to label next" if {"next", "suggested"} & set(sample) else "The points"
    n, n_examined, calibrated = sample.get("n"), sample.get("n_examined"), bool(sample.get("calibrated"))
    n_labeled = run.at("labels", "n_labeled") or 0
    command = f"dssl suggest {shlex.quote(str(run.path or 'RUN'))} --out to_label.csv"
    return Section("sample", title, rendered(
        "sample.html", picture=picture(sample), n_examined=n_examined, calibrated=calibrated, command=command,
        is_drawn=n_examined is not None and n and n_examined < n - n_labeled, suggested=sample.get("suggested"),
        least_certain=_least_certain(sample.get("least_certain") or [], calibrated),
        next=_next(sample.get("next") or [])))


def picture(sample: Sample) -> dict[str, Any]:
    """Return the drawing of what the stage `sample` made, and the figures of its caption."""
    drawn = sample["picture"]
    axes = ("first column, scaled", "second column, scaled") if drawn["plane"] else ("", "") if drawn["lines"] else (
        "first principal component", "second component")
    drawing = picture_plot(drawn["points"], drawn["codes"], drawn["classes"], drawn["edges"], drawn["labeled"], axes)
    return {"drawing": drawing, "n": sample.get("n"), "shown": len(drawn["points"]), "whole": drawn["whole"],
            "plane": drawn["plane"], "lines": drawn["lines"], "drawn": len(drawn["edges"]),
            "has_labels": bool(drawn["labeled"])}


def _next(rows: Sequence[Attributes]) -> Table:
    """Return a table of the rows to label next with what stands in them."""
    if not rows:
        return Table()
    first = rows[0]
    columns = [name for name in ("identifier", "row", "line") if first.get(name) is not None]
    several = len({row.get("file") for row in rows}) > 1
    columns = [*(["file"] if several else []), *columns, "predicted", "probability"]
    if all(row.get("probability") is None for row in rows):
        columns.remove("probability")
    cells = [name for name, cell in first.get("cells", {}).items() if cell != first.get("identifier")][:MAX_CELLS]

    def shown(row: Attributes, name: str) -> str:
        value = row.get(name)
        if name in ("predicted", "probability"):
            return "nothing" if value is None else percent(value) if name == "probability" else number(
                value) if isinstance(value, float) else plain_label(value, 40)
        return str(value)

    head = [{"row": "row (from 0)", "line": "line (from 1)"}.get(name, name) for name in columns]
    return Table((*head, *cells), [
        (*(shown(row, name) for name in columns), *(cell_label(row["cells"][name]) for name in cells))
        for row in rows])


def cell_label(cell: str) -> str:
    """Return a cell of the source; a fraction of many digits with a few of them, but never an identifier."""
    if len(cell) <= MAX_DIGITS or not re.fullmatch(r"[+-]?\d+\.\d+(e[+-]?\d+)?", cell, re.IGNORECASE):
        return plain_label(cell, 40)
    value = float(cell)
    return f"{value:.2f}" if 1e4 <= abs(value) < 1e15 else f"{value:.6g}"


def _least_certain(rows: Sequence[Attributes], calibrated: bool) -> Table:
    """Return a table of the points of which the model is least certain."""
    shown = percent if calibrated else number
    if not any("score" in row for row in rows):
        return Table(("row of the source", "predicted"),
                     [(str(row["row"]), number(row["predicted"])) for row in rows], (0, 1))
    beside = "probability" if calibrated else "score"

    def scored(row: Attributes, name: str, score: str) -> str:
        return "nothing" if row.get(name) is None else f"{plain_label(row[name], 40)} ({shown(row.get(score))})"

    return Table(("row of the source", f"predicted ({beside})", f"next likeliest ({beside})"), [
        (str(row["row"]), scored(row, "predicted", "score"), scored(row, "second", "second_score"))
        for row in rows], (0,))
