"""Which clusters were found: their sizes, how far they agree with classes where there are any, and a picture."""

from collections.abc import Sequence
from typing import Any

from ..page import Section
from ..rendering import rendered
from ..text import at, finite, number, percent
from ..words import Baseline, Words
from .sample import picture

MOST_SIZES = 30
SCORES = (("accuracy", "accuracy"), ("nmi", "normalized mutual information"), ("ari", "adjusted Rand index"))


def clusters_section(facts: dict[str, Any], result: dict[str, Any], words: Words,
                     baselines: Sequence[Baseline] = ()) -> Section:
    """Return the section that the page of a clustering begins with."""
    made, sample = facts.get("models") or {}, facts.get("sample") or {}
    accuracy, plain = (finite(at(result, *path)) for path in (("metrics", "accuracy"),
                                                              ("baselines", "euclidean", "accuracy")))
    meanings = {"model": words.model} | {baseline.name: baseline.meaning for baseline in baselines}
    return Section("answer", "Which clusters are there?", rendered(
        "clusters.html", counts=made.get("counts") or [], chosen=made.get("chosen"), unassigned=made.get("no_cluster"),
        most_sizes=MOST_SIZES, accuracy=accuracy, plain=plain, **_scores(result, meanings),
        picture=picture(sample) if sample.get("picture") else None))


def _scores(result: dict[str, Any], meanings: dict[str, str]) -> dict[str, Any]:
    """Return a table with a row a model; without scores what each of them is."""
    metrics = result.get("metrics") or {}
    models = {"model": metrics, **(result.get("baselines") or {})}
    prefixes = [prefix for prefix in ("", "test_") if finite(metrics.get(f"{prefix}accuracy")) is not None]
    heads = [f"{title}{', test points' if prefix else ''}" for prefix in prefixes for _, title in SCORES]
    rows = [(name, *(percent(each.get(f"{prefix}{key}")) if key == "accuracy" else number(
        each.get(f"{prefix}{key}")) for prefix in prefixes for key, _ in SCORES), meanings.get(name, ""))
        for name, each in models.items()]
    return {"head": ("", *heads, ""), "rows": rows, "numbers": range(1, 1 + len(heads))}
