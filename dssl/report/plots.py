"""The figures of a report."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from .drawing import BASELINE, CLASSES, EDGE, INK, LIGHT, MODEL, MUTED, ON, PAPER, WIDE, WRONG, horizontal, svg
from .error_metric import ErrorMetric
from .record import Attributes, ReliabilityBin
from .text import plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_CLASSES = 20  # of a confusion matrix that can still be read
MAX_BARS = 20
MARKERS = "oDs^vPX<>p"  # of every eight classes the next: colors come again, with another marker


def error_plot(scores: Sequence[tuple[str, float, tuple[float, float]]], by: ErrorMetric) -> Markup:
    """Return the test errors, or what else models are judged by, with their 95 % intervals, the first row the model.

    scores : (name, value, ends of the interval).
    """
    def draw(axes: "Axes") -> None:
        right = max(by.factor * high for _, _, (_, high) in scores) * 1.02 or 1.0
        for row, (_, error, (low, high)) in enumerate(scores):
            color = BASELINE if row else MODEL
            axes.barh(row, by.factor * error, height=0.5, color=color, alpha=0.25)
            sides = [[by.factor * max(0.0, error - low)], [by.factor * max(0.0, high - error)]]
            axes.errorbar(by.factor * error, row, xerr=sides, fmt="o", color=color, capsize=4, markersize=6)
            axes.annotate(by.shown(error), (by.factor * high, row), xytext=(9, 0),
                          textcoords="offset points", va="center", fontweight="normal" if row else "bold",
                          bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.5})
        axes.set_yticks(range(len(scores)), [plain_label(name) for name, _, _ in scores])
        axes.set(xlim=(0, right * 1.3), ylim=(len(scores) - 0.5, -0.6), xlabel=by.axis)
        if by.factor == 100:
            axes.set_xticks([tick for tick in axes.get_xticks() if 0 <= tick <= min(100, right * 1.3)])
        else:
            axes.locator_params(axis="x", nbins=5)
        horizontal(axes)

    best = min(scores, key=lambda row: by.loss(row[1]))[0]
    title = f"{by.title} of {len(scores)} models; the {'highest' if by.higher else 'lowest'} is that of"
    return svg("errors", f"{title} {best}",
                (WIDE, 0.8 + 0.48 * len(scores)), draw)


def classes_plot(classes: Sequence[tuple[str, float, Sequence[float]]]) -> Markup:
    """Return the share of each class that is right, with its 95 % interval.

    classes : (name, share, ends of the interval).
    """
    def draw(axes: "Axes") -> None:
        for row, (_, right, (low, high)) in enumerate(classes):
            axes.barh(row, 100 * right, height=0.6, color=MODEL, alpha=0.25)
            axes.errorbar(100 * right, row, xerr=[[100 * (right - low)], [100 * (high - right)]], fmt="o", color=MODEL,
                          capsize=3, markersize=4.5)
        axes.set_yticks(range(len(classes)), [plain_label(name) for name, _, _ in classes])
        axes.set(xlim=(0, 101), ylim=(len(classes) - 0.5, -0.5), xlabel="correct, %")
        horizontal(axes)

    return svg("classes", f"Share of {len(classes)} classes that is classified correctly",
                (WIDE, 0.7 + 0.26 * len(classes)), draw)


def counts_plot(counts: Sequence[tuple[str, int]], of: str) -> Markup:
    """Return how many points each class or cluster has; `of` says which, such as "points predicted as each class"."""
    def draw(axes: "Axes") -> None:
        axes.barh(range(len(counts)), [count for _, count in counts], height=0.6, color=MODEL)
        for row, (_, count) in enumerate(counts):
            axes.annotate(f"{count:,}", (count, row), xytext=(6, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(counts)), [plain_label(name) for name, _ in counts])
        axes.set(xlim=(0, max(1, *(1.15 * count for _, count in counts))), ylim=(len(counts) - 0.4, -0.6), xlabel=of)
        axes.locator_params(axis="x", nbins=5, integer=True)
        horizontal(axes)

    return svg("counts", f"Number of {of}: {len(counts)} bars", (WIDE, 0.8 + 0.27 * len(counts)), draw)


def values_plot(true: Sequence[float], predicted: Sequence[float]) -> Markup:
    """Return predicted quantities over the true ones, and the line on which they would be equal."""
    def draw(axes: "Axes") -> None:
        both = [min(*true, *predicted), max(*true, *predicted)]
        axes.plot(both, both, color=MUTED, linestyle=":", linewidth=1.2)
        axes.plot(true, predicted, "o", color=MODEL, markersize=3.5, alpha=0.45, markeredgewidth=0)
        axes.grid()
        axes.locator_params(nbins=5)
        axes.set(xlabel="true", ylabel="predicted")

    return svg("values", f"Predicted over true values of {len(true)} test points", (5.2, 4.2), draw)


def reliability_plot(bins: Sequence[ReliabilityBin]) -> Markup:
    """Return the share of correct predictions in bins of their probability, a row each, beside that probability.

    On two axes, one for each share, the bins of a good model would lie on top of each other near 100 %.
    """
    def draw(axes: "Axes") -> None:
        predicted, correct = (np.array([100 * row[key] for row in bins]) for key in ("probability", "correct"))
        low, high = np.array([[100 * end for end in row["interval"]] for row in bins]).T
        rows = np.arange(len(bins))
        axes.errorbar(correct, rows, xerr=[correct - low, high - correct], fmt="o", color=MODEL, capsize=3,
                      markersize=5.5, label="correct")
        axes.plot(predicted, rows, "|", color=WRONG, markersize=15, markeredgewidth=2.2, label="predicted")
        lowest = 10 * np.floor(min(*predicted, *low) / 10)
        for row, of_bin in enumerate(bins):
            axes.annotate(f"{of_bin['n']:,}", (1, row), xycoords=("axes fraction", "data"), xytext=(7, 0),
                          textcoords="offset points", va="center", color=MUTED)
        axes.annotate("points", (1, -0.8), xycoords=("axes fraction", "data"), va="center", color=MUTED)
        axes.set_yticks(rows, [f"{value:.1f} %" for value in predicted])
        axes.set(xlim=(lowest - 1, 101), ylim=(len(bins) - 0.5, -0.6), xlabel="%", ylabel="predicted probability")
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, handletextpad=0.2)
        horizontal(axes)

    return svg("reliability", f"Share of correct predictions in {len(bins)} bins of their probability",
               (WIDE, 1.1 + 0.32 * len(bins)), draw)


def confusion_plot(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> Markup:
    """Return the confusion matrix (true classes as rows), or with many classes the most confused pairs."""
    counts = np.asarray(confusion, np.int64)
    if len(counts) > MAX_CLASSES:
        return _confused_pairs(counts, labels)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)

    def draw(axes: "Axes") -> None:
        small = 10 if len(counts) <= 10 else 7.5
        for (row, column), count in np.ndenumerate(counts):
            # Errors are few: the root of their share keeps them visible.
            share = shares[row, column] if row == column else np.sqrt(shares[row, column])
            color = MODEL if row == column else WRONG if count else MUTED
            _cell(axes, row, column, color, share, f"{count:,}" if count or row == column else "", small)
        names = [plain_label(label, 12) for label in labels]
        upright = max(map(len, names), default=0) > 4 and len(names) > 3
        axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=90 if upright else 0, fontsize=max(small, 8))
        axes.set_yticks(np.arange(len(names)) + 0.5, names, fontsize=max(small, 8))
        axes.tick_params(length=0)
        axes.tick_params(axis="x", colors=INK)
        axes.spines[:].set_visible(False)
        axes.set(xlabel="predicted class", ylabel="true class", aspect="equal", xlim=(0, len(counts)),
                 ylim=(len(counts), 0))

    names_width = 0.3 + 0.07 * max((len(plain_label(label, 12)) for label in labels), default=0)
    side = 1.3 + (0.75 if len(counts) <= 4 else 0.48 if len(counts) <= 10 else 0.36) * len(counts)
    return svg("confusion", f"Confusion matrix of {len(counts)} classes", (side + names_width, side), draw)


def pairs_plot(rows: Sequence[Attributes], pair: tuple[str, str], by: ErrorMetric, chosen: Attributes) -> Markup:
    """Return the errors of pairs of two parameters, the first to the right and the second upward; the chosen framed.

    rows : both parameters and the error, by name.
    """
    across, up = (sorted({float(row[name]) for row in rows}) for name in pair)
    errors = np.full((len(up), len(across)), np.nan)
    for row in rows:
        errors[up.index(float(row[pair[1]])), across.index(float(row[pair[0]]))] = row[by.key]
    best, worst = float(np.nanmin(errors)), float(np.nanmax(errors))
    # Errors far above the best look alike, so that differences near it keep their colors.
    limit = min(worst, 3 * best) if best > 0 else worst

    def draw(axes: "Axes") -> None:
        for (row, column), error in np.ndenumerate(errors):
            if np.isfinite(error):
                excess = min(1.0, (error - best) / (limit - best)) if limit > best else 0.0
                _cell(axes, row, column, MODEL, 1 - excess, by.shown(error), 8.5)
        if chosen.get(pair[0]) in across and chosen.get(pair[1]) in up:
            corner = across.index(chosen[pair[0]]), up.index(chosen[pair[1]])
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=WRONG, linewidth=2.5))
        axes.set_xticks(np.arange(len(across)) + 0.5, [f"{value:.3g}" for value in across])
        axes.set_yticks(np.arange(len(up)) + 0.5, [f"{value:.3g}" for value in up])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set(xlabel=pair[0], ylabel=pair[1], xlim=(0, len(across)), ylim=(0, len(up)))

    from matplotlib.patches import Rectangle  # as late as in `drawing.svg`

    size = 1.4 + 0.85 * len(across), 1.1 + 0.42 * len(up)
    return svg("pairs_of_parameters", f"Errors of {len(rows)} pairs of {pair[0]} and {pair[1]}", size, draw)


def scales_plot(index: Sequence[int], scales: Sequence[float], values: Sequence[float]) -> Markup:
    """Return the scale and the eigenvalue of each eigenfunction over its index."""
    def draw(axes: "Axes") -> None:
        axes.plot(index, scales, "o", color=MODEL, markersize=4, alpha=0.7, markeredgewidth=0, label="scale")
        axes.plot(index, values, "-", color=WRONG, linewidth=1.2, label="eigenvalue")
        axes.set(xlabel="index", yscale="log")
        axes.yaxis.set_major_formatter(_plain_power)
        axes.grid()
        axes.legend(frameon=False)

    return svg("scales", f"Scales and eigenvalues of {len(index)} eigenfunctions", (WIDE, 3.0), draw)


def second_plot(scales: Sequence[float], second: Sequence[float]) -> Markup:
    """Return the second eigenvalue over the scale, both logarithmic; of eigenvalues that are 0 the least double."""
    def draw(axes: "Axes") -> None:
        shown = np.maximum(second, 1e-18)
        axes.plot(scales, shown, ".-", color=MODEL, linewidth=1.2)
        axes.set(xlabel="scale", ylabel="second eigenvalue", xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(_plain_power)
        axes.grid()

    return svg("second", f"The second eigenvalue of {len(scales)} scales", (WIDE, 2.6), draw)


def regions_plot(corners: Sequence[Sequence[float]], grid: Sequence[Sequence[float]],
                 points: Sequence[Sequence[float]], predicted: Sequence[float], labeled: Sequence[Sequence[float]],
                 known: Sequence[float], classes: Sequence[str]) -> Markup:
    """Return predictions in the plane as colors: of places on a grid, of points, and labels as crosses.

    corners : the least and largest of both columns. grid : rows from below. classes : by code; none of quantities.
    """
    (left, low), (right, high) = corners

    def draw(axes: "Axes") -> None:
        from matplotlib import colormaps  # as late as in `drawing.svg`
        from matplotlib.colors import ListedColormap

        colors: Any = colormaps["viridis"]
        limits: Any = {"vmin": min(*known, *predicted), "vmax": max(*known, *predicted)}
        if classes:
            colors = ListedColormap([_color(code) for code in range(len(classes))])
            limits = {"vmin": -0.5, "vmax": len(classes) - 0.5}
        (x, y), (x_labeled, y_labeled) = np.transpose(points), np.transpose(labeled)
        axes.imshow(grid, origin="lower", extent=(left, right, low, high), cmap=colors, alpha=0.25, aspect="equal",
                    interpolation="nearest", **limits)
        axes.scatter(x, y, c=predicted, cmap=colors, s=12, linewidths=0, **limits)
        axes.scatter(x_labeled, y_labeled, color=INK, marker="X", s=150, linewidths=0)
        drawn: Any = axes.scatter(x_labeled, y_labeled, c=known, cmap=colors, marker="X", s=70, linewidths=0, **limits)
        if 0 < len(classes) <= MAX_CLASSES:
            axes.legend(drawn.legend_elements(num=None)[0], [plain_label(classes[int(code)]) for code in sorted(
                set(known))], frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set(xlabel="first feature, scaled", ylabel="second feature, scaled")

    return svg("regions", f"Predictions around {len(points)} points and {len(labeled)} labels", (WIDE, 4.4), draw)


def curve_plot(rows: Sequence[Attributes], names: Sequence[str], by: ErrorMetric) -> Markup:
    """Return the errors of models over the number of labels that they learned from, with bands of their intervals.

    rows : `labels`, and of each name the error and `<name>_interval`, its ends or None.
    """
    def draw(axes: "Axes") -> None:
        labels, ends = [row["labels"] for row in rows], [by.factor * rows[-1][name] for name in names]
        bands = {name: by.factor * np.array([row[f"{name}_interval"] for row in rows]).T for name in names
                 if all(row.get(f"{name}_interval") for row in rows)}
        highest = max(by.factor * row[name] for row in rows for name in names)
        text_height = 0.07 * max([highest, *(high.max() for _, high in bands.values())])
        offsets = label_offsets(ends, text_height)
        for line, name in enumerate(names):
            color = BASELINE if line else MODEL
            errors = [by.factor * row[name] for row in rows]
            axes.plot(labels, errors, "s--" if line else "o-", color=color, markersize=5.5, linewidth=1.6,
                      clip_on=False)
            if name in bands:
                axes.fill_between(labels, *bands[name], color=color, alpha=0.12, linewidth=0)
            axes.annotate(name, (labels[-1], errors[-1]), xytext=(9, offsets[line]), textcoords="offset points",
                          va="center", color=color, fontweight="normal" if line else "bold")
        axes.set_xscale("log", base=2)
        axes.set_xticks(labels, [f"{count:,}" for count in labels])
        axes.set_xticks([], minor=True)
        axes.set(xlabel="number of training labels", ylabel=by.held_out_axis,
                 xlim=(labels[0] * 0.9, labels[-1] * (labels[-1] / labels[0]) ** 0.22 * 1.1))
        axes.set_ylim(bottom=0)
        axes.grid()

    return svg("curve", f"Errors of {' and '.join(names)} by {len(rows)} numbers of labels", (WIDE, 3.0), draw)


def label_offsets(ends: Sequence[float], text_height: float) -> list[int]:
    """Return by how many points the names of one or two lines stand above their ends.

    Two that would overlap are parted, and none reaches below zero, where the ticks of the axis are.
    """
    overlap = len(ends) == 2 and abs(ends[0] - ends[1]) <= text_height
    if not overlap:
        return [7 if end <= text_height / 2 else 0 for end in ends]
    lower = 7 if min(ends) <= text_height else -7
    upper = max(range(2), key=lambda line: (ends[line], line))
    return [lower + 14 if line == upper else lower for line in range(2)]


def picture_plot(points: Sequence[Sequence[float]], codes: Sequence[float], classes: Sequence[str],
                 edges: Sequence[Sequence[int]], labeled: Sequence[int], axes_of: Sequence[str] = ("", "")) -> Markup:
    """Return points in the plane, the lines between neighbors, and a ring around those with a label.

    points (s, 2), codes (s,) : of what is predicted, -1 of nothing, or without classes quantities. edges (e, 2),
    labeled : indices of the points. axes_of : what the axes are, where that means something.
    """
    coordinates, values = np.asarray(points, float).reshape(-1, 2), np.asarray(codes, float)

    def draw(axes: "Axes") -> None:
        from matplotlib import colormaps  # as late as in `drawing.svg`
        from matplotlib.colors import ListedColormap
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        if len(edges):
            path = Path(coordinates[np.asarray(edges)].reshape(-1, 2), [Path.MOVETO, Path.LINETO] * len(edges))
            lines = axes.add_artist(PathPatch(path, fill=False, edgecolor=EDGE, linewidth=0.5, alpha=0.55))
            lines.set_in_layout(False)  # they end at points: thousands of them are not measured again
        ring = np.asarray(labeled, int)
        if classes:
            for code in np.unique(values).astype(int):
                of_class, known = np.flatnonzero(values == code), ring[values[ring] == code]
                marker = "x" if code < 0 else MARKERS[code // len(CLASSES) % len(MARKERS)]
                axes.plot(*coordinates[of_class].T, marker, color=_color(code), markersize=3.6,
                          markeredgewidth=0 if code >= 0 else 0.8, alpha=0.9,
                          label="none" if code < 0 else plain_label(classes[code]))
                axes.plot(*coordinates[known].T, marker, color=_color(code), markersize=8, markeredgecolor=INK,
                          markeredgewidth=1.4)
            if len(np.unique(values)) <= MAX_CLASSES:
                axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.02), ncols=5, fontsize=9,
                            handletextpad=0.1, columnspacing=0.9, markerscale=1.8)
        else:
            # Without its ends, which are too pale on light or too deep on dark paper.
            limits: Any = {"cmap": ListedColormap(colormaps["viridis"](np.linspace(0.2, 0.9, 256))),
                      "vmin": values.min(), "vmax": values.max()}
            (x, y), (x_labeled, y_labeled) = coordinates.T, coordinates[ring].T
            drawn = axes.scatter(x, y, c=values, s=11, linewidths=0, **limits)
            axes.scatter(x_labeled, y_labeled, c=values[ring], s=60, edgecolors=INK, linewidths=1.4, **limits)
            axes.figure.colorbar(drawn, ax=axes, label="predicted", shrink=0.7, pad=0.02).outline.set_visible(False)
        axes.set_xlabel(axes_of[0], loc="right", fontsize=8.5, color=MUTED)
        axes.set_ylabel(axes_of[1], loc="top", fontsize=8.5, color=MUTED)
        axes.xaxis.set_label_position("top")
        axes.set(xticks=[], yticks=[], aspect="equal")
        axes.spines[:].set_visible(False)

    across, tall = np.maximum(np.ptp(coordinates, axis=0), 1e-9)
    legend = 0.3 + 0.22 * (len(classes) // 5) if 0 < len(classes) <= MAX_CLASSES else 0.0
    height = float(np.clip(0.95 * WIDE * tall / across, 2.0, 5.2)) + legend
    return svg("picture", f"{len(coordinates)} points, {len(edges)} lines between neighbors, {len(labeled)} labels",
                (WIDE, height), draw)


def _confused_pairs(counts: np.ndarray, labels: Sequence[str]) -> Markup:
    """Return bars of the pairs (true class, predicted class) that occur most often."""
    errors = counts.copy()
    np.fill_diagonal(errors, 0)
    order = np.argsort(-errors, axis=None, kind="stable")[:MAX_BARS]
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, errors.shape), strict=True) if errors[i, j]]
    names = [f"{plain_label(labels[i])} → {plain_label(labels[j])}" for i, j in pairs]
    values = [int(errors[pair]) for pair in pairs]
    notes = [f"{errors[i, j]:,} of {counts[i].sum():,}" for i, j in pairs]

    def draw(axes: "Axes") -> None:
        axes.barh(range(len(values)), values, height=0.62, color=WRONG, alpha=0.75)
        for row, (value, note) in enumerate(zip(values, notes, strict=True)):
            axes.annotate(note, (value, row), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel="test points",
                 xlim=(0, (max(values, default=0) or 1) * 1.2), ylim=(len(values) - 0.4, -0.6))
        horizontal(axes)

    return svg("pairs", f"The {len(pairs)} most confused pairs of {len(counts)} classes",
                (WIDE, 0.8 + 0.27 * len(values)), draw)


def _plain_power(value: float, position: float | None = None) -> str:
    """Return the text of a tick of a logarithmic axis; matplotlib's own is TeX, which is not read here."""
    return f"{value:g}"


def _color(code: int) -> str:
    """Return the color of a class or cluster; gray of none, -1."""
    return BASELINE if code < 0 else LIGHT[CLASSES[code % len(CLASSES)]]


def _cell(axes: "Axes", row: int, column: int, color: str, share: float, text: str, size: float) -> None:
    """Draw a cell of a table, the deeper the larger the share, and text that can be read on it."""
    from matplotlib.patches import Rectangle  # as late as in `drawing.svg`

    inside: Any = {"in_layout": False}  # of the axes: not measured for the layout
    axes.add_artist(Rectangle((column, row), 1, 1, facecolor=color, alpha=0.06 + 0.94 * float(share), linewidth=0,
                              **inside))
    axes.add_artist(Rectangle((column, row), 1, 1, fill=False, edgecolor=PAPER, linewidth=1, **inside))
    if text:
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=size,
                  color=ON if share > 0.55 else INK, **inside)
