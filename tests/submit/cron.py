"""A cron daemon of its own: with crontabs and processes that only it sees."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ..faults.machines import wait_until

NEEDED = ("cron", "crontab", "unshare", "nsenter")
START = """\
set -eu
mount --bind {folder}/crontabs /var/spool/cron/crontabs
mount --bind {folder}/nothing /etc/cron.d
mount --bind /dev/null /etc/crontab
mount -t tmpfs none /run
touch {folder}/started
exec cron -f
"""


class CronDaemon:
    """Starts the daemon, and commands that see its crontabs."""

    def __init__(self, folder: Path):
        missing = [name for name in NEEDED if shutil.which(name) is None]
        if missing or os.geteuid() != 0:
            pytest.skip(f"a cron daemon needs {', '.join(missing) or 'root'}: apt-get install cron")
        for name in ("crontabs", "nothing"):
            (folder / name).mkdir()
        shutil.chown(folder / "crontabs", group="crontab")
        (folder / "crontabs").chmod(0o1730)
        (folder / "start.sh").write_text(START.format(folder=folder))
        with open(folder / "start.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(["unshare", "-mup", "--fork", "--kill-child", "--mount-proc", "bash",
                                             str(folder / "start.sh")], stdout=log, stderr=log)
        wait_until(lambda: (folder / "started").exists() or self.process.poll() is not None, "cron")
        if self.process.poll() is not None:
            text = (folder / "start.log").read_text()
            if "ermitted" in text:
                pytest.skip(f"namespaces are not permitted here: {text[-200:]}")
            pytest.fail(text)
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.inside = ["nsenter", "--target", children.read_text().split()[0], "--mount", "--uts", "--pid"]

    def crontab(self, lines: str | None = None) -> str:
        """Return the crontab, after it has been replaced where lines are given."""
        if lines is not None:
            subprocess.run([*self.inside, "crontab", "-"], input=lines, text=True, check=True)
        return subprocess.run([*self.inside, "crontab", "-l"], capture_output=True, text=True, check=True).stdout

    def end(self) -> None:
        """End it, and what it has started."""
        self.process.kill()
        self.process.wait()
