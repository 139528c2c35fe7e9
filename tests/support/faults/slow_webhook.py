"""Webhooks that are not ours, called after ours: one that takes its time, and one that changes pods."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from certs import authority
from localcluster.ports import LOOPBACK
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MUTATING_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class SlowWebhook:
    """Each bind in the sandbox's namespace is kept for `seconds`. Use it in a `with`: the API server knows of
    it from the start.

    `dry`: dry runs are kept as well.
    `resources`: what is kept of the core group, where that is not binds; `operations`: what is done to it.
    `let_go` ends the waiting of all.
    `allows`: what it answers then; `code`: with which status it denies, where that is not 403.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        folder: Path,
        *,
        seconds: float,
        resources: Sequence[str] = ("pods/binding", "bindings"),
        allows: bool = True,
        code: int = 0,
        dry: bool = False,
        operations: Sequence[str] = ("CREATE",),
    ) -> None:
        self._operations = list(operations)
        self._path = CONFIGURATIONS
        self._sandbox = sandbox
        self._resources = list(resources)
        #: Behind "sluice" in the order of names.
        self._name = f"zz-slow-{sandbox.namespace}"
        ca = authority.create(name="slow", now=datetime.now(UTC))
        pair = ca.serving(now=datetime.now(UTC), ips=[LOOPBACK])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*pair.save(folder, stem="slow"))
        self._ca = ca.certificate
        self._server = _Server(context, seconds, allows=allows, code=code, dry=dry)
        self._thread = threading.Thread(target=self._server.serve_forever, name="slow-webhook")

    @property
    def seen(self) -> int:
        """The same, dry runs included."""
        return self._server.seen

    @property
    def asked(self) -> int:
        """How many binds it was asked about so far."""
        return self._server.asked

    @property
    def held(self) -> int:
        """How many it keeps at this moment."""
        return self._server.held

    def is_known(self, call: Callable[[], object]) -> bool:
        """Whether the API server asks the webhook about this dry run. It learns of a new webhook late."""
        before = self.seen
        call()
        return self.seen > before

    def let_go(self) -> None:
        self._server.ended.set()

    def keep_again(self) -> None:
        """What comes from now on is kept, after a `let_go`."""
        self._server.ended.clear()

    def __enter__(self) -> SlowWebhook:
        self._thread.start()
        try:
            self._sandbox.api.create(self._path, self._configuration()).must(201)
            if (call := self._dry_run()) is not None:
                until(lambda: self.is_known(call), "the webhook to be known")
        except BaseException:
            self.__exit__()
            raise
        return self

    def _dry_run(self) -> Callable[[], object] | None:
        """A request of the kind that it keeps; None where that needs something else to be there first."""
        if "pods" in self._resources and "CREATE" in self._operations:
            return lambda: self._sandbox.pod("would-be", dry=True)
        if "pods/binding" in self._resources:
            return lambda: self._sandbox.bind("would-be", dry=True)
        return None

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        try:
            self._sandbox.api.delete(f"{self._path}/{self._name}").must()
        finally:  # a server that goes on would keep the tests' process from its end
            self._server.ended.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def _configuration(self) -> dict[str, Any]:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": self._resources,
            "operations": self._operations,
        }
        return {
            "metadata": {"name": self._name},
            "webhooks": [
                {
                    "name": "slow.tests.sluice.dev",
                    "clientConfig": {
                        "url": f"https://{LOOPBACK}:{self._server.server_address[1]}/",
                        "caBundle": base64.b64encode(self._ca).decode(),
                    },
                    "rules": [rule],
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": self._sandbox.namespace}
                    },
                    "failurePolicy": "Fail",
                    "sideEffects": "None",
                    "timeoutSeconds": 30,
                    "admissionReviewVersions": ["v1"],
                }
            ],
        }


class PatchingWebhook(SlowWebhook):
    """A mutating webhook that gives each new pod of the sandbox's namespace the patch. Use it in a `with`.

    It is called after ours, and once more after ours was called again (`reinvocationPolicy: IfNeeded`).
    """

    def __init__(self, sandbox: Sandbox, folder: Path, patch: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(sandbox, folder, seconds=0, resources=["pods"])
        self._path = MUTATING_CONFIGURATIONS
        self._server.patch = base64.b64encode(json.dumps(patch).encode()).decode()

    def _configuration(self) -> dict[str, Any]:
        body = super()._configuration()
        for webhook in body["webhooks"]:
            webhook["reinvocationPolicy"] = "IfNeeded"
        return body


class _Server(ThreadingHTTPServer):
    """A thread a connection, and the handshake in it: an idle connection holds up nobody."""

    daemon_threads = True
    request_queue_size = 1000

    def __init__(
        self, context: ssl.SSLContext, seconds: float, *, allows: bool, code: int, dry: bool
    ) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.context = context
        self.seconds = seconds
        self.allows = allows
        self.code = code
        self.dry = dry
        #: In base64; "" in a validating webhook.
        self.patch = ""
        self.ended = threading.Event()
        self.asked = 0
        self.seen = 0
        self.held = 0
        self.counting = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def setup(self) -> None:
        self.request = self.server.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def finish(self) -> None:
        super().finish()
        self.request.close()

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        with self.server.counting:
            self.server.seen += 1
            self.server.asked += not request.get("dryRun")
            self.server.held += self.server.dry or not request.get("dryRun")
        if self.server.dry or not request.get("dryRun"):
            self.server.ended.wait(self.server.seconds)
            with self.server.counting:
                self.server.held -= 1
        response: dict[str, Any] = {
            "uid": request["uid"],
            "allowed": self.server.allows or bool(request.get("dryRun")),
        }
        if self.server.patch:
            response |= {"patchType": "JSONPatch", "patch": self.server.patch}
        if self.server.code:
            response["status"] = {"code": self.server.code, "message": "not now"}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...
