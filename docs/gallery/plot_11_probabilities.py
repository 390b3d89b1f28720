"""
Probabilities that mean what they say
=====================================

**Problem.** Of the points that are given 80 %, four of five should be right: then you can leave the doubtful ones
to a person.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dssl import SemiSupervisedClassifier

X, truth = load_digits(return_X_y=True)
rng = np.random.default_rng(1)
y = np.full(len(X), -1)
for digit in range(10):
    y[rng.choice(np.flatnonzero(truth == digit), 3, replace=False)] = digit
model = SemiSupervisedClassifier().fit(X, y)
P = model.predict_proba(X)
sure, right = P.max(axis=1), P.argmax(axis=1) == truth
order = np.argsort(-sure)
print(f"all {right.mean():.1%}; the surest 80 %: {right[order[:int(0.8 * len(X))]].mean():.1%}")

# %%
# **Picture.** Left: what was said and what was true. Right: how many are right if the most doubtful are left to a
# person.

figure, axes = plt.subplots(1, 2, figsize=(8, 3))
bins = np.quantile(sure, np.linspace(0, 1, 9))
groups = np.clip(np.searchsorted(bins, sure, side="right") - 1, 0, 7)
axes[0].plot([0, 1], [0, 1], color="gray", linewidth=1)
axes[0].plot([sure[groups == g].mean() for g in range(8)], [right[groups == g].mean() for g in range(8)], "o")
axes[0].set(xlabel="probability that is said", ylabel="share that is right", xlim=(0.3, 1), ylim=(0.3, 1.02))
shares = np.arange(1, len(X) + 1) / len(X)
axes[1].plot(shares, np.cumsum(right[order]) / np.arange(1, len(X) + 1))
axes[1].set(xlabel="share of points that are predicted", ylabel="share that is right")
figure.tight_layout()

# %%
# **Pitfall.** Probabilities follow the labels' own frequencies; if those are not the points', say so with
# ``class_prior``.
