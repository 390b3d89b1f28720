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
    """Return the slope, and the intercepts (n_classes,), of `softmax(slope scores + intercepts)`.

    log_odds (n_classes,) : logarithms of how frequent the classes are among the labels, up to a constant. assumed
    (n_classes,) : those that the scores assume. present : (n_classes,) bool, the classes that there are. sample_weight
    : (l,), relative to their mean.

    The intercepts are normally distributed around half of what the scores do not assume, log_odds - assumed, since
    scores that separate the classes know some of it, with the root mean square of log_odds for variance: where classes
    are equally frequent there are none. Slope and intercepts are then averaged with those of a constant, 0 and the
    log_odds, each as much as the probability that it gives to the labels, so that scores without signal leave the
    frequencies alone. A class that has no score here, since its only label cannot be held out, keeps the center.
    """
    weight = np.ones(len(codes)) if sample_weight is None else sample_weight / sample_weight.mean()
    size = float(np.sqrt((scores**2).mean())) or 1.0
    own, rows = scores / size, np.arange(len(codes))
    odds, center = (np.where(present, logs - logs[present].mean(), 0.0)
                    for logs in (log_odds, (log_odds - assumed) / 2))
    deviation = float((odds[present] ** 2).mean()) ** 0.25
    among = np.where(np.isin(np.arange(scores.shape[1]), codes), 0.0, -np.inf)
    log_slope, z = most_probable(own, codes, weight, center + among, deviation)
    intercept = center + deviation * z
    logs = log_softmax(np.exp(log_slope) * own + intercept + among, axis=1)[rows, codes]
    trust = float(expit(max(float(weight @ (logs - log_softmax(odds + among)[codes])), -FARTHEST)))
    intercept = trust * (intercept - intercept[present].mean() * present) + (1 - trust) * odds
    return Calibration(trust * float(np.exp(log_slope)) / size, present), intercept


def most_probable(scores: np.ndarray, codes: np.ndarray, weight: np.ndarray, center: np.ndarray,
                  deviation: float) -> tuple[float, np.ndarray]:
    """Return `u` and `z` (n_classes,) of highest probability of `softmax(exp(u) scores + center + deviation z)`.

    u and z are normally distributed around 0 with deviation 1; center is -inf of a class that there is not. Newton's
    method, each step of which is halved until it raises the probability.
    """
    indicators = np.eye(scores.shape[1])[codes]

    def logs_at(params: np.ndarray) -> np.ndarray:
        logits = np.exp(params[0]) * scores + center + deviation * params[1:]
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def missed(params: np.ndarray, logs: np.ndarray) -> float:
        return float(params @ params / 2 - weight @ logs[np.arange(len(codes)), codes])

    params = np.zeros(1 + scores.shape[1])
    logs = logs_at(params)
    value = missed(params, logs)
    for _ in range(MOST_STEPS):
        P, slope = np.exp(logs), np.exp(params[0])
        weighed, excess = weight[:, None] * P, weight[:, None] * (P - indicators)
        apart = scores - (P * scores).sum(axis=1, keepdims=True)
        by_slope = slope * float((excess * scores).sum())
        gradient = params + np.append(by_slope, deviation * excess.sum(axis=0))
        fisher = np.eye(len(params))
        fisher[0, 0] += slope**2 * float((weighed * apart * scores).sum())
        fisher[0, 1:] = fisher[1:, 0] = slope * deviation * (weighed * apart).sum(axis=0)
        fisher[1:, 1:] += deviation**2 * (np.diag(weighed.sum(axis=0)) - P.T @ weighed)
        hessian = fisher.copy()
        hessian[0, 0] += by_slope
        if np.linalg.eigvalsh(hessian)[0] <= 0:
            hessian = fisher  # which is positive everywhere
        step = np.linalg.solve(hessian, -gradient)
        step /= max(1.0, abs(float(step[0])))  # of the logarithm of the slope, at most 1
        while (found := missed(params + step, logs_at(params + step))) > value and np.abs(step).max() > SMALL_STEP:
            step /= 2
        if np.abs(step).max() <= SMALL_STEP:
            break
        params = params + step
        logs, value = logs_at(params), found
    return float(params[0]), params[1:]
