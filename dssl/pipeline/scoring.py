"""Predict the test points with a model and its baselines, and compare; or compare clusters with classes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, cast

import numpy as np

from ..base.digest import JsonObject
from ..execution.cost import STEP_BYTES, Cost, cost_of
from ..graph.equal_rows import hash_rows, hashed_row_bytes
from ..knn.metric import sample_ids
from ..learners.class_prior import ClassPrior, ClassWeight
from ..learners.metrics import ClassScoring
from ..learners.model import Model, stored_models
from ..learners.on_graph.model import scored
from ..learners.probabilities import calibration_of
from ..learners.tags import Tags
from ..learners.target.target import Classes, Target
from ..methods.clusters import euclidean_cost
from ..methods.plan_inputs import PlanInputs
from ..methods.step import Context, Method, NoParams
from ..methods.tags import Values, labeled_tags, values_at_training
from ..report.record import Attributes, Scores
from ..report.sections.data import WARNING
from ..report.sections.scores import scores_section
from ..selection.comparison import unlabeled_verdict, verdict_of
from ..selection.duplicates import (
    KEY_BYTES,
    MAX_DUPLICATES,
    NONE_COUNTED,
    LabeledDuplicates,
    labeled_duplicates,
    repeated_in_words,
    rows_hashed,
)
from ..selection.number_of_clusters import clustering_scores
from ..selection.scores import (
    OF_MODEL,
    constant_baseline,
    in_defined_scoring,
    points_to_plot,
    predict_test,
    scored_bytes,
    scores_of,
    with_rejections,
)
from ..selection.scoring import with_scoring
from ..selection.tag_scores import pair_of_tags, scores_of_tags
from ..storage.blocks import Rows
from .spec import Spec
from .split import known_target, split_target
from .stage import Stage

MAX_SAMPLED = 2000  # test points that are searched among the labeled points, or points at which columns are examined
MAX_CATEGORIES = 500
FOLLOWED = 0.5  # adjusted Rand index of clusters with the values of a column, above which they follow it


@dataclass(frozen=True)
class ScoreParams:
    """How frequent classes are, and what their labels weigh, which the majority class follows.

    scoring : the metric of classes that models are compared by; None for accuracy.
    """

    prior: ClassPrior
    weight: ClassWeight
    scoring: ClassScoring | None

    @classmethod
    def of(cls, spec: Spec) -> "ScoreParams":
        return cls(spec.prior, spec.weight, getattr(spec.model, "scoring", None))


class Duplicates(LabeledDuplicates):
    """How many test points equal a labeled training point, of so many that were searched; and duplicates of labels."""

    equal: int
    of: int


NOT_COUNTED: Duplicates = {**NONE_COUNTED, "equal": 0, "of": 0}


class Compared(TypedDict, total=False):
    """The scores of the model (`metrics`) and its baselines, and what the model gains over each.

    transductive : the scores on the training points whose labels were not shown. duplicates : of labeled points,
    among them and among the test points. stored : which array and column hold the predictions of the model. shown :
    some quantities, true and predicted, as a plot shows them.
    """

    metrics: Scores
    baselines: Mapping[str, Scores]
    gain: Attributes
    transductive: Scores
    duplicates: Duplicates
    stored: Mapping[str, Any]
    shown: Mapping[str, Sequence[float]]


def make_scores(context: Context, params: ScoreParams) -> Compared:
    """Predict the test points with every model, and compare; without any, pass on what the labels say held out.

    Where the scoring is not defined of the model, accuracy is taken, as `undefined_scoring` says.
    """
    true = split_target(context, "test")
    if isinstance(true, Tags):
        return _scores_of_tags(context, true)
    if isinstance(true, Classes):
        true = with_scoring(true, params.scoring)
    by_labels = context.attributes("models").get("by_labels")  # none of a kind that is registered without
    labels = context.target(params.prior)
    duplicates = duplicates_of_labeled(context, labels)
    if not len(true.coded):
        return {"metrics": {}, "baselines": {}, "gain": {} if by_labels is None else {"by_labels": by_labels},
                "duplicates": duplicates}
    models = stored_models(context.inputs["models"].parts, context.attributes("models")["models"])
    scored = predict_test(context.points("test"), models, true.coded, context.execution, context.parts)
    true, undefined = in_defined_scoring(true, scored["model"])
    scores = {name: {**scores_of(true, predicted), "unsupported": int(predicted["unsupported"].sum())}
              for name, predicted in scored.items()}
    name, predicted, predicts = constant_baseline(labels, true, context.label_weights(labels, params.weight))
    scores[name] = {**scores_of(true, predicted), "predicts": predicts}
    gain = {**unlabeled_verdict(true, {**scored, name: predicted}), **undefined,
            **({} if by_labels is None else {"by_labels": by_labels})}
    compared = {"metrics": scores.pop("model"), "baselines": scores, "gain": gain,
                "duplicates": duplicates,
                "stored": {"array": "codes" if "codes" in scored["model"] else "values",
                           "column": list(scored).index("model")},
                **points_to_plot(true, scored["model"])}
    return cast(Compared, compared)


def duplicates_of_labeled(context: Context, labels: Target) -> Duplicates:
    """Return how many test points equal a labeled training point, of a sample of at most `MAX_SAMPLED` test points.

    And how many labeled points equal another one, and one of another class.
    """
    test, train = context.points("test"), context.points("train")
    height = rows_hashed(train.row_bytes, context.execution.memory_budget)
    if not height:
        return NOT_COUNTED
    of_labeled, keys = labeled_duplicates(train, labels, height)
    sampled = sample_ids(len(test), min(height, MAX_SAMPLED))
    equal = int(np.isin(hash_rows(test.take(sampled)), keys).sum()) if len(sampled) else 0
    return {**of_labeled, "equal": equal, "of": len(sampled)}


def _scores_of_tags(context: Context, true: Tags) -> Compared:
    """Return the scores of all tags at the test points; `majority` predicts of each what most of its labels say."""
    described = context.attributes("models")
    by_labels = described["by_labels"]
    if not len(true.labeled):
        return {"metrics": {}, "baselines": {}, "gain": {"by_labels": by_labels}}
    models = stored_models(context.inputs["models"].parts, described["models"]).open()
    values, scores = dict[str, np.ndarray](), dict[str, JsonObject]()
    for name, model in models.items():
        values[name], unsupported = model.values_and_unsupported(context.points("test"), context.execution)
        if name == "model":
            stored = {OF_MODEL: values[name], "unsupported": unsupported[:, None]}
            for key, array in stored.items():
                context.parts.allocate(key, array.shape, array.dtype, min(CHUNK_ROWS, len(array)))
            context.parts.write_range(0, stored)
        calibration = calibration_of(model.attributes)
        probabilities = None if calibration is None else calibration.probabilities(values[name])
        scores[name] = {**scores_of_tags(true, values[name], probabilities), "unsupported": int(unsupported.sum())}
    n_positive, n_negative = labeled_tags(context).n_by_entry
    values["majority"] = np.tile(np.where(n_positive > n_negative, 1.0, -1.0), (len(true.labeled), 1))
    scores["majority"] = {**scores_of_tags(true, values["majority"]), "predicts": MOST_FREQUENT}
    pairs = {name: pair_of_tags(true, values["model"], other) for name, other in values.items() if name != "model"}
    compared = {"metrics": scores.pop("model"), "baselines": scores,
                "gain": {**verdict_of(pairs), "by_labels": by_labels}}
    return cast(Compared, compared)


def with_scored(cost: Cost, f: PlanInputs, n_models: int, *, asked: bool = False) -> Cost:
    """Return the cost of predictions of test points with what scores of classes take, which the caller holds whole.

    asked : as `scored_bytes`.
    """
    height = min(max(f.n_test, f.n_labeled), rows_hashed(f.row_bytes, f.budget))
    sampled = height * hashed_row_bytes(f.row_bytes) + KEY_BYTES * f.n_labeled
    cost = replace(cost, written=cost.written + 8 * f.n_test * f.n_values,  # of the model
                   read=cost.read + (min(f.n_test, height) + f.n_labeled) * f.row_bytes * (height > 0),
                   peak=max(cost.peak, STEP_BYTES + sampled))
    if f.is_regression:
        return cost
    written, held = (f.n_test * scored_bytes(f.n_outputs, n_models, has_scoring=more) for more in (False, asked))
    return replace(cost, written=cost.written + written, peak=max(cost.peak, STEP_BYTES + held))


CHUNK_ROWS = 1 << 14  # of the values of a model of tags
MOST_FREQUENT = "of each tag what most of its labels say"
NOT_DEFINED = {"roc_auc": "they are of one class", "f1": "none is of the second class",
               "neg_log_loss": "the model has no probabilities"}


def scoring_notes(scores: Attributes) -> list[str]:
    """Return a note where models are compared by accuracy since the metric that is asked for is not defined.

    And one where many test points, or without any many labeled points, equal a labeled point, or classes of equal
    points contradict one another.
    """
    gains = {"test points": scores["gain"], "held-out labels": scores["gain"].get("by_labels") or {}}
    notes = [f"model.scoring is {name}, which is not defined at the {points}, since {NOT_DEFINED[name]}: there the "
             "models are compared by accuracy"
             for points, gain in gains.items() if (name := gain.get("undefined_scoring"))]
    duplicates = scores.get("duplicates", NOT_COUNTED)
    if duplicates["equal"] > MAX_DUPLICATES * duplicates["of"]:
        notes.append(f"{WARNING}{duplicates['equal']:,} of {duplicates['of']:,} test points equal a labeled training "
                     "point, so that errors at other points may be higher; where one case was recorded several times, "
                     "drop its duplicates from the source")
    if not duplicates["of"] and (repeated := repeated_in_words(duplicates)):
        notes.append(f"{WARNING}{repeated}; where one case was recorded several times, drop its duplicates from the "
                     "source")
    if duplicates["contradicted"]:
        notes.append(f"{duplicates['contradicted']:,} of {duplicates['labeled']:,} labeled points equal a labeled "
                     "point of another class: no model of these columns is right about all of them")
    return notes


def values_at_test(context: Context) -> Callable[[int, int], Values] | None:
    """Return what reads the values (b, c) of the model at a range of test points, and at which of them it says nothing.

    None where no test point was scored.
    """
    scores = context.inputs["scores"]
    if not scores.attributes["metrics"]:
        return None
    values, unsupported = (scores.parts.rows(name) for name in (OF_MODEL, "unsupported"))
    column = scores.attributes.get("stored", {}).get("column", 0)  # of tags the model alone is there
    return lambda start, stop: (values.read(start, stop), unsupported.read(start, stop)[:, column])


def transductive_scores(context: Context, values: np.ndarray, unreachable: np.ndarray) -> Scores | None:
    """Return the scores of the training points whose labels are known and were not shown; None without any.

    values (n_train, c) : what the model predicts. unreachable (n_train,) bool : where it predicts nothing.
    """
    known, shown = split_target(context, "train"), context.arrays("labels")["labeled"]
    if isinstance(known, Tags):
        hidden_tags = known.take(np.flatnonzero(~np.isin(known.labeled, shown)))
        some = hidden_tags.labeled
        return cast(Scores, scores_of_tags(hidden_tags, values[some])) if len(some) else None
    hidden = known.take(np.flatnonzero(~np.isin(known.labeled, shown)))
    if not len(hidden.labeled):
        return None
    rejected = unreachable[hidden.labeled]
    predicted = with_rejections(scored(hidden).predictions(values[hidden.labeled], hidden.coded), rejected)
    scores = {name: value for name, value in scores_of(hidden, predicted).items() if name != "confusion"}
    return cast(Scores, {**scores, "unsupported": int(rejected.sum())})


def scores_with(cost: Callable[[PlanInputs, Any], Cost], method: Method) -> Stage:
    """Return the stage of a method's kind, which scores the training points too where the method knows their values."""
    at_training = values_at_training(method)

    def make(context: Context, params: ScoreParams) -> Compared:
        compared = make_scores(context, params)
        transductive = None if at_training is None else transductive_scores(context, *at_training(context))
        if transductive is not None:
            compared["transductive"] = transductive
        return compared

    return replace(SCORES, make=make, cost=cost, hint=method.steps[-1].hint,
                   needs=SCORES.needs_and(method.training_needs))


