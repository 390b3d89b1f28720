"""Runs at certain times: what is written for cron, systemd, Slurm and Kubernetes, which do the waiting."""

from .kubernetes import CronJobs
from .schedule import Cron, Scheduler, Systemd
from .slurm import SlurmTimes

SCHEDULERS: dict[str, Scheduler] = {"cron": Cron(), "systemd": Systemd(), "slurm": SlurmTimes(),
                                    "kubernetes": CronJobs()}
