"""`drain --dry-run` and the page say of each pod, each workload and each budget what the leader does.

The two readers of a cluster are given the same objects (`tests.support.readers`): the leader's cache, and the
lists of the plugin.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubectl_queue.views.drain_preview import DrainPreview
from queues.membership import label_value
from tests.support.cases import each_case
from tests.support.examples import examples
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    Wire,
    member,
    namespace,
    owner,
    pod,
    podgroup,
    queue,
    template,
    workload,
)
from tests.support.readers.random_cluster import clusters
from tests.support.readers.two_readers import leader_previews, plugin_previews

DRAINED = ("research", "elsewhere")
QUEUE = "sluice.dev/queue"
QUEUES = (
    queue("root", parent=None),
    queue("research", stopPolicy="HoldAndDrain", drain={}),
    queue("below", parent="research"),
    queue("other"),
    queue("default", stopPolicy="HoldAndDrain"),
)
PLACES = (namespace("team"), namespace("lab", queue="research"), namespace("kube-system"))


@examples(300)
@given(clusters())
def test_both_readers_of_random_objects_say_the_same_of_every_unit_and_blocker(objects: list[Wire]) -> None:
    assert plugin_previews(objects, names=DRAINED) == leader_previews(objects)


#: What a tenant may not read in all namespaces.
_UNREAD = ("namespaces", "podgroups", "jobs", "replicasets", "daemonsets", "poddisruptionbudgets")


@examples(300)
@given(clusters(), st.sets(st.sampled_from(_UNREAD), min_size=1, max_size=2))
def test_who_may_read_less_is_told_the_same_or_what_was_left_out(
    objects: list[Wire], forbidden: set[str]
) -> None:
    said: list[str] = []
    told = plugin_previews(objects, names=DRAINED, forbidden=forbidden, warnings=said)
    names_it = any(text.startswith(f"{kind}") for text in said for kind in forbidden)
    assert told == leader_previews(objects) or names_it


@examples(150)
@given(clusters())
def test_who_may_read_one_namespace_is_told_what_the_leader_does_there(objects: list[Wire]) -> None:
    here = [each for each in objects if each["metadata"].get("namespace", "team") == "team"]
    said: list[str] = []
    assert plugin_previews(objects, names=DRAINED, only="team", warnings=said) == leader_previews(here)
    assert [text for text in said if 'only the pods of namespace "team" are read' in text]


def both(*objects: Wire, names: tuple[str, ...] = ("research",)) -> list[DrainPreview]:
    """What both say of the drains of these queues. `objects`: beside namespaces, and in place of queues."""
    given = {each["metadata"]["name"] for each in objects if each["kind"] == "Queue"}
    queues = (each for each in QUEUES if each["metadata"]["name"] not in given)
    all_objects = (*PLACES, *queues, *objects)
    by_leader = [each for each in leader_previews(all_objects) if each.by in names]
    assert plugin_previews(all_objects, names=names) == by_leader
    return by_leader


def goes(*objects: Wire, names: tuple[str, ...] = ("research",)) -> list[str]:
    """What goes, or is on its way, as both say."""
    return _going(both(*objects, names=names))


def _going(previews: list[DrainPreview]) -> list[str]:
    headings = {"Goes, in this order": 2, "Is on its way already": 1}
    return [
        " ".join(row.cells[: headings[section.heading]])
        for preview in previews
        for section in preview.sections
        if section.heading in headings
        for row in section.rows
    ]


def running(name: str = "work", **more: Any) -> Wire:
    return member(name, nodeName="one", status={"phase": "Running"}, **more)


def job(
    name: str = "train", *, in_queue: str = "research", resource: str = "jobs.batch", **more: Any
) -> Wire:
    return workload(resource, name, template(annotations={QUEUE: in_queue}), **more)


COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
JOBSET = job("whole", resource="jobsets.jobset.x-k8s.io")
LEAVING = {"deletionTimestamp": "2030-01-01T12:00:10Z", "deletionGracePeriodSeconds": 30}
EVICTED, SUSPENDED = ["evict pod team/work"], ["suspend job team/train"]


@each_case(
    ("train", "reference", "expected"),
    [
        (job(), {}, SUSPENDED),
        (job(in_queue="below"), {}, SUSPENDED),
        (job(in_queue="other"), {}, EVICTED),
        (job(in_queue="missing"), {}, EVICTED),
        (workload("jobs.batch"), {}, EVICTED),
        (workload("jobs.batch", annotations={QUEUE: "research"}), {}, EVICTED),
        (workload("jobs.batch", annotations={NAMED: "research"}), {}, SUSPENDED),
        (job(namespace="lab"), {}, EVICTED),
        (job(namespace="kube-system"), {}, EVICTED),
        (job(status=COMPLETE), {}, EVICTED),
        (job(managedBy="example.com/x"), {}, EVICTED),
        (job(suspend=True), {}, ["pod team/work"]),
        (job(), {"uid": "uid-of-before"}, EVICTED),
        (job(), {"controller": False}, EVICTED),
        (job(), {"controller": None}, EVICTED),
        (job(), {"name": "another-name"}, SUSPENDED),
        ({**job(), "metadata": {**job()["metadata"], **LEAVING}}, {}, SUSPENDED),
        (None, {}, EVICTED),
        (job(resource="daemonsets.apps"), {}, []),
        (job(resource="deployments.apps"), {}, EVICTED),
    ],
    ids=[
        *("of the queue", "of one below", "of another queue", "of no queue that exists", "of no queue"),
        *("of a queue that a user wrote where admission does", "of a queue that it names itself"),
        *("of another namespace", "of an exempt namespace", "finished", "managed by another", "suspended"),
        *("of the same name and another uid", "not its controller", "controller: null", "renamed"),
        *("being deleted", "gone", "a DaemonSet", "a Deployment"),
    ],
)
def test_the_owner_goes_in_place_of_its_pod_where_it_is_there_and_of_the_drain(
    train: Wire | None, reference: Wire, expected: list[str]
) -> None:
    """Users write owner references and annotations; both readers believe the same of them."""
    objects = [train] if train is not None else []
    written = {**owner(train or job()), **reference}
    assert goes(*objects, running(owner=written)) == expected


def test_a_pod_of_another_namespace_that_names_the_same_job_changes_nothing() -> None:
    train = job()
    elsewhere = running("a-copy", namespace="lab", owner=owner(train))
    assert goes(train, running(owner=owner(train)), elsewhere) == [*SUSPENDED, "evict pod lab/a-copy"]


@each_case(
    ("part", "whole", "expected"),
    [
        (job("part", owner=owner(JOBSET)), JOBSET, ["suspend jobset team/whole"]),
        (job("part", owner=owner(JOBSET)), None, ["suspend job team/part"]),
        (job("part", owner=owner(JOBSET), status=COMPLETE), JOBSET, ["suspend jobset team/whole"]),
        (job("part", owner=owner(JOBSET), managedBy="example.com/x"), JOBSET, EVICTED),
        (job("part", owner=owner(JOBSET), in_queue="other"), JOBSET, ["suspend jobset team/whole"]),
        (
            job("part", owner=owner(JOBSET), resource="replicasets.apps"),
            JOBSET,
            ["suspend jobset team/whole"],
        ),
    ],
    ids=["both", "gone", "a finished part", "a part of another", "a part of another queue", "a ReplicaSet"],
)
def test_the_topmost_owner_of_the_drain_goes(part: Wire, whole: Wire | None, expected: list[str]) -> None:
    objects = [each for each in (part, whole) if each is not None]
    assert goes(*objects, running(owner=owner(part))) == expected


@each_case(
    ("made", "names", "expected"),
    [
        (running(queue="below"), ("research",), True),
        (running(queue="other"), ("research",), False),
        (pod("work", annotations={QUEUE: "research"}), ("research",), True),
        (pod("work", annotations={QUEUE: "research"}, labels={QUEUE: "other"}), ("research",), False),
        (pod("work", annotations={QUEUE: "other"}, labels={QUEUE: "research"}), ("research",), True),
        (pod("work", annotations={NAMED: "research"}), ("research",), True),
        (pod("work", namespace="lab"), ("research",), True),
        (pod("work", annotations={GROUP: "ring"}), ("research",), True),
        (pod("work", annotations={GROUP: "ring"}, labels={QUEUE: ""}), ("research",), True),
        (pod("work", annotations={GROUP: "missing"}), ("research",), False),
        (pod("work"), ("research",), False),
        (pod("work", schedulerName="volcano"), ("default",), True),
        (running(namespace="kube-system"), ("research",), False),
        (running(annotations={"kubernetes.io/config.mirror": "x"}), ("research",), False),
    ],
    ids=[
        *("of a queue below", "of another queue", "without the label", "the label of another queue"),
        *("the annotation of another queue", "by its annotation", "by its namespace", "by its PodGroup"),
        *("with an empty label", "of a PodGroup that is missing", "of no queue", "by its scheduler"),
        *("in an exempt namespace", "a mirror pod"),
    ],
)
def test_the_pods_of_the_queues_go_also_those_that_lack_the_label(
    made: Wire, names: tuple[str, ...], expected: bool
) -> None:
    made = {**made, "spec": {**made["spec"], "nodeName": "one"}, "status": {"phase": "Running"}}
    ring = podgroup("ring", queue="research")
    assert (goes(ring, made, names=names) != []) is expected


def test_a_name_too_long_for_a_label_is_found_by_its_label() -> None:
    name = "-".join(["long"] * 20)
    drained = queue(name, stopPolicy="HoldAndDrain")
    made = running(queue=name)
    made["metadata"]["labels"][QUEUE] = label_value(name)
    assert goes(drained, made, names=(name,)) == EVICTED


DB: dict[str, Any] = {"labels": {"app": "db"}}


def budget(**status: int) -> Wire:
    """Over the pods with label `app: db` of namespace `team`; it lets none go now."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "db", "namespace": "team", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0, "desiredHealthy": 1, "observedGeneration": 1, **status},
    }


