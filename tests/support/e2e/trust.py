"""What callers trust, and by which certificate replicas serve."""

from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from certs.authority import fingerprint, split
from certs.ca_bundle import ADMISSION, KINDS, NAME
from localcluster.apiserver import try_kubectl
from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK
from localcluster.scheduler_config import SchedulerConfigBody
from tests.support.e2e.api_requests import Api
from tests.support.e2e.unregistered import REGISTRATIONS

#: For the `sitecustomize` of a replica, so that a test need not wait for minutes: the order of the steps is
#: the same.
SOONER = """\
import certs.renewal
import certs.rotation
from datetime import timedelta

certs.renewal.CHECK_SECONDS = 0.3
certs.renewal.SERVED_SECONDS = 2.0
certs.rotation.GRACE = timedelta(seconds=3)
"""


def sooner(folder: Path) -> tuple[str, ...]:
    """The command before a replica's own that has it look more often."""
    (folder / "sitecustomize.py").write_text(SOONER)
    return "/usr/bin/env", f"PYTHONPATH={folder}"


def trusted_by_webhooks(api: Api) -> list[tuple[str, ...]]:
    """By webhook of a real API server, the fingerprints in its caBundle, in their order."""
    return [
        tuple(map(fingerprint, split(base64.b64decode(webhook["clientConfig"].get("caBundle", "")))))
        for kind in KINDS
        for webhook in api.get(f"{ADMISSION}/{kind}/{NAME}").must().body["webhooks"]
    ]


def fetch_bundle(cluster: LocalCluster) -> bytes:
    """As docs/operating/certificates.md does it on a scheduler's host, with its rights; or nothing."""
    return try_kubectl(
        cluster.layout,
        *("get", "configmap", "sluice-ca", "-n", "sluice-system", "-o", r"jsonpath={.data.ca\.crt}"),
        kubeconfig=cluster.layout.component_kubeconfig("kube-scheduler"),
    ).stdout.encode()


def serves_by(port: int, authority: bytes, folder: Path) -> bool:
    """Whether a new connection to this port is answered with a certificate of this authority."""
    path = folder / f"{fingerprint(authority)}.crt"
    path.write_bytes(authority)
    try:
        with connect(port, path):
            return True
    except ssl.SSLCertVerificationError:
        return False


def connect(port: int, trust: Path) -> ssl.SSLSocket:
    """A new connection, after its handshake."""
    context = ssl.create_default_context(cafile=str(trust))
    plain = socket.create_connection((LOOPBACK, port), timeout=20)
    try:
        return context.wrap_socket(plain, server_hostname=LOOPBACK)
    except BaseException:
        plain.close()
        raise


def call_patiently(cluster: LocalCluster) -> None:
    """Have kube-scheduler and kube-apiserver wait for an answer as long as they can.

    By the manifests they give up after half a second, and after 2 or 5: a busy machine reaches that, and then
    a call fails that no certificate has failed.
    """

    def edit(configuration: SchedulerConfigBody) -> None:
        for extender in configuration["extenders"]:
            extender["httpTimeout"] = "30s"

    cluster.configure_scheduler(edit)
    with Api(cluster) as api:
        for path in REGISTRATIONS:
            hooks = api.get(path).must().body["webhooks"]
            api.patch(path, {"webhooks": [{**hook, "timeoutSeconds": 30} for hook in hooks]}).must()


class Repeated:
    """Calls a function over and over in a thread of its own, and keeps what it raises. Use it in a `with`."""

    def __init__(self, call: Callable[[], object], *, name: str) -> None:
        self._call = call
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.calls = 0
        self.failures: list[BaseException] = []

    def __enter__(self) -> Repeated:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=60)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._call()
            except Exception as exc:
                self.failures.append(exc)
            self.calls += 1
