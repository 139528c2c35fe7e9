"""Which paths a connection may call: decided once for each connection, compared for each request.

A listener has one of these rules:

| listener and certificate                     | may call                                         |
|----------------------------------------------|--------------------------------------------------|
| `bind`, without setting `client_ca`          | everything                                       |
| `bind`, with it: none shown                  | nothing: 401                                     |
| `bind`, with it: one of `scheduler_callers`  | `/extender/...`, and probes; 403 for any other   |
| `bind`, with it: one of `api_server_callers` | `/mutate/...`, `/validate/...`, and probes; 403  |
| `bind`, with it: one of both                 | everything                                       |
| `bind`, with it: any other name              | nothing: 403                                     |
| `health_bind`                                | probes; 404 for any other                        |

Probes are `/healthz`, `/readyz` and `/metrics`.

Invariants
- A request that is refused here is refused at its head: its body is neither read nor decoded, and the app
  does not see it.
- A target is compared as it was sent. What is not written exactly as one of these paths, such as
  `/%65xtender/filter`, is refused where not everything may be called.
- A certificate that does not verify never comes here: the TLS handshake fails (`server.http.client_tls`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.http.request_parser import Authorize, RequestError, allow_all

EXTENDER = (b"/extender/",)
WEBHOOKS = (b"/mutate/", b"/validate/")
PROBES = frozenset({b"/healthz", b"/readyz", b"/metrics"})
#: Characters of a certificate's names in an answer.
NAMES_LENGTH = 200

#: A certificate as Python's ssl gives it after it was verified: empty or None if none was shown.
PeerCertificate = Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Callers:
    """The names in client certificates that may call."""

    scheduler: frozenset[str]
    api_server: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientCertificates:
    """Clients show a certificate of one of these authorities (PEM files), with a name of a caller."""

    authorities: Sequence[Path]
    callers: Callers


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What one connection may call.

    `outdated`: whether what decided it no longer counts; then the next answer is the connection's last.
    `background`: its requests give way to those of others.
    """

    authorize: Authorize = allow_all
    outdated: Callable[[], bool] = bool
    background: bool = False


#: Without client certificates.
EVERYTHING = Access()


def allow_probes(target: bytes) -> RequestError | None:
    if _path(target) in PROBES:
        return None
    return RequestError(404, "this port serves /healthz, /readyz and /metrics alone")


def refuse_anonymous(_target: bytes) -> RequestError | None:
    return RequestError(
        401, "this port asks for a client certificate, and the caller has shown none (setting client_ca)"
    )


def authorize_by_certificate(certificate: PeerCertificate, callers: Callers) -> Authorize:
    """The rule of a connection whose client has shown this certificate, which has been verified."""
    if not certificate:
        return refuse_anonymous
    names = certificate_names(certificate)
    may_filter, may_review = not names.isdisjoint(callers.scheduler), not names.isdisjoint(callers.api_server)
    if may_filter and may_review:
        return allow_all
    prefixes = EXTENDER if may_filter else WEBHOOKS if may_review else ()
    probes = PROBES if prefixes else frozenset[bytes]()
    shown = _printable(", ".join(sorted(names)))[:NAMES_LENGTH] or "no name"
    reason = f"the client certificate of {shown} may not call this (scheduler_callers, api_server_callers)"

    def authorize(target: bytes) -> RequestError | None:
        if target.startswith(prefixes) or _path(target) in probes:
            return None
        return RequestError(403, reason)

    return authorize


def certificate_names(certificate: Mapping[str, Any]) -> frozenset[str]:
    """The common name, as Kubernetes reads a user's name from a certificate, and the DNS names and URIs.

    A subject with several common names has none: readers differ in which of them counts.
    """
    attributes = [attribute for group in certificate.get("subject", ()) for attribute in group]
    common_names = [value for key, value in attributes if key == "commonName"]
    alternatives = [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "URI")]
    return frozenset([*(common_names if len(common_names) == 1 else ()), *alternatives])


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _path(target: bytes) -> bytes:
    return target.partition(b"?")[0]
