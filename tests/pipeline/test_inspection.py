"""What inspect says of artifacts, runs and data sets, by all their names."""

import pytest

from dssl.base.errors import DataError, IntegrityError
from dssl.data.dataset import Dataset
from dssl.pipeline.contents import inspect
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.plan.plan import plan
from dssl.storage.artifacts import Workspace

from ..stored import stored


def test_an_artifact_by_all_its_names(spec, finished):
    workspace, _ = finished
    place = Workspace.at(workspace)
    address = {row["name"]: row["address"] for row in plan(spec, workspace=workspace).records()}["columns"]
    by_stage = inspect("columns", place)
    for name in (address, address[:10], str(workspace / "artifacts" / "columns" / address[:24])):
        assert inspect(name, place) == by_stage
    assert (by_stage["kind"], by_stage["status"], by_stage["stage"]) == ("artifact", "complete", "columns")
    assert by_stage["address"] == address
    assert by_stage["params"]["powers"] == [2]
    assert set(by_stage["inputs"]) == {"system", "landmarks"}
    assert by_stage["attributes"]["columns"] == 40
    array, = by_stage["arrays"]
    assert (array["name"], array["shape"], array["dtype"]) == ("shared/Z1", [200, 40], "float64")
    assert array["chunks"] == [200, 8]
    assert array["bytes"] == 8 * 200 * 40
    assert 0 < array["bytes_on_disk"] < by_stage["bytes_on_disk"]


def test_a_run_by_all_its_names(finished):
    workspace, result = finished
    folder = workspace / "runs" / result.run
    found = inspect(result.run, Workspace.at(workspace))
    for name in (folder, folder / "result.json"):
        assert inspect(str(name), Workspace.at(workspace)) == found
    assert (found["kind"], found["status"], found["name"]) == ("run", "done", "small")
    assert found["metrics"] == result.metrics
    assert found["spec"]["model"]["n_landmarks"] == 40


def test_what_was_interrupted(workspace):
    folder = next((workspace / "artifacts" / "columns").iterdir())
    (folder / "manifest.json").unlink()
    stored(folder, "receipts/000004.json").unlink()
    found = inspect(str(folder), Workspace.at(workspace))
    assert found["status"] == "unfinished, 4 parts are finished"
    assert found["stage"] == "columns"
    run = next((workspace / "runs").iterdir())
    (run / "result.json").unlink()
    assert inspect(run.name, Workspace.at(workspace))["status"] == "unfinished"


def test_a_data_set(tmp_path):
    Dataset.from_arrays([[1.0, 2.0], [3.0, 4.0]], [0, 1]).save(tmp_path / "points")
    found = inspect(str(tmp_path / "points"), Workspace.at(tmp_path))
    assert found["kind"] == "data set"
    assert [array["name"] for array in found["arrays"]] == ["shared/X", "shared/y"]


@pytest.mark.parametrize(("name", "message"), [
    ("colums", "nothing called 'colums'"), ("abc", "nothing called"), ("", "nothing called"),
])
def test_what_names_nothing(finished, name, message):
    with pytest.raises(DataError, match=message) as error:
        inspect(name, Workspace.at(finished[0]))
    assert "columns, covariance" in str(error.value)


def test_an_empty_workspace_and_another_folder(tmp_path):
    with pytest.raises(DataError, match="holds no artifact of stage columns"):
        inspect("columns", Workspace.at(tmp_path))
    with pytest.raises(DataError, match="is no artifact, run or data set"):
        inspect(str(tmp_path), Workspace.at(tmp_path))


def test_a_damaged_manifest(workspace):
    folder = next((workspace / "artifacts" / "graph").iterdir())
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"nnz"', '"nmz"'))
    with pytest.raises(IntegrityError, match="is damaged"):
        inspect("graph", Workspace.at(workspace))


# Unfinished parts


def unfinish(workspace, stage, drop):
    folder = next((workspace / "artifacts" / stage).iterdir())
    (folder / "manifest.json").unlink()
    stored(folder, f"receipts/{drop:06d}.json").unlink()
    return folder


def test_finished_parts_of_an_unfinished_stage_are_verified(workspace):
    folder = unfinish(workspace, "columns", 4)
    place = Workspace.at(workspace)
    assert (place.verify(), place.verify_unfinished()) == (len(KINDS["svm"].stages) - 1, 4)
    chunks = sorted(path for path in stored(folder, "shared/Z1/c").rglob("*") if path.is_file())
    chunks[4].write_bytes(b"half of a chunk")  # of the part that is under way
    assert place.verify_unfinished() == 4
    sound = chunks[2].read_bytes()
    chunks[2].write_bytes(sound[:-5] + b"x" + sound[-4:])
    with pytest.raises(IntegrityError, match=f"{chunks[2]} is damaged") as error:
        place.verify_unfinished()
    assert str(folder) in str(error.value)
    chunks[2].unlink()
    with pytest.raises(IntegrityError, match=f"{chunks[2]} is missing"):
        place.verify_unfinished()


def test_a_part_or_a_receipt_that_is_damaged(workspace):
    folder = next((workspace / "artifacts" / "graph").iterdir())
    (folder / "manifest.json").unlink()
    place = Workspace.at(workspace)
    assert place.verify_unfinished() == 1
    stored(folder, "receipts/000000.json").write_text('{"rows": [0')
    with pytest.raises(IntegrityError, match="is not a JSON file"):
        place.verify_unfinished()
