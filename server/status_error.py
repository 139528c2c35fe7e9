"""The one shape of every refusal: a Kubernetes `Status`, whose message kubectl and the API server show."""

from __future__ import annotations

import http

import msgspec


def status_error(code: int, message: str) -> bytes:
    """The body of an answer with this code; `reason` is its phrase in one word."""
    phrase = http.HTTPStatus(code).phrase
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": "".join(word if word.isupper() else word.capitalize() for word in phrase.split()),
        "message": message,
    }
    return msgspec.json.encode(status)
