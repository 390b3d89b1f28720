"""`dssl submit`, `logs` and `fire` where something is wrong: what they leave behind, and what they say."""

import json
import os
import signal
import socket
import time

import pytest
import yaml
from click.testing import CliRunner

from dssl.base.errors import SpecError
from dssl.cli.main import main
from dssl.cli.submit import print_submitted
from dssl.pipeline.load import load_spec
from dssl.pipeline.records import require_no_secret
from dssl.pipeline.schedule import Schedule
from dssl.pipeline.submission import Submission
from dssl.runtime.engine import Detached
from dssl.storage.artifacts import Workspace

SPEC = {"name": "here", "data": {"source": "digits"}, "labels": {"per_class": 2}}
SLURM = {"kind": "slurm", "workers": 2, "memory_limit": "2GiB", "time": "00:30:00"}
SECRET = "canary-3141592653"


@pytest.fixture
def called(tmp_path):
    """Return a function that calls a command in the workspace."""
    (tmp_path / "here.yaml").write_text(yaml.safe_dump(SPEC))

    def call(*words):
        return CliRunner().invoke(main, [*map(str, words), "--workspace", str(tmp_path / "work")])

    return call


@pytest.fixture
def submitted(tmp_path, called):
    """Return a function that submits the spec to what a cluster description says."""
    def submit(cluster, *options):
        (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(cluster))
        return called("submit", tmp_path / "here.yaml", "--on", tmp_path / "cluster.yaml", *options)

    return submit


def runs(tmp_path):
    return list((tmp_path / "work").glob("runs/*"))


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_job_that_cannot_be_rendered_leaves_no_run(submitted, tmp_path, options):
    done = submitted({"kind": "kubernetes", "image": "dssl", "claim": "work", "mount": "/elsewhere", "workers": 2,
                      "memory_limit": "2GiB"}, *options)
    assert done.exit_code == 2, done.output
    assert "does not lie below /elsewhere" in done.output
    assert runs(tmp_path) == []


