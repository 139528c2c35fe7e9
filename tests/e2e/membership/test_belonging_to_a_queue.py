"""Whose queue a pod is in, as it is written down on a real pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.e2e.api_requests import Answer, Object
from tests.support.e2e.kubernetes_version import RETRIES_FOR_NODES, needs
from tests.support.e2e.modes import make_room, wait_for_room
from tests.support.e2e.objects import (
    COMPLETES,
    GATE,
    GROUPED_BY,
    gates,
    on_a_node,
    pod_body,
    suspended_text,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

MARKER = "sluice.dev/member"
LABELLED_BY = "volcano.sh/queue-name"
NAMESPACE_SAYS = "scheduling.volcano.sh/queue-name"


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def written(pod: Object) -> tuple[str | None, str | None]:
    meta = pod["metadata"]
    return meta.get("annotations", {}).get(GATE), meta.get("labels", {}).get(GATE)


def resources(pod: Object) -> Object:
    held: Object = pod["spec"]["containers"][0]["resources"]
    return held


def would_be(sandbox: Sandbox, **more: Any) -> Object:
    """What would become of such a pod; nothing is stored."""
    return sandbox.api.create(f"{sandbox.pods_path}?dryRun=All", pod_body("would-be", **more)).must(201).body


def test_a_members_queue_is_written_on_it(sandbox: Sandbox, queue: str) -> None:
    """As annotation, which is the answer from then on, and as label, to be listed by."""
    assert written(sandbox.pod("member", queue).must(201).body) == (queue, queue)


def test_a_member_gets_the_marker(sandbox: Sandbox, queue: str) -> None:
    """Requests and limits alike, as the API server wants it of an extended resource; the rest stays."""
    held = resources(sandbox.pod("member", queue, cpu="1").must(201).body)
    assert held == {"requests": {"cpu": "1", MARKER: "1"}, "limits": {MARKER: "1"}}


@needs(held=RETRIES_FOR_NODES, reason="kube-scheduler retries a member for a node within five minutes only")
def test_a_member_that_fits_no_node_is_bound_once_a_node_is_changed(sandbox: Sandbox, queue: str) -> None:
    """Though it requests the marker, which no node has."""
    late = wait_for_room(sandbox, "late", 1, queue)
    make_room(sandbox)
    sandbox.all_bound(late)


def test_a_member_of_an_open_queue_gets_no_gate(sandbox: Sandbox, queue: str) -> None:
    """And no warning."""
    made = sandbox.pod("member", queue).must(201)
    assert (gates(made.body), made.warnings) == ([], ())


def test_a_pod_of_no_queue_is_left_as_it_is(sandbox: Sandbox) -> None:
    """Nothing is written on it, and no marker makes it depend on us."""
    body = sandbox.pod("other", labels={"app": "other"}).must(201).body
    assert (written(body), resources(body), body["metadata"]["labels"]) == (
        (None, None),
        {},
        {"app": "other"},
    )


def test_a_pod_of_another_scheduler_gets_no_marker(sandbox: Sandbox, queue: str) -> None:
    """A scheduler that is not told of the marker would never find a node for it."""
    body = sandbox.pod("foreign", queue, schedulerName="somebody-elses").must(201).body
    assert (written(body), resources(body)) == ((queue, queue), {})


def test_a_pod_that_names_its_queue_by_label_is_a_member(sandbox: Sandbox, queue: str) -> None:
    """Volcano's other spelling."""
    body = sandbox.pod("member", labels={LABELLED_BY: queue}).must(201).body
    assert written(body) == (queue, queue)


def test_a_pod_of_volcanos_scheduler_without_a_queue_is_in_default(sandbox: Sandbox) -> None:
    """As in Volcano."""
    body = sandbox.pod("member", schedulerName="volcano").must(201).body
    assert written(body) == ("default", "default")


def test_a_name_that_no_queue_can_have_is_refused(sandbox: Sandbox) -> None:
    """Where it came from and what is allowed."""
    sandbox.pod("member", "Not/A_Queue").must_refuse('"Not/A_Queue" is not a queue name')


def test_a_pod_before_its_queue_waits_for_it(sandbox: Sandbox) -> None:
    """Taken with a warning, gated, told why; bound when the queue appears."""
    queue = sandbox.named("later")
    made = sandbox.pod("early", queue).must(201)
    assert (gates(made.body), len(made.warnings)) == ([GATE], 1)
    assert made.warnings[0].startswith(f'queue "{queue}" does not exist')
    sandbox.reason_on(
        "early",
        f'queue "{queue}" does not exist; name another queue, or have an admin of queues create it',
    )
    sandbox.event("early", "QueueNotFound", queue)
    sandbox.queue("later")
    sandbox.all_bound(["early"])


