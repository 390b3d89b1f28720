"""Probabilities of classes from scores, kept beside a model: one slope, fitted to scores of points held out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax

CALIBRATION = "calibration"  # the attribute of a model
FARTHEST = 15.0  # of log-likelihoods, by which a constant beats a slope
MOST_STEPS, SMALL_STEP = 100, 1e-9  # of Newton's method; of parameters whose scale is 1


@dataclass(frozen=True, eq=False)
class Calibration:
    """`P(class | scores) = softmax(slope scores - decision)` over the classes that are `present`, (n_classes,) bool.

    decision (n_classes,) : what was added to the logarithms of probabilities for the largest score to be the class that
    is predicted (`decisions.py`); None where that is the most probable class.
    """

    slope: float
    present: np.ndarray
    decision: np.ndarray | None = None

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, n_classes) from its scores (n, n_classes); rows sum to 1."""
        logs = self.slope * scores if self.decision is None else self.slope * scores - self.decision
        return softmax(np.where(self.present, logs, -np.inf), axis=1)

    def described(self) -> dict[str, Any]:
        """Return what `from_described` takes; JSON."""
        decision = {} if self.decision is None else {"decision": self.decision.tolist()}
        return {"slope": self.slope, "present": self.present.tolist(), **decision}

    @classmethod
    def from_described(cls, described: dict[str, Any]) -> "Calibration":
        """Return the calibration that `described` told."""
        decision = described.get("decision")
        return cls(described["slope"], np.array(described["present"], bool),
                   None if decision is None else np.array(decision))


def calibration_attributes(calibration: Calibration | None) -> dict[str, Any]:
    """Return the attributes that a model has by its calibration, if there is one; JSON."""
    return {} if calibration is None else {CALIBRATION: calibration.described()}


def fit_calibration(scores: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None = None) -> Calibration:
    """Return the slope of highest probability given the classes of out-of-fold scores (l, n_classes).

    Its logarithm is normally distributed around that of scores of unit mean square, with deviation 1. One number, since
    few labels tell no more: coefficients of all classes follow what is peculiar to them, and where a point that is left
    out takes its share of the mean along, they turn scores around. On digits, wine, breast cancer and moons, 2 / 5 / 20
    / 50 labels a class, five learners, the mean log loss is 0.55 / 0.30 / 0.19 / 0.17; of a logistic regression with
    coefficients of all classes it was 1.6 / 0.39 / 0.20 / 0.17. A class that no code names has probability 0. Scores
    count as much as equal probabilities of the classes, by the probability of the labels: a slope of scores without
    signal is near 0.

    sample_weight : (l,), relative to their mean.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", ICML 2017 (temperature scaling), of scores
    held out as in Platt, "Probabilistic outputs for support vector machines", 1999.
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

    scores : (m, l, n_classes), of the same labels. log_odds (n_classes,) : logarithms of how frequent the classes are
    among the labels, up to a constant. assumed (n_classes,) : those that the scores assume. present : (n_classes,)
    bool, the classes that there are. sample_weight : (l,), relative to their mean.

    The intercepts are normally distributed around half of what the scores do not assume, log_odds - assumed, since
    scores that separate the classes know some of it, with the root mean square of log_odds for variance: where classes
    are equally frequent there are none. Slope and intercepts are then averaged with those of a constant, 0 and the
    log_odds, each as much as the probability that it gives to the labels, so that scores without signal leave the
    frequencies alone. A class that has no score here, since its only label cannot be held out, keeps the center.
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
    trust = expit(np.maximum((logs - log_softmax(odds + among)[codes]) @ weight, -FARTHEST))
    intercepts -= intercepts[:, present].mean(axis=1, keepdims=True) * present
    return trust * np.exp(log_slopes) / size, trust[:, None] * intercepts + (1 - trust[:, None]) * odds


def most_probable(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray, center: np.ndarray,
                  deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return `u` (m,), `z` (m, n_classes) of highest probability of `softmax(exp(u) scores + center + deviation z)`.

    scores : (m, l, n_classes), of m classifiers, each of which has parameters of its own. u and z are normally
    distributed around 0 with deviation 1; center is -inf of a class that there is not. Newton's method, each step of
    which is halved until it raises the probability.
    """
    m, k = len(scores), scores.shape[2]
    indicators, rows = np.eye(k)[codes], np.arange(len(codes))

    def logs_at(params: np.ndarray, scores: np.ndarray) -> np.ndarray:
        logits = np.exp(params[:, :1, None]) * scores + (center + deviation * params[:, 1:])[:, None]
        logits -= logits.max(axis=2, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))

    def missed(params: np.ndarray, logs: np.ndarray) -> np.ndarray:
        return (params**2).sum(axis=1) / 2 - logs[:, rows, codes] @ weight

    parameters = np.zeros((m, 1 + k))
    left, params = np.arange(m), parameters.copy()  # those that have not converged
    logs = logs_at(params, scores)
    values = missed(params, logs)
    for _ in range(MOST_STEPS):
        steps = _newton_steps(params, logs, scores[left], weight, indicators, deviation)
        while True:
            tried = logs_at(params + steps, scores[left])
            tried_values = missed(params + steps, tried)
            halved = (tried_values > values) & (np.abs(steps).max(axis=1) > SMALL_STEP)
            if not halved.any():
                break
            steps[halved] /= 2
        moved = np.abs(steps).max(axis=1) > SMALL_STEP
        parameters[left] = params = np.where(moved[:, None], params + steps, params)
        left, params, logs, values = left[moved], params[moved], tried[moved], tried_values[moved]
        if not len(left):
            break
    return parameters[:, 0], parameters[:, 1:]


def _newton_steps(params: np.ndarray, logs: np.ndarray, scores: np.ndarray, weight: np.ndarray, indicators: np.ndarray,
                  deviation: float) -> np.ndarray:
    """Return the steps (m, 1 + n_classes) of Newton's method, by at most 1 of the logarithm of a slope."""
    P, slope = np.exp(logs), np.exp(params[:, 0])
    weighed, excess = weight[:, None] * P, weight[:, None] * (P - indicators)
    apart = scores - (P * scores).sum(axis=2, keepdims=True)
    by_slope = slope * (excess * scores).sum(axis=(1, 2))
    gradient = params + np.column_stack([by_slope, deviation * excess.sum(axis=1)])
    fisher = np.tile(np.eye(params.shape[1]), (len(params), 1, 1))
    fisher[:, 0, 0] += slope**2 * (weighed * apart * scores).sum(axis=(1, 2))
    fisher[:, 0, 1:] = fisher[:, 1:, 0] = slope[:, None] * deviation * (weighed * apart).sum(axis=1)
    diagonal = weighed.sum(axis=1)[:, :, None] * np.eye(P.shape[2])
    fisher[:, 1:, 1:] += deviation**2 * (diagonal - P.transpose(0, 2, 1) @ weighed)
    hessian = fisher.copy()
    hessian[:, 0, 0] += by_slope
    indefinite = np.linalg.eigvalsh(hessian)[:, 0] <= 0
    hessian[indefinite] = fisher[indefinite]  # which is positive everywhere
    steps: np.ndarray = np.linalg.solve(hessian, -gradient[:, :, None])[:, :, 0]
    return steps / np.maximum(1.0, np.abs(steps[:, :1]))
