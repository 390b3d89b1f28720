"""
When unlabeled points do not help
=================================

**Problem.** Classes that share every neighborhood cannot be told apart by a graph. A tool should say so before you
rely on it.
"""

from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_classification

from dssl import SemiSupervisedClassifier

rng = np.random.default_rng(0)
sets = {"digits": load_digits(return_X_y=True),
        "a noisy table": make_classification(1500, 20, n_informative=3, flip_y=0.3, random_state=0)}
gains = {}
for name, (X, truth) in sets.items():
    y = np.full(len(X), -1)
    labeled = rng.choice(len(X), 60, replace=False)
    y[labeled] = truth[labeled]
    model = SemiSupervisedClassifier().fit(X, y)
    print(fill(f"{name}: {model.evidence_['in_words']}", 85), "\n")
    gains[name] = np.mean(model.transduction_ == truth)

# %%
# **Picture.** What was true, which the model did not know: accuracy on all points.

figure, axis = plt.subplots(figsize=(6, 2))
bars = axis.barh(list(gains), list(gains.values()), color=["tab:blue", "tab:gray"])
axis.bar_label(bars, fmt="{:.1%}")
axis.set(xlim=(0, 1.15), xlabel="right, of all points")
figure.tight_layout()

# %%
# **Pitfall.** With a few labels nobody can tell a small gain from chance, and the evidence says that too.
