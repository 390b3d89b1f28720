"""The eigenpairs of a cluster kernel: from how many landmarks, of which rank, and how degrees were found."""

from typing import Any

from ...base.digest import BANDWIDTH
from ..page import Section
from ..rendering import rendered
from ..text import at, duration, number

DEGREES = {"exact": "exact, of all pairs of points", "landmarks": "from the landmarks"}


def cluster_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return a row a bandwidth."""
    bases = at(facts, "basis", "bases") or []
    if not bases:
        return None
    rows = [(own.get("bandwidth") or BANDWIDTH, number(own.get("landmarks")), number(own.get("rank")),
             f"{number(own.get('largest'))} to {number(own.get('smallest'))}", DEGREES.get(own.get("degrees", "")),
             number(own.get("mean_degree")), duration((own.get("seconds") or {}).get("all"))) for own in bases]
    return Section("basis", "Cluster kernel", rendered("cluster.html", rows=rows))
