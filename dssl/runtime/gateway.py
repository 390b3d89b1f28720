"""An elastic pool of a Dask Gateway, a server that starts clusters for its users."""

from collections.abc import MutableMapping
from contextlib import ExitStack
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from ..base.digest import JsonObject
from ..base.errors import ClusterError, SpecError, explain, require
from ..base.urls import is_loopback, require_no_secret
from .description import Pool, PoolRuntime

INSTALL = "install it in the gateway's version: pip install dask-gateway"
ENVIRONMENT = "DASK_GATEWAY__AUTH__TYPE (basic, kerberos, jupyterhub), and DASK_GATEWAY__AUTH__KWARGS__PASSWORD or " \
    "JUPYTERHUB_API_TOKEN"
CLOSED: list[object] = []  # references: dask-gateway closes an object again when it is collected, and prints an error


class GatewayRuntime(PoolRuntime):
    """Scheduler and workers that a Dask Gateway starts; the driver is this process.

    Credentials come from Dask's configuration or the environment, never from a description. The gateway gives the
    certificates of a cluster only to its owner.
    """

    kind: Literal["gateway"] = "gateway"
    address: str = Field(description="of the gateway, https://HOST")
    proxy_address: str | None = Field(default=None, description="gateway://HOST:PORT of its schedulers, where it is "
                                                                "another")
    options: JsonObject = Field(default={}, description="options of the gateway, such as worker_memory or image")
    insecure: bool = Field(default=False, description="whether the address on another machine may be http://; whoever "
                                                      "listens then gets your password and the cluster's certificates")

    @field_validator("address")
    @classmethod
    def _is_an_address(cls, address: str) -> str:
        require_no_secret(address, SpecError)
        url = urlsplit(address)
        require(url.scheme in ("http", "https") and bool(url.hostname), f"{address!r} is not a gateway's address",
                why="a gateway answers over HTTP", fix="write https://HOST", error=SpecError)
        return address

    @model_validator(mode="after")
    def _is_encrypted(self) -> Self:
        url = urlsplit(self.address)
        require(url.scheme == "https" or self.insecure or is_loopback(url.hostname or ""), error=SpecError,
                what=f"{self.address} is neither encrypted nor on this machine",
                why="whoever listens gets your password, and the certificates of the cluster",
                fix="write https://, or insecure: true in a network that you trust")
        return self

    @property
    def starter(self) -> str:
        return f"the gateway {self.address}"

    @property
    def fix_without_workers(self) -> str:
        return "see the gateway's log and your limits there; raise join_timeout where machines are started first"

    def pool(self, stack: ExitStack) -> Pool:
        try:
            from aiohttp import ClientError, ClientResponseError
            from dask_gateway import Gateway, GatewayClusterError, GatewayServerError
        except ImportError as error:
            raise SpecError(explain("kind: gateway needs dask-gateway", why=str(error), fix=INSTALL)) from error
        try:
            gateway = Gateway(self.address, proxy_address=self.proxy_address)
            CLOSED.append(stack.enter_context(gateway))
            options = self._options(gateway.cluster_options())
            pool = gateway.new_cluster(cluster_options=options, shutdown_on_close=True)
            CLOSED.append(stack.enter_context(pool))
            return pool
        except SpecError:
            raise
        except (ClientError, TimeoutError, ValueError, GatewayClusterError, GatewayServerError) as error:
            if isinstance(error, ClientResponseError) and error.status in (401, 403):
                raise ClusterError(explain(f"{self.address} refuses you ({error.status} {error.message})",
                                           why="a gateway starts clusters for users that it knows",
                                           fix=f"set in the environment: {ENVIRONMENT}")) from error
            raise ClusterError(explain(f"{self.address} gives no cluster ({error})", why="tasks run on its workers",
                                       fix="check the address, and see the gateway's log")) from error

    def _options(self, offered: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Set the gateway's options as the description says; return them."""
        unknown = sorted(set(self.options) - set(offered))
        require(not unknown, f"options: {', '.join(unknown)}", error=SpecError, fix="leave them out",
                why=f"{self.address} lets its users choose {', '.join(sorted(offered)) or 'nothing'}")
        for name, value in self.options.items():
            try:
                offered[name] = value
            except (ValueError, TypeError) as error:
                raise SpecError(explain(f"options: {name}: {value} ({error})", why=f"{self.address} does not accept it",
                                        fix="correct it in the description")) from error
        return offered
