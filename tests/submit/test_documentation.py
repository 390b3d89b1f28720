"""The pages that lead from nothing to a finished run: they show what is rendered, and no page is left out."""

import os
import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from dssl.runtime.engine import Job
from dssl.runtime.schedules import Scheduled, Times
from dssl.runtime.start import SCHEDULERS, load_runtime

from ..faults.machines import REPOSITORY

DOCS, CLUSTER = REPOSITORY / "docs", REPOSITORY / "cluster"
COMMAND = ("/home/me/.venv/bin/python", "-m", "dssl")


def shown(page, language, number=0):
    """Return a block of a page."""
    return (DOCS / page).read_text().split(f"```{language}\n")[1 + number].split("```")[0]


@pytest.mark.parametrize(("page", "language", "description"), [
    ("local.md", "sh", "local.yaml"), ("slurm.md", "bash", "slurm.yaml"), ("pbs.md", "bash", "pbs.yaml")])
def test_the_script_of_a_job(page, language, description):
    runtime, folder = load_runtime(CLUSTER / description), Path("/home/me/dssl-work/runs/RUN")
    job = Job(name="dssl-be05fec7324523de", folder=folder, command=(*COMMAND, "rank", str(folder)),
              settle=(*COMMAND, "settle", str(folder)), cwd=Path("/home/me"), ranks=runtime.ranks)
    assert runtime.engine().render(job) == shown(page, language)


@pytest.mark.parametrize(("to", "language", "on"), [
    ("cron", "crontab", "local.yaml"), ("systemd", "ini", "local.yaml"), ("slurm", "bash", "slurm.yaml")])
def test_what_keeps_the_times_of_a_schedule(to, language, on):
    folder = Path("/home/me/dssl-work/schedules/mine-1a2b3c4d")
    scheduled = Scheduled("mine-1a2b3c4d", Times.of("0 2 * * *"), folder, (*COMMAND, "fire", str(folder)),
                          (*COMMAND, "due", str(folder)), load_runtime(CLUSTER / on).engine(), Path("/home/me"), ())
    assert "\n".join(SCHEDULERS[to].render(scheduled).values()) == shown("schedules.md", language)


def test_the_script_of_a_job_of_one_worker(tmp_path, monkeypatch):
    (tmp_path / "sbatch").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    runtime = load_runtime(CLUSTER / "jobqueue.yaml").model_copy(update={"shared_folder": str(tmp_path)})
    with ExitStack() as stack:
        script = runtime.pool(stack).job_script()
    known = {str(tmp_path): "/home/me", r"^\S+/python\S*(?= -m)": COMMAND[0], r"tls://[\d.]+:\d+": "tls://10.0.0.1:40001",
             r"(?<=\.worker\.)(ca_file|cert|key)\.\w+": r"\1.x1y2z3"}
    for pattern, text in known.items():
        script = re.sub(pattern, text, script, flags=re.MULTILINE)
    assert script == shown("clusters.md", "bash")


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_a_page_can_be_reached_and_its_links_lead_somewhere(page):
    listed = re.findall(r"^(?:.*<)?([\w-]+)>?$", "\n".join(text for path in DOCS.glob("*.md") for text in re.findall(
        r"```{toctree}\n(.*?)```", path.read_text(), re.DOTALL)), re.MULTILINE)
    assert page.removesuffix(".md") in ["index", *listed], "no list of pages of the site has it"
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", (DOCS / page).read_text()):
        assert (DOCS / link).exists(), link


@pytest.mark.parametrize("page", ["local", "slurm", "pbs", "kubernetes", "objects", "growing", "schedules", "clusters",
                                  "compose"])
def test_six_commands_lead_to_a_finished_run(page):
    text = (DOCS / f"{page}.md").read_text()
    block = re.split("```(?:sh)?\n", text, maxsplit=1)[1].split("```")[0]
    assert 1 <= len(block.strip().splitlines()) <= 6
    assert "pip install" in block or page in ("kubernetes", "compose", "clusters"), "it begins from nothing"
    assert "What was run" in text, "each page says what was run, and what was only validated"
