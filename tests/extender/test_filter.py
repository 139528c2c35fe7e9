"""`POST /extender/filter`: which nodes a pod may go to, as kube-scheduler hears it."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.inflight import binds as passes_module
from cluster.inflight.binds import BindPasses
from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    Wire,
    member,
    namespace,
    pod,
    podgroup,
    queue,
)

NODES = ["node-b", "node-a", "node-c"]
PASSED: dict[str, Any] = {
    "Nodes": None,
    "NodeNames": NODES,
    "FailedNodes": {},
    "FailedAndUnresolvableNodes": {},
    "Error": "",
}


def ask(server: Server, of: Wire, nodes: list[str] = NODES) -> dict[str, Any]:
    reply = server.post("/extender/filter", {"Pod": of, "NodeNames": nodes, "Nodes": None})
    assert reply.status_code == 200, reply.text
    assert reply.content_type == "application/json"
    return dict(reply.get_json())


def failed(text: str, nodes: list[str] = NODES) -> dict[str, Any]:
    return {**PASSED, "NodeNames": [], "FailedAndUnresolvableNodes": dict.fromkeys(nodes, text)}


def new_server() -> Server:
    return Server().has(
        queue("research"),
        queue("closing", state="Closed"),
        queue("stopped", state="Suspended", reason="the\ndisks are full"),
        queue("held", stopPolicy="Hold"),
        queue("drained", stopPolicy="HoldAndDrain"),
        queue("below", parent="stopped"),
        queue("lost", parent="nobody"),
    )


@pytest.fixture
def server() -> Server:
    return new_server()


# The table of the module


def test_a_pod_of_no_queue_gets_every_name_it_came_with_and_leaves_no_pass(server: Server) -> None:
    assert ask(server, pod()) == PASSED
    assert len(server.store.bind_passes) == 0


@each_case("name", ["research", "closing"])
@with_new(server=new_server)
def test_a_pod_of_a_queue_that_schedules_gets_every_name_and_a_pass(server: Server, name: str) -> None:
    assert ask(server, member(queue=name)) == PASSED
    [one] = server.store.bind_passes.open_passes_of({name})
    assert (one.namespace, one.name, one.bind) == ("team", "work", False)


@each_case(
    ("name", "text"),
    [
        (
            "stopped",
            'queue "stopped" is Suspended (the disks are full); an admin of queues can resume it',
        ),
        (
            "held",
            'queue "held" is stopped by stopPolicy Hold; an admin of queues can resume it',
        ),
        (
            "drained",
            'queue "drained" is stopped by stopPolicy HoldAndDrain; an admin of queues can resume it',
        ),
        (
            "below",
            'queue "below" is Suspended by its ancestor "stopped" (the disks are full); '
            'an admin of queues can resume "stopped"',
        ),
        (
            "lost",
            'queue "lost" is Unknown: parent "nobody" of queue "lost" does not exist; '
            "an admin of queues can mend it",
        ),
        ("absent", 'queue "absent" does not exist; name another queue, or have an admin of queues create it'),
    ],
)
@with_new(server=new_server)
def test_a_pod_of_a_queue_that_does_not_schedule_fails_on_every_node(
    server: Server, name: str, text: str
) -> None:
    assert ask(server, member(queue=name)) == failed(text)
    assert len(server.store.bind_passes) == 0


def test_a_pod_whose_podgroup_is_not_there_fails_on_every_node(server: Server) -> None:
    text = 'PodGroup "gang" does not exist; create it with: kubectl create -f PODGROUP'
    assert ask(server, pod(annotations={GROUP: "gang"})) == failed(text)
    assert len(server.store.bind_passes) == 0


def test_a_pod_follows_its_podgroup_once_that_exists(server: Server) -> None:
    server.has(podgroup("gang", queue="held"))
    assert ask(server, pod(annotations={GROUP: "gang"}))["NodeNames"] == []
    server.has(podgroup("gang", queue="research", version=2))
    assert ask(server, pod(annotations={GROUP: "gang"})) == PASSED


def test_the_queue_that_admission_wrote_wins_over_the_users_names(server: Server) -> None:
    assert ask(server, member(queue="research", annotations={NAMED: "held"})) == PASSED


def test_the_namespaces_annotation_counts(server: Server) -> None:
    server.has(namespace("team", queue="held"))
    assert ask(server, pod())["NodeNames"] == []


def test_before_the_cluster_has_been_read_the_answer_is_an_explicit_error(server: Server) -> None:
    server.readiness.synced = False
    for of in (pod(), member(queue="research"), member(queue="held")):
        answer = ask(server, of)
        assert answer["Error"] == "sluice has not read the cluster yet; it answers as soon as it has"
        assert answer["NodeNames"] == []
        assert answer["FailedAndUnresolvableNodes"] == {}
    assert len(server.store.bind_passes) == 0


# The wire


def test_the_text_is_the_same_bytes_at_every_attempt(server: Server) -> None:
    first = server.post("/extender/filter", {"Pod": member(queue="stopped"), "NodeNames": NODES}).data
    server.has(member(queue="stopped", version=7))
    server.clock.seconds += 100
    again = server.post("/extender/filter", {"Pod": member(queue="stopped"), "NodeNames": NODES}).data
    assert first == again


def test_names_are_echoed_in_their_order_twins_included(server: Server) -> None:
    names = ["z", "a", "z", "m.example.com", ""]
    assert ask(server, member(queue="research"), names)["NodeNames"] == names


def test_no_name_is_lost_or_added_among_5000(server: Server) -> None:
    names = [f"node-{number}.{'x' * 200}" for number in range(5000)]
    assert ask(server, member(queue="research"), names)["NodeNames"] == names
    rejected = ask(server, member("other", queue="held"), names)["FailedAndUnresolvableNodes"]
    assert list(rejected) == names
    assert len(set(rejected.values())) == 1


def test_no_names_in_give_no_names_out(server: Server) -> None:
    assert ask(server, member(queue="research"), []) == {**PASSED, "NodeNames": []}
    assert ask(server, member("other", queue="held"), []) == {**PASSED, "NodeNames": []}


def test_names_beyond_ascii_are_echoed_unchanged(server: Server) -> None:
    names = ["nœud-1", "ノード", "n\u0000\u2028"]
    assert ask(server, member(queue="research"), names)["NodeNames"] == names


def test_the_error_for_a_scheduler_without_node_cache_names_the_setting(server: Server) -> None:
    reply = server.post("/extender/filter", {"Pod": member(), "Nodes": {"items": []}, "NodeNames": None})
    assert reply.status_code == 400
    assert "nodeCacheCapable: true" in reply.get_json()["message"]


# Passes


@pytest.mark.parametrize("known", [True, False], ids=["known", "stranger"])
def test_the_pass_is_recorded_before_the_snapshot_is_read(
    server: Server, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """A stop that is published in between finds the pass, or the answer has the stop: never neither."""
    server.has(*([member(queue="research")] if known else []))
    record = "record_filter_pass" if known else "record_unknown_filter_pass"
    recorded = getattr(BindPasses, record)

    def then_the_queue_is_stopped(passes: BindPasses, **of: Any) -> Any:
        answer = recorded(passes, **of)
        assert passes.open_passes_of({"research"})
        server.has(queue("research", version=2, generation=2, state="Suspended"))
        return answer

    monkeypatch.setattr(BindPasses, record, then_the_queue_is_stopped)
    assert ask(server, member(queue="research"))["NodeNames"] == []


def test_a_refusal_closes_the_pass_of_the_attempt_before(server: Server) -> None:
    ask(server, member(queue="research"))
    server.has(queue("research", version=2, generation=2, state="Suspended"))
    assert len(server.store.bind_passes.open_passes_of({"research"})) == 1
    ask(server, member(queue="research"))
    assert server.store.bind_passes.open_passes_of({"research"}) == []


def test_the_pass_is_closed_when_the_pod_is_bound_or_gone(server: Server) -> None:
    for name in ("bound", "gone", "waiting"):
        server.has(member(name, queue="research"))
        ask(server, member(name, queue="research"))
    server.has(member("bound", queue="research", version=2, nodeName="node-a"))
    server.lacks(member("gone", queue="research", version=2))
    server.has(member("waiting", queue="research", version=2))
    assert [one.name for one in server.store.bind_passes.open_passes_of({"research"})] == ["waiting"]


def test_a_resume_lets_the_next_attempt_through(server: Server) -> None:
    assert ask(server, member(queue="stopped"))["NodeNames"] == []
    server.has(queue("stopped", version=2, generation=2))
    assert ask(server, member(queue="stopped")) == PASSED
    assert ask(server, member("other", queue="below")) == PASSED


def test_no_more_nodes_are_answered_than_a_cluster_can_have(server: Server) -> None:
    """The text is repeated for each: a call of 8 MiB could ask for hundreds."""
    names = [f"{number:05x}" for number in range(500_000)]
    body = {"Pod": member(queue="stopped"), "NodeNames": names}
    reply = server.post("/extender/filter", body)
    assert (reply.status_code, "NodeNames: 500000 are more" in reply.text) == (400, True)
    assert ask(server, member(queue="stopped"), names[:65_000])["NodeNames"] == []


# Namespaces that the queue does not select


def test_a_pod_of_a_namespace_that_is_not_selected_gets_no_node_and_leaves_no_pass() -> None:
    """With one constant text, whatever else stops the queue; and every node once the label is there."""
    team = {"matchLabels": {"team": "a"}}
    server = Server().has(
        queue("vision", namespaceSelector=team), queue("below", parent="vision", state="Suspended")
    )
    text = (
        'queue "vision" is not for namespace "team": the namespaceSelector of the queue asks for team=a; '
        "use another queue, or have an admin of queues change that"
    )
    above = text.replace("of the queue", 'of its ancestor "vision"').replace(
        'queue "vision" is not', 'queue "below" is not'
    )
    for _ in range(2):
        assert ask(server, member(queue="vision")) == failed(text)
        assert ask(server, member(queue="below")) == failed(above)
    assert len(server.store.bind_passes) == 0
    server.has(namespace("team", labels={"team": "a"}, version=2))
    assert ask(server, member(queue="vision")) == PASSED
    assert "is Suspended" in str(ask(server, member("other", queue="below")))


# Callers who say what is not so


ANOTHER = "sluice knows another pod by this name; try again once its watch has caught up"


def passes_of(server: Server) -> list[tuple[str, str, str]]:
    return sorted((each.name, each.queue, each.uid) for each in server.store.bind_passes.open_passes())


@each_case("told", ["research", "stopped"])
@each_case("uid", ["uid-of-another", ""])
@with_new(server=new_server)
def test_a_call_that_does_not_name_the_uid_of_a_known_pod_changes_nothing(
    server: Server, told: str, uid: str
) -> None:
    """It is not let through, and the pass that the pod has stays, of its queue."""
    server.has(member(queue="research"))
    assert ask(server, member(queue="research")) == PASSED
    answer = ask(server, member(queue=told, uid=uid))
    assert (answer["Error"], answer["NodeNames"]) == (ANOTHER, [])
    assert passes_of(server) == [("work", "research", "uid-work")]


def test_of_a_known_pod_its_own_queue_counts(server: Server) -> None:
    """Whatever the call says: it is refused for the queue that it is in, and its pass is of that queue."""
    server.has(member(queue="research"), member("other", queue="held"))
    assert ask(server, member(queue="held")) == PASSED
    assert passes_of(server) == [("work", "research", "uid-work")]
    assert 'queue "held" is stopped' in str(ask(server, member("other", queue="research")))
    assert passes_of(server) == [("work", "research", "uid-work")]


@each_case(
    ("queue_told", "uid"),
    [("research", "uid-of-another"), ("stopped", "uid-of-another"), ("stopped", "uid-work"), ("closing", "")],
)
@with_new(server=new_server)
def test_the_pass_of_a_pod_that_is_not_known_yet_is_for_that_pod_alone(
    server: Server, queue_told: str, uid: str
) -> None:
    """A second call by its name, of another queue or UID, neither moves the pass nor has it forgotten."""
    assert ask(server, member(queue="research")) == PASSED
    assert ask(server, member(queue=queue_told, uid=uid))["Error"] == ANOTHER
    assert passes_of(server) == [("work", "research", "uid-work")]
    assert ask(server, member(queue="research")) == PASSED


def test_what_a_call_said_of_a_pod_does_not_count_once_the_pod_is_known(server: Server) -> None:
    """Nobody keeps a pod waiting by naming it first."""
    assert ask(server, member(queue="closing", uid="uid-of-another")) == PASSED
    server.has(member(queue="research"))
    assert ask(server, member(queue="research")) == PASSED
    assert passes_of(server) == [("work", "research", "uid-work")]


def test_only_a_limited_number_of_unknown_pods_has_a_pass(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each known pod may have one all the same; so may those of no queue, who need none."""
    monkeypatch.setattr(passes_module, "MAX_UNKNOWN_PODS", 2)
    for number in range(2):
        assert ask(server, member(f"nobody-{number}", queue="research")) == PASSED
    answer = ask(server, member("one-more", queue="research"))
    assert (answer["Error"], answer["NodeNames"]) == (TOO_MANY, [])
    assert ask(server, pod("of-none")) == PASSED
    server.has(member(queue="research"))
    assert ask(server, member(queue="research")) == PASSED


