"""Runs that grow: with `data.grows` a run goes on from the last one of its spec, and reads only files that are new.

    latest/DIGEST.json    of the workspace: the last finished run of the spec with this digest, the files that it read,
                          the artifacts of its stages, and how many rows it had when all of them were last read anew

A stage that grows has the artifact of that run as the input `base`, so that its address tells how it came about. All
rows are read anew where files have changed or vanished, where what the new rows are like does not fit what is known of
the old ones, and where more than `MAX_GROWN` of the rows were added since they were last read anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..base.digest import digest
from ..base.errors import DsslError
from ..data.source_files import FileChanges, FileRecord, Source, in_words, joined
from ..storage.artifacts import Workspace
from ..storage.files import read_record, write_json
from ..storage.manifests import PUBLISHED
from .plan.preflight import PlannedStage
from .spec import Spec

LATEST = "latest"
MAX_GROWN = 0.2  # of the rows that were read anew, so many may be added before all are read anew again


class CannotGrow(DsslError):
    """What a stage finds of the new rows does not fit what is known of the old ones: all rows are read anew."""


@dataclass(frozen=True)
class LastRun:
    """The last finished run of a spec.

    run : its name. files : those that it read, in their order. graphs : the values of each graph that was tried, and
    the addresses of its artifacts by stage. fresh_run, fresh_rows : the last run that read all rows, and how many.
    """

    run: str
    files: tuple[FileRecord, ...]
    graphs: tuple[tuple[dict[str, Any], dict[str, str]], ...]
    fresh_run: str
    fresh_rows: int

    @classmethod
    def of(cls, workspace: Workspace, spec: Spec) -> Self | None:
        """Return what the workspace has of a spec, None without a finished run; raise IntegrityError if damaged."""
        path = _record_of(workspace, spec)
        if not path.is_file():
            return None
        record = read_record(path, {"run": str, "files": list, "graphs": list, "fresh_run": str, "fresh_rows": int},
                            fix=f"delete {path}: the next run then reads all rows anew")
        return cls(record["run"], tuple(FileRecord(**file) for file in record["files"]),
                   tuple((graph["values"], graph["stages"]) for graph in record["graphs"]), record["fresh_run"],
                   record["fresh_rows"])

    def write(self, workspace: Workspace, spec: Spec) -> None:
        """Make this the last run of a spec."""
        write_json(_record_of(workspace, spec), {
            "run": self.run, "files": [file.to_dict() for file in self.files], "fresh_run": self.fresh_run,
            "graphs": [{"values": values, "stages": stages} for values, stages in self.graphs],
            "fresh_rows": self.fresh_rows})

    def stages(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the addresses of the artifacts of the graph of these values."""
        return next((stages for known, stages in self.graphs if known == values), {})

    @property
    def n_rows(self) -> int:
        return sum(file.rows for file in self.files)


def _record_of(workspace: Workspace, spec: Spec) -> Path:
    return workspace.root / LATEST / f"{digest({'spec': spec.to_dict(mode='json')})[:24]}.json"


def last_runs(workspace: Workspace) -> set[str]:
    """Return the names of the runs that the next ones of their specs would go on from."""
    paths = (workspace.root / LATEST).glob("*.json")
    return {read_record(path, {"run": str}, fix=f"delete {path}")["run"] for path in paths}