SCORES = Stage("scores", 14, ("split", "points", "labels", "models"), ScoreParams.of, make_scores,
               section=scores_section, leads=True, notes=scoring_notes)


def make_agreement(context: Context, params: NoParams) -> Attributes:
    """Compare clusters with those of the baselines, with columns, and with the classes of points that have one."""
    made = context.attributes("models")
    models, k = stored_models(context.inputs["models"].parts, made["models"]).open(), len(made["counts"])
    labels = context.rows("models", "labels").read_all()
    scored: dict[str, dict[str, Any]] = {name: {"n_clusters": k} for name in models}
    scored["model"]["inertia"] = made["inertia"]
    points = context.points("train")
    clusters = {of: labels if of == "model" else assigned(model, points, context) for of, model in models.items()}
    for of, of_points in clusters.items():
        scored[of]["sizes"] = np.bincount(of_points[of_points >= 0], minlength=k).tolist()
        both = (labels >= 0) & (of_points >= 0)  # a point without a cluster agrees with none
        if of != "model":
            scored[of]["agreement"] = clustering_scores(labels[both], of_points[both])["ari"] if both.any() else 0.0
    for name, prefix, count in (("train", "", "n_compared"), ("test", "test_", "n_test")):
        target = known_target(context, name)
        if target is None or not len(target.labeled):
            continue
        assert isinstance(target, Classes)
        if name == "test":
            clusters = {of: assigned(model, context.points(name), context) for of, model in models.items()}
        for of, of_points in clusters.items():
            scores = clustering_scores(target.coded, of_points[target.labeled])
            scored[of] |= {f"{prefix}{key}": value for key, value in scores.items()} | {count: len(target.labeled)}
    followed = followed_column(points, labels, context.attributes("dataset")["dataset"].get("feature_names"))
    return {"metrics": scored.pop("model"), "baselines": scored, **({} if followed is None else {"followed": followed})}


