"""Temperature scaling: class probabilities from scores by one slope, which is fitted to held-out scores."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_softmax, softmax

from ..base.digest import JsonObject

CALIBRATION = "calibration"  # the attribute of a model
FOLDS = 5  # of held-out labels, where there are many, or each fold needs a fit
MAX_LOG_RATIO = 15.0  # by which the log-likelihood of a constant may exceed that of a slope
MAX_STEPS, STEP_TOLERANCE = 100, 1e-9  # of Newton's method; of parameters whose scale is 1


@dataclass(frozen=True, eq=False)
class Calibration:
    """`P(class | scores) = softmax(slope scores - decision)` over the classes that are `present`, (n_classes,) bool.

    decision (n_classes,) : the offsets of log probabilities that `prior_shift.py` added to the scores; None for none.
    """

    slope: float
    present: np.ndarray
    decision: np.ndarray | None = None

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, n_classes) from its scores (n, n_classes); rows sum to 1."""
        logs = self.slope * scores if self.decision is None else self.slope * scores - self.decision
        return softmax(np.where(self.present, logs, -np.inf), axis=1)

    def to_dict(self) -> JsonObject:
        decision = {} if self.decision is None else {"decision": self.decision.tolist()}
        return {"slope": self.slope, "present": self.present.tolist(), **decision}

    @classmethod
    def from_dict(cls, stored: JsonObject) -> "Calibration":
        decision = stored.get("decision")
        return cls(stored["slope"], np.array(stored["present"], bool), None if decision is None else np.array(decision))


@dataclass(frozen=True, eq=False)
class TagCalibration:
    """What makes the scores of tags (several labels a point) probabilities: a calibration of two classes for each.

    shares (c,) : the probability of each tag that was not learned; NaN of the others.
    """

    tags: tuple[Calibration | None, ...]
    shares: np.ndarray

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each tag (n, c) from scores (n, c)."""
        return np.column_stack([
            np.full(len(column), share) if tag is None else tag.probabilities(np.column_stack([-column, column]))[:, 1]
            for tag, column, share in zip(self.tags, scores.T, self.shares, strict=True)])

    def of_columns(self, columns: np.ndarray) -> "TagCalibration":
        """Return the calibration of the tags in some columns."""
        return TagCalibration(tuple(self.tags[column] for column in columns.tolist()), self.shares[columns])

    def to_dict(self) -> JsonObject:
        return {"tags": [None if tag is None else tag.to_dict() for tag in self.tags],
                "shares": [None if share != share else share for share in self.shares.tolist()]}

    @classmethod
    def from_dict(cls, stored: JsonObject) -> "TagCalibration":
        return cls(tuple(None if tag is None else Calibration.from_dict(tag) for tag in stored["tags"]),
                   np.array(stored["shares"], float))


def calibration_of(attributes: JsonObject) -> Calibration | TagCalibration | None:
    """Return the calibration in the attributes of a model; None where it has none."""
    stored = attributes.get(CALIBRATION)
    if stored is None:
        return None
    return TagCalibration.from_dict(stored) if "tags" in stored else Calibration.from_dict(stored)


def of_log_probabilities(n_classes: int) -> Calibration:
    """Return the calibration of scores that are log probabilities; of two classes margins are twice as large."""
    return Calibration(0.5 if n_classes == 2 else 1.0, np.ones(n_classes, bool))


def calibration_attributes(calibration: Calibration | TagCalibration | None) -> JsonObject:
    """Return the model attributes that store a calibration."""
    return {} if calibration is None else {CALIBRATION: calibration.to_dict()}


def fit_calibration(scores: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None = None) -> Calibration:
    """Return the slope of highest posterior probability from out-of-fold scores (l, n_classes) and their classes.

    The logarithm of the slope has a normal prior with deviation 1 around that of scores of unit mean square. The slope
    is then shrunk towards 0, equal probabilities, by how much better it explains the labels. A class without a label
    has probability 0. One slope is what few labels can tell: with 2 labels a class the mean log loss over four data
    sets and five learners is 0.55, that of a logistic regression with coefficients of all classes 1.6.

    sample_weight : (l,), relative to their mean.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", ICML 2017; Platt, "Probabilistic outputs
    for support vector machines", 1999 (held-out scores).
    """
    present = np.isin(np.arange(scores.shape[1]), codes)
    even = np.zeros(scores.shape[1])
    return fit_log_odds(scores, codes, sample_weight, even, even, present)[0]


def fit_log_odds(scores: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None, log_odds: np.ndarray,
                 assumed: np.ndarray, present: np.ndarray) -> tuple[Calibration, np.ndarray]:
    """Return the calibration of scores (l, n_classes), and the intercepts (n_classes,); see `fit_each_log_odds`."""
    slopes, intercepts = fit_each_log_odds(scores[None], codes, sample_weight, log_odds, assumed, present)
    return Calibration(float(slopes[0]), present), intercepts[0]


def fit_each_log_odds(scores: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None, log_odds: np.ndarray,
                      assumed: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slopes (m,), and intercepts (m, n_classes), of `softmax(slope scores + intercepts)` of m classifiers.

    scores : (m, l, n_classes), of the same labels. log_odds (n_classes,) : log frequencies of the classes among the
    labels, up to a constant. assumed (n_classes,) : those that the scores assume. present : (n_classes,) bool, the
    classes with labels. sample_weight : (l,), relative to their mean.

    The intercepts have a normal prior around (log_odds - assumed) / 2 whose variance is the root mean square of
    log_odds. Slope and intercepts are averaged with those of the constant classifier, 0 and log_odds, in proportion to
    the likelihoods of both: scores without signal then predict the frequencies. A class whose only label cannot be
    held out keeps the prior mean.
    """
    weight = np.ones(len(codes)) if sample_weight is None else sample_weight / sample_weight.mean()
    size = np.sqrt((scores**2).mean(axis=(1, 2)))
    size = np.where(size > 0, size, 1.0)
    scaled, rows = scores / size[:, None, None], np.arange(len(codes))
    odds, center = (np.where(present, logs - logs[present].mean(), 0.0)
                    for logs in (log_odds, (log_odds - assumed) / 2))
    deviation = float((odds[present] ** 2).mean()) ** 0.25
    among = np.where(np.isin(np.arange(scores.shape[2]), codes), 0.0, -np.inf)
    log_slopes, z = most_probable(scaled, codes, weight, center + among, deviation)
    intercepts = center + deviation * z
    sums = np.exp(log_slopes)[:, None, None] * scaled + (intercepts + among)[:, None]
    logs = log_softmax(sums, axis=2)[:, rows, codes]
    trust = expit(np.maximum((logs - log_softmax(odds + among)[codes]) @ weight, -MAX_LOG_RATIO))
    intercepts -= intercepts[:, present].mean(axis=1, keepdims=True) * present
    return trust * np.exp(log_slopes) / size, trust[:, None] * intercepts + (1 - trust[:, None]) * odds


