"""Removes Sluice in an order in which no request of others fails and nothing is left behind.

1. What makes the API server call the server. Without it pods and workloads are created and changed as if
   Sluice had never been there, whether the server runs or not. Validating webhooks refuse members that no
   mutating webhook has seen. So they go first, and the others once no API server calls them any more: it
   hears of each kind by a watch of its own, in no order that can be relied on.
2. The server's rights, and then the server. A server that still runs can write nothing any more.
3. It waits until no replica holds its Lease: by then each has stopped to act.
4. The marks on objects of others, so that waiting pods run; what a drain suspended is resumed, and what it
   brought to zero gets its replicas back.
5. What is left of the server's own, its namespace, and, if asked, the definitions: it returns once these
   are gone, with all objects of their kinds.

Each step does what is left of it, so a removal that was interrupted is done again from the start.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient, Queues
from kubectl_queue.access.replicas import REPLICAS, lease_end, leases_path, server_namespaces
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.cli.options import DryRun
from kubectl_queue.errors import (
    ConflictError,
    ForbiddenError,
    KindMissingError,
    NotFoundError,
    QueueError,
    ServerError,
)
from kubectl_queue.objects.fields import Object
from kubectl_queue.removal.inventory import (
    Installation,
    Item,
    Marks,
    is_suspended,
    own_gates,
    own_keys,
    read_marks,
    recorded_replicas,
)
from queues.queue import ROOT
from queues.workload_kinds import Life, Suspension, WorkloadKind

#: For as long the API server may go on to call a webhook, or to obey a policy, that was just deleted.
STALE_SECONDS = 20.0
#: For as long API servers may hear of a deletion later than the one that was asked.
OTHERS_SECONDS = 1.0
#: For as long replicas may hold their Leases: they last six seconds.
LEASE_SECONDS = 60.0
#: For as long a definition may take to go, with all objects of its kind.
GONE_SECONDS = 120.0
PAUSE_SECONDS = 0.3
#: Objects that were made while the marks were taken off are found by reading once more.
PASSES = 5

_STALE = re.compile(r"failed calling webhook|admission webhook|ValidatingAdmissionPolicy")
_STRATEGIC = "application/strategic-merge-patch+json"
_MERGE = "application/merge-patch+json"

PrintLine = Callable[[str], None]


class Remover:
    """One removal. `say`: receives a line for each thing that was done."""

    def __init__(self, client: ApiClient, *, namespace: str, say: PrintLine, progress: PrintLine) -> None:
        self._client = client
        self._namespace = namespace
        self._say = say
        self._progress = progress
        self._stale_until = 0.0

    def check_namespace(self) -> None:
        """Raise `QueueError` if the server is in another namespace: half of it would be removed.

        Leases in other namespaces say nothing: any of their users may have written them.
        """
        namespaces = sorted(server_namespaces(self._client))
        if namespaces and self._namespace not in namespaces:
            raise QueueError(
                f'the server is in namespace "{namespaces[0]}", as its webhooks and rights say, not in '
                f'"{self._namespace}"; name it: kubectl queue uninstall --namespace={namespaces[0]}'
            )

    def remove(self, inventory: Installation, *, definitions: bool) -> Marks:
        """Remove it all; returns what still bears marks. Raises `QueueError`."""
        for item in inventory.checks:
            self._delete(item)
        if inventory.checks or inventory.calls:  # it may have been interrupted in between
            self._await_no_checks()
        for item in inventory.calls:
            self._delete(item)
        self._stale_until = time.monotonic() + STALE_SECONDS
        running = [item for item in inventory.server if item.shown.startswith("deployments")]
        for item in (*inventory.rights, *running):
            self._delete(item)
        self._await_replicas()
        left = self._remove_marks(inventory.schedulers)
        for item in inventory.server:
            if item not in running:
                self._delete(item, may_be_gone=True)
        going = inventory.definitions if definitions else []
        for item in going:
            self._delete(item)
        for item in going:
            self._await_gone(item)  # until then nothing can be installed anew
        return left

    def _await_no_checks(self) -> None:
        """Return once the API server calls no validating webhook any more, or does so for ever."""
        until = "the API server calls no longer what was deleted"
        self._wait(until, lambda: "validating webhooks" if self._is_checked() else "", seconds=STALE_SECONDS)
        time.sleep(OTHERS_SECONDS)  # others cannot be asked

    def _is_checked(self) -> bool:
        """Ask by what our webhook refuses, and no mutating one looks at: the deletion of the root queue.

        True also where the answer says nothing of it.
        """
        try:
            Queues(self._client).delete(ROOT, dry_run=DryRun.SERVER)
        except (NotFoundError, KindMissingError):
            return False
        except ForbiddenError as exc:  # by a webhook, or since the user may not
            return _STALE.search(str(exc)) is not None
        except ServerError:
            return True
        return False

    def _await_replicas(self) -> None:
        """Return once every replica's Lease has ended. Raises `QueueError`."""
        path = leases_path(self._namespace)

        def holders() -> str:
            return ", ".join(self._holders(path))

        if left := self._wait("the server has stopped", holders, seconds=LEASE_SECONDS):
            raise QueueError(
                f"{left} in namespace {self._namespace} is still renewed, so a server "
                "runs that was not removed; end it, and repeat this command"
            )

    def _await_gone(self, item: Item) -> None:
        """Return once it is gone; its own objects go first. Raises `QueueError`."""
        until = "the definitions are gone"
        if self._wait(until, lambda: item.shown if self._exists(item) else "", seconds=GONE_SECONDS):
            raise QueueError(
                f"{item.shown} is still being deleted, with all objects of its kind: kubectl get "
                f"{item.shown} --output=yaml says what it waits for"
            )

    def _exists(self, item: Item) -> bool:
        try:
            self._client.send(ApiRequest("GET", item.path, {}), kind=item.shown.partition("/")[0])
        except (NotFoundError, KindMissingError):
            return False
        return True

    def _holders(self, path: str) -> list[str]:
        try:
            leases = self._client.list(path, query={"labelSelector": REPLICAS}, kind="leases").items
        except (NotFoundError, KindMissingError):
            return []
        now = self._client.now
        return [f"lease/{each['metadata']['name']}" for each in leases if lease_end(each) >= now]

    def _wait(self, until: str, left: Callable[[], str], *, seconds: float) -> str:
        """Ask until nothing is left, so many seconds at most. Return what still is.

        `until`: what is waited for, as it is shown.
        """
        end = time.monotonic() + seconds
        while (what := left()) and time.monotonic() <= end:
            self._progress(f"waiting until {until}: {what}")
            time.sleep(PAUSE_SECONDS)
        return what

    # Marks

    def _remove_marks(self, schedulers: Collection[str]) -> Marks:
        marks = read_marks(self._client, schedulers=schedulers)
        for _ in range(PASSES):
            if marks.empty:
                break
            self._remove_each(marks)
            time.sleep(PAUSE_SECONDS)  # controllers may write once more what they had read before
            marks = read_marks(self._client, schedulers=schedulers)
        return marks

    def _remove_each(self, marks: Marks) -> None:
        waiting = {_path("/api/v1", "pods", pod) for pod in marks.gated}
        pods = {_path("/api/v1", "pods", pod): pod for pod in (*marks.gated, *marks.pods)}
        for number, (path, pod) in enumerate(pods.items(), start=1):
            self._progress(f"pods: {number} of {len(pods)}")
            self._patch(path, pod_patch(pod), kind="pods", content_type=_STRATEGIC)
        self._count(len(waiting), "pod", "let go")
        self._count(len(pods), "pod", "without our labels and annotations")
        for kind, item in marks.workloads:
            if is_suspended(kind, item) and kind.suspension is Suspension.COMMAND:
                self._command_resume(kind, item)
            path = _path(f"/apis/{kind.api_version}", kind.resource, item)
            self._patch(path, workload_patch(kind, item), kind=f"{kind.resource}.{kind.group}")
        self._count(len(marks.suspended), "workload", "resumed")
        self._count(len(marks.workloads), "workload", "without our labels and annotations")
        for group in marks.podgroups:
            path = _path("/apis/scheduling.volcano.sh/v1beta1", "podgroups", group)
            self._patch(path, metadata_patch(group), kind="podgroups.scheduling.volcano.sh")
        self._count(len(marks.podgroups), "PodGroup", "without our labels and annotations")
        for each in marks.namespaces:
            path = f"/api/v1/namespaces/{quote(each['metadata']['name'], safe='')}"
            self._patch(path, metadata_patch(each), kind="namespaces")
        self._count(len(marks.namespaces), "namespace", "without our labels and annotations")

    def _count(self, number: int, what: str, done: str) -> None:
        if number:
            self._say(f"{number} {what}{'' if number == 1 else 's'} {done}")

    def _command_resume(self, kind: WorkloadKind, item: Object) -> None:
        """Volcano's own controller resumes its Jobs by a Command."""
        metadata = item["metadata"]
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": "sluice-resumejob-", "namespace": metadata["namespace"]},
            "action": "ResumeJob",
            "target": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": metadata["name"],
                "uid": metadata["uid"],
                "controller": True,
            },
            "reason": "QueueResumed",
        }
        path = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{metadata['namespace']}/commands"
        self._send("POST", path, kind="commands.bus.volcano.sh", body=body)

    # Requests

    def _delete(self, item: Item, *, may_be_gone: bool = False) -> None:
        try:
            self._send(
                "DELETE",
                item.path,
                kind=item.shown.partition("/")[0],
                body={"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"},
            )
        except (NotFoundError, KindMissingError):
            if not may_be_gone:
                self._say(f"{item.shown} was gone already")
            return
        self._say(f"{item.shown} deleted")

    def _patch(self, path: str, patch: Mapping[str, Any], *, kind: str, content_type: str = _MERGE) -> None:
        """What is gone meanwhile needs no patch."""
        try:
            self._send("PATCH", path, kind=kind, body=patch, content_type=content_type)
        except NotFoundError:
            return

    def _send(
        self,
        method: str,
        path: str,
        *,
        kind: str,
        body: Mapping[str, Any],
        content_type: str = "application/json",
    ) -> None:
        """Sent again while the API server still obeys what was just deleted."""
        request = ApiRequest(method, path, {}, json.dumps(body).encode(), content_type)
        while True:
            try:
                self._client.send(request, kind=kind)
            except ServerError as exc:
                is_stale = _STALE.search(str(exc)) is not None or isinstance(exc, ConflictError)
                if not is_stale or time.monotonic() > self._stale_until:
                    raise
                time.sleep(PAUSE_SECONDS)
            else:
                return