@dataclass(frozen=True)
class Growth:
    """How the source of a run lies to that of the last one.

    current : the source, its files in natural order. last : None where there is none, or it is not asked for.
    changes : how the files differ from those of the last run. why_fresh : why all rows are read anew, if they are.
    """

    current: Source
    last: LastRun | None = None
    changes: FileChanges | None = None
    why_fresh: str = ""

    @classmethod
    def of(cls, last: LastRun | None, source: Source) -> Self:
        """Compare the files of a source, which know their digests, with those of the last run."""
        if last is None:
            return cls(source)
        changes = FileChanges.of(last.files, source.files)
        changed, gone = [record for record, _ in changes.changed], changes.vanished
        reasons = [f"{in_words(files)} {verb}" for files, verb in ((changed, "changed"), (gone, "vanished")) if files]
        why = f"{' and '.join(reasons)} since run {last.run}" if reasons else ""
        return cls(source, last, changes, why)

    @property
    def new(self) -> list[Source]:
        """Return the files that the last run did not read, in natural order."""
        return [] if self.changes is None else [self.current.files[place] for place in self.changes.new]

    @property
    def added(self) -> Source:
        """Return the new files as one source; there is at least one."""
        return joined(self.new, in_words(self.new))

    @property
    def goes_on(self) -> bool:
        """Return whether the artifacts of the last run serve, with new rows or as they are."""
        return self.last is not None and not self.why_fresh

    @property
    def grows(self) -> bool:
        """Return whether rows are added to those of the last run."""
        return self.goes_on and bool(self.new)

    @property
    def source(self) -> Source:
        """Return the files in the order of their rows: those of the last run in its order, then the new ones."""
        if not self.goes_on or self.changes is None:
            return self.current
        places = sorted(self.changes.record_of, key=lambda place: self.changes.record_of[place] if self.changes else 0)
        return joined([*(self.current.files[place] for place in places), *self.new], self.current.name)

    def bases(self, workspace: Workspace, values: Mapping[str, Any]) -> dict[str, str]:
        """Return by stage the address that its artifact grows from, of the graph of these values.

        Where there are no new files, that is what the artifacts of the last run grew from, if from any.
        """
        if not self.goes_on or self.last is None:
            return {}
        stages = self.last.stages(values)
        if self.new:
            return stages
        known = {name: workspace.artifact_in(name, address) for name, address in stages.items()}
        return {name: artifact.inputs["base"] for name, artifact in known.items() if "base" in artifact.inputs}

    def too_much(self, n_rows: int) -> str:
        """Return why rows are not added until there are so many; empty if they are."""
        if not self.grows or self.last is None or n_rows <= (1 + MAX_GROWN) * self.last.fresh_rows:
            return ""
        return (f"{n_rows - self.last.fresh_rows:,} rows were added since run {self.last.fresh_run} read "
                f"{self.last.fresh_rows:,}, more than {MAX_GROWN:.0%}")

    def out_of_order(self) -> list[Source]:
        """Return the new files that come before old ones in natural order, whose rows come after theirs."""
        if not self.grows or self.changes is None:
            return []
        last = max(self.changes.record_of)
        return [self.current.files[place] for place in self.changes.new if place < last]

    def notes(self, n_rows: int | None) -> list[str]:
        """Return the notes for the user, a line each. n_rows : of the whole source, where that is known."""
        if self.last is None:
            return []
        if self.why_fresh:
            return [f"all rows are read anew: {self.why_fresh}"]
        if not self.new:
            return [f"no file is new since run {self.last.run}"]
        count = "" if n_rows is None else f" with {n_rows - self.last.n_rows:,} rows"
        notes = [f"{len(self.new)} new file{'s' * (len(self.new) > 1)}{count} ({in_words(self.new)}) beside the "
                 f"{self.last.n_rows:,} rows of run {self.last.run}, which are not read again"]
        if early := self.out_of_order():
            notes.append(f"the rows of {in_words(early)} are numbered after those that were there, though its name "
                         "comes before; --fresh numbers all rows in the order of the names")
        return notes


def why_unusable(workspace: Workspace, item: PlannedStage, grows: bool) -> str:
    """Return why a stage that is to run cannot grow from its base; empty if it can, or does not.

    grows : whether rows are added; else the last run's own artifact is missing.
    """
    if not item.base or item.status == "cached":
        return ""
    needed = [(item.stage.name, item.base if grows else item.artifact.address)]
    while needed:
        name, address = needed.pop()
        folder = workspace.folder_of(name, address)
        if not (folder / PUBLISHED).is_file():
            day = workspace.removed().get(f"{name}/{folder.name}")
            return f"what the last run made of the stage {name} was removed{f' by dssl gc on {day}' if day else ''}"
        if name == item.stage.name:
            base = workspace.artifact_in(name, address)
            if base.version != item.stage.version:
                return f"another version of dssl made the stage {name} of the last run"
            # Not of its files, which may have the name of a stage.
            needed = [(other, base.inputs[other]) for other in item.stage.needs if other in base.inputs]
    return ""
