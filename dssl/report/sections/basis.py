"""The eigenfunctions that a kernel is made of: those of a cluster kernel, and those of a multi-scale kernel."""

from ...base.digest import BANDWIDTH
from ..page import Section
from ..plots import regions_plot, scales_plot, second_plot
from ..record import RunRecord
from ..rendering import rendered
from ..text import counted, duration, number, percent

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
    truncated = any(basis.get("truncated") for basis in bases)
    return Section("basis", "Cluster kernel", rendered("cluster.html", rows=rows, truncated=truncated))


def multiscale_section(run: RunRecord) -> Section | None:
    """Return the counts, the scale and eigenvalue of each index, and the second eigenvalue of each scale."""
    basis = run.at("basis", "basis") or {}
    if not basis.get("index"):
        return None
    scales = basis["scales"]
    rows = (
        ("landmarks", number(basis.get("landmarks"))),
        ("outliers that are no landmarks", number(basis.get("outliers"))),
        ("eigenpairs", number(basis.get("eigenpairs"))),
        ("scales", f"{number(len(scales))}, from {number(scales[0])} to {number(scales[-1])}"),
        ("skipped", f"{counted(basis.get('passed_over'), 'index', 'indices')}: at the scale of the most stable "
                        "eigenvalue the denominator of the extension vanishes at or near a landmark"),
        ("unstable at all scales", f"{counted(basis.get('unsound'), 'index', 'indices')}, extended as a mean where the "
                                  f"denominator is small: {percent(basis.get('unsound_share'))} of points and indices"),
        ("dropped", f"{counted(basis.get('dropped'), 'index', 'indices')} with an eigenvalue of 0"),
        ("time", duration((basis.get("seconds") or {}).get("all"))))
    return Section("basis", "Multi-scale kernel", rendered(
        "multiscale.html", rows=rows, second=second_plot(scales, basis["second"]),
        scales=scales_plot(basis["index"], [scales[j] for j in basis["chosen"]], basis["eigenvalues"])))


def regions_section(run: RunRecord) -> Section | None:
    """Return what is predicted of points in the plane and around them; None where there are not two columns."""
    regions = run.at("models", "regions")
    if not regions:
        return None
    return Section("regions", "What is predicted where", rendered("regions.html", drawing=regions_plot(**regions)))
