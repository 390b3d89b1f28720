"""A plan: what it knows, what it refuses, what is made anew, and that it reads the source once."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dssl.base.errors import BudgetError, DataError, ParameterError, SpecError
from dssl.base.units import MEMORY_BUDGET, size_of, size_setting
from dssl.data import source_files
from dssl.execution.cost import Cost, WorkerRoom
from dssl.execution.in_process import InProcess
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.plan import inputs as rates
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.plan.preflight import Room, price, refusal, refuse_what_cannot_fit
from dssl.pipeline.plan.worker_budget import budget_that_fits, plan_on
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.storage.blocks import STEP_BYTES

from ..stored import stored
from .conftest import by_name

NAMES = KINDS["svm"].names


def statuses(result):
    return {stage.name: stage.status for stage in result.stages}


def test_a_plan_of_nothing_made_estimates(spec, tmp_path):
    rows = {row["name"]: row for row in plan(spec, workspace=tmp_path / "new").records()}
    assert list(rows) == NAMES
    for row in rows.values():
        assert set(row) == {"name", "status", "why", "address", "tasks", "requests", "read_bytes", "written_bytes",
                            "peak_bytes", "core_seconds", "wall_seconds", "estimated", "bound", "refused"}
        assert row["peak_bytes"] > 0
        assert row["bound"] == "upper"
    assert rows["dataset"]["estimated"] == []
    assert "entries of W" in rows["columns"]["estimated"]
    assert "number of classes (up to 20 assumed)" in rows["models"]["estimated"]
    assert rows["columns"]["tasks"] == 5
    assert rows["covariance"]["written_bytes"] == 2 * 8 * 40 * 40
    assert not (tmp_path / "new").exists()


def test_a_finished_pipeline_takes_nothing(spec, workspace):
    assert all(row["tasks"] == row["read_bytes"] == row["written_bytes"] == row["peak_bytes"] == 0
               for row in plan(spec, workspace=workspace).records())


def test_what_is_finished_is_exact(spec, workspace):
    rows = {row["name"]: row for row in plan(spec, set=["graph.power=3"], workspace=workspace).records()}
    assert rows["columns"]["status"] == "to run"
    assert rows["columns"]["estimated"] == []  # nor does the solver depend on the power: both take two solves
    changed = {row["name"]: row for row in plan(spec, set=["graph.n_neighbors=7"], workspace=workspace).records()}
    assert changed["columns"]["estimated"] == ["entries of W"]
    assert changed["dataset"]["status"] == "cached"


def test_plan_and_run_agree_on_tasks_and_bytes(spec, finished):
    workspace, _ = finished
    from dssl.storage.verify import describe_arrays
    rows = {row["name"]: row for row in plan(spec, workspace=workspace / "elsewhere").records()}
    for name in ("points", "neighbors", "columns", "scores"):
        folder, = (workspace / "artifacts" / name).iterdir()
        receipts = len(list(folder.glob("*/receipts/*.json")))
        arrays = describe_arrays(stored(folder))
        written = sum(array["bytes"] for array in arrays if array["name"].startswith("shared"))
        # The moments, and the layout of points, are tasks and arrays of the stage that are not kept.
        assert rows[name]["tasks"] - receipts == (1 if name == "points" else 0), name
        assert written <= rows[name]["written_bytes"], name


# Refused early


@pytest.mark.parametrize(("change", "budget", "stage", "hint"), [
    ("model.n_landmarks=200", 1_200_000, "covariance", "lower model.n_landmarks"),
    ("graph.symmetrize=mean", 100_000, "system", "use model.kind laprls"),
])
def test_a_stage_that_cannot_fit_is_refused_before_anything_runs(spec, workspace, change, budget, stage, hint):
    before = sorted(workspace.rglob("*"))
    with pytest.raises(BudgetError) as error:
        run(spec, set=[change], workspace=workspace, execution=InProcess(1, memory_budget=budget))
    said = str(error.value)
    assert f"stage {stage} needs " in said
    assert f"the memory budget is {size_setting(budget, up=False)}" in said
    assert hint in said
    enough = size_of(said.split("raise memory_budget to ")[1].split(", in the spec or by --memory-budget")[0])
    assert enough > budget
    # It is enough for all stages, and hardly more than is needed.
    assert not plan(spec, set=[change], workspace=workspace, memory_budget=enough).refused
    made = plan(spec, set=[change], workspace=workspace, memory_budget=int(0.9 * enough))
    assert max(item.cost.peak - STEP_BYTES if item.cost else enough for item in made.stages) > 0.75 * enough
    assert sorted(workspace.rglob("*")) == before


def test_a_row_that_does_not_fit_is_refused_too(spec, tmp_path):
    with pytest.raises(BudgetError, match=r"stage neighbors cannot fit, the memory budget is 1MB"):
        run(spec, workspace=tmp_path / "work", execution=InProcess(1, memory_budget=1_000_000))
    assert not (tmp_path / "work").exists()


def test_figures_of_a_stage_that_does_not_fit_by_the_most_are_from_below(spec, tmp_path):
    def cost(inputs, spec):
        if inputs.bound == "upper":
            raise BudgetError("their kernel does not fit")
        return Cost(1, 2, 3, 4, 5).guessing("landmarks")

    made = plan(spec, workspace=tmp_path / "work")
    item = replace(made.stages[0], stage=replace(made.stages[0].stage, cost=cost))
    priced = price(item, made.inputs, made.spec).to_dict()
    assert (priced["peak_bytes"], priced["estimated"], priced["bound"]) == (4, ["landmarks"], "lower")


def test_an_upper_bound_above_the_limit_of_a_worker_or_the_budget_gives_way_to_the_lower_one(spec, tmp_path):
    made = plan(spec, workspace=tmp_path / "work")
    peak = {"upper": 200_000, "lower": 50_000}
    item = with_cost(made, "models", lambda inputs, spec: Cost(1, 2, 3, peak[inputs.bound], 5).guessing("landmarks"))
    worker = WorkerRoom(WorkerRoom(1).limit_for(100_000))
    for room, bound in ((Room(1 << 30, worker), "lower"), (Room(1 << 30), "upper")):
        priced = price(item, made.inputs, made.spec, room)
        assert (priced.bound, priced.cost.peak, priced.refused) == (bound, peak[bound], None)
    large = with_cost(made, "models", lambda inputs, spec: Cost(
        1, 2, 3, 1000 * peak[inputs.bound], 5).guessing("landmarks"))
    assert price(large, made.inputs, made.spec, Room(100_000_000)).bound == "lower"
    assert price(large, made.inputs, made.spec, Room(1 << 30)).bound == "upper"


@pytest.mark.parametrize(("upper", "suffices"), [(900_000_000, True), (60_000_000, False)])
def test_the_error_names_what_is_certainly_enough_and_a_much_smaller_budget_that_may_suffice(
        spec, tmp_path, upper, suffices):
    made = plan(spec, workspace=tmp_path / "work")
    peak = {"upper": upper, "lower": 50_000_000}
    item = with_cost(made, "models", lambda inputs, spec: Cost(1, 2, 3, peak[inputs.bound], 5).guessing("landmarks"))
    said = str(price(item, made.inputs, made.spec, Room(10_000_000)).refused)
    enough = size_of(said.split("raise memory_budget to ")[1].split(",")[0])
    assert 0.8 * upper <= enough <= 1.2 * upper
    assert ("which is certainly enough" in said) == suffices
    if suffices:
        assert 0.8 * 50e6 <= size_of(said.split("certainly enough; ")[1].split(" may suffice")[0]) <= 1.2 * 50e6


def test_the_error_names_the_stage_that_needs_the_budget(spec, tmp_path):
    made = plan(spec, workspace=tmp_path / "work")
    first = with_cost(made, "split", lambda inputs, spec: Cost(1, 2, 3, 50_000_000, 5))
    second = with_cost(made, "models", lambda inputs, spec: Cost(1, 2, 3, 500_000_000, 5))
    error = str(refusal(first, made.inputs, made.spec, Room(10_000_000), [first, second]))
    assert "in the spec or by --memory-budget (stage models needs that much)" in error
    assert "(stage" not in str(refusal(second, made.inputs, made.spec, Room(10_000_000), [first, second]))


def with_cost(made, name, cost):
    """Return a stage of a plan whose cost is a function of another."""
    item = {item.stage.name: item for item in made.stages}[name]
    return replace(item, stage=replace(item.stage, cost=cost))


def test_a_workers_limit_refuses_too(spec, tmp_path):
    made = plan(spec, workspace=tmp_path / "work")
    item = with_cost(made, "models", lambda inputs, spec: Cost(1, 2, 3, 200_000, 150_000))
    small = WorkerRoom(WorkerRoom(1).limit_for(100_000))
    error = refusal(item, made.inputs, made.spec, Room(1 << 30, small))
    assert "takes 200kB in one task, a worker has 100kB for it, of a memory limit of" in str(error)
    assert f"or raise the memory_limit of workers to {size_setting(small.limit_for(200_000), up=True)}" in str(error)
    assert refusal(item, made.inputs, made.spec, Room(1 << 30, WorkerRoom(small.limit_for(200_000)))) is None
    execution = InProcess(1)
    execution.smallest_worker = small
    with pytest.raises(BudgetError, match="a worker has 100kB for it"):
        run(spec, workspace=tmp_path / "work", execution=execution)
    assert not (tmp_path / "work").exists()


def test_blocks_that_fill_the_budget_are_refused_where_a_worker_has_less(spec, tmp_path):
    made = plan(spec, workspace=tmp_path / "work")
    item = with_cost(made, "models", lambda inputs, spec: Cost(9, 2, 3, inputs.budget // 2, 1000))
    worker = WorkerRoom(WorkerRoom(1).limit_for(200 << 20))
    error = refusal(item, made.inputs, made.spec, Room(1 << 30, worker))
    assert "takes 537MB in one task, a worker has 209MB for it" in str(error)
    limit = size_setting(worker.limit_for(1 << 29), up=True)
    assert f"lower memory_budget to 268MB, or raise the memory_limit of workers to {limit}" in str(error)
    assert refusal(item, made.inputs, made.spec, Room(1 << 28, worker)) is None
    assert refusal(item, made.inputs, made.spec, Room(1 << 30)) is None
    driver = with_cost(made, "models", lambda inputs, spec: Cost(0, 2, 3, inputs.budget // 2, 1000))  # of no worker
    assert refusal(driver, made.inputs, made.spec, Room(1 << 30, worker)) is None


def test_a_budget_that_nobody_gave_follows_from_the_smallest_worker(spec, tmp_path):
    made = plan(spec, workspace=tmp_path / "work")
    fitting = WorkerRoom(WorkerRoom(1).limit_for(100 << 20))
    assert plan_on(made, fitting).budget == 1 << 30  # blocks are those of any machine where no task is too large
    for cost, budget in ((lambda inputs, spec: Cost(9, 2, 3, inputs.budget // 2, 1000), fitting.room),
                         (lambda inputs, spec: Cost(0, 2, 3, max(inputs.budget // 2, 150 << 20), 1000), 1 << 30),
                         (lambda inputs, spec: Cost(9, 2, 3, 300 << 20, 1000), fitting.room)):
        stages = [with_cost(made, "models", cost)]
        assert budget_that_fits(stages, made.inputs, made.spec, Room(1 << 30, fitting)) == budget
    given = plan(spec, workspace=tmp_path / "work", memory_budget=1 << 29)
    assert plan_on(given, WorkerRoom(1)).budget == 1 << 29
    assert plan_on(given, WorkerRoom(1)).refused


@pytest.mark.slow
def test_a_run_whose_workers_are_small_takes_a_smaller_budget_and_says_so(tmp_path):
    execution, recorded = InProcess(1), []
    execution.smallest_worker = WorkerRoom(WorkerRoom(1).limit_for(40 << 20))
    spec = {"name": "wide", "data": {"source": "manifolds:30000x500"}, "labels": {"per_class": 2}}
    run(spec, workspace=tmp_path / "work", execution=execution, until="dataset", events=recorded.append)
    note, = (event["text"] for event in recorded if event["event"] == "note")
    assert note.startswith("the memory budget of this run is 41.9MB: a worker has 41.9MB for a task")
    with pytest.raises(BudgetError, match="lower memory_budget to"):
        run(spec | {"memory_budget": "1GiB"}, workspace=tmp_path / "other", execution=execution, until="dataset")


def test_a_plan_is_small_by_the_seconds_of_this_machine_and_where_all_costs_are_known(spec, tmp_path, monkeypatch):
    made = plan(spec, workspace=tmp_path / "work")
    assert made.is_small
    assert not replace(made, rates=rates.Rates(1000.0)).is_small
    stages = [replace(item, bound="lower" if item.stage.name == "models" else item.bound) for item in made.stages]
    assert replace(made, stages=stages).is_small
    monkeypatch.setattr("dssl.pipeline.plan.plan.SMALL_ROWS", made.inputs.n_rows - 1)
    assert not replace(made, stages=stages).is_small


def test_a_worker_that_is_smaller_than_others_is_named(spec, tmp_path):
    made = plan(spec, workspace=tmp_path / "work")
    item = with_cost(made, "models", lambda inputs, spec: Cost(1, 2, 3, 300 << 20, 0))
    workers = [WorkerRoom(3 << 30, 1, "tcp://host:1"), WorkerRoom(700 << 20, 1, "tcp://host:2")]
    said = str(refusal(item, made.inputs, made.spec, Room(1 << 30, WorkerRoom.smallest(workers))))
    assert "the worker tcp://host:2 has 146MB for it, of a memory limit of 734MB" in said
    limit = size_setting(workers[1].limit_for(300 << 20), up=True)
    assert f"stop that worker, or start it again with a memory_limit of {limit}; the others have enough room" in said
    assert refusal(item, made.inputs, made.spec, Room(1 << 30, WorkerRoom.smallest(workers[:1]))) is None
    alike = WorkerRoom.smallest([workers[1], replace(workers[1], address="tcp://host:3")])
    refused = refusal(item, made.inputs, made.spec, Room(1 << 30, alike))
    assert f"raise the memory_limit of workers to {limit}" in str(refused)


@pytest.mark.slow
def test_a_solver_of_ten_million_points_is_refused_on_a_fresh_run_with_the_way_out(spec):
    big = {**spec, "data": {"source": "nowhere.npz", "test": {"fraction": 0.1}}, "labels": {"per_class": 50}}
    made = plan(big, points=10_000_000, columns=64, workers=2, worker_memory=4 << 30)
    refused = {item.stage.name: str(item.refused) for item in made.refused}
    assert {"system", "columns"} <= set(refused)
    assert "model.kind laprls" in refused["system"]
    assert "the points are equal, have them counted first: --until vertices" in refused["system"]
    assert not plan(big, points=500_000, columns=64, workers=2, worker_memory=4 << 30).refused
    joined = {**big, "data": {**big["data"], "classes": {"odd": [1, 3], "even": [0, 2]}}}  # leave no row out
    assert "system" in {item.stage.name for item in plan(joined, points=10_000_000, columns=64).refused}
    counted = plan({**big, "graph": {"duplicates": "keep"}}, points=10_000_000, columns=64)
    assert all("--until vertices" not in str(item.refused) for item in counted.refused)


MILLION = Path(__file__).parents[2] / "pipelines" / "million.yaml"


@pytest.mark.parametrize("n", [10**7, 10**8, 10**9])
@pytest.mark.extended_cases("10000000")
def test_laprls_fits_a_gigabyte_whatever_the_number_of_points(n):
    """Within the default budget no stage is refused, and none has a task that takes more."""
    made = plan(MILLION, points=n, columns=64)
    assert not made.refused
    assert max(item.cost.peak for item in made.stages) <= MEMORY_BUDGET
    inductive = ["selection={held_out_points: inductive, grid: {gamma_A: [auto, 10*auto]}}"]
    assert not plan(MILLION, points=n, columns=64, set=inductive).refused
    many = plan(MILLION, points=n, columns=64, set=[*inductive, "labels.per_class=1_000_000"])
    refused = {item.stage.name: str(item.refused) for item in many.refused}
    assert '"transductive"' in refused["selection"]


def test_what_a_stage_found_refuses_a_later_one_before_the_stages_between(spec, tmp_path, monkeypatch):
    def cost(inputs, spec):
        return Cost(1, 0, 0, 0, 10**8 * inputs.n_test)

    scored = replace(KINDS["svm"], stages=tuple(
        replace(stage, cost=cost) if stage.name == "scores" else stage for stage in KINDS["svm"].stages))
    monkeypatch.setitem(KINDS, "svm", scored)
    fields = {**spec, "data": {**spec["data"], "test": {"fraction": 0.2}}}  # how many have labels is not known
    with pytest.raises(BudgetError, match=r"stage scores needs 5.21GB in one task"):
        run(fields, workspace=tmp_path / "work", execution=InProcess(1))
    made = {folder.parent.name for folder in (tmp_path / "work" / "artifacts").glob("*/*")}
    assert made == {"dataset", "split"}


# For a shape alone


def test_a_plan_for_a_shape_reads_nothing_and_grows_with_it(spec, tmp_path):
    fields = {**spec, "data": {**spec["data"], "source": "nowhere/at/all.npz"}, "labels": {
        "count": 50, "file": "nowhere.csv"}}
    small, large = (plan(fields, points=n, columns=64, workspace=tmp_path / "w") for n in (100_000, 400_000))
    assert large.total()["read_bytes"] / small.total()["read_bytes"] > 3.5
    assert {item.status for item in large.stages} == {"to run"}
    assert large.stages[0].artifact.address != small.stages[0].artifact.address
    wider = plan(fields, set=["data.read.dtype=float64"], points=100_000, columns=64)
    assert wider.stages[0].cost.read == 2 * small.stages[0].cost.read
    assert not (tmp_path / "w").exists()


def test_a_shape_needs_no_source(spec):
    data = {name: value for name, value in spec["data"].items() if name != "source"}
    named, bare = (plan({**spec, "data": own}, points=1000, columns=8) for own in (spec["data"], data))
    assert [item.to_dict(1) for item in bare.stages] == [item.to_dict(1) for item in named.stages]
    clustering = {"name": "bare", "model": {"kind": "clustering", "n_clusters": 3}}
    assert plan(clustering, points=1000, columns=8).total()["tasks"] > 0
    with pytest.raises(SpecError, match=r"data\.source is missing"):
        plan({**spec, "data": data})
    with pytest.raises(SpecError, match="points=1000, columns=None"):
        plan({**spec, "data": data}, points=1000)


@pytest.mark.slow
def test_a_search_that_auto_cannot_choose_is_not_in_the_plan(spec):
    """What exact search reads of blocks grows with the square of the points."""
    fields = {key: value for key, value in spec.items() if key != "graph"} | {"graph": {"n_neighbors": 5}}
    small, large, partitioned = (
        {row["name"]: row for row in plan(fields, set=given, points=n, columns=64).records()}["neighbors"]
        for n, given in ((10**7, ()), (10**8, ()), (10**8, ["graph.method=partitioned"])))
    assert large["read_bytes"] < 11 * small["read_bytes"]
    assert "search" not in large["estimated"]
    assert large["read_bytes"] == partitioned["read_bytes"]
    some = {row["name"]: row for row in plan(fields, points=10**5, columns=64).records()}["neighbors"]
    assert "search" in some["estimated"]


def test_a_search_that_may_follow_another_is_in_the_upper_bound_of_the_plan(spec):
    fields = {key: value for key, value in spec.items() if key != "graph"} | {"graph": {"n_neighbors": 5}}
    auto, exact, descent = (
        {row["name"]: row for row in plan(fields, set=[f"graph.method={method}"], points=50_000, columns=64).records()}
        ["neighbors"] for method in ("auto", "exact", "descent"))
    assert auto["tasks"] == exact["tasks"] + descent["tasks"]
    assert auto["read_bytes"] == exact["read_bytes"] + descent["read_bytes"]
    assert auto["peak_bytes"] == max(exact["peak_bytes"], descent["peak_bytes"])


def test_a_shape_cannot_be_run(spec, tmp_path):
    with pytest.raises(ParameterError, match="a plan for 1,000 points, 8 columns"):
        run(plan(spec, points=1000, columns=8, workspace=tmp_path / "w"), execution=InProcess(1))


def test_all_rows_of_a_shape_are_used(spec):
    whole = plan(spec, points=100_000, columns=8)
    some = {**spec, "data": {**spec["data"], "keep": [1, 2, 3], "test": {"official": True}}}
    inputs = [made.inputs for made in (whole, plan(some, points=100_000, columns=8))]
    assert [each.training_points.lower for each in inputs] == [99_940, 80_000]
    assert inputs[1].n_classes == 3


@pytest.mark.parametrize("given", [{"workers": 0}, {"workers": 2.5}, {"worker_memory": "4GiB"}, {"worker_memory": -5},
                                   {"memory_budget": "8MiB"}, {"memory_budget": 0}])
def test_numbers_of_bytes_and_workers_are_checked(spec, given):
    name, value = *given, *given.values()
    with pytest.raises(ParameterError, match=f"{name}={value!r}, expected a whole number"):
        plan(spec, points=1000, columns=8, **given)


def test_workers_share_what_is_in_tasks(spec, monkeypatch):
    monkeypatch.setattr(rates, "slowness", lambda folder: 1.0)
    rows = {workers: {row["name"]: row for row in plan(spec, points=1_000_000, columns=64, workers=workers).records()}
            for workers in (1, 8)}
    for name, row in rows[1].items():
        assert row["wall_seconds"] == row["core_seconds"] == rows[8][name]["core_seconds"]
        shared = -(-row["tasks"] // 8) / row["tasks"] if row["tasks"] else 1
        assert rows[8][name]["wall_seconds"] == pytest.approx(shared * row["wall_seconds"], rel=1e-2, abs=2e-3), name


@pytest.mark.parametrize("shape", [{"points": 1000}, {"columns": 5}, {"points": 1, "columns": 5}])
def test_a_shape_is_points_and_columns(spec, shape):
    with pytest.raises(SpecError, match="points='1e6', columns=8"):
        plan(spec, points="1e6", columns=8)
    with pytest.raises(SpecError, match="--points 1e8 --columns 64"):
        plan(spec, **shape)


def test_what_is_cached_is_never_refused(spec, workspace):
    made = plan(spec, workspace=workspace)
    refuse_what_cannot_fit(made.own_stages, made.inputs, made.spec, Room(1))
    changed = plan(spec, set=["model.eta=3"], workspace=workspace)
    with pytest.raises(BudgetError, match="stage models"):
        refuse_what_cannot_fit(changed.own_stages, changed.inputs, changed.spec, Room(1))


# From and until


def test_from_makes_a_stage_and_its_dependents_anew(spec, finished, workspace):
    result = run(spec, workspace=workspace, execution=InProcess(2), from_stage="landmarks")
    made = {name for name, status in statuses(result).items() if status == "done"}
    assert made == KINDS["svm"].dependents("landmarks") == {
        "landmarks", "columns", "covariance", "selection", "models", "sample", "scores", "predictions"}
    assert result.metrics == finished[1].metrics
    shown = {item.stage.name: item for item in plan(spec, workspace=workspace, from_stage="covariance").stages}
    assert shown["covariance"].why == "asked to be made anew"
    assert shown["columns"].status == "cached"


@pytest.mark.parametrize("option", ["from_stage", "until"])
def test_a_stage_that_does_not_exist_lists_those_that_do(spec, tmp_path, option):
    with pytest.raises(SpecError, match="'colums' is not a stage") as error:
        plan(spec, workspace=tmp_path, **{option: "colums"})
    assert "columns, covariance" in str(error.value)


@pytest.mark.parametrize(("overrides", "message"), [
    (["data.points=201"], "data.points=201, data.test.count=60, and the source has 260 rows"),
    (["data.test.count=260"], "data.test.count=260, and the source has 260 rows"),
    (["labels={count: 201}"], "labels.count=201"), (["labels={count: 50}", "data.points=40"], "labels.count=50"),
])
def test_more_points_than_the_source_has_rows_are_refused_before_anything_runs(spec, tmp_path, overrides, message):
    with pytest.raises(DataError, match=message) as error:
        plan(spec, set=overrides, workspace=tmp_path / "work")
    assert error.value.exit_code == 1
    assert plan(spec, set=["data.points=200"], workspace=tmp_path / "work").inputs
    assert not (tmp_path / "work").exists()


# Once


def test_the_source_is_hashed_once_for_plan_and_run(spec, tmp_path, monkeypatch):
    hashed = []
    monkeypatch.setattr("dssl.pipeline.plan.inputs.digested",
                        lambda source: hashed.append(source) or source_files.digested(source))
    made = plan(spec, workspace=tmp_path, until="points")
    run(made, execution=InProcess(2))
    assert len(hashed) == 1


def test_a_plan_takes_no_options_again(spec, tmp_path):
    with pytest.raises(ParameterError, match="options that it was made without"):
        run(plan(spec, workspace=tmp_path), fresh=True)


# What was measured


def test_the_run_records_predicted_and_measured(finished, spec, tmp_path):
    tasks = {row["name"]: row["tasks"] for row in plan(spec, workspace=tmp_path).records()}
    assert tasks["columns"] > 1 >= tasks["models"]
    for stage in finished[1].stages:
        assert stage.predicted_peak_bytes > 0
        assert stage.measured_peak_bytes >= 0
        # Two threads: where several tasks ran side by side the measure is of both, and there is no ratio.
        assert (stage.ratio is None) == (tasks[stage.name] > 1)


def test_a_cached_stage_has_no_figures(spec, workspace):
    again = run(spec, workspace=workspace, execution=InProcess(1))
    assert {(stage.predicted_peak_bytes, stage.measured_peak_bytes, stage.ratio)
            for stage in again.stages} == {(None, None, None)}


# A workspace that was moved


def test_a_moved_workspace_keeps_its_models(finished, workspace, tmp_path):
    moved = Path(workspace).rename(tmp_path / "moved")
    result = moved / "runs" / finished[1].run / "result.json"
    assert open_model(result).model.points.shape[1] == 4
    assert not Path(json.loads(result.read_text())["model"]).is_absolute()


# A table for each kind of model


def test_a_stage_of_another_kind_lists_those_of_this_one(spec, tmp_path, monkeypatch):
    short = replace(KINDS["ridge"], stages=KINDS["ridge"].stages[:9], model=None)
    monkeypatch.setitem(KINDS, "ridge", short)
    ridge = {**spec, "model": {**spec["model"], "kind": "ridge"}}
    assert [row["name"] for row in plan(ridge, workspace=tmp_path).records()] == NAMES[:9]
    assert plan(ridge, workspace=tmp_path).until == NAMES[8]
    assert [row["name"] for row in plan(spec, workspace=tmp_path).records()] == NAMES
    for option in ("from_stage", "until"):
        with pytest.raises(SpecError, match=r"'columns' is not a stage of model\.kind ridge") as error:
            plan(ridge, workspace=tmp_path, **{option: "columns"})
        assert str(error.value).endswith(f"name one of {', '.join(NAMES[:9])}")


def test_kinds_share_the_stages_up_to_the_health_of_the_graph():
    shared = NAMES[:NAMES.index("health") + 1]
    for kind in KINDS.values():
        own = ["points"] if kind.name == "automatic" else []  # labels choose the scale
        own += [] if "labels" in kind.names else ["labels"]
        own += [] if "graph" in kind.names else shared[shared.index("points") + 1:]
        own += ["health"] if kind.name == "clustering" else []  # nor do labels reach its points
        assert [name for name in shared if by_name(kind).get(name) is not by_name(KINDS["svm"])[name]] == own
