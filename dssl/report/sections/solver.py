"""How the columns of the graph regularizer were solved, and the evidence that they were."""

from typing import Any

from ..page import Finding, Section
from ..record import Attributes, RunRecord
from ..rendering import rendered
from ..text import ABSENT, at, counted, finite, listed, number


def solver_section(run: RunRecord) -> Section | None:
    """Return the system, the method and why it was taken, the worst residual, and the methods considered."""
    system, columns = run.stage("system"), run.stage("columns")
    evidence = columns.get("solver") or system.get("solver") or {}
    method, considered = evidence.get("method"), evidence.get("considered") or []
    if method is None:
        return None
    tol, worst = finite(at(system, "params", "tol")), finite(columns.get("max_residual"))
    known = worst is not None and tol is not None
    missed = known and worst > tol  # type: ignore[operator]
    within = "" if not known else ": the tolerance was not met" if missed else ": every column meets it"
    extra = [f"{number(evidence['n_vectors'])} eigenvectors" if "n_vectors" in evidence else "",
             f"levels of {_levels(evidence)} unknowns" if "level_sizes" in evidence else ""]
    rows: list[tuple[str, Any]] = [
        ("system", f"{system.get('laplacian', '')} graph Laplacian plus a ridge of {number(system.get('ridge'))} on "
                   "the diagonal, to the power "
                   f"{listed(list(run.at('covariance', 'mean_diagonal') or ()), 5)}; "
                   f"{counted(system.get('n'), 'unknown')}"),
        ("method", f"{method}: {', '.join(filter(None, [evidence.get('description'), *extra]))}"),
        ("why", _why(at(run.spec, "solver", "method"), evidence, len(considered))),
        ("columns solved", number(columns.get("columns"))),
        ("iterations, worst column", number(columns.get("max_iterations"))),
        ("worst relative residual", f"{number(worst)}, tolerance {number(tol)}{within}"),
    ]
    tried = [(item.get("method"), number(item.get("n_vectors")), _levels(item), number(item.get("probe_iterations")),
              item.get("work")) for item in considered]
    alarm = [Finding("worst residual", f"{number(worst)} > {number(tol)}", "warning",
                     "Inaccurate columns give an inaccurate kernel. Raise solver.max_iter or graph.ridge.")
             ] if missed else []
    return Section("solver", "Solver evidence", rendered("solver.html", alarms=alarm, rows=rows, considered=tried))


def _levels(evidence: Attributes) -> str:
    return " > ".join(number(rows) for rows in evidence.get("level_sizes") or []) or ABSENT


def _why(asked: Any, evidence: Attributes, n_considered: int) -> str:
    if n_considered == 1:
        return "the probe columns took so few iterations that no other method was tried"
    if n_considered:
        return (f"the least work for these columns, as counted on probe columns, of "
                f"{counted(n_considered, 'method')} considered")
    if asked == evidence.get("method"):
        return "the spec asks for it"
    return str(evidence.get("reason", ABSENT))
