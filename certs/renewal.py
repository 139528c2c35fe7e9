"""The server's certificate, issued by our own authority, and the thread that renews it.

The thread `certificates` also writes the authority's certificate into the `caBundle` of our webhooks.

Invariants
- The files `ca.crt`, `serving.crt` and `serving.key` in the folder always belong together: the key is written
  before its certificate, and the server watches the certificate's file.
- A certificate is renewed when a third of its validity is left, or when the names that it must be valid for
  have changed. The authority stays, so clients need no new one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import secret_store
from certs.authority import LEAF_VALIDITY, Authority, CertificateError, load_or_create
from certs.ca_bundle import register
from cluster.api.client import Client
from cluster.background_thread import BackgroundThread
from cluster.exceptions import ClusterError

STEM = "serving"
RENEW_BEFORE = LEAF_VALIDITY / 3
#: Somebody may apply the webhooks again, without our authority.
CHECK_SECONDS = 30.0
RETRY_SECONDS = 1.0

log = logging.getLogger(__name__)


class CertificateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the certificate is kept, and for which names and addresses it is valid.

    `secret`: keeps the authority, in our `namespace`; empty: the folder alone keeps it.
    """

    folder: Path
    hosts: Sequence[str]
    namespace: str
    secret: str = ""


class CertificateRenewal:
    """Renews the certificate and registers its authority, over and over. Owner: the server."""

    def __init__(self, settings: CertificateSettings, *, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._stopped = threading.Event()
        self._thread = BackgroundThread(self._run, name="certificates")

    @property
    def alive(self) -> bool:
        return self._thread.alive

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """It stops at once, or after the request under way."""
        self._stopped.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        wait = 0.0
        while not self._stopped.wait(wait):
            wait = self._update()

    def _update(self) -> float:
        """Returns the seconds until the next update. An error never ends the thread."""
        try:
            certificate = ensure_certificate(self._settings, client=self._client)
            changed = register(self._client, certificate=certificate)
        except (ClusterError, CertificateError, OSError) as exc:
            log.warning("the webhooks cannot be given our caBundle yet: %s", exc)
            return RETRY_SECONDS
        except Exception:
            log.exception("the webhooks cannot be given our caBundle yet")
            return CHECK_SECONDS
        if changed:
            log.info("caBundle written into %d webhooks", changed)
        return CHECK_SECONDS


def ensure_certificate(settings: CertificateSettings, *, client: Client) -> bytes:
    """Have a valid serving certificate in the folder; returns the authority's certificate."""
    folder, now = settings.folder, datetime.now(UTC)
    if settings.secret:
        folder.mkdir(parents=True, exist_ok=True)
        secret_store.load_or_create(
            client, namespace=settings.namespace, name=settings.secret, folder=folder, now=now
        )
    return ensure(folder, hosts=settings.hosts, now=now).certificate


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
