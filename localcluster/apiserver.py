"""Requests to the cluster's components: over HTTPS, and by kubectl of the cluster's own version.

HTTPS trusts the cluster's own authorities alone: variables such as SSL_CERT_FILE, REQUESTS_CA_BUNDLE or
HTTPS_PROXY, which a machine may set for other purposes, change nothing.
"""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from localcluster.exceptions import SetUpFailed
from localcluster.layout import Layout
from localcluster.ports import LOOPBACK


class Reply(NamedTuple):
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


#: A connection that was idle for longer is dialled again: the API server closes those idle for 90 seconds.
IDLE_SECONDS = 60.0


class Https:
    """One keep-alive connection to a port of this machine. For one thread."""

    def __init__(self, *, port: int, context: ssl.SSLContext, timeout: float = 30) -> None:
        self._connection = http.client.HTTPSConnection(LOOPBACK, port, context=context, timeout=timeout)
        self._used_at = time.monotonic()

    def request(
        self, method: str, path: str, body: object = None, *, kind: str = "", accept: str = "application/json"
    ) -> Reply:
        """The reply, whatever its status. Raises OSError or HTTPException when there is none.

        `kind`: of the body, such as `apply-patch+yaml`; a PATCH without it is a JSON merge patch.
        """
        headers = {"Accept": accept}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = f"application/{kind or _kind(method)}"
        if time.monotonic() - self._used_at > IDLE_SECONDS:
            self._connection.close()
        try:
            self._connection.request(method, path, body=payload, headers=headers)
            response = self._connection.getresponse()
            return Reply(response.status, response.read())
        except BaseException:
            self._connection.close()
            raise
        finally:
            self._used_at = time.monotonic()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Https:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def context(layout: Layout) -> ssl.SSLContext:
    """The administrator's client certificate, and trust in the cluster's authority."""
    trust = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
    trust.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")
    return trust


def caller_context(layout: Layout) -> ssl.SSLContext:
    """Trust in the server's authority, and the certificate of one who may call every path of it."""
    trust = ssl.create_default_context(cafile=str(layout.server_ca))
    trust.load_cert_chain(*layout.caller_certificate("caller"))
    return trust


def readiness_problem(
    port: int, path: str, *, context: ssl.SSLContext | None, timeout: float = 5
) -> str | None:
    """None if a GET is answered with 200 now, else what is wrong. Without a context: plain HTTP."""
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


def _kind(method: str) -> str:
    return "merge-patch+json" if method == "PATCH" else "json"


def kubectl(layout: Layout, *arguments: str, kubeconfig: Path | None = None, stdin: str | None = None) -> str:
    """What kubectl prints, as the administrator by default. Raises `SetUpFailed` with its error message."""
    done = try_kubectl(layout, *arguments, kubeconfig=kubeconfig, stdin=stdin)
    if done.returncode:
        raise SetUpFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def try_kubectl(
    layout: Layout, *arguments: str, kubeconfig: Path | None = None, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """The finished kubectl, whatever its exit code."""
    return subprocess.run(
        [
            str(layout.bin / "kubectl"),
            f"--kubeconfig={kubeconfig or layout.kubeconfig}",
            f"--cache-dir={layout.kubectl_cache}",
            *arguments,
        ],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