def test_a_job_that_the_engine_refuses_leaves_no_run(submitted, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = submitted(SLURM)
    assert done.exit_code == 4, done.output
    assert "there is no command sbatch" in done.output
    assert runs(tmp_path) == []


LARGER = {"data": {"source": "manifolds:12000x64", "test": {"count": 500}}}


@pytest.mark.parametrize(("spec", "code", "said"), [
    (LARGER | {"model": {"kind": "laprls"}}, 0, "the memory budget of this run is 96.4MB: a worker has 96.4MB for a "
     "task, of a memory limit of 1.07GB of which its process takes 844MB"),
    (LARGER | {"model": {"kind": "laprls"}, "memory_budget": "512MB"}, 1, "or raise the memory_limit of workers to 1."),
    (LARGER | {"graph": {"method": "descent"}, "data": {"source": "manifolds:60000x64"}}, 1,
     "the memory budget is 96.4MB, and a worker has 96.4MB for it, of a memory limit of 1.07GB"),
    (SPEC, 0, "")])
def test_a_batch_worker_of_one_gib_has_a_budget_that_fits_or_is_refused_at_once(submitted, tmp_path, spec, code, said):
    """Of 1 GiB a Nanny takes 384 MiB, and libraries 420 MiB; the default budget is 1 GiB."""
    (tmp_path / "here.yaml").write_text(yaml.safe_dump(SPEC | spec))
    done = submitted(SLURM | {"memory_limit": "1GiB"}, "--dry-run")
    assert done.exit_code == code, done.output
    assert said in done.stderr
    assert bool(said) == bool(done.stderr)
    if code:
        assert "memory_limit of workers to 1." in done.stderr  # what is enough counts the Nanny too


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_job_is_handed_over_does_not_orphan_it(submitted, called, tmp_path, monkeypatch, number):
    submit = Detached.submit

    def interrupted(engine, job, path):
        path.write_text("#!/bin/sh\nexec sleep 60\n")
        handle = submit(engine, job, path)
        os.kill(os.getpid(), number)
        time.sleep(0.1)
        return handle

    monkeypatch.setattr(Detached, "submit", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    try:
        done = submitted({"kind": "local", "workers": 1, "memory_limit": "2GiB"})
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.exit_code == 128 + number, done.output
    [run] = runs(tmp_path)
    pid = json.loads((run / "submission" / "engine.json").read_text())["handle"]["pid"]
    assert "is cancelled" in called("cancel", run.name).output
    assert os.waitpid(pid, 0)[0] == pid


def ended(tmp_path):
    """Return a submitted run whose job has died on this machine."""
    made = Submission.freeze(Workspace.at(tmp_path / "work"), load_spec(SPEC),
                             {"kind": "local", "workers": 2, "memory_limit": "2GiB"}, {})
    made.hand_over("this machine", {"pid": 2**22 + 1, "started": 0.0, "host": socket.gethostname()})
    return made


def test_the_commands_that_a_submitted_run_prints_name_its_workspace(tmp_path, capsys, monkeypatch):
    print_submitted(tmp_path / "work" / "runs" / "one", False, again=False)
    assert f"`dssl wait one --workspace {tmp_path / 'work'}`" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    print_submitted(tmp_path / "dssl-work" / "runs" / "one", False, again=False)
    assert "`dssl wait one`" in capsys.readouterr().err


@pytest.mark.timeout(60)
def test_the_log_of_a_lost_run_has_an_end(called, tmp_path):
    made = ended(tmp_path)
    (made.folder / "logs" / "rank-1.log").write_text("the last words\n")
    (made.folder / "logs" / "job.log").write_text("not these\n")
    done = called("logs", "--follow")
    assert (done.exit_code, done.stdout) == (0, "the last words\n")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("options", [(), ("--follow",), ("--rank", "0")])
def test_where_no_rank_has_begun_the_log_of_the_job_says_why(called, tmp_path, options):
    made = ended(tmp_path)
    done = called("logs", made.folder.name, *options)
    assert "that log is empty too" in done.stderr
    (made.folder / "logs" / "job.log").write_text("module: command not found\n")
    done = called("logs", made.folder.name, *options)
    assert (done.exit_code, done.stdout) == (0, "module: command not found\n")
    assert "has not written anything" in done.stderr


def test_the_newest_run_is_the_newest_that_was_submitted(called, tmp_path):
    made = ended(tmp_path)
    (made.folder / "logs" / "rank-1.log").write_text("hello\n")
    (tmp_path / "work" / "runs" / "99991231T235959-ffffff").mkdir()
    assert called("logs").stdout == "hello\n"
    done = called("wait")
    assert (done.exit_code, done.stdout) == (4, f"{made.folder.name}: lost\n")


def test_whatever_goes_wrong_in_a_firing_is_told(tmp_path, monkeypatch):
    """Here no run can be written down."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.yaml").write_text(yaml.safe_dump(SPEC))
    work, log = tmp_path / "work", tmp_path / "told"
    fields = {"spec": str(tmp_path / "here.yaml"), "set": [], "on": "in-process", "at": "0 2 * * *", "to": "cron",
              "retries": 0, "on_failure": f"echo failed > {log}", "cwd": str(tmp_path), "environment": {}}
    schedule = Schedule.of(Workspace.at(work), fields)
    with schedule.kept(fields, {}):
        (work / "runs").write_text("a file, where the folder of runs should be")
    done = CliRunner().invoke(main, ["fire", str(schedule.folder)])
    assert done.exit_code == 1
    assert "Error: [Errno" in done.output
    assert log.read_text() == "failed\n"


# ---- secrets

@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "github_token", "DB_PASSWORD", "OPENAI_API_KEY"])
@pytest.mark.parametrize("value", ["canary-3141592653", 'with "quotes" and \\', "it's-hidden", "päßwort"])
def test_a_secret_is_found_in_what_is_written_and_not_repeated(name, value):
    for text in (f"export X={value}", f"export X='{value}'", json.dumps({"prologue": [f"export X={value}"]}),
                 yaml.safe_dump({"value": value}, allow_unicode=True) if "\\" not in value else json.dumps(value)):
        with pytest.raises(SpecError, match=f"contains the value of the environment variable {name}") as found:
            require_no_secret("the script", text, {name: value})
        assert value not in str(found.value)
    require_no_secret("the script", "export X=$AWS_SECRET_ACCESS_KEY", {name: value})


def test_what_is_no_secret_may_be_written(tmp_path):
    key = tmp_path / "key.pem"
    key.write_text("")
    for name, value in (("HOME_PAGE", SECRET), ("KEYMAP", "us"), ("SSL_KEY_FILE", str(key)), ("EMPTY_TOKEN", "")):
        require_no_secret("the script", f"cd /us; export {name}={value}", {name: value})


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_job_with_a_secret_is_refused(submitted, tmp_path, monkeypatch, options):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    done = submitted(SLURM | {"prologue": [f"export AWS_SECRET_ACCESS_KEY={SECRET}"]}, *options)
    assert done.exit_code == 2, done.output
    assert "the environment variable AWS_SECRET_ACCESS_KEY" in done.output
    assert SECRET not in done.output
    assert runs(tmp_path) == []


def test_a_script_that_holds_a_secret_is_not_written(tmp_path, monkeypatch):
    """Of an engine that puts it there from the environment, so that neither spec nor description holds it."""
    monkeypatch.setenv("STORE_TOKEN", SECRET)
    made = ended(tmp_path)
    with pytest.raises(SpecError, match=r"the rendered job\.sh .* STORE_TOKEN"):
        made.render("job.sh", f"#!/bin/sh\nexport STORE_TOKEN={SECRET}\n")
    assert not (made.folder / "submission" / "job.sh").exists()


def test_a_schedule_with_a_secret_is_refused(called, tmp_path, monkeypatch):
    monkeypatch.setenv("MAIL_PASSWORD", SECRET)
    done = called("schedule", tmp_path / "here.yaml", "--on", "in-process", "--at", "0 2 * * *", "--to", "slurm",
                  "--install", "--on-failure", f"mail --password={SECRET}")
    assert done.exit_code == 2, done.output
    assert "the environment variable MAIL_PASSWORD" in done.output
    assert not list((tmp_path / "work").glob("schedules/*"))


def test_no_secret_of_the_environment_is_in_scripts_and_schedules(submitted, called, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("CANARY", SECRET)  # a name that gives nothing away
    shown = submitted(SLURM, "--dry-run").output
    for to in ("cron", "systemd", "slurm"):
        shown += called("schedule", tmp_path / "here.yaml", "--on", "in-process", "--at", "0 2 * * *", "--to",
                        to).output
    assert "srun" in shown
    assert "OnCalendar" in shown
    assert SECRET not in shown
    crontab = tmp_path / "bin" / "crontab"
    crontab.parent.mkdir()
    crontab.write_text(f"#!/bin/sh\n[ $1 = - ] && cat > {tmp_path}/crontab\nexit 0\n")
    crontab.chmod(0o755)
    monkeypatch.setenv("PATH", str(crontab.parent), prepend=os.pathsep)
    done = called("schedule", tmp_path / "here.yaml", "--on", "in-process", "--at", "0 2 * * *", "--to", "cron",
                  "--install")
    assert done.exit_code == 0, done.output
    written = [path.read_text() for path in (*tmp_path.rglob("schedules/*/*"), tmp_path / "crontab")]
    assert len(written) >= 3
    assert SECRET not in "".join(written) + done.output
