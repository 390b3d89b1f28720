"""
How many labels are enough?
===========================

**Problem.** Labels cost money. How far does each one go, with the unlabeled points and without?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from dssl import KNNGraph, SemiSupervisedClassifier

X, truth = load_digits(return_X_y=True)
graph = KNNGraph().build(X)  # once for all fits
rates, draws = (1, 2, 5, 10), 2
errors = {"dssl": [], "SVC": []}
for rate in rates:
    of_draws = {name: [] for name in errors}
    for draw in range(draws):
        rng = np.random.default_rng([rate, draw])
        y = np.full(len(X), -1)
        for digit in range(10):
            y[rng.choice(np.flatnonzero(truth == digit), rate, replace=False)] = digit
        hidden = y == -1
        model = SemiSupervisedClassifier(scale="none").fit(X, y, graph=graph)
        of_draws["dssl"].append(np.mean(model.transduction_[hidden] != truth[hidden]))
        of_draws["SVC"].append(1 - SVC().fit(X[~hidden], y[~hidden]).score(X[hidden], truth[hidden]))
    for name, values in of_draws.items():
        errors[name].append(values)
for name, values in errors.items():
    print(name, {rate: f"{np.mean(value):.1%}" for rate, value in zip(rates, values, strict=True)})

# %%
# **Picture.** Mean and range of two draws.

figure, axis = plt.subplots(figsize=(6, 3.5))
for name, values in errors.items():
    axis.plot(rates, [100 * np.mean(value) for value in values], marker="o", label=name)
    axis.fill_between(rates, [100 * min(value) for value in values], [100 * max(value) for value in values], alpha=0.2)
axis.set(xscale="log", xticks=rates, xticklabels=rates, xlabel="labels of each digit", ylabel="error in percent")
axis.legend()
figure.tight_layout()

# %%
# **Pitfall.** One draw of one label a class says little: on other digits the same model errs twice as often.
