"""The report of a run: the answer, then the sections that its stages tell."""

from pathlib import Path
from typing import Any

from ..report.page import write_report
from ..report.sections.answer import answer_section
from ..report.sections.spec import spec_section
from ..report.sections.stages import stages_section
from .stage import Kind


def write_page(path: Path, kind: Kind, result: dict[str, Any], facts: dict[str, Any]) -> Path:
    """Write the page of a run and return its path: results before how they came about.

    result : what `run` returns. facts : the attributes of every stage by its name, `spec` (the checked pipeline file)
    and `libraries` (versions by name).
    """
    first = [stage.section for stage in reversed(kind.stages) if stage.section and stage.leads]
    rest = [stage.section for stage in kind.stages if stage.section and not stage.leads]
    return write_report(path, result["name"], result["run"], (
        answer_section(facts, result, kind.words, kind.baselines),
        *(section(facts, result) for section in (*first, *rest, stages_section, spec_section))))
