"""Figures as inline SVG: the door to matplotlib.

Figures are made without pyplot, so no window system and no global figure list is touched, and with matplotlib's own
defaults, so the reader's settings do not change them. Text stays text: the browser draws it, and it can be searched.
"""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .error_measure import Measure
from .markup import Html, plain_label

MOST_CLASSES = 20  # of a confusion matrix that can still be read
MOST_BARS = 20
INK, MUTED, MODEL, BASELINE, WRONG = "#1f2933", "#6b7785", "#1c64b0", "#8793a0", "#c2571a"
STYLE: Any = {
    "svg.fonttype": "none", "text.parse_math": False, "font.family": ["DejaVu Sans", "sans-serif"], "font.size": 10,
    "text.color": INK, "axes.labelcolor": INK, "axes.facecolor": "none", "axes.edgecolor": "#c3cad2",
    "xtick.color": MUTED, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "grid.color": "#e6eaee",
}


def error_plot(scores: Sequence[tuple[str, float, float]], by: Measure, guess: float | None = None) -> Html:
    """Return the test errors with one standard error to either side, the first row the model.

    scores : (name, error, standard error). guess : the error of a prediction that needs no model.
    """
    def draw(axes: Any) -> None:
        ends = [by.factor * (error + deviation) for _, error, deviation in scores]
        far = max([*ends, 0 if guess is None else by.factor * guess]) * 1.02 or 1.0
        for row, (_, error, deviation) in enumerate(scores):
            color = BASELINE if row else MODEL
            axes.barh(row, by.factor * error, height=0.5, color=color, alpha=0.25)
            axes.errorbar(by.factor * error, row, xerr=by.factor * deviation, fmt="o", color=color, capsize=4,
                          markersize=6)
            axes.annotate(f"{by.shown(error)} ± {by.shown(deviation)}", (ends[row], row), xytext=(9, 0),
                          textcoords="offset points", va="center", fontweight="normal" if row else "bold",
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})
        if guess is not None:
            axes.axvline(by.factor * guess, color=MUTED, linestyle=":", linewidth=1.2)
            axes.annotate(f"always {by.guess}", (by.factor * guess, -0.62), xytext=(-5, 0), ha="right",
                          textcoords="offset points", va="center", color=MUTED, fontsize=8.5)
        axes.set_yticks(range(len(scores)), [plain_label(name) for name, _, _ in scores])
        axes.set(xlim=(0, far * 1.18), ylim=(len(scores) - 0.5, -0.9), xlabel=by.axis)
        _horizontal(axes)

    best = min(scores, key=lambda row: row[1])[0]
    return _svg("errors", f"Test errors of {len(scores)} models; the lowest is that of {best}",
                (7.4, 0.9 + 0.48 * len(scores)), draw)


def values_plot(true: Sequence[float], predicted: Sequence[float]) -> Html:
    """Return predicted quantities over the true ones, and the line on which they would be equal."""
    def draw(axes: Any) -> None:
        both = [min(*true, *predicted), max(*true, *predicted)]
        axes.plot(both, both, color=MUTED, linestyle=":", linewidth=1.2)
        axes.plot(true, predicted, "o", color=MODEL, markersize=3.5, alpha=0.45, markeredgewidth=0)
        axes.grid()
        axes.set(xlabel="true", ylabel="predicted")

    return _svg("values", f"Predicted over true values of {len(true)} test points", (5.2, 4.2), draw)


def confusion_plot(confusion: Sequence[Sequence[int]], labels: Sequence[str]) -> Html:
    """Return the confusion matrix (true classes as rows), or with many classes the most confused pairs."""
    counts = np.asarray(confusion, np.int64)
    if len(counts) > MOST_CLASSES:
        return _confused_pairs(counts, labels)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    right = np.eye(len(counts), dtype=bool)

    def draw(axes: Any) -> None:
        small = 10 if len(counts) <= 10 else 7.5
        # Errors are few: the root of their share keeps them visible.
        axes.set_facecolor("#f4f6f8")
        axes.pcolormesh(np.ma.array(shares, mask=~right), cmap="Blues", vmin=0, vmax=1.35, edgecolors="white")
        axes.pcolormesh(np.ma.array(np.sqrt(shares), mask=right | (counts == 0)), cmap="Oranges", vmin=-0.1, vmax=1.1,
                        edgecolors="white")
        for (row, column), count in np.ndenumerate(counts):
            if count or row == column:
                dark = shares[row, column] > 0.6
                axes.text(column + 0.5, row + 0.5, f"{count:,}", ha="center", va="center", fontsize=small,
                          color="white" if dark else INK)
        names = [plain_label(label, 12) for label in labels]
        upright = max(map(len, names), default=0) > 4 and len(names) > 3
        axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=90 if upright else 0, fontsize=max(small, 8))
        axes.set_yticks(np.arange(len(names)) + 0.5, names, fontsize=max(small, 8))
        axes.tick_params(length=0)
        axes.tick_params(axis="x", colors=INK)
        axes.spines[:].set_visible(False)
        axes.set(xlabel="predicted class", ylabel="true class", aspect="equal", ylim=(len(counts), 0))

    side = 1.3 + (0.75 if len(counts) <= 4 else 0.48 if len(counts) <= 10 else 0.36) * len(counts)
    return _svg("confusion", f"Confusion matrix of {len(counts)} classes", (side + 0.5, side), draw)