def drained(name: str, **spec: Any) -> Wire:
    return queue(name, stopPolicy="HoldAndDrain", drain=spec)


KEPT = running("kept", queue="elsewhere", labels={"app": "db", "stays": "yes"})


@each_case(
    ("others", "for_good"),
    [
        ([], True),
        ([running("beside", queue="other", **DB)], False),
        ([pod("beside", labels={"app": "db"})], False),
        ([member("beside", queue="other", **DB)], False),
        ([running("beside", queue="other", namespace="lab", **DB)], True),
        ([running("beside", queue="other")], True),
        ([member("beside", queue="other", status={"phase": "Succeeded"}, **DB)], True),
        ([member("beside", queue="below", **DB)], True),
        ([running("beside", queue="elsewhere", **DB)], True),
        ([member("beside", queue="elsewhere", **DB)], True),
        ([KEPT], False),
        ([running("beside", queue="research", priority=2_000_000_000, **DB)], False),
    ],
    ids=[
        *("nothing else", "of another queue", "of no queue", "that waits, of another queue"),
        *(
            "of another namespace",
            "that it does not select",
            "that has succeeded",
            "that waits for the queue",
        ),
        *(
            "of another drain",
            "that waits for another drain",
            "that another drain keeps",
            "that stays by rule",
        ),
    ],
)
def test_a_budget_blocks_for_good_unless_a_pod_may_be_ready_that_no_drain_takes(
    others: list[Wire], for_good: bool
) -> None:
    elsewhere = drained("elsewhere", keep={"matchLabels": {"stays": "yes"}})
    objects = (elsewhere, budget(), running("db", **DB), *others)
    [preview] = both(*objects)
    headings = [section.heading for section in preview.sections]
    assert ("Is blocked, for good" in headings) is for_good
    assert ("Waits until its budget allows it" in headings) is not for_good


