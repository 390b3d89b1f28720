"""What a kind of model says of itself, for the sections that tell of it: the report knows no kinds."""

from dataclasses import dataclass

HELD_OUT_POINTS = {"transductive": "stay in the graph, as unlabeled points",
                   "inductive": "are removed from the graph, as if they were new points"}


# Parameters, by the last part of their key, for those who do not know the formulas.
PARAMETERS = {
    "eta": "the weight of the graph in the kernel; 0 ignores the graph",
    "power": "how smooth the functions are along the graph",
    "C": "the weight of the labels against smoothness; a larger value fits the labels more closely",
    "bandwidth": "the distance up to which the kernel treats two points as similar",
    "gamma_A": "the penalty on the norm of the function; a larger value makes it flatter",
    "gamma_I": "the penalty on changes along the graph; 0 ignores the graph",
    "ridge": "how local the influence of a label is; a smaller value lets it reach more of the graph",
    "penalty": "the strength of smoothing; a larger value fits the labels less closely",
    "unlabeled_weight": "the weight of the unlabeled points against the labels; 0 ignores them",
    "learner": "how labels spread along the graph",
    "loss": "the cost of a wrong or uncertain prediction",
    "loss_function": "the cost of a wrong or uncertain prediction",
    "weighting": "how the kernels are averaged: weighted by their errors on held-out labels, or equally",
    "by_degree": "whether points with many neighbors count less", "n_neighbors": "neighbors of each point in the graph",
    "transfer": "the function that is applied to the eigenvalues of the kernel", "n_clusters": "the number of clusters",
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
    "base", "The supervised baseline: the same learner and labels with the plain kernel, without the graph. Unlabeled "
            "points influence at most the scaling, the bandwidth and the landmarks. The gain of the model over it is "
            "what the graph may have contributed.")


GUESSES = (  # baselines of every kind with labels: they need no fit
    Baseline("majority", "Predicts the same class everywhere: the most frequent one according to the class sizes or "
                         "the class prior of the model, or else among the labels. If several classes are equally "
                         "frequent, it is the one with the most test points. A model with a higher error is useless "
                         "if all mistakes cost the same."),
    Baseline("mean", "Predicts the mean of the labels everywhere. A model with a higher rmse is useless."))


@dataclass(frozen=True)
class ReportText:
    """How a graph enters a kind of model, and which keys say how strongly.

    model : what the model is. changed, cause : what a graph that says nothing would still do, as "a ... that merely
    ..." and as "the gain is owed to the ...". graph, norm : the keys of the spec that weigh the graph, and the norm
    against the labels; their last parts name them in a selection. unlabeled : what the first of them weighs. equals :
    what the model equals where that has no weight. folds : what holding labels out means beside that.
    penalties : the two parameters whose errors are drawn over each other, to the right and upward, and whose grid is
    said to be too short where an end of it is best.
    unsupported : what test points are that the model says nothing about, and what follows. unreachable : what predicts
    the training points that are unreachable from any label.
    """

    model: str
    changed: str
    cause: str
    graph: str
    norm: str
    unlabeled: str = "graph"
    equals: str = "The model equals the base model"
    folds: str = ""
    penalties: tuple[str, str] | None = None
    unsupported: tuple[str, str] = (
        "test points that are not near any point of the model",
        "Their kernel values are practically zero, so the intercept alone determines their label. Raise "
        "kernel.bandwidth, or use dssl predict --reject to give such points no label.")
    unreachable: str = "ambient kernel"
