"""How long a run still takes, and how fast a machine is: estimates that change nothing else."""

import json

import pytest

from dssl.pipeline.plan import inputs as rates
from dssl.pipeline.plan.inputs import Rates, rates_of, slowness
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.status import TimeLeft
from dssl.storage.artifacts import Workspace
from tests.memory import traced_peak


def test_what_stages_took_corrects_what_the_plan_says():
    now = [0.0]
    left = TimeLeft(lambda: now[0])
    left.begin(None, 100.0)
    assert left.left() == 100
    left.begin(30.0, 70.0)
    assert left.left() == 100
    now[0] = 10.0
    assert left.left() == 90
    left.end(90.0, made=True)  # three times as long
    assert left.factor == pytest.approx(93 / 33)
    left.begin(20.0, 50.0)
    assert left.left() == pytest.approx(93 / 33 * 70)
    assert left.left(time_left=7.0) == pytest.approx(7 + 93 / 33 * 50)
    now[0] = 1010.0  # far beyond what was estimated
    assert left.left() == pytest.approx(100 + 93 / 33 * 50)
    left.end(0.01, made=False)
    assert left.factor == pytest.approx(93 / 33)  # a stage that was there says nothing


def test_probes_take_no_memory_whose_price_depends_on_what_was_imported():
    """Where it comes from the system each time, the values of a kernel took eight times as long."""
    probes = rates._probes()
    for name in ("product", "kernel"):
        assert traced_peak(probes[name], 2 * rates.SIZE**2) < 2 * rates.SIZE**2, name


def test_a_speed_beside_other_references_is_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(rates, "measure_slowness", lambda: 2.5)
    slowness.cache_clear()
    assert slowness(tmp_path) == 2.5
    monkeypatch.setattr(rates, "measure_slowness", lambda: 9.0)
    monkeypatch.setattr(rates, "REFERENCE", {**rates.REFERENCE, "kernel": 1.0})
    slowness.cache_clear()
    assert slowness(tmp_path) == 9.0
    slowness.cache_clear()


def test_the_speed_of_a_machine_is_measured_once(tmp_path, monkeypatch):
    assert rates.measure_slowness(0.005) > 0
    monkeypatch.setattr(rates, "measure_slowness", lambda: 2.5)
    slowness.cache_clear()
    assert slowness(tmp_path) == 2.5
    monkeypatch.setattr(rates, "measure_slowness", lambda: 9.0)
    slowness.cache_clear()
    assert slowness(tmp_path) == 2.5
    known = json.loads((tmp_path / rates.FILE).read_text())
    for wrong in (known | {"host": "another"}, known | {"measured": 0}, [], "{"):
        (tmp_path / rates.FILE).write_text(wrong if isinstance(wrong, str) else json.dumps(wrong))
        slowness.cache_clear()
        assert slowness(tmp_path) == 9.0
    (tmp_path / "file").write_text("in the way")
    assert slowness(tmp_path / "file" / "cache") == 9.0  # where nothing can be kept
    slowness.cache_clear()


def test_earlier_runs_say_how_long_their_stages_take(tmp_path, monkeypatch):
    monkeypatch.setattr(rates, "slowness", lambda folder: 2.0)
    assert rates_of(Workspace.at(tmp_path)) == Rates(2.0)
    for number, (seconds, estimate) in enumerate([(60.0, 10.0), (50.0, 12.0), (1.0, None)]):
        folder = tmp_path / "runs" / f"2026-{number}"
        folder.mkdir(parents=True)
        stage = {"name": "columns", "seconds": seconds, "estimated_seconds": estimate}
        (folder / "result.json").write_text(json.dumps({"stages": [stage]}))
    (folder / "result.json").write_text("{")
    found = rates_of(Workspace.at(tmp_path))
    assert found.of("columns") == pytest.approx((110 + 2 * 2) / (22 + 2))
    assert found.of("graph") == 2.0


def test_seconds_alone_follow_from_the_machine(spec, tmp_path, monkeypatch):
    made = []
    for slow in (1.0, 3.0):
        monkeypatch.setattr(rates, "slowness", lambda folder, slow=slow: slow)
        made.append(plan(spec, workspace=tmp_path).records())
    for fast, slow in zip(*made, strict=True):
        assert slow["core_seconds"] == pytest.approx(3 * fast["core_seconds"], abs=2e-3)
        assert slow["wall_seconds"] == pytest.approx(3 * fast["wall_seconds"], abs=2e-3)
        times = {"core_seconds", "wall_seconds"}
        assert {key: value for key, value in slow.items() if key not in times} == {
            key: value for key, value in fast.items() if key not in times}


def test_a_run_notes_what_its_stages_were_estimated_at(finished, workspace):
    _, result = finished
    assert all(stage.estimated_seconds is not None and stage.estimated_seconds > 0 for stage in result.stages
               if stage.name in ("dataset", "columns", "neighbors"))
    assert set(rates_of(Workspace.at(workspace)).stages) >= {"dataset", "columns", "neighbors"}
    status = json.loads((workspace / "runs" / result.run / "status.json").read_text())
    assert (status["state"], status["run_left"]) == ("done", None)
    assert [stage["name"] for stage in status["stages"]] == [stage.name for stage in result.stages]