def pairs_plot(rows: Sequence[dict[str, Any]], pair: tuple[str, str], by: Measure, chosen: dict[str, Any]) -> Html:
    """Return the errors of pairs of two parameters, the first to the right and the second upward; the chosen framed.

    rows : both parameters and the error, by name.
    """
    across, up = (sorted({float(row[name]) for row in rows}) for name in pair)
    errors = np.full((len(up), len(across)), np.nan)
    for row in rows:
        errors[up.index(float(row[pair[1]])), across.index(float(row[pair[0]]))] = row[by.key]
    best, worst = float(np.nanmin(errors)), float(np.nanmax(errors))
    # Far beyond the best all are alike: differences near it keep their colors.
    limit = min(worst, 3 * best) if best > 0 else worst

    def draw(axes: Any) -> None:
        axes.pcolormesh(np.ma.masked_invalid(errors), cmap="Blues_r", vmin=best, vmax=max(limit, best + 1e-12) * 1.05,
                        edgecolors="white")
        for (row, column), error in np.ndenumerate(errors):
            if np.isfinite(error):
                dark = limit > best and (error - best) / (limit - best) < 0.45
                axes.text(column + 0.5, row + 0.5, by.shown(error), ha="center", va="center", fontsize=8.5,
                          color="white" if dark else INK)
        if chosen.get(pair[0]) in across and chosen.get(pair[1]) in up:
            place = across.index(chosen[pair[0]]), up.index(chosen[pair[1]])
            axes.add_patch(Rectangle(place, 1, 1, fill=False, edgecolor=WRONG, linewidth=2.5))
        axes.set_xticks(np.arange(len(across)) + 0.5, [f"{value:.3g}" for value in across])
        axes.set_yticks(np.arange(len(up)) + 0.5, [f"{value:.3g}" for value in up])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set(xlabel=pair[0], ylabel=pair[1])

    from matplotlib.patches import Rectangle  # as late as in `_svg`

    size = 1.4 + 0.85 * len(across), 1.1 + 0.42 * len(up)
    return _svg("pairs_of_parameters", f"Errors of {len(rows)} pairs of {pair[0]} and {pair[1]}", size, draw)


def scales_plot(index: Sequence[int], scales: Sequence[float], values: Sequence[float]) -> Html:
    """Return the scale and the eigenvalue of each eigenfunction over its index."""
    def draw(axes: Any) -> None:
        axes.plot(index, scales, "o", color=MODEL, markersize=4, alpha=0.7, markeredgewidth=0, label="scale")
        axes.plot(index, values, "-", color=WRONG, linewidth=1.2, label="eigenvalue")
        axes.set(xlabel="index", yscale="log")
        axes.yaxis.set_major_formatter(_plain_power)
        axes.grid()
        axes.legend(frameon=False)

    return _svg("scales", f"Scales and eigenvalues of {len(index)} eigenfunctions", (7.4, 3.2), draw)


