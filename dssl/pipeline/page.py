"""The report of a run: the sections of its page in their order, and the words for its kind of model."""

from pathlib import Path
from typing import Any

from ..report.markup import at
from ..report.page import write_report
from ..report.sections.answer import answer
from ..report.sections.data import data
from ..report.sections.graph import graph
from ..report.sections.laprls import laprls_solves
from ..report.sections.scores import scores
from ..report.sections.selection import selection
from ..report.sections.solver import solver
from ..report.sections.spec import spec
from ..report.sections.stages import stages
from ..report.words import Baseline, Words

BASE = Baseline(
    "base", "The same learner and labels in the plain kernel, without the graph: unlabeled points enter at most the "
            "scaling, the bandwidth and the landmarks. What the model gains over it is what the graph may have "
            "brought.")
DEFORMED = Words(
    model="The learner in the kernel that the graph of all points has reshaped.", changed="kernel that merely changed",
    cause="changed kernel", graph="model.eta", norm="model.C",
    folds="Points of a fold are held out of the subsample too.")
DEFORMED_BASELINES: tuple[Baseline, ...] = (BASE, Baseline(
    "shuffled", "The control: the model with the vertices of its graph permuted, so the kernel changes as much but "
                "from a graph that knows nothing about the points. A real gain must also beat this one."), Baseline(
    "budget", "The model with a graph of the subsample alone, which costs almost nothing. What the model "
                       "gains over it is what the many other unlabeled points brought."))
LAPRLS = Words(
    model="Least squares on the labels, with penalties on the norm and on how much the function varies along the "
          "graph.", changed="penalty that merely smooths", cause="added penalty", graph="model.gamma_I",
    norm="model.gamma_A", penalties=("gamma_A", "gamma_I"))
LAPRLS_BASELINES = (BASE, Baseline(
    "shuffled", "The control: the model with the mean of the graph's energy over all relabelings of its points, a "
                "penalty as strong that knows nothing about where they lie. A real gain must also beat this one."))


def write_page(path: Path, result: dict[str, Any], facts: dict[str, Any]) -> Path:
    """Write the page of a run and return its path.

    result : what `run` returns. facts : the attributes of every stage by its name, `spec` (the checked pipeline file)
    and `libraries` (versions by name).
    """
    words, baselines, solves = DEFORMED, DEFORMED_BASELINES, solver
    if facts["spec"]["model"]["kind"] == "laprls":
        words, baselines, solves = LAPRLS, LAPRLS_BASELINES, laprls_solves
    if "selection" not in facts:
        facts = {"selection": facts.get("models"), **facts}
    elif at(facts, "split", "task") == "regression":
        facts = facts | {"selection": _of_quantities(facts["selection"])}
    return write_report(path, result["name"], result["run"], (
        answer(facts, result, words, baselines), scores(facts, result), selection(facts, result, words),
        data(facts, result), graph(facts, result), solves(facts, result), stages(facts, result), spec(facts, result)))


def _of_quantities(found: dict[str, Any]) -> dict[str, Any]:
    """Return a selection whose rows name the scores of quantities by what they are."""
    names = {"error": "rmse", "loss": "mae"}

    def renamed(row: dict[str, Any]) -> dict[str, Any]:
        return {names.get(key, key): value for key, value in row.items()}

    return {**found, "choices": {name: renamed(row) for name, row in found["choices"].items()},
            "grid": {name: [renamed(row) for row in rows] for name, rows in found.get("grid", {}).items()}}
