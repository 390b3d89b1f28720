"""Runs that are handed over to a batch system by its user's template and commands; here one of a few shell scripts."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml
from click.testing import CliRunner

from dssl.base.errors import ClusterError, SpecError
from dssl.cli.main import main
from dssl.pipeline.load import load_spec
from dssl.pipeline.submission import Submission
from dssl.runtime.description import OTHER_BYTES
from dssl.runtime.engine import Job
from dssl.runtime.script import ScriptRuntime
from dssl.runtime.start import load_runtime
from dssl.storage.artifacts import Workspace

from ..faults.machines import REPOSITORY, wait_until
from .machines import Submitted, kill
from .test_local import ended_alike

PBS = REPOSITORY / "cluster" / "pbs.yaml"
JOB = Job(name="dssl-1", folder=Path("/work/a b/runs/1"), command=("dssl", "rank", "/work/a b/runs/1"),
          settle=("dssl", "settle", "/work/a b/runs/1"), cwd=Path("/work/a b"), ranks=4)

# A batch system: it starts a job in the background in a session of its own, and knows it by the number of that.
COMMANDS = {
    "hand-over": 'setsid /bin/sh "$1" > /dev/null 2>&1 &\necho "Job <$!> is submitted to queue <normal>."',
    "tell": 'case $(ps -o stat= -p "$1") in ""|Z*) echo "Job <$1> is not found" >&2; exit 255;; *) echo "$1 RUN"; esac',
    "end": 'kill -TERM -- "-$1" 2> /dev/null || { echo "Job <$1> is not found" >&2; exit 255; }',
    # As mpiexec does, it tells each process its rank, ends when all have ended, and mixes what they say.
    "start": 'size=$1; shift; for rank in $(seq 0 $((size - 1))); do PMI_RANK=$rank PMI_SIZE=$size "$@" & done; wait',
}
TEMPLATE = """\
#!/bin/sh
# {{name}}: {{ processes }} processes of {{cores}} core and {{memory}} MiB
exec >> {{output}} 2>&1
cd {{cwd}} || exit 1
while true; do
    START {{processes}} {{command}}
    {{settle}}
    code=$?
    echo "${code} is what settle says"
    [ $code -eq 75 ] || exit $code
