"""What one test has of a running cluster: a namespace, and queues that no other test names."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from localcluster import apiserver
from localcluster.audit_log import Bind
from localcluster.cluster import LocalCluster
from queues.queue import BUILT_IN
from tests.support.e2e.api_requests import (
    MERGE,
    STRATEGIC,
    Answer,
    Api,
    Object,
    metric,
)
from tests.support.e2e.objects import (
    NO_UID,
    OWN_GATE,
    binding_body,
    command_body,
    is_answered,
    is_stopped,
    pod_body,
    podgroup_body,
    queue_body,
    state_of,
    why,
)
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    STATEFUL_SET,
    WorkloadKind,
)

T = TypeVar("T")

RBAC = "/apis/rbac.authorization.k8s.io/v1"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
#: Names and little more: a list of a thousand pods is polled in some tests.
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
#: Over how many connections many objects are written, and how many writes one is made for: each is a TLS
#: handshake.
WRITERS, WRITES = 4, 4
#: What makes pods; those on top before those that they make.
MAKERS = (CRON_JOB, DEPLOYMENT, STATEFUL_SET, DAEMON_SET, REPLICA_SET, JOB)
#: Those that controllers make, by what they make them for.
MADE_FOR = {CRON_JOB: JOB, DEPLOYMENT: REPLICA_SET}


class Sandbox:
    """The namespace and what is done in it. `clear` leaves the cluster as it was. For one thread."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.api = Api(cluster)
        self.namespace = f"tests-{secrets.token_hex(4)}"
        self.home = f"/api/v1/namespaces/{self.namespace}"
        self.pods_path = f"{self.home}/pods"
        self.commands_path = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{self.namespace}/commands"
        #: All that were made here.
        self.queue_names: list[str] = []
        self._others: list[str] = []
        self._by_kubectl = False
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}}).must(201)

    def close(self) -> None:
        self.api.close()

    def clear(self) -> None:
        """No pod, queue or cluster-wide object of this test is left.

        The namespace stays until the cluster ends: to take one away is a hundred requests.
        """
        with ExitStack() as steps:
            steps.callback(self.remove_queues, self.queue_names)
            self._by_kubectl = True  # or by whatever else: no kind is left out
            self.leave()

    def leave(self) -> None:
        """As `clear`, but its queues are no more than opened, and are left for `remove_queues`.

        To close a queue the server counts what is in it, by thirty requests for one queue or for many.

        Each step is taken, though an earlier one fails: a pod that does not go leaves no webhook, policy or
        role of this test to the next ones. What may exist is deleted: pods, the kinds that `api` has made
        and, if kubectl was used, all kinds.
        """
        with ExitStack() as steps:  # the last one first
            for path in reversed(self._others):
                steps.callback(self._delete, path, 200, 404)
            for name in self.queue_names:
                steps.callback(until, partial(self._stops_nothing, name), f"queue {name} to stop nothing")
            steps.callback(self.delete_pods)
            if self._by_kubectl or self.podgroups_path in self.api.made_at:
                steps.callback(self._delete, self.podgroups_path)
            for made in reversed(self._made_kinds()):
                steps.callback(self._delete, f"{made.path(self.namespace)}?propagationPolicy=Background")

    def _made_kinds(self) -> list[WorkloadKind]:
        """Those of `MAKERS` of which there may be one here."""
        made = {each for each in MAKERS if each.path(self.namespace) in self.api.made_at}
        made |= {MADE_FOR[each] for each in made if each in MADE_FOR}
        return [each for each in MAKERS if self._by_kubectl or each in made]

    def _delete(self, path: str, *statuses: int) -> None:
        self.api.delete(path).must(*statuses)

    def create(self, path: str, body: Object) -> Object:
        """Make a cluster-wide object, to be deleted at the end."""
        made = self.api.create(path, body).must(201).body
        self._others.append(f"{path}/{made['metadata']['name']}")
        return made

    # Queues

    def wishes(self) -> dict[str, Object]:
        """The spec of every queue of the cluster."""
        items = self.api.get(QUEUES).must().body["items"]
        return {each["metadata"]["name"]: each["spec"] for each in items}

    def first_wishes(self) -> dict[str, Object]:
        """The same, once the queues that are always there are."""
        return until(
            lambda: (wishes := self.wishes()) and wishes.keys() >= BUILT_IN and wishes, "the first queues"
        )

    def named(self, short: str) -> str:
        """The name of this test's queue of that short name."""
        return f"{self.namespace}-{short}"

    def queue(self, short: str = "research", **spec: object) -> str:
        """A queue that the server knows and has answered; returns its name."""
        name = self.named(short)
        self.api.create(QUEUES, queue_body(name, **spec)).must(201)
        self.queue_names.append(name)
        self.answered(name)
        return name

    def make_queues(self, bodies: Iterable[Object]) -> None:
        """Create these, over several connections; for a cluster of the test's own."""
        self._by_many(lambda api, body: api.create(QUEUES, body).must(201), bodies)

    def read_queue(self, name: str) -> Object:
        return self.api.get(f"{QUEUES}/{name}").must().body

    def patch_queue(self, queue: str, **spec: object) -> Answer:
        return self.api.patch(f"{QUEUES}/{queue}", {"spec": spec})

    def edit(self, queue: str, **spec: object) -> Object:
        """Patch its spec as `kubectl patch` does, and wait until that is answered; the queue then."""
        self.patch_queue(queue, **spec).must()
        return self.answered(queue)

    def suspend(self, queue: str, **spec: object) -> Object:
        """Returns once the stop is acknowledged."""
        found = self.edit(queue, state="Suspended", **spec)
        assert is_stopped(found)
        return found

    def answered(self, queue: str) -> Object:
        """The queue once its present generation has been acted on."""
        return self.queue_that(queue, "be acknowledged", is_answered)

    def in_state(self, queue: str, state: str) -> Object:
        return self.queue_that(queue, f"be {state}", lambda found: state_of(found) == state)

    def queue_that(self, queue: str, what: str, holds: Callable[[Object], bool]) -> Object:
        """The queue once that holds of it."""

        def found() -> Object:
            read = self.read_queue(queue)
            return read if holds(read) else {}

        return until(found, f"queue {queue} to {what}")

    def remove_queues(self, names: Iterable[str]) -> None:
        """Close and delete these, whatever they were, the last one first."""
        last_first = list(reversed(list(names)))

        def gone() -> bool:
            found = {each["metadata"]["name"]: each for each in self.api.get(QUEUES).must().body["items"]}
            left = [name for name in last_first if name in found]
            for name in left:
                if state_of(found[name]) == "Closed":
                    self.api.delete(f"{QUEUES}/{name}")
                elif not _is_to_close(found[name]["spec"]):
                    self._close(name)
            return not left

        # What we admitted and others refused may still come for a minute, as far as the server knows.
        until(gone, f"queues {', '.join(last_first)} to go", seconds=180)

    def remove_queue(self, name: str) -> None:
        self.remove_queues([name])

    def _stops_nothing(self, name: str) -> bool:
        """Whether it is asked to be open, or to close below a parent that is closed, or is gone."""
        opened = self.patch_queue(name, state="Open", **_NO_STOP)
        return opened.status in (200, 404) or self._close(name) in (200, 404)

    def _close(self, queue: str) -> int:
        """Ask for that, whatever it was; the status of the answer."""
        return self.patch_queue(queue, state="Closed", **_NO_STOP).status

    # Pods

    def pod(self, name: str, queue: str = "", *, dry: bool = False, **more: Any) -> Answer:
        """Ask for a pod; see `pod_body` for `more`."""
        return self.api.create(self.pods_path + ("?dryRun=All" if dry else ""), pod_body(name, queue, **more))

    def pods(self, prefix: str, count: int, queue: str = "", **more: Any) -> list[str]:
        """Make several pods; returns their names."""
        names = [f"{prefix}-{number}" for number in range(count)]
        self.flood(pod_body(name, queue, **more) for name in names)
        return names

    def flood(self, bodies: Iterable[Object]) -> None:
        """Create these pods in their order, over several connections."""
        self._by_many(lambda api, body: api.create(self.pods_path, body).must(201), bodies)

    def ungate(self, names: Iterable[str]) -> None:
        """Take the test's own gate off."""
        body = {"spec": {"schedulingGates": [{"name": OWN_GATE, "$patch": "delete"}]}}

        def patch(api: Api, name: str) -> None:
            api.patch(f"{self.pods_path}/{name}", body, kind=STRATEGIC).must()

        self._by_many(patch, names)

    def _by_many(self, write: Callable[[Api, T], object], each: Iterable[T]) -> None:
        share = list(each)
        writers = min(WRITERS, -(-len(share) // WRITES)) or 1

        def work(start: int) -> None:
            with Api(self.cluster) as api:
                for one in share[start::writers]:
                    write(api, one)

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(work, range(writers)))

    def patch_pod(self, name: str, body: Object, *, kind: str = MERGE, user: str = "") -> Answer:
        return self.api.patch(f"{self.pods_path}/{name}", body, kind=kind, user=user)

    def read_pod(self, name: str) -> Object:
        return self.api.get(f"{self.pods_path}/{name}").must().body

    def read_pods(self) -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in self.api.get(self.pods_path).must().body["items"]}

    def bound(self, names: Iterable[str]) -> set[str]:
        """Those of them that are on a node."""
        return self._pod_names("spec.nodeName!=") & set(names)

    def waiting(self) -> set[str]:
        """All pods that are on no node."""
        return self._pod_names("spec.nodeName=")

    def all_bound(self, names: Iterable[str]) -> None:
        """Returns once these pods, which exist, are on nodes."""
        wanted = set(names)
        until(lambda: not self.waiting() & wanted, f"{len(wanted)} pods to be bound")
        assert self.bound(wanted) == wanted

    def _pod_names(self, selector: str) -> set[str]:
        """Of the pods that meet the field selector."""
        listed = self.api.get(f"{self.pods_path}?fieldSelector={selector}", accept=METADATA).must()
        return {each["metadata"]["name"] for each in listed.body["items"] or ()}

    def delete_pods(self) -> None:
        path = f"{self.pods_path}?gracePeriodSeconds=0"
        if not self._pod_names(""):
            return
        # To delete hundreds can take longer than a request may: then it is asked for again.
        until(
            lambda: self.api.delete(path, accept=METADATA).must(200, 504).status == 200,
            "the pods to be deleted",
        )
        until(lambda: not self._pod_names(""), "the pods to go")

    def reason_on(self, name: str, text: str) -> Object:
        """The pod once its PodScheduled condition holds the text."""

        def found() -> Object:
            read = self.read_pod(name)
            return read if text in why(read) else {}

        return until(found, f"pod {name} to say {text!r}")

    def bind(self, name: str, *, old: bool = False, dry: bool = False) -> Answer:
        """Bind a pod by hand, by the endpoint of today or the old one."""
        path = f"{self.home}/bindings" if old else f"{self.pods_path}/{name}/binding"
        return self.api.create(path + ("?dryRun=All" if dry else ""), binding_body(name, self.namespace))

    # Workloads and PodGroups

    def make(self, made: WorkloadKind, body: Object, *, dry: bool = False) -> Answer:
        """Ask for a workload of that kind."""
        return self.api.create(made.path(self.namespace) + ("?dryRun=All" if dry else ""), body)

    def scale(self, deployment: str, replicas: int, *, refused: str = "") -> None:
        """By its `scale`, as `kubectl scale` does; `refused`: in these words."""
        path = f"{DEPLOYMENT.path(self.namespace)}/{deployment}/scale"
        answer = self.api.patch(path, {"spec": {"replicas": replicas}})
        if refused:
            answer.must_refuse(refused)
        else:
            answer.must()

    @property
    def podgroups_path(self) -> str:
        return QUEUES.removesuffix("queues") + f"namespaces/{self.namespace}/podgroups"

    def podgroup(self, name: str, queue: str, **more: Any) -> None:
        self.make_podgroup(name, queue, **more).must(201)

    def make_podgroups(self, bodies: Iterable[Object]) -> None:
        """Create these, over several connections."""
        path = self.podgroups_path
        self._by_many(lambda api, body: api.create(path, body).must(201), bodies)

    def make_podgroup(self, name: str, queue: str, *, dry: bool = False, **more: object) -> Answer:
        """Ask for a PodGroup; without a queue it is left to others to name one."""
        path = self.podgroups_path + ("?dryRun=All" if dry else "")
        return self.api.create(path, podgroup_body(name, queue, **more))

    def read_podgroup(self, name: str) -> Object:
        return self.api.get(f"{self.podgroups_path}/{name}").must().body

    def move_podgroup(self, name: str, queue: str) -> Answer:
        return self.api.patch(f"{self.podgroups_path}/{name}", {"spec": {"queue": queue}})

    # Commands, users, kubectl

    def command(self, queue: str, action: str, *, user: str = "", **more: Any) -> Answer:
        """Create a Command in this namespace; see `command_for` for `more`."""
        return self.api.create(self.commands_path, self.command_for(queue, action, **more), user=user)

    def command_for(self, queue: str, action: str, *, uid: str = "", **metadata: Any) -> Object:
        """A Command that is aimed at the queue as it is now, or at that UID."""
        if not uid:
            found = self.api.get(f"{QUEUES}/{queue}")
            uid = found.body["metadata"]["uid"] if found.status == 200 else NO_UID
        name = f"{action.lower()}-{secrets.token_hex(4)}"
        return command_body(name, action, queue=queue, uid=uid, **metadata)

    def commands(self) -> list[Object]:
        return list(self.api.get(self.commands_path).must().body["items"])

    def user(self, name: str, *roles: str) -> Path:
        """The kubeconfig of a user with these ClusterRoles, everywhere in the cluster; see `may`."""
        for role in roles:
            body = {
                "metadata": {"name": f"{self.namespace}-{name}-{role}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
            }
            self.create(f"{RBAC}/clusterrolebindings", body)
        return self.cluster.user(name)

    def controller(self, user: str) -> str:
        """A user who may do here what a controller of kube-controller-manager may; returns the name."""
        body = {
            "metadata": {"name": f"controller-{secrets.token_hex(4)}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        self.api.create(f"{RBAC}/namespaces/{self.namespace}/rolebindings", body).must(201)
        self.may(user, "create", "pods")
        return user

    def role(self, short: str, *rules: Object) -> str:
        """A ClusterRole of these rules."""
        name = self.named(short)
        self.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
        return name

    def may(self, user: str, verb: str, resource: str, group: str = "", *, name: str = "") -> None:
        """Returns once the API server grants it; it takes a moment to hear of a new binding.

        `name`: of the one object that the right is for.
        """
        what = {"verb": verb, "resource": resource, "group": group, "namespace": self.namespace, "name": name}
        review = {"spec": {"user": user, "groups": ["system:authenticated"], "resourceAttributes": what}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

        def allowed() -> object:
            return self.api.create(path, review).must(201).body["status"]["allowed"]

        until(allowed, f"{user} to be allowed to {verb} {resource}")

    def kubectl(
        self, *arguments: str, kubeconfig: Path | None = None, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """kubectl in this namespace, whatever comes of it."""
        self._by_kubectl = True
        words = ("--namespace", self.namespace, *arguments)
        return apiserver.try_kubectl(self.cluster.layout, *words, kubeconfig=kubeconfig, stdin=given)

    # What was said and counted

    def events(self, name: str, *, namespace: str = "") -> list[str]:
        """`reason: message` of each about the object of that name; cluster-scoped: those in `default`."""
        path = f"/api/v1/namespaces/{namespace or self.namespace}/events"
        found = self.api.get(f"{path}?fieldSelector=involvedObject.name={name}").must().body["items"]
        return [f"{each['type']} {each['reason']}: {each['message']}" for each in found]

    def event(self, name: str, *words: str, namespace: str = "") -> str:
        """The first event about it that holds all the words, once there is one."""

        def found() -> str:
            told = self.events(name, namespace=namespace)
            return next((event for event in told if all(word in event for word in words)), "")

        return until(found, f"an event of {name} with {words}")

    def calls(self, path: str) -> float:
        """How many requests the server has answered on this path."""
        return self.counted(rf'sluice_requests_total{{[^}}]*path="{path}"[^}}]*}}')

    def counted(self, pattern: str) -> float:
        """The sum of the server's samples whose name and labels match."""
        context = apiserver.caller_context(self.cluster.layout)
        return metric(self.cluster.ports.server, context, pattern)

    def binds(self) -> list[Bind]:
        """The audit log's binds of this namespace, in the order they were answered."""
        return [bind for bind in self.cluster.audit() if bind.namespace == self.namespace]

    def binds_of(self, names: Iterable[str]) -> list[Bind]:
        """The binds that bound pods, once those of these pods are among them.

        A line is written with the answer: a reader may see the pod on its node before.
        """
        wanted = set(names)

        def bound() -> list[Bind]:
            found = [bind for bind in self.binds() if bind.bound]
            return found if {bind.pod for bind in found} >= wanted else []

        return until(bound, f"the audit lines of the binds of {len(wanted)} pods")


#: Beside the state, and with it.
_NO_STOP: Object = {"stopPolicy": "None", "resumeAt": None, "windows": None, "windowOverrides": None}


def _is_to_close(spec: Object) -> bool:
    """Whether the queue's wish is what `Sandbox` asks for to close it."""
    asked = (spec.get("state"), spec.get("stopPolicy", "None"), spec.get("resumeAt"))
    return asked == ("Closed", "None", None)
