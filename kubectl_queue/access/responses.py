"""Requests to the API server, and what it answers: an object, or an error in kubectl's words.

Source of the wordings: k8s.io/kubectl/pkg/cmd/util/helpers.go, StandardErrorMessage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kubectl_queue.errors import (
    ConflictError,
    CredentialsError,
    ExpiredError,
    ForbiddenError,
    KindMissingError,
    NotFoundError,
    QueueError,
    ServerError,
    WebhookError,
)
from kubectl_queue.objects.fields import Object
from kubectl_queue.views.outage import PAGE
from queues.text import printable

if TYPE_CHECKING:
    from email.message import Message


class ApiRequest(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"


class ApiResponse(NamedTuple):
    status: int
    headers: Message
    body: bytes


#: What most requests are about.
QUEUES = "queues.scheduling.volcano.sh"

_WARNING = re.compile(r'\b299 \S+ "((?:[^"\\]|\\.)*)"')
_STRICT = "strict decoding error"
#: The API server's words (k8s.io/apiserver, admission/plugin/webhook/errors) with those of Go for a time-out.
_SILENT_WEBHOOK = re.compile(
    r'failed calling webhook "(?P<name>[a-z.-]+\.sluice\.dev)".*'
    r"(context deadline exceeded|Client\.Timeout exceeded|i/o timeout)",
    re.DOTALL,
)
#: The same for each failure; `why` is what Go's client says, at the end of the address.
_FAILED_WEBHOOK = re.compile(
    r'failed calling webhook "(?P<name>[a-z.-]+\.sluice\.dev)": '
    r'(?:failed to call webhook: )?(?:(?:Post|Get) "[^"]*": )?(?P<why>.*)',
    re.DOTALL,
)
#: What a failure of another kind than a replica that does not answer means, and where to read on.
_UNTRUSTED = ("the API server does not trust the certificate of Sluice", "docs/operating/certificates.md")
_MEANINGS = {
    "x509": _UNTRUSTED,
    "tls:": _UNTRUSTED,
    "an error on the server": ("Sluice is not ready", PAGE),
    "could not find the requested resource": ("another server answers for Sluice", PAGE),
}
_WHY_LIMIT = 200
_NO_RIGHT = re.compile(r" cannot \S+ resource ")
_KINDS: Mapping[int, type[ServerError]] = {
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
}


def read(response: ApiResponse, *, kind: str = QUEUES) -> Object:
    """Return the object of a response; raise the error that it holds. `kind`: its RESOURCE.GROUP."""
    answer = decoded(response.body)
    if response.status < 300 and answer is not None:
        return answer
    raise refusal(answer or {"message": _first_line(response.body)}, code=response.status, kind=kind)


def silent_webhook(response: ApiResponse) -> str:
    """Return the webhook of Sluice that did not answer the API server in time, so that the request failed.

    "" if that is not why.
    """
    if response.status != 500:
        return ""
    match = _SILENT_WEBHOOK.search(str((decoded(response.body) or {}).get("message", "")))
    return match["name"] if match else ""


def _first_line(body: bytes) -> str:
    """The first line of an answer that is not JSON: of a proxy, or of a server that is no API server."""
    return body[:300].decode(errors="replace").strip().partition("\n")[0]


def decoded(body: bytes) -> Object | None:
    """The JSON object in a body; None if it holds none."""
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def refusal(status: Object, *, code: int, kind: str = QUEUES) -> QueueError:
    """The error for a `Status`. `status` has a message at most where the body was not a Status."""
    if code == 401:
        return CredentialsError(
            "You must be logged in to the server (Unauthorized); the credentials of this context are "
            "missing, wrong or expired: log in again, or choose others with --context, --user or --token"
        )
    if code == 500 and (failed := _FAILED_WEBHOOK.search(str(status.get("message")))):
        return _webhook_error(failed["name"], failed["why"])
    details = status.get("details") or {}
    if code == 404 and not details.get("name"):
        return KindMissingError(_unknown_kind(kind), code=code)
    if _STRICT in str(status.get("message")):
        return ServerError(_unknown_field(str(status["message"])), code=code)
    if status.get("reason") == "Invalid" and details.get("name"):
        return ServerError(_invalid(details, str(status.get("message", ""))), code=code)
    return _KINDS.get(code, ServerError)(_worded(status, code=code), code=code)


def _webhook_error(name: str, why: str) -> WebhookError:
    shown = printable(why.strip(), limit=_WHY_LIMIT)
    for sign, (what, see) in _MEANINGS.items():
        if sign in why:
            return WebhookError(name, why=shown, what=what, see=see)
    return WebhookError(name, why=shown, what="", see=PAGE)


def _unknown_kind(kind: str) -> str:
    resource, _, group = kind.partition(".")
    message = f'error: the server doesn\'t have a resource type "{resource}" in API group "{group}"'
    ours = group == QUEUES.partition(".")[2]
    return f"{message}; install it with: kubectl apply --server-side -k manifests/crds" if ours else message


def _worded(status: Object, *, code: int) -> str:
    reason, message = status.get("reason") or "", status.get("message") or f"it answered {code} and no reason"
    shown = f"Error from server ({reason}): {message}" if reason else f"Error from server: {message}"
    if code == 403 and _NO_RIGHT.search(str(message)):
        return f"{shown}; ask an administrator for the right, or see yours with: kubectl auth can-i --list"
    return shown


def _unknown_field(message: str) -> str:
    """The message of a server whose Queue definition lacks a field, without the object that it repeats."""
    return (
        f"Error from server (BadRequest): {message[message.rindex(_STRICT) :]}; the definition of queues on "
        "this server is not this version's, install it with: kubectl apply --server-side -k manifests/crds"
    )


def _invalid(details: Mapping[str, Any], message: str) -> str:
    causes = [_cause(cause) for cause in details.get("causes") or ()]
    shown = f'The {details.get("kind")} "{details.get("name")}" is invalid'
    if not causes:
        return f"{shown}: {message}"
    different = list(dict.fromkeys(causes))
    if len(different) == 1:
        return f"{shown}: {different[0]}"
    return f"{shown}: \n" + "\n".join(f"* {cause}" for cause in different)


def _cause(cause: Mapping[str, Any]) -> str:
    field, message = cause.get("field"), cause.get("message", "")
    return f"{field}: {message}" if field else str(message)


def warnings(headers: Message) -> list[str]:
    """The texts of the Warning headers."""
    quoted = (text for value in headers.get_all("Warning") or () for text in _WARNING.findall(value))
    return [re.sub(r"\\(.)", r"\1", text) for text in quoted]


def server_time(headers: Message) -> datetime | None:
    """The server's clock when it answered."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - imported while kubectl starts

    try:
        return parsedate_to_datetime(headers["Date"])
    except (TypeError, ValueError):
        return None
