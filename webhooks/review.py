"""AdmissionReview (`admission.k8s.io/v1`): the first step of each call, decode, and the last one, encode.

The objects in a review stay bytes until the module of their kind decodes them. A fault in an object becomes a
denial that its user reads; a fault in the review itself is a 400.
"""

from __future__ import annotations

import base64
from typing import Any, TypeVar

import msgspec

from cluster.decoding import decode_body
from cluster.exceptions import Faulty, Unreadable
from queues.text import printable, truncated

T = TypeVar("T")


class GroupVersionKind(msgspec.Struct, frozen=True, gc=False):
    """A GroupVersionKind, or a GroupVersionResource; with the fields of both."""

    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""


class UserInfo(msgspec.Struct, frozen=True, gc=False):
    username: str = ""
    groups: list[str] | None = None


class ReviewOptions(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """CreateOptions, or UpdateOptions (also of a patch)."""

    field_manager: str | None = None


class ReviewRequest(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """`request` of a review. `object` is empty for DELETE, `old_object` for CREATE."""

    uid: str
    operation: str
    kind: GroupVersionKind = GroupVersionKind()
    resource: GroupVersionKind = GroupVersionKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")
    dry_run: bool | None = False
    options: ReviewOptions | None = None

    @property
    def field_manager(self) -> str:
        """The field manager that the author's client names; "" where it names none."""
        return (self.options.field_manager if self.options else None) or ""


class Review(msgspec.Struct, frozen=True, rename="camel", gc=False):
    api_version: str
    kind: str
    request: ReviewRequest


class ReviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Allowed with a patch and warnings, or denied with a code and a message."""

    allowed: bool = True
    code: int = 200
    message: str = ""
    patch: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()


ALLOWED = ReviewAnswer()
#: Characters of a denial's message, whatever names are in it.
MESSAGE_LIMIT = 4096
FORBIDDEN = 403

_reviews = msgspec.json.Decoder(Review)
_encoder = msgspec.json.Encoder()
_REASONS = {
    FORBIDDEN: "Forbidden",
    409: "Conflict",
    422: "Invalid",
    400: "BadRequest",
    503: "ServiceUnavailable",
}


def deny(message: str, *, code: int = FORBIDDEN) -> ReviewAnswer:
    return ReviewAnswer(allowed=False, code=code, message=message)


def decode_review(body: bytes) -> ReviewRequest:
    """The request of a review. Raises `Unreadable`."""
    review = decode_body(body, _reviews)
    if review.kind != "AdmissionReview" or review.api_version != "admission.k8s.io/v1":
        raise Unreadable(
            "kind: expected AdmissionReview of admission.k8s.io/v1, "
            f"got {printable(review.kind, limit=80)} of {printable(review.api_version, limit=80)}"
        )
    if not review.request.uid:
        raise Unreadable("request.uid: empty")
    return review.request


def decode_object(raw: msgspec.Raw, decoder: msgspec.json.Decoder[T], *, where: str = "object") -> T:
    """One object of a request: its `object` or, with `where`, its `oldObject`.

    Raises `Unreadable` if there is no object, and `Faulty` if the object has not the shape of its kind.
    """
    start = bytes(raw).lstrip()
    if not start.startswith(b"{"):
        raise Unreadable(f"request.{where}: expected an object, got {start[:20].decode(errors='replace')}")
    try:
        return decode_body(raw, decoder)
    except Unreadable as exc:
        raise Faulty(str(exc)) from exc


def encode_review(uid: str, answer: ReviewAnswer) -> bytes:
    response: dict[str, Any] = {"uid": uid, "allowed": answer.allowed}
    if not answer.allowed:
        response["status"] = {
            "status": "Failure",
            "code": answer.code,
            "reason": _REASONS.get(answer.code, ""),
            "message": truncated(answer.message, limit=MESSAGE_LIMIT),
        }
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encoder.encode(answer.patch)).decode()
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    return _encoder.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )
