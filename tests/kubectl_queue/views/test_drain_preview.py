"""What --dry-run says of a drain, and which bare pods are asked about."""

from __future__ import annotations

from typing import Any

import pytest

from kubectl_queue.commands.drain import preview_lines
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.inventory import read_budgets
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.views.drain_preview import (
    may_evict_more_bare_pods,
    newly_evicted_bare_pods,
    previews,
)
from tests.support.cases import each_case
from tests.support.drain.drain_stage import (
    Stored,
    budget,
    owner,
    pod,
    stored,
    work,
)
from tests.support.plugin.harness import item, snapshot

REPLICAS, DAEMONS, TRAIN = owner("ReplicaSet", "web"), owner("DaemonSet", "agent"), owner("Job", "train")
VOLCANO = owner("Job", "sim", api_version="batch.volcano.sh/v1alpha1")


def drained(name: str = "b", *, parent: str = "root", **drain: Any) -> Object:
    return item(name, parent=parent, stopPolicy="HoldAndDrain", drain=drain)


def said(found: Stored, *queues: Object) -> list[str]:
    """What is printed of the drain of `b`, without indents."""
    read = snapshot(*(queues or (drained(),)))
    told = previews(found.read(read), read, names=["b"])
    return [line.strip() for each in told for line in preview_lines(each)]


def section(told: list[str], heading: str) -> list[str]:
    """The lines below a heading, up to the next one."""
    after = told[told.index(f"{heading}:") + 1 :]
    end = next((place for place, line in enumerate(after) if line.endswith(":")), len(after))
    return [" ".join(line.split()) for line in after[:end]]


def test_the_pods_that_go_are_listed_in_the_order_of_the_rules() -> None:
    """Lowest priority first, then the youngest; a Job whole, suspended; who has no controller is marked."""
    pods = [
        pod("web", owned_by=REPLICAS, priority=9),
        pod("old", owned_by=REPLICAS, minute=1),
        pod("young", minute=5),
        pod("train-0", owned_by=TRAIN, minute=3),
        pod("train-1", owned_by=TRAIN, minute=2),
    ]
    told = said(stored(pods, jobs=[work("train")]))
    assert told[0] == 'queue "b": 5 pods to go, 0 to stay'
    assert section(told, "Goes, in this order") == [
        "evict pod lab/young priority 0 bare: nothing makes it again",
        "suspend job lab/train priority 0 2 pods",
        "evict pod lab/old priority 0",
        "evict pod lab/web priority 9",
    ]


def test_the_pods_that_stay_are_listed_with_their_rule() -> None:
    pods = [
        pod("agent", owned_by=DAEMONS),
        pod("critical", owned_by=REPLICAS, priority=2_000_001_000),
        pod("db", owned_by=REPLICAS, app="db"),
        pod("shell"),
    ]
    told = said(stored(pods), drained(barePods="Keep", keep={"matchLabels": {"app": "db"}}))
    assert told[0] == 'queue "b": 0 pods to go, 4 to stay'
    assert [line.split()[-1] for line in section(told, "Stays")] == [
        "DaemonSet",
        "SystemCritical",
        "KeepSelector",
        "BarePod",
    ]


def test_a_budget_that_blocks_for_good_is_listed_apart_from_one_that_allows_it_later() -> None:
    """By budget, each text once, with the pods that it is about."""
    pods = [pod(f"db-{number}", owned_by=REPLICAS, app="db", minute=number) for number in range(3)]
    pods += [pod(f"web-{number}", owned_by=REPLICAS, app="web", minute=number) for number in range(2)]
    blocking = budget("db", "db", allowed=1, desired=2)
    told = said(stored(pods, budgeted=[blocking, budget("web", "web", allowed=1, desired=0, healthy=2)]))
    assert section(told, "Goes, in this order") == [
        "evict pod lab/db-2 priority 0",
        "evict pod lab/web-1 priority 0",
    ]
    waiting, *those = section(told, "Waits until its budget allows it")
    assert waiting.startswith("PodDisruptionBudget lab/web, 1 pod: ")
    assert those == ["pod lab/web-0"]
    blocked, *those = section(told, "Is blocked, for good")
    assert blocked.startswith("PodDisruptionBudget lab/db, 2 pods: keeps 2 pods for good")
    assert blocked.endswith("set spec.drain.deadline with afterDeadline Scale or Delete")
    assert those == ["pod lab/db-1", "pod lab/db-0"]


