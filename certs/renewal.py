"""The thread `certificates`: keeps the serving certificate valid, and its authority trusted by the callers.

| where the certificate comes from             | what the thread does                                      |
|----------------------------------------------|-----------------------------------------------------------|
| our authority in a Secret (`ca_secret`)      | `certs.shared_authority`: issues, registers, replaces the |
|                                              | authority                                                 |
| our authority in the folder, for one replica | issues, and writes `caBundle`; the authority stays for    |
|                                              | ten years                                                 |
| files that others write (`tls_dir`)          | reads them, and reports when they expire; writes nothing  |

A metric has the expiry of each certificate. The log names one that expires soon. `/readyz` fails once the
serving certificate has expired.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from certs.authority import CertificateError, FilesUnusable, expires, fingerprint
from certs.ca_bundle import register
from certs.rotation import AuthorityState
from certs.secret_store import AuthoritySecret
from certs.serving import STEM, check_files, ensure, given_files, issue_if_needed, write_bundle
from certs.shared_authority import SharedAuthority, server_time
from cluster.api.client import Client
from cluster.background_thread import BackgroundThread
from cluster.backoff import Backoff
from cluster.coordination.replicas import OtherReplicas
from cluster.exceptions import ClusterError
from cluster.metrics import Metrics

#: An admin may apply the webhooks again without our authority: each call of them fails until they have it.
CHECK_SECONDS = 5.0
RETRY_SECONDS = 1.0
#: The wait after a failure. `longest`: also between two tries if only an admin can mend the cause.
BACKOFF = Backoff(RETRY_SECONDS, 30.0)
#: The time after a start in which they are read every `RETRY_SECONDS`: an upgrade brings new ones then.
UPGRADE_SECONDS = 60.0
#: The worker looks at the files of the certificate every second; from then on it serves the new one.
SERVED_SECONDS = 5.0
#: The log says so once a day from then on.
WARN_BEFORE = timedelta(days=20)
WARN_SECONDS = 86_400.0
LOOP = "certificates"

log = logging.getLogger(__name__)


class CertificateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the certificate is kept, and for which names and addresses it is valid.

    `secret`: keeps the authority, in our `namespace`; empty: the folder alone keeps it. `wait`: how long
    schedulers have for their copy of a new authority. `given`: the folder with a certificate and its key that
    others write, instead of all that; `name`: the name by which the API server calls us.
    """

    folder: Path
    hosts: Sequence[str]
    namespace: str
    secret: str = ""
    wait: timedelta = timedelta(days=30)
    given: Path | None = None
    name: str = ""

    @property
    def served(self) -> tuple[Path, Path]:
        """The files that are served: certificate and key."""
        if self.given is not None:
            return given_files(self.given)
        return self.folder / f"{STEM}.crt", self.folder / f"{STEM}.key"


