"""Whose queue a pod is in, as it is written down on a real pod."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.e2e.calling import Answer, Object
from tests.support.e2e.shapes import (
    COMPLETES,
    GATE,
    GROUPED_BY,
    gates,
    on_a_node,
    pod_body,
    suspended_text,
)
from tests.support.e2e.stage import QUEUES, Stage
from tests.support.e2e.waiting_for import until

MARKER = "sluice.dev/member"
LABELLED_BY = "volcano.sh/queue-name"
NAMESPACE_SAYS = "scheduling.volcano.sh/queue-name"


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def written(pod: Object) -> tuple[str | None, str | None]:
    meta = pod["metadata"]
    return meta.get("annotations", {}).get(GATE), meta.get("labels", {}).get(GATE)


def resources(pod: Object) -> Object:
    held: Object = pod["spec"]["containers"][0]["resources"]
    return held


def would_be(stage: Stage, **more: Any) -> Object:
    """What would become of such a pod; nothing is stored."""
    return stage.api.create(f"{stage.pods_path}?dryRun=All", pod_body("would-be", **more)).must(201).body


def test_a_members_queue_is_written_on_it(stage: Stage, queue: str) -> None:
    """As annotation, which is the answer from then on, and as label, to be listed by."""
    assert written(stage.pod("member", queue).must(201).body) == (queue, queue)


def test_a_member_gets_the_marker(stage: Stage, queue: str) -> None:
    """Requests and limits alike, as the API server wants it of an extended resource; the rest stays."""
    held = resources(stage.pod("member", queue, cpu="1").must(201).body)
    assert held == {"requests": {"cpu": "1", MARKER: "1"}, "limits": {MARKER: "1"}}


def test_a_member_of_an_open_queue_gets_no_gate(stage: Stage, queue: str) -> None:
    """And no warning."""
    made = stage.pod("member", queue).must(201)
    assert (gates(made.body), made.warnings) == ([], ())


def test_a_pod_of_no_queue_is_left_as_it_is(stage: Stage) -> None:
    """Nothing is written on it, and no marker makes it depend on us."""
    body = stage.pod("other", labels={"app": "other"}).must(201).body
    assert (written(body), resources(body), body["metadata"]["labels"]) == (
        (None, None),
        {},
        {"app": "other"},
    )


def test_a_pod_of_another_scheduler_gets_no_marker(stage: Stage, queue: str) -> None:
    """A scheduler that is not told of the marker would never find a node for it."""
    body = stage.pod("foreign", queue, schedulerName="somebody-elses").must(201).body
    assert (written(body), resources(body)) == ((queue, queue), {})


def test_a_pod_that_names_its_queue_by_label_is_a_member(stage: Stage, queue: str) -> None:
    """Volcano's other spelling."""
    body = stage.pod("member", labels={LABELLED_BY: queue}).must(201).body
    assert written(body) == (queue, queue)


def test_a_pod_of_volcanos_scheduler_without_a_queue_is_in_default(stage: Stage) -> None:
    """As in Volcano."""
    body = stage.pod("member", schedulerName="volcano").must(201).body
    assert written(body) == ("default", "default")


def test_a_name_that_no_queue_can_have_is_refused(stage: Stage) -> None:
    """Where it came from and what is allowed."""
    stage.pod("member", "Not/A_Queue").must_refuse('"Not/A_Queue" is not a queue name')


def test_a_pod_before_its_queue_waits_for_it(stage: Stage) -> None:
    """Taken with a warning, gated, told why; bound when the queue appears."""
    queue = stage.named("later")
    made = stage.pod("early", queue).must(201)
    assert (gates(made.body), len(made.warnings)) == ([GATE], 1)
    assert made.warnings[0].startswith(f'queue "{queue}" does not exist')
    stage.reason_on("early", f'queue "{queue}" does not exist; create it with: kubectl queue create {queue}')
    stage.event("early", "QueueNotFound", queue)
    stage.queue("later")
    stage.all_bound(["early"])


def test_a_pod_before_its_queue_is_parked_if_that_comes_suspended(stage: Stage) -> None:
    """It appears, and does not schedule."""
    queue = stage.named("later")
    stage.pod("early", queue).must(201)
    stage.queue("later", state="Suspended")
    stage.reason_on("early", suspended_text(queue))
    assert gates(stage.read_pod("early")) == [GATE]


