"""Schedulers on other machines: certificates, what is refused without them, and how each cause is named."""

import json
import os
import shutil
import ssl
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from click.testing import CliRunner

from dssl.base.errors import ClusterError, SpecError
from dssl.cli.main import main
from dssl.runtime.address import AddressRuntime, TlsFiles
from dssl.runtime.certificates import make_certificates
from dssl.runtime.start import load_runtime, open_runtime

from ..faults.machines import REPOSITORY, wait_until

ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPOSITORY)}


def certs(*arguments, code=0):
    done = CliRunner().invoke(main, ["cluster", "certs", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def tls(folder, name="client", authority=None):
    """Return what a description says of the certificates of a folder."""
    return TlsFiles(ca_file=str((authority or folder) / "ca.pem"), cert=str(folder / f"{name}.pem"),
                    key=str(folder / f"{name}-key.pem"))


class Schedulers:
    """Real schedulers: `ours`, and others that no client of `ours` can use."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []
        for name in ("ours", "theirs", "old"):
            make_certificates(folder / name, ["localhost"], 0 if name == "old" else 2)
        make_certificates(folder / "ours-old", ["localhost"], 2)
        for name in ("ca.pem", "ca-key.pem"):
            (folder / "ours-old" / name).write_bytes((folder / "ours" / name).read_bytes())
        make_certificates(folder / "ours-old", ["localhost"], 0)
        with ThreadPoolExecutor() as threads:
            self.address = dict(zip(("ours", "plain", "expired", "distrusts"), threads.map(self.start, (
                ("ours", tls(folder / "ours", "scheduler")), ("plain", None),
                ("expired", tls(folder / "ours-old", "scheduler")),
                ("distrusts", tls(folder / "ours", "scheduler", folder / "theirs")))), strict=True))
        self.spawn("distributed.cli.dask_worker", self.address["ours"], "--no-nanny", "--nthreads", "1",
                   "--no-dashboard", "--local-directory", folder, *self.options(tls(folder / "ours", "worker")))

    def options(self, files):
        return ["--tls-ca-file", files.ca_file, "--tls-cert", files.cert, "--tls-key", files.key] if files else []

    def spawn(self, *command):
        with open(self.folder / f"{len(self.processes)}.log", "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen([sys.executable, "-m", *map(str, command)], env=ENVIRONMENT,
                                                   stdout=log, stderr=log))

    def start(self, wanted):
        name, files = wanted
        actual = self.folder / f"{name}.json"
        self.spawn("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                   "--protocol", "tls://" if files else "tcp://", "--scheduler-file", actual, *self.options(files))
        wait_until(lambda: actual.exists() and actual.read_text().endswith("}"), f"the scheduler {name}")
        return json.loads(actual.read_text())["address"]

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def schedulers(tmp_path_factory):
    made = Schedulers(tmp_path_factory.mktemp("schedulers"))
    yield made
    made.end()


def test_certificates_are_made_for_each_part(tmp_path):
    folder = tmp_path / "certs"
    done = certs(folder, "--host", "10.1.2.3", "--host", "head.example", "--days", 30)
    description = yaml.safe_load(done.stdout)
    (tmp_path / "cluster.yaml").write_text(done.stdout)
    assert description == {"kind": "address", "address": "tls://10.1.2.3:8786", "tls": tls(folder).model_dump()}
    assert isinstance(load_runtime(tmp_path / "cluster.yaml"), AddressRuntime)
    for role in ("scheduler", "worker"):
        assert f"# dask {role} " in done.stdout
        assert f"--tls-key {folder}/{role}-key.pem" in done.stdout
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert {name for name, mode in modes.items() if mode == 0o600} == {
        "ca-key.pem", "scheduler-key.pem", "worker-key.pem", "client-key.pem"}
    assert len(modes) == 8
    for role in ("scheduler", "worker", "client"):
        tls(folder, role).security()
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):  # a client is no scheduler
        _shown_by_a_server(tls(folder, "client"))
    _shown_by_a_server(tls(folder, "scheduler"))


def test_the_documentation_shows_what_is_printed(tmp_path):
    page = (REPOSITORY / "docs" / "clusters.md").read_text()
    shown = page.partition("```yaml\n")[2].partition("```")[0]
    assert shown == certs(tmp_path / "certs", "--host", "head").stdout.replace(str(tmp_path), "/shared")


def _shown_by_a_server(files):
    """Have a client that trusts the authority meet a server with these certificates."""
    listening, connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=files.ca_file)
    listening.load_cert_chain(files.cert, files.key)
    connecting.check_hostname = False
    connecting.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = connecting.wrap_bio(back, there), listening.wrap_bio(there, back, server_side=True)
    for side in sides * 2:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_the_same_authority_signs_again(tmp_path):
    first = json.loads(certs(tmp_path / "certs", "--json").stdout)
    before = {path.name: path.read_bytes() for path in (tmp_path / "certs").iterdir()}
    second = json.loads(certs(tmp_path / "certs", "--json").stdout)
    after = {path.name: path.read_bytes() for path in (tmp_path / "certs").iterdir()}
    assert (first["new_authority"], second["new_authority"]) == (True, False)
    assert {name for name in before if before[name] == after[name]} == {"ca.pem", "ca-key.pem"}
    tls(tmp_path / "certs").security()


@pytest.mark.parametrize(("arguments", "spoil", "message"), [
    (["--days", "4000"], None, "--days"), (["--host", "tls://head:8786"], None, "without scheme and port"),
    ([], lambda folder: (folder / "ca-key.pem").unlink(), "holds only one of"),
    ([], lambda folder: shutil.copy(folder / "client-key.pem", folder / "ca-key.pem"), "is not the key"),
    ([], lambda folder: (folder / "ca.pem").write_text("certificate"), "are not the files of an authority"),
])
def test_what_no_authority_can_sign(tmp_path, arguments, spoil, message):
    if spoil:
        certs(tmp_path / "certs")
        spoil(tmp_path / "certs")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.pem")}
    assert message in certs(tmp_path / "certs", *arguments, code=2).output
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.pem")} == before


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda files: files.model_copy(update={"cert": "none.pem"}), "there is no certificate none.pem"),
    (lambda files: files.model_copy(update={"key": "none.pem"}), "there is no certificate none.pem"),
    (lambda files: files.model_copy(update={"cert": files.key}), "is not a certificate"),
    (lambda files: files.model_copy(update={"key": files.cert}), "is not a key without a password"),
    (lambda files: files.model_copy(update={"key": files.key.replace("client", "worker")}), "is not the key of"),
])
def test_certificates_are_checked_before_anybody_is_asked(tmp_path, spoil, message):
    certs(tmp_path)
    with pytest.raises(ClusterError, match=message) as error:
        spoil(tls(tmp_path)).security()
    assert error.value.exit_code == 4


@pytest.mark.parametrize(("fields", "message"), [
    ({"address": "tcp://head:1", "tls": {"ca_file": "a", "cert": "b", "key": "c"}}, "would not be encrypted"),
    ({"address": "tls://head:1", "insecure": True}, "is encrypted"), ({"address": "head:8786"}, "is not an address")])
def test_a_description_that_contradicts_itself(tmp_path, fields, message):
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump({"kind": "address"} | fields))
    with pytest.raises(SpecError, match=message):
        load_runtime(tmp_path / "cluster.yaml")


@pytest.mark.cluster
def test_a_run_on_an_encrypted_scheduler(schedulers, tmp_path):
    address, files = schedulers.address["ours"], tls(schedulers.folder / "ours")
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump(
        {"kind": "address", "address": address, "tls": files.model_dump()}))
    with open_runtime(tmp_path / "cluster.yaml") as (execution, where):
        assert where == f"the scheduler at {address}"
        execution.client.wait_for_workers(1, timeout=30)
        assert execution.client.submit(int, "7").result() == 7
        assert all(worker.startswith("tls://") for worker in execution.client.nthreads())


@pytest.mark.cluster
@pytest.mark.parametrize(("scheduler", "ours", "message"), [
    ("ours", None, "is encrypted, and no certificates are given"),
    ("ours", ("theirs", "theirs"), "the certificate of the scheduler at .* is not signed by .*theirs/ca.pem"),
    ("ours", ("theirs", "ours"), "theirs/client.pem is not signed by .*ours/ca.pem"),
    ("distrusts", ("ours", "ours"), "refuses .*ours/client.pem: it trusts another CA"),
    ("ours", ("ours-old", "ours"), "ours-old/client.pem has expired on"),
    ("expired", ("ours", "ours"), "the certificate of the scheduler at .* has expired"),
    ("plain", ("ours", "ours"), "does not use TLS"),
    ("ours as plain", None, "requires TLS"),
])
def test_each_cause_has_its_message(schedulers, scheduler, ours, message):
    """Of real schedulers; Dask says "Timed out" or "stream closed" of most."""
    folder = schedulers.folder
    address = schedulers.address[scheduler.split()[0]]
    address = address.replace("tls://", "tcp://") if scheduler == "ours as plain" else \
        address.replace("tcp://", "tls://")
    files = tls(folder / ours[0], authority=folder / ours[1]) if ours else None
    with pytest.raises(ClusterError, match=message) as error, \
            AddressRuntime(address=address, tls=files).start(1 << 28):
        pass
    assert error.value.exit_code == 4


@pytest.mark.slow
@pytest.mark.cluster
def test_an_open_scheduler_elsewhere_needs_a_word(schedulers):
    """Of this machine's addresses 0.0.0.0 is one that does not say so."""
    address = schedulers.address["plain"].replace("127.0.0.1", "0.0.0.0")
    with pytest.raises(ClusterError, match="insecure: true"), AddressRuntime(address=address).start(1 << 28):
        pass
    with AddressRuntime(address=address, insecure=True).start(1 << 28) as (execution, _):
        assert execution.client.status == "running"
