"""
Two labels, two moons
=====================

**Problem.** A thousand points, one label of each class. A support vector machine sees two points and draws a straight
line between them; the shape of the other 998 points says more.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

from dssl import SemiSupervisedClassifier

X, truth = make_moons(1000, noise=0.08, random_state=0)
y = np.full(1000, -1)  # -1 is "no label"
labeled = [int(np.argmin(X[:, 0])), int(np.argmax(X[:, 0]))]
y[labeled] = truth[labeled]

# %%
# **Code.** Nothing is set. ``predict`` works for new points too.

model = SemiSupervisedClassifier().fit(X, y)
svc = SVC().fit(X[labeled], y[labeled])
errors = {name: np.mean(fitted.predict(X) != truth) for name, fitted in (("dssl", model), ("SVC", svc))}
print({name: f"{error:.1%}" for name, error in errors.items()})

# %%
# **Picture.** The two labels are the large points.

figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
for axis, (name, fitted) in zip(axes, (("dssl", model), ("SVC on the two labels", svc)), strict=True):
    axis.scatter(*X.T, c=fitted.predict(X), s=4, cmap="coolwarm")
    axis.scatter(*X[labeled].T, c=y[labeled], s=120, edgecolor="black", cmap="coolwarm")
    axis.set_title(name)
figure.tight_layout()

# %%
# **Pitfall.** With noise 0.3 the moons touch, and no graph can tell where one ends. ``model.evidence_`` then says so.
