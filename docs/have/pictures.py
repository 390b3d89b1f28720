"""Draw the pictures of the pages "I have ...": each shows what the code of its page makes.

    python docs/have/pictures.py [PAGE ...]

It runs the Python of a page, whose variables a function of this module draws. The page on a stream of new rows has a
pipeline in place of Python, which is run for five nights.
"""

import re
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

HERE = Path(__file__).parent
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8a00", "#7a4fa3", "#5c5c5c", "#00796b")
SIZE, DPI, SHADES = (7.0, 3.4), 110, 64  # inches, dots an inch, and colors of a file


def code_of(page: str) -> str:
    """Return the first block of Python of a page."""
    text = (HERE / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]


def in_plane(X: Any) -> np.ndarray:
    """Return points of the plane, (n, 2), in which the neighbors of rows (n, d) are neighbors."""
    from sklearn.manifold import TSNE

    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return np.asarray(TSNE(random_state=0, init="pca", perplexity=30).fit_transform(dense))


def scatter(axes: Any, points: np.ndarray, predicted: np.ndarray, labeled: np.ndarray, size: float = 7) -> None:
    """Draw points in the color of their prediction, with a ring around those that had a label."""
    for color, name in zip(COLORS, np.unique(predicted), strict=False):
        of_class = predicted == name
        axes.scatter(*points[of_class].T, s=size, color=color, linewidths=0, label=str(name))
    axes.scatter(*points[labeled].T, s=6 * size, facecolors="none", edgecolors="black", linewidths=1.1,
                 label="had a label")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5), markerscale=1.4)


def without_axes(axes: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


def embeddings(made: dict[str, Any], axes: Any) -> None:
    scatter(axes, in_plane(made["X"]), made["labels"], made["y"] != -1)
    without_axes(axes)


def cells(made: dict[str, Any], axes: Any) -> None:
    scatter(axes, in_plane(made["X_pca"]), made["model"].transduction_, (made["annotated"] != "").to_numpy())
    without_axes(axes)


def texts(made: dict[str, Any], axes: Any) -> None:
    scatter(axes, in_plane(made["X"]), made["model"].transduction_, made["y"] != "")
    without_axes(axes)


def a_table(made: dict[str, Any], axes: Any) -> None:
    table, wine = made["table"], made["model"].transduction_.astype(int)
    scatter(axes, table[["alcohol", "color_intensity"]].to_numpy(), wine, made["y"].notna().to_numpy(), 16)
    axes.set(xlabel="alcohol", ylabel="color intensity")


def millions_of_rows(made: dict[str, Any], axes: Any) -> None:
    from sklearn.decomposition import PCA

    plane = PCA(2, random_state=0).fit_transform(np.asarray(made["X"]))
    scatter(axes, plane, made["model"].transduction_, made["y"] != -1, 5)
    axes.set(xlabel="first principal component", ylabel="second")


def a_graph(made: dict[str, Any], axes: Any) -> None:
    from scipy.sparse.csgraph import laplacian
    from scipy.sparse.linalg import eigsh

    W = made["W"]
    L, scale = laplacian(W, normed=True, return_diag=True)
    vectors = eigsh(2 * np.eye(W.shape[0]) - L.toarray(), k=3, v0=np.ones(W.shape[0]))[1] / scale[:, None]
    points = vectors[:, :2]
    rows, columns = W.nonzero()
    axes.plot(*np.stack([points[rows], points[columns]], axis=1).transpose(2, 1, 0), color="gray", linewidth=0.3,
              alpha=0.25, zorder=0)
    scatter(axes, points, made["model"].transduction_, made["y"] != -1, 16)
    without_axes(axes)


def class_names_only(made: dict[str, Any], axes: Any) -> None:
    X, V, truth, names = made["X"], made["vectors"], made["truth"], np.array(made["names"])
    A, B = X - X.mean(axis=0), V - V.mean(axis=0)
    alone = np.argmax(A @ B.T / np.linalg.norm(B, axis=1), axis=1)
    right = {"names alone": names[alone] == names[truth], "with the graph": made["model"].transduction_ == names[truth]}
    for number, (label, is_right) in enumerate(right.items()):
        shares = [100 * is_right[truth == digit].mean() for digit in range(len(names))]
        axes.bar(np.arange(len(names)) + 0.4 * number - 0.2, shares, 0.38, label=label,
                 color=("#b8b8b8", COLORS[0])[number])
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel="correct, %", ylim=(0, 101))
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)


