"""A Dask client from a cluster description: a YAML file that says where, and never what.

    kind: local        workers, threads_per_worker, memory_limit
    kind: address      address (tcp:// on this machine, tls:// anywhere), tls: {ca_file, cert, key}
    kind: in-process   threads
"""

import ipaddress
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from dask.utils import parse_bytes
from distributed import Client, LocalCluster
from distributed.security import Security
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from .errors import ClusterError, SpecError, explain, require
from .execution.in_process import InProcess
from .execution.on_dask import OnDask
from .execution.tasks import MEMORY_BUDGET, Execution, available_cores
from .pipeline.plain_yaml import is_file, parse_yaml


class LocalRuntime(BaseModel):
    """Worker processes on this machine."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["local"] = "local"
    workers: int = Field(default_factory=available_cores, ge=1)
    threads_per_worker: int = Field(default=1, ge=1)
    memory_limit: str = "auto"


class TlsFiles(BaseModel):
    """Certificates, as Dask names them."""

    model_config = ConfigDict(extra="forbid")
    ca_file: str
    cert: str
    key: str


class AddressRuntime(BaseModel):
    """A scheduler that is already running."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["address"]
    address: str
    tls: TlsFiles | None = None
    timeout: float = Field(default=10.0, gt=0, allow_inf_nan=False, description="seconds")


class InProcessRuntime(BaseModel):
    """Threads of this process."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["in-process"]
    threads: int | None = Field(default=None, ge=1)


Runtime = Annotated[LocalRuntime | AddressRuntime | InProcessRuntime, Field(discriminator="kind")]


def load_runtime(source: str | Path | None) -> LocalRuntime | AddressRuntime | InProcessRuntime:
    """Return the description in a YAML file, at a scheduler's address, of "in-process", or of this machine (None).

    Raises
    ------
    SpecError : the file is missing, or says something no runtime can do.
    """
    if source is None:
        return LocalRuntime()
    text = str(source)
    if text == "in-process":
        return InProcessRuntime(kind="in-process")
    if "://" in text:
        return _checked(AddressRuntime(kind="address", address=text))
    path = Path(text)
    if not is_file(path):
        raise SpecError(explain(f"there is no file {text}", why="--on says where tasks run",
                                fix="name a YAML file such as cluster/local.yaml, an address, or in-process"))
    try:
        fields = parse_yaml(path.read_text(encoding="utf-8"), text)
        adapter: TypeAdapter[Any] = TypeAdapter(Runtime)
        return _checked(adapter.validate_python(fields))
    except (ValidationError, UnicodeDecodeError) as error:
        raise SpecError(explain(f"{text} is not a cluster description: {error}", why="tasks need a place to run",
                                fix="see cluster/local.yaml")) from error


def _checked(described: Any) -> Any:
    """Return the description; raise SpecError if its size or its address would stop the cluster when it is started."""
    if isinstance(described, LocalRuntime) and described.memory_limit != "auto":
        parse_size(described.memory_limit)
    if isinstance(described, AddressRuntime):
        try:
            sound = urlsplit(described.address).port != 0
        except ValueError:
            sound = False
        require(sound, f"{described.address!r} is not an address", why="a scheduler is reached there", error=SpecError,
                fix="write tcp://HOST:PORT or tls://HOST:PORT")
    return described


@contextmanager
def open_runtime(source: str | Path | None, memory_budget: int | None = None) -> Iterator[tuple[Execution, str]]:
    """Give an execution on the described runtime and one line that says what it is; close it afterwards.

    Raises
    ------
    ClusterError : no scheduler answers, or an address off this machine is not encrypted.
    """
    for name in ("distributed", "distributed.client"):  # what they report, a run's own messages say in one sentence
        logging.getLogger(name).setLevel(logging.CRITICAL)
    described = load_runtime(source)
    budget = memory_budget or MEMORY_BUDGET
    if isinstance(described, InProcessRuntime):
        execution = InProcess(described.threads, budget)
        yield execution, f"{execution.threads} threads of this process"
    elif isinstance(described, LocalRuntime):
        with ExitStack() as stack:
            with _interrupts_ignored():
                cluster = stack.enter_context(LocalCluster(
                    n_workers=described.workers, threads_per_worker=described.threads_per_worker, processes=True,
                    memory_limit=described.memory_limit, dashboard_address=None, silence_logs=logging.CRITICAL,
                    # Without a port of its own choice the scheduler warns where 8787 is taken.
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"}))
            client = stack.enter_context(Client(cluster))
            yield (OnDask(client, budget),
                   f"{described.workers} local processes, {described.threads_per_worker} thread(s) each")
    else:
        with _connect(described) as client:
            yield OnDask(client, budget), f"the scheduler at {described.address}"


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore SIGINT, and have the processes that are started meanwhile ignore it for good.

    A terminal sends it to all of them. The command ends its workers itself; a page of their tracebacks tells nothing.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set a handler
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _connect(described: AddressRuntime) -> Client:
    address = urlsplit(described.address)
    if address.scheme == "tls" and described.tls is None:
        raise ClusterError(explain(
            f"{described.address} is encrypted, and no certificates are given", why="the scheduler would refuse us",
            fix="describe it in a file: kind: address, address, and tls: {ca_file, cert, key}"))
    if address.scheme != "tls" and not _is_loopback(address.hostname or ""):
        raise ClusterError(explain(
            f"{described.address} is neither encrypted nor on this machine",
            why="whoever can reach an open scheduler can run code on every worker",
            fix="use a tls:// address with tls: {ca_file, cert, key}"))
    tls = described.tls
    security = Security(tls_ca_file=tls.ca_file, tls_client_cert=tls.cert, tls_client_key=tls.key,
                        require_encryption=True) if tls else None
    try:
        return Client(described.address, security=security, timeout=described.timeout)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(explain(f"no scheduler answers at {described.address} ({error})",
                                   why="tasks have nowhere to run",
                                   fix="start it with `dask scheduler`, or check the address")) from error


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_size(text: str) -> int:
    """Return the bytes of a size such as "500MB" or "2GiB".

    Raises
    ------
    SpecError : the text is not a size above zero.
    """
    try:
        size = parse_bytes(text) if any(character.isdigit() for character in text) else 0  # "MB" would be one
    except (ValueError, OverflowError):
        size = 0
    require(size > 0, f"{text!r} is not a size", why="it says how much memory a task may take",
            fix="write a number and a unit, such as 500MB or 2GiB", error=SpecError)
    return int(size)
