"""
How it works in five pictures
=============================

**Problem.** Three hundred points on two spirals and a few labels: the way from the points to predictions, and to a
number that says how far to trust them.
"""

import matplotlib.pyplot as plt
import numpy as np

from dssl import KNNGraph, LaplaceLearning, SemiSupervisedClassifier

rng = np.random.default_rng(0)
truth = np.repeat([0, 1], 150)
angle = np.tile(np.linspace(2, 10, 150), 2) + np.pi * truth
radius = np.tile(np.linspace(2, 10, 150), 2)
X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + rng.normal(0, 0.25, (300, 2))
y = np.full(300, -1)  # -1 is "no label"
labeled = np.arange(5, 300, 12)  # 25 points
y[labeled] = truth[labeled]

# %%
# **Code.** The neighbor graph and the kernel of its Laplacian; two labels, spread along the edges; and the error on
# held-out labels, with and without the unlabeled points.

graph = KNNGraph(n_neighbors=8).build(X)
W = graph.weights().toarray()
kernel = np.linalg.inv(np.diag(W.sum(axis=1)) - W + 0.01 * np.eye(300))
ends = [0, 150]
spread = LaplaceLearning().fit(X, np.where(np.isin(np.arange(300), ends), truth, -1), graph=graph).predict_proba(X)
gain = SemiSupervisedClassifier().fit(X, y).evidence_["gain"]
print(f"error on held-out labels: {gain['with_graph']:.0%} with the unlabeled points, {gain['baseline']:.0%} without")

# %%
# **Picture.** Graph, kernel, labels that flow, evidence, and the blocks of the graph's matrix that tasks work on.

figure, axes = plt.subplots(2, 3, figsize=(9, 6))
axes = axes.ravel()
axes[5].axis("off")
for axis in axes[:3]:
    axis.set(xticks=[], yticks=[], aspect="equal")
rows, columns = np.nonzero(np.triu(W))
axes[0].plot(X[[rows, columns], 0], X[[rows, columns], 1], color="gray", linewidth=0.5, zorder=1)
axes[0].scatter(*X.T, s=4, color="black", zorder=2)
axes[0].set_title("1. graph")
axes[1].scatter(*X.T, c=np.sqrt(np.maximum(kernel[75], 0)), s=8, cmap="viridis")
axes[1].scatter(*X[75], s=120, marker="*", color="red", edgecolor="black")
axes[1].set_title("2. kernel")
axes[2].scatter(*X.T, c=spread[:, 1], s=8, cmap="coolwarm", vmin=0, vmax=1)
axes[2].scatter(*X[ends].T, c=truth[ends], s=120, cmap="coolwarm", edgecolor="black")
axes[2].set_title("3. labels flow")
for height, name in enumerate(("baseline", "with_graph")):
    lower, upper = gain[f"{name}_interval"]
    axes[3].plot([lower, upper], [height, height], color="tab:blue", linewidth=3)
    axes[3].plot(gain[name], height, "o", color="black")
axes[3].set(ylim=(-0.6, 1.6), yticks=[0, 1], yticklabels=["without", "with"], xlim=(-0.03, 1), box_aspect=0.9,
            xlabel="error on held-out labels")
axes[3].set_title("4. evidence")
axes[4].spy(W, markersize=0.7, color="black")
for block in range(4):
    axes[4].axhspan(75 * block, 75 * (block + 1), color=f"C{block}", alpha=0.3)
    axes[4].text(305, 75 * block + 37, f"task {block + 1}", va="center")
axes[4].set(xticks=[], yticks=[])
axes[4].set_title("5. blocks and tasks")
figure.tight_layout()

# %%
# **Pitfall.** Evidence comes from the labels: with five of them its interval is wide, whatever the picture looks like.
