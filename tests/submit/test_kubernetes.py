"""Runs that are handed over to Kubernetes: what it is given, and what its pods do."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dssl.base.errors import COME_BACK, ClusterError, SpecError
from dssl.cli.main import main
from dssl.pipeline.load import load_spec
from dssl.pipeline.submission import Submission
from dssl.runtime.description import OTHER_BYTES
from dssl.runtime.engine import Detached, Job, Rank
from dssl.runtime.kubernetes import FINAL, CronJobs, KubernetesRuntime
from dssl.runtime.schedules import Scheduled, Times
from dssl.runtime.start import load_runtime
from dssl.storage.artifacts import Workspace

from ..faults.machines import REPOSITORY, wait_until
from .kubernetes import Kubernetes, validated
from .machines import SLOWLY, Submitted
from .test_local import ended_alike

CLUSTER = REPOSITORY / "cluster" / "kubernetes.yaml"
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def described(mount, **fields):
    return KubernetesRuntime(image="dssl:test", claim="work", mount=mount, workers=2, memory_limit="2GiB", **fields)


def job_in(folder, name="dssl-0123456789abcdef"):
    run = folder / "work" / "runs" / "20261124T000000-abcdef"
    run.mkdir(parents=True, exist_ok=True)
    return Job(name=name, folder=run, command=("python", "rank"), settle=("python", "settle"), cwd=folder, ranks=4)


def rendered(runtime, job):
    return yaml.safe_load(runtime.engine().render(job))


def test_the_manifest_is_one_that_kubernetes_takes(tmp_path):
    made = validated(rendered(described(
        tmp_path, secrets=["store"], pull_secrets=["registry"], node_selector={"disk": "ssd"}, priority_class="low",
        labels={"kueue.x-k8s.io/queue-name": "team"}), job_in(tmp_path)))
    assert made["spec"]["completions"] == made["spec"]["parallelism"] == 4
    pod = made["spec"]["template"]["spec"]
    own = pod["containers"][0]
    assert own["command"] == ["dssl", "pod", str(job_in(tmp_path).folder)]
    assert own["resources"]["requests"] == own["resources"]["limits"] == {"cpu": "1", "memory": "2048Mi"}
    assert {mount["mountPath"] for mount in own["volumeMounts"]} == {str(tmp_path), "/tmp"}
    assert pod["terminationGracePeriodSeconds"] == 120
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"


def test_a_pod_may_do_what_the_restricted_standard_allows(tmp_path):
    """Of the Pod Security Standards: https://kubernetes.io/docs/concepts/security/pod-security-standards/."""
    pod = rendered(described(tmp_path), job_in(tmp_path))["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert not pod["automountServiceAccountToken"]
    assert {next(iter(set(volume) - {"name"})) for volume in pod["volumes"]} == {"persistentVolumeClaim", "emptyDir"}


def test_no_secret_is_in_the_manifest(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-3141592653")
    text = described(tmp_path, secrets=["store"]).engine().render(job_in(tmp_path))
    assert "canary" not in text
    assert yaml.safe_load(text)["spec"]["template"]["spec"]["containers"][0]["envFrom"] == [
        {"secretRef": {"name": "store"}}]


def test_a_process_learns_its_rank_from_the_manifest(tmp_path):
    pod = rendered(described(tmp_path), job_in(tmp_path))["spec"]["template"]["spec"]
    given = {entry["name"]: entry.get("value", "10.0.0.7") for entry in pod["containers"][0]["env"]}
    roles = [Rank.of(given | {"JOB_COMPLETION_INDEX": str(index)}).role for index in range(4)]
    assert roles == ["scheduler", "driver", "worker", "worker"]


def test_scheduler_and_workers_listen_at_the_address_of_their_pod(tmp_path, monkeypatch):
    monkeypatch.setenv("DSSL_HOST", "10.0.0.7")
    assert described(tmp_path).host == "10.0.0.7"
    assert described(tmp_path, interface="ib0").host is None


def test_a_worker_has_less_than_its_pod(tmp_path):
    assert described(tmp_path).worker_memory() == (2 << 30) - OTHER_BYTES


@pytest.mark.parametrize("fault", ["no run", "no folder for logs"])
def test_only_the_driver_can_fail_the_job(tmp_path, monkeypatch, fault):
    """Kubernetes ends a job in which any pod ends with one of `FINAL`; another error of a worker's pod replaces it."""
    folder = tmp_path / "work" / "runs" / "1"
    if fault == "no folder for logs":
        folder = Submission.freeze(Workspace.at(tmp_path / "work"), load_spec(
            {"name": "here", "data": {"source": "digits"}, "labels": {"per_class": 2}}),
            described(tmp_path).model_dump(mode="json"), {}).folder
        (folder / "logs").rmdir()
    monkeypatch.setenv("DSSL_RANKS", "4")
    codes = {}
    for index in range(4):
        monkeypatch.setenv("JOB_COMPLETION_INDEX", str(index))
        codes[index] = CliRunner().invoke(main, ["pod", str(folder)]).exit_code
    assert codes == {0: COME_BACK, 1: 1, 2: COME_BACK, 3: COME_BACK}
    assert COME_BACK not in FINAL


@pytest.mark.parametrize(("what", "move"), [
    ("the workspace", {"folder": Path("/elsewhere/work/runs/1")}), ("the folder in which you are", {"cwd": Path("/")})])
def test_what_no_pod_would_see_is_refused(tmp_path, what, move):
    job = Job(**vars(job_in(tmp_path)) | move)
    with pytest.raises(SpecError, match=f"{what}.* does not lie below") as refused:
        described(tmp_path).engine().render(job)
    desk = re.search(r"cluster/\S+\.yaml", str(refused.value))[0]
    assert (REPOSITORY / desk).is_file()


@pytest.mark.parametrize("wrong", [{"mount": "work"}, {"memory_limit": "auto"}, {"memory_limit": "512MiB"},
                                   {"user": 0}, {"claim": "Work_1"}, {"image": ""}, {"image": "a b"}])
def test_a_description_that_kubernetes_would_refuse_is_refused(tmp_path, wrong):
    fields = {"kind": "kubernetes", "image": "dssl", "claim": "work", "mount": "/work", "workers": 2,
              "memory_limit": "2GiB"} | wrong
    (tmp_path / "k.yaml").write_text(yaml.safe_dump(fields))
    with pytest.raises(SpecError, match=next(iter(wrong))):
        load_runtime(tmp_path / "k.yaml")


def test_the_description_that_we_ship_can_be_used():
    runtime = load_runtime(CLUSTER)
    run = runtime.mount / "work" / "runs" / "1"
    job = Job(name="dssl-1", folder=run, command=(), settle=(), cwd=runtime.mount, ranks=runtime.ranks)
    validated(rendered(runtime, job))


def test_what_the_documentation_shows_is_what_is_handed_over():
    shown = (REPOSITORY / "docs" / "kubernetes.md").read_text().split("```yaml\n")[1].split("```")[0]
    runtime = load_runtime(CLUSTER)
    job = Job(name="dssl-be05fec7324523de", folder=Path("/work/dssl-work/runs/RUN"), command=(), settle=(),
              cwd=Path("/work"), ranks=runtime.ranks)
    assert runtime.engine().render(job) == shown


def test_the_desk_is_one_that_kubernetes_takes():
    objects = list(yaml.safe_load_all((REPOSITORY / "cluster" / "manifests" / "desk.yaml").read_text()))
    assert [validated(made)["kind"] for made in objects] == [
        "PersistentVolumeClaim", "ServiceAccount", "Role", "RoleBinding", "Pod"]
    runtime, pod = load_runtime(CLUSTER), objects[-1]["spec"]
    assert pod["containers"][0]["image"] == runtime.image
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == objects[0]["metadata"]["name"] == runtime.claim
    assert pod["securityContext"]["runAsUser"] == runtime.user


def test_without_kubectl_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="there is no command kubectl"):
        described(tmp_path).engine().knows({"job": "dssl-1", "uid": "1"})


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    made = Kubernetes(tmp_path)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    yield made
    made.end()


@pytest.mark.slow
@needs_kubectl
def test_a_job_is_handed_over_asked_after_and_ended(cluster, tmp_path):
    engine, job = described(tmp_path).engine(), job_in(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(engine.render(job))
    handle = engine.submit(job, path)
    assert engine.knows(handle)
    with pytest.raises(ClusterError, match=r"already running, for run 20261124T000000-abcdef"):
        engine.submit(job, path)
    with pytest.raises(ClusterError, match="AlreadyExists"):
        engine.kubectl("create", "--filename", str(path))
    cluster.jobs[job.name].condition = "Failed"
    assert not engine.knows(handle)
    again = engine.submit(job, path)
    assert engine.knows(again)
    assert not engine.knows(handle), "a later job of the same name is another one"
    engine.cancel(handle)
    assert engine.knows(again)
    engine.cancel(again)
    assert not engine.knows(again)
    engine.cancel(again)


@needs_kubectl
def test_what_kubernetes_does_not_know_it_refuses(cluster, tmp_path):
    engine, job = described(tmp_path).engine(), job_in(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(engine.render(job).replace("backoffLimitPerIndex", "backoffLimitPerindex"))
    with pytest.raises(ClusterError, match="the service behind this command refused it"):
        engine.submit(job, path)


def schedule_in(folder, **fields):
    return Scheduled(**{
        "name": "Mine_of.2026-1234abcd", "times": Times.of("0 2 * * *"), "folder": folder / "schedules" / "mine",
        "command": (), "next": (), "engine": described(folder).engine(), "cwd": folder,
        "files": (folder / "mine.yaml",)} | fields)


def test_a_schedule_is_one_that_kubernetes_takes(tmp_path):
    text = CronJobs().render(schedule_in(tmp_path))["cronjob.yaml"]
    account, role, binding, cron = (validated(made) for made in yaml.safe_load_all(text))
    assert cron["metadata"]["name"] == "dssl-mine-of-2026-1234abcd"
    assert (cron["spec"]["concurrencyPolicy"], cron["spec"]["timeZone"]) == ("Forbid", "Etc/UTC")
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["command"] == ["dssl", "fire", str(tmp_path / "schedules" / "mine")]
    assert pod["serviceAccountName"] == account["metadata"]["name"] == binding["subjects"][0]["name"]
    assert [rule["resources"] for rule in role["rules"]] == [["jobs"]]


def test_a_schedule_of_kubernetes_hands_over_to_kubernetes(tmp_path):
    with pytest.raises(SpecError, match="--to kubernetes with runs on this machine"):
        CronJobs().render(schedule_in(tmp_path, engine=Detached()))
    with pytest.raises(SpecError, match=r"the file, /elsewhere/mine.yaml, does not lie below"):
        CronJobs().render(schedule_in(tmp_path, files=(Path("/elsewhere/mine.yaml"),)))


@needs_kubectl
def test_a_schedule_is_installed_and_removed(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("{name: mine, data: {source: digits}, labels: {per_class: 2}}")
    (tmp_path / "k.yaml").write_text(yaml.safe_dump(described(tmp_path).model_dump(mode="json")))
    runner = CliRunner()
    added = runner.invoke(main, ["schedule", "mine.yaml", "--on", "k.yaml", "--at", "0 2 * * *", "--to", "kubernetes",
                                 "--install"])
    assert added.exit_code == 0, added.output
    assert "02:00 UTC" in added.output
    assert {kind for kind, _ in cluster.objects} == {"serviceaccounts", "roles", "rolebindings", "cronjobs"}
    listed = json.loads(runner.invoke(main, ["schedule", "list", "--json"]).output)
    assert listed[0]["next"].endswith("02:00+00:00")
    assert listed[0]["installed"] is True
    del cluster.objects["cronjobs", next(name for kind, name in cluster.objects if kind == "cronjobs")]
    assert json.loads(runner.invoke(main, ["schedule", "list", "--json"]).output)[0]["installed"] is False
    removed = runner.invoke(main, ["schedule", "remove", listed[0]["name"]])
    assert removed.exit_code == 0, removed.output
    assert cluster.objects == {}


# ---- whole runs, each pod a process with the variables of the manifest

def whole(test):
    for mark in (pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900), needs_kubectl):
        test = mark(test)
    return test


@pytest.fixture
def submitted(tmp_path):
    made = Submitted(tmp_path, f"{{kind: kubernetes, image: 'dssl:test', claim: work, mount: {tmp_path}, workers: 2, "
                               "memory_limit: 2GiB, max_restarts: 2}")
    made.kubernetes = Kubernetes(tmp_path, SLOWLY)
    made.environment = os.environ | made.kubernetes.variables
    yield made
    made.kubernetes.end()
    made.end()


def pods_of(submitted):
    return next(iter(submitted.kubernetes.jobs.values()))


@whole
@pytest.mark.parametrize(("rank", "starts"), [
    pytest.param(0, 2, id="scheduler", marks=pytest.mark.extended), pytest.param(1, 2, id="driver"),
    pytest.param(2, 1, id="worker", marks=pytest.mark.extended)])
def test_a_pod_that_is_lost_is_replaced(submitted, undisturbed, rank, starts):
    run = submitted.submit()
    assert submitted.submit() == run
    submitted.wait_for(run, "points", 2)
    pods_of(submitted).pods[rank].kill()
    ended_alike(submitted, run, undisturbed, starts)
    wait_until(lambda: pods_of(submitted).condition == "Complete", "Kubernetes to say so")
    assert "models" in submitted.dssl("logs", run.name)
    assert submitted.submit() != run, "the name of a job that has ended is free"


@whole
@pytest.mark.extended
def test_a_drained_driver_comes_back(submitted, undisturbed):
    run = submitted.submit()
    submitted.wait_for(run, "points", 2)
    pod = pods_of(submitted).pods[1]
    pod.disrupted = True
    pod.stop()
    assert pod.process.returncode == 75
    ended_alike(submitted, run, undisturbed, 2)
    assert json.loads((run / "starts" / "0-end.json").read_text())["code"] == 143


@whole
@pytest.mark.extended
def test_a_run_that_is_cancelled_has_no_pods(submitted):
    run = submitted.submit()
    submitted.wait_for(run, "points", 1)
    pods = pods_of(submitted).pods
    submitted.dssl("cancel", run.name)
    submitted.dssl("wait", run.name, code=143)
    wait_until(lambda: all(pod.process.poll() is not None for pod in pods.values()), "the pods to end")
    assert submitted.kubernetes.jobs == {}


@whole
@pytest.mark.extended
def test_a_run_that_fails_fails_the_job(submitted):
    run = submitted.submit("--set", "solver.max_iter=1")
    submitted.dssl("wait", run.name, code=1)
    wait_until(lambda: pods_of(submitted).condition == "Failed", "Kubernetes to say so")
    assert pods_of(submitted).failures == {}
