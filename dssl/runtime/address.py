"""A scheduler that is already running, and encrypted connections to it.

dssl checks the certificates before it connects: Dask itself reports every problem with them as a connection that was
closed or timed out.
"""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from distributed import Client
from distributed.security import Security
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..base.errors import ClusterError, SpecError, explain, require
from ..base.urls import is_loopback
from ..execution.on_dask import OnDask
from .description import DaskRuntime
from .engine import Detached

SILENCE = 2.0  # seconds without data after which dssl tests whether an unencrypted scheduler is an encrypted one
EXPIRED, NOT_YET = 10, 9  # OpenSSL's codes of certificates that have expired, or are not valid yet
MAKE_THEM = "make certificates with `dssl cluster certs FOLDER`, and start scheduler and workers with them"


class TlsFiles(BaseModel):
    """Files of certificates and a key, with Dask's names."""

    model_config = ConfigDict(extra="forbid")
    ca_file: str
    cert: str
    key: str

    def security(self) -> Security:
        """Return the security of Dask's client.

        Raises ClusterError: a file is missing or is of another kind, the key is that of another certificate, the CA has
        not signed the certificate, or one of the two has expired.
        """
        certificates = {path: _certificate(path) for path in (self.cert, self.ca_file)}
        _require_key(self, certificates[self.cert])
        _require_trust(self, certificates)
        return Security(tls_ca_file=self.ca_file, tls_client_cert=self.cert, tls_client_key=self.key,
                        require_encryption=True)


def knock(address: str, tls: TlsFiles | None, timeout: float) -> Security | None:
    """Return the security of Dask's client after a first connection with it has succeeded.

    Raises OSError: nothing listens at the address. ClusterError: the certificates are not valid, only one side
    encrypts, or one side does not trust the other's certificate.
    """
    if tls is None:
        if not _speaks_first(address, timeout) and _encrypts(address, timeout):
            raise ClusterError(explain(
                f"the scheduler at {address} requires TLS", why="it refuses connections that are not encrypted",
                fix=f"write {address.replace('tcp://', 'tls://')}, in a file with kind: address and tls: "
                    "{ca_file, cert, key}"))
        return None
    security = tls.security()
    context = security.get_connection_args("client")["ssl_context"]
    try:
        with _connected(address, timeout) as plain, context.wrap_socket(plain) as encrypted, suppress(TimeoutError):
            encrypted.recv(1)  # with TLS 1.3 a server refuses the client's certificate after the handshake
    except ssl.SSLCertVerificationError as error:
        raise _distrust(address, tls, error) from error
    except ssl.SSLError as error:
        raise _refusal(address, tls, error) from error
    return security


def _connected(address: str, timeout: float) -> socket.socket:
    url = urlsplit(address)
    return socket.create_connection((url.hostname or "", url.port or 0), timeout)


def _speaks_first(address: str, timeout: float) -> bool:
    """Return whether a server sends data before it has received any, as an unencrypted scheduler does."""
    with _connected(address, timeout) as plain:
        plain.settimeout(min(timeout, SILENCE))
        with suppress(TimeoutError):
            return bool(plain.recv(1))
    return False


