"""The rows of a search, kept in a workspace: the table of a fit is an artifact, named by all that it was made of."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.digest import digest
from ..base.errors import require
from ..graph.graph import Graph
from ..graph.shared_search import GraphStore
from ..learners.target.target import Target
from ..storage.artifacts import Artifact, Workspace
from ..storage.csr import digest_of_arrays, digest_of_rows
from .candidates import Fit

UNREAD = ("cv", "unlabeled", "graph")  # folds, labels and graph are there themselves


@dataclass(frozen=True, eq=False)
class RowStore:
    """Where the tables of fits are kept; points, labels : digests of the rows, and of the labels and their weights."""

    workspace: Workspace
    points: str
    labels: str

    @classmethod
    def of(cls, workspace: Workspace, rows: Any, target: Target, weight: np.ndarray | None) -> "RowStore":
        """Return the place of the searches of some points and labels; reads the points once."""
        weights = {} if weight is None else {"weight": weight}
        labels = digest_of_arrays({"labeled": target.labeled, "coded": target.coded, **weights})
        return cls(workspace, digest_of_rows(rows), digest({"kind": type(target).__name__, "labels": labels}))

    @property
    def graphs(self) -> GraphStore:
        """Return where the graphs of the points are kept."""
        return GraphStore(self.workspace, self.points)

    def table(self, fit: Fit, graph: str, repetitions: Sequence[Sequence[np.ndarray]],
              scoring: str | None) -> Artifact:
        """Return the artifact of the rows of a fit; graph : the address of its graph, or what copies are without."""
        folds = [[digest_of_arrays({"fold": fold}) for fold in folds] for folds in repetitions]
        return self.workspace.artifact("held_out", 1, {
            "estimator": type(fit.estimator).__name__, "versions": fit.estimator.versions,
            "parameters": named_parameters(fit), "tried": list(fit.tried), "folds": digest(folds), "scoring": scoring,
        }, {"points": self.points, "labels": self.labels, "graph": graph})


def address_of(graph: Graph) -> str:
    """Return the digest of a graph that is given."""
    return digest_of_arrays(graph.to_arrays())


def rows_of(table: Artifact) -> list[dict[str, Any]]:
    """Return the rows of a complete table; raise IntegrityError if it is damaged."""
    held = table.attributes
    return [dict(zip(held["names"], values, strict=True)) for values in held["rows"]]


def publish(table: Artifact, rows: Sequence[dict[str, Any]]) -> None:
    """Keep the rows of a fit, which have the same names."""
    table.begin({})
    table.publish({"names": list(rows[0]), "rows": [list(row.values()) for row in rows]})


def named_parameters(fit: Fit) -> dict[str, Any]:
    """Return the parameters that the candidates of a fit share, groups as they are used.

    Raises ParameterError: one, or one that is tried, is a function, or of a class that is not of dssl.
    """
    estimator = fit.estimator
    parameters = {name: estimator.group(name) if name in estimator.groups else value
             for name, value in estimator.get_params(deep=False).items() if name not in (*estimator.joint, *UNREAD)}
    usual = {name: value for name, value in estimator.get_params().items() if name in estimator.joint}
    shares = {name: sorted(([key, share] for key, share in value.items()), key=str)
              for name, value in parameters.items() if isinstance(value, dict)}  # by class, which may be no text
    parameters |= shares
    for name, value in [*parameters.items(), *(pair for tried in fit.tried for pair in tried.items())]:
        entries = [entry for pair in value for entry in pair] if name in shares else (
            value if isinstance(value, (list, tuple)) else [value])
        plain = all(entry is None or isinstance(entry, (bool, int, str)) or (
            isinstance(entry, (float, np.generic)) and np.isfinite(entry)) for entry in entries)
        ours = dataclasses.is_dataclass(value) and type(value).__module__.startswith("dssl.")
        require(plain or ours, f"{name}={value!r} in a search with a workspace",
                why="its results are kept under what made them: finite numbers, texts, values of dssl; nothing tells "
                    "what a function does", fix="name a kernel or loss of dssl, or leave workspace out")
    return {**parameters, **usual}
