"""Certificates for a Dask cluster of several machines: an authority, and what scheduler, workers and clients show.

Each process trusts those alone whose certificate the same authority has signed. A client's certificate cannot pose as
a scheduler or worker: it is for connections that its holder opens.
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
EARLIER = timedelta(hours=1)  # by which certificates begin before now, for machines whose clocks are late
OPENS = ExtendedKeyUsageOID.CLIENT_AUTH
SERVES = ExtendedKeyUsageOID.SERVER_AUTH
ROLES = {"scheduler": [SERVES, OPENS], "worker": [SERVES, OPENS], "client": [OPENS]}
Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def make_certificates(folder: Path, hosts: Sequence[str], days: int) -> bool:
    """Write certificates and keys of scheduler, worker and client, and return whether their authority is new.

    An authority that the folder holds signs again: what its processes trust stays the same. `NAME.pem` is a
    certificate, `NAME-key.pem` its key, which its owner alone can read.

    hosts : names or addresses that the scheduler's and the workers' certificates hold. days : for which they are valid.

    Raises
    ------
    SpecError : the folder holds half an authority, or one that ends before the certificates would.
    """
    paths = folder / "ca.pem", folder / "ca-key.pem"
    there = [path.exists() for path in paths]
    require(all(there) or not any(there), f"{folder} holds only one of {paths[0].name} and {paths[1].name}",
            why="an authority signs with its key, and is trusted by its certificate", error=SpecError,
            fix="bring the other one back, or name another folder")
    authority = _read(*paths) if all(there) else _authority()
    ends = datetime.now(UTC) + timedelta(days=days)
    last = authority[0].not_valid_after_utc
    require(ends <= last, f"certificates for {days} days", error=SpecError,
            why=f"their authority, {paths[0]}, is valid until {last:%Y-%m-%d}",
            fix="lower --days, or name another folder, for an authority that every process must be given anew")
    signed = {role: _signed(role, authority, hosts if SERVES in ROLES[role] else (), ends) for role in ROLES}
    for name, pair in signed.items() if all(there) else {"ca": authority, **signed}.items():
        _write(folder, name, pair)
    return not all(there)


def _authority() -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    number = x509.random_serial_number()
    name = _name(f"dssl CA {number:x}"[:40])  # one of its own: OpenSSL seeks authorities by name
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
            .not_valid_before(datetime.now(UTC) - EARLIER).not_valid_after(ends)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing), critical=False))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    require(re.fullmatch(r"[A-Za-z0-9._-]+", host) is not None, f"--host {host!r}", error=SpecError,
            why="a certificate holds a name or an address of a machine", fix="write it without scheme and port")
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
        raise SpecError(explain(f"{certificate} and {key} are no authority ({error})",
                                why="certificates are signed with its key", fix="name another folder")) from error
    require(isinstance(loaded, ec.EllipticCurvePrivateKey) and loaded.public_key() == authority.public_key(),
            f"{key} is not the key of {certificate}", why="certificates are signed with it", error=SpecError,
            fix="bring the right one back, or name another folder")
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