OUTSIDE = [
    pod("elsewhere", queue="other", owned_by=REPLICAS, app="db"),
    pod("no-queue", queue="", owned_by=REPLICAS, app="db"),
    pod("pending", queue="other", owned_by=REPLICAS, app="db", nodeName=""),
    pod("kept", owned_by=DAEMONS, app="db"),
]
NOT_OUTSIDE = [
    pod("gated", owned_by=REPLICAS, app="db", nodeName=""),
    pod("of-another", queue="other", owned_by=REPLICAS, app="web"),
    pod(
        "leaving",
        queue="other",
        app="db",
        metadata={"deletionTimestamp": "2030-01-01T12:00:00Z", "labels": {"app": "db"}},
    ),
]


@each_case(
    ("other", "for_good"),
    [*((each, False) for each in OUTSIDE), *((each, True) for each in NOT_OUTSIDE)],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else "",
)
def test_pods_that_may_be_ready_without_the_drain_let_a_budget_s_others_go(
    other: Object, *, for_good: bool
) -> None:
    """What waits for the queue itself never will be."""
    pods = [pod("db", owned_by=REPLICAS, app="db"), other]
    told = said(stored(pods, budgeted=[budget("db", "db", allowed=0, desired=1)]))
    assert ("Is blocked, for good:" in told) is for_good
    assert ("Waits until its budget allows it:" in told) is not for_good


def test_a_jobset_goes_whole_and_its_jobs_are_its_own() -> None:
    train = work("train", owned_by=owner("JobSet", "set"))
    told = said(stored([pod("train-0", owned_by=TRAIN)], jobs=[train], jobsets=[work("set")]))
    assert section(told, "Goes, in this order") == ["suspend jobset lab/set priority 0 1 pod"]


def test_a_cycle_of_owners_ends() -> None:
    """Nobody makes such, and nothing hangs."""
    other = owner("Job", "other")
    jobs = [work("train", owned_by=other), work("other", owned_by=TRAIN)]
    assert "suspend" in " ".join(said(stored([pod("train-0", owned_by=TRAIN)], jobs=jobs)))


@pytest.mark.parametrize(
    ("forbidden", "goes"),
    [("jobs", "suspend job lab/train priority 0 1 pod"), ("none", "evict pod lab/train-0 priority 0")],
)
def test_a_job_that_may_not_be_read_is_known_from_its_pods(forbidden: str, goes: str) -> None:
    """One that may be read and is not there is gone."""
    told = said(stored([pod("train-0", owned_by=TRAIN)], forbidden=[forbidden]))
    assert section(told, "Goes, in this order") == [goes]


@pytest.mark.parametrize(("phase", "how"), [("Running", "suspend job lab/sim"), ("", "evict pod lab/sim-0")])
def test_a_volcano_job_is_suspended_only_where_its_controller_runs(phase: str, how: str) -> None:
    """Elsewhere nobody would carry that out, and its pods are evicted."""
    told = said(stored([pod("sim-0", owned_by=VOLCANO)], volcano_jobs=[work("sim", phase=phase)]))
    assert section(told, "Goes, in this order")[0].startswith(how)


def test_terminating_pods_are_listed_and_not_evicted_again() -> None:
    """A pod that is being deleted, and those of a Job that is suspended."""
    leaving = {"deletionTimestamp": "2030-01-01T12:00:00Z"}
    pods = [pod("going", metadata=leaving), pod("train-0", owned_by=TRAIN)]
    told = said(stored(pods, jobs=[work("train", suspend=True)]))
    assert section(told, "Is on its way already") == ["pod lab/going", "pod lab/train-0"]
    assert "Goes, in this order:" not in told


def test_a_gang_is_one_line() -> None:
    pods = [pod(f"rank-{number}", gang="ring") for number in range(3)]
    told = section(said(stored(pods)), "Goes, in this order")
    assert told == ["evict podgroup lab/ring priority 0 3 pods"]


@pytest.mark.parametrize(("setting", "goes"), [("Evict", True), ("Keep", False)])
def test_what_is_left_of_a_gang_goes_with_it_if_the_drain_says_so(setting: str, *, goes: bool) -> None:
    """The line says why; a bare pod that would stay is asked about."""
    ring = {"metadata": {"name": "ring", "namespace": "lab", "uid": "uid-ring"}, "spec": {"minMember": 3}}
    pods = [pod(f"rank-{number}", gang="ring", owned_by=REPLICAS if number else None) for number in range(3)]
    found = stored(pods, podgroups=[ring])
    queues = [drained(barePods="Keep", brokenGangs=setting)]
    told = said(found, *queues)
    because = "with podgroup lab/ring, of which less than its minimum of 3 pods would stay"
    whole = f"evict podgroup lab/ring priority 0 3 pods {because} (drain.brokenGangs: Evict)"
    expected = whole if goes else "evict podgroup lab/ring priority 0 2 pods"
    assert section(told, "Goes, in this order") == [expected]
    before, after = snapshot(item("b")), snapshot(*queues)
    assert may_evict_more_bare_pods(before=before, after=after) is goes
    bare = newly_evicted_bare_pods(found.read(after), before=before, after=after)
    assert [each.name for each in bare] == (["rank-0"] if goes else [])


