"""A few requests over HTTPS to the cluster's own components, and nothing else.

It trusts the cluster's own authorities alone: variables such as SSL_CERT_FILE,
REQUESTS_CA_BUNDLE or HTTPS_PROXY, which a machine may set for other ends, change nothing.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from pathlib import Path
from typing import Any, NamedTuple

from localcluster.addresses import LOOPBACK
from localcluster.layout import Layout


class Reply(NamedTuple):
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


#: A connection that was idle for longer is not used again: the API server ends those of 90 seconds.
IDLE_SECONDS = 60.0


class Https:
    """One keep-alive connection to a port of this machine. For one thread."""

    def __init__(self, *, port: int, context: ssl.SSLContext, timeout: float = 10) -> None:
        self._connection = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=timeout)
        self._used = time.monotonic()

    def request(self, method: str, path: str, body: object = None) -> Reply:
        """The reply, whatever its status. Raises OSError or HTTPException when there is none."""
        headers = {"Accept": "application/json"}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = _content_type(method)
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._connection.close()
        try:
            self._connection.request(method, path, body=payload, headers=headers)
            response = self._connection.getresponse()
            return Reply(response.status, response.read())
        except BaseException:
            self._connection.close()
            raise
        finally:
            self._used = time.monotonic()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Https:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def context(layout: Layout, *, authority: Path | None = None) -> ssl.SSLContext:
    """The administrator's client certificate, and trust in one authority (default: the cluster's)."""
    trust = ssl.create_default_context(cafile=str(authority or layout.pki / "ca.crt"))
    trust.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    return trust


def trouble(port: int, path: str, *, context: ssl.SSLContext | None, timeout: float = 5) -> str | None:
    """None if a GET is answered with 200 now, else what is wrong. Without a context it is plain HTTP."""
    connection = (
        http.client.HTTPConnection(LOOPBACK, port, timeout=timeout)
        if context is None
        else http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=timeout)
    )
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as exc:
        return f"{path} is not answered: {exc}"
    finally:
        connection.close()
    return None if response.status == 200 else f"{path} answers {response.status}: {body}"


def _content_type(method: str) -> str:
    return "application/merge-patch+json" if method == "PATCH" else "application/json"
