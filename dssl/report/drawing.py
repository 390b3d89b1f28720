"""A drawing as inline SVG, and the colors of a page and of its figures: the door to matplotlib.

The colors have names: CSS variables, with one value on light and one on dark paper. A figure is drawn in the light
colors; `by_name` makes each of them the variable, so that the page decides. A drawing is narrow enough to be read on a
telephone. It is made without pyplot, so no window system and no global figure list is touched, and with matplotlib's
own defaults, so the reader's settings do not change it. Text stays text: the browser draws it, and it can be searched.

References
----------
Okabe, Ito, "Color universal design", 2008: the eight colors of classes, which the color blind tell apart.
"""

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from .text import plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LIGHT = {
    "paper": "#ffffff", "ink": "#1f2933", "muted": "#5b6773", "rule": "#e2e7ec", "frame": "#c3cad2", "link": "#1a5fa8",
    "model": "#1c64b0", "base": "#7b8794", "wrong": "#c2571a", "on": "#fefefe", "good": "#2c8a4b",
    "good-ink": "#1d6b37", "good-paper": "#eaf6ee", "note-paper": "#f1f4f7", "warning-ink": "#874600",
    "warning-paper": "#fff2e0", "edge": "#aab4be",
    "class0": "#0072b2", "class1": "#e69f00", "class2": "#009e73", "class3": "#d55e00", "class4": "#cc79a7",
    "class5": "#56b4e9", "class6": "#a89a00", "class7": "#4d4d4d",
}
DARK = {
    "paper": "#12161b", "ink": "#e3e8ed", "muted": "#a3aeb9", "rule": "#2a323a", "frame": "#48545f", "link": "#7db8f5",
    "model": "#62aaf2", "base": "#8f9ba7", "wrong": "#f2934d", "on": "#0c1014", "good": "#4caf6e",
    "good-ink": "#8fdca8", "good-paper": "#16281c", "note-paper": "#1c232a", "warning-ink": "#ffc27a",
    "warning-paper": "#32240f", "edge": "#56626e",
    "class0": "#3f9bd8", "class1": "#e69f00", "class2": "#1fbf8f", "class3": "#f0782a", "class4": "#df9abf",
    "class5": "#9ad7ff", "class6": "#efe35a", "class7": "#c9ced3",
}
CLASSES = [name for name in LIGHT if name.startswith("class")]
NAMES = {color: name for name, color in LIGHT.items()}
WIDE = 5.8  # inches: at 390 pixels text is 9 pixels high
INK, MUTED, PAPER, ON = LIGHT["ink"], LIGHT["muted"], LIGHT["paper"], LIGHT["on"]
MODEL, BASELINE, WRONG, EDGE = LIGHT["model"], LIGHT["base"], LIGHT["wrong"], LIGHT["edge"]
STYLE: Any = {
    "svg.fonttype": "none", "text.parse_math": False, "font.family": ["DejaVu Sans", "sans-serif"], "font.size": 10.5,
    "text.color": INK, "axes.labelcolor": INK, "axes.facecolor": "none", "axes.edgecolor": LIGHT["frame"],
    "xtick.color": MUTED, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "grid.color": LIGHT["rule"],
}


def by_name(drawing: str) -> str:
    """Return a drawing whose colors of `LIGHT` are the variables of the page; any other stays as it is."""
    return re.sub("#[0-9a-f]{6}", lambda match: f"var(--{NAMES[match[0]]})" if match[0] in NAMES else match[0], drawing)


def horizontal(axes: "Axes") -> None:
    """Draw the grid behind horizontal bars."""
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def svg(name: str, title: str, inches: tuple[float, float], draw: Callable[["Axes"], None]) -> Markup:
    """Return the figure that `draw` puts on axes; `name` makes its inner references its own within the page."""
    import matplotlib  # half a second, and only a finished run draws
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        # The fonts here measure the text; those of the browser draw it, and may have more letters.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE | {"svg.hashsalt": name})
        figure: Any = Figure(figsize=inches, layout="constrained", facecolor="none")
        draw(figure.add_subplot())
        # Laid out here: to save a figure with a layout draws it twice, and lays it out each time.
        figure.get_layout_engine().execute(figure)
        figure.set_layout_engine(None)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = stream.getvalue()
    text = text[text.index("<svg"):].strip()
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # patch_1 and the like, equal in every figure
    # Places to a hundredth of a point: half the bytes of a picture of thousands of lines.
    text = re.sub(r'(?<= d=")[^"]*|(?<= [xy]=")[^"]*', lambda match: re.sub(r"(\.\d\d)\d+", r"\1", match[0]), text)
    described = plain_label(title, 200).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return Markup(by_name(text).replace("<svg ", f'<svg role="img" aria-label="{described}" ', 1))
