"""Which row of a search is chosen, and the rows as scikit-learn has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .held_out_scores import SCORED, HeldOut

MEASURES = ("error", "rmse", "loss", "mae")  # of every row, those that there are in this order
OF_FOLDS = ("fold_errors", "fold_deviation")  # of a row, one or the other
# The smaller this times a parameter, the stronger is its penalty.
STRENGTHS = {"gamma_A": -1, "gamma_I": -1, "C": 1, "penalty": -1}


@dataclass(frozen=True, kw_only=True)
class ChoiceRule:
    """What is chosen: the row of best score, then of lowest error or rmse, of the next in `MEASURES`, the first.

    scoring : by its name in scikit-learn, see `SCORED`; None for the error or rmse. one_standard_error : instead, of
    the rows within one standard error (over points) of the best, the one of largest gamma_A, then gamma_I, or least C,
    or largest penalty.
    """

    scoring: str | None = None
    one_standard_error: bool = False

    def told(self, held: Sequence[HeldOut]) -> dict[str, float]:
        """Return what the rule asks of a row's values, in each repetition, beside its measures."""
        return {}

    def choose(self, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the row that is chosen."""
        return rows[self.place(rows)]

    def place(self, rows: Sequence[Mapping[str, Any]]) -> int:
        """Return the place of the row that is chosen."""
        order = [self.order(row) for row in rows]
        lowest = min(range(len(rows)), key=order.__getitem__)
        if not self.one_standard_error:
            return lowest
        name = next(name for name in MEASURES if name in rows[lowest]) if self.scoring is None else SCORED[
            self.scoring][0]
        limit = order[lowest][0] + (rows[lowest][f"{name}_se"] or 0.0)
        return min((place for place in range(len(rows)) if order[place][0] <= limit),
                   key=lambda place: _weakness(rows[place]) + order[place])

    def candidates(self, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the places of those that may be chosen among these and any others: lower than all stronger ones."""
        if not self.one_standard_error:
            return [self.place(rows)]
        order = [self.order(row) for row in rows]
        places: list[int] = []
        for place in sorted(range(len(rows)), key=lambda place: _weakness(rows[place]) + order[place]):
            if not places or order[place][0] < order[places[-1]][0]:
                places.append(place)
        return places

    def order(self, row: Mapping[str, Any]) -> tuple[float, ...]:
        """Return by what rows are told apart, the lowest first, whatever is within one standard error."""
        measures = _measures(row)
        if self.scoring is None:
            return measures
        name, highest = SCORED[self.scoring]
        value = row[name]
        return (np.inf if value is None else -value if highest else value), *measures


LOWEST = ChoiceRule()


def _weakness(row: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(sign * row[name] for name, sign in STRENGTHS.items() if name in row)


def _measures(row: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(row[name] for name in MEASURES if name in row)


def cv_results(rows: Sequence[Mapping[str, Any]], tried: Sequence[Mapping[str, Any]],
               rule: ChoiceRule = LOWEST, rungs: Sequence[tuple[int, int]] | None = None) -> dict[str, Any]:
    """Return the rows of a search as scikit-learn has them in `cv_results_`: arrays with an entry a row.

    `params` and `param_<name>` of the parameters `tried` in each row, which are not in it: one may be named as a
    measure is, `loss`. `split<i>_test_score`, the accuracy in a fold, or of quantities minus the rmse, unless a point
    is a fold; `mean_test_score`, the same over the points of all folds, and `std_test_score` over folds;
    `rank_test_score`, 1 for the row of best measure, by the rule, and its equals; and by their own names the measures
    of rows, NaN where one is not defined, with `<measure>_se`, their standard errors over points, and
    `<measure>_se_repetitions`, and the penalties that rows tell.

    rungs : of successive halving, (`iter`, `n_resources`) of each row, its rung and the number of folds that it was
    judged on; splits are numbered within a rung, those beyond are NaN, and any row of a later rung is better.
    """
    if not rows:
        return {}
    best, of_rung = (1.0 if "error" in rows[0] else 0.0), rungs or [(0, 0)] * len(rows)
    order = [(-rung, *rule.order(row)) for (rung, _), row in zip(of_rung, rows, strict=True)]
    folds = np.full((len(rows), max(len(row.get("fold_errors", ())) for row in rows)), np.nan)
    for of_folds, row in zip(folds, rows, strict=True):
        of_folds[:len(row.get("fold_errors", ()))] = best - np.array(row.get("fold_errors", ()))
    return {
        **({} if rungs is None else dict(zip(("iter", "n_resources"), np.array(rungs).T, strict=True))),
        "params": [dict(values) for values in tried],
        **{f"param_{name}": _masked([values.get(name) for values in tried], [name not in values for values in tried])
           for name in dict.fromkeys(name for values in tried for name in values)},
        **{f"split{fold}_test_score": folds[:, fold] for fold in range(folds.shape[1])},
        "mean_test_score": best - np.array([_measures(row)[0] for row in rows]),
        "std_test_score": np.array([np.nanstd(of_folds) if "fold_errors" in row else row["fold_deviation"]
                                    for of_folds, row in zip(folds, rows, strict=True)]),
        "rank_test_score": np.array([1 + sum(other < each for other in order) for each in order], np.int32),
        **{name: np.array([row.get(name) for row in rows], float) for name in rows[-1] if name not in OF_FOLDS}}


def _masked(values: list[Any], mask: list[bool]) -> np.ma.MaskedArray:
    """Return a masked array of one dimension, of objects where values are no numbers or texts of one kind."""
    if all(isinstance(value, (int, float)) for value in values) or all(isinstance(value, str) for value in values):
        return np.ma.array(values)
    array = np.empty(len(values), object)
    array[:] = values
    return np.ma.array(array, mask=mask)