RING: dict[str, Any] = {"annotations": {GROUP: "ring"}}


@each_case(
    ("beside", "is_broken"),
    [
        ([], True),
        ([running("beside", queue="other", **RING)], False),
        ([member("beside", queue="other", status={"phase": "Succeeded"}, **RING)], False),
        ([member("beside", status={"phase": "Succeeded"}, **RING)], False),
        ([member("beside", queue="other", status={"phase": "Failed"}, **RING)], True),
        ([member("beside", queue="other", **RING)], True),
        ([running("beside", queue="other", namespace="lab", **RING)], True),
        ([running("beside", queue="other")], True),
    ],
    ids=[
        *(
            "nothing else",
            "one of another queue",
            "one that has succeeded elsewhere",
            "one that has succeeded",
        ),
        *("one that has failed", "one without a node", "one of another namespace", "one of no gang"),
    ],
)
def test_a_gang_goes_whole_unless_its_minimum_would_stay(beside: list[Wire], is_broken: bool) -> None:
    """The bare pod stays by rule, and one more is needed."""
    research = drained("research", barePods="Keep", brokenGangs="Evict")
    ring = podgroup("ring", queue="research", minMember=2)
    [preview] = both(research, ring, running("bare", **RING), *beside)
    assert ([section.heading for section in preview.sections] == ["Stays"]) is not is_broken


@each_case(
    ("annotations", "replicas", "leaves"),
    [
        ({"sluice.dev/suspended": "research/3"}, 0, True),
        ({"sluice.dev/suspended": "research/3"}, 2, False),
        ({"sluice.dev/suspended": "research"}, 0, False),
        ({}, 0, False),
    ],
)
def test_pods_of_what_a_drain_keeps_at_zero_are_on_their_way(
    annotations: dict[str, str], replicas: int, leaves: bool
) -> None:
    kept = job("web", resource="replicasets.apps", annotations=annotations, replicas=replicas)
    [preview] = both(kept, running(owner=owner(kept)))
    assert ([section.heading for section in preview.sections] == ["Is on its way already"]) is leaves