done
"""


def cluster(folder, **changes):
    """Return the description of a batch system whose commands lie in a folder, and write these."""
    for name, text in COMMANDS.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    own = {name: shlex.quote(str(folder / name)) for name in COMMANDS}
    return {"kind": "script", "workers": 2, "memory_limit": "2GiB", "template": TEMPLATE.replace("START", own["start"]),
            "submit": f"{own['hand-over']} {{{{script}}}}", "job_id": r"Job <(\d+)> is submitted",
            "query": f"{own['tell']} {{{{job}}}}", "living": "RUN|PEND", "gone": "is not found",
            "cancel": f"{own['end']} {{{{job}}}}", **changes}


def test_the_template_is_filled(tmp_path):
    script = ScriptRuntime(**cluster(tmp_path)).engine().render(JOB)
    assert "# dssl-1: 4 processes of 1 core and 2048 MiB" in script
    assert f"{tmp_path}/start 4 dssl rank '/work/a b/runs/1'\n" in script
    assert "exec >> '/work/a b/runs/1/logs/job.log' 2>&1\ncd '/work/a b' || exit 1\n" in script
    assert 'echo "${code} is what' in script, "braces of the shell are none of ours"


@pytest.mark.parametrize(("change", "message"), [
    ({"template": "mpiexec {{command}} {{setle}}"}, r"\{\{setle\}\} is not a placeholder"),
    ({"template": "mpiexec {{command}}"}, r"\{\{settle\}\} is missing"),
    ({"template": "mpiexec {{}}"}, r"\{\{\}\} is not a placeholder"),
    ({"submit": "qsub job.sh"}, r"\{\{script\}\} is missing"),
    ({"query": "qstat"}, r"\{\{job\}\} is missing"),
    ({"cancel": "qdel {{script}}"}, r"\{\{script\}\} is not a placeholder"),
    ({"gone": "(unknown"}, r"'\(unknown' is not a regular expression"),
    ({"memory_limit": "auto"}, "memory_limit: auto")])
def test_a_description_that_cannot_work_is_refused(tmp_path, change, message):
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(cluster(tmp_path, **change)))
    with pytest.raises(SpecError, match=message):
        load_runtime(tmp_path / "c.yaml")


def test_a_run_needs_dssl_submit(tmp_path):
    with (pytest.raises(SpecError, match="submit the run with `dssl submit`"),
          ScriptRuntime(**cluster(tmp_path)).start(1)):
        pass


@pytest.mark.parametrize(("printed", "pattern", "job"), [
    ("12.server\n", None, "12.server"), ("a warning\n 34 \n", r"^\s*(\d+)\s*$", "34"),
    ("Job <56> is submitted", r"Job <(\d+)>", "56"), ("78", r"\d+", "78")])
def test_the_id_of_a_job_is_found_in_what_is_printed(tmp_path, printed, pattern, job):
    fields = cluster(tmp_path, submit=f"printf %s {shlex.quote(printed)} # {{{{script}}}}")
    del fields["job_id"]
    fields |= {"job_id": pattern} if pattern else {}
    assert ScriptRuntime(**fields).engine().submit(JOB, tmp_path / "job.sh") == {"job": job}


def test_an_answer_without_an_id_is_repeated(tmp_path):
    engine = ScriptRuntime(**cluster(tmp_path, submit="echo queued '#' {{script}}")).engine()
    with pytest.raises(ClusterError, match=r"printed 'queued #.*finds no id"):
        engine.submit(JOB, tmp_path / "job.sh")


@pytest.mark.parametrize(("query", "known"), [
    ("echo {{job}} RUN", True), ("echo {{job}} DONE", False), ("echo {{job}} is not found >&2; exit 255", False)])
def test_a_job_is_asked_after(tmp_path, query, known):
    assert ScriptRuntime(**cluster(tmp_path, query=query)).engine().knows({"job": "7"}) == known


def test_a_batch_system_that_cannot_be_asked_does_not_mean_that_a_job_is_gone(tmp_path):
    engine = ScriptRuntime(**cluster(tmp_path, query="echo {{job}}: cannot connect to server >&2; exit 111")).engine()
    with pytest.raises(ClusterError, match="cannot connect to server"):
        engine.knows({"job": "7"})


@pytest.mark.slow
def test_processes_that_are_told_no_rank_compute_nothing(tmp_path, monkeypatch):
    """Else each of them would be the driver."""
    made = Submission.freeze(Workspace.at(tmp_path / "work"), load_spec(
        {"name": "here", "data": {"source": "digits"}, "labels": {"per_class": 2}}), cluster(tmp_path), {})
    done = subprocess.run([sys.executable, "-m", "dssl", "rank", str(made.folder)], check=False, text=True,
                          capture_output=True, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)})
    assert done.returncode == ClusterError.exit_code
    said = (made.folder / "logs" / "rank-0.log").read_text()
    assert "this process is number 0 of 1, but the run has 4 processes" in said
    assert CliRunner().invoke(main, ["settle", str(made.folder)]).exit_code == 1
    assert "no process of the job has started" in made.exit["why"]


def test_the_description_for_pbs_can_be_used():
    runtime = load_runtime(PBS)
    assert runtime.worker_memory() == (4 << 30) - OTHER_BYTES
    script = runtime.engine().render(JOB)
    assert "#PBS -l select=4:ncpus=1:mem=4096mb\n" in script
    assert "{{" not in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_answers_of_pbs_are_understood():
    """As OpenPBS and Torque print them; no PBS was asked."""
    runtime = load_runtime(PBS)
    assert re.search(runtime.job_id, "1234.pbs-server\n")[1] == "1234.pbs-server"
    table = "Job id            Name             User              Time Use S Queue\n" \
            "----------------  ---------------- ----------------  -------- - -----\n" \
            "1234.pbs-server   dssl-be05fec732  me                00:00:00 {} workq\n"
    states = {state: re.search(runtime.living, table.format(state)) is not None for state in "QRHECF"}
    assert states == {"Q": True, "R": True, "H": True, "E": True, "C": False, "F": False}
    for said in ("qstat: Unknown Job Id 1234.pbs-server", "qstat: 1234.pbs-server Job has finished, use -x or -H to "
                 "obtain historical job information"):
        assert re.search(runtime.gone, said)


# ---- whole runs

@pytest.fixture
def submitted(tmp_path):
    made = Submitted(tmp_path)
    (tmp_path / "bin").mkdir()
    made.cluster.write_text(yaml.safe_dump(cluster(tmp_path / "bin")))
    yield made
    made.end()


def whole(test):
    for mark in (pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)):
        test = mark(test)
    return test


@whole
@pytest.mark.extended
def test_a_run_whose_driver_was_killed_goes_on_in_the_same_job(submitted, undisturbed):
    run = submitted.submit()
    assert submitted.submit() == run, "a job that the batch system knows is not handed over twice"
    submitted.wait_for(run, "points", 2)
    kill(submitted.rank(run, 1))
    ended_alike(submitted, run, undisturbed, 2)
    assert "models" in submitted.dssl("logs", run.name)
    assert "Registered to" in submitted.dssl("logs", run.name, "--rank", "2")
    wait_until(lambda: "\n0 is what settle says" in (run / "logs" / "job.log").read_text(), "the script to end", 60)


@whole
@pytest.mark.extended
def test_a_run_that_is_cancelled_has_no_processes(submitted):
    run = submitted.submit()
    submitted.wait_for(run, "points", 1)
    pid = int(json.loads((run / "submission" / "engine.json").read_text())["handle"]["job"])
    assert psutil.pid_exists(pid)
    submitted.dssl("cancel", run.name)
    submitted.dssl("wait", run.name, code=143)
    wait_until(lambda: not [number for number in range(4) if submitted.rank(run, number)], "the processes to end")