TOO_MANY = "too many pods that sluice does not know yet are being scheduled; try again"


@each_case("revision", ["now", "before"])
@with_new(server=new_server)
def test_a_text_that_the_status_has_for_these_specs_is_the_text(server: Server, revision: str) -> None:
    """Replicas of two versions say the same of one stop; what is said of former specs is no text of now."""
    decision = server.store.snapshot.decision("stopped")
    stop = {
        "revision": decision.revision if revision == "now" else "former",
        "refusal": "as an older one says",
    }
    server.has(
        queue("stopped", version=2, state="Suspended", reason="the\ndisks are full", status={"stop": stop})
    )
    text = "as an older one says" if revision == "now" else decision.text
    assert ask(server, member(queue="stopped")) == failed(text)


NO_ROOM = (
    'queue "limited" has no room for this pod now: a capability, its own or of an ancestor, is used; '
    "it goes when others end, or an admin of queues raises it"
)


@each_case("is_known", [True, False])
@with_new(server=new_server)
def test_a_pod_without_a_gate_waits_until_its_quota_has_released_it(server: Server, is_known: bool) -> None:
    """It pends since before there was a quota. kube-scheduler may see the release before we do."""
    waits = member(queue="limited", uid="a")
    released = member(queue="limited", uid="a", labels={"sluice.dev/released": "a"}, version=2)
    server.has(queue("limited", capability={"cpu": "2"}), *([waits] if is_known else []))
    assert ask(server, waits) == failed(NO_ROOM)
    assert list(server.store.bind_passes.open_passes()) == []
    assert ask(server, released) == PASSED
    assert ask(server.has(released), released) == PASSED
    assert ask(server.has(queue("limited", version=2, generation=2)), waits) == PASSED


def test_a_pod_whose_gate_we_still_see_passes_only_if_its_scheduler_says_that_it_was_released(
    server: Server,
) -> None:
    """Its gate of stops may have gone before there was a quota."""
    server.has(queue("limited", capability={"cpu": "2"}))
    server.has(member(queue="limited", uid="a", gates=["sluice.dev/queue"]))
    assert ask(server, member(queue="limited", uid="a", version=2)) == failed(NO_ROOM)
