"""A scheduler that is already running."""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import urlsplit

from distributed import Client
from distributed.security import Security
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..errors import ClusterError, SpecError, explain, require
from ..execution.on_dask import OnDask
from .batch.detached import Detached
from .description import DaskRuntime


class TlsFiles(BaseModel):
    """Certificates, as Dask names them."""

    model_config = ConfigDict(extra="forbid")
    ca_file: str
    cert: str
    key: str


class AddressRuntime(DaskRuntime):
    """A scheduler that is already running."""

    kind: Literal["address"] = "address"
    address: str
    tls: TlsFiles | None = None
    timeout: float = Field(default=10.0, gt=0, allow_inf_nan=False, description="seconds")

    @field_validator("address")
    @classmethod
    def _is_an_address(cls, address: str) -> str:
        try:
            sound = urlsplit(address).port != 0
        except ValueError:
            sound = False
        require(sound, f"{address!r} is not an address", why="a scheduler is reached there", error=SpecError,
                fix="write tcp://HOST:PORT or tls://HOST:PORT")
        return address

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[OnDask, str]]:
        with self._connect() as client:
            yield OnDask(client, memory_budget, self.patience), f"the scheduler at {self.address}"

    def engine(self) -> Detached:
        return Detached()  # of one process, which is the driver

    def _connect(self) -> Client:
        address, tls = urlsplit(self.address), self.tls
        if address.scheme == "tls" and tls is None:
            raise ClusterError(explain(
                f"{self.address} is encrypted, and no certificates are given", why="the scheduler would refuse us",
                fix="describe it in a file: kind: address, address, and tls: {ca_file, cert, key}"))
        if address.scheme != "tls" and not _is_loopback(address.hostname or ""):
            raise ClusterError(explain(
                f"{self.address} is neither encrypted nor on this machine",
                why="whoever can reach an open scheduler can run code on every worker",
                fix="use a tls:// address with tls: {ca_file, cert, key}"))
        security = Security(tls_ca_file=tls.ca_file, tls_client_cert=tls.cert, tls_client_key=tls.key,
                            require_encryption=True) if tls else None
        try:
            return Client(self.address, security=security, timeout=self.timeout)
        except (OSError, ValueError, TypeError) as error:
            raise ClusterError(explain(f"no scheduler answers at {self.address} ({error})",
                                       why="tasks have nowhere to run",
                                       fix="start it with `dask scheduler`, or check the address")) from error


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
