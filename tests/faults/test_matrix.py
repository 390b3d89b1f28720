"""Faults at stages of a run, on real processes: the bytes of an undisturbed run, or an end that names the cause.

Each fault is a function of the machines and a stage; it ends with a run that is over, after which the artifacts are
compared, byte by byte, with those of a run to which nothing happened. Every worker takes a quarter of a second for a
task, so that a fault meets one.
"""

import os
import signal
import subprocess
import time

import pytest

from dssl.storage.files import remove_tree

from .machines import HEARTBEAT, OTHER_BUDGET, PATIENCE, UNTIL, wait_until

pytestmark = [pytest.mark.cluster]
STAGES = ("points", "neighbors", "graph", "columns")
INPUT = {"points": "dataset", "neighbors": "points", "graph": "neighbors", "columns": "system", "covariance": "columns"}
FIRST = {"points": 1, "neighbors": 2, "graph": 0, "columns": 2}  # finished parts of a stage at which the fault comes


def begun(machines, stage, workers=2, memory="2GiB", **environment):
    """Return scheduler, workers and a run that is in a stage."""
    scheduler = machines.scheduler()
    hands = [machines.worker(scheduler.address, memory=memory, **environment) for _ in range(workers)]
    run = machines.run(scheduler.address)
    machines.wait_for(stage, run, FIRST[stage])
    return scheduler, hands, run


def same(stored, expected, more=None):
    """Assert that the contents of artifacts are those of an undisturbed run; more : what names of others contain."""
    others = {name for name in set(stored) - set(expected) if more is None or more not in name}
    assert (others, set(expected) - set(stored)) == (set(), set())
    assert [name for name in expected if stored[name] != expected[name]] == []
    assert any(name.startswith(UNTIL) for name in expected)


def worker_killed(machines, stage):
    _, hands, run = begun(machines, stage)
    hands[0].kill()
    machines.ended(run, 0)


def workers_killed(machines, stage):
    scheduler, hands, run = begun(machines, stage)
    for worker in hands:
        worker.kill()
    machines.ended(run, 4, f"the scheduler at {scheduler.address} has had no workers for {PATIENCE:.0f} seconds")
    machines.resume()


def scheduler_killed(machines, stage):
    scheduler, _, run = begun(machines, stage)
    scheduler.kill()
    machines.ended(run, 4, f"the scheduler at {scheduler.address} was lost")
    machines.resume()


def driver_killed(machines, stage):
    _, _, run = begun(machines, stage)
    run.kill()
    run.wait()
    machines.resume()


def worker_stopped(machines, stage):
    _, hands, run = begun(machines, stage)
    hands[0].send_signal(signal.SIGSTOP)
    machines.ended(run, 0)


def worker_stopped_for_a_while(machines, stage):
    """The task that it holds runs elsewhere, and here once more: the same part is written twice."""
    _, hands, run = begun(machines, stage)
    hands[0].send_signal(signal.SIGSTOP)
    time.sleep(HEARTBEAT + 1)
    hands[0].send_signal(signal.SIGCONT)
    machines.ended(run, 0)


def workers_paused(machines, stage):
    """One is at its memory limit as soon as it has come, of which 2 % are allowed; the other is killed."""
    scheduler = machines.scheduler()
    healthy = machines.worker(scheduler.address)
    full = machines.worker(scheduler.address, DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE="0.02",
                           DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE="False",
                           DASK_DISTRIBUTED__WORKER__MEMORY__SPILL="False",
                           DASK_DISTRIBUTED__WORKER__MEMORY__TARGET="False")
    run = machines.run(scheduler.address)
    machines.wait_for(stage, run, FIRST[stage])
    wait_until(lambda: "Pausing worker" in full.log.read_text(), "the worker to be full")
    healthy.kill()
    message = machines.ended(run, 4, "all 1 workers at ")
    assert f"have been paused for {PATIENCE:.0f} seconds" in message
    machines.resume()


def another_run(machines, stage):
    _, _, run = begun(machines, stage)
    run.send_signal(signal.SIGSTOP)  # else it may be over before the other has begun
    machines.ended(machines.run(), 5, f"process {run.pid} on ")
    run.send_signal(signal.SIGCONT)
    machines.ended(run, 0)


def lease_lost(machines, stage):
    """Another host has taken the lock, which it may if this one did not renew it."""
    _, _, run = begun(machines, stage)
    lock = machines.workspace / "lock.json"
    lock.write_text(lock.read_text().replace('"host": "', '"host": "another-').replace('"token": "', '"token": "f'))
    machines.ended(run, 5, "has taken")
    lock.unlink()
    machines.resume()


def orphan_writes_late(machines, stage):
    """A worker of a killed run goes on after the next run has begun with another memory budget."""
    _, hands, run = begun(machines, stage)
    for worker in hands:
        worker.send_signal(signal.SIGSTOP)
    run.kill()
    run.wait()
    machines.resume(OTHER_BUDGET, stage)
    for worker in hands:
        worker.send_signal(signal.SIGCONT)
    time.sleep(1.0)  # in which it writes what it has in hand
    machines.resume(OTHER_BUDGET)
    return stage


