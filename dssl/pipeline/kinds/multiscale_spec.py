"""The pipeline file of the kind `multiscale`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ...errors import DsslError, SpecError, explain
from ..spec import KernelSpec, LabelSpec, Spec
from ..spec_section import SpecSection
from ..spec_selection import SelectionSpec
from .class_spec import ClassModelSpec

if TYPE_CHECKING:
    from ...kernels.multiscale import MultiscaleParams
    from ...learners.virtual_samples import SampleLearner

Loss = Literal["squared", "hinge", "squared_hinge", "logistic"]


class MultiscaleModelSpec(ClassModelSpec):
    """A machine in the kernel of eigenfunctions of graph Laplacians of many scales."""

    kind: Literal["multiscale"]
    eps_0: float | Literal["auto"] = Field("auto", description="the first scale, in squared units of the scaled "
                                           "features; auto is half the squared median distance")
    q: float = Field(0.9, description="of the scales, one to the next")
    threshold: float = Field(1e-6, description="of the second eigenvalue, below which there are "
                                                                     "no further scales")
    eigenpairs: int | Literal["auto"] = Field("auto", description="of the kernel, beside the constant; auto is an "
                                                                  "eighth of the carriers, or 100, or all of fewer")
    carriers: int | Literal["auto"] = Field("auto", description="points whose graph Laplacians are decomposed; auto is "
                                            "what the memory budget lets be, 2,000 at most")
    unit_diagonal: bool = Field(True, description="whether the kernel is scaled to it; false is the paper's")
    C: float = Field(100.0, description="1 / alpha, for a kernel whose diagonal, or its median, is 1")
    loss: Loss = Field("squared", description="of regression, squared")
    seed: int = Field(0, ge=0)


class MultiscaleGrid(SpecSection):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them."""

    C: list[float] | None = Field(default=None, min_length=1)
    loss: list[Loss] | None = Field(default=None, min_length=1)


class MultiscaleSelection(SelectionSpec):
    """Parameters chosen by cross-validation; points that are held out stay among the carriers."""

    grid: MultiscaleGrid = MultiscaleGrid()  # type: ignore[assignment]
    search: Literal["grid"] = "grid"
    held_out_points: Literal["transductive"] = "transductive"
    ways = ("auto",)


class MultiscalePipeline(Spec):
    """A pipeline of a machine in a multi-scale kernel, and the same machine in the base kernel."""

    labels: LabelSpec
    kernel: KernelSpec = KernelSpec()
    model: MultiscaleModelSpec
    selection: MultiscaleSelection | None = None
    baselines: tuple[Literal["base"]] = ("base",)

    def multiscale(self) -> MultiscaleParams:
        """Return how the kernel is made."""
        from ...kernels.multiscale import MultiscaleParams

        own = self.model
        return MultiscaleParams(eps_0=own.eps_0, q=own.q, threshold=own.threshold, n_eigenpairs=own.eigenpairs,
                                n_carriers=own.carriers, unit_diagonal=own.unit_diagonal, seed=own.seed,
                                budget=self.budget)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the base kernel."""
        return (self.kernel,)

    def learners(self) -> tuple[SampleLearner, ...]:
        """Return the machines that are tried."""
        from ...learners.virtual_samples import SampleLearner

        given = self.selection.grid.C if self.selection else None
        return tuple(SampleLearner(loss=loss, C=C) for loss, C in product(self._losses(), given or [self.model.C]))

    def _losses(self) -> list[Loss]:
        given = self.selection.grid.loss if self.selection else None
        return given or [self.model.loss]

    def _task_mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super()._task_mistakes()
        losses = self._losses()
        if self.data.task == "regression" and set(losses) != {"squared"}:
            yield "model.loss", SpecError(explain(f"loss {', '.join(losses)}, and data.task is regression",
                                                  why="quantities have no classes to tell apart", fix="use squared"))

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "kernel.name", self.kernel.require_known
        yield "kernel", self.kernel.check
        yield "model", self.multiscale
        yield "model", self.learners
        if self.selection is not None:
            yield "selection", self.selection.cv
            yield "selection", partial(self.selection.require_scoring, self.data.task)
