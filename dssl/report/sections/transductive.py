"""A transductive machine: its landmarks, and how many unlabeled points of each class it was to find, and found."""

from typing import Any

from ..page import Section
from ..rendering import rendered
from ..text import at, number, percent


def transductive_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return what the fit says of itself."""
    evidence, landmarks = at(facts, "models", "evidence") or {}, facts.get("landmarks") or {}
    if not evidence:
        return None
    rows = [("landmarks", f"{number(landmarks.get('n_landmarks'))}, {landmarks.get('method')}; rank "
                          f"{number(evidence.get('rank'))}"),
            ("Newton steps of each column", ", ".join(map(number, evidence.get("steps") or []))),
            ("unlabeled points on the positive side, asked for", ", ".join(map(percent, evidence.get("share") or []))),
            ("the same, reached", ", ".join(map(percent, evidence.get("reached_share") or [])))]
    return Section("solver", "Transductive machine", rendered("transductive.html", rows=rows))
