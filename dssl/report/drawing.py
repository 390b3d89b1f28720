"""A drawing as inline SVG: the door to matplotlib.

Its colors are those of the page, light or dark, and it is narrow enough to be read on a telephone. It is made without
pyplot, so no window system and no global figure list is touched, and with matplotlib's own defaults, so the reader's
settings do not change it. Text stays text: the browser draws it, and it can be searched.
"""

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from .colors import LIGHT, by_name
from .text import plain_label

WIDE = 5.8  # inches: at 390 pixels text is 9 pixels high
INK, MUTED, PAPER, ON = LIGHT["ink"], LIGHT["muted"], LIGHT["paper"], LIGHT["on"]
MODEL, BASELINE, WRONG, EDGE = LIGHT["model"], LIGHT["base"], LIGHT["wrong"], LIGHT["edge"]
STYLE: Any = {
    "svg.fonttype": "none", "text.parse_math": False, "font.family": ["DejaVu Sans", "sans-serif"], "font.size": 10.5,
    "text.color": INK, "axes.labelcolor": INK, "axes.facecolor": "none", "axes.edgecolor": LIGHT["frame"],
    "xtick.color": MUTED, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.axisbelow": True, "grid.color": LIGHT["rule"],
}


def horizontal(axes: Any) -> None:
    """Draw the grid behind horizontal bars."""
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def svg(name: str, title: str, inches: tuple[float, float], draw: Callable[[Any], None]) -> Markup:
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
