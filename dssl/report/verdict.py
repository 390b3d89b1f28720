"""The answer of a run: what its comparisons say, and the headline and sentences that follow from these alone.

Everything that may contradict the claim is looked at before it is made: the guess that needs no model, the labels that
were held out, and balanced accuracy. So no sentence below the headline says otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..base.wilson import SOLVER_ROUNDING
from .error_metric import Comparison, ErrorMetric, metric_of, negligible, seen_by_test
from .page import Level
from .record import DRAWS, Attributes, ReportText, Result, RunRecord, Scores, redrawn_by, scores_at
from .text import at, counted, finite, p_value, percent, quoted

HELPED, HURT, UNCLEAR = "helped", "hurt", "no clear difference"
TOO_FEW, NO_CLAIM = "too few points to tell", "no claim"
DRAWN = {"labels.random_state": "one draw of the labels", "data.random_state": "one split"}
ALL_LABELED = "All training points are labeled: there are no unlabeled points that could help."
OPPOSITE = {HELPED: HURT, HURT: HELPED}
MIN_PERFECT = 60  # test points without an error, of which fewer than 6 % then are wrong


@dataclass(frozen=True)
class Verdict:
    """What the comparisons of a run say, each where there is one.

    error : of the model on the test points, None without any. base : the model without the unlabeled points; shuffled :
    the control. guess : what needs no model, on the labels held out where there are no test points. answer : of the
    test against the base ("helped", "hurt", ...). by_labels : what the labels say that were held out, as the result has
    it. unread : a sentence on columns of the source that the model lacks. all_labeled : whether there are no unlabeled
    training points. draws : as `redrawn_by`.
    """

    by: ErrorMetric
    report_text: ReportText
    scores: Scores
    error: float | None
    base: Comparison | None
    shuffled: Comparison | None
    guess: Comparison | None
    answer: str | None
    by_labels: Attributes
    unread: str = ""
    all_labeled: bool = False
    draws: Sequence[str] = DRAWS

    @classmethod
    def of(cls, result: Result, report_text: ReportText, unread: str = "", *, all_labeled: bool = False,
           draws: Sequence[str] = DRAWS) -> "Verdict":
        scores: Scores = result.get("metrics") or {}
        baselines, gain = result.get("baselines") or {}, result.get("gain") or {}
        by_labels = gain.get("by_labels") or {}
        by = metric_of(scores or scores_at(by_labels, "scores", "model"))
        base, shuffled = (Comparison.of(baselines, gain, name, by) for name in ("base", "shuffled"))
        guess = Comparison.of(baselines, gain, by.guess[0], by) if scores else _guess_by_labels(by_labels, by)
        return cls(by, report_text, scores, finite(scores.get(by.key)), base, shuffled,
                   guess, gain.get("unlabeled_data"), by_labels, unread, all_labeled, draws)

    @classmethod
    def of_run(cls, run: RunRecord, report_text: ReportText) -> "Verdict":
        return cls.of(run.result, report_text, run.unread, all_labeled=run.all_labeled, draws=redrawn_by(run.spec))

    @property
    def useless(self) -> bool:
        """Return whether the model is no better than the guess that needs none."""
        return self.guess is not None and self.guess.gain <= 0

    @property
    def is_negligible(self) -> bool:
        """Return whether the unlabeled data makes no difference, or one that is real but too small to matter."""
        base, answer = self.base, self.answer
        if self.error is None:
            of_data = self.by_labels.get("without_other") or self.by_labels
            base, answer = Comparison.of(of_data.get("scores") or {}, of_data, "base", self.by), self.labels_answer
        if base is None:
            return False
        return base.is_negligible(self.by) or (answer == UNCLEAR and base.is_within(SOLVER_ROUNDING, self.by))

    @property
    def labels_answer(self) -> str | None:
        """Return what the labels say that were held out: "helped", "hurt", or what else."""
        return self.by_labels.get("unlabeled_data") if self.by_labels.get("n") else None

    @property
    def has_other(self) -> bool:
        """Return whether the model is pooled with another one, which its base does not have."""
        return "without_other" in self.by_labels

    @property
    def reversed_by_balance(self) -> tuple[float, float] | None:
        """Return the balanced accuracies of model and base where they turn the difference of errors around."""
        if self.base is None or self.by.key != "error":
            return None
        ours, other = (finite(scores.get("balanced_accuracy")) for scores in (self.scores, self.base.scores))
        return None if ours is None or other is None or (ours - other) * self.base.gain >= 0 else (ours, other)

    @property
    def contradicted(self) -> bool:
        """Return whether held-out labels or balanced accuracy say the opposite of the test."""
        by_labels = None if self.has_other else self.labels_answer
        return self.answer in OPPOSITE and (by_labels == OPPOSITE[self.answer] or self.reversed_by_balance is not None)

    @property
    def level(self) -> Level:
        """Return how good the answer is."""
        if self.all_labeled:
            return "warning" if self.useless else "note"
        if self.error is None or self.base is None:
            answer = self.labels_answer
            if self.has_other:  # whose gain may outweigh the harm
                return "warning" if self.useless else "note"
            return "warning" if self.useless or answer == HURT else "good" if answer == HELPED and (
                self.error is None) else "note"
        if self.useless or self.answer == HURT:
            return "warning"
        return "good" if self.answer == HELPED and not self.contradicted and self._beats_guess else "note"

    @property
    def _beats_guess(self) -> bool:
        return self.guess is None or (self.guess.gain > 0 and self.guess.clear)

    @property
    def sentences(self) -> list[str]:
        """Return the answer: first the headline, which has the figures; then what may mend a useless model."""
        headline, *others = self._answer()
        return [headline, *([self.unread] if self.useless and self.unread else []), *others]

    def _answer(self) -> list[str]:
        if self.all_labeled:
            return self._without_unlabeled_points()
        if self.error is None:
            return self._without_test_points()
        beside = self._comparison_with_guess()
        if self.base is None:
            text = (f"The {self.by.name} is {self.by.shown(self.error)}{beside}. There is no base model to compare "
                    "with, so this run cannot tell whether the unlabeled data helped.")
            return [f"{self._useless_claim()} {text}" if self.useless else text, *label_sentences(self.by_labels)]
        if self.useless:
            headline = f"{self._useless_claim()} As for {self._subject}, {self._figures()}."
        else:
            headline = f"{self._claim()}: {self._figures()}{beside}."
        return [headline, self._meaning(self.base), *label_sentences(self.by_labels), *self._reservations()]

    def _without_unlabeled_points(self) -> list[str]:
        """Return the figures without a claim on the unlabeled data."""
        by, figures = self.by, ""
        if self.error is not None:
            base = "" if self.base is None else (
                f" for the model and {by.shown(self.base.error)} for the base model, {self.base.figures(by)}")
            figures = f" The {by.name} is {by.shown(self.error)}{base}{self._comparison_with_guess()}."
        useless = f"{self._useless_claim()} " if self.useless else ""
        return [f"{useless}{ALL_LABELED}{figures}", *label_sentences(self.by_labels, all_labeled=True)]

    def _without_test_points(self) -> list[str]:
        claims = {HELPED: "According to the held-out labels, the unlabeled data helped",
                  HURT: "According to the held-out labels, the unlabeled data hurt",
                  UNCLEAR: "According to the held-out labels, the unlabeled data made no clear difference",
                  NO_CLAIM: "The held-out labels cannot tell whether the unlabeled data helped"}
        if self.labels_answer is None:
            return ["This run has no test points, so it cannot tell whether the unlabeled data helped.",
                    *label_sentences(self.by_labels)]
        unclear = "There are too few labels to tell whether the unlabeled data helped"
        first, *others = label_sentences(self.by_labels, is_claimed=not self.useless)
        claim = self._useless_claim() if self.useless else f"{claims.get(self.labels_answer, unclear)}."
        return [claim, f"There are no test points, so the labels judge the model. {first}", *others]

    def _figures(self) -> str:
        """Return the errors with and without the unlabeled data, and of the control."""
        assert self.base is not None
        by = self.by
        control = "" if self.shuffled is None else (
            f"; with a shuffled graph (the control) it is {by.shown(self.shuffled.error)}")
        with_it, without_it = ("with both", "with neither") if self.has_other else ("with it", "without it")
        return (f"the {by.name} is {by.shown(self.error)} {with_it} and {by.shown(self.base.error)} {without_it}, "
                f"{self.base.figures(by)}{control}")

    @property
    def _subject(self) -> str:
        """Return what the model has and its base has not."""
        return "the unlabeled data and the other model together" if self.has_other else "the unlabeled data"

    def _claim(self) -> str:
        """Return what the test says of the unlabeled data, with what stands against it."""
        answer, labels = self.answer, None if self.has_other else self.labels_answer
        subject = f"T{self._subject[1:]}"
        if self.contradicted:
            by_balance = self.reversed_by_balance is not None
            against = "according to balanced accuracy" if by_balance else "according to the held-out labels"
            other = "hurt" if answer == HELPED else "helped"
            return f"{subject} {answer} on the test points, but {other} {against}"
        if answer in OPPOSITE:
            return f"{subject} {answer}"
        though = {HELPED: ", although the held-out labels say that it helps",
                  HURT: ", although the held-out labels say that it hurts"}.get(labels or "", "")
        if self.both_perfect:
            return f"{subject} made no difference on the test points, which both models classify correctly{though}"
        if answer == TOO_FEW:
            points = counted(self.scores.get("n_test"), "test point is", "test points are")
            return f"{points} too few to tell whether {self._subject} helped{though}"
        return f"{subject} made no clear difference{though and ' on the test points' + though}"

    @property
    def both_perfect(self) -> bool:
        """Return whether neither the model nor its base makes any error on test points enough to count."""
        enough = (finite(self.scores.get("n_test")) or 0) >= MIN_PERFECT
        return enough and self.by.key == "error" and self.error == 0 and self.base is not None and self.base.error == 0

    @property
    def base_is_enough(self) -> bool:
        """Return whether nothing speaks against the simpler base model: no difference, nor the held-out labels."""
        return self.is_negligible or (self.both_perfect and self.labels_answer not in OPPOSITE)

    def _guess(self) -> str:
        """Return what the guess does: always predicting class 3."""
        assert self.guess is not None
        return f"always {self.by.guess[1].format(quoted(self.guess.scores.get('predicts')))}"

    def _useless_claim(self) -> str:
        """Return that the model is no better than the guess, with the guess's error."""
        assert self.guess is not None
        clear = self.guess.clear and self.guess.gain < 0
        name = self.by.noun if self.error is None else f"a {self.by.name}"
        return (f"The model is {'worse' if clear else 'no better'} than {self._guess()}, which has {name} of "
                f"{self.by.shown(self.guess.error)} ({self.by.test}, {p_value(self.guess.p)}){self._though_by_labels}.")

    def _comparison_with_guess(self) -> str:
        """Return what to add to a headline where the model is not clearly better than the guess."""
        if self._beats_guess or self.useless:
            return ""
        assert self.guess is not None
        return (f"; it is not clearly better than {self._guess()}, which has {self.by.shown(self.guess.error)} "
                f"({p_value(self.guess.p)}){self._though_by_labels}")

    @property
    def _though_by_labels(self) -> str:
        """Return what stands against it where the labels that were held out, by which nothing was chosen, say so."""
        labels = _guess_by_labels(self.by_labels, self.by)
        if labels is None or self.error is None or self.by_labels.get("tried"):
            return ""
        if not labels.clear or labels.gain <= 0:
            return ""
        return (f", although it is better on the {counted(self.by_labels['n'], 'held-out label')}, by "
                f"{self.by.difference_in_words(labels.gain)} ({p_value(labels.p)})")

    def _meaning(self, base: Comparison) -> str:
        """Return what the comparison with the base means."""
        by, report_text, gain, p = self.by, self.report_text, base.gain, base.p
        by_chance = "less than 0.1 %" if p < 0.001 else f"about {percent(p, 0 if p >= 0.01 else 1)}"
        rare = ("if the two models were equally good, a difference this large would appear in "
                f"{by_chance} of such test sets")
        if base.is_negligible(by):
            return f"{negligible(by)} The simpler base model is good enough."
        if self.is_negligible:
            return (f"The {by.name} is the same with and without {self._subject}, so the simpler base model is good "
                    "enough.")
        if self.base_is_enough:
            return f"{seen_by_test(by, base.pair)} So the simpler base model is good enough for points like these."
        if self.answer == TOO_FEW:
            return f"{seen_by_test(by, base.pair)} So the test favors neither model."
        if self.answer == HELPED:
            net = by.net(gain, self.scores.get("n_test"))
            seen = f"{rare[:1].upper()}{rare[1:]}."
            if net:
                seen = f"The model classifies {net} correctly than the base model. {seen}"
            if self.shuffled is None:
                return seen
            return (f"{seen} The model also beats the shuffled graph, by "
                    f"{by.difference_in_words(self.shuffled.gain)}, so the gain comes from where the unlabeled points "
                    f"lie and not from a {report_text.changed}.")
        if self.has_other:
            better = "The base model, which has neither, is better here: " if self.answer == HURT else ""
            return f"{better}{rare if better else rare[:1].upper() + rare[1:]}. {seen_by_test(by, base.pair)}"
        if self.answer == HURT:
            return (f"The base model is better here: {rare}. Use the base model. Either the graph connects points of "
                    f"{by.unlike}, or the model relies on the graph too much: try another data.scale, fewer "
                    f"graph.n_neighbors or a smaller {report_text.graph}.")
        if gain > 0 and base.clear:
            return ("The model beats the base model, but the shuffled graph, which holds no information about the "
                    f"points, does at least as well as the model. So the gain comes from the {report_text.cause} and "
                    f"not from the unlabeled data: tune kernel.bandwidth and {report_text.norm} before you credit the "
                    "graph.")
        return (f"The difference may be due to chance: {rare}. Do not count on the unlabeled data here; the simpler "
                f"base model is good enough. {seen_by_test(by, base.pair)}")

    def _reservations(self) -> list[str]:
        """Return what to keep in mind of the figures."""
        sentences = []
        balanced = self.reversed_by_balance
        if balanced is not None:
            sentences.append("Balanced accuracy, in which every class counts the same, says the opposite: it is "
                             f"{percent(balanced[0])} with {self._subject} and {percent(balanced[1])} without "
                             "it.")
        ours = finite(self.scores.get("balanced_accuracy"))
        constant = None if self.guess is None else finite(self.guess.scores.get("balanced_accuracy"))
        if self.useless and self.by.key == "error" and ours is not None and constant is not None and ours > constant:
            sentences.append("If rare classes matter as much as frequent ones, compare balanced accuracy instead: it "
                             f"is {percent(ours)} for the model and {percent(constant)} for one class everywhere.")
        drawn = " and ".join(name for key, name in DRAWN.items() if key in self.draws)
        if drawn:
            sentences.append(f"These figures hold for {drawn}. Other draws ({', '.join(self.draws)}) give other "
                             "figures, so repeat the run with a few of them before you rely on a small gain.")
        else:
            sentences.append("These figures hold for these labels and these test points. Others would give other "
                             "figures.")
        return sentences


