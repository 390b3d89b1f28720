"""The kinds of schedules, by the words of `--to`."""

from .kubernetes import CronJobs
from .schedule import Cron, Scheduler, Systemd
from .slurm import SlurmTimes

SCHEDULERS: dict[str, Scheduler] = {"cron": Cron(), "systemd": Systemd(), "slurm": SlurmTimes(),
                                    "kubernetes": CronJobs()}
