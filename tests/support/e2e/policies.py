"""The ConfigMap with the scheduling policies of a cluster, as one test writes it."""

from __future__ import annotations

from itertools import count

from queues import well_known
from tests.support.e2e.api_requests import Object
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

NAMESPACE, NAME = "volcano-system", "volcano-scheduler-configmap"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
GLOBAL_KEY = "volcano-scheduler.conf"
#: A policy that admission marks pods for, so that it shows that the ConfigMap was read.
_READ = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"


def policy(actions: str, *plugins: str) -> str:
    listed = ", ".join(f"{{name: {plugin}}}" for plugin in plugins)
    return f"actions: {actions}\ntiers: [{{plugins: [{listed}]}}]\n"


def patient(configuration: Object) -> None:
    """Has kube-scheduler wait for every answer: after half a second it would place a pod without scores."""
    for extender in configuration["extenders"]:
        extender["httpTimeout"] = "30s"


class Policies:
    """Writes the ConfigMap and waits until the server has read it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._path = PATH
        self._numbers = count()
        sandbox.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).must(201, 409)

    def write(self, common: str = "", **texts: str) -> None:
        """`common`: the global policy. Returns once the server has these, and no others."""
        read = self.send(common, **texts)
        until(lambda: self._is_known(read), f"the policies with {read} to be read")

    def send(self, common: str = "", **texts: str) -> str:
        """Write these, and no others, and return at once: the name of one more policy."""
        read = f"read-{self._sandbox.namespace}-{next(self._numbers)}"
        data = {**({GLOBAL_KEY: common} if common else {}), **texts, read: _READ}
        body = {"metadata": {"name": NAME}, "data": data}
        if self._sandbox.api.create(self._path, body).must(201, 409).status == 409:
            before = self._sandbox.api.get(f"{self._path}/{NAME}").must().body.get("data", {})
            self._sandbox.api.patch(
                f"{self._path}/{NAME}", {"data": {**dict.fromkeys(before), **data}}
            ).must()
        return read

    def remove(self) -> None:
        """Delete the ConfigMap."""
        self._sandbox.api.delete(f"{self._path}/{NAME}").must(200, 404)

    def _is_known(self, name: str) -> bool:
        """Whether a pod that names the policy would be marked for it."""
        pod = self._sandbox.pod(
            "probe", "default", dry=True, annotations={well_known.SCHEDULER_POLICY: name}
        ).must(201)
        return well_known.SCORED in _requests(pod.body)


def _requests(pod: Object) -> Object:
    [container] = pod["spec"]["containers"]
    return dict(container.get("resources", {}).get("requests", {}))
