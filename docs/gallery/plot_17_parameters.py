"""
Each parameter, varied
======================

**Problem.** What does a parameter do, and how far can one be off? Accuracy on unlabeled points of two unlike sets while
one parameter moves and all others keep their defaults.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_moons

from dssl import (
    ClusterKernelSVC,
    GraphKernelRidge,
    KNNGraph,
    LapRLSClassifier,
    LapSVC,
    RegularizerParams,
    TransductiveSVC,
)

rng = np.random.default_rng(0)
sets = {"digits": load_digits(return_X_y=True), "moons": make_moons(300, noise=0.12, random_state=0)}
for name, (X, truth) in sets.items():
    X, truth = X[:400], truth[:400]
    y = np.full(len(X), -1)
    for code in np.unique(truth):
        y[rng.choice(np.flatnonzero(truth == code), 4, replace=False)] = code  # four labels a class
    sets[name] = X, y, truth, y == -1


def graph_of(**params):
    return lambda: GraphKernelRidge(graph=KNNGraph(**params))


panels = {
    "graph: n_neighbors": ([3, 5, 10, 20, 50], lambda k: graph_of(n_neighbors=k)(), 10),
    "graph: width of weights": ([0.25, 0.5, 1, 2], lambda width: graph_of(width=width)(), 0.5),
    "GraphKernelRidge: power": ([1, 2, 3], lambda p: GraphKernelRidge(power=p, ridge=0.01), None),
    "GraphKernelRidge: ridge": ([1e-4, 1e-3, 1e-2, 0.1, 1], lambda ridge: GraphKernelRidge(power=2, ridge=ridge), None),
    "GraphKernelRidge: penalty": ([1e-3, 1e-2, 0.1, 1, 10], lambda penalty: GraphKernelRidge(penalty=penalty), 0.1),
    "LapSVC: eta": ([0, 0.1, 1, 10, 100], lambda eta: LapSVC(eta=eta), None),
    "LapSVC: C": ([0.1, 1, 10, 100], lambda C: LapSVC(C=C), 10),
    "LapSVC: bandwidth, medians": ([0.1, 0.25, 0.5, 1, 2], lambda b: LapSVC(bandwidth=f"{b}*median"), 0.5),
    "LapSVC: regularizer ridge": ([1e-4, 1e-3, 1e-2, 0.1], lambda r: LapSVC(
        regularizer=RegularizerParams(ridge=r)), 0.01),
    "LapRLS: gamma_I": ([0, 100, 1e3, 1e4, 1e5], lambda g: LapRLSClassifier(
        gamma_I=g, gamma_A=0.01, bandwidth="0.5*median"), None),
    "ClusterKernelSVC: bandwidth": ([0.1, 0.25, 0.5, 1], lambda b: ClusterKernelSVC(bandwidth=f"{b}*median"), 0.25),
    "TransductiveSVC: unlabeled_weight": ([0, 0.1, 1, 10], lambda w: TransductiveSVC(
        landmarks=100, unlabeled_weight=w), 1),
}
accuracy = {}
for title, (values, make, _) in panels.items():
    for name, (X, y, truth, hidden) in sets.items():
        accuracy[title, name] = [100 * np.mean(make(value).fit(X, y).transduction_[hidden] == truth[hidden])
                                 for value in values]
    print(title, dict(zip(values, (f"{a:.0f} / {b:.0f}" for a, b in zip(
        accuracy[title, "digits"], accuracy[title, "moons"], strict=True)), strict=True)))

# %%
# **Picture.** Percent of the unlabeled points that are right; the dotted line is the default, where that is a number.

figure, axes = plt.subplots(3, 4, figsize=(11, 7), sharey=True)
for axis, (title, (values, _, default)) in zip(axes.flat, panels.items(), strict=True):
    for name in sets:
        axis.plot(range(len(values)), accuracy[title, name], marker="o", label=name)
    if default is not None:
        axis.axvline(values.index(default), color="gray", linestyle=":")
    axis.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    axis.set_title(title, fontsize=9)
axes[0, 0].legend()
axes[1, 0].set_ylabel("accuracy in percent")
figure.tight_layout()

# %%
# **Pitfall.** One draw of four labels a class: a difference of two points is chance. Let labels choose parameters with
# ``GridSearch``; ``SemiSupervisedClassifier`` chooses for itself.
