"""The eigenpairs of a cluster kernel: from how many landmarks, of which rank, and how degrees were found."""


from ...base.digest import BANDWIDTH
from ..page import Section
from ..record import RunRecord
from ..rendering import rendered
from ..text import duration, number

DEGREES = {"exact": "exact, of all pairs of points", "landmarks": "from the landmarks"}


def cluster_section(run: RunRecord) -> Section | None:
    """Return a row a bandwidth."""
    bases = run.at("basis", "bases") or []
    if not bases:
        return None
    rows = [(basis.get("bandwidth") or BANDWIDTH, number(basis.get("landmarks")), number(basis.get("rank")),
             f"{number(basis.get('largest'))} to {number(basis.get('smallest'))}",
             DEGREES.get(basis.get("degrees", "")), number(basis.get("mean_degree")),
             duration((basis.get("seconds") or {}).get("all"))) for basis in bases]
    return Section("basis", "Cluster kernel", rendered("cluster.html", rows=rows))
