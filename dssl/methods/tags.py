"""Tags (several labels a point): the steps of a method run for each tag, and the models of all become one.

An artifact that is made for each tag has the attributes of each in `of_tags`, and its parts within `tag0`, `tag1`, ...
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import DsslError
from ..learners.model import Model
from ..learners.on_graph.graph_ridge import LastKernelRows
from ..learners.probabilities import CALIBRATION, Calibration, TagCalibration, calibration_attributes
from ..learners.tags import TagModel, Tags, with_shared_index
from ..learners.target.coding import margins_of
from ..learners.target.encoding import UNLABELED
from ..selection.graph_gain import Gain
from ..selection.tag_scores import MEANS, OverTags, compare_tags, pair_of_tags, scores_of_tags, tag_scores
from ..storage.blocks import Parts
from .evaluation import MadeHere
from .step import Context, HeldOutValues, Method, SideResults

NAMES = {"f1_macro": "macro F1", "average_precision": "mean average precision"}
OF_TAGS = "of_tags"
NOT_HELD_OUT = "this kind of model has no held-out values of all tags"
Values = tuple[np.ndarray, np.ndarray]  # of points (n, c), and which of these the model says nothing of
ValuesAtTraining = Callable[[Context], Values]


def parts_of_tag(parts: Parts, number: int) -> Parts:
    """Return the parts of one tag within those of an artifact."""
    return parts.within(f"tag{number}")


def is_of_tags(context: Context) -> bool:
    """Return whether a step is made for each tag; False where there are none, and where it does not depend on them."""
    return any(OF_TAGS in made.attributes for made in context.inputs.values())


def of_tag(context: Context, number: int, side: SideResults | None = None) -> Context:
    """Return what a step gets for one tag; an artifact that was not made for each serves every tag."""
    inputs = {name: MadeHere(parts_of_tag(made.parts, number), made.attributes[OF_TAGS][number])
              if OF_TAGS in made.attributes else made for name, made in context.inputs.items()}
    return replace(context, inputs=inputs, parts=parts_of_tag(context.parts, number), side=side)


def labeled_tags(context: Context) -> Tags:
    """Return the labels of the stage `labels`."""
    return Tags.from_arrays(context.arrays("labels"), context.attributes("labels"))


def made_of_tags(make: Callable[[Context, Any], Mapping[str, Any]], context: Context, params: object) -> dict[str, Any]:
    """Make a step for each tag; return its attributes. Models are joined to one of all tags."""
    names = next([tag["tag"] for tag in made.attributes[OF_TAGS]] for made in context.inputs.values()
                 if OF_TAGS in made.attributes)
    last, attributes, sides = LastKernelRows(), list[dict[str, Any]](), list[SideResults]()
    for number, name in enumerate(names):
        side = SideResults(last)
        try:
            attributes.append({"tag": name, **make(of_tag(context, number, side), params)})
        except DsslError as error:
            error.add_note(f"This is of the tag {name!r}.")
            raise
        side.models = {name: with_shared_index(model, [other.models[name] for other in sides if name in other.models])
                       for name, model in side.models.items()}
        sides.append(side)
    return {OF_TAGS: attributes} | (_joined(context, attributes, sides) if sides[0].models else {})


def _joined(context: Context, attributes: Sequence[Mapping[str, Any]], sides: Sequence[SideResults]) -> dict[str, Any]:
    """Write the models of all tags as one each; return their attributes, and what held-out labels say of them."""
    target, calibrations = labeled_tags(context), dict[str, TagCalibration | None]()
    models = dict[str, Model]()
    for name in [name for name in sides[0].models if all(name in side.models for side in sides)]:
        stored = [each["models"][name].get(CALIBRATION) for each in attributes]
        calibrations[name] = calibration_of_tags(target, [each and Calibration.from_dict(each) for each in stored])
        models[name] = TagModel.of([side.models[name] for side in sides], target, {
            "name": name, **calibration_attributes(calibrations[name])})
    held_out = [side.held_out for side in sides if side.held_out is not None]
    made = {"models": context.write_models(models)}
    for number in range(len(sides)):
        of_one = parts_of_tag(context.parts, number)
        if of_one.receipt_of(0) is not None:  # the models of one tag, which a task wrote
            of_one.remove()
    if len(held_out) < len(sides) or "base" not in models:
        return {**made, "by_labels": {"n": 0, "why": NOT_HELD_OUT}}
    return {**made, "by_labels": by_labels_of_tags(target, held_out, calibrations["model"])}


def values_at_training(method: Method | None) -> ValuesAtTraining | None:
    """Return `Method.at_training` where there may be several labels a point; None of a method that has none."""
    if method is None or method.at_training is None:
        return None
    at_training = method.at_training

    def values(context: Context) -> Values:
        return _values_of_tags(at_training, context) if is_of_tags(context) else at_training(context)

    return values


def _values_of_tags(at_training: Callable[[Context], Values], context: Context) -> Values:
    """Return what the models of all tags say at the training points."""
    target = labeled_tags(context)
    columns = [at_training(of_tag(context, number)) for number in range(len(target.learnable))]
    values = np.tile(target.constants(), (len(columns[0][0]), 1))
    for column, (of_column, unsupported) in zip(target.learnable.tolist(), columns, strict=True):
        values[:, column] = np.where(unsupported, np.nan, of_column[:, -1])
    return values, np.all([unsupported for _, unsupported in columns], axis=0)


def calibration_of_tags(target: Tags, learned: Sequence[Calibration | None]) -> TagCalibration | None:
    """Return the calibration of all tags from that of each that is learned; None where one of these has none.

    A tag that all labels have, or none of n has, has the probability (n + 1) / (n + 2), or 1 / (n + 2): Laplace's rule.
    """
    if any(calibration is None for calibration in learned):
        return None
    n_positive, n_negative = target.n_by_entry
    shares = np.where(np.isnan(target.constants()), np.nan, (n_positive + 1) / (n_positive + n_negative + 2))
    tags: list[Calibration | None] = [None] * len(target.names)
    for column, calibration in zip(target.learnable.tolist(), learned, strict=True):
        tags[column] = calibration
    return TagCalibration(tuple(tags), shares)


@dataclass(frozen=True)
class HeldOutTags:
    """The labels that are held out, and the scores (l, c) of the model and its supervised baseline without them.

    tags : those with scores; columns : which of all.
    """

    tags: Tags
    columns: np.ndarray
    model: np.ndarray
    base: np.ndarray

    @classmethod
    def of(cls, target: Tags, held_out: Sequence[HeldOutValues]) -> "HeldOutTags":
        """Return those of a target; held_out : of each learnable tag.

        A tag that all labels have, or none has, counts as it does at test points: without one of two labels or more
        it is predicted as with it, so that all of these entries are right.
        """
        known = replace(target, coded=np.full_like(target.coded, UNLABELED))
        model, base = np.full((2, *target.coded.shape), np.nan)
        for column, of_tag in zip(target.learnable.tolist(), held_out, strict=True):
            at = np.searchsorted(target.labeled, of_tag.points)
            known.coded[at, column] = target.coded[at, column]
            for values, of_column in ((model, of_tag.model), (base, of_tag.base)):
                values[at, column] = margins_of(of_column, of_tag.coding)[:, 1]
        some = np.flatnonzero((known.coded != UNLABELED).any(axis=1))
        constants = target.constants()
        constant = ~np.isnan(constants) & (target.n_by_entry.sum(axis=0) > 1)
        for values, fill in ((known.coded, target.coded), (model, constants), (base, constants)):
            values[:, constant] = np.broadcast_to(fill, values.shape)[:, constant]
        columns = np.union1d(target.learnable, np.flatnonzero(constant))
        return cls(known.take(some).of_columns(columns), columns, model[some][:, columns], base[some][:, columns])

    def probabilities(self, calibration: TagCalibration | None) -> np.ndarray | None:
        """Return those of the model, by the calibration of all tags."""
        return None if calibration is None else calibration.of_columns(self.columns).probabilities(self.model)


def by_labels_of_tags(target: Tags, held_out: Sequence[HeldOutValues],
                      calibration: TagCalibration | None) -> dict[str, object]:
    """Return what held-out labels say of models of tags, as a report reads it; see `selection.by_labels`."""
    known = HeldOutTags.of(target, held_out)
    n = len(known.tags.labeled)
    if n == 0:
        return {"n": 0, "why": "no label is held out"}
    pair = pair_of_tags(known.tags, known.model, known.base)
    scores = {"model": scores_of_tags(known.tags, known.model, known.probabilities(calibration)),
              "base": scores_of_tags(known.tags, known.base)}
    return {"n": n, "folds": n, "scores": scores,
            "over_base": pair.described(), "unlabeled_data": pair.verdict, "curve": [],
            "no_curve": "each tag has different labels"}


class EvidenceOfTags(TypedDict):
    """What held-out labels say of models of tags and of their supervised baseline: JSON, and as a sentence."""

    gain: dict[str, object]
    over_tags: dict[str, OverTags]
    held_out: dict[str, JsonObject]
    in_words: str


def evidence_of_tags(target: Tags, held_out: Sequence[HeldOutValues], calibration: TagCalibration | None,
                     n: int) -> tuple[Gain, EvidenceOfTags]:
    """Return the gain of models of tags over their supervised baseline, and what is known of both; JSON.

    held_out : of the learnable tags. calibration : of all, by all labels. n : the number of points.
    """
    known = HeldOutTags.of(target, held_out)
    gain, over_tags = compare_tags(known.tags, known.model, known.base)
    gain = replace(gain, all_labeled=n == len(target.labeled))
    return gain, {"gain": gain.described(), "over_tags": over_tags, "held_out": {
        "model": tag_scores(known.tags, known.model, known.probabilities(calibration)),
        "base": tag_scores(known.tags, known.base)}, "in_words": f"{gain.in_words()}; {in_words(over_tags)}"}


def in_words(over_tags: Mapping[str, OverTags]) -> str:
    """Return the differences of means over tags as a sentence."""
    means = []
    for name in MEANS:
        mean = over_tags[name]
        if not mean["tags"]:
            continue
        interval = "" if mean["interval"] is None else ", 95 % interval over the tags {:.3f} to {:.3f}".format(
            *mean["interval"])
        means.append(f"{NAMES[name]} {mean['with_graph']:.3f} with the graph and {mean['baseline']:.3f} without it "
                     f"(difference {mean['difference']:+.3f}{interval})")
    return "; ".join(means) or "no tag has known points with it and without it"
