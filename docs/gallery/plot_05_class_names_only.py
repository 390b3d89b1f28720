"""
Class names only
================

**Problem.** Embeddings of images and of the class names by a language-image model, and not one label. The name
vectors alone classify some points; the graph of all points smooths what they say.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from dssl import SemiSupervisedClassifier

X, truth = load_digits(return_X_y=True)
rng = np.random.default_rng(0)

# %%
# **Code.** Means of each class with noise stand for the vectors of class names here: about as good as those of
# language-image models on a hard set of images.

names = np.array([f"digit {digit}" for digit in range(10)])
means = np.array([X[truth == digit].mean(axis=0) for digit in range(10)])
vectors = means + rng.normal(0, 3.5, means.shape)
model = SemiSupervisedClassifier(class_embeddings=vectors, classes=names).fit(X)
A, B = X - X.mean(axis=0), vectors - vectors.mean(axis=0)
alone = np.argmax(A @ B.T / np.linalg.norm(B, axis=1), axis=1)
accuracy = {"class vectors alone": np.mean(alone == truth),
            "with the graph (dssl)": np.mean(model.transduction_ == names[truth])}
print({name: f"{value:.1%}" for name, value in accuracy.items()})

# %%
# **Picture.** Accuracy on all images, none of which has a label.

figure, axis = plt.subplots(figsize=(6, 2))
bars = axis.barh(list(accuracy)[::-1], list(accuracy.values())[::-1])
axis.bar_label(bars, fmt="{:.1%}")
axis.set(xlim=(0, 1.15), xlabel="right, of all images")
figure.tight_layout()

# %%
# **Pitfall.** Both kinds of vectors must lie in one space, with the same preprocessing. A handful of labels, given
# as ``y``, lets dssl judge how much the names are worth.