def test_pods_of_a_gang_in_a_queue_that_is_not_drained_count_as_staying() -> None:
    ring = {"metadata": {"name": "ring", "namespace": "lab", "uid": "uid-ring"}, "spec": {"minMember": 2}}
    pods = [pod("bare", gang="ring"), pod("goes", gang="ring", owned_by=REPLICAS)]
    pods.append(pod("beside", gang="ring", owned_by=REPLICAS, queue="other"))
    told = said(stored(pods, podgroups=[ring]), drained(barePods="Keep", brokenGangs="Evict"))
    assert section(told, "Stays") == ["pod lab/bare by rule BarePod"]


def test_pods_of_other_queues_and_unscheduled_pods_are_left_out() -> None:
    pods = [pod("other", queue="other"), pod("gated", nodeName=""), pod("free", queue="")]
    assert said(stored(pods)) == ['queue "b": 0 pods to go, 0 to stay']


def test_queues_below_are_drained_too_by_the_settings_of_the_topmost() -> None:
    queues = [drained(), item("c", parent="b"), drained("d", parent="b", barePods="Keep")]
    told = said(stored([pod("one", queue="c"), pod("two", queue="d")]), *queues)
    assert [line for line in told if line.startswith("queue")] == [
        'queue "b" and c, d below it: 2 pods to go, 0 to stay',
    ]


@pytest.mark.parametrize(
    ("after", "then"),
    [
        ("Keep", "from 2030-01-01T14:00:00Z on nothing is evicted any more: what is left stays"),
        (
            "Scale",
            "at 2030-01-01T14:00:00Z what is left is brought to zero replicas, or deleted where nothing "
            "scales it, whatever its budgets say",
        ),
        ("Delete", "at 2030-01-01T14:00:00Z what is left is deleted, whatever its budgets say"),
    ],
)
def test_the_preview_says_what_happens_at_the_deadline(after: str, then: str) -> None:
    queue = drained(deadline="2030-01-01T14:00:00Z", afterDeadline=after)
    assert section(said(stored([pod("one")]), queue), "Then") == [then]


def test_past_a_deadline_that_scales_the_topmost_owner_is_scaled_if_nobody_controls_it() -> None:
    web, rollout = owner("Deployment", "site"), {**owner("Job", "rollout"), "apiVersion": "argoproj.io/v1"}
    scaled = {
        "deployments": [work("site")],
        "replicasets": [work("web", owned_by=web), work("canary", owned_by=rollout)],
    }
    pods = [
        pod("a", owned_by=REPLICAS),
        pod("b", owned_by=REPLICAS),
        pod("c", owned_by=owner("ReplicaSet", "canary")),
    ]
    queue = drained(deadline="2030-01-01T11:00:00Z", afterDeadline="Scale")
    assert section(said(stored(pods, scaled=scaled), queue), "Goes, in this order") == [
        "scale deployment lab/site priority 0 2 pods",
        "delete pod lab/c priority 0",
    ]
    early = drained(deadline="2030-01-01T14:00:00Z", afterDeadline="Scale")
    assert "scale" not in " ".join(section(said(stored(pods, scaled=scaled), early), "Goes, in this order"))


def test_with_unreadable_settings_no_pod_goes_and_the_preview_says_why() -> None:
    told = said(stored([pod("one")]), drained(keep={"matchLabels": 7}))
    assert section(told, "Is blocked, for good")[0].startswith("spec.drain, 1 pod: spec.drain")


def test_a_budget_that_cannot_be_read_is_left_to_the_eviction_api() -> None:
    broken = {"metadata": {"name": "x", "namespace": "lab"}, "spec": {"selector": {"matchExpressions": [{}]}}}
    assert list(read_budgets([broken, {"metadata": 7}])) == []


BARE, OWNED = pod("shell"), pod("web", owned_by=REPLICAS)
OPEN = snapshot(item("b"))


