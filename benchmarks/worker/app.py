"""What every candidate serves: a filter call decoded and its node names echoed, by Flask or bare."""

import json
import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from flask import Flask, Response, request

from server.http.responses import WsgiApp


class Asked(msgspec.Struct, gc=False):
    """The part of ExtenderArgs that is read."""

    NodeNames: list[str] | None = None


class Answer(msgspec.Struct, gc=False):
    """ExtenderFilterResult."""

    NodeNames: list[str] | None = None
    Nodes: None = None
    FailedNodes: dict[str, str] | None = None
    FailedAndUnresolvableNodes: dict[str, str] | None = None
    Error: str = ""


class Admitted(msgspec.Struct, gc=False):
    """AdmissionRequest."""

    uid: str


class Review(msgspec.Struct, gc=False):
    """AdmissionReview."""

    request: Admitted


read_review = msgspec.json.Decoder(Review).decode
decode = msgspec.json.Decoder(Asked).decode
encode = msgspec.json.Encoder().encode
flask_app = Flask("benchmark")


def allowed(uid: str) -> dict[str, Any]:
    """The AdmissionReview that lets a request pass."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": True},
    }


def echo(body: bytes) -> bytes:
    """The node names, back."""
    return encode(Answer(NodeNames=decode(body).NodeNames))


@flask_app.post("/filter")
def filter_call() -> Response:
    """By way of Flask."""
    return Response(echo(request.get_data()), content_type="application/json")


@flask_app.post("/admit")
def admit() -> Response:
    """Every bind is allowed."""
    review = read_review(request.get_data())
    return Response(encode(allowed(review.request.uid)), content_type="application/json")


def bare_app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """By way of nothing."""
    body = echo(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


APPS: dict[str, WsgiApp] = {"flask": flask_app, "bare": bare_app}


def compute_beside() -> None:
    """A native thread that decodes JSON without end, as an informer does in a large list."""
    blob = json.dumps([{"metadata": {"name": f"pod-{number}"}} for number in range(200)])

    def compute() -> None:
        while True:
            json.loads(blob)

    threading.Thread(target=compute, name="computes", daemon=True).start()
