"""
A boosted model and the graph
=============================

**Problem.** On tables gradient boosting is what one takes. What can unlabeled rows add to it?
"""

from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier

from dssl import SemiSupervisedClassifier

X, truth = load_breast_cancer(return_X_y=True)
errors = {"boosting": [], "dssl": [], "dssl with boosting": []}
for draw in range(3):
    rng = np.random.default_rng(draw)
    y = np.full(len(X), -1)
    labeled = rng.choice(len(X), 40, replace=False)
    y[labeled] = truth[labeled]
    hidden = y == -1
    boosting = HistGradientBoostingClassifier(random_state=0).fit(X[labeled], y[labeled])
    errors["boosting"].append(1 - boosting.score(X[hidden], truth[hidden]))
    for name, base in (("dssl", None), ("dssl with boosting", "boosting")):
        model = SemiSupervisedClassifier(base_estimator=base).fit(X, y)
        errors[name].append(np.mean(model.transduction_[hidden] != truth[hidden]))
print({name: f"{np.mean(values):.1%}" for name, values in errors.items()})
print(fill(model.evidence_["in_words"], 85))

# %%
# **Picture.** Three draws of 40 labels.

figure, axis = plt.subplots(figsize=(6, 2.2))
for number, values in enumerate(errors.values()):
    axis.plot(np.multiply(values, 100), [number] * len(values), "o", color="tab:blue", alpha=0.7)
axis.set(yticks=range(3), yticklabels=errors, xlabel="error in percent, of the unlabeled rows", xlim=(0, None))
figure.tight_layout()

# %%
# **Pitfall.** The other model must not have seen the labels it is judged by: dssl fits it anew without each fold of
# them.
