"""A JSON file of a workspace that was cut, emptied or replaced: an error that names it, or the same result; no more."""

import json
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from dssl.base.errors import DsslError, IntegrityError
from dssl.execution.in_process import InProcess
from dssl.pipeline.contents import describe_folder, find_garbage, runs_of
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run
from dssl.storage.array_files import open_array
from dssl.storage.artifacts import Workspace
from dssl.storage.store import StoredParts

DAMAGES = ("", "{", "[]", "null", "{}", "half")
SHARES = 16  # of the files, of which one is damaged for every change


class Killed(Exception):
    """Stands for the end of the process."""


def damage(path, how):
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2] if how == "half" else how.encode())


@pytest.fixture(scope="module")
def killed(tmp_path_factory, small_spec):
    """A workspace whose run was killed in the midst of a stage of several tasks, and of the models."""
    workspace = tmp_path_factory.mktemp("killed")

    def kill(event):
        if event["event"] == "progress" and event["stage"] == "models" and event["done"] >= 1:
            raise Killed

    with pytest.raises(Killed):
        run(small_spec, workspace=workspace, execution=InProcess(1), events=kill)
    return workspace


def one_of_each(root):
    """Return JSON files of a workspace, one of those that differ in numbers and addresses alone.

    Their order does not depend on numbers and addresses, so that a share is the same files in every run.
    After a run that was killed, those of what is not finished.
    """
    found = {}
    killed = not list(root.glob("runs/*/result.json"))
    for path in sorted(root.rglob("*.json")):
        if killed and any((above / "manifest.json").exists() for above in path.parents):
            continue
        found.setdefault(re.sub(r"[0-9a-f]{12,}|\d+", "#", str(path.relative_to(root))), path.relative_to(root))
    return [found[name] for name in sorted(found)]


def looked_at(root):
    """Ask for all that a workspace tells of itself."""
    for ask in (lambda: Workspace.at(root).verify(), lambda: Workspace.at(root).verify_unfinished(),
                lambda: runs_of(Workspace.at(root)), lambda: find_garbage(Workspace.at(root), intermediate=True),
                *(lambda path=path: RunResult.open(path).predict(path) for path in root.glob("runs/*")),
                *(lambda path=path: describe_folder(path) for path in root.glob("*/*/*") if path.is_dir())):
        with suppress(DsslError):  # and nothing else
            ask()


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("state", ["finished", "killed"])
@pytest.mark.extended_cases(*(f"{state}-{share}" for state in ("finished", "killed") for share in range(1, SHARES)))
def test_no_damaged_file_ends_in_a_traceback_or_another_result(state, share, finished, killed, small_spec, tmp_path):
    origin, expected = (finished[0] if state == "finished" else killed), finished[1].metrics
    refusals = 0
    for number, name in list(enumerate(one_of_each(origin)))[share::SHARES]:
        how = DAMAGES[number % len(DAMAGES)]
        root = Path(shutil.copytree(origin, tmp_path / "work"))
        damage(root / name, how)
        made, error = None, ""
        try:
            made = run(small_spec, workspace=root, execution=InProcess(1)).metrics
        except IntegrityError as refused:
            error = str(refused)
        refusals += made is None
        sound = str(root) in error and "\n  fix: " in error if made is None else made == expected
        assert sound, (name, how, made, error)
        if "parts" not in name.parts and "shared" not in name.parts:
            looked_at(root)
        shutil.rmtree(root)
    assert refusals or (state, share) != ("finished", 0)  # other shares may hold only what is made again or not read


@pytest.mark.parametrize("text", ["{", '{"attempt": "../../../../outside"}'])
@pytest.mark.extended_cases("{")
def test_a_part_whose_receipt_cannot_be_read_is_made_again(killed, small_spec, finished, tmp_path, text):
    root = Path(shutil.copytree(killed, tmp_path / "work"))
    receipts = [path for path in root.rglob("receipts/*.json")
                if not any((above / "manifest.json").exists() for above in path.parents)]
    assert receipts
    for path in receipts:
        path.write_text(text)
    assert run(small_spec, workspace=root, execution=InProcess(1)).metrics == finished[1].metrics


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["../../../../outside", "/outside", "", "a\0b", 7])
@pytest.mark.extended_cases("/outside", "7")
def test_a_layout_that_leaves_the_artifact_is_refused(killed, small_spec, finished, tmp_path, layout):
    root = Path(shutil.copytree(killed, tmp_path / "work"))
    begun, = (path for path in root.rglob("begun.json") if not (path.parent / "manifest.json").exists())
    begun.write_text(json.dumps({**json.loads(begun.read_text()), "layout": layout}))
    with pytest.raises(IntegrityError, match=re.escape(str(begun))):
        describe_folder(begun.parent)
    assert run(small_spec, workspace=root, execution=InProcess(1)).metrics == finished[1].metrics
    assert {path.name for path in tmp_path.iterdir()} == {"work"}


@pytest.mark.parametrize(("key", "value"), [
    ("model", "../../../outside"), ("report", "/etc/passwd"), ("predictions", 7),
    ("stages", [{"name": "../..", "address": "a" * 64}]), ("stages", [{"name": "graph", "address": "../../.."}]),
    ("stages", [7]), ("stages", {})])
def test_a_result_that_names_what_is_elsewhere_is_refused(workspace, key, value):
    folder = next(workspace.glob("runs/*"))
    document = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps({**document, key: value}))
    with pytest.raises(IntegrityError):
        describe_folder(folder)


def test_no_artifact_outside_of_the_workspace_is_removed(workspace):
    """As `dssl gc --intermediate` would, of a run that lists it."""
    stages = next(workspace.glob("runs/*")) / "stages.json"
    stages.write_text(json.dumps([*json.loads(stages.read_text()), "graph/../../../outside"]))
    with pytest.raises(IntegrityError, match=r"stages\.json"):
        find_garbage(Workspace.at(workspace), intermediate=True)


@pytest.mark.parametrize("name", ["../../outside", "a/../../b", "/outside", "a//b", "", 7])
def test_arrays_of_a_part_lie_in_it(workspace, name):
    path = next(iter(sorted(workspace.rglob("arrays.json"))))
    path.write_text(json.dumps([name]))
    parts = StoredParts(path.parents[3])
    with pytest.raises(IntegrityError, match=re.escape(str(path))):
        parts.read(int(path.parents[1].name))


@pytest.mark.parametrize("shape", [[0, 0], [0], ["a", 1], None])
def test_an_array_whose_chunks_make_no_sense_is_damaged(workspace, shape):
    path = next(path for path in sorted(workspace.rglob("zarr.json"))
                if len(json.loads(path.read_text())["shape"]) == 2)
    described = json.loads(path.read_text())
    described["chunk_grid"]["configuration"]["chunk_shape"] = shape
    path.write_text(json.dumps(described))
    os.utime(path)
    with pytest.raises(IntegrityError, match=re.escape(str(path))):
        open_array(path.parent)
