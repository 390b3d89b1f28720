"""What a kind of model says of itself, for the sections that tell of it: the report knows no kinds."""

from dataclasses import dataclass

HELD_OUT_POINTS = {"transductive": "stay in the graph, as unlabeled points",
                   "inductive": "leave the graph, as if they were new points"}


@dataclass(frozen=True)
class Baseline:
    """A model that a run's own is compared with: its name in spec and scores, and what the comparison means."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Words:
    """How a graph enters a kind of model, and which keys say how strongly.

    model : what the model is. changed, cause : what a graph that says nothing would still do, as "a ... that merely
    ..." and as "the gain is owed to the ...". graph, norm : the keys of the spec that weigh the graph, and the norm
    against the labels; their last parts name them in a selection. folds : what holding labels out means beside that.
    penalties : the two parameters whose errors are drawn over each other, to the right and upward, and whose grid is
    said to be too short where an end of it is best.
    unsupported : what test points are that the model says nothing about, and what follows. unreached : what predicts
    the training points that no label reaches.
    """

    model: str
    changed: str
    cause: str
    graph: str
    norm: str
    folds: str = ""
    penalties: tuple[str, str] | None = None
    unsupported: tuple[str, str] = (
        "test points near no point of the model",
        "All their kernel values are as good as zero, so the intercept alone gives their label. Raise "
        "kernel.bandwidth, or let dssl predict --abstain leave such points without one.")
    unreached: str = "ambient kernel"
