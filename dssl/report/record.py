"""What a page is made of: the record of a run and the scores in it, and what a kind of model says of itself.

The sections read both: the report knows no kinds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from .text import at, finite

Attributes = Mapping[str, Any]  # JSON that a stage left, such as what its solver did


class ReliabilityBin(TypedDict):
    """Test points with similar probabilities: how many, their mean, and the share that is correct with its interval."""

    n: int
    probability: float
    correct: float
    interval: Sequence[float]


class Reliability(ReliabilityBin):
    """How the probabilities of predicted classes agree with the share that is correct, over all and in bins.

    calibration_error : the expected one. by_chance : what it would be of exact probabilities.
    """

    calibration_error: float
    by_chance: float
    bins: Sequence[ReliabilityBin]


class Scores(TypedDict, total=False):
    """The scores of a model on some points, in the metrics that are defined for it; `<metric>_interval` beside each.

    scoring : the metric that the spec asks for. predicts : what a baseline predicts that needs no model.
    """

    n_test: int
    scoring: str
    error: float
    accuracy: float
    balanced_accuracy: float
    f1: float
    f1_macro: float
    roc_auc: float
    log_loss: float
    loss: float
    rmse: float
    mae: float
    r2: float
    standard_error: float
    interval: Sequence[float]
    confusion: Sequence[Sequence[int]]
    unsupported: int
    reliability: Reliability | None
    predicts: Any
    n_clusters: int
    sizes: Sequence[int]
    agreement: float
    inertia: float
    nmi: float
    ari: float


def interval_at(mapping: object, key: str = "interval") -> tuple[float, float] | None:
    """Return the 95 % interval among some figures; None where it is not known."""
    ends = [finite(end) for end in at(mapping, key) or ()]
    low, high = ends if len(ends) == 2 else (None, None)
    return None if low is None or high is None else (low, high)


def scores_at(mapping: object, *path: str) -> Scores:
    """Return the scores that lie at a path of keys; none where a key is missing."""
    scores: Scores | None = at(mapping, *path)
    return scores or {}


class PairedTest(TypedDict, total=False):
    """The gain over another model on the same n points.

    interval : the 95 % interval of the gain on new points, without 0 where the p-value is below 0.05; None where it is
    unknown. smallest : the smallest gain that these points can distinguish from chance. detectable : the gain that
    would be distinguished in four of five such sets.
    """

    n: int
    gain: float
    interval: Sequence[float] | None
    p_value: float
    smallest: float | None
    detectable: float | None
    power: float


class Unreachable(TypedDict, total=False):
    """How many training points no label reaches, the first of them, what predicts them, and the file that lists all.

    components : in how many components of the graph they are.
    """

    count: int
    components: int
    ids: Sequence[int]
    handled: str
    file: str | None


class Result(TypedDict, total=False):
    """The document of a run, result.json."""

    run: str
    name: str
    status: str
    until: str
    stages: Sequence[dict[str, Any]]  # see `StageRun`
    peak_rss_bytes: int
    intermediate_bytes: int
    metrics: Scores
    baselines: Mapping[str, Scores]
    gain: Attributes
    transductive: Scores
    verdict: Sequence[str]
    notes: Sequence[str]
    selection: Mapping[str, Attributes]
    graphs: Sequence[Attributes]
    unreachable: Unreachable
    model: str
    report: str
    predictions: str


DRAWS = ("labels.random_state", "data.random_state")


def redrawn_by(spec: Attributes) -> tuple[str, ...]:
    """Return the keys of a spec that draw other labels, and other test points, where these are drawn."""
    labels, test = at(spec, "labels") or {}, at(spec, "data", "test") or {}
    is_drawn = (any(labels.get(key) is not None for key in ("count", "per_class", "fraction")),
                not any(test.get(key) for key in ("none", "official", "column")))
    return tuple(key for key, drawn in zip(DRAWS, is_drawn, strict=True) if drawn)


def all_labeled(stages: Mapping[str, Attributes]) -> bool:
    """Return whether every training point has a label; False where that is not known.

    stages : the attributes of each stage by its name.
    """
    n_labeled, n_train = at(stages, "labels", "n_labeled"), at(stages, "split", "n_train")
    return n_labeled is not None and n_labeled == n_train


@dataclass(frozen=True)
class RunRecord:
    """A run as the sections of its page read it; whatever is not known is empty.

    stages : the attributes of each stage by its name. spec : the checked pipeline file. libraries : versions by name.
    growth : what has changed since the last run. unread : a sentence on columns that the model lacks. path : of the
    result.json.
    """

    stages: Mapping[str, Attributes]
    result: Result
    spec: Attributes = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    growth: Sequence[str] = ()
    unread: str = ""
    path: str | None = None

    def stage(self, name: str) -> Attributes:
        """Return the attributes of a stage; none of one that has not run."""
        return self.stages.get(name) or {}

    def at(self, stage: str, *path: str) -> Any:
        """Return what lies at a path of keys in the attributes of a stage, or None where a key is missing."""
        return at(self.stages, stage, *path)

    @property
    def metrics(self) -> Scores:
        """Return the scores of the model on the test points; none without these."""
        return self.result.get("metrics") or {}

    @property
    def all_labeled(self) -> bool:
        """Return whether every training point has a label, so that there are no unlabeled points."""
        return all_labeled(self.stages)

    @property
    def classes(self) -> Sequence[object]:
        """Return the names of the classes; none of quantities."""
        return self.at("labels", "classes") or self.at("split", "classes") or []

    @property
    def hidden(self) -> Scores:
        """Return the scores on the training points whose labels are known and were not shown; none without these."""
        return scores_at(self.stages, "scores", "transductive")

    @property
    def scores(self) -> dict[str, Scores]:
        """Return the scores of the model and its baselines by name."""
        return {"model": self.metrics, **(self.result.get("baselines") or {})}

    @property
    def by_labels(self) -> Attributes:
        """Return what cross-validation on the labels says of the models; nothing where there is none."""
        return at(self.result, "gain", "by_labels") or {}


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
OTHER = Baseline("other", "The other model alone, without the graph. If it is as good, labels and graph add nothing to "
                          "it.")


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