def most_probable(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray, center: np.ndarray,
                  deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior modes `u` (m,) and `z` (m, n_classes) of `softmax(exp(u) scores + center + deviation z)`.

    scores : (m, l, n_classes), of m independent classifiers. u and z have standard normal priors; center is -inf for
    an absent class. Newton's method, with steps halved until they raise the probability.
    """
    m, k = len(scores), scores.shape[2]
    indicators, rows = np.eye(k)[codes], np.arange(len(codes))

    def logs_at(params: np.ndarray, scores: np.ndarray) -> np.ndarray:
        logits = np.exp(params[:, :1, None]) * scores + (center + deviation * params[:, 1:])[:, None]
        logits -= logits.max(axis=2, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))

    def objective(params: np.ndarray, logs: np.ndarray) -> np.ndarray:
        return (params**2).sum(axis=1) / 2 - logs[:, rows, codes] @ weight

    parameters = np.zeros((m, 1 + k))
    active, params = np.arange(m), parameters.copy()  # the classifiers that have not converged
    logs = logs_at(params, scores)
    values = objective(params, logs)
    for _ in range(MAX_STEPS):
        steps = _newton_steps(params, logs, scores[active], weight, indicators, deviation)
        while True:
            trial = logs_at(params + steps, scores[active])
            trial_values = objective(params + steps, trial)
            halved = (trial_values > values) & (np.abs(steps).max(axis=1) > STEP_TOLERANCE)
            if not halved.any():
                break
            steps[halved] /= 2
        moved = np.abs(steps).max(axis=1) > STEP_TOLERANCE
        parameters[active] = params = np.where(moved[:, None], params + steps, params)
        active, params, logs, values = active[moved], params[moved], trial[moved], trial_values[moved]
        if not len(active):
            break
    return parameters[:, 0], parameters[:, 1:]


def _newton_steps(params: np.ndarray, logs: np.ndarray, scores: np.ndarray, weight: np.ndarray, indicators: np.ndarray,
                  deviation: float) -> np.ndarray:
    """Return the Newton steps (m, 1 + n_classes), scaled so that no log slope changes by more than 1."""
    P, slope = np.exp(logs), np.exp(params[:, 0])
    weighted, excess = weight[:, None] * P, weight[:, None] * (P - indicators)
    centered = scores - (P * scores).sum(axis=2, keepdims=True)
    by_slope = slope * (excess * scores).sum(axis=(1, 2))
    gradient = params + np.column_stack([by_slope, deviation * excess.sum(axis=1)])
    fisher = np.tile(np.eye(params.shape[1]), (len(params), 1, 1))
    fisher[:, 0, 0] += slope**2 * (weighted * centered * scores).sum(axis=(1, 2))
    fisher[:, 0, 1:] = fisher[:, 1:, 0] = slope[:, None] * deviation * (weighted * centered).sum(axis=1)
    diagonal = weighted.sum(axis=1)[:, :, None] * np.eye(P.shape[2])
    fisher[:, 1:, 1:] += deviation**2 * (diagonal - P.transpose(0, 2, 1) @ weighted)
    hessian = fisher.copy()
    hessian[:, 0, 0] += by_slope
    indefinite = np.linalg.eigvalsh(hessian)[:, 0] <= 0
    hessian[indefinite] = fisher[indefinite]  # which is positive everywhere
    steps: np.ndarray = np.linalg.solve(hessian, -gradient[:, :, None])[:, :, 0]
    return steps / np.maximum(1.0, np.abs(steps[:, :1]))
