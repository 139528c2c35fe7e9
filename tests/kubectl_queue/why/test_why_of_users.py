"""`kubectl queue why` of a user with `edit` in one namespace: no pods of others, and maybe no queues."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object
from kubectl_queue.why.events import EVICTIONS
from queues.well_known import CONTACT
from tests.kubectl_queue.why.test_why_room import DEPLOYMENT, LISTED, OURS, PODS, QUEUES, pod
from tests.support.cases import each_case
from tests.support.paths import ROOT
from tests.support.plugin.harness import StoredObjects, StoredQueues, item, run_command

WEB, EVENTS = "/apis/apps/v1/namespaces/team/deployments/web", "/api/v1/namespaces/team/events"
NO_ROOM = (
    'queue "vision" has no room for this pod now: the capability of its ancestor "lab" is used; '
    "it goes when others end, or an admin of queues raises it"
)


class UnreadQueues(StoredQueues):
    """Queues that may be neither got nor listed."""

    def list(self, *, selector: str = "", name: str = "") -> Any:
        raise ForbiddenError("queues is forbidden", code=403)

    def get(self, name: str) -> Object:
        raise ForbiddenError("queues is forbidden", code=403)


def says(item: Object, message: str, reason: str = "SchedulingGated") -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {**item, "status": {**item["status"], "conditions": [condition]}}


def event(reason: str, message: str, at: str, *, source: str = "sluice") -> Object:
    return {"reason": reason, "message": message, "lastTimestamp": at, "source": {"component": source}}


def why(
    *words: str,
    message: str = NO_ROOM,
    queues: type[StoredQueues] = UnreadQueues,
    events: tuple[Object, ...] = (),
    reason: str = "SchedulingGated",
) -> str:
    ours = [
        says(each, message, reason)
        for each in LISTED
        if each["metadata"]["namespace"] == "team" and each["metadata"]["name"] != "released"
    ]
    stored: dict[str, Object] = {f"{OURS}/{each['metadata']['name']}": each for each in ours}
    stored |= {OURS: {"items": ours}, WEB: DEPLOYMENT, EVENTS: {"items": list(events)}}
    client = StoredObjects(stored, forbidden=(PODS,))
    done = run_command(queues(*QUEUES), "why", *words, "--namespace=team", client=client)
    assert done.code == 0, done.err
    return done.out


def test_a_workload_whose_queue_may_not_be_read_has_what_its_next_pod_has() -> None:
    assert why("deployment/web").splitlines() == [
        'Deployment team/web is not stopped, and 3 pods of it wait for room: queue "vision" has no room: '
        'the capability of its ancestor "lab" is used',
        "Queue:       vision, by annotation sluice.dev/queue",
        'No room in:  queue "vision": the capability of its ancestor "lab" is used; '
        "pod work-2 requests cpu 1",
        '             how much is missing, and who holds it: you may not read queue "vision"',
        'In line:     not known: you may not list the pods of queue "vision" in all namespaces; '
        'pod work-2 is 1 of 3 of namespace "team"',
        "Since:       2030-01-01T11:00:02Z (59m ago)",
        "Let go by:   it goes when others end, or an admin of queues raises it",
    ]


def test_a_pod_whose_queue_may_not_be_read_has_its_place_among_those_that_may_be_listed() -> None:
    text = why("pod/work-3")
    assert text.startswith(
        'Pod team/work-3 waits for room: queue "vision" has no room: the capability of its ancestor "lab" '
        "is used\n"
    )
    assert '; it is 2 of 3 of namespace "team"; before it: team/work-2\n' in text
    assert f"it says: {NO_ROOM}\n" in text


def test_who_may_read_queues_has_amounts_holders_and_how_many_wait_in_the_queue() -> None:
    text = why("deployment/web", queues=StoredQueues)
    assert 'No room in:  queue "lab": cpu 8 of 8 is used, it requests 1, and 1 of that is missing\n' in text
    assert 'Held by:     queue "speech" cpu 6, queue "vision" (its own) cpu 2\n' in text
    assert (
        'in all namespaces; pod work-2 is 1 of 3 of namespace "team"; 3 pods wait in that queue\n'
    ) in text
    told = json.loads(why("deployment/web", "-ojson", queues=StoredQueues))
    assert (told["room"]["placeHere"], told["room"]["waitingHere"], told["room"]["inQueue"]) == (1, 3, 3)
    assert "place" not in told["room"]


@each_case(
    ("message", "reason", "first", "way_out"),
    [
        (
            'queue "vision" never has room for this pod: it requests more than its capability; request less, '
            "or have an admin of queues raise it",
            "SchedulingGated",
            'queue "vision" never has room: it requests more than its capability',
            "request less, or have an admin of queues raise it",
        ),
        (
            f"0/3 nodes are available: 3 {NO_ROOM}. preemption: 0/3 nodes are available: 3 Preemption is "
            "not helpful for scheduling.",
            "Unschedulable",
            'queue "vision" has no room: the capability of its ancestor "lab" is used',
            "it goes when others end, or an admin of queues raises it",
        ),
        (
            'queue "vision" does not release this pod yet: fewer than 4 pods of its PodGroup exist; it goes '
            "once they do",
            "SchedulingGated",
            "its PodGroup starts as a whole; fewer than 4 pods of its PodGroup exist",
            "the leader, once all pods with which its PodGroup starts may go together",
        ),
    ],
)
def test_what_its_pods_say_is_read_in_each_form(message: str, reason: str, first: str, way_out: str) -> None:
    for target, start in (
        ("deployment/web", "3 pods of it wait for room: "),
        ("pod/work-3", "waits for room: "),
    ):
        text = why(target, message=message, reason=reason)
        assert text.partition("\n")[0].endswith(f"{start}{first}"), text
        assert f"Let go by:   {way_out}\n" in text


@each_case(
    ("contacts", "named"),
    [
        ({"root": "Ann"}, "Ann"),
        ({"root": "Ann", "lab": "Bob"}, "Bob"),
        ({"lab": "a\n\x1b[31m[x](https://example.com)", "vision": "Eve"}, "a [31m[x](https://example.com)"),
    ],
)
def test_whom_to_ask_is_said_of_what_waits_for_room(contacts: dict[str, str], named: str) -> None:
    """The limit of `lab` is what lacks: its contact can raise that, and Eve cannot."""
    text = why("deployment/web", queues=with_contacts(contacts))
    assert (
        f"Let go by:   itself, once others end; {named} may raise the capability: kubectl edit queue lab\n"
    ) in text
    assert f"\nContact:     {named}\n" in text
    assert json.loads(why("deployment/web", "-ojson", queues=with_contacts(contacts)))["contact"] == named


def with_contacts(contacts: dict[str, str]) -> type[StoredQueues]:
    class NamedQueues(StoredQueues):
        def __init__(self, *items: Object) -> None:
            super().__init__(*(with_contact(each, contacts) for each in items))

    return NamedQueues


def with_contact(item: Object, contacts: dict[str, str]) -> Object:
    name = item["metadata"]["name"]
    annotations = {CONTACT: contacts[name]} if name in contacts else {}
    return {**item, "metadata": {**item["metadata"], "annotations": annotations}}


def test_whom_to_ask_is_said_of_what_is_stopped_and_of_a_queue_that_is_asked_about() -> None:
    lab = with_contact(item("lab", state="Suspended", status={"observedGeneration": 1}), {"lab": "Bob"})
    api = StoredQueues(with_contact(item("root"), {"root": "Ann"}), lab, item("below", parent="lab"))
    for target, contact in (("below", "Bob"), ("lab", "Bob"), ("root", "Ann")):
        assert f"\nContact:     {contact}\n" in run_command(api, "why", target).out + "\n"


def test_the_contact_of_a_queue_below_the_one_that_stops_it_is_not_named() -> None:
    """Lena may change `vision`, and not `root`."""
    vision = with_contact(item("vision", parent="root"), {"vision": "Lena"})
    held = run_command(StoredQueues(item("root", stopPolicy="Hold"), vision), "why", "vision").out
    assert "Let go by:   kubectl queue resume root\n" in held
    assert "Lena" not in held
    both = with_contact(item("root", stopPolicy="Hold"), {"root": "Ann"})
    assert "Contact:     Ann\n" in run_command(StoredQueues(both, vision), "why", "vision").out


def test_the_contact_of_a_queue_below_the_one_that_lacks_room_is_not_named() -> None:
    text = why("deployment/web", queues=with_contacts({"vision": "Eve"}))
    assert "an admin of queues may raise the capability: kubectl edit queue lab\n" in text
    assert "Eve" not in text


@pytest.mark.parametrize("parent", ["", "missing"], ids=["it is not there", "its chain is broken"])
def test_root_says_whom_to_ask_about_a_queue_whose_chain_does_not_reach_it(parent: str) -> None:
    queues = [with_contact(item("root"), {"root": "Ann"})]
    queues += [item("vision", parent=parent)] if parent else []
    stored = {f"{OURS}/work-2": says(LISTED[2], NO_ROOM)}
    done = run_command(
        StoredQueues(*queues), "why", "pod/work-2", "--namespace=team", client=StoredObjects(stored)
    )
    assert "\nContact:     Ann\n" in done.out


def owned(by: Object) -> Object:
    kind, metadata = by["kind"], by["metadata"]
    return {
        "apiVersion": by["apiVersion"],
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


def work(kind: str, version: str, name: str, *, owner: Object | None = None, **spec: Any) -> Object:
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "ownerReferences": [owned(owner)] if owner is not None else [],
    }
    template = {"template": {"metadata": {"annotations": {"sluice.dev/queue": "vision"}}}}
    holders: dict[tuple[str, str], Object] = {
        ("CronJob", "batch/v1"): {"jobTemplate": {"spec": template}},
        ("JobSet", "jobset.x-k8s.io/v1alpha2"): {"replicatedJobs": [{"template": {"spec": template}}]},
        ("Job", "batch.volcano.sh/v1alpha1"): {"tasks": [template]},
    }
    holder = holders.get((kind, version), template)
    return {"kind": kind, "apiVersion": version, "metadata": metadata, "spec": {**holder, **spec}}


CRON = work("CronJob", "batch/v1", "nightly")
SET = work("JobSet", "jobset.x-k8s.io/v1alpha2", "train")
VOLCANO = work("Job", "batch.volcano.sh/v1alpha1", "mpi")
SELECTOR = {"matchLabels": {"job": "x"}}
#: By the path of each: the object.
WORK = {
    "/apis/batch/v1/namespaces/team/cronjobs/nightly": CRON,
    "/apis/batch/v1/namespaces/team/jobs/nightly-1": work(
        "Job", "batch/v1", "nightly-1", owner=CRON, selector=SELECTOR
    ),
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/train": SET,
    "/apis/batch/v1/namespaces/team/jobs/train-w": work(
        "Job", "batch/v1", "train-w", owner=SET, selector=SELECTOR
    ),
    "/apis/batch.volcano.sh/v1alpha1/namespaces/team/jobs/mpi": VOLCANO,
}


@pytest.mark.parametrize("queues", [StoredQueues, UnreadQueues])
@pytest.mark.parametrize(
    ("target", "owner"),
    [
        ("cronjob/nightly", "nightly-1"),
        ("job/nightly-1", "nightly-1"),
        ("jobset/train", "train-w"),
        ("vcjob/mpi", "mpi"),
    ],
)
def test_a_workload_of_any_kind_has_what_its_next_pod_has(
    target: str, owner: str, queues: type[StoredQueues]
) -> None:
    """Those without a selector by the owners of the pods, and by who owns these."""
    made = next(each for each in WORK.values() if each["metadata"]["name"] == owner)
    waits = says(LISTED[2], NO_ROOM)
    waits = {**waits, "metadata": {**waits["metadata"], "ownerReferences": [owned(made)]}}
    stored: dict[str, Object] = {**WORK, OURS: {"items": [waits]}, EVENTS: {"items": []}}
    client = StoredObjects(stored, forbidden=(PODS,))
    done = run_command(queues(*QUEUES), "why", target, "--namespace=team", client=client)
    assert done.code == 0, done.err
    first, *rest = done.out.splitlines()
    assert " is not stopped, and 1 pod of it waits for room: " in first
    assert any('pod work-2 is 1 of 1 of namespace "team"' in line for line in rest)


@pytest.mark.parametrize(
    ("node", "replicas", "is_shown"),
    [("node-1", 1, False), ("", 1, True), ("node-1", 2, True)],
    ids=["run", "wait", "lacks one"],
)
def test_an_event_of_a_stop_is_of_before_once_all_pods_run(node: str, replicas: int, is_shown: bool) -> None:
    stopped = event("QueueSuspended", 'queue "vision" is Suspended: its pods wait', "2030-01-01T11:00:00Z")
    pods = [{**LISTED[2], "spec": {**LISTED[2]["spec"], "nodeName": node}}]
    web = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": replicas}}
    stored: dict[str, Object] = {WEB: web, OURS: {"items": pods}, EVENTS: {"items": [stopped]}}
    client = StoredObjects(stored, forbidden=(PODS,))
    done = run_command(UnreadQueues(*QUEUES), "why", "deploy/web", "--namespace=team", client=client)
    assert ("QueueSuspended" in done.out) is is_shown


def test_a_workload_whose_pods_do_not_wait_for_room_is_not_said_to() -> None:
    text = why(
        "deployment/web", message="0/3 nodes are available: 3 Insufficient cpu.", reason="Unschedulable"
    )
    assert text.startswith('Deployment team/web is of queue "vision", which you may not read\n')


@pytest.mark.parametrize("queues", [StoredQueues, UnreadQueues])
def test_a_workload_says_which_of_its_pods_were_evicted_newest_first(queues: type[StoredQueues]) -> None:
    """Its pods are gone. Events have whole seconds, or fractions of them."""
    given = 'a pod of it was evicted: queue "vision" uses more than it deserves'
    text = why(
        "deployment/web",
        queues=queues,
        events=(
            event("Preempted", "a pod of higher priority", "2030-01-01T11:58:00Z"),
            event("Reclaimed", "older", "2030-01-01T11:58:59Z"),
            event("Reclaimed", given, "2030-01-01T11:59:00.5Z"),
            event("Evicted", "its queue is drained", "2030-01-01T11:59:00Z"),
            event("InsufficientQuota", "a pod of it waits", "2030-01-01T11:59:30Z"),
            event("ScalingReplicaSet", "Scaled up", "2030-01-01T11:59:40Z", source="deployment-controller"),
        ),
    )
    assert text.splitlines()[-3:] == [
        f"Events:      Reclaimed, 2030-01-01T11:59:00.5Z (59s ago): {given}",
        "             Evicted, 2030-01-01T11:59:00Z (60s ago): its queue is drained",
        "             Preempted, 2030-01-01T11:58:00Z (2m ago): a pod of higher priority",
    ]


def test_each_event_of_an_eviction_is_one_that_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "events.md").read_text()
    assert [reason for reason in EVICTIONS if f"| `{reason}` |" not in page] == []


@pytest.mark.parametrize(
    ("spec", "record", "first"),
    [
        (
            {"suspend": True},
            "vision",
            "its queue suspended it (spec.suspend is true) and resumes it once the queue schedules again",
        ),
        (
            {"replicas": 0},
            "vision/3",
            'the drain of queue "vision" brought it to zero replicas, from 3; they come back once its queue '
            "schedules again",
        ),
    ],
    ids=["suspended", "scaled"],
)
def test_the_first_line_of_what_a_drain_took_away_says_so(
    spec: dict[str, Any], record: str, first: str
) -> None:
    """Its pods are gone, and its queue may not be read."""
    kind, group = ("Job", "batch/v1") if "suspend" in spec else ("Deployment", "apps/v1")
    made = work(kind, group, "long", **spec)
    made["metadata"]["annotations"] = {"sluice.dev/suspended": record}
    path = f"/apis/{group}/namespaces/team/{kind.lower()}s/long"
    told = event("SuspendedByQueue", "its queue is drained", "2030-01-01T11:59:00Z")
    stored: dict[str, Object] = {path: made, OURS: {"items": []}, EVENTS: {"items": [told]}}
    client = StoredObjects(stored, forbidden=(PODS,))
    target = f"{kind.lower()}/long"
    text = run_command(UnreadQueues(*QUEUES), "why", target, "--namespace=team", client=client).out
    assert text.startswith(f"{kind} team/long waits: {first}\n")
    assert text.count(first) == 1
    assert "Events:      SuspendedByQueue, " in text


@each_case(
    ("events", "asked"),
    [
        ((("QueueNotFound", "11:59:00"),), True),
        ((("QueueNotFound", "11:59:00"), ("QueueStopped", "11:58:00")), True),
        ((("QueueNotFound", "11:58:00"), ("QueueStopped", "11:59:00")), False),
        ((), False),
    ],
    ids=["not there", "not there any more", "there by now", "not known"],
)
def test_a_queue_that_is_not_there_is_compared_with_those_of_the_pods_of_the_namespace(
    events: tuple[tuple[str, str], ...], asked: bool
) -> None:
    """Queues may not be listed; the reason of an event says that it is not there."""
    misspelt = pod("p1")
    for place in ("labels", "annotations"):
        misspelt["metadata"][place] = {"sluice.dev/queue": "visoin"}
    told = [event(reason, "x", f"2030-01-01T{at}Z") for reason, at in events]
    stored: dict[str, Object] = {
        f"{OURS}/p1": misspelt,
        OURS: {"items": [misspelt, *LISTED]},
        EVENTS: {"items": told},
    }
    client = StoredObjects(stored, forbidden=(PODS,))
    text = run_command(UnreadQueues(), "why", "pod/p1", "--namespace=team", client=client).out
    assert ('did you mean queue "vision"?' in text) is asked


@each_case(
    ("name", "hint"),
    [
        ("web", "Did you mean this?\n\tkubectl queue why deployment/web -n team"),
        ("vision", "of a pod or a workload say its kind: kubectl queue why job/vision -n team"),
    ],
)
def test_a_name_alone_that_may_not_be_read_as_a_queue_is_asked_about(name: str, hint: str) -> None:
    client = StoredObjects({WEB: DEPLOYMENT})
    session = UnreadQueues(*QUEUES)
    done = run_command(session, "why", name, "--namespace=team", client=client)
    assert done.code == 1
    assert "queues is forbidden" in done.err
    assert hint in done.err


@each_case(("verb", "command"), [("usage", "usage"), ("list", "get"), ("tree", "get")])
def test_who_may_not_list_queues_is_told_to_name_one(verb: str, command: str) -> None:
    with pytest.raises(ForbiddenError, match=rf"may read: kubectl queue {command} NAME"):
        run_command(UnreadQueues(*QUEUES), verb)