class Followed(TypedDict):
    """A column of a few values, and the adjusted Rand index of clusters with these."""

    column: str
    ari: float


def followed_column(points: Rows, clusters: np.ndarray, names: Sequence[str] | None) -> Followed | None:
    """Return the category that clusters (n,) follow: the one whose values they are most alike, if more than `FOLLOWED`.

    On at most `MAX_SAMPLED` of the points. names (d,) : of the columns; those of a category begin alike, up to "=".
    Columns of more than two values at these points are no categories. None of sparse points, and of more than
    `MAX_CATEGORIES` categories, whose comparison would take seconds.
    """
    if points.is_sparse:
        return None
    ids = sample_ids(len(points), MAX_SAMPLED)
    X, of_sample = points.take(ids), clusters[ids]
    smallest, largest = X.min(axis=0), X.max(axis=0)
    columns = np.flatnonzero((smallest < largest) & ((smallest == X) | (largest == X)).all(axis=0))
    categories: dict[str, list[int]] = {}
    for column in columns.tolist():
        name = f"{column}" if names is None else names[column]
        categories.setdefault(name.partition("=")[0], []).append(column)
    is_largest = largest == X
    alike = {name: clustering_scores(is_largest[:, of_name] @ np.arange(1, len(of_name) + 1), of_sample)["ari"]
             for name, of_name in categories.items()} if len(categories) <= MAX_CATEGORIES else {}
    name = max(alike, key=alike.__getitem__, default="")
    return {"column": name, "ari": alike[name]} if alike.get(name, 0.0) > FOLLOWED else None


