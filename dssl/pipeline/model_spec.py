"""The sections of the spec that depend on the kind of model: `model` and `selection`, and which keys go with which."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from ..errors import SpecError, explain, require
from ..kernels.landmarks import LandmarkParams, Method
from ..learners.deformed import check_eta
from ..learners.laprls.problem import LapRLSParams
from ..learners.laprls.system import Preconditioner, Solver, SystemParams, require_penalties
from ..learners.ridge_and_svm import LearnerParams

LEARNER, LAPRLS = "svm or ridge", "laprls"  # tags of the union, which appear in pydantic's paths of errors


class Section(BaseModel):
    """A section of the spec; a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LearnerSpec(Section):
    """The learner in the deformed kernel; eta 0 is the base kernel."""

    kind: Literal["svm", "ridge"] = "svm"
    C: float = 10.0
    eta: float = Field(default=10.0, ge=0, allow_inf_nan=False)

    def params(self) -> LearnerParams:
        """Return the learner's parameters."""
        check_eta(self.eta)
        return LearnerParams(kind=self.kind, C=self.C)


class LandmarkSpec(Section):
    """The points that functions are sums over."""

    count: int | float | Literal["auto", "sqrt"] = Field(
        default="auto", description="a number; a share of the distinct training points; sqrt, ceil(m^1/2) of m labeled "
                                    "points and ceil((n - m)^1/2) of the others; auto, 1,000 or as many as sqrt if "
                                    "these are more")
    method: Method = Field(default="uniform", description="uniform, kmeans (centers) or leverage (by ridge leverage "
                                                          "scores)")
    seed: int = Field(default=0, ge=0)

    def params(self) -> LandmarkParams:
        """Return the landmarks' parameters."""
        return LandmarkParams(n_landmarks=self.count, method=self.method, seed=self.seed)


class LapRLSSpec(Section):
    """Laplacian regularized least squares on landmarks; the penalties weigh against the sum of squared residuals."""

    kind: Literal["laprls"]
    lambda_A: float = Field(0.01, description="of the norm, > 0")
    lambda_I: float = Field(0.1, description="of the graph's energy, >= 0; 0 is plain least squares")
    solver: Solver = Field("auto", description="nystrom-direct, nystrom-pcg and nystrom-cg use landmarks; direct, pcg "
                                               "and cg all points")
    preconditioner: Preconditioner = "edges"
    whitening: float | Literal["auto"] | None = Field(
        "auto", description="eigenvalues of the landmarks' kernel below this share of the largest are dropped; null "
                            "drops none")
    precision: Literal["float64", "float32"] = "float64"
    tolerance: float = 1e-6
    max_iterations: int = 500
    fit_intercept: bool = True
    landmarks: LandmarkSpec = LandmarkSpec()

    def system(self) -> SystemParams:
        """Return the solver's parameters."""
        return SystemParams(solver=self.solver, preconditioner=self.preconditioner, whitening=self.whitening,
                            precision=self.precision, tolerance=self.tolerance, max_iterations=self.max_iterations,
                            seed=self.landmarks.seed)

    def params(self, laplacian: Literal["normalized", "unnormalized"],
               selection: "SelectionSpec | None") -> LapRLSParams:
        """Return the parameters with the grid of the selection."""
        printed = self.preconditioner.startswith("paper") and self.solver in ("auto", "nystrom-pcg")
        require(not (printed and self.landmarks.method == "kmeans"),
                f"preconditioner={self.preconditioner!r} with landmarks that are centers",
                why="it needs the graph's weights between landmarks, which must be points then",
                fix='use "edges", or uniform landmarks')
        require_penalties(self.lambda_A, self.lambda_I)  # those that the selection replaces too
        lambda_A = selection.lambda_A if selection and selection.lambda_A else [self.lambda_A]
        lambda_I = selection.lambda_I if selection and selection.lambda_I else [self.lambda_I]
        return LapRLSParams(lambda_A=tuple(lambda_A), lambda_I=tuple(lambda_I), landmarks=self.landmarks.params(),
                            system=self.system(), laplacian=laplacian, fit_intercept=self.fit_intercept)


def _tag(value: Any) -> str:
    """Return which section a model is read as: one without a kind, or of an unknown kind, as that of the default."""
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return LAPRLS if kind == "laprls" else LEARNER


ModelSpec = Annotated[Annotated[LearnerSpec, Tag(LEARNER)] | Annotated[LapRLSSpec, Tag(LAPRLS)], Discriminator(_tag)]


def key_path(place: tuple[int | str, ...]) -> str:
    """Return the path of a key from pydantic's, without the tags of a union."""
    return ".".join(str(key) for key in place if key not in (LEARNER, LAPRLS))


class SelectionSpec(Section):
    """Parameters chosen by cross-validation on the labeled points; a list left out holds the one value given elsewhere.

    power and eta are of the deformed kernels, C of their learners, bandwidth of every kernel; lambda_A and lambda_I are
    of laprls. The model, the base kernel and the budget kernel each choose their own, the shuffled control takes the
    model's.
    """

    folds: int = Field(5, ge=2)
    power: list[int] | None = Field(None, min_length=1)
    eta: list[float] | None = Field(None, min_length=1)
    bandwidth: list[float | str] | None = Field(None, min_length=1)
    C: list[float] | None = Field(None, min_length=1)
    lambda_A: list[float] | None = Field(None, min_length=1)
    lambda_I: list[float] | None = Field(None, min_length=1)
    seed: int = Field(0, ge=0)

    def check(self, kind: str) -> None:
        """Raise SpecError for a list that this kind of model has no use for."""
        theirs = ("power", "eta", "C") if kind == "laprls" else ("lambda_A", "lambda_I")
        own = "lambda_A, lambda_I and bandwidth" if kind == "laprls" else "power, eta, C and bandwidth"
        for name in theirs:
            if getattr(self, name) is not None:
                raise SpecError(explain(f"selection.{name}={getattr(self, name)}, and model.kind is {kind}",
                                        why=f"that kind of model has no {name}", fix=f"leave it out; there are {own}"))


UNUSED: dict[str, Any] = {"subsample": True, "solver": True, "graph": {"ridge", "power"}}  # that laprls has no use for


def check_laprls(written: Collection[str], graph: Collection[str], baselines: Collection[str]) -> None:
    """Raise SpecError for sections, keys of the graph and baselines that a model of kind laprls has no use for.

    written : names of the sections that the spec holds. graph : names of the keys that its section graph holds.
    """
    for name in sorted(UNUSED["graph"]):
        if name in graph:
            raise SpecError(explain(
                f"graph.{name}, and model.kind is laprls", why="the energy of the graph is that of its Laplacian, "
                "without a ridge and of power 1: lambda_A keeps the system positive", fix=f"leave graph.{name} out"))
    for name in (name for name, whole in UNUSED.items() if whole is True):
        if name in written:
            raise SpecError(explain(
                f"the section {name}, and model.kind is laprls", why="nothing is measured on a subsample, and no "
                "columns of it are solved: landmarks stand in model.landmarks, the solver in model.solver",
                fix=f"leave {name} out"))
    if "budget" in baselines:
        raise SpecError(explain("baselines names budget, and model.kind is laprls",
                                why="that baseline is a graph of the subsample, and there is none",
                                fix="set baselines: [base, shuffled]"))
