"""What a kind of model says of itself, for the sections that tell of it: the report knows no kinds."""

from dataclasses import dataclass

HELD_OUT_POINTS = {"transductive": "stay in the graph, as unlabeled points",
                   "inductive": "leave the graph, as if they were new points"}


# Parameters, by the last part of their key, for those who do not know the formulas.
PARAMETERS = {
    "eta": "what the graph counts for in the kernel; 0 is no graph",
    "power": "how smooth functions are along the graph",
    "C": "what the labels count for against smoothness; the larger, the closer they are fitted",
    "bandwidth": "the distance at which two points are alike to the kernel",
    "gamma_A": "the penalty on the size of the function; the larger, the flatter it is",
    "gamma_I": "the penalty on change along the graph; 0 is no graph",
    "ridge": "the smaller, the farther a label reaches",
    "penalty": "smoothing: the larger, the less the labels are fitted", "learner": "how labels spread along the graph",
    "loss": "what a wrong or uncertain label costs", "loss_function": "what a wrong or uncertain label costs",
    "weighting": "how the kernels are averaged: by what labels held out say, or alike",
    "by_degree": "whether points with many neighbors count less", "n_neighbors": "neighbors of each point in the graph",
    "transfer": "what becomes of the eigenvalues of the kernel", "n_clusters": "how many clusters there are",
}


def meaning_of(key: str) -> str | None:
    """Return what a parameter means, in a line; None where that is not known."""
    return PARAMETERS.get(key.split(".")[-1])


@dataclass(frozen=True)
class Baseline:
    """A model that a run's own is compared with: its name in spec and scores, and what the comparison means.

    of_classes : what is to be added where classes are predicted.
    """

    name: str
    meaning: str
    of_classes: str = ""


BASE = Baseline(
    "base", "The same learner and labels in the plain kernel, without the graph: unlabeled points enter at most the "
            "scaling, the bandwidth and the landmarks. What the model gains over it is what the graph may have "
            "brought.")


GUESSES = (  # baselines of every kind with labels: they need no fit
    Baseline("majority", "The same class everywhere: the most frequent by the class sizes or the class prior of the "
                         "model, or among the labels; of equally frequent classes, the one with the most test points. "
                         "A model with a higher error is of no use where all mistakes cost the same."),
    Baseline("mean", "The mean of the labels everywhere. A model with a higher rmse is of no use."))


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
