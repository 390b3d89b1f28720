"""How features are scaled: the parameters, without what scales."""

from dataclasses import dataclass
from typing import Literal, get_args

from ...base.errors import require

ScalingKind = Literal["auto", "standardize", "unit_range", "max_abs", "unit_norm", "global_range", "none"]
KINDS: tuple[ScalingKind, ...] = get_args(ScalingKind)


@dataclass(frozen=True, kw_only=True)
class ScalingParams:
    """How features are scaled.

    kind : "auto", by the columns' ranges (see `scaling.py`); "standardize", mean 0 and standard deviation 1 a
        column; "unit_range", [0, 1] a column; "max_abs", largest absolute value 1 a column; "unit_norm", length 1 a
        row; "global_range", one factor for all columns, as in pixels / 255; "none". "standardize" and "unit_range" move
        zeros, so they are not for sparse rows.
    """

    kind: ScalingKind = "auto"

    def __post_init__(self) -> None:
        require(self.kind in KINDS, f"scale={self.kind!r}", why="dssl knows no scaling of that name",
                fix=f"use one of {', '.join(KINDS)}")
