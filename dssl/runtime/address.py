"""A scheduler that is already running."""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, Self
from urllib.parse import urlsplit

from distributed import Client
from pydantic import Field, field_validator, model_validator

from ..base.errors import ClusterError, SpecError, explain, require
from ..execution.on_dask import OnDask
from .description import DaskRuntime
from .detached import Detached
from .tls import MAKE_THEM, TlsFiles, knock


class AddressRuntime(DaskRuntime):
    """A scheduler that is already running."""

    kind: Literal["address"] = "address"
    address: str
    tls: TlsFiles | None = None
    insecure: bool = Field(default=False, description="whether a scheduler on another machine need not be encrypted: "
                                                      "whoever can reach it can run code on every worker")
    timeout: float = Field(default=10.0, gt=0, allow_inf_nan=False, description="seconds")

    @field_validator("address")
    @classmethod
    def _is_an_address(cls, address: str) -> str:
        try:
            url = urlsplit(address)
            sound = bool(url.scheme and url.hostname) and url.port != 0
        except ValueError:
            sound = False
        require(sound, f"{address!r} is not an address", why="dssl connects to the scheduler there", error=SpecError,
                fix="write tcp://HOST:PORT or tls://HOST:PORT")
        return address

    @model_validator(mode="after")
    def _encryption_options_agree(self) -> Self:
        encrypted = self.address.startswith("tls://")
        require(encrypted or self.tls is None, f"tls with the address {self.address}", error=SpecError,
                why="the connection would not be encrypted", fix="write tls:// in the address, or leave tls out")
        require(not (encrypted and self.insecure), f"insecure: true with the address {self.address}", error=SpecError,
                why="the address begins with tls://, so the connection is encrypted", fix="leave insecure out")
        return self

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[OnDask, str]]:
        with self._connect() as client:
            yield OnDask(client, memory_budget, self.patience), f"the scheduler at {self.address}"

    def engine(self) -> Detached:
        return Detached()  # the only process of the job is the driver

    def _connect(self) -> Client:
        scheme = urlsplit(self.address).scheme
        host = urlsplit(self.address).hostname or ""
        if scheme == "tls" and self.tls is None:
            raise ClusterError(explain(
                f"{self.address} is encrypted, and no certificates are given",
                why="the scheduler would refuse the connection",
                fix="describe it in a file: kind: address, address, and tls: {ca_file, cert, key}"))
        if scheme != "tls" and not self.insecure and not is_loopback(host):
            raise ClusterError(explain(
                f"{self.address} is neither encrypted nor on this machine",
                why="whoever can reach an open scheduler can run code on every worker",
                fix=f"{MAKE_THEM}; or, in a network that you trust, describe the scheduler in a file: kind: address, "
                    "address, and insecure: true"))
        try:
            security = knock(self.address, self.tls, self.timeout)
            return Client(self.address, security=security, timeout=self.timeout)
        except (OSError, ValueError, TypeError) as error:
            raise ClusterError(explain(f"no scheduler answers at {self.address} ({error})",
                                       why="tasks run on the workers of a scheduler",
                                       fix="start it with `dask scheduler`, or check the address")) from error


def is_loopback(host: str) -> bool:
    """Return whether a name or address always means this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
