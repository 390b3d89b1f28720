"""A growing run on two workers that is killed goes on where it stopped, to the bytes of one that nothing happens to."""

import os
import shutil
import signal
import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

from ..stored import contents
from .conftest import LOCAL

SPEC = """
name: growing
data: {source: 'FOLDER/part-*.npz', grows: true, test: {none: true}, scale: global_range}
labels: {per_class: 2}
model: {kind: svm, n_landmarks: 120}
graph: {method: exact}
solver: {method: gauss_seidel, block_columns: 4}
kernel: {bandwidth: 0.5*median}
"""


def finished(workspace):
    return len(list(workspace.glob("artifacts/columns/*/*/receipts/[0-9]*.json")))


@pytest.mark.slow
def test_a_growing_run_that_is_killed_goes_on_to_the_same_bytes(tmp_path, dssl, start):
    X, y = load_digits(return_X_y=True)
    killed, other, spec = tmp_path / "killed", tmp_path / "other", tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("FOLDER", str(tmp_path)))
    np.savez(tmp_path / "part-1.npz", X=X[:1700], y=y[:1700])
    assert dssl("run", spec, "--workspace", killed, "--on", "in-process").code == 0
    shutil.copytree(killed, other)
    np.savez(tmp_path / "part-2.npz", X=X[1700:], y=y[1700:])
    before = finished(killed)
    running = start("run", spec, "--workspace", killed, "--on", LOCAL)
    deadline = time.monotonic() + 120
    while finished(killed) < before + 3:
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < deadline, "the columns were not reached"
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate()
    for workspace in (killed, other):
        done = dssl("run", spec, "--workspace", workspace, "--on", "in-process")
        assert done.code == 0, done.err
        assert "1 new file with 97 rows (part-2.npz) beside the 1,700 rows" in done.err
    assert contents(killed) == contents(other)
    assert dssl("verify", "--workspace", killed).code == 0
    assert "no file is new since run" in dssl("run", spec, "--workspace", killed, "--on", "in-process").err
