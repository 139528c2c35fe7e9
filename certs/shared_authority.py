"""One replica's part in keeping the authority that all replicas share: reads, decides, writes.

`certs.rotation` has the rule and its invariants, `certs.secret_store` the Secret. Here is the order of the
requests, which the invariants rest on:

1. the webhook configurations and the ConfigMap are read,
2. then the Secret; it is created if there is none, and refused if nobody can know its authority,
3. `caBundle` and the ConfigMap are written on condition of what 1 read,
4. a serving certificate is issued by what 2 read,
5. the next step is decided and written on condition of what 2 read.

If a write is refused since somebody else has written, all of it begins again. One of 3 that is refused at
each of the tries keeps nothing but the publication from going on: 4 follows, and 5 by what is published. For
one thread, but `load`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from certs import authority, ca_bundle, rotation
from certs.authority import SKEW, Authority, ClockWrong, expires
from certs.ca_bundle import ATTEMPTS, WebhookBundles
from certs.rotation import AuthorityState, RotationEvidence, RotationStep
from certs.secret_store import AuthoritySecret, StoredState
from cluster.api.client import Client
from cluster.exceptions import ClusterError, NotFound, Refused

#: By live replica, the authority that issued what it serves; None where a replica does not say.
Issuers = Callable[[], Mapping[str, str | None]]

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Update:
    """What one round did. `changed`: webhooks that got the bundle. `again`: a step was taken, more may
    follow.
    """

    state: AuthorityState
    changed: int
    again: bool
    error: ClusterError | None = None


def server_time(client: Client) -> datetime:
    """The time by the API server's clock, as its last answer said.

    Raises `ClockWrong` if ours differs by more than `SKEW`: then nobody knows which of the two is right, and
    a certificate could be valid by one of them alone.
    """
    skew = timedelta(seconds=client.clock_skew)
    if abs(skew) > SKEW:
        side = "behind" if skew > timedelta() else "ahead of"
        raise ClockWrong(
            f"the clock of this host is {abs(skew)} {side} the API server's; no certificate is issued and"
            " nothing is written until one of them is set right"
        )
    return datetime.now(UTC) + skew


class SharedAuthority:
    """The authority in the Secret. `wait`: how long schedulers have for their copy of the bundle."""

    def __init__(
        self,
        client: Client,
        *,
        secret: AuthoritySecret,
        wait: timedelta,
        issuers: Issuers,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """`now`: the API server's time (default: by its last answer)."""
        self._client = client
        self._now = now or (lambda: server_time(client))
        self._secret = secret
        self._wait = wait
        self._issuers = issuers
        self._clock = clock
        #: What this thread read last; written again if the Secret is deleted.
        self._last: AuthorityState | None = None
        #: The bundle that was seen everywhere, and since when, in monotonic seconds.
        self._seen: tuple[bytes, float] | None = None
        self._waits = ""

    def load(self) -> AuthorityState:
        """The state to start with: what is wrong with it ends the start. Webhooks need not be there.

        Raises `CertificateError` and `ClusterError`.
        """
        return self._repeated(lambda _is_last: self._stored(self._read_webhooks()[0]).state)

    def update(self, serve: Callable[[AuthorityState], object]) -> Update:
        """One round. `serve` has a certificate of the current authority served.

        Raises `CertificateError`, `ClusterError`, and what `serve` raises; `Update.error` is one that kept
        nothing but the publication from going on.
        """
        return self._repeated(lambda is_last: self._update(serve, is_last=is_last))

    def _repeated(self, work: Callable[[bool], T]) -> T:
        """`work`: is called with whether it is not called again."""
        for _ in range(ATTEMPTS - 1):
            try:
                return work(False)
            except Refused as exc:
                if not ca_bundle.is_outdated(exc):
                    raise
        return work(True)

    def _update(self, serve: Callable[[AuthorityState], object], *, is_last: bool) -> Update:
        webhooks, missing = self._read_webhooks()
        published = self._secret.read_published()
        stored = self._stored(webhooks)
        self._last, bundle = stored.state, stored.state.bundle
        text = rotation.status(stored.state, wait=self._wait, waits=self._waits)
        changed, errors = 0, [missing] if missing else []
        try:
            changed = ca_bundle.write(self._client, webhooks, bundle)
            self._secret.publish(published, bundle, status=text)
        except ClusterError as exc:
            if isinstance(exc, Refused) and ca_bundle.is_outdated(exc) and not is_last:
                raise
            errors.append(exc)
        serve(stored.state)
        everywhere = not errors and webhooks.have(bundle) and published.has(bundle)
        step = self._decide(stored.state, published=self._observe(bundle, everywhere=everywhere))
        self._note_waits(step.waits)
        again = step.state != stored.state
        if again:
            self._last = self._write(stored, step).state
        return Update(self._last, changed, again, errors[0] if errors else None)

    def _read_webhooks(self) -> tuple[WebhookBundles, ClusterError | None]:
        """None of them if they are not there: then nobody trusts anything."""
        try:
            return ca_bundle.read(self._client), None
        except NotFound as exc:
            return WebhookBundles({}), exc

    def _stored(self, webhooks: WebhookBundles) -> StoredState:
        """What the Secret holds, created if it is missing, and mended where its authority has expired."""
        stored = self._secret.read()
        now = self._now()
        trusted = tuple(each for each in webhooks.trusted() if now < expires(each))
        if stored is None:
            stored = self._create(trusted, now=now)
        step = rotation.known(stored.state, trusted=trusted, now=now, where=self._secret.title)
        if step.state == stored.state:
            step = rotation.replace_expired(stored.state, now=now, create=self._new) or step
        return stored if step.state == stored.state else self._write(stored, step)

    def _create(self, trusted: tuple[bytes, ...], *, now: datetime) -> StoredState:
        if self._last is not None:
            log.warning(
                "%s was deleted; it is written again. To replace the authority: annotation %s=%s",
                self._secret.title,
                rotation.REQUEST_ANNOTATION,
                rotation.START,
            )
            return self._secret.create(self._last)
        if trusted:
            log.warning(
                "%s is not there, and the webhooks trust another authority: there is a new one, which"
                " schedulers have to be given",
                self._secret.title,
            )
        return self._secret.create(
            AuthorityState(self._new(), former=trusted, switched=now if trusted else None)
        )

    def _decide(self, state: AuthorityState, *, published: bool) -> RotationStep:
        now = self._now()
        issuers: Mapping[str, str | None] = {}
        if rotation.needs_evidence(state, now=now):
            try:
                issuers = self._issuers()
            except ClusterError as exc:
                log.warning("the Leases of the replicas cannot be read: %s", exc)
        evidence = RotationEvidence(published=published, issuers=issuers)
        return rotation.decide(state, now=now, evidence=evidence, wait=self._wait, create=self._new)

    def _observe(self, bundle: bytes, *, everywhere: bool) -> bool:
        """Whether this bundle has been seen everywhere for the grace, by our own monotonic clock."""
        now = self._clock()
        if not everywhere:
            self._seen = None
        elif self._seen is None or self._seen[0] != bundle:
            self._seen = bundle, now
        return self._seen is not None and now - self._seen[1] >= rotation.GRACE.total_seconds()

    def _write(self, stored: StoredState, step: RotationStep) -> StoredState:
        written = self._secret.write(stored, step.state)
        if step.done:
            log.warning("%s: %s", self._secret.title, step.done)
        return written

    def _note_waits(self, waits: str) -> None:
        if waits and waits != self._waits:
            log.warning("%s: %s", self._secret.title, waits)
        self._waits = waits

    def _new(self) -> Authority:
        return authority.create(name="sluice", now=self._now())
