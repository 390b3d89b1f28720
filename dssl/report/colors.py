"""The colors of a page and of its figures, by name: CSS variables, with one value on light and one on dark paper.

A figure is drawn in the light colors; `by_name` makes each of them the variable, so that the page decides.

References
----------
Okabe, Ito, "Color universal design", 2008: the eight colors of classes, which the color blind tell apart.
"""

import re

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


def by_name(svg: str) -> str:
    """Return a drawing whose colors of `LIGHT` are the variables of the page; any other stays as it is."""
    return re.sub("#[0-9a-f]{6}", lambda match: f"var(--{NAMES[match[0]]})" if match[0] in NAMES else match[0], svg)
