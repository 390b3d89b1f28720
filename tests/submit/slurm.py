"""A Slurm of two nodes, each in namespaces of its own: another host name, network, processes; files are shared."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ..faults.machines import wait_until

NEEDED = ("slurmctld", "slurmd", "sbatch", "munged", "ip", "unshare", "nsenter")
NODES = {"node1": "10.99.0.1", "node2": "10.99.0.2"}
NAMESPACES = ("unshare", "-mnup", "--fork", "--kill-child", "--mount-proc")
CONFIG = """\
ClusterName=dssltest
SlurmctldHost=node1(10.99.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A job that is put back waits until the credentials of its last start are over, two minutes where this is not set.
AuthInfo=socket={folder}/munge/socket,cred_expire=15
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdTimeout=20
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
MpiDefault=none
KillWait=20
MinJobAge=3600
SchedulerParameters=bf_interval=2,sched_interval=2
SchedulerType=sched/backfill
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
NodeName=node1 NodeAddr=10.99.0.1 CPUs=8 RealMemory=20000 State=UNKNOWN
NodeName=node2 NodeAddr=10.99.0.2 CPUs=8 RealMemory=20000 State=UNKNOWN
PartitionName=debug Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=node1,node2 MaxTime=INFINITE State=UP PriorityTier=2
"""
START = """\
set -eu
hostname {node}
ip link set lo up
mount --bind {folder}/hosts /etc/hosts
"""
FIRST = START + """\
ip link add dssl0 type veth peer name dssl0-end  # the address outlives the cable to node2
ip addr add 10.99.0.1/32 dev dssl0
ip link set dssl0 up
ip link set dssl0-end up
dd if=/dev/urandom of={folder}/munge/key bs=1 count=1024 2> /dev/null
chmod 400 {folder}/munge/key
munged --force --key-file={folder}/munge/key --socket={folder}/munge/socket --pid-file={folder}/munge/pid \\
    --log-file={folder}/munge/log --seed-file={folder}/munge/seed
slurmctld -i
slurmd -N node1
sleep infinity
"""
SECOND = START + """\
until ip link show dssl2 > /dev/null 2>&1; do sleep 0.05; done
ip addr add 10.99.0.2/32 dev dssl2
ip link set dssl2 up
ip route add 10.99.0.1 dev dssl2
slurmd -N node2
sleep infinity
"""
CABLE = """\
while ip link show dssl1 > /dev/null 2>&1; do sleep 0.05; done  # that of a node which was cut off goes with it
ip link add dssl1 type veth peer name dssl2
ip link set dssl2 netns {node2}
ip link set dssl1 up
ip route add 10.99.0.2 dev dssl1 src 10.99.0.1
"""


class Slurm:
    """Starts the daemons, and runs commands on the first node, where the controller is."""

    def __init__(self, folder: Path):
        missing = [name for name in NEEDED if shutil.which(name) is None]
        if missing or os.geteuid() != 0:
            pytest.skip(f"Slurm's daemons need {', '.join(missing) or 'root'}: apt-get install slurm-wlm munge "
                        "iproute2")
        self.folder, self.nodes = folder, {}
        for name in ("munge", "state", "spool"):
            (folder / name).mkdir()
            (folder / name).chmod(0o755)
        (folder / "slurm.conf").write_text(CONFIG.format(folder=folder))
        (folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\nConstrainRAMSpace=no\n")
        hosts = "".join(f"{address} {node}\n" for node, address in NODES.items())
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        for node, script in zip(NODES, (FIRST, SECOND), strict=True):
            (folder / f"{node}.sh").write_text(script.format(folder=folder, node=node))
        self.variables = {"SLURM_CONF": str(folder / "slurm.conf")}  # by which commands find it
        try:
            self._start("node1")
            wait_until(lambda: self._state("node1") == "idle", "Slurm")
            self.power_on()
        except BaseException:
            self.end()
            raise

    def _start(self, node: str) -> None:
        """Start a node."""
        with open(self.folder / f"{node}.log", "w", encoding="utf-8") as log:
            self.nodes[node] = subprocess.Popen([*NAMESPACES, "bash", str(self.folder / f"{node}.sh")],
                                                stdout=log, stderr=log, env=os.environ | self.variables)
        wait_until(lambda: self._first_process(node) is not None, node)

    def _first_process(self, node: str) -> str | None:
        """Return the first process of a node."""
        process = self.nodes[node]
        if process.poll() is not None:
            text = (self.folder / f"{node}.log").read_text()
            if "ermitted" in text:
                pytest.skip(f"namespaces are not permitted here: {text[-200:]}")
            pytest.fail(text)
        return next(iter(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()), None)

    def _state(self, node: str) -> str:
        self._first_process(node)  # fails where the node has ended
        return self.call("sinfo", "--noheader", f"--nodes={node}", "--format=%T", check=False).stdout.strip()

    def within(self, *command, node: str = "node1") -> list[str]:
        """Return a command that runs on a node."""
        return ["nsenter", "--target", self._first_process(node), "--mount", "--net", "--uts", "--pid",
                *map(str, command)]

    def call(self, *command, check=True, seconds=60) -> subprocess.CompletedProcess[str]:
        """Run a command on the first node."""
        return subprocess.run(self.within(*command), capture_output=True, text=True, env=os.environ | self.variables,
                              check=check, timeout=seconds)

    def jobs(self, form: str = "%T") -> dict[str, str]:
        """Return the state of each job, or what else a letter of squeue stands for."""
        found = self.call("squeue", "--noheader", "--states=all", f"--format=%i {form}").stdout
        return {job: rest.strip() for job, _, rest in (line.partition(" ") for line in found.splitlines())}

    # ---- what becomes of nodes

    def drain(self, *nodes: str) -> None:
        """Have nodes take no further job; what runs there goes on."""
        self.call("scontrol", "update", f"nodename={','.join(nodes)}", "state=drain", "reason=test")

    def resume(self) -> None:
        """Have all nodes take jobs again."""
        for node in NODES:
            if "drain" in self._state(node):
                self.call("scontrol", "update", f"nodename={node}", "state=resume")

    def power_on(self) -> None:
        """Start the second node."""
        self._start("node2")
        subprocess.run(["nsenter", "--target", self._first_process("node1"), "--net", "bash", "-euc",
                        CABLE.format(node2=self._first_process("node2"))], check=True)
        wait_until(lambda: self._state("node2") == "idle", "node2")

    def power_off(self) -> None:
        """Have the second node end as by a cut of its power: nobody is told."""
        self.nodes["node2"].kill()
        self.nodes["node2"].wait()

    def cut_off(self) -> None:
        """Cut the network of the second node, on which all goes on, until it is started again."""
        self.call("ip", "link", "set", "dssl1", "down")

    def end(self) -> None:
        """End all of it."""
        for process in reversed(self.nodes.values()):
            process.kill()
            process.wait()
