"""
Clusters that are not round
===========================

**Problem.** No label at all, and groups that no center describes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from dssl import KernelKMeans

moons, of_moons = make_moons(600, noise=0.06, random_state=0)
circles, of_circles = make_circles(600, noise=0.05, factor=0.5, random_state=0)
X = np.vstack([moons, circles + np.array([4.0, 0.3])])
truth = np.concatenate([of_moons, of_circles + 2])

# %%
# **Code.** k-means in the kernel of the neighbor graph; ``predict`` gives new points a cluster.

labels = {"KMeans": KMeans(4, n_init=10, random_state=0).fit_predict(X),
          "KernelKMeans (dssl)": KernelKMeans(4).fit(X).labels_}
print({name: f"{adjusted_rand_score(truth, values):.2f}" for name, values in labels.items()})

# %%
# **Picture.** One color for each cluster.

figure, axes = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True)
for axis, (name, values) in zip(axes, labels.items(), strict=True):
    axis.scatter(*X.T, c=values, s=5, cmap="tab10")
    axis.set(title=name, xticks=[], yticks=[])
figure.tight_layout()

# %%
# **Pitfall.** The number of clusters is yours to know: ``n_clusters="eigengap"`` is a rule of thumb.