def test_a_pod_before_its_queue_is_parked_if_that_comes_suspended(sandbox: Sandbox) -> None:
    """It appears, and does not schedule."""
    queue = sandbox.named("later")
    sandbox.pod("early", queue).must(201)
    sandbox.queue("later", state="Suspended")
    sandbox.reason_on("early", suspended_text(queue))
    assert gates(sandbox.read_pod("early")) == [GATE]


def test_pods_before_their_podgroup_wait_for_it(sandbox: Sandbox, queue: str) -> None:
    """Answered once, when it comes: the queue is written down, the gate is lifted."""
    names = sandbox.pods("grouped", 2, annotations={GROUPED_BY: "pair"})
    sandbox.reason_on(names[0], 'PodGroup "pair" does not exist')
    assert [written(pod) for pod in sandbox.read_pods().values()] == [(None, "")] * 2, "an empty label"
    sandbox.podgroup("pair", queue)
    sandbox.all_bound(names)
    assert [written(pod) for pod in sandbox.read_pods().values()] == [(queue, queue)] * 2


def test_a_podgroup_of_a_suspended_queue_keeps_its_pods_parked(sandbox: Sandbox, queue: str) -> None:
    """The cause changes from the missing group to the stop; a resume lets them go."""
    sandbox.suspend(queue)
    names = sandbox.pods("grouped", 2, annotations={GROUPED_BY: "pair"})
    sandbox.reason_on(names[0], 'PodGroup "pair" does not exist')
    sandbox.podgroup("pair", queue)
    sandbox.reason_on(names[0], suspended_text(queue))
    sandbox.edit(queue, state="Open")
    sandbox.all_bound(names)


def test_a_pod_of_a_podgroup_is_in_the_groups_queue(sandbox: Sandbox, queue: str) -> None:
    """Whatever else it names."""
    sandbox.podgroup("pair", queue)
    grouped = {GROUPED_BY: "pair"}
    until(lambda: not gates(would_be(sandbox, annotations=grouped)), "the PodGroup to be known")
    body = sandbox.pod("grouped", sandbox.queue("other"), annotations=grouped).must(201).body
    assert written(body) == (queue, queue)


def test_a_name_longer_than_a_label_is_written_in_full_on_the_annotation(sandbox: Sandbox) -> None:
    """The label is cut with a digest, so that the pod is taken."""
    queue = sandbox.queue("long" * 20)
    answer, label = written(sandbox.pod("member", queue).must(201).body)
    assert answer == queue
    assert label is not None
    assert len(label) <= 63


def test_a_queue_of_a_long_name_is_closed_only_when_its_pods_are_gone(sandbox: Sandbox) -> None:
    """The list that precedes Closed finds them by their cut label."""
    queue = sandbox.queue("long" * 20)
    sandbox.all_bound(sandbox.pods("running", 1, queue))
    sandbox.edit(queue, state="Closed")
    sandbox.patch_pod("running-0", {"metadata": {"annotations": {COMPLETES: "0s"}}}).must()
    sandbox.in_state(queue, "Closed")


def test_all_pods_of_a_namespace_that_names_a_queue_are_members(sandbox: Sandbox, queue: str) -> None:
    """The pods themselves say nothing."""
    annotation = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": queue}}}
    sandbox.api.patch(sandbox.home, annotation).must()

    def is_member() -> bool:
        """Until both webhooks and the server know the annotation, such a pod may be refused."""
        answer = sandbox.pod("would-be", dry=True)
        return answer.status == 201 and written(answer.body) == (queue, queue)

    until(is_member, "its pods to be members")


def test_the_built_in_queues_are_there(sandbox: Sandbox) -> None:
    """`root` above, `default` below, both active."""
    found = [sandbox.answered(name) for name in ("root", "default")]
    assert [each["status"]["state"] for each in found] == ["Open", "Open"]
    assert sandbox.api.get(f"{QUEUES}/default").body["spec"]["parent"] == "root"


def test_a_member_is_bound_like_any_other_pod(sandbox: Sandbox, queue: str) -> None:
    """The marker is no resource that a node would have to offer."""
    sandbox.all_bound(sandbox.pods("member", 3, queue))
    assert all(on_a_node(pod) for pod in sandbox.read_pods().values())


def test_a_namespace_may_name_another_queue_but_no_name_that_none_can_bear(
    sandbox: Sandbox, queue: str
) -> None:
    """The first time and ever after; emptied or taken away it names none."""
    label = "sluice.dev/member-namespace"

    def named(name: str | None) -> Answer:
        return sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {NAMESPACE_SAYS: name}}})

    for _ in range(2):
        named("Research").must_refuse("is not a queue name")
        assert named(queue).must().body["metadata"]["labels"][label] == "true"
    for none in ("", None):
        assert label not in named(none).must().body["metadata"]["labels"]
        named(queue).must()
    named(None).must()
