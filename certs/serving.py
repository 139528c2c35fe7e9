"""The certificate that we serve: issued by our authority into a folder, or files that somebody else writes.

Invariants
- The files `serving.crt` and `serving.key` in the folder always belong together: the key is written before
  its certificate, and the server watches the certificate's file. `ca.crt` is what callers are to trust.
- A certificate is renewed when a third of its validity is left, when its authority is another one, or when
  the names that it must be valid for have changed.
- Files of somebody else are only read. What is wrong with them is said by name, before they are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs.authority import (
    LEAF_VALIDITY,
    SKEW,
    Authority,
    AuthorityUnreadable,
    FilesUnusable,
    expires,
    load_or_create,
    write,
)

STEM = "serving"
RENEW_BEFORE = LEAF_VALIDITY / 3


def ensure(folder: Path, *, hosts: Sequence[str], now: datetime) -> Authority:
    """Have a valid certificate for these hosts (names and addresses) in `folder`, which keeps the authority
    too.

    Raises `AuthorityUnreadable`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority = load_or_create(folder, name="sluice", now=now)
    if now >= expires(authority.certificate):
        raise AuthorityUnreadable(
            f"the authority ca in {folder} has expired ({expires(authority.certificate)}); remove ca.crt and"
            " ca.key for a new one, which schedulers have to be given"
        )
    issue_if_needed(folder, authority, hosts=hosts, now=now)
    return authority


def issue_if_needed(folder: Path, authority: Authority, *, hosts: Sequence[str], now: datetime) -> bool:
    """Have a valid certificate of this authority in `folder`; returns whether a new one was issued."""
    if _is_valid(folder, authority, hosts=hosts, now=now):
        return False
    ips = [host for host in hosts if is_ip(host)]
    dns = [host for host in hosts if not is_ip(host)]
    authority.serving(now=now, dns=dns, ips=ips).save(folder, stem=STEM)
    return True


def write_bundle(folder: Path, bundle: bytes) -> None:
    """Write `ca.crt`, unless it is so."""
    path = folder / "ca.crt"
    if not path.exists() or path.read_bytes() != bundle:
        write(path, bundle, mode=0o644)


def given_files(folder: Path) -> tuple[Path, Path]:
    """Certificate and key in a folder that is the volume of a Secret of type kubernetes.io/tls."""
    return folder / "tls.crt", folder / "tls.key"


def check_files(folder: Path, *, name: str, now: datetime) -> datetime:
    """When the certificate in this folder expires.

    Raises `FilesUnusable` if its files are no pair, not valid now, or not for `name`, by which the API server
    calls.
    """
    certfile, keyfile = given_files(folder)
    try:
        certificate = x509.load_pem_x509_certificate(certfile.read_bytes())
        key = serialization.load_pem_private_key(keyfile.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as exc:
        raise FilesUnusable(
            f"tls_dir: {certfile} and {keyfile} cannot be read ({exc}); mount a Secret of type"
            " kubernetes.io/tls there, as cert-manager writes it"
        ) from exc
    if certificate.public_key() != key.public_key():
        raise FilesUnusable(
            f"tls_dir: the key {keyfile} does not fit the certificate {certfile}; mount both from one Secret"
        )
    until, since = certificate.not_valid_after_utc, certificate.not_valid_before_utc
    if now >= until:
        raise FilesUnusable(
            f"tls_dir: the certificate {certfile} has expired ({until:%Y-%m-%d %H:%M} UTC); see why it was"
            " not renewed: kubectl describe certificate"
        )
    if now < since - SKEW:
        raise FilesUnusable(
            f"tls_dir: the certificate {certfile} is not valid before {since:%Y-%m-%d %H:%M} UTC: a clock"
            " is wrong"
        )
    names = _names(certificate)
    if not any(_is_for(each, name) for each in names):
        raise FilesUnusable(
            f"tls_dir: the certificate {certfile} is not for {name}, by which the API server calls the"
            f" webhooks; it is for {', '.join(sorted(names)) or 'no name'}"
        )
    return until


def is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_valid(folder: Path, authority: Authority, *, hosts: Sequence[str], now: datetime) -> bool:
    """Whether the stored pair is valid for these hosts and for long enough, and issued by this authority."""
    try:
        served = x509.load_pem_x509_certificate((folder / f"{STEM}.crt").read_bytes())
        served.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
        key = serialization.load_pem_private_key((folder / f"{STEM}.key").read_bytes(), password=None)
    except Exception:
        return False
    if key.public_key() != served.public_key():
        return False
    wanted = {str(ip_address(host)) if is_ip(host) else host for host in hosts}
    until = served.not_valid_after_utc
    # One that ends with its authority cannot be had for longer.
    ends_with_authority = until >= expires(authority.certificate)
    is_long_enough = now < until - RENEW_BEFORE or (ends_with_authority and now < until)
    return wanted <= _names(served) and served.not_valid_before_utc <= now and is_long_enough


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    return {
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    }


def _is_for(pattern: str, name: str) -> bool:
    """As a TLS client compares them: `*` stands for the first label."""
    first, _, rest = name.partition(".")
    return pattern == name or (bool(rest) and pattern == f"*.{rest}" and bool(first))
