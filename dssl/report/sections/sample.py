"""Some training points: their graph in the plane, those of which the model is least certain, which to label next.

Of a clustering, also which clusters there are: their sizes, and how far they agree with classes where there are any.
"""

import re
import shlex
from collections.abc import Sequence
from typing import TypedDict, cast

from ..page import Section, Table, rendered
from ..plots import MAX_BARS, counts_plot, picture_plot
from ..record import Attributes, Baseline, ReportText, RunRecord
from ..text import at, finite, number, percent, plain_label

MAX_CELLS = 6  # of a row that are shown
MAX_DIGITS = 10  # of a number in a cell that is shown as it is
MAX_SIZES = 30
SCORES = (("accuracy", "accuracy"), ("nmi", "normalized mutual information"), ("ari", "adjusted Rand index"))


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


def picture(sample: Sample) -> dict[str, object]:
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


def clusters_section(run: RunRecord, report_text: ReportText, baselines: Sequence[Baseline] = ()) -> Section:
    """Return the section that the page of a clustering begins with."""
    made, sample = run.stage("models"), cast(Sample, run.stage("sample"))
    accuracy = finite(run.metrics.get("accuracy"))
    plain = finite(at(run.scores, "euclidean", "accuracy"))
    meanings = {"model": report_text.model} | {baseline.name: baseline.meaning for baseline in baselines}
    counts, points = made.get("counts") or [], picture(sample) if sample.get("picture") else None
    drawn = sorted(enumerate(counts), key=lambda cluster: -cluster[1])[:MAX_BARS]
    sizes = None if points or not drawn else counts_plot([(str(code), count) for code, count in drawn],
                                                         "points of each cluster")
    return Section("answer", "Which clusters are there?", rendered(
        "clusters.html", counts=counts, chosen=made.get("chosen"), unassigned=made.get("no_cluster"),
        max_sizes=MAX_SIZES, accuracy=accuracy, plain=plain, scores=_scores(run, meanings), picture=points,
        sizes=sizes, n_drawn=len(drawn)))


def _scores(run: RunRecord, meanings: dict[str, str]) -> Table:
    """Return a table with a row a model; without scores what each of them is."""
    prefixes = [prefix for prefix in ("", "test_") if finite(at(run.metrics, f"{prefix}accuracy")) is not None]
    heads = [f"{title}{', test points' if prefix else ''}" for prefix in prefixes for _, title in SCORES]
    heads.append("adjusted Rand index with the model")
    rows = [(name, *(percent(at(each, f"{prefix}{key}")) if key == "accuracy" else number(
        at(each, f"{prefix}{key}")) for prefix in prefixes for key, _ in SCORES),
             number(at(each, "agreement")) if name != "model" else "", meanings.get(name, ""))
        for name, each in run.scores.items()]
    return Table(("", *heads, ""), rows, range(1, 1 + len(heads)))
