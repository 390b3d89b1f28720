"""Runs that come again: when, by whom they are started, and what happens then."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from dssl.base.errors import SpecError
from dssl.cli.main import main
from dssl.pipeline.schedule import FIRST_PAUSE, Schedule
from dssl.runtime.engine import Detached
from dssl.runtime.schedules import Cron, Scheduled, Systemd, Times
from dssl.runtime.slurm import SlurmRuntime, SlurmTimes
from dssl.storage.artifacts import Workspace

TIMES = ["0 2 * * *", "*/15 8-17 * * mon-fri", "30 4 1,15 * 5", "0 0 1 1 *", "5 4 * * sun", "59 23 31 12 *",
         "* * * * *", "0 12 29 2 *", "7 */5 * 3-5 6,0"]
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture
def scheduled(tmp_path):
    return Scheduled("mine-1234abcd", Times.of("30 4 1,15 * 5"), tmp_path,
                     (sys.executable, "-m", "dssl", "fire", str(tmp_path / 'a b%c"')),
                     ("echo", "2030-01-01T00:00:00"), Detached(), tmp_path, ())


@pytest.mark.parametrize(("text", "said"), [
    ("", "has 0 fields; why: cron has five: minute, hour, day of the month, month, weekday"),
    ("61 2 * *", "--at '61 2 * *' has 4 fields"), ("0 2 * * * *", "has 6 fields"), ("noon", "has 1 field;"),
    ("61 * * * *", "--at '61 * * * *': minute '61' is not one of 0 to 59;"),
    ("0 at 0 * sax", "hour 'at' is not one of 0 to 23; day of the month '0' is not one of 1 to 31; weekday 'sax' is"),
    ("0 2 30 2 *", "no month of these has day 30")])
def test_times_that_cron_does_not_know_are_refused_by_the_field_that_is_wrong(text, said):
    with pytest.raises(SpecError, match="--at") as refused:
        Times.of(text)
    assert said in str(refused.value).replace("\n  ", "; ")


@needs_systemd
@pytest.mark.parametrize("text", TIMES)
def test_systemd_starts_when_cron_would(text):
    times = Times.of(text)
    moment, own = datetime(2027, 3, 5, 7, 8), []
    for line in times.calendar():
        done = subprocess.run(["systemd-analyze", "calendar", "--base-time", f"{moment} UTC", line],
                              capture_output=True, text=True, check=True, env={"TZ": "UTC", "LC_ALL": "C"})
        own.append(datetime.fromisoformat(re.search(r"Next elapse: \w+ (\S+ \S+)", done.stdout)[1]))
    assert min(own) == times.after(moment)


@needs_systemd
def test_systemd_takes_the_units(scheduled, tmp_path):
    files = Systemd().render(scheduled)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in files)],
                          capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if "dssl" in line]
    assert complaints == [], done.stderr
    assert "OnCalendar=*-*-01,15 04:30:00\nOnCalendar=Fri *-*-* 04:30:00" in files["dssl-mine-1234abcd.timer"]


def test_the_log_of_a_service_is_that_of_the_schedule(scheduled, tmp_path):
    folder = tmp_path / "a b%n"
    service = Systemd().render(replace(scheduled, folder=folder))["dssl-mine-1234abcd.service"]
    assert f"StandardOutput=append:{tmp_path}/a b%%n/log\n" in service


def test_cron_is_given_one_line(scheduled, tmp_path):
    line = Cron().render(replace(scheduled, folder=tmp_path / "100% data"))["crontab"]
    assert line.count("\n") == 1
    assert line.startswith("30 4 1,15 * 5 ")
    assert line.endswith("# dssl: mine-1234abcd\n")
    assert "%" not in line.replace("\\%", "")


class Slurm:
    """Stands in for the commands of Slurm: what they are called with, and how often `sbatch` fails."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.says("squeue", "")
        self.says("sleep", f'echo "$@" >> {folder}/slept')  # which the script calls between two attempts
        self.fails(0)

    def says(self, name, script):
        (self.folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (self.folder / name).chmod(0o755)

    def fails(self, times):
        """Let `sbatch` fail so often, and note its arguments and its variables."""
        (self.folder / "left").write_text(str(times))
        self.says("sbatch", f"""cd {self.folder}
[ $(cat left) -gt 0 ] && {{ echo $(($(cat left) - 1)) > left; echo "no contact" >&2; exit 1; }}
echo "$@" >> handed-over; env > variables""")

    def read(self, name):
        path = self.folder / name
        return path.read_text() if path.is_file() else ""

    def runs(self, script, code=0):
        """Run a job's script; return what it says."""
        done = subprocess.run(["bash", "-s"], input=script, capture_output=True, text=True, check=False, env={
            "PATH": f"{self.folder}:/usr/bin:/bin", "SLURM_CONF": "/etc/slurm.conf", "SLURM_MEM_PER_NODE": "1024",
            "SLURM_JOB_ID": "7"})
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def slurm(tmp_path):
    return Slurm(tmp_path / "slurm")


def renewing(scheduled, **changes):
    """Return the script of a schedule whose command says "fired"."""
    return SlurmTimes().render(replace(scheduled, command=("echo", "fired"), **changes))["schedule.sh"]


def test_slurm_is_given_a_script_that_renews_itself(scheduled, slurm):
    script = renewing(scheduled)
    assert "--dependency=singleton" in script
    assert slurm.runs(script) == "fired\n"
    assert slurm.read("handed-over") == f"--begin=2030-01-01T00:00:00 {scheduled.folder}/schedule.sh\n"
    assert "SLURM_CONF=/etc/slurm.conf" in slurm.read("variables")
    assert "SLURM_MEM_PER_NODE" not in slurm.read("variables"), "which would be that of the next job, too"


def test_a_job_that_slurm_has_started_anew_hands_itself_over_once(scheduled, slurm):
    slurm.says("squeue", "echo 8")
    assert slurm.runs(renewing(scheduled)) == "fired\n"
    assert slurm.read("handed-over") == ""


def test_a_slurm_that_is_away_is_asked_again(scheduled, slurm):
    slurm.fails(3)
    assert slurm.runs(renewing(scheduled)) == "fired\n"
    assert slurm.read("handed-over").count("--begin=2030-01-01T00:00:00") == 1
    assert slurm.read("slept").split() == ["60", "300", "900"]


def test_a_chain_that_breaks_says_so(scheduled, slurm):
    slurm.fails(9)
    said = slurm.runs(renewing(scheduled), code=1)
    assert "fired\n" in said
    assert "install the schedule again" in said


def test_a_time_that_cannot_be_told_is_in_an_hour(scheduled, slurm):
    slurm.runs(renewing(scheduled, next=("false",)))
    assert slurm.read("handed-over").startswith("--begin=now+1hour ")


def test_a_schedule_has_what_slurm_needs_to_take_it(scheduled, slurm):
    engine = SlurmRuntime(kind="slurm", workers=2, memory_limit="2GiB", time="01:00:00", partition="normal",
                          account="mine", directives=["--qos=low", "--exclusive"]).engine()
    script = renewing(scheduled, engine=engine, folder=Path("/work/a b%j"))
    options = [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH")]
    assert {"--partition=normal", "--account=mine", "--time=01:00:00", "--qos=low", "--mem=1024M"} < set(options)
    assert "--exclusive" not in options
    assert '--output="/work/a b%%j/log"' in options


def test_an_installation_replaces_the_job_that_waits(scheduled, slurm, monkeypatch):
    monkeypatch.setenv("PATH", str(slurm.folder), prepend=os.pathsep)
    slurm.says("squeue", "echo 8")
    slurm.says("scancel", f'echo "$@" >> {slurm.folder}/ended')
    (scheduled.folder / "schedule.sh").write_text("")
    SlurmTimes().install(scheduled, {"schedule.sh": scheduled.folder / "schedule.sh"})
    assert slurm.read("handed-over").startswith("--begin=")
    assert slurm.read("ended") == "8\n"
    assert SlurmTimes().has(scheduled.name, scheduled.folder)
    slurm.says("squeue", "")
    assert not SlurmTimes().has(scheduled.name, scheduled.folder)


@pytest.fixture
def scrontab(slurm, monkeypatch):
    """A Slurm with scrontab, in which somebody has an entry."""
    monkeypatch.setenv("PATH", str(slurm.folder), prepend=os.pathsep)
    table = slurm.folder / "table"
    table.write_text("#SCRON --time=5\n@daily somebody\n")
    slurm.says("scrontab", f"""
if [ "$1" != -l ]; then cp "$1" {table}; elif [ -s {table} ]; then cat {table}
else echo "no crontab for me"; exit 1; fi""")
    return table


def test_a_schedule_is_an_entry_of_scrontab_where_there_is_one(scheduled, scrontab, tmp_path):
    before = scrontab.read_text()
    for installed in range(2):
        files = SlurmTimes().render(scheduled)
        assert list(files) == ["scrontab"]
        (scheduled.folder / "scrontab").write_text(files["scrontab"])
        SlurmTimes().install(scheduled, {"scrontab": scheduled.folder / "scrontab"})
        assert scrontab.read_text() == before + files["scrontab"], f"after {installed} earlier installations"
    assert "\n#SCRON --job-name=dssl-mine-1234abcd\n" in files["scrontab"]
    assert re.search(r"^30 4 1,15 \* 5 .* fire ", files["scrontab"], re.MULTILINE)
    assert SlurmTimes().has(scheduled.name, scheduled.folder)
    disabled = scrontab.read_text().replace("\n30 4", "\n#DISABLED: 30 4")
    scrontab.write_text(disabled)
    assert not SlurmTimes().has(scheduled.name, scheduled.folder)
    SlurmTimes().remove(scheduled.name, scheduled.folder)
    assert scrontab.read_text() == before


def test_an_empty_scrontab_is_one(scheduled, scrontab):
    scrontab.write_text("")
    assert list(SlurmTimes().render(scheduled)) == ["scrontab"]


def test_a_scrontab_that_is_switched_off_is_none(scheduled, scrontab, slurm):
    slurm.says("scrontab", 'echo "scrontab: fatal: scrontab is disabled on this cluster" >&2; exit 1')
    assert list(SlurmTimes().render(scheduled)) == ["schedule.sh"]


def schedule_in(folder, **fields):
    fields = {"spec": "mine.yaml", "set": [], "on": "in-process", "at": "0 2 * * *", "to": "cron", "retries": 3,
              "on_failure": None, "cwd": str(folder), "python": sys.executable, "environment": {}, **fields}
    schedule = Schedule.of(Workspace.at(folder), fields)
    with schedule.kept(fields, {"crontab": "0 2 * * * as it was\n"}):
        return schedule


def test_a_failure_is_tried_again_later_and_later(tmp_path):
    schedule, pauses, said, codes = schedule_in(tmp_path), [], [], iter([1, 4, 0])
    assert schedule.fire(lambda: next(codes), said.append, pauses.append) == 0
    assert pauses == [FIRST_PAUSE, 2 * FIRST_PAUSE]
    assert len(said) == 2


def test_whoever_is_told_of_failures_is_told_once(tmp_path):
    log = tmp_path / "told"
    schedule = schedule_in(tmp_path, retries=0, on_failure=f"echo x >> {log}")
    for code in (1, 3, 0, 2, 2):
        assert schedule.fire(lambda code=code: code, lambda text: None) == code
    assert log.read_text() == "x\nx\n", "once before it succeeded, and once after"


def test_one_firing_is_at_work_at_a_time(tmp_path):
    schedule = schedule_in(tmp_path)
    with schedule.alone() as first, schedule.alone() as second:
        assert (first, second) == (True, False)
    with schedule.alone() as third:
        assert third


@pytest.mark.cluster
@pytest.mark.slow
def test_the_second_firing_has_nothing_to_do(tmp_path, monkeypatch):
    """The run is a process of its own; the commands are called here."""
    monkeypatch.chdir(tmp_path)

    def dssl(*words, code=0):
        done = CliRunner().invoke(main, [*map(str, words)])
        assert done.exit_code == code, done.output
        return done.stdout

    spec, work = tmp_path / "mine.yaml", tmp_path / "work"
    spec.write_text("{name: mine, data: {source: two_moons, points: 200, test: {count: 60}}, labels: {per_class: 2}, "
                    "model: {kind: graph}}")
    schedule = schedule_in(work, spec=str(spec), retries=0, cwd=str(tmp_path))
    assert ": done" in dssl("fire", schedule.folder)
    assert "nothing has changed since the last run" in dssl("fire", schedule.folder)
    assert len(list(work.glob("runs/*"))) == 1
    with schedule.alone():
        assert "this one is skipped" in dssl("fire", schedule.folder)
    assert json.loads(dssl("schedule", "list", "--workspace", work, "--json"))[0]["failing"] is False
    assert datetime.fromisoformat(dssl("due", schedule.folder).strip()).hour == 2
    spec.write_text(spec.read_text().replace("60", "0"))
    dssl("fire", schedule.folder, code=2)
    assert json.loads(dssl("schedule", "list", "--workspace", work, "--json"))[0]["failing"] is True


def files_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def added(tmp_path, monkeypatch):
    """Return a function that calls `dssl schedule` for a spec, where nothing can be installed; and the workspace."""
    spec, empty = tmp_path / "mine.yaml", tmp_path / "empty"
    spec.write_text("{name: mine, data: {source: digits}, labels: {per_class: 2}}")
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def call(*options, to="cron"):
        return CliRunner().invoke(main, ["schedule", str(spec), "--on", "in-process", "--at", "0 2 * * *", "--to", to,
                                         "--workspace", str(tmp_path / "work"), *options])

    return call


def test_what_would_be_installed_is_shown(added, tmp_path):
    done = added()
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("0 2 * * * ")
    assert "nothing was installed" in done.stderr
    assert not list((tmp_path / "work").glob("schedules/*"))


@pytest.mark.parametrize("options", [(), ("--install",)], ids=["preview", "install"])
def test_an_installed_schedule_survives_a_preview_and_an_installation_that_fails(added, tmp_path, options):
    work = tmp_path / "work"
    schedule = schedule_in(work, spec=str(tmp_path / "mine.yaml"))
    (schedule.folder / "log").write_text("a night ago\n")
    before = files_in(work)
    done = added(*options)
    assert done.exit_code == (4 if options else 0), done.output
    assert ("there is no command crontab" in done.output) == bool(options)
    assert files_in(work) == before


def test_a_schedule_that_somebody_has_removed_is_listed_as_such(added, tmp_path):
    crontab, table = tmp_path / "empty" / "crontab", tmp_path / "table"
    crontab.write_text(f"""#!/bin/sh
if [ "$1" = - ]; then /bin/cat > {table}; elif [ -s {table} ]; then /bin/cat {table}; else
echo "no crontab for me" >&2; exit 1; fi
""")
    crontab.chmod(0o755)

    def listed(*options):
        return CliRunner().invoke(main, ["schedule", "list", "--workspace", str(tmp_path / "work"), *options]).stdout

    assert "has no schedules" in listed()
    assert added("--install").exit_code == 0

    assert json.loads(listed("--json"))[0]["installed"] is True
    assert ", next 2" in listed()
    table.unlink()
    assert json.loads(listed("--json"))[0]["installed"] is False
    assert "not installed any more" in listed()
    crontab.unlink()
    assert json.loads(listed("--json"))[0]["installed"] is None
    assert "if it is still installed" in listed()


@pytest.mark.parametrize(("to", "command"), [("cron", "crontab"), ("systemd", "systemctl"), ("slurm", "squeue")])
def test_an_installation_that_fails_leaves_nothing(added, tmp_path, to, command):
    done = added("--install", to=to)
    assert done.exit_code == 4, done.output
    assert f"there is no command {command}" in done.output
    assert files_in(tmp_path / "work") == {}
    assert not list((tmp_path / "config").rglob("dssl-*"))


def test_a_crontab_that_cannot_be_read_is_not_overwritten(added, tmp_path):
    crontab = tmp_path / "empty" / "crontab"
    crontab.write_text('#!/bin/sh\n[ "$1" = -l ] && { echo "cannot read it now" >&2; exit 1; }\necho "$@" >> '
                       f'{tmp_path}/written\n')
    crontab.chmod(0o755)
    done = added("--install")
    assert done.exit_code == 4, done.output
    assert "cannot read it now" in done.output
    assert not (tmp_path / "written").exists()