def test_pods_before_their_podgroup_wait_for_it(stage: Stage, queue: str) -> None:
    """Answered once, when it comes: the queue is written down, the gate is lifted."""
    names = stage.pods("grouped", 2, annotations={GROUPED_BY: "pair"})
    stage.reason_on(names[0], 'PodGroup "pair" does not exist')
    assert [written(pod) for pod in stage.read_pods().values()] == [(None, None)] * 2
    stage.podgroup("pair", queue)
    stage.all_bound(names)
    assert [written(pod) for pod in stage.read_pods().values()] == [(queue, queue)] * 2


def test_a_podgroup_of_a_suspended_queue_keeps_its_pods_parked(stage: Stage, queue: str) -> None:
    """The cause changes from the missing group to the stop; a resume lets them go."""
    stage.suspend(queue)
    names = stage.pods("grouped", 2, annotations={GROUPED_BY: "pair"})
    stage.reason_on(names[0], 'PodGroup "pair" does not exist')
    stage.podgroup("pair", queue)
    stage.reason_on(names[0], suspended_text(queue))
    stage.edit(queue, state="Open")
    stage.all_bound(names)


def test_a_pod_of_a_podgroup_is_in_the_groups_queue(stage: Stage, queue: str) -> None:
    """Whatever else it names."""
    stage.podgroup("pair", queue)
    grouped = {GROUPED_BY: "pair"}
    until(lambda: not gates(would_be(stage, annotations=grouped)), "the PodGroup to be known")
    body = stage.pod("grouped", stage.queue("other"), annotations=grouped).must(201).body
    assert written(body) == (queue, queue)


def test_a_name_longer_than_a_label_is_written_in_full_on_the_annotation(stage: Stage) -> None:
    """The label is cut with a digest, so that the pod is taken."""
    queue = stage.queue("long" * 20)
    answer, label = written(stage.pod("member", queue).must(201).body)
    assert answer == queue
    assert label is not None
    assert len(label) <= 63


def test_a_queue_of_a_long_name_is_closed_only_when_its_pods_are_gone(stage: Stage) -> None:
    """The list that precedes Closed finds them by their cut label."""
    queue = stage.queue("long" * 20)
    stage.all_bound(stage.pods("running", 1, queue))
    stage.edit(queue, state="Closed")
    stage.patch_pod("running-0", {"metadata": {"annotations": {COMPLETES: "0s"}}}).must()
    stage.in_state(queue, "Closed")


def test_all_pods_of_a_namespace_that_names_a_queue_are_members(stage: Stage, queue: str) -> None:
    """The pods themselves say nothing."""
    annotation = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": queue}}}
    stage.api.patch(stage.home, annotation).must()
    until(lambda: written(would_be(stage)) == (queue, queue), "its pods to be members")


def test_the_built_in_queues_are_there(stage: Stage) -> None:
    """`root` above, `default` below, both active."""
    found = [stage.answered(name) for name in ("root", "default")]
    assert [each["status"]["state"] for each in found] == ["Open", "Open"]
    assert stage.api.get(f"{QUEUES}/default").body["spec"]["parent"] == "root"


def test_a_member_is_bound_like_any_other_pod(stage: Stage, queue: str) -> None:
    """The marker is no resource that a node would have to offer."""
    stage.all_bound(stage.pods("member", 3, queue))
    assert all(on_a_node(pod) for pod in stage.read_pods().values())


def test_a_namespace_may_name_another_queue_but_no_name_that_none_can_bear(stage: Stage, queue: str) -> None:
    """The first time and ever after; emptied or taken away it names none."""
    label = "sluice.dev/member-namespace"

    def named(name: str | None) -> Answer:
        return stage.api.patch(stage.home, {"metadata": {"annotations": {NAMESPACE_SAYS: name}}})

    for _ in range(2):
        named("Research").must_refuse("is not a queue name")
        assert named(queue).must().body["metadata"]["labels"][label] == "true"
    for none in ("", None):
        assert label not in named(none).must().body["metadata"]["labels"]
        named(queue).must()
    named(None).must()
