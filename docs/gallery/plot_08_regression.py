"""
Quantities with few targets
===========================

**Problem.** Positions on a bent sheet in three dimensions are to be predicted from 20 known ones of 1,500.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_swiss_roll
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR

from dssl import SemiSupervisedRegressor

X, truth = make_swiss_roll(1500, noise=0.3, random_state=0)
y = np.full(len(X), np.nan)  # NaN is "no target"
labeled = np.random.default_rng(0).choice(len(X), 20, replace=False)
y[labeled] = truth[labeled]
hidden = np.isnan(y)

predicted = {"dssl": SemiSupervisedRegressor().fit(X, y).predict(X)}
for name, model in (("3 nearest", KNeighborsRegressor(3, weights="distance")), ("SVR", SVR(C=100))):
    predicted[name] = model.fit(X[labeled], y[labeled]).predict(X)
print({name: f"R2 {r2_score(truth[hidden], values[hidden]):.2f}" for name, values in predicted.items()})

# %%
# **Picture.** The sheet from the side, colored by what is predicted.

figure, axes = plt.subplots(1, 4, figsize=(9, 2.6), sharey=True)
for axis, (name, values) in zip(axes, {"true": truth, **predicted}.items(), strict=True):
    axis.scatter(X[:, 0], X[:, 2], c=values, s=4, cmap="viridis", vmin=truth.min(), vmax=truth.max())
    axis.set(title=name, xticks=[], yticks=[])
figure.tight_layout()

# %%
# **Pitfall.** Where the layers touch, neighbors lie on both of them, and the graph takes a short cut.