def agreement_notes(attributes: Attributes) -> list[str]:
    """Return the note on a column that clusters follow."""
    if "followed" not in attributes:
        return []
    column, ari = attributes["followed"]["column"], attributes["followed"]["ari"]
    return [f"{WARNING}the clusters follow the values of the column {column} (adjusted Rand index {ari:.2f}), which "
            f"may lie so far apart that few edges join them; to see others, leave it out by data.read.drop: [{column}]"]


def assigned(model: Model, points: Rows, context: Context) -> np.ndarray:
    """Return the clusters of points (n,), -1 where the model rejects a point."""
    values, unsupported = model.values_and_unsupported(points, context.execution)
    labels = model.coding.labels(values)
    return model.coding.mask_labels(labels, unsupported) if model.rejects else labels


def agreement_with(assigned_cost: Callable[[PlanInputs, Any], Cost]) -> Stage:
    """Return the stage that compares clusters with classes; assigned_cost : of assigning the test points."""
    def agreement_cost(f: PlanInputs, spec: Spec) -> Cost:
        """Return that of the clusters of test points by all models, and of training points by the baselines."""
        cost = assigned_cost(f, spec) if f.n_test else cost_of(0, 0, 0, 0)
        for n in filter(None, (f.n, f.n_test)):
            cost += len(spec.params.baselines) * euclidean_cost(f, n)
        values = 8 * (f.n + f.n_test) * (spec.params.kmeans.n_clusters + 4) + 24 * min(f.n, MAX_SAMPLED) * f.width
        return replace(cost, written=0, peak=cost.peak + values, smallest_peak=cost.smallest_peak + values)

    return Stage("scores", 2, ("dataset", "split", "points", "models"), lambda spec: NoParams(), make_agreement,
                 agreement_cost, "lower data.points", notes=agreement_notes)