def _guess_by_labels(by_labels: Attributes, by: ErrorMetric) -> Comparison | None:
    """Return the comparison with what needs no model on the labels that were held out."""
    return Comparison.of(by_labels.get("scores") or {}, by_labels, by.guess[0], by)


def _beside_other(by_labels: Attributes, by: ErrorMetric) -> str:
    """Return the error of the other model alone, as the end of a sentence on the model that is pooled with it."""
    other = Comparison.of(by_labels["scores"], by_labels, "other", by)
    sizes = ", both without the class sizes that the model itself uses" if by_labels.get("without_class_sizes") else ""
    if other is None:
        return f" with the other model{sizes and sizes.replace(', both', ',')}"
    return (f" with the other model and {by.with_interval(other.scores)} for that alone, "
            f"{other.figures(by)}{sizes}")


def label_sentences(by_labels: Attributes, *, is_claimed: bool = False, all_labeled: bool = False) -> list[str]:
    """Return what cross-validation on the labels says, in sentences; none of a run without it.

    is_claimed : whether a sentence before already says what the labels claim. all_labeled : whether nothing is to be
    claimed, since no point is unlabeled.
    """
    if not by_labels:
        return []
    if not by_labels.get("n"):
        return [f"Held-out labels cannot say more: {by_labels.get('why', 'no label can be held out')}."]
    scores = at(by_labels, "scores", "model")
    by, n = metric_of(scores), counted(by_labels["n"], "label")
    how = "leave-one-out" if by_labels["folds"] == by_labels["n"] else f"{by_labels['folds']}-fold"
    how = f"In {how} cross-validation on the {n}" if by_labels["folds"] > 1 else f"On the {n} that were held out once"
    known = f"{how}, the {by.bare_noun} is {by.with_interval(scores)}"
    base = scores_at(by_labels, "scores", "base")
    if "without_other" in by_labels:
        return [f"{known}{_beside_other(by_labels, by)}.",
                *(f"Without the other model: {sentence[:1].lower()}{sentence[1:]}" for sentence in label_sentences(
                    by_labels["without_other"], is_claimed=is_claimed, all_labeled=all_labeled))]
    comparison = Comparison.of(by_labels["scores"], by_labels, "base", by)
    if comparison is None:
        return [f"{known}."]
    claims = {HELPED: "The labels say that the unlabeled data helps.",
              HURT: "The labels say that the unlabeled data hurts.",
              TOO_FEW: f"{'' if is_claimed else 'There are too few labels to tell. '}"
                       f"{seen_by_test(by, by_labels['over_base'])}"}
    claim = claims.get(by_labels.get("unlabeled_data", ""), "" if is_claimed else "There is no clear difference.")
    if comparison.is_negligible(by):
        claim = negligible(by)
    tried = by_labels.get("tried") or {}
    text = f"{known} with the unlabeled data and {by.with_interval(base)} without it, {comparison.figures(by)}"
    if all_labeled:
        text, claim = f"{known}, and {by.with_interval(base)} for the base model, {comparison.figures(by)}", ""
    if by_labels.get("without_class_sizes"):
        text += ", both without the class sizes that the model itself uses"
    if not tried:
        return [f"{text}. {claim}".rstrip()]
    counts = [counted(tried.get(name, 1), "candidate") for name in ("model", "base")]
    flattered = by_labels.get("unlabeled_data") == NO_CLAIM and not all_labeled
    selected = (f"These labels also selected the model among {counts[0]} and the base model among {counts[1]}, so both "
                "look better here than on new points.")
    if flattered:
        selected += (" The model profits more from this than the base model, so the labels cannot tell whether the "
                     "unlabeled data helps.")
    errors = [finite(at(by_labels, "errors_without_choice", name)) for name in ("model", "base")]
    corrected = [] if None in errors else [
        f"If the other folds select the parameters for each fold, the errors are {by.shown(errors[0])} and "
        f"{by.shown(errors[1])}."]
    return [f"{text}." if flattered else f"{text}. {claim}".rstrip(), " ".join([selected, *corrected])]
