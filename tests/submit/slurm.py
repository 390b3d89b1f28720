"""A Slurm of one node, in namespaces of its own: another network, other processes, its own files in /run."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ..faults.machines import wait_until

NEEDED = ("slurmctld", "slurmd", "sbatch", "munged", "ip", "unshare", "nsenter")
CONFIG = """\
ClusterName=dssltest
SlurmctldHost=node1(10.99.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
MpiDefault=none
KillWait=20
MinJobAge=300
SchedulerParameters=bf_interval=2,sched_interval=2
SchedulerType=sched/backfill
JobRequeue=1
SlurmdParameters=config_overrides
NodeName=node1 NodeAddr=10.99.0.1 CPUs=8 RealMemory=16000 State=UNKNOWN
PartitionName=debug Nodes=node1 Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
"""
START = """\
set -eu
hostname node1
ip link set lo up
ip link add dssl0 type veth peer name dssl1  # getaddrinfo gives no address where there is only a loopback
ip addr add 10.99.0.1/24 dev dssl0
ip link set dssl0 up
ip link set dssl1 up
cp /etc/hosts {folder}/hosts
echo "10.99.0.1 node1" >> {folder}/hosts
mount --bind {folder}/hosts /etc/hosts
dd if=/dev/urandom of={folder}/munge/key bs=1 count=1024 2> /dev/null
chmod 400 {folder}/munge/key
munged --force --key-file={folder}/munge/key --socket={folder}/munge/socket --pid-file={folder}/munge/pid \\
    --log-file={folder}/munge/log --seed-file={folder}/munge/seed
slurmctld -i
slurmd -N node1
sleep infinity
"""


class Slurm:
    """Starts the daemons, and runs commands where these are."""

    def __init__(self, folder: Path):
        missing = [name for name in NEEDED if shutil.which(name) is None]
        if missing or os.geteuid() != 0:
            pytest.skip(f"Slurm's daemons need {', '.join(missing) or 'root'}: apt-get install slurm-wlm munge")
        self.folder = folder
        for name in ("munge", "state", "spool"):
            (folder / name).mkdir()
            (folder / name).chmod(0o755)
        (folder / "slurm.conf").write_text(CONFIG.format(folder=folder))
        (folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\nConstrainRAMSpace=no\n")
        (folder / "start.sh").write_text(START.format(folder=folder))
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
        with open(folder / "start.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(["unshare", "-mnup", "--fork", "--kill-child", "--mount-proc", "bash",
                                             str(folder / "start.sh")], stdout=log, stderr=log, env=self.environment)
        wait_until(self._is_ready, "Slurm", 60)

    def _is_ready(self):
        if self.process.poll() is not None:
            text = (self.folder / "start.log").read_text()
            if "ermitted" in text:
                pytest.skip(f"namespaces are not permitted here: {text[-200:]}")
            pytest.fail(text)
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        if not children:
            return False
        self.inside = children[0]
        done = self.call("sinfo", "--noheader", "--format=%T", check=False)
        return done.stdout.strip() == "idle"

    def within(self, *command):
        """Return a command that runs where the daemons are."""
        return ["nsenter", "--target", self.inside, "--mount", "--net", "--uts", "--pid", *map(str, command)]

    def call(self, *command, check=True, seconds=60):
        """Run a command where the daemons are."""
        return subprocess.run(self.within(*command), capture_output=True, text=True, env=self.environment, check=check,
                              timeout=seconds)

    def jobs(self):
        """Return state by job."""
        found = self.call("squeue", "--noheader", "--states=all", "--format=%i %T").stdout
        return dict(line.split() for line in found.splitlines())

    def end(self):
        """End all of it."""
        self.process.terminate()
        time.sleep(0.2)
        self.process.kill()
        self.process.wait()
