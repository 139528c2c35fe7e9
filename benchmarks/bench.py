"""One control plane for a row: what is installed in it, what is written to it, what is seen of it.

Two control planes do not fit on two cores, so both sides of a pair are measured on one, which is set up
otherwise in between:

===========  =====================================================================================
installed    the server runs, its webhooks and policies are registered
halted       no server; what it registered stays
removed      no server, no webhook, no policy; only the definitions of our kinds are left
===========  =====================================================================================

The scheduler is started for each measurement, with the extenders that it asks for.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.audit_log import Log
from benchmarks.go_programs import built
from benchmarks.objects import (
    HOME,
    QUEUES,
    Object,
    Request,
    answered,
    bindings,
    creations,
    deletions,
    pods_path,
    queue,
)
from benchmarks.process_cpu import until_quiet
from localcluster import apiserver, credentials, processes, scheduler_config
from localcluster.apiserver import Reply
from localcluster.build import Say
from localcluster.cluster import LocalCluster
from localcluster.components import until
from localcluster.lifecycle import AUDIT_POLICY
from localcluster.scheduler_config import Edit

WRITERS = 8
PATIENCE = 120.0
GUARDED = "sluice.dev/guard"
OURS = "app.kubernetes.io/part-of=sluice"
REGISTERED = (
    "mutatingwebhookconfigurations,validatingwebhookconfigurations,"
    "validatingadmissionpolicybindings,validatingadmissionpolicies"
)


class Done(msgspec.Struct, frozen=True):
    """What came of several writes; `began` and `ended` are Unix seconds."""

    requests: int
    failed: int
    failure: str
    began: float
    ended: float

    @property
    def rate(self) -> float:
        return self.requests / (self.ended - self.began)


_done = msgspec.json.Decoder(Done)


class Bench:
    """A running cluster, nothing of ours in it at first. For one thread."""

    def __init__(self, cluster: LocalCluster, *, say: Say) -> None:
        self.cluster = cluster
        self.say = say
        self.api = apiserver.Https(
            port=cluster.ports.apiserver, context=apiserver.context(cluster.layout), timeout=60
        )
        self.audit = Log(cluster.layout.audit_log)
        self.token = self._writers_token()
        self._hands = built("hands", say=say)
        self._serves = self._is_registered = "server" in cluster.pids

    # What is set up

    def install(self, *, managed: bool = False) -> None:
        """Everything of ours, as `make up` has it; `managed`: with HOME a namespace that is not managed."""
        if managed is not self.cluster.layout.managed.exists():
            self.remove()
            self.cluster.set_managed(managed)
        if not self._serves:
            self.cluster.start_components("server")
            self._serves = self._is_registered = True
            until(lambda: self.read(f"{QUEUES}/root") is not None, what="the first queues")

    def remove(self) -> None:
        """All of it but the definitions."""
        self.halt()
        if self._is_registered:
            self.unregister()

    def unregister(self) -> None:
        """No webhook and no policy of ours is left."""
        self.cluster.kubectl("delete", REGISTERED, "-l", OURS, "--ignore-not-found")
        self._is_registered = False

    def halt(self) -> None:
        """The server ends, and nothing else of it: somebody may take its place."""
        if self._serves:
            self.cluster.stop_components("server")
            self._serves = False

    def start_scheduler(self, edit: Edit | None = None, *, flags: Sequence[str] = ()) -> None:
        scheduler_config.configure(self.cluster.layout, self.cluster.ports, edit=edit, flags=flags)
        self.cluster.start_components("kube-scheduler")

    def stop_scheduler(self) -> None:
        self.cluster.stop_components("kube-scheduler")

    @contextmanager
    def scheduling(self, edit: Edit | None = None, *, flags: Sequence[str] = ()) -> Iterator[None]:
        """The scheduler runs, with the project's configuration as changed by `edit`."""
        self.start_scheduler(edit, flags=flags)
        try:
            yield
        finally:
            self.stop_scheduler()

    # What is written

    def _writers_token(self) -> str:
        """Of somebody who may do everything, made if need be; known by the same means as the server."""
        name, namespace = "bench", "default"
        self._is_there(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        binding = {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        self._is_there("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        return credentials.service_account_token(self.cluster.layout, self.cluster.ports, namespace, name)

    @property
    def kubectl(self) -> list[str]:
        """The beginning of a command, as the same."""
        layout = self.cluster.layout
        return [
            *(str(layout.bin / "kubectl"), "--kubeconfig=", f"--server={self.cluster.ports.apiserver_url}"),
            *(f"--certificate-authority={layout.pki / 'ca.crt'}", f"--token={self.token}"),
        ]

    def write(self, requests: Iterable[Request], *, workers: int = WRITERS) -> Done:
        """As fast as it is taken. Raises RuntimeError if any was refused."""
        pki = self.cluster.layout.pki
        command = [
            str(self._hands),
            *("-url", self.cluster.ports.apiserver_url, "-ca", str(pki / "ca.crt")),
            *("-token", self.token, "-workers", str(workers)),
        ]
        given = msgspec.json.Encoder().encode_lines(
            requests if isinstance(requests, list) else list(requests)
        )
        said = subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True)
        done = _done.decode(said.stdout)
        if done.failed:
            raise RuntimeError(f"{done.failed} of {done.requests} writes failed, the first: {done.failure}")
        return done

    def create_pods(self, bodies: Iterable[Object], *, namespace: str = HOME) -> Done:
        return self.write(creations(pods_path(namespace), bodies))

    def bind_pods(self, nodes: Mapping[str, str], *, namespace: str = HOME) -> Done:
        """By hand; `nodes`: by the pod's name."""
        return self.write(bindings(pods_path(namespace), nodes))

    def namespace(self, name: str = HOME) -> None:
        """It is there afterwards."""
        self._is_there("/api/v1/namespaces", {"metadata": {"name": name}})

    def _is_there(self, path: str, body: Object) -> None:
        reply = self.api.request("POST", path, body)
        if reply.status != 409:
            _granted(f"POST {path}", reply)

    def queue(self, name: str, **spec: object) -> None:
        """It is there, so and answered, afterwards."""
        if self.read(f"{QUEUES}/{name}") is None:
            self.must("POST", QUEUES, queue(name, **spec))
        else:
            self.must("PATCH", f"{QUEUES}/{name}", {"spec": spec})
        self.await_answer(name)

    def must(self, method: str, path: str, body: object = None) -> Object:
        reply = self.api.request(method, path, body)
        _granted(f"{method} {path}", reply)
        read: Object = reply.json()
        return read

    def clear(self, *, namespace: str = HOME, label: str = "bench=load") -> None:
        """No pod with that label is left in the namespace."""
        path = pods_path(namespace)
        self.write(deletions(path, self.pod_names(namespace=namespace, label=label)))
        until(
            lambda: not self.pod_names(namespace=namespace, label=label),
            what="the pods to go",
            seconds=PATIENCE,
        )

    # What is seen

    def read(self, path: str) -> Object | None:
        """None where there is nothing."""
        reply = self.api.request("GET", path)
        if reply.status == 404:
            return None
        read: Object = reply.json()
        return read

    def await_answer(self, name: str) -> None:
        def holds() -> bool:
            found = self.read(f"{QUEUES}/{name}")
            return found is not None and answered(found)

        until(holds, what=f"queue {name} to be answered", seconds=PATIENCE)

    def await_guard(self, *, on: bool, namespace: str = HOME) -> None:
        """Binds in the namespace are asked about, or are not any more."""

        def holds() -> bool:
            found = self.read(f"/api/v1/namespaces/{namespace}")
            return found is not None and (GUARDED in found["metadata"]["labels"]) == on

        until(holds, what=f"the guard of {namespace} to be {'on' if on else 'off'}", seconds=PATIENCE)

    def await_running(self, *, namespace: str = HOME) -> None:
        """Every pod of the namespace runs."""
        path = f"{pods_path(namespace)}?limit=1&fieldSelector=status.phase!=Running"
        until(lambda: not self.must("GET", path)["items"], what="all pods to run", seconds=PATIENCE)

    def pod_names(self, *, namespace: str = HOME, label: str = "", field: str = "") -> list[str]:
        query = f"{pods_path(namespace)}?labelSelector={label}&fieldSelector={field}"
        return [each["metadata"]["name"] for each in self.must("GET", query)["items"]]

    def binds(self, mark: int, *, count: int, namespace: str = HOME) -> list[float]:
        """When so many binds in the namespace were answered, once they all have been."""
        progress = Progress(lambda: self.audit.count(mark))

        def all_bound() -> bool:
            return progress.seen() >= count and len(self.audit.binds(mark, namespace=namespace)) >= count

        while not all_bound():
            progress.check(f"{count} binds in {namespace}")
            time.sleep(0.1)
        return self.audit.binds(mark, namespace=namespace)[:count]

    def quiet(self, *, windows: int = 1) -> None:
        """Returns once the control plane has nothing left to do from what was before, for so long."""
        watched = [each.pid for each in processes.find(self.cluster.layout.folder)]
        if not until_quiet(watched, windows=windows):
            self.say("the control plane does not come to rest")


def _granted(asked: str, reply: Reply) -> None:
    if reply.status >= 300:
        raise RuntimeError(f"{asked}: {reply.status}: {reply.body.decode(errors='replace')}")


class Progress:
    """Something that is to grow; given up once it has not for a long time."""

    def __init__(self, read: Callable[[], int]) -> None:
        self._read = read
        self._most, self._since = -1, time.monotonic()

    def seen(self) -> int:
        now = self._read()
        if now > self._most:
            self._most, self._since = now, time.monotonic()
        return now

    def check(self, what: str) -> None:
        if time.monotonic() - self._since > PATIENCE:
            raise RuntimeError(f"waited for {what}; there are {self._most}, and no more for {PATIENCE:.0f} s")


@contextmanager
def running(*, nodes: int, say: Say, audit_policy: Path = AUDIT_POLICY) -> Iterator[Bench]:
    """A cluster of the row's own: nodes, no scheduler yet, nothing of ours; it ends with the block.

    `audit_policy`: what its API server logs, binds at least.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        cluster = LocalCluster.start(
            Path(folder) / "cluster", nodes=nodes, server=False, audit_policy=audit_policy, say=say
        )
        try:
            cluster.stop_components("kube-scheduler")
            bench = Bench(cluster, say=say)
            bench.namespace()
            yield bench
        finally:
            cluster.stop()
