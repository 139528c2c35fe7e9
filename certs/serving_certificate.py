"""The server's certificate, issued by our own authority and renewed before it expires.

Invariants
- The files `ca.crt`, `serving.crt` and `serving.key` in the folder always belong together: the key is written
  before its certificate, and the server watches the certificate's file.
- A certificate is renewed when a third of its validity is left, or when the names that it must be valid for
  have changed. The authority stays, so clients need no new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs.authority import LEAF_VALIDITY, Authority, load_or_create

STEM = "serving"
RENEW_BEFORE = LEAF_VALIDITY / 3


def ensure(folder: Path, *, hosts: Sequence[str], now: datetime) -> Authority:
    """Have a valid certificate for these hosts (names and addresses) in `folder`; returns its authority."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = load_or_create(folder, name="sluice", now=now)
    if not _is_valid(folder, authority, hosts=hosts, now=now):
        ips = [host for host in hosts if is_ip(host)]
        dns = [host for host in hosts if not is_ip(host)]
        authority.serving(now=now, dns=dns, ips=ips).save(folder, stem=STEM)
    return authority


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
        names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:
        return False
    if key.public_key() != served.public_key():
        return False
    served_names = {
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    }
    wanted = {str(ip_address(host)) if is_ip(host) else host for host in hosts}
    return (
        wanted <= served_names
        and served.not_valid_before_utc <= now < served.not_valid_after_utc - RENEW_BEFORE
    )
