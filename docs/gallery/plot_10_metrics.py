"""
Another metric
==============

**Problem.** Rows are latitude and longitude. In the plane of these two numbers the ends of the map lie far apart,
and near the pole everything is torn to pieces; on the globe they are neighbors.
"""

import matplotlib.pyplot as plt
import numpy as np

from dssl import KNNGraph, SemiSupervisedClassifier

rng = np.random.default_rng(0)
around = np.pi + 2 * np.pi * np.arange(5) / 5  # five regions around the pole, one of them across the date line
centers = np.column_stack([0.3 * np.cos(around), 0.3 * np.sin(around), np.full(5, 0.95)])
truth = np.repeat(range(5), 200)
points = centers[truth] + rng.normal(0, 0.06, (1000, 3))
points /= np.linalg.norm(points, axis=1, keepdims=True)
X = np.column_stack([np.arcsin(points[:, 2]), np.arctan2(points[:, 1], points[:, 0])])  # in radians
y = np.full(1000, -1)
for region in range(5):
    y[rng.choice(np.flatnonzero(truth == region))] = region

# %%
# **Code.** ``metric`` takes all that pynndescent knows, or a function compiled by Numba.

accuracy, predicted = {}, {}
for metric in ("euclidean", "haversine"):
    model = SemiSupervisedClassifier(graph=KNNGraph(metric=metric), scale="none").fit(X, y)
    predicted[metric] = model.transduction_
    accuracy[metric] = np.mean(model.transduction_ == truth)
print({metric: f"{value:.1%}" for metric, value in accuracy.items()})

# %%
# **Picture.** Seen from above the pole.

figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), subplot_kw={"projection": "polar"})
for panel, (metric, labels) in zip(panels, predicted.items(), strict=True):
    panel.scatter(X[:, 1], np.pi / 2 - X[:, 0], c=labels, s=4, cmap="tab10")
    panel.set(title=f"{metric}: {accuracy[metric]:.1%}", xticks=[], yticks=[])
figure.tight_layout()

# %%
# **Pitfall.** Haversine reads radians, latitude first.
