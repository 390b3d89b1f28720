"""Tasks and bytes that a plan counts are those that run."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_multilabel_classification

from dssl.execution.cost import Cost, cost_of
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.execution.tasks import BlockTasks
from dssl.pipeline.plan.inputs import plan_inputs
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.storage.blocks import MemoryParts
from dssl.storage.store import StoredParts

from ..figures import unrendered

MANIFOLDS = {"data": {"source": "manifolds:1200x20", "test": {"count": 200}}, "labels": {"per_class": 5},
             "graph": {"method": "exact"}}
DIGITS = {"data": {"source": "digits", "points": 600, "test": {"count": 100}}, "labels": {"per_class": 2}}
TAGS = {"data": {"source": "tags.parquet", "tags": {"column": "tags"}, "test": {"count": 20}},
        "labels": {"given": True}, "model": {"kind": "automatic"}}
LAPRLS = {**MANIFOLDS, "model": {"kind": "laprls"}}
GRID = {"gamma_A": ["0.1*auto", "auto"], "gamma_I": ["auto", "10*auto"]}
SPECS = {
    "automatic": {**DIGITS, "model": {"kind": "automatic"}},
    "tags of automatic": TAGS,
    "tags of laprls": {**TAGS, "model": {"kind": "laprls", "landmarks": 60}},
    "descent": {**DIGITS, "graph": {"method": "descent"}, "model": {"kind": "graph"}},
    "partitioned": {**MANIFOLDS, "graph": {"method": "partitioned"}, "model": {"kind": "graph"}},
    "cluster": {**DIGITS, "model": {"kind": "cluster"}},
    "multiscale": {**DIGITS, "model": {"kind": "multiscale"}},
    "transductive": {**DIGITS, "model": {"kind": "transductive"}},
    "kernel_clustering": {"data": {**DIGITS["data"], "task": "clustering"},
                          "model": {"kind": "kernel_clustering", "n_clusters": 10}},
    "laprls": LAPRLS,
    "given penalties": {**LAPRLS, "model": {"kind": "laprls", "gamma_A": "auto", "gamma_I": "auto"},
                        "kernel": {"bandwidth": "median"}},
    "grid": {**LAPRLS, "selection": {"grid": {**GRID, "bandwidth": ["median", "2*median"]}, "cv": 3}},
    "repeated": {**LAPRLS, "selection": {"grid": GRID, "cv": 2, "repetitions": 2}, "baselines": ["base", "shuffled"]},
    "refit": {**LAPRLS, "selection": {"held_out": "refit", "grid": GRID, "cv": 3}},
    "inductive": {**LAPRLS, "selection": {"held_out_points": "inductive", "grid": GRID, "cv": 3}},
    "lapsvm": {**MANIFOLDS, "model": {"kind": "lapsvm"}, "selection": {"grid": GRID, "cv": 3}},
    "svm": {**MANIFOLDS, "model": {"kind": "svm", "n_landmarks": 60}},
}
# Stages that stop as soon as what they find lets them; all others are counted from shapes, labels and parameters.
AT_MOST = {"health", "neighbors of partitioned"} | {f"models of {name}" for name in ("svm", "kernel_clustering")}
BY_WAVES = {"basis of multiscale"}  # whose finished tasks are mapped again with those that follow


@pytest.fixture(scope="module", autouse=True)
def _figures():
    """Draw the figures of every kind of model, in place of the fixture of all pipelines, which draws none."""
    with unrendered():
        yield


class BlockTask:
    def __init__(self, start, stop):
        self.rows = stop - start

    def __call__(self, out):
        return out.write(rows=np.arange(self.rows))

    def cost(self):
        return cost_of(1, 3 * self.rows, 8 * self.rows, self.rows, seconds=0.5)


@pytest.mark.parametrize(("n", "height"), [(10, 3), (9, 3), (2, 3), (1, 1)])
def test_tasks_of_blocks_are_counted_as_if_each_was_asked(n, height):
    tasks = BlockTasks(BlockTask, n, height)
    assert tasks.cost() == sum((task.cost() for task in tasks), Cost(0, 0, 0, 0, 0))
    assert (tasks.cost().tasks, tasks.cost().written) == (len(tasks), 8 * n)
    parts = MemoryParts()
    assert len(InProcess(1).map(tasks, parts)) == len(tasks)
    assert [len(parts.read(index)["rows"]) for index in range(len(tasks))] == [task.rows for task in tasks]


def test_a_hundred_million_rows_make_two_tasks_to_count():
    made = []
    tasks = BlockTasks(lambda start, stop: made.append(start) or BlockTask(start, stop), 10**8 + 1, 1000)
    assert tasks.cost().tasks == len(tasks) == 10**5 + 1
    assert len(made) == 2


def tags_in(folder):
    """Write a table of points, 80 of which have some of 4 tags; return its path."""
    X, tags = make_multilabel_classification(500, 8, n_classes=4, random_state=0)
    lists = [np.flatnonzero(row).tolist() if number < 80 else None for number, row in enumerate(tags)]
    X += np.random.default_rng(0).normal(size=X.shape)
    pd.DataFrame(X).rename(columns=str).assign(tags=lists).to_parquet(folder / "tags.parquet")
    return folder / "tags.parquet"


def counted_and_run(spec, tmp_path, execution, begin=lambda stage: None, **options):
    """Run a spec; return by stage its counted cost, once all is known, and the number of tasks that ran.

    begin : told of every stage that begins.
    """
    spec = {"name": "counted", **spec}
    if spec["data"]["source"] == "tags.parquet":
        spec["data"] = {**spec["data"], "source": str(tags_in(tmp_path))}
    ran = {}

    def note(event):
        if event["event"] == "stage":
            begin(event["stage"])
        if event["event"] == "progress":
            ran[event["stage"]] = event["done"]

    made = plan(spec, workspace=tmp_path, memory_budget=execution.memory_budget)
    run(spec, workspace=tmp_path, execution=execution, events=note, **options)
    after = plan(spec, workspace=tmp_path, memory_budget=execution.memory_budget)
    known = {item.stage.name: item.artifact.attributes for item in after.stages if item.status == "cached"}
    inputs = plan_inputs(made.spec, made.budget, made.inputs.scan, known)
    return {item.stage.name: (item.stage.cost(inputs, made.spec), ran.get(item.stage.name, 0))
            for item in after.stages if item.status == "cached"}


def require_equal(name, stages):
    for stage, (cost, ran) in stages.items():
        called = f"{stage} of {name}"
        if called not in BY_WAVES:
            assert (cost.tasks >= ran if AT_MOST & {stage, called} else cost.tasks == ran), (called, cost.tasks, ran)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SPECS if name != "svm"])
@pytest.mark.extended_cases("tags of laprls", "lapsvm", "cluster", "descent", "given penalties", "grid",
    "kernel_clustering", "refit", "repeated", "transductive", "inductive", "tags of automatic", "multiscale")
def test_a_run_has_the_tasks_that_were_counted(name, tmp_path):
    stages = counted_and_run(SPECS[name], tmp_path, InProcess(2))
    assert "scores" in stages
    require_equal(name, stages)


@pytest.mark.slow
def test_two_processes_have_the_tasks_that_were_counted(cluster_client, tmp_path):
    require_equal("svm", counted_and_run(SPECS["svm"], tmp_path, OnDask(cluster_client, 16 << 20)))


@pytest.mark.slow
def test_blocks_of_a_small_budget_are_counted_and_so_are_the_bytes_that_they_write(tmp_path, monkeypatch):
    """Bytes of arrays as they are written, before they are compressed, those of shuffles too."""
    written = Counter()
    stage = ["dataset"]

    def noting(write, place):
        def noted(self, *arguments, **others):
            written[stage[0]] += sum(array.nbytes for array in arguments[place].values())
            return write(self, *arguments, **others)

        return noted

    for parts in (MemoryParts, StoredParts):
        for name, place in (("write", 1), ("write_range", 1), ("write_buckets", 3)):
            monkeypatch.setattr(parts, name, noting(getattr(parts, name), place))

    def begin(name):
        stage[0] = name

    spec = SPECS["svm"] | {"data": {"source": "manifolds:20000x20", "test": {"count": 300}}}
    stages = counted_and_run(spec, tmp_path, InProcess(2, memory_budget=12 << 20), begin, until="graph")
    require_equal("svm", stages)
    assert stages["graph"][1] > 3
    assert stages["vertices"][1] > 2
    for name in ("vertices", "neighbors", "graph"):
        assert_allclose(stages[name][0].written, written[name], rtol=0.03, err_msg=name)
