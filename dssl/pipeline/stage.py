"""What a stage of a pipeline and a kind of model are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..base.errors import DsslError, SpecError, explain
from ..execution.cost import Cost
from ..methods.plan_inputs import PlanInputs
from ..methods.sections import KernelSections
from ..methods.step import Context, Method, Step
from ..methods.tags import OF_TAGS, is_of_tags, made_of_tags
from ..report.page import Section, SectionOf
from ..report.record import Attributes, Baseline, ReportText, RunRecord
from ..report.sections.answer import answer_section
from .spec import KindSpec, Spec


@dataclass(frozen=True)
class Stage:
    """All that anyone asks of a stage.

    version : raised when its output changes. needs : the stages whose artifacts it reads.
    params : makes its frozen dataclass of the spec: what its address digests, and all that `make` gets of the spec.
    make : writes its parts, and returns JSON attributes.
    cost : what it takes, of the inputs of a plan and the spec; None where that is next to nothing.
    hint : what to lower where it cannot fit.
    files : names of files from outside (`find_files`) that it reads where the spec has them.
    intermediate : whether later stages alone read its arrays, so that `dssl gc --intermediate` removes them once a run
        is done: predictions, suggestions and reports do not need them.
    section : what the report says of it. leads : whether that stands before the sections of earlier stages.
    grows : whether it goes on from the artifact of the last run where a spec asks for that (`data.grows`).
    refuses : why a run would refuse the stage by what is known so far, None where it would not.
    notes : what a user should know at once of what it found, from its attributes, a line each.
    """

    name: str
    version: int
    needs: tuple[str, ...]
    params: Callable[[Any], Any]
    make: Callable[[Context, Any], Attributes]
    cost: Callable[[PlanInputs, Any], Cost] | None = None
    hint: str = "use fewer points"
    files: tuple[str, ...] = ()
    intermediate: bool = False
    section: SectionOf | None = None
    leads: bool = False
    notes: Callable[[Attributes], list[str]] | None = None
    refuses: Callable[[PlanInputs, Any], DsslError | None] | None = None
    grows: bool = False

    def needs_and(self, others: Sequence[str]) -> tuple[str, ...]:
        """Return the stages whose artifacts it reads, and the others, each once."""
        return tuple(dict.fromkeys((*self.needs, *others)))


def stages_of(method: Method, spec: type[Spec]) -> tuple[Stage, ...]:
    """Return the steps of a method as stages; spec : the pipeline files that its sections make."""
    follow = {"labels"}  # what follows from the labels, and is made for each tag where a point has several
    for step in method.steps:
        follow |= {step.name} if follow & {*step.needs} else set()
    return tuple(_stage_of(step, spec, of_labels=step.name in follow) for step in method.steps)


def _stage_of(step: Step, kind_of_spec: type[Spec], *, of_labels: bool) -> Stage:
    def params_of(spec: Spec) -> Any:
        return step.params(spec.params)

    params_of.__annotations__["spec"] = kind_of_spec

    def cost_of(inputs: PlanInputs, spec: Spec) -> Cost:
        if not of_labels:
            return step.cost(inputs.each_tag()[0], spec.params)
        return inputs.cost_of_tags(lambda of_tag: step.cost(of_tag, spec.params))

    def make(context: Context, params: object) -> Attributes:
        return made_of_tags(step.make, context, params) if is_of_tags(context) else step.make(context, params)

    def section(run: RunRecord) -> Section | None:
        return step.section(run) if step.section and OF_TAGS not in run.stage(step.name) else None

    def refused(inputs: PlanInputs, spec: Spec) -> DsslError | None:
        return None if step.refuses is None else step.refuses(inputs.each_tag()[0], spec.params)

    return Stage(step.name, step.version, step.needs, params_of, make, cost_of, step.hint, refuses=refused,
                 intermediate=step.intermediate, section=section if step.section else None, leads=step.leads,
                 grows=step.grows)


PLAIN = ReportText(model="The model of this run.", changed="model that merely changed", cause="changed model",
                   graph="model", norm="model")


STAGED = ("labels", "graph", "selection", "predictions")  # sections that a stage of the same name reads


@dataclass(frozen=True)
class Kind(KindSpec):
    """A kind of model: the spec it reads, the stages it walks, and what it can be asked for.

    stages : in the order in which they run; a run ends with the last.
    model : the stage whose artifact holds the fitted models, None where there are none.
    report_text : how the report tells of it. baselines : what its models may be compared with.
    answer : the section that its report begins with. takes_tags : whether it learns several labels a point.
    """

    stages: tuple[Stage, ...]
    model: str | None = "models"
    report_text: ReportText = PLAIN
    baselines: tuple[Baseline, ...] = ()
    answer: Callable[[RunRecord, ReportText, Sequence[Baseline]], Section] = answer_section
    takes_tags: bool = False

    @classmethod
    def of(cls, spec: KindSpec, stages: tuple[Stage, ...], **others: Any) -> "Kind":
        """Return the kind of such specs; others : its other fields."""
        return cls(spec.name, spec.spec, spec.tasks, stages, **others)

    def mistakes(self, spec: Spec) -> Iterator[tuple[str, DsslError]]:
        defaults = {item.name: item.default for item in fields(spec)}
        unread = [name for name in STAGED if name in defaults and name not in self.names
                  and getattr(spec, name) not in (None, defaults[name])]
        for name in unread:
            yield name, SpecError(explain(f"{name}: model.kind is {self.name}, which has no stage of that name",
                                          why="no stage would read it", fix="leave it out"))
        if spec.data.tags is not None and not self.takes_tags:
            yield "data.tags", SpecError(explain(f"data.tags, and model.kind is {self.name}",
                                                 why="that kind learns one label a point",
                                                 fix="name one column in data.read.target"))
        known = [baseline.name for baseline in self.baselines]
        unknown = [name for name in spec.baselines if name not in known] if isinstance(spec, KernelSections) else []
        if unknown:
            yield "baselines", SpecError(explain(
                f"baselines: {', '.join(unknown)}, and model.kind is {self.name}",
                why=f"that kind has {'the baselines ' + ', '.join(known) if known else 'no baselines'}",
                fix="name only these" if known else "leave baselines out"))

    @property
    def names(self) -> list[str]:
        """Return the names of the stages in the order in which they run."""
        return [stage.name for stage in self.stages]

    def dependents(self, name: str) -> set[str]:
        """Return a stage and all that depend on it."""
        names = {name}
        for stage in self.stages:
            if names & set(stage.needs):
                names.add(stage.name)
        return names
