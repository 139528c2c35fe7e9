"""Whatever stored and submitted objects hold, each endpoint answers, and others as if they were not there."""

from __future__ import annotations

from typing import Any

from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from server.app import create_app
from tests.controller.test_hostile_objects import (
    HOSTILE,
    VALUES,
    WAYS,
    add_honest_objects,
    receive_hostile,
    started_harness,
)
from tests.server.test_bad_input import replaced
from tests.support.examples import examples
from tests.support.http.asking import said
from tests.support.http.wire_objects import (
    NAMED,
    Wire,
    binding,
    pod,
    queue,
    resource_of,
    review,
    workload,
)

OPERATIONS = st.sampled_from(["CREATE", "UPDATE", "DELETE"])
#: The endpoint that each kind is reviewed at, and the name of its resource.
REVIEWED = {
    "Pod": ("/mutate/pods", "pods"),
    "PodGroup": ("/mutate/podgroups", "podgroups.scheduling.volcano.sh"),
    "Queue": ("/mutate/queues", "queues.scheduling.volcano.sh"),
    "Namespace": ("/mutate/namespaces", "namespaces"),
    "Command": ("/mutate/commands", "commands.bus.volcano.sh"),
}


def asked(http: FlaskClient, path: str, body: object) -> Wire:
    """An answer that is no failure of ours."""
    reply = http.post(path, json=body)
    assert reply.status_code < 500 or reply.status_code == 503, reply.text
    answer: Wire = reply.get_json()
    return answer


def place_of(obj: Wire) -> tuple[str, str]:
    return REVIEWED.get(obj["kind"]) or ("/mutate/workloads", resource_of(obj))


def others_are_answered(http: FlaskClient) -> None:
    """A new pod of each queue, its bind, the scheduler's question, a workload, an edit of a queue."""
    for name, accepted in (("research", True), ("victim", True), ("closing", False)):
        new = pod("new", annotations={NAMED: name})
        answer = said(asked(http, "/mutate/pods", review(new, name="new")), uid="review-1")
        assert (answer.allowed, f'queue "{name}"' in answer.message) == (accepted, not accepted)
    bind = review(binding("held"), resource="pods", sub_resource="binding", name="held")
    assert not said(asked(http, "/validate/binds", bind), uid="review-1").allowed
    parked = review(binding("gang-0"), resource="pods", sub_resource="binding", name="gang-0")
    assert said(asked(http, "/validate/binds", parked), uid="review-1").allowed
    for name, passed in (("research", ["node-1"]), ("victim", [])):
        body = {"Pod": pod("other", annotations={"sluice.dev/queue": name}), "NodeNames": ["node-1"]}
        assert asked(http, "/extender/filter", body)["NodeNames"] == passed
    made = workload("jobs.batch", "train", annotations={NAMED: "research"})
    answer = said(asked(http, "/mutate/workloads", review(made, resource="jobs.batch")), uid="review-1")
    assert answer.allowed
    before, after = queue("research", generation=2), queue("research", generation=3, stopPolicy="Hold")
    edit = review(after, old=before, operation="UPDATE", name="research", resource=REVIEWED["Queue"][1])
    assert said(asked(http, "/mutate/queues", edit), uid="review-1").allowed


def test_without_hostile_objects_all_are_answered() -> None:
    harness = started_harness()
    add_honest_objects(harness)
    others_are_answered(create_app(harness.store).test_client())


@examples(60)
@given(
    data=st.data(),
    kind=st.sampled_from(sorted(HOSTILE)),
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
)
def test_any_value_at_any_place_is_answered_and_changes_no_other_answer(
    data: st.DataObject, kind: str, operation: str
) -> None:
    """Stored, submitted, and in the scheduler's question."""
    obj: Any = HOSTILE[kind]
    for _ in range(data.draw(st.integers(1, 3))):
        try:
            obj = replaced(obj, data.draw(st.sampled_from(WAYS[kind])), data.draw(VALUES | st.just(...)))
        except (KeyError, IndexError, TypeError):
            continue
    harness = started_harness()
    add_honest_objects(harness)
    receive_hostile(harness, obj, version=2)
    http = create_app(harness.store).test_client()
    path, resource = place_of(HOSTILE[kind])
    asked(http, path, review(obj, old=HOSTILE[kind], operation=operation, name="evil", resource=resource))
    asked(http, path, review(HOSTILE[kind], old=obj, operation=operation, name="evil", resource=resource))
    for call in ("/extender/filter", "/extender/preempt"):
        asked(http, call, {"Pod": obj, "NodeNames": ["node-1"], "NodeNameToMetaVictims": {}})
    asked(http, "/validate/binds", review(obj, resource="pods", sub_resource="binding", name="evil"))
    others_are_answered(http)
