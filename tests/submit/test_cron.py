"""A schedule that a real cron keeps: its daemon in namespaces of its own, with a table of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..faults.machines import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(900)]
START = """\
set -e
mkdir -m 1730 {folder}/spool {folder}/spool/crontabs
chgrp crontab {folder}/spool/crontabs
mount --bind {folder}/spool /var/spool/cron
mount -t tmpfs tmpfs /run
touch {folder}/ready
exec cron -f
"""


@pytest.fixture
def within(tmp_path):
    """Return a function that runs a command of dssl where the daemon is."""
    if shutil.which("cron") is None or os.geteuid() != 0:
        pytest.skip("a cron of one's own needs root, and apt-get install cron")
    with open(tmp_path / "start.log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                                    START.format(folder=tmp_path)], stdout=log, stderr=log)

    def is_ready():
        if process.poll() is not None:
            pytest.skip(f"namespaces are not permitted here: {(tmp_path / 'start.log').read_text()[-200:]}")
        return (tmp_path / "ready").exists()

    wait_until(is_ready, "cron")
    inside = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]

    def call(*words):
        return subprocess.run(
            ["nsenter", "--target", inside, "--mount", "--pid", *map(str, words)], check=False,
            capture_output=True, text=True, timeout=300)

    yield call
    process.kill()
    process.wait()


def test_cron_starts_a_run_and_the_next_time_there_is_nothing_to_do(within, tmp_path):
    work = tmp_path / "work"
    (tmp_path / "mine.yaml").write_text("{name: mine, data: {source: digits, test: {count: 360}}, "
                                        "labels: {per_class: 2}}")
    assert within("sh", "-c", "echo '0 0 1 1 * true' | crontab -").returncode == 0

    def dssl(*words):
        done = within(sys.executable, "-m", "dssl.cli", "schedule", *words, "--workspace", work)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    dssl(tmp_path / "mine.yaml", "--on", "in-process", "--at", "* * * * *", "--to", "cron", "--install")
    [folder] = work.glob("schedules/*")
    log = folder / "log"
    wait_until(lambda: log.exists() and "nothing has changed since the last run" in log.read_text(), "two firings", 600)
    assert log.read_text().count(": done") == 1, log.read_text()
    assert json.loads(dssl("list", "--json"))[0]["installed"] is True
    dssl("remove", folder.name)
    assert within("crontab", "-l").stdout == "0 0 1 1 * true\n", "what somebody else has there stays"
