"""Every warning that admission gives: in `WARNINGS`, and tried for a request of which nothing comes.

A warning says what happens. It is given for the edit and for its dry run, in the same words. It is not given
where the object is there already, so that its creation is refused, and where the edit changes nothing. Of a
workload that goes to another queue it is about that queue.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import webhooks
from cluster.cache.store import Store
from queues.metadata.keys import GROUP_MIN_MEMBER
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    NAMED,
    Wire,
    command,
    member,
    namespace,
    pod,
    podgroup,
    policies,
    queue,
    resource_of,
    template,
    workload,
)
from tests.support.webhooks.workload_requests import QUEUE, queues

GOOD = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"
SLA = {"volcano.sh/sla-waiting-time": "1h"}
QUOTA_GATE = "sluice.dev/quota"


def server() -> Server:
    """With stopped queues, one with a quota for which pods wait, and a pod that runs."""
    made = queues().has(queue("full", capability={"cpu": "1"}), queue("drained", stopPolicy="HoldAndDrain"))
    return made.has(
        *(member(f"w-{number}", queue="full", gates=[QUOTA_GATE]) for number in range(4)),
        member("runs", queue="labs", nodeName="node-1"),
    )


def deployment(name: str, **spec: Any) -> Wire:
    written = {NAMED: name, QUEUE: name}
    return workload("deployments.apps", "train", template(written), labels={QUEUE: name}, **spec)


def rolled(obj: Wire) -> Wire:
    again = copy.deepcopy(obj)
    again["spec"]["template"]["metadata"]["annotations"]["restartedAt"] = "2030-01-01T00:00:00Z"
    return again


def scale(replicas: int) -> Wire:
    metadata = {"name": "train", "namespace": "team"}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": {"replicas": replicas},
    }


def with_spec(obj: Wire, **spec: Any) -> Wire:
    return {**obj, "spec": {**obj["spec"], **spec}}


def with_annotation(obj: Wire, **more: str) -> Wire:
    metadata = obj["metadata"]
    changed = {key.replace("_", "/"): value for key, value in more.items()}
    return {**obj, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **changed}}}


class Warned(NamedTuple):
    """`module`: of `webhooks`, that gives it. `before`: None for a creation. `after`: None for a deletion."""

    module: str
    path: str
    after: Wire | None
    before: Wire | None
    says: str
    resource: str = ""
    sub_resource: str = ""


BIG: dict[str, Any] = {
    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "2"}}}]
}
NOWHERE = {
    key: {"requiredDuringSchedulingIgnoredDuringExecution": ["a"]}
    for key in ("nodeGroupAffinity", "nodeGroupAntiAffinity")
}
QUEUES, WORKLOADS, NAMESPACES = "queues.queue_validation", "workloads.workload_admission", "namespaces"
FULL = queue("full", capability={"cpu": "1"})
STOPPED_DEPLOYMENT = deployment("stopped")
GANG = podgroup("gang", queue="full", minMember=2)
WARNINGS = {
    "a limit that goes": Warned(
        QUEUES,
        "/validate/queues",
        queue("full"),
        FULL,
        'no capability limits queue "full" any more: the 4 pods',
    ),
    "a policy that is not there": Warned(
        QUEUES, "/validate/queues", queue("new", schedulerPolicy="packed"), None, "spec.schedulerPolicy: "
    ),
    "a move below a drain": Warned(
        QUEUES, "/validate/queues", queue("labs", parent="drained"), queue("labs"), '"drained"'
    ),
    "node groups that exclude each other": Warned(
        QUEUES, "/validate/queues", queue("new", affinity=NOWHERE), None, "run nowhere"
    ),
    "a close that lets run": Warned(
        "queues.queue_admission",
        "/mutate/queues",
        queue("full", capability={"cpu": "1"}, state="Closed"),
        queue("full", capability={"cpu": "1"}, state="Suspended", reason="disks"),
        "4",
    ),
    "a pod that waits": Warned(
        "pods.pod_admission", "/mutate/pods", pod("new", annotations={NAMED: "stopped"}), None, '"stopped"'
    ),
    "a pod of a queue that is not there": Warned(
        "pods.pod_admission", "/mutate/pods", pod("new", annotations={NAMED: "resarch"}), None, '"resarch"'
    ),
    "a pod that never fits": Warned(
        "never_fits",
        "/mutate/pods",
        pod("new", annotations={NAMED: "full"}, **BIG),
        None,
        "more than capability",
    ),
    "a pod of a scheduler that nobody runs": Warned(
        "schedulers",
        "/mutate/pods",
        pod("new", annotations={NAMED: "research"}, schedulerName="acme"),
        None,
        "acme",
    ),
    "a key of Volcano that does nothing": Warned(
        "metadata",
        "/validate/metadata",
        pod("new", annotations={NAMED: "research", **SLA}),
        None,
        "no effect",
    ),
    "a gang that starts one by one": Warned(
        "workloads.gangs",
        "/mutate/workloads",
        workload("jobs.batch", "new", template({NAMED: "research"}), annotations={GROUP_MIN_MEMBER: "3"}),
        None,
        "its pods start one by one",
    ),
    "a Deployment that waits": Warned(
        WORKLOADS,
        "/mutate/workloads",
        workload("deployments.apps", "new", template({NAMED: "stopped"})),
        None,
        '"stopped"',
    ),
    "a Deployment that grows": Warned(
        WORKLOADS,
        "/mutate/workloads",
        deployment("stopped", replicas=3),
        deployment("stopped", replicas=1),
        "new pods wait",
    ),
    "a scale up": Warned(
        "workloads.scaling",
        "/validate/scales",
        scale(3),
        scale(1),
        "new pods wait",
        "deployments.apps",
        "scale",
    ),
    "a roll-out": Warned(
        "workloads.rollouts",
        "/validate/rollouts",
        rolled(STOPPED_DEPLOYMENT),
        STOPPED_DEPLOYMENT,
        "its new pods wait",
    ),
    "a PodGroup that waits": Warned(
        "podgroups", "/mutate/podgroups", podgroup("new", queue="stopped"), None, '"stopped"'
    ),
    "a PodGroup that can never start": Warned(
        "podgroups",
        "/validate/podgroups",
        with_spec(GANG, minResources={"cpu": "9"}),
        GANG,
        "the pods of this PodGroup never start",
    ),
    "a namespace for a queue that is not there": Warned(
        NAMESPACES, "/mutate/namespaces", namespace("new", queue="resarch"), None, '"resarch"'
    ),
    "a namespace for a queue with a quota": Warned(
        NAMESPACES, "/mutate/namespaces", namespace("team", queue="full"), namespace("team"), "has a quota"
    ),
    "a Command for no queue": Warned(
        "commands", "/mutate/commands", command(target="resarch"), None, "the Command will be dropped"
    ),
    "a policy that goes": Warned(
        "policies", "/validate/policies", policies(), policies(packed=GOOD), 'policy "packed" goes'
    ),
    "all policies that go": Warned(
        "policies", "/validate/policies", None, policies(packed=GOOD), "names policies of this ConfigMap"
    ),
}
CREATIONS = {name: each for name, each in WARNINGS.items() if each.before is None}
EDITS = {name: each for name, each in WARNINGS.items() if each.before is not None and each.after is not None}
#: What Commands are stored as is read by nobody who creates one; each has a name of its own.
NOT_LOOKED_UP = {"a Command for no queue"}


def standing(warned: Warned) -> Server:
    """A server that has what is edited, and a queue that names the policies."""
    made = server().has(queue("names", schedulerPolicy="packed"))
    if warned.path == "/validate/scales":
        return made.has(deployment("stopped", replicas=1))
    return made.has(warned.before) if warned.before is not None else made


def ask(made: Server, warned: Warned, *, after: Wire | None, **request: Any) -> Said:
    operation = "CREATE" if warned.before is None else "UPDATE" if warned.after is not None else "DELETE"
    obj = warned.after or warned.before
    assert obj is not None
    named = warned.resource or _resource(obj)
    answer = made.ask(
        warned.path,
        after,
        old=warned.before,
        operation=operation,
        name=obj["metadata"]["name"],
        resource=named,
        **{"sub_resource": warned.sub_resource} if warned.sub_resource else {},
        **request,
    )
    assert answer.allowed, answer.message
    return answer


def _resource(obj: Wire) -> str:
    plurals = {
        "Queue": "queues.scheduling.volcano.sh",
        "Pod": "pods",
        "PodGroup": "podgroups.scheduling.volcano.sh",
        "Namespace": "namespaces",
        "Command": "commands.bus.volcano.sh",
        "ConfigMap": "configmaps",
    }
    return plurals.get(obj["kind"]) or resource_of(obj)


@pytest.mark.parametrize("name", WARNINGS)
def test_each_is_given_and_a_dry_run_says_the_same(name: str) -> None:
    warned = WARNINGS[name]
    told = ask(standing(warned), warned, after=warned.after).warnings
    assert any(warned.says in text for text in told), told
    assert ask(standing(warned), warned, after=warned.after, dry_run=True).warnings == told


@pytest.mark.parametrize("name", sorted(set(CREATIONS) - NOT_LOOKED_UP))
def test_none_is_given_for_the_creation_of_what_is_there(name: str) -> None:
    """The API server refuses it after it has asked: nothing that the warning says happens."""
    warned = CREATIONS[name]
    assert warned.after is not None
    there = _stored(warned.after)
    assert ask(standing(warned).has(there), warned, after=warned.after).warnings == []
    gone = standing(warned).has(there).lacks(there)
    assert ask(gone, warned, after=warned.after).warnings != []


def _stored(obj: Wire) -> Wire:
    """As a member, where it is a pod: others are none of the cache."""
    if obj["kind"] != "Pod":
        return obj
    return member(obj["metadata"]["name"], queue=obj["metadata"]["annotations"][NAMED])


@pytest.mark.parametrize("name", EDITS)
def test_none_is_given_for_an_edit_that_changes_nothing(name: str) -> None:
    warned = EDITS[name]
    assert ask(standing(warned), warned, after=warned.before).warnings == []


def test_a_creation_of_a_queue_that_is_there_says_nothing_of_its_pods_and_leaves_its_edits() -> None:
    """Also through the mutating webhook. Recorded, it would displace the edit that is not stored yet."""
    made = server()
    moved = queue("labs", parent="research")
    made.ask("/validate/queues", moved, old=queue("labs"), operation="UPDATE", name="labs")
    for path in ("/mutate/queues", "/validate/queues"):
        assert made.ask(path, queue("labs"), operation="CREATE", name="labs").warnings == []
    with made.store.queue_edits.lock:
        assert _parent(made.store, "labs") == "research"


def _parent(store: Store, name: str) -> str | None:
    pending = store.queue_edits.pending(store.queues)[name]
    return pending.spec.parent if pending is not None else None


def test_a_queue_whose_deletion_was_admitted_is_not_there() -> None:
    """The watch may be late: who makes it anew is told what that does."""
    made = server()
    old = queue("spare", state="Closed", status={"state": "Closed", "observedGeneration": 1})
    made.has(old)
    assert made.ask("/validate/queues", None, old=old, operation="DELETE", name="spare").allowed
    anew = queue("spare", affinity=NOWHERE)
    assert made.ask("/validate/queues", anew, operation="CREATE", name="spare").warnings != []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("stopped", "research", []),
        ("nobody", "research", []),
        ("research", "stopped", ['"stopped"']),
        ("stopped", "held", ['"held"']),
        ("stopped", "", []),
    ],
    ids=["out of a stop", "out of a missing queue", "into a stop", "from stop to stop", "out of all queues"],
)
def test_a_workload_that_moves_is_judged_by_the_queue_where_it_goes(
    old: str, new: str, told: list[str]
) -> None:
    """Both webhooks together: what the user reads is one warning for each thing."""
    before, made = deployment(old), server()
    made.has(before)
    named = {NAMED: new} if new else {}
    after = with_spec(before, template=template(named))
    request: dict[str, Any] = {
        "old": before,
        "operation": "UPDATE",
        "resource": "deployments.apps",
        "name": "train",
    }
    mutated = made.ask("/mutate/workloads", after, **request)
    written = deployment(new) if new else workload("deployments.apps", "train", template())
    validated = made.ask("/validate/rollouts", written, **request)
    warnings = [*mutated.warnings, *validated.warnings]
    assert len(warnings) == len(told)
    assert all(part in text for part, text in zip(told, warnings, strict=True))


def test_each_module_that_warns_is_tried_here() -> None:
    """A new one comes into the table. Modules that only hand on what others give are left out."""
    root = Path(webhooks.__file__).parent
    handing_on = {"routes", "review", "acceptance", "existing"}
    warning = {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for path in root.rglob("*.py")
        if re.search(r"warnings=|def \w+_warnings\(", path.read_text())
    }
    assert warning - handing_on == {each.module for each in WARNINGS.values()}
