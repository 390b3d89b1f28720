"""The result of a run as a console and a notebook show it."""

from collections.abc import Mapping
from pathlib import Path

from ..base.units import size_text, time_text
from ..report.error_metric import score_rows
from ..report.page import rendered
from ..report.record import Attributes, Scores
from ..report.text import aligned
from .records import StageRun


class ShownResult:
    """What is shown of the attributes of a `RunResult`."""

    run: str
    name: str
    status: str
    until: str | None
    stages: tuple[StageRun, ...]
    metrics: Scores
    baselines: Mapping[str, Scores]
    gain: Attributes
    verdict: tuple[str, ...]
    notes: tuple[str, ...]
    report: Path | None
    predictions: Path | None

    @property
    def seconds(self) -> float:
        """The seconds of all stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def disk_bytes(self) -> int:
        """The bytes that its artifacts took when it ended, shared ones among them."""
        return sum(stage.disk_bytes for stage in self.stages)

    def score_rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the scores of the model and its baselines as texts.

        Without test points they are those of held-out labels.

        Returns
        -------
        head : tuple of str
            The head of a table.
        rows : list of tuple of str
            Its rows.
        """
        return score_rows(self.metrics, self.baselines, self.gain)

    def _summary(self) -> str:
        made = sum(stage.status == "done" for stage in self.stages)
        ended = "done" if self.status == "done" else f"stopped after {self.until}"
        return (f"{ended}: {len(self.stages)} stages, {made} of them made, in {time_text(self.seconds)}; "
                f"{size_text(self.disk_bytes)} on disk")

    def __repr__(self) -> str:
        head, rows = self.score_rows()
        report = [f"predictions of all rows: {self.predictions}"] if self.predictions else []
        report += [f"report: {self.report}"] if self.report else []
        return "\n  ".join([f"{type(self).__name__} {self.name} ({self.run}), {self._summary()}", *self.verdict[:1],
                            *(aligned([head, *rows]) if rows else ()), *self.notes, *report])

    def _repr_html_(self) -> str:
        head, rows = self.score_rows()
        folder, link = Path.cwd(), self.report
        if link is not None and link.is_relative_to(folder):  # notebooks serve the files beneath them
            link = link.relative_to(folder)
        stages = [(stage.name, stage.status, f"{stage.seconds:.2f}", size_text(stage.disk_bytes))
                  for stage in self.stages]
        return rendered("result.html", name=self.name, verdict=self.verdict[:1], notes=self.notes, head=head, rows=rows,
                        link=link, summary=self._summary(), stages=stages)
