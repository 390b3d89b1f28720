"""Predict the test points with a model and its baselines, and compare."""

from dataclasses import dataclass, replace
from typing import Any

from ..execution.cost import STEP_BYTES, Cost
from ..learners.class_prior import ClassPrior, ClassWeight
from ..learners.class_scoring import ClassScoring
from ..learners.model import stored_models
from ..learners.target.target import Classes
from ..methods.step import Context
from ..report.sections.scores import scores_section
from ..selection.scores import (
    guess,
    in_defined_scoring,
    points_to_draw,
    predict_test,
    scored_bytes,
    scores_of,
    unlabeled_verdict,
)
from ..selection.scoring import with_scoring
from .plan.facts import Facts
from .spec import Spec
from .split import split_target
from .stage import Stage


@dataclass(frozen=True)
class ScoreParams:
    """How frequent classes are, and what their labels weigh, which the majority class follows."""

    prior: ClassPrior
    weight: ClassWeight

    @classmethod
    def of(cls, spec: Spec) -> "ScoreParams":
        return cls(spec.prior, spec.weight)


def make_scores(context: Context, params: ScoreParams) -> dict[str, Any]:
    """Predict the test points with every model, and compare; without any, pass on what the labels say held out."""
    return make_scores_in(None, context, params)


def make_scores_in(scoring: ClassScoring | None, context: Context, params: ScoreParams) -> dict[str, Any]:
    """Return what `make_scores` does, in a metric.

    scoring : the metric of classes that models are compared by, None for accuracy; which is also taken where another
    is not defined of the model, as `undefined_scoring` says.
    """
    true = split_target(context, "test")
    if isinstance(true, Classes):
        true = with_scoring(true, scoring)
    by_labels = context.attributes("models").get("by_labels")  # none of a kind that is registered without
    if not len(true.coded):
        return {"metrics": {}, "baselines": {}, "gain": {} if by_labels is None else {"by_labels": by_labels}}
    models = stored_models(context.inputs["models"].parts, context.attributes("models")["models"])
    scored = predict_test(context.points("test"), models, true.coded, context.execution, context.parts)
    true, undefined = in_defined_scoring(true, scored["model"])
    scores = {name: {**scores_of(true, predicted), "unsupported": int(predicted["unsupported"].sum())}
              for name, predicted in scored.items()}
    labels = context.target(params.prior)
    name, predicted, predicts = guess(labels, true, labels.label_weights(params.weight))
    scores[name] = {**scores_of(true, predicted), "predicts": predicts}
    gain = {**unlabeled_verdict(true, {**scored, name: predicted}), **undefined,
            **({} if by_labels is None else {"by_labels": by_labels})}
    return {"metrics": scores.pop("model"), "baselines": scores, "gain": gain,
            "stored": {"array": "codes" if "codes" in scored["model"] else "values",
                       "column": list(scored).index("model")},
            **points_to_draw(true, scored["model"])}


def with_scored(cost: Cost, f: Facts[Any], n_models: int, *, asked: bool = False) -> Cost:
    """Return the cost of predictions of test points with what scores of classes take, which the caller holds whole.

    asked : as `scored_bytes`.
    """
    if f.is_regression:
        return cost
    written, held = (f.n_scored * scored_bytes(f.n_outputs, n_models, asked=more) for more in (False, asked))
    return replace(cost, written=cost.written + written, peak=max(cost.peak, STEP_BYTES + held))


SCORES = Stage("scores", 6, ("split", "points", "labels", "models"), ScoreParams.of, make_scores,
               section=scores_section, leads=True)
