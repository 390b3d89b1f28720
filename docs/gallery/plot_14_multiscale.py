"""
Fifty points, two labels
========================

**Problem.** Fifty points are few for a graph. The multi-scale eigen kernel adds eigenfunctions of many scales, and
needs no neighbors (Mhaskar, Pereverzyev, Semenov, Semenova).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.semi_supervised import LabelPropagation

from dssl import MultiscaleKernelClassifier

X, truth = make_moons(50, noise=0.08, random_state=1)
new, of_new = make_moons(1000, noise=0.08, random_state=9)
y = np.full(50, -1)
labeled = [int(np.argmin(X[:, 0])), int(np.argmax(X[:, 0]))]
y[labeled] = truth[labeled]

models = {"MultiscaleKernelClassifier": MultiscaleKernelClassifier().fit(X, y),
          "LabelPropagation (rbf)": LabelPropagation(gamma=20).fit(X, y)}
print({name: f"error on new points {np.mean(model.predict(new) != of_new):.1%}" for name, model in models.items()})

# %%
# **Picture.** New points as they are predicted.

figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
for axis, (name, model) in zip(axes, models.items(), strict=True):
    axis.scatter(*new.T, c=model.predict(new), s=3, cmap="coolwarm", alpha=0.5)
    axis.scatter(*X.T, s=12, color="black")
    axis.scatter(*X[labeled].T, c=y[labeled], s=90, cmap="coolwarm", edgecolor="black")
    axis.set_title(name)
figure.tight_layout()

# %%
# **Pitfall.** It works in a few columns, with gaps between the classes; in hundreds of columns take the graph.
