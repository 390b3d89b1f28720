"""The transductive SVM: its landmarks, and the requested and achieved class balance of the unlabeled points."""

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
            ("requested share of unlabeled points on the positive side",
             ", ".join(map(percent, evidence.get("share") or []))),
            ("achieved share", ", ".join(map(percent, evidence.get("reached_share") or [])))]
    return Section("solver", "Transductive SVM", rendered("transductive.html", rows=rows))