def _encrypts(address: str, timeout: float) -> bool:
    """Return whether a server answers with TLS; no certificate is checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with _connected(address, timeout) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False


def _distrust(address: str, tls: TlsFiles, error: ssl.SSLCertVerificationError) -> ClusterError:
    """Return the error for a scheduler whose certificate dssl does not trust."""
    if error.verify_code == EXPIRED:
        return ClusterError(explain(
            f"the certificate of the scheduler at {address} has expired",
            why="the holder of an old key could pose as the scheduler",
            fix="renew it with `dssl cluster certs FOLDER` of the folder with its CA, and start the scheduler again"))
    return ClusterError(explain(
        f"the certificate of the scheduler at {address} is not signed by {tls.ca_file} ({error.verify_message})",
        why="another server may answer at that address",
        fix="check the address, and take ca_file, cert and key from the folder with the scheduler's own certificates"))


def _refusal(address: str, tls: TlsFiles, error: ssl.SSLError) -> ClusterError:
    """Return the error for a scheduler that refuses the connection."""
    reason = error.reason or str(error)
    if reason == "WRONG_VERSION_NUMBER":
        return ClusterError(explain(
            f"the scheduler at {address} does not use TLS", why="whoever can reach it can run code on every worker",
            fix=f"{MAKE_THEM}; or, in a network that you trust, write {address.replace('tls://', 'tcp://')} and "
                "insecure: true in place of tls"))
    if reason.endswith("ALERT_UNKNOWN_CA"):
        return ClusterError(explain(
            f"the scheduler at {address} refuses {tls.cert}: it trusts another CA than {tls.ca_file}",
            why="a scheduler accepts tasks only from processes whose certificate is signed by its own CA",
            fix="take ca_file, cert and key from the folder with the scheduler's own certificates"))
    return ClusterError(explain(
        f"the scheduler at {address} refuses {tls.cert} ({reason.replace('_', ' ').lower()})",
        why="each side must trust the other's certificate, by its own clock",
        fix="see the scheduler's log, and compare the clocks of both machines"))


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ClusterError(explain(f"there is no certificate {path} ({error.strerror})",
                                   why="without certificate and key the scheduler refuses the connection",
                                   fix=f"check tls; or {MAKE_THEM}")) from error


def _certificate(path: str) -> x509.Certificate:
    """Return the first certificate of a file."""
    text = _read(path)
    try:
        return x509.load_pem_x509_certificate(text)
    except ValueError as error:
        raise ClusterError(explain(f"{path} is not a certificate", why=str(error),
                                   fix="name a file that begins with -----BEGIN CERTIFICATE-----")) from error


def _require_key(tls: TlsFiles, certificate: x509.Certificate) -> None:
    """Raise ClusterError unless the key is that of the certificate."""
    text = _read(tls.key)
    try:
        key = load_pem_private_key(text, None)
    except (ValueError, TypeError) as error:  # TypeError: it has a password
        raise ClusterError(explain(f"{tls.key} is not a key without a password", why=str(error),
                                   fix="name a file that begins with -----BEGIN PRIVATE KEY-----")) from error
    if key.public_key() != certificate.public_key():
        raise ClusterError(explain(f"{tls.key} is not the key of {tls.cert}",
                                   why="a certificate can be used only with its own key",
                                   fix="name files that were made together"))


def _require_trust(tls: TlsFiles, certificates: dict[str, x509.Certificate]) -> None:
    """Raise ClusterError unless, by OpenSSL's check, a scheduler with the same CA would trust the certificate.

    certificates : the client's and the CA's, by file.
    """
    try:
        _shake_hands(tls)
    except ssl.SSLCertVerificationError as error:
        now = datetime.now(UTC)
        for path, certificate in certificates.items():
            first = certificate.not_valid_before_utc
            last = certificate.not_valid_after_utc
            if error.verify_code in (EXPIRED, NOT_YET) and not first <= now <= last:
                when = f"has expired on {last:%Y-%m-%d %H:%M} UTC" if now > last else \
                    f"is valid from {first:%Y-%m-%d %H:%M} UTC on"
                raise ClusterError(explain(
                    f"{path} {when}", why="the scheduler would refuse the connection",
                    fix="renew the certificates with `dssl cluster certs FOLDER`, or correct this machine's "
                        "clock")) from error
        raise ClusterError(explain(
            f"{tls.cert} is not signed by {tls.ca_file} ({error.verify_message})",
            why="the scheduler would refuse the connection", fix="name files that were made together")) from error


def _shake_hands(tls: TlsFiles) -> None:
    """Connect a client with the certificate to a server in this process that trusts the CA."""
    listening = Security(tls_ca_file=tls.ca_file, tls_scheduler_cert=tls.cert, tls_scheduler_key=tls.key)
    connecting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    connecting.check_hostname = False
    connecting.verify_mode = ssl.CERT_NONE
    connecting.load_cert_chain(tls.cert, tls.key)
    outgoing = ssl.MemoryBIO()
    incoming = ssl.MemoryBIO()
    sides = (connecting.wrap_bio(incoming, outgoing),
             listening.get_listen_args("scheduler")["ssl_context"].wrap_bio(outgoing, incoming, server_side=True))
    for side in sides * 2:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()


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
