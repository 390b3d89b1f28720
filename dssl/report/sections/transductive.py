"""The transductive SVM: its landmarks, and the requested and achieved class balance of the unlabeled points."""


from ..page import Section
from ..record import RunRecord
from ..rendering import rendered
from ..text import number, percent


def transductive_section(run: RunRecord) -> Section | None:
    """Return what the fit says of itself."""
    evidence, landmarks = run.at("models", "evidence") or {}, run.stage("landmarks")
    if not evidence:
        return None
    rows = [("landmarks", f"{number(landmarks.get('n_landmarks'))}, {landmarks.get('method')}; rank "
                          f"{number(evidence.get('rank'))}"),
            ("Newton steps of each column", ", ".join(map(number, evidence.get("steps") or []))),
            ("requested share of unlabeled points on the positive side",
             ", ".join(map(percent, evidence.get("share") or []))),
            ("achieved share", ", ".join(map(percent, evidence.get("reached_share") or [])))]
    return Section("solver", "Transductive SVM", rendered("transductive.html", rows=rows))