class CertificateRenewal:
    """Keeps everything of certificates current, over and over. Owner: the server.

    `prepare` is called before the server listens, `start` in the worker.
    """

    def __init__(
        self,
        settings: CertificateSettings,
        *,
        client: Client,
        metrics: Metrics,
        replicas: OtherReplicas | None = None,
        identity: str = "",
    ) -> None:
        self._settings = settings
        self._client = client
        self._metrics = metrics
        self._replicas = replicas
        self._identity = identity
        self._shared = self._new_shared() if settings.secret else None
        #: Which authority issued what the files hold, and since when, in monotonic seconds.
        self._written: tuple[str, float] = ("", 0.0)
        #: The one that is served for sure.
        self._issuer: str | None = None
        self._expires: datetime | None = None
        self._warned_at = float("-inf")
        #: Until when webhooks may be new, in monotonic seconds.
        self._upgrade_until = float("-inf")
        #: Without a success in between.
        self._failures = 0
        self._stopped = threading.Event()
        self._thread = BackgroundThread(self._run, name="certificates")

    @property
    def alive(self) -> bool:
        return self._thread.alive

    @property
    def issuer(self) -> str:
        """The authority (`fingerprint`) by which this replica serves, for its Lease; empty if unknown."""
        return self._issuer or ""

    @property
    def expires(self) -> datetime | None:
        """When the certificate that is served expires; None while that is not known."""
        return self._expires

    def expired(self) -> list[str]:
        """One line if the certificate that is served has expired."""
        until = self._expires
        if until is None or self._now() < until:
            return []
        return [f"the serving certificate has expired ({until:%Y-%m-%d %H:%M} UTC); the log says why"]

    def prepare(self) -> None:
        """Have a certificate to serve. Raises `CertificateError`, `ClusterError` or OSError, and then the
        server does not start.
        """
        settings = self._settings
        if settings.given is not None:
            self._check_files(settings.given)
        elif self._shared is not None:
            settings.folder.mkdir(parents=True, exist_ok=True)
            self._serve(self._shared.load())
        else:
            ensure(settings.folder, hosts=settings.hosts, now=datetime.now(UTC))
        self._read_served()

    def start(self) -> None:
        self._upgrade_until = time.monotonic() + UPGRADE_SECONDS
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
            wait = self._updated()
        except (CertificateError, ClusterError, OSError) as exc:
            log.error("certificates: %s", exc)  # noqa: TRY400 - the reason is in the message
            wait = self._failed(exc, lasting=isinstance(exc, CertificateError))
        except Exception as exc:
            log.exception("certificates")
            wait = self._failed(exc, lasting=True)
        else:
            self._failures = 0
            self._metrics.retries.succeeded(LOOP)
        self._warn()
        return wait

    def _failed(self, why: Exception, *, lasting: bool) -> float:
        """Count it; returns the seconds until the next try. `lasting`: only an admin can mend it."""
        self._metrics.failed(LOOP)
        self._metrics.retries.failed(LOOP, why, urgent=lasting)
        self._failures += 1
        return BACKOFF.longest if lasting else BACKOFF.seconds(self._failures)

    def _updated(self) -> float:
        if self._settings.given is not None:
            self._check_files(self._settings.given)
            self._read_served()
            return CHECK_SECONDS
        if self._shared is None:
            return self._update_folder()
        update = self._shared.update(self._serve)
        self._note(update.state)
        self._read_served()
        _log_changed(update.changed)
        if update.error is not None:
            raise update.error
        return RETRY_SECONDS if update.again else self._pause()

    def _pause(self) -> float:
        """The seconds until the webhooks are looked at again."""
        return RETRY_SECONDS if time.monotonic() < self._upgrade_until else CHECK_SECONDS

    def _update_folder(self) -> float:
        settings = self._settings
        authority = ensure(settings.folder, hosts=settings.hosts, now=server_time(self._client))
        self._note(AuthorityState(authority))
        self._read_served()
        _log_changed(register(self._client, certificate=authority.certificate))
        return self._pause()

    def _new_shared(self) -> SharedAuthority:
        settings = self._settings
        return SharedAuthority(
            self._client,
            secret=AuthoritySecret(self._client, namespace=settings.namespace, name=settings.secret),
            wait=settings.wait,
            issuers=self._issuers,
        )

    def _serve(self, state: AuthorityState) -> None:
        settings = self._settings
        write_bundle(settings.folder, state.bundle)
        now = server_time(self._client)
        name = fingerprint(state.current.certificate)
        issued = issue_if_needed(settings.folder, state.current, hosts=settings.hosts, now=now)
        if issued or self._written[0] != name:
            self._written = name, time.monotonic()
        elif time.monotonic() >= self._written[1] + SERVED_SECONDS:
            self._issuer = name

    def _issuers(self) -> Mapping[str, str | None]:
        own: dict[str, str | None] = {self._identity: self.issuer or None}
        if self._replicas is None:
            return own
        began = time.monotonic()
        reading = self._replicas.read(self._replicas.list(), began=began)
        return {**own, **{name: report.ca or None for name, report in reading.views.items()}}

    def _check_files(self, folder: Path) -> None:
        try:
            check_files(folder, name=self._settings.name, now=server_time(self._client))
        except FilesUnusable:
            if self._expires is not None:
                log.warning("what was served before goes on being served, until it expires")
            raise

    def _note(self, state: AuthorityState) -> None:
        """Say when each authority expires."""
        gauge = self._metrics.certificate_expiry
        gauge.labels("authority").set(expires(state.current.certificate).timestamp())
        if state.next is not None:
            gauge.labels("next_authority").set(expires(state.next.certificate).timestamp())
        else:
            with contextlib.suppress(KeyError):  # of the versions of prometheus_client some raise it
                gauge.remove("next_authority")

    def _read_served(self) -> None:
        self._expires = expires(self._settings.served[0].read_bytes())
        self._metrics.certificate_expiry.labels("serving").set(self._expires.timestamp())

    def _now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._client.clock_skew)

    def _warn(self) -> None:
        """Say it when what is served ends soon: its renewal has failed for long."""
        until, now = self._expires, time.monotonic()
        if until is None or self._now() < until - WARN_BEFORE:
            return
        if now >= self._warned_at + WARN_SECONDS:
            self._warned_at = now
            log.error("the serving certificate expires at %s and has not been renewed", until)


def _log_changed(changed: int) -> None:
    if changed:
        log.info("caBundle written into %d webhooks", changed)
