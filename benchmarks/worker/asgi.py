"""The WSGI apps as ASGI, called inline: what gunicorn's asgi worker and granian's ASGI need to serve them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

from server.http.responses import (
    WsgiApp,
    base_environ,
    call_app,
)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


def asgi_of(app: WsgiApp) -> AsgiApp:
    """The app, whole bodies in and out."""
    shared = base_environ(host="localhost", port=0, tls=True)

    async def asgi(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        environ = {
            **shared,
            "REQUEST_METHOD": scope["method"],
            "PATH_INFO": scope["path"],
            "QUERY_STRING": "",
            "CONTENT_TYPE": "application/json",
            "SERVER_PROTOCOL": "HTTP/1.1",
        }
        body = await _whole(receive)
        response = call_app(app, environ | {"CONTENT_LENGTH": str(len(body)), "wsgi.input": BytesIO(body)})
        headers = [(name.lower().encode(), value.encode()) for name, value in response.headers]
        await send({"type": "http.response.start", "status": int(response.status[:3]), "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    return asgi


async def _whole(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