def _path(api: str, resource: str, item: Object) -> str:
    metadata = item["metadata"]
    return f"{api}/namespaces/{metadata['namespace']}/{resource}/{quote(metadata['name'], safe='')}"


def metadata_patch(item: Object) -> dict[str, Any]:
    """The patch that takes our labels and annotations off."""
    return {
        "metadata": {
            field: dict.fromkeys(keys)
            for field in ("labels", "annotations")
            if (keys := own_keys(item["metadata"].get(field)))
        }
    }


def pod_patch(pod: Object) -> dict[str, Any]:
    """The same for a pod, as a strategic merge patch: its gates of ours go too."""
    patch = metadata_patch(pod)
    if gates := own_gates(pod):
        patch["spec"] = {"schedulingGates": [{"name": gate, "$patch": "delete"} for gate in gates]}
    return patch


def workload_patch(kind: WorkloadKind, item: Object) -> dict[str, Any]:
    """The same for a workload; one that a drain suspended or brought to zero is resumed.

    Its template stays as it is: a change of it would replace its pods.
    """
    patch = metadata_patch(item)
    if is_suspended(kind, item) and kind.suspension is Suspension.SPEC:
        patch["spec"] = {"suspend": False}
    if is_suspended(kind, item) and kind.life is Life.WHILE_SCALED:
        patch["spec"] = {"replicas": recorded_replicas(item)}
    return patch
