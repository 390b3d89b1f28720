"""
How many neighbors: n_neighbors
===============================

**Problem.** The graph joins each point to its nearest neighbors. Too few, and it falls to pieces; too many, and it
joins what does not belong together. How much does the number matter?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_moons
from sklearn.semi_supervised import LabelSpreading

from dssl import GraphKernelRidge, KNNGraph

counts = (3, 5, 10, 20, 50)
sets = {"digits, 2 labels a class": (*load_digits(return_X_y=True), 2), "moons, 5 labels a class": (*make_moons(
    1000, noise=0.12, random_state=0), 5)}
figure, panels = plt.subplots(1, 2, figsize=(8, 3))
for panel, (name, (X, truth, rate)) in zip(panels, sets.items(), strict=True):
    rng = np.random.default_rng(0)
    y = np.full(len(X), -1)
    for label in np.unique(truth):
        y[rng.choice(np.flatnonzero(truth == label), rate, replace=False)] = label
    errors = {"GraphKernelRidge": [], "LabelSpreading": []}
    for count in counts:
        graph = KNNGraph(n_neighbors=count).build(X)
        ours = GraphKernelRidge(scale="none").fit(X, y, graph=graph)
        theirs = LabelSpreading(kernel="knn", n_neighbors=count).fit(X, y)
        for key, model in (("GraphKernelRidge", ours), ("LabelSpreading", theirs)):
            errors[key].append(100 * np.mean(model.transduction_ != truth))
    print(name, {key: [f"{value:.1f}" for value in values] for key, values in errors.items()})
    for key, values in errors.items():
        panel.plot(counts, values, marker="o", label=key)
    panel.set(xscale="log", xticks=counts, xticklabels=counts, title=name, xlabel="n_neighbors", ylim=(0, None))
panels[0].set_ylabel("error in percent")
panels[0].legend()
figure.tight_layout()

# %%
# **Result.** From 5 to 20 it hardly matters, which is why 10 is the default.
#
# **Pitfall.** A class that is smaller than the number of neighbors is joined to others by force.
