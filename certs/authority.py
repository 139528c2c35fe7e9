"""A certificate authority of our own, and the certificates it issues.

Invariants
- Keys are ECDSA P-256: handshakes are frequent, and with RSA they cost much more.
- The time is always an argument. A certificate is valid from `SKEW` before it, so that a peer whose clock is
  behind by that much accepts it at once.
- A file is written completely or not at all, and only its owner can read a key.
- A stored authority is one pair: `load` and `checked` refuse a key that does not belong to the certificate.
- No certificate outlives the authority that issued it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: The clock of a node may be set to another time zone.
SKEW = timedelta(days=1)
AUTHORITY_VALIDITY = timedelta(days=3650)
LEAF_VALIDITY = timedelta(days=365)
LONGEST_NAME = 64  # RFC 5280, A.1: ub-common-name, ub-organization-name


class CertificateError(Exception):
    """Base of all errors of this package."""


class AuthorityUnreadable(CertificateError):
    """A stored authority is incomplete, damaged or expired, or its key is not its certificate's.

    The message names the file or Secret and says what to do.
    """


class AuthorityForeign(CertificateError):
    """The Secret holds an authority that this installation has never had; the message says what to do."""


class ClockWrong(CertificateError):
    """Our clock and the API server's differ by more than certificates allow for."""


class FilesUnusable(CertificateError):
    """The files of a certificate that somebody else issues cannot be served; the message names them."""


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    def save(self, folder: Path, *, stem: str) -> tuple[Path, Path]:
        """Write `<stem>.crt` and `<stem>.key` (mode 0600) atomically; return both paths.

        The key is written first, so that a process that waits for the certificate finds its key.
        """
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = folder / f"{stem}.crt", folder / f"{stem}.key"
        write(key, self.key, mode=0o600)
        write(certificate, self.certificate, mode=0o644)
        return certificate, key


@dataclass(frozen=True)
class Authority(KeyPair):
    """A certificate authority: issues serving and client certificates."""

    def serving(
        self,
        *,
        now: datetime,
        dns: Sequence[str] = (),
        ips: Sequence[str] = (),
        validity: timedelta = LEAF_VALIDITY,
    ) -> KeyPair:
        """A serving certificate for these names and addresses; at least one is required."""
        names = [
            *(x509.DNSName(name) for name in dns),
            *(x509.IPAddress(ip_address(ip)) for ip in ips),
        ]
        if not names:
            raise ValueError("a serving certificate needs a DNS name or an address")
        subject = _subject([*dns, *ips][0][:LONGEST_NAME])  # clients read only the alternative names
        alternatives = x509.SubjectAlternativeName(names)
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, now, validity, alternatives)

    def client(
        self,
        *,
        name: str,
        now: datetime,
        organisations: Sequence[str] = (),
        validity: timedelta = LEAF_VALIDITY,
    ) -> KeyPair:
        """A client certificate: to the API server it is user `name` in groups `organisations`.

        Raises ValueError if one of them is longer than `LONGEST_NAME`.
        """
        subject = _subject(name, organisations)
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, now, validity, None)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        now: datetime,
        validity: timedelta,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        issuer = x509.load_pem_x509_certificate(self.certificate)
        signer = _private(self.key)
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(now + validity, issuer.not_valid_after_utc)
        builder = _builder(subject, issuer.subject, key.public_key(), now, until)
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_leaf_usage(), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
            )
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return KeyPair(_pem(builder.sign(signer, hashes.SHA256())), _key_pem(key))


def create(*, name: str, now: datetime, validity: timedelta = AUTHORITY_VALIDITY) -> Authority:
    """A new self-signed authority; nothing is written."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = (
        _builder(subject, subject, key.public_key(), now, now + validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_authority_usage(), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Authority(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def load(folder: Path, *, stem: str = "ca") -> Authority:
    """The authority that `save` wrote there. Raises `AuthorityUnreadable`."""
    where, way_out = f"the authority {stem} in {folder}", "remove both files for a new one"
    try:
        pair = KeyPair((folder / f"{stem}.crt").read_bytes(), (folder / f"{stem}.key").read_bytes())
    except OSError as exc:
        raise AuthorityUnreadable(f"{where} cannot be read ({exc}); {way_out}") from exc
    return checked(pair, where=where, way_out=way_out)


def checked(pair: KeyPair, *, where: str, way_out: str) -> Authority:
    """The pair as an authority.

    Raises `AuthorityUnreadable` unless it is an authority's certificate and its ECDSA key.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = _private(pair.key).public_key()
    except ValueError as exc:
        raise AuthorityUnreadable(f"{where} cannot be read ({exc}); {way_out}") from exc
    if certificate.public_key() != key:
        raise AuthorityUnreadable(
            f"key and certificate of {where} are of two different pairs: the key does not fit; {way_out}"
        )
    if not _is_authority(certificate):
        raise AuthorityUnreadable(f"{where} is a certificate that may issue no others; {way_out}")
    return Authority(pair.certificate, pair.key)


def load_or_create(folder: Path, *, name: str, now: datetime, stem: str = "ca") -> Authority:
    """The authority stored in `folder`; creates and stores it if there is none.

    Safe if another process does the same: both get the same authority.
    """
    with _locked(folder / f".{stem}.lock"):
        if (folder / f"{stem}.crt").exists():
            return load(folder, stem=stem)
        authority = create(name=name, now=now)
        authority.save(folder, stem=stem)
        return authority


@lru_cache(maxsize=64)
def expires(certificate: bytes) -> datetime:
    """When this PEM certificate expires, in UTC."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


@lru_cache(maxsize=64)
def fingerprint(certificate: bytes) -> str:
    """The SHA-256 of a PEM certificate, of which the first 16 digits name it in texts and reports."""
    return x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256()).hex()[:16]


def split(bundle: bytes) -> tuple[bytes, ...]:
    """The certificates of a PEM bundle, each as PEM, in their order. Raises ValueError."""
    return tuple(_pem(each) for each in x509.load_pem_x509_certificates(bundle)) if bundle.strip() else ()


def write(path: Path, content: bytes, *, mode: int) -> None:
    """Write the file completely or not at all; at no moment does it have a wider mode."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp: 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _subject(name: str, organisations: Sequence[str] = ()) -> x509.Name:
    common = x509.NameAttribute(NameOID.COMMON_NAME, name)
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organisations]
    return x509.Name([*groups, common])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
    )


def _leaf_usage() -> x509.KeyUsage:
    return _usage(signs=False)


def _authority_usage() -> x509.KeyUsage:
    return _usage(signs=True)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an ECDSA key")  # noqa: TRY004  (a damaged file, not a wrong call)
    return key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
