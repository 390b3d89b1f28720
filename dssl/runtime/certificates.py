"""Certificates for a Dask cluster of several machines: an authority, and certificates of scheduler, workers, clients.

A process trusts another one only if the same authority has signed its certificate. The holder of a client's
certificate can open connections, but cannot pose as a scheduler or worker.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ..base.errors import SpecError, explain, require
from ..storage.files import draft_of

CA_DAYS = 3650
CLOCK_TOLERANCE = timedelta(hours=1)  # certificates are valid from that long before now, for clocks that are late
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH
ROLES = {"scheduler": [SERVER, CLIENT], "worker": [SERVER, CLIENT], "client": [CLIENT]}
Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def make_certificates(folder: Path, hosts: Sequence[str], days: int) -> bool:
    """Write certificates and keys of scheduler, worker and client; return whether their authority is new.

    If the folder holds an authority, it signs the new certificates too, so that running processes trust them.
    `NAME.pem` is a certificate and `NAME-key.pem` its key, which only its owner can read.

    hosts : names or addresses in the certificates of scheduler and workers. days : for which they are valid.

    Raises SpecError: the folder has only one of the two files of an authority, or its authority expires too early.
    """
    paths = folder / "ca.pem", folder / "ca-key.pem"
    existing = [path.exists() for path in paths]
    require(all(existing) or not any(existing), f"{folder} holds only one of {paths[0].name} and {paths[1].name}",
            why="an authority consists of a certificate and its key", error=SpecError,
            fix="restore the other file, or name another folder")
    authority = _read(*paths) if all(existing) else _authority()
    ends = datetime.now(UTC) + timedelta(days=days)
    last = authority[0].not_valid_after_utc
    require(ends <= last, f"certificates for {days} days", error=SpecError,
            why=f"their authority, {paths[0]}, is valid until {last:%Y-%m-%d}",
            fix="lower --days, or name another folder: it gets a new authority, whose certificates every process needs")
    signed = {role: _signed(role, authority, hosts if SERVER in ROLES[role] else (), ends) for role in ROLES}
    for name, pair in signed.items() if all(existing) else {"ca": authority, **signed}.items():
        _write(folder, name, pair)
    return not all(existing)


def _authority() -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    number = x509.random_serial_number()
    name = _name(f"dssl CA {number:x}"[:40])  # unique, because OpenSSL looks authorities up by name
    ends = datetime.now(UTC) + timedelta(days=CA_DAYS)
    made = (_builder(name, name, key.public_key(), key.public_key(), number, ends)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True))
    return made.sign(key, hashes.SHA256()), key


def _signed(role: str, authority: Pair, hosts: Sequence[str], ends: datetime) -> Pair:
    certificate, signing = authority
    key = ec.generate_private_key(ec.SECP256R1())
    made = (_builder(_name(f"dssl {role}"), certificate.subject, key.public_key(), signing.public_key(),
                     x509.random_serial_number(), ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(ROLES[role]), critical=False))
    if hosts:
        made = made.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return made.sign(signing, hashes.SHA256()), key


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey,
             signing: ec.EllipticCurvePublicKey, number: int, ends: datetime) -> x509.CertificateBuilder:
    return (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key).serial_number(number)
            .not_valid_before(datetime.now(UTC) - CLOCK_TOLERANCE).not_valid_after(ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing), critical=False))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    require(re.fullmatch(r"[A-Za-z0-9._-]+", host) is not None, f"--host {host!r}", error=SpecError,
            why="a certificate names a machine by its name or address", fix="write it without scheme and port")
    return x509.DNSName(host)


def _usage(**uses: bool) -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: uses.get(name, False) for name in names})


def _read(certificate: Path, key: Path) -> Pair:
    try:
        loaded = load_pem_private_key(key.read_bytes(), None)
        authority = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (ValueError, TypeError) as error:
        raise SpecError(explain(f"{certificate} and {key} are not the files of an authority ({error})",
                                why="its key signs the new certificates", fix="name another folder")) from error
    require(isinstance(loaded, ec.EllipticCurvePrivateKey) and loaded.public_key() == authority.public_key(),
            f"{key} is not the key of {certificate}", why="it signs the new certificates", error=SpecError,
            fix="restore the right key, or name another folder")
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    return authority, loaded


def _write(folder: Path, name: str, pair: Pair) -> None:
    certificate, key = pair
    for path, mode, text in (
            (folder / f"{name}-key.pem", 0o600,
             key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())),
            (folder / f"{name}.pem", 0o644, certificate.public_bytes(Encoding.PEM))):
        with draft_of(path) as draft, open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(text)
