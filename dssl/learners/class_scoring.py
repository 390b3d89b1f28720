"""The metrics of classes that decisions can be best for, by their names in scikit-learn; nothing heavy is loaded."""

from typing import Literal

from ..base.errors import require

ClassScoring = Literal["accuracy", "balanced_accuracy", "f1", "f1_macro", "roc_auc", "neg_log_loss"]
# What the loss of each is called.
LOSSES: dict[str, str] = {
    "accuracy": "error", "balanced_accuracy": "balanced error", "f1": "1 - F1", "f1_macro": "1 - macro F1",
    "roc_auc": "1 - AUC", "neg_log_loss": "log loss"}
SEARCHED = ("f1", "f1_macro")  # whose decisions follow from held-out labels
DECIDED = ("balanced_accuracy", *SEARCHED)  # where another class than the most probable one may be predicted


def require_decisions(scoring: str | None, *, sized: bool) -> None:
    """Raise ParameterError unless decisions can be best for a scoring; sized : whether class sizes are known."""
    require(scoring is None or scoring in LOSSES, f"scoring={scoring!r}",
            why="it says for which metric the predicted class is best", fix=f"use one of {', '.join(LOSSES)}")
    require(not sized or scoring not in DECIDED, f"scoring={scoring!r} and class_sizes",
            why="so many points of each class are predicted as the sizes say, which leaves nothing to decide",
            fix="leave class_sizes out and say by class_prior how frequent the classes are, or leave scoring out")
