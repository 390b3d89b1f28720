"""The health of the graph in a run, and the list of the points that no label reaches."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..graph.health import graph_health, unreached_points
from ..graph.neighbor_lists import Neighbors
from ..graph.vertices import Vertices
from ..graph.weights import read_graph
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt
from .artifacts import Artifact

SHOWN = 20
FILE = "unreached.csv"


@dataclass(frozen=True)
class HealthTask:
    """Describe the graph; write the source rows of points that no label reaches, and the sizes of their components."""

    neighbors: Neighbors | None  # None where the weights were given
    graph: Parts
    labels: Arrays | None  # None of a kind without labels
    split: Arrays
    vertices: Arrays

    def __call__(self, out: PartWriter) -> Receipt:
        labels, train = self.labels.load() if self.labels else {}, self.split.load()["train"]
        points, W = Vertices.from_arrays(self.vertices.load()), read_graph(self.graph)
        labeled, y = labels.get("labeled"), None  # quantities have no classes that neighbors could share
        if "codes" in labels:
            y = np.full(len(train), -1)
            y[labeled] = labels["codes"]
        health = graph_health(W, labeled, self.neighbors, y=y, vertices=points, numbers=train)
        places, sizes = np.arange(0), np.arange(0)
        if labeled is not None and health["unreached"]["count"]:
            places, sizes = unreached_points(W, labeled, points)
        out.write(row=train[places], component_size=sizes)
        return {"health": health}


def write_unreached(folder: Path, health: Artifact) -> dict[str, Any]:
    """Return what a result says of the points that no label reaches; write all of them to `unreached.csv`, if any.

    The file has a line a point: its row in the source, from 0, and the points of its component.
    """
    unreached = health.attributes["unreached"]
    file = folder / FILE if unreached["count"] else None
    if file:
        found = health.parts.read(0)
        with open(file, "w", encoding="utf-8", newline="") as text:
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(["row", "component_size"])
            writer.writerows(zip(found["row"].tolist(), found["component_size"].tolist(), strict=True))
    return {"count": unreached["count"], "ids": unreached["ids"][:SHOWN], "handled": "ambient kernel",
            "file": str(file) if file else None}