def second_plot(scales: Sequence[float], second: Sequence[float]) -> Html:
    """Return the second eigenvalue over the scale, both logarithmic; of eigenvalues that are 0 the least double."""
    def draw(axes: Any) -> None:
        shown = np.maximum(second, 1e-18)
        axes.plot(scales, shown, ".-", color=MODEL, linewidth=1.2)
        axes.set(xlabel="scale", ylabel="second eigenvalue", xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(_plain_power)
        axes.grid()

    return _svg("second", f"The second eigenvalue of {len(scales)} scales", (7.4, 2.8), draw)


def regions_plot(corners: Sequence[Sequence[float]], grid: Sequence[Sequence[float]],
                 points: Sequence[Sequence[float]], predicted: Sequence[float], labeled: Sequence[Sequence[float]],
                 known: Sequence[float], classes: Sequence[str]) -> Html:
    """Return predictions in the plane as colors: of places on a grid, of points, and labels as crosses.

    corners : the least and largest of both columns. grid : rows from below. classes : by code; none of quantities.
    """
    (left, low), (right, high) = corners

    def draw(axes: Any) -> None:
        from matplotlib import colormaps  # as late as in `_svg`
        from matplotlib.colors import ListedColormap

        own: Any = colormaps["viridis"]
        limits = {"vmin": min(*known, *predicted), "vmax": max(*known, *predicted)}
        if classes:
            own = ListedColormap([colormaps["tab10"](code % 10) for code in range(len(classes))])
            limits = {"vmin": -0.5, "vmax": len(classes) - 0.5}
        axes.imshow(grid, origin="lower", extent=(left, right, low, high), cmap=own, alpha=0.25, aspect="equal",
                    interpolation="nearest", **limits)
        axes.scatter(*np.transpose(points), c=predicted, cmap=own, s=12, linewidths=0, **limits)
        axes.scatter(*np.transpose(labeled), color=INK, marker="X", s=150, linewidths=0)
        drawn = axes.scatter(*np.transpose(labeled), c=known, cmap=own, marker="X", s=70, linewidths=0, **limits)
        if 0 < len(classes) <= MOST_CLASSES:
            axes.legend(drawn.legend_elements(num=None)[0], [plain_label(classes[int(code)]) for code in sorted(
                set(known))], frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set(xlabel="first feature, scaled", ylabel="second feature, scaled")

    return _svg("regions", f"Predictions around {len(points)} points and {len(labeled)} labels", (7.4, 5.0), draw)


def clusters_plot(points: Sequence[Sequence[float]], labels: Sequence[int], axes: Sequence[str]) -> Html:
    """Return points in the plane in the colors of their clusters, those without one, -1, in gray."""
    def draw(drawn: Any) -> None:
        from matplotlib import colormaps  # as late as in `_svg`

        colors = [BASELINE if label < 0 else colormaps["tab20"](label % 20) for label in labels]
        drawn.scatter(*np.transpose(points), c=colors, s=8, linewidths=0, alpha=0.8)
        drawn.set(xlabel=axes[0], ylabel=axes[1])

    return _svg("clusters", f"{len(labels)} points in {len({label for label in labels if label >= 0})} clusters",
                (6.4, 4.8), draw)


def _confused_pairs(counts: np.ndarray, labels: Sequence[str]) -> Html:
    """Return bars of the pairs (true class, predicted class) that occur most often."""
    errors = counts.copy()
    np.fill_diagonal(errors, 0)
    order = np.argsort(-errors, axis=None, kind="stable")[:MOST_BARS]
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, errors.shape), strict=True) if errors[i, j]]
    names = [f"{plain_label(labels[i])} → {plain_label(labels[j])}" for i, j in pairs]
    values = [int(errors[pair]) for pair in pairs]
    notes = [f"{errors[i, j]:,} of {counts[i].sum():,}" for i, j in pairs]

    def draw(axes: Any) -> None:
        axes.barh(range(len(values)), values, height=0.62, color=WRONG, alpha=0.75)
        for row, (value, note) in enumerate(zip(values, notes, strict=True)):
            axes.annotate(note, (value, row), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel="test points of the true class → predicted class",
                 xlim=(0, (max(values, default=0) or 1) * 1.2), ylim=(len(values) - 0.4, -0.6))
        _horizontal(axes)

    return _svg("pairs", f"The {len(pairs)} most confused pairs of {len(counts)} classes",
                (7.4, 0.8 + 0.27 * len(values)), draw)


def _plain_power(value: float, place: int | None = None) -> str:
    """Return the text of a tick of a logarithmic axis; matplotlib's own is TeX, which is not read here."""
    return f"{value:g}"


def _horizontal(axes: Any) -> None:
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _svg(name: str, title: str, inches: tuple[float, float], draw: Callable[[Any], None]) -> Html:
    """Return the figure that `draw` puts on axes; `name` makes its inner references its own within the page."""
    import matplotlib  # half a second, and only a finished run draws
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        # The fonts here measure the text; those of the browser draw it, and may have more letters.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | {"svg.hashsalt": name})
        figure = Figure(figsize=inches, layout="constrained", facecolor="none")
        draw(figure.add_subplot())
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = stream.getvalue()
    text = text[text.index("<svg"):].strip()
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # patch_1 and the like, equal in every figure
    described = plain_label(title, 200).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return Html(text.replace("<svg ", f'<svg role="img" aria-label="{described}" ', 1))