def images(made: dict[str, Any], axes: Any) -> None:
    without_axes(axes)
    labels, truth = made["model"].transduction_, made["truth"]
    for number, row in enumerate(made["doubtful"]):
        inside = axes.inset_axes([(number % 10) / 10 + 0.01, 0.5 - 0.5 * (number // 10), 0.08, 0.4])
        inside.imshow(made["images"][row].reshape(8, 8), cmap="gray_r")
        inside.set_title(str(labels[row]), color=COLORS[0] if labels[row] == truth[row] else COLORS[5])
        without_axes(inside)


def a_stream_of_rows(made: dict[str, Any], axes: Any) -> None:
    """Draw the rows of the graph and the error after each of five nights, which `pipeline` has run."""
    nights = np.arange(1, len(made["rows"]) + 1)
    axes.bar(nights, made["rows"], color="#b8b8b8")
    axes.set(xlabel="night", ylabel="rows in the graph")
    errors = axes.twinx()
    errors.plot(nights, made["errors"], "o-", color=COLORS[0])
    errors.set_ylabel("error, %", color=COLORS[0])
    errors.set_ylim(bottom=0)


def grown() -> dict[str, Any]:
    """Return the rows and the errors of the page's pipeline after each of five files."""
    import pandas as pd
    import yaml
    from sklearn.datasets import make_moons

    import dssl
    from dssl.execution.in_process import InProcess

    text = (HERE / "a-stream-of-rows.md").read_text(encoding="utf-8")
    spec = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    spec["data"]["read"] = {"target": "moon"}
    rows, errors, truth = [], [], np.empty(0, object)
    for night in range(1, 6):
        X, moon = make_moons(200, noise=0.12, random_state=night)
        names = np.array(["lower", "upper"])[moon]
        shown = np.where(np.arange(len(X)) < 4, names, None)  # four of a night are labeled
        pd.DataFrame(X, columns=["x", "y"]).assign(moon=shown).to_parquet(f"day-{night}.parquet", index=False)
        truth = np.concatenate([truth, names])
        result = dssl.run(spec, workspace="work", execution=InProcess(1))
        predicted = pd.read_csv(result.folder / "predictions_all.csv")["label"].to_numpy()
        rows.append(len(predicted))
        errors.append(100 * float(np.mean(predicted != truth)))
    return {"rows": rows, "errors": errors}


PAGES = {"embeddings": embeddings, "a-table": a_table, "cells": cells, "images": images, "texts": texts,
         "a-graph": a_graph, "class-names-only": class_names_only, "millions-of-rows": millions_of_rows,
         "a-stream-of-rows": a_stream_of_rows}


def draw(page: str, out: Path) -> None:
    """Write the picture of a page, a PNG."""
    made: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        if page == "a-stream-of-rows":
            made = grown()
        else:
            exec(code_of(page), made)
        style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": page == "a-stream-of-rows"}
        with mpl.rc_context(style):
            figure = Figure(figsize=SIZE if page != "images" else (7.0, 2.0), layout="constrained")
            PAGES[page](made, figure.add_subplot())
            figure.savefig(out, dpi=DPI)
    Image.open(out).convert("RGB").quantize(SHADES).save(out, optimize=True)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PAGES:
        draw(chosen, HERE / f"{chosen}.png")
        print(f"{chosen}.png")
