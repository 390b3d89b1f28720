"""
Two labels of each digit
========================

**Problem.** 1,797 images of handwritten digits in 64 pixels, two of each labeled. What do the other 1,777 add?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from dssl import SemiSupervisedClassifier

X, truth = load_digits(return_X_y=True)
y = np.full(len(X), -1)
for digit in range(10):
    y[np.flatnonzero(truth == digit)[:2]] = digit
hidden = y == -1

# %%
# **Code.** The same labels for all. ``LabelSpreading`` is scikit-learn's own answer.

accuracy = {"dssl": np.mean(SemiSupervisedClassifier().fit(X, y).transduction_[hidden] == truth[hidden])}
spread = LabelSpreading(kernel="knn", n_neighbors=10).fit(X, y)
accuracy["LabelSpreading"] = np.mean(spread.transduction_[hidden] == truth[hidden])
for name, model in (("SVC", SVC()), ("nearest", KNeighborsClassifier(1))):
    accuracy[name] = model.fit(X[~hidden], y[~hidden]).score(X[hidden], truth[hidden])
print({name: f"{value:.1%}" for name, value in accuracy.items()})

# %%
# **Picture.** Accuracy on the 1,777 images without a label.

figure, axis = plt.subplots(figsize=(6, 2.5))
bars = axis.barh(list(accuracy)[::-1], list(accuracy.values())[::-1], color="tab:blue")
axis.bar_label(bars, fmt="{:.1%}")
axis.set(xlim=(0, 1.1), xlabel="right, of the unlabeled images")
figure.tight_layout()

# %%
# **Pitfall.** Which two images are labeled matters: :func:`dssl.suggest_labels` chooses them better than chance.