def asked(after: QueueObjects, *, before: QueueObjects = OPEN) -> list[str]:
    read = stored([BARE, OWNED]).read(after)
    found = [each.name for each in newly_evicted_bare_pods(read, before=before, after=after)]
    assert not found or may_evict_more_bare_pods(before=before, after=after)
    return found


def test_bare_pods_that_would_go_are_asked_about() -> None:
    assert asked(snapshot(drained())) == ["shell"]


@pytest.mark.parametrize("parent", ["root", "a"])
def test_bare_pods_that_are_drained_already_are_not_asked_about(parent: str) -> None:
    """By its own policy or an ancestor's."""
    above = item("a", stopPolicy="HoldAndDrain" if parent == "a" else "None")
    before = drained(rate=3) if parent == "root" else item("b", parent="a")
    after = drained(parent=parent, rate=5)
    assert asked(snapshot(above, after), before=snapshot(above, before)) == []


def test_an_edit_that_no_longer_keeps_bare_pods_is_asked_about() -> None:
    before = snapshot(drained(barePods="Keep"))
    assert asked(snapshot(drained(barePods="Evict")), before=before) == ["shell"]


@pytest.mark.parametrize(
    "queue", [drained(barePods="Keep"), item("b", stopPolicy="Hold"), drained(keep={"matchLabels": 7})]
)
def test_no_pods_are_read_where_no_bare_pod_can_go(queue: Object) -> None:
    assert not may_evict_more_bare_pods(before=OPEN, after=snapshot(queue))


YEARS = 1_000_000_000


def test_pods_that_may_take_long_to_end_are_named() -> None:
    """A few of many; not where the drain says how long they are given."""
    pods = [pod(f"slow-{number:02}", terminationGracePeriodSeconds=YEARS) for number in range(12)]
    told = said(stored([*pods, pod("quick", terminationGracePeriodSeconds=30)]))
    slow = section(told, "May take long to end")
    assert slow[0].startswith(
        f"pod lab/slow-00: has {YEARS} s to end, and counts as in flight for 300 s; cut it"
    )
    assert (len(slow), slow[-1]) == (11, "and 2 more")
    assert "May take long to end:" not in said(stored(pods), drained(gracePeriodSeconds=30))


def test_what_delays_terminating_pods_is_named() -> None:
    """As the controller names it: the grace period that it was given, or its finalizers."""
    gone = {"deletionTimestamp": "2030-01-01T11:00:00Z", "deletionGracePeriodSeconds": 30}
    # Deleted an hour before now, with years to end.
    slow = {"deletionTimestamp": "2061-09-09T12:46:40Z", "deletionGracePeriodSeconds": YEARS}
    fresh = {"deletionTimestamp": "2030-01-01T12:00:20Z", "deletionGracePeriodSeconds": 30}
    finalizers = ["example.com/wait"]
    pods = [
        pod("held", metadata=deleted("held", **gone, finalizers=finalizers)),
        pod("slow", metadata=deleted("slow", **slow)),
        pod("fresh", metadata=deleted("fresh", **fresh)),
    ]
    told = section(said(stored(pods)), "Is on its way already")
    assert told[0] == "pod lab/fresh"
    assert told[1] == "pod lab/held: it waits for its finalizers to be removed: example.com/wait"
    assert told[2].startswith("pod lab/slow: it has until 2061-09-09T12:46:40Z to end")


def deleted(name: str, **more: Any) -> Object:
    """The metadata of a pod of `b`."""
    annotations = {"sluice.dev/queue": "b"}
    labels, place = {"sluice.dev/queue": "b"}, {"namespace": "lab", "uid": f"uid-{name}"}
    return {"name": name, **place, "labels": labels, "annotations": annotations, **more}


def test_the_pods_of_a_job_of_another_controller_are_evicted() -> None:
    """They are evicted; what its own controller acts on is suspended."""
    pods = [pod("train-0", owned_by=TRAIN)]
    foreign = said(stored(pods, jobs=[work("train", managedBy="example.com/nobody")]))
    assert section(foreign, "Goes, in this order") == ["evict pod lab/train-0 priority 0"]
    own = said(stored(pods, jobs=[work("train", managedBy="kubernetes.io/job-controller")]))
    assert section(own, "Goes, in this order") == ["suspend job lab/train priority 0 1 pod"]


def test_who_may_not_list_queues_is_told_that_those_below_are_not_counted() -> None:
    read = QueueObjects([drained()], now=snapshot().now, complete=False)
    [preview] = previews(stored([pod("web", owned_by=REPLICAS)]).read(read), read, names=["b"])
    assert preview.summary == (
        'queue "b": at least 1 pod to go, 0 to stay; queues below it could not be read'
    )
