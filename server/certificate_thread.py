"""Keeps the serving certificate and the caBundle of our webhooks current, in the thread `certificates`."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from pathlib import Path

from certs.ca_bundle import register
from certs.exceptions import CertificateError
from certs.secret_store import load_or_create
from certs.serving_certificate import ensure
from cluster.api.client import Client
from cluster.exceptions import ClusterError
from server.configuration import Settings

#: Somebody may apply the webhooks again, without our authority.
CHECK_SECONDS = 30.0
RETRY_SECONDS = 1.0

log = logging.getLogger(__name__)


def ensure_certificate(settings: Settings, *, client: Client) -> bytes:
    """Have a valid serving certificate in the settings' folder; returns the authority's certificate."""
    folder, now = Path(settings.certs_dir), datetime.now(UTC)
    if settings.ca_secret:
        folder.mkdir(parents=True, exist_ok=True)
        load_or_create(client, namespace=settings.namespace, name=settings.ca_secret, folder=folder, now=now)
    return ensure(folder, hosts=settings.served_hosts, now=now).certificate


class CertificateThread:
    """Renews the certificate and registers its authority, over and over. Owner: `Runtime`."""

    def __init__(self, settings: Settings, *, client: Client) -> None:
        self._settings = settings
        self._client = client
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Call it after the fork: a thread object made before counts as stopped in the child."""
        self._thread = threading.Thread(target=self._run, name="certificates", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """It stops at once, or after the request under way."""
        self._stopped.set()
        if self._thread is not None:
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
