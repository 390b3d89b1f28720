"""
Known class sizes
=================

**Problem.** You know how many points of each class there are (a quarter of the parts are defective, each plate
holds as many of every strain). With one label a class that is worth a lot.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dssl import KNNGraph, SemiSupervisedClassifier

X, truth = load_digits(return_X_y=True)
graph = KNNGraph().build(X)
accuracy = {"sizes unknown": [], "sizes within 20 %": [], "sizes known": []}
shares = np.bincount(truth) / len(truth)
sizes = {"sizes unknown": None, "sizes within 20 %": [(0.8 * share, 1.2 * share) for share in shares],
         "sizes known": list(np.bincount(truth))}
for draw in range(3):
    rng = np.random.default_rng(draw)
    y = np.full(len(X), -1)
    for digit in range(10):
        y[rng.choice(np.flatnonzero(truth == digit))] = digit
    for name, value in sizes.items():
        model = SemiSupervisedClassifier(scale="none", class_sizes=value).fit(X, y, graph=graph)
        accuracy[name].append(np.mean(model.transduction_ == truth))
print({name: f"{np.mean(values):.1%}" for name, values in accuracy.items()})

# %%
# **Picture.** Three draws of one label a class each.

figure, axis = plt.subplots(figsize=(6, 2.5))
for number, values in enumerate(accuracy.values()):
    axis.plot(values, [number] * len(values), "o", color="tab:blue", alpha=0.6)
    axis.plot(np.mean(values), number, "|", markersize=24, color="black")
axis.set(yticks=range(3), yticklabels=accuracy, xlabel="right, of all images")
figure.tight_layout()

# %%
# **Pitfall.** Wrong sizes do harm, since they are met exactly: give intervals where you are not sure.
