"""
Label transfer between cells
============================

**Problem.** Cells of one experiment fall into types. A handful of each are annotated, and the others are to get the
same labels. With scanpy one asks the nearest annotated cells; here the other cells take part.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE
from sklearn.neighbors import KNeighborsClassifier

from dssl import SemiSupervisedClassifier

# %%
# **Data.** Counts of 400 genes in 1,500 cells of six types, as a sequencer gives them: types that share most of their
# genes, one of them rare, cells of unequal depth, and dropouts. The rest is what scanpy does with them:
# ``normalize_total``, ``log1p``, ``scale``, ``pca``.

rng = np.random.default_rng(0)
names = np.array(["B", "CD4 T", "CD8 T", "NK", "monocyte", "dendritic"])
types = rng.choice(6, 1500, p=[0.2, 0.3, 0.2, 0.1, 0.16, 0.04])
program = rng.gamma(0.4, 1, 400) * np.exp(rng.normal(0, 0.6, (6, 400)))  # the mean of each gene in each type
program[2] = program[1] * np.exp(rng.normal(0, 0.3, 400))  # CD8 T cells are near CD4 T cells
activity = np.exp(rng.normal(0, 0.6, (1500, 3)) @ rng.normal(0, 0.35, (3, 400)))  # what all types do more or less
depth = rng.lognormal(0, 0.4, (1500, 1))
counts = rng.poisson(rng.gamma(2, 0.5, (1500, 400)) * program[types] * activity * depth * 2)
normalized = np.log1p(counts / counts.sum(axis=1, keepdims=True) * 1e4)
scaled = (normalized - normalized.mean(axis=0)) / (normalized.std(axis=0) + 1e-9)
X_pca = PCA(30, random_state=0).fit_transform(scaled.clip(-10, 10))

# %%
# **Code.** Three annotated cells a type. ``adata.obsm["X_pca"]`` and ``adata.obs["cell_type"]`` take the place of
# ``X_pca`` and ``annotated``. ``scanpy.tl.ingest`` asks the 15
# nearest annotated cells; with three a type, the nearest one alone is right more often.


def transferred(annotated):
    """Return the labels that three methods give all cells."""
    known = annotated != ""
    nearest = KNeighborsClassifier(1).fit(X_pca[known], annotated[known])
    linear = LogisticRegression(max_iter=1000).fit(X_pca[known], annotated[known])
    return {"nearest annotated": nearest.predict(X_pca), "logistic regression": linear.predict(X_pca),
            "dssl": SemiSupervisedClassifier().fit(X_pca, annotated).transduction_}


accuracies, labels = [], {}
for draw in range(3):
    chosen = np.concatenate([np.random.default_rng(draw).permutation(np.flatnonzero(types == t))[:3] for t in range(6)])
    annotated = np.full(len(types), "", dtype=object)
    annotated[chosen] = names[types[chosen]]
    labels = transferred(annotated)
    rest = annotated == ""
    accuracies.append({method: np.mean(given[rest] == names[types][rest]) for method, given in labels.items()})
accuracies = pd.DataFrame(accuracies)
print(accuracies.round(3).to_string())
print(accuracies.mean().round(3).to_string())

# %%
# **Picture.** The last draw, in the plane by t-SNE; circles are annotated cells. The nearest of them is
# often one of another type, although the types are apart; dssl follows the cells between them. CD4 and CD8 T cells
# overlap, so none of the methods tells them apart well.

plane = TSNE(random_state=0).fit_transform(X_pca)
colors = dict(zip(names, plt.get_cmap("tab10").colors, strict=False))
figure, panels = plt.subplots(1, 3, figsize=(9, 3.2), sharex=True, sharey=True)
shown = {"true types": names[types], **{method: labels[method] for method in ("nearest annotated", "dssl")}}
for panel, (title, given) in zip(panels, shown.items(), strict=True):
    for name in names:
        panel.scatter(*plane[given == name].T, s=3, color=colors[name], label=name)
    panel.scatter(*plane[~rest].T, s=25, facecolor="none", edgecolor="black", linewidth=0.8)
    share = "" if title == "true types" else f": {np.mean(given[rest] == names[types][rest]):.1%}"
    panel.set(title=title + share, xticks=[], yticks=[])
panels[0].legend(fontsize=7, markerscale=3)
figure.tight_layout()

# %%
# **Result.** Cells without an annotation show which cells belong together, so more labels are right than by the nearest
# annotated cell or by a linear model. These counts are drawn from a model; on 700 blood cells of ten types, with three
# annotated a type, the shares are 71.5 % (dssl), 68.4 % (logistic regression) and 65.4 % (the nearest annotated cell),
# the means of ten draws.
#
# **Files.** An ``.h5ad`` file needs no Python; ``labeled.h5ad`` is a copy with ``dssl_label`` and ``dssl_probability``
# in ``obs``::
#
#     dssl init cells.h5ad --target cell_type --read matrix=obsm/X_pca
#     dssl run cells.yaml
#     dssl predict dssl-work/runs/RUN/result.json cells.h5ad labeled.h5ad
#
# **Pitfall.** A type without any annotated cell gets the labels of others. Look where ``dssl_probability`` is low.
