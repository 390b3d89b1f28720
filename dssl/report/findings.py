"""One thing that was looked at in a run, and how a section shows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .markup import Html, tag

Level = Literal["good", "note", "warning"]
WORDS: dict[Level, str] = {"good": "fine", "note": "note", "warning": "look here"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: its figures, whether it is fine, and what that means."""

    subject: str
    figures: str
    level: Level
    meaning: str


def state(level: Level) -> Html:
    """Return a level as a colored word."""
    return tag("span", WORDS[level], class_=f"state {level}")


def warning_box(found: Sequence[Finding], explained: bool = True) -> Html:
    """Return a box of the findings that ask for attention; nothing where there are none."""
    if not found:
        return Html("")
    return tag("div", *(tag("p", tag("b", f"{item.subject}: "), item.figures,
                            f". {item.meaning}" if explained else "") for item in found), class_="box warning")
