"""What a page is made of: the record of a run, and the scores in it, as the sections read them."""

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
    inertia: float
    nmi: float
    ari: float


def interval_at(mapping: Any, key: str = "interval") -> tuple[float, float] | None:
    """Return the 95 % interval among some figures; None where it is not known."""
    ends = [finite(end) for end in at(mapping, key) or ()]
    low, high = ends if len(ends) == 2 else (None, None)
    return None if low is None or high is None else (low, high)


def scores_at(mapping: Any, *path: str) -> Scores:
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


class StageRecord(TypedDict, total=False):
    """What one stage of a run took; see `StageRun`."""

    name: str
    status: str
    address: str
    seconds: float
    peak_rss_bytes: int
    predicted_peak_bytes: int | None
    measured_peak_bytes: int | None
    ratio: float | None
    estimated_seconds: float | None
    disk_bytes: int
    graph: str
    why: str


class Unreachable(TypedDict, total=False):
    """How many training points no label reaches, the first of them, what predicts them, and the file that lists all."""

    count: int
    ids: Sequence[int]
    handled: str
    file: str | None


class Result(TypedDict, total=False):
    """The document of a run, result.json."""

    run: str
    name: str
    status: str
    until: str
    stages: Sequence[StageRecord]
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
                not (test.get("none") or test.get("official")))
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