def blind_worker(machines, stage):
    """It sees another folder under the workspace's name."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("user namespaces are not permitted here")
    scheduler = machines.scheduler()
    machines.worker(scheduler.address)
    run = machines.run(scheduler.address)
    machines.wait_for(stage, run, FIRST[stage])
    machines.worker(scheduler.address, inside=(
        "unshare", "-rm", "sh", "-c", f'mount -t tmpfs tmpfs {machines.workspace} && exec "$@"', "sh"))
    time.sleep(0.5)
    machines.processes[1].kill()
    machines.ended(run, 4, "cannot open")
    machines.resume()


def full_disk(machines, stage):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", machines.folder / "disk"], check=False,
                      capture_output=True, preexec_fn=(machines.folder / "disk").mkdir).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    machines.workspace = machines.folder / "disk" / "work"
    try:
        _, _, run = begun(machines, stage)
        ballast = machines.folder / "disk" / "ballast"
        with open(ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
        machines.ended(run, 1, "No space left on device")
        ballast.unlink()
        machines.resume()
        return machines.contents()
    finally:
        for process in machines.processes:
            process.kill()
            process.wait()
        subprocess.run(["umount", "-l", machines.folder / "disk"], check=True)


def network_cut(machines, stage):
    """The worker's end of a pair of links goes down; what it had in hand is done by another worker, here."""
    names = tuple(f"dssl{os.getpid() % 10000}{side}" for side in "ab")
    made = subprocess.run(["ip", "link", "add", names[0], "type", "veth", "peer", "name", names[1]], check=False,
                          capture_output=True)
    if made.returncode:
        pytest.skip("a network of its own is not permitted here")
    space, own = f"dssl{os.getpid()}", f"10.231.{os.getpid() % 200}"
    try:
        for command in (f"ip netns add {space}", f"ip link set {names[1]} netns {space}",
                        f"ip addr add {own}.1/24 dev {names[0]}", f"ip link set {names[0]} up",
                        f"ip netns exec {space} ip addr add {own}.2/24 dev {names[1]}",
                        f"ip netns exec {space} ip link set {names[1]} up",
                        f"ip netns exec {space} ip link set lo up"):
            subprocess.run(command.split(), check=True)
        scheduler = machines.scheduler(host="0.0.0.0")
        port = scheduler.address.rpartition(":")[2]
        machines.worker(f"tcp://{own}.1:{port}", inside=("ip", "netns", "exec", space))
        machines.worker(f"tcp://127.0.0.1:{port}")
        run = machines.run(f"tcp://127.0.0.1:{port}")
        machines.wait_for(stage, run, FIRST[stage])
        subprocess.run(["ip", "link", "set", names[0], "down"], check=True)
        machines.ended(run, 0)
    finally:
        subprocess.run(["ip", "link", "del", names[0]], check=False)
        subprocess.run(["ip", "netns", "del", space], check=False)


def _damaged(machines, stage, damage):
    """Damage a chunk of what a stage reads, before the stage begins."""
    before = INPUT[stage]
    machines.resume(until=before)
    folder = next((machines.workspace / "artifacts" / before).iterdir())
    largest = max((path for path in folder.rglob("*") if path.is_file() and path.suffix != ".json"),
                  key=lambda path: (path.stat().st_size, str(path)))
    damage(largest)
    message = machines.ended(machines.run(until=stage), 3, str(largest))
    assert f"delete {folder} and run again" in message
    remove_tree(folder)
    machines.resume()


def flipped(machines, stage):
    def flip(path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 8
        path.write_bytes(data)

    _damaged(machines, stage, flip)


def truncated(machines, stage):
    _damaged(machines, stage, lambda path: path.write_bytes(path.read_bytes()[:-7]))


def deleted(machines, stage):
    _damaged(machines, stage, lambda path: path.unlink())


FAULTS = (worker_killed, workers_killed, scheduler_killed, driver_killed, worker_stopped, worker_stopped_for_a_while,
          workers_paused, another_run, lease_lost, orphan_writes_late, blind_worker, full_disk, network_cut, flipped,
          truncated, deleted)
# A worker that goes on with its task after another has done it may write what an intermediate step needed, once the
# artifact is complete, to where nobody looks.
WORKERS_GO_ON = (driver_killed, lease_lost, orphan_writes_late, worker_stopped_for_a_while)
SLOW = {(workers_killed, "neighbors"), (orphan_writes_late, "neighbors")}
CELLS = [pytest.param(fault, stage, id=f"{fault.__name__}-{stage}", marks=[
    pytest.mark.slow if (fault, stage) in SLOW else pytest.mark.extended]) for fault in FAULTS for stage in STAGES]


@pytest.mark.parametrize(("fault", "stage"), CELLS)
def test_the_same_bytes_after(machines, undisturbed, fault, stage):
    found = fault(machines, stage)
    expected = undisturbed(found if isinstance(found, str) else None)
    found = found if isinstance(found, dict) else machines.contents()
    same(found, expected, "/within/" if fault in WORKERS_GO_ON else None)
