"""
Which points to label next
==========================

**Problem.** You can afford 20 labels. Which ones?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dssl import GraphKernelRidge, KNNGraph, suggest_labels

X, truth = load_digits(return_X_y=True)
graph = KNNGraph().build(X)


def accuracy(rows):
    y = np.full(len(X), -1)
    y[rows] = truth[rows]
    return np.mean(GraphKernelRidge().fit(X, y, graph=graph).transduction_ == truth)


# %%
# **Code.** The first suggestions need no label at all: they are points that stand for many others.

counts = (10, 20, 40)
suggested = suggest_labels(X, count=max(counts), graph=graph).ids
ours = [accuracy(suggested[:count]) for count in counts]
random = [np.mean([accuracy(np.random.default_rng(seed).permutation(len(X))[:count]) for seed in range(2)])
          for count in counts]
for count, a, b in zip(counts, ours, random, strict=True):
    print(f"{count} labels: suggested {a:.1%}, at random {b:.1%}")

# %%
# **Picture.** Accuracy with suggested labels, and with as many at random (mean of two draws).

figure, axis = plt.subplots(figsize=(6, 3))
axis.plot(counts, ours, marker="o", label="suggested")
axis.plot(counts, random, marker="o", label="at random")
axis.set(xlabel="labels in all", ylabel="right, of all images")
axis.legend()
figure.tight_layout()

# %%
# **Pitfall.** Suggested labels are no random sample: do not judge a model by them alone.
