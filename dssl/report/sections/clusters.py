"""Which clusters were found: their sizes, how far they agree with classes where there are any, and a picture."""

from collections.abc import Sequence
from typing import cast

from ..page import Section, Table
from ..plots import MAX_BARS, counts_plot
from ..record import RunRecord
from ..rendering import rendered
from ..report_text import Baseline, ReportText
from ..text import at, finite, number, percent
from .sample import Sample, picture

MAX_SIZES = 30
SCORES = (("accuracy", "accuracy"), ("nmi", "normalized mutual information"), ("ari", "adjusted Rand index"))


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
    rows = [(name, *(percent(at(each, f"{prefix}{key}")) if key == "accuracy" else number(
        at(each, f"{prefix}{key}")) for prefix in prefixes for key, _ in SCORES), meanings.get(name, ""))
        for name, each in run.scores.items()]
    return Table(("", *heads, ""), rows, range(1, 1 + len(heads)))
