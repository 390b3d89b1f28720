"""Which clusters were found: their sizes, how far they agree with classes where there are any, and a picture."""

from collections.abc import Sequence
from typing import Any

from ..markup import Html, at, counted, finite, joined, number, percent, table, tag
from ..page import Section
from ..words import Baseline, Words
from .sample import picture

MOST_SIZES = 30
SCORES = (("accuracy", "agreement"), ("nmi", "mutual information"), ("ari", "adjusted Rand index"))


def clusters_section(facts: dict[str, Any], result: dict[str, Any], words: Words,
                     baselines: Sequence[Baseline] = ()) -> Section:
    """Return the section that the page of a clustering begins with."""
    made = facts.get("models") or {}
    counts = made.get("counts") or []
    chosen = made.get("chosen")
    rule = f", chosen by the {'gap statistic' if 'gaps' in chosen else 'eigengap'}" if chosen else ""
    lost = made.get("no_cluster")
    without = (f" {counted(lost, 'point is', 'points are')} in pieces of the graph without a cluster." if lost else "")
    box = tag("div", tag("p", f"{counted(len(counts), 'cluster')}{rule}, of {_sizes(counts)}.{without}",
                         class_="answer"), tag("p", _agreement(result)), class_="box note")
    told = {"model": words.model} | {baseline.name: baseline.meaning for baseline in baselines}
    return Section("answer", "Which clusters are there?", joined((box, _table(result, told), _picture(facts))))


def _sizes(counts: Sequence[int]) -> str:
    shown = ", ".join(number(count) for count in counts[:MOST_SIZES])
    return f"{shown}{', ...' if len(counts) > MOST_SIZES else ''} points"


def _agreement(result: dict[str, Any]) -> str:
    own, plain = (finite(at(result, *path)) for path in (("metrics", "accuracy"),
                                                         ("baselines", "euclidean", "accuracy")))
    if own is None:
        return "The data set has no classes that the clusters could be compared with."
    beside = "" if plain is None else f", and {percent(plain)} with k-means of the features themselves"
    return (f"Matched one to one, clusters and classes agree on {percent(own)} of the points{beside}. Nothing learned "
            "from the classes.")


def _table(result: dict[str, Any], told: dict[str, str]) -> Html:
    """Return a row a model; without scores what each of them is."""
    metrics = result.get("metrics") or {}
    models = {"model": metrics, **(result.get("baselines") or {})}
    prefixes = [prefix for prefix in ("", "test_") if finite(metrics.get(f"{prefix}accuracy")) is not None]
    heads = [f"{title}{', test points' if prefix else ''}" for prefix in prefixes for _, title in SCORES]
    rows = [(tag("b", name), *(percent(own.get(f"{prefix}{key}")) if key == "accuracy" else number(
        own.get(f"{prefix}{key}")) for prefix in prefixes for key, _ in SCORES), told.get(name, "")) for name, own in
        models.items()]
    return table(("", *heads, ""), rows, range(1, 1 + len(heads)))


def _picture(facts: dict[str, Any]) -> Html:
    found = facts.get("sample") or {}
    return picture(found) if found.get("picture") else Html("")
