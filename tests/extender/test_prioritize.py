"""`POST /extender/prioritize`: which nodes a scheduling policy prefers, as kube-scheduler hears it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from cluster.scoring import node_scoring
from cluster.scoring.event_handlers import AssignedPodEventHandler
from cluster.scoring.objects import ScoredPod
from extender.prioritizing import KNOWN_SECONDS, NOT_READ_FOR_SCORES, UNKNOWN_SECONDS
from queues import well_known
from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member, node, pod, podgroup, policies, queue

PACK = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"
SPREAD = (
    "actions: allocate\ntiers: [{plugins: [{name: nodeorder, arguments: "
    "{balancedresource.weight: 0, tainttoleration.weight: 0}}]}]"
)
PLAIN = "actions: allocate\ntiers: [{}]"
NODES = ["n1", "n2", "n3"]
CORE: Wire = {"requests": {"cpu": "1", "memory": "4Gi"}}


def filtered(server: Server, of: Wire, nodes: list[str] = NODES) -> None:
    reply = server.post("/extender/filter", {"Pod": of, "NodeNames": nodes, "Nodes": None})
    assert reply.get_json()["NodeNames"] == nodes, reply.text


def levels(server: Server, of: Wire, nodes: list[str] = NODES) -> list[int]:
    reply = server.post("/extender/prioritize", {"Pod": of, "NodeNames": nodes, "Nodes": None})
    assert reply.status_code == 200, reply.text
    answer = reply.get_json()
    assert [each["Host"] for each in answer] == nodes
    assert all(set(each) == {"Host", "Score"} for each in answer)
    return [each["Score"] for each in answer]


def work(name: str = "work", **more: Any) -> Wire:
    return member(name, **{"resources": CORE, **more})


def new_server() -> Server:
    server = Server().has(
        queue("research", schedulerPolicy="pack"),
        queue("web", schedulerPolicy="spread"),
        queue("below", parent="research"),
        queue("plain"),
        policies(pack=PACK, spread=SPREAD),
    )
    return server.reads_nodes(*(node(name) for name in NODES))


@pytest.fixture
def server() -> Server:
    return new_server()


def busy(server: Server, name: str, cpu: str = "2") -> None:
    """A pod of nobody that uses a part of a node."""
    assert server.scoring is not None
    one = pod(f"busy-{name}", resources={"requests": {"cpu": cpu, "memory": "1Gi"}}, nodeName=name)
    AssignedPodEventHandler(server.scoring.table).upsert(msgspec.convert(one, ScoredPod))


def test_a_packing_queue_prefers_the_fuller_node(server: Server) -> None:
    busy(server, "n2")
    server.has(work())
    filtered(server, work())
    answer = levels(server, work())
    assert answer[1] == 10
    assert max(answer[0], answer[2]) < 10


def test_a_spreading_queue_prefers_the_emptier_ones(server: Server) -> None:
    busy(server, "n2")
    one = work(queue="web")
    server.has(one)
    filtered(server, one)
    assert levels(server, one)[1] < min(levels(server, one)[0], levels(server, one)[2])


def test_pods_that_come_faster_than_they_are_seen_bound_are_packed(server: Server) -> None:
    chosen = []
    for number in range(4):
        one = work(f"work-{number}")
        server.has(one)
        filtered(server, one)
        chosen.append(NODES[levels(server, one).index(10)])
    assert len(set(chosen)) == 1
    fifth = work("fifth")
    server.has(fifth)
    filtered(server, fifth)
    assert NODES[levels(server, fifth).index(10)] != chosen[0]  # four cores are taken


def test_a_pod_that_is_not_known_yet_counts_for_a_short_time(server: Server) -> None:
    filtered(server, work("new"))
    first = levels(server, work("new"))
    assert sorted(first)[-1] == 10 > sorted(first)[-2]
    used = _used(server)
    server.clock.seconds += UNKNOWN_SECONDS + 0.1
    filtered(server, work("other", queue="web"))
    levels(server, work("other", queue="web"))
    assert used == 1000
    assert _used(server) == 1000  # of the other one


def test_a_known_pod_is_assumed_until_it_is_seen(server: Server) -> None:
    assert server.scoring is not None
    server.has(work())
    filtered(server, work())
    answer = levels(server, work())
    placed = {**work(), "spec": {**work()["spec"], "nodeName": NODES[answer.index(9)]}}
    AssignedPodEventHandler(server.scoring.table).upsert(msgspec.convert(placed, ScoredPod))
    assert _used(server) == 1000
    server.clock.seconds += KNOWN_SECONDS + 1
    server.scoring.table.expire(server.clock.seconds)
    assert _used(server) == 1000


def _used(server: Server) -> int:
    assert server.scoring is not None
    view = server.scoring.table.view()
    return int(view.used[view.select(NODES), 0].sum())


def gone(server: Server, one: Wire) -> None:
    server.lacks(one)


def is_leaving(server: Server, one: Wire) -> None:
    server.has(changed(one, deletionTimestamp="2030-01-01T00:00:00Z"))


def has_failed(server: Server, one: Wire) -> None:
    server.has({**changed(one), "status": {"phase": "Failed"}})


def changed(one: Wire, **meta: str) -> Wire:
    return {**one, "metadata": {**one["metadata"], "resourceVersion": "5", **meta}}


@each_case("ends", [gone, is_leaving, has_failed])
@with_new(server=new_server)
def test_a_pod_that_ends_unbound_counts_until_that_is_seen(
    server: Server, ends: Callable[[Server, Wire], None]
) -> None:
    """Its requests were taken from the node for the whole time."""
    server.has(work())
    filtered(server, work())
    levels(server, work())
    assert _used(server) == 1000
    ends(server, work())
    assert _used(server) == 0


def test_a_bound_pod_that_is_deleted_counts_where_it_is(server: Server) -> None:
    """The watch of assigned pods may show it later than that of members."""
    server.has(work())
    filtered(server, work())
    levels(server, work())
    is_leaving(server, work(nodeName="n1"))
    assert _used(server) == 1000


def test_a_pod_that_is_deleted_while_it_is_scored_is_not_assumed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch is another thread's."""
    assert server.scoring is not None
    server.has(work())
    filtered(server, work())
    score = server.scoring.levels

    def deleted_meanwhile(*args: Any, **more: Any) -> Any:
        server.lacks(work())
        return score(*args, **more)

    monkeypatch.setattr(server.scoring, "levels", deleted_meanwhile)
    levels(server, work())
    assert _used(server) == 0


def test_equal_nodes_are_left_to_kube_scheduler_for_a_pod_that_is_not_assumed(server: Server) -> None:
    bound = work(nodeName="n3")
    server.has(work())
    filtered(server, work())
    levels(server, work())
    server.has({**bound, "metadata": {**bound["metadata"], "resourceVersion": "5"}})
    assert levels(server, work()) == [0, 0, 0]  # it is on a node: nothing scores it any more


@each_case(
    "of",
    [
        pod(resources=CORE),
        work(queue="plain"),
    ],
)
@with_new(server=new_server)
def test_pods_without_a_scoring_policy_get_nothing(server: Server, of: Wire) -> None:
    server.has(of)
    filtered(server, of)
    assert levels(server, of) == [0, 0, 0]


def test_a_replica_scores_a_pod_that_another_one_let_through(server: Server) -> None:
    busy(server, "n2")
    server.has(work())
    assert levels(server, work())[1] == 10  # without a filter call here
    assert _used(server) == 3000
    following = work("following")
    assert levels(server, following)[1] == 10  # nor known here yet
    assert _used(server) == 4000
    server.clock.seconds += UNKNOWN_SECONDS + 0.1
    assert levels(server, work("third"))[0] < 10
    assert _used(server) == 4000  # the second is forgotten


def test_a_pod_that_may_not_be_scheduled_is_neither_scored_nor_assumed(server: Server) -> None:
    server.has(
        queue("stopped", schedulerPolicy="pack", state="Suspended"),
        queue("backfills", schedulerPolicy="backfills"),
        policies(pack=PACK, backfills=PACK.replace("allocate", "backfill")),
    )
    for one in (work("a", queue="stopped"), work("b", queue="backfills"), work("c", nodeName="n1")):
        server.has(one)
        assert levels(server, one) == [0, 0, 0]
    assert _used(server) == 0


def test_a_call_for_another_pod_of_that_name_or_uid_is_not_scored(server: Server) -> None:
    server.has(work())
    filtered(server, work("new"))
    assert levels(server, work(uid="another")) == [0, 0, 0]
    assert levels(server, work("new", uid="another")) == [0, 0, 0]
    assert levels(server, work("forged", uid=work()["metadata"]["uid"])) == [0, 0, 0]
    assert levels(server, pod("of-no-queue", resources=CORE)) == [0, 0, 0]
    assert levels(server, pod("c", resources=CORE, annotations={well_known.QUEUE: "research"})) == [0, 0, 0]
    assert _used(server) == 0


def test_an_unknown_pod_with_the_uid_of_another_drops_nothing(server: Server) -> None:
    server.has(work())
    levels(server, work())
    filtered(server, work("forged", uid=work()["metadata"]["uid"]))
    assert _used(server) == 1000


def test_of_pods_that_are_not_known_only_so_many_are_assumed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_scoring, "UNKNOWN_LIMIT", 2)
    for number in range(4):
        assert max(levels(server, work(f"made-up-{number}"))) == 10
    assert _used(server) == 2000
    server.has(work())
    levels(server, work())
    assert _used(server) == 3000  # those that are known count all the same
    server.clock.seconds += UNKNOWN_SECONDS + 0.1
    levels(server, work("made-up-5"))
    assert _used(server) == 2000


def test_forged_requests_of_a_known_pod_are_not_counted(server: Server) -> None:
    server.has(work())
    filtered(server, work())
    levels(server, work(resources={"requests": {"cpu": "4000"}}))
    assert _used(server) == 0


def test_until_nodes_are_read_kube_scheduler_decides(server: Server) -> None:
    server.scoring = None
    server.has(work())
    filtered(server, work())
    assert levels(server, work()) == [0, 0, 0]


@each_case(
    ("of", "packs"),
    [
        (work(queue="below"), True),
        (work(annotations={"volcano.sh/scheduler-policy": "spread"}), False),
        (work(queue="web", annotations={"volcano.sh/scheduler-policy": "pack"}), True),
        (work(queue="web", annotations={"volcano.sh/scheduler-policy": "none"}), False),
        (work(queue="web", annotations={"scheduling.k8s.io/group-name": "gang"}), True),
        (
            work(
                queue="web",
                annotations={
                    "scheduling.k8s.io/group-name": "gang",
                    "volcano.sh/scheduler-policy": "spread",
                },
            ),
            False,
        ),
    ],
)
@with_new(server=new_server)
def test_whose_policy_counts(server: Server, of: Wire, packs: bool) -> None:
    server.has(podgroup("gang", queue="web", annotations={"volcano.sh/scheduler-policy": "pack"}))
    busy(server, "n2")
    server.has(of)
    filtered(server, of)
    assert (levels(server, of)[1] == 10) is packs


def test_a_change_of_the_policies_counts_at_once(server: Server) -> None:
    busy(server, "n2")
    server.has(work())
    filtered(server, work())
    assert levels(server, work())[1] == 10
    server.has(policies(pack=SPREAD))
    assert levels(server, work())[1] < 10
    server.has(policies(pack="actions: ["))
    assert levels(server, work())[1] < 10
    server.has(policies(pack=PLAIN))
    assert levels(server, work()) == [0, 0, 0]


@each_case("nodes", [[], ["unknown"], ["n1", "unknown"], [f"x{number}" for number in range(10_000)]])
@with_new(server=new_server)
def test_nodes_that_nobody_knows(server: Server, nodes: list[str]) -> None:
    server.has(work())
    filtered(server, work(), nodes)
    answer = levels(server, work(), nodes)
    assert len(answer) == len(nodes)
    if nodes == ["n1", "unknown"]:
        assert answer[0] == 10 > answer[1]


@each_case(
    ("body", "reason"),
    [
        ({"Pod": work()}, "NodeNames: missing or null"),
        ({"NodeNames": []}, "Pod"),
        ({"Pod": {}, "NodeNames": []}, "metadata"),
        ({"Pod": work(), "NodeNames": [1]}, "NodeNames"),
        ({"Pod": work(affinity=7), "NodeNames": []}, "affinity"),
    ],
)
@with_new(server=new_server)
def test_what_is_no_call_is_refused(server: Server, body: Wire, reason: str) -> None:
    reply = server.post("/extender/prioritize", body)
    assert reply.status_code == 400
    assert reason in reply.text


def test_a_node_with_odd_amounts_is_read_as_far_as_it_can_be(server: Server) -> None:
    server.reads_nodes(node("n1", cpu="many"), node("n2", cpu="0"), {**node("n3"), "status": {}})
    server.has(work())
    filtered(server, work())
    assert sorted(levels(server, work()))[-1] == 10


def test_a_new_attempt_drops_the_assumption_of_the_former_one(server: Server) -> None:
    server.has(work())
    filtered(server, work())
    levels(server, work())
    assert _used(server) == 1000
    filtered(server, work())
    assert _used(server) == 0


def test_a_pod_whose_queue_was_stopped_since_is_assumed_no_more(server: Server) -> None:
    server.has(work())
    filtered(server, work())
    levels(server, work())
    server.has(queue("research", schedulerPolicy="pack", state="Suspended"))
    reply = server.post("/extender/filter", {"Pod": work(), "NodeNames": NODES, "Nodes": None})
    assert set(reply.get_json()["FailedAndUnresolvableNodes"]) == set(NODES)
    assert _used(server) == 0


def test_a_call_for_another_pod_of_that_name_drops_nothing(server: Server) -> None:
    server.has(work())
    filtered(server, work())
    levels(server, work())
    forged = work(uid="another")
    assert server.post("/extender/filter", {"Pod": forged, "NodeNames": NODES}).get_json()["Error"]
    assert _used(server) == 1000


def test_a_call_for_a_pod_of_no_queue_with_the_uid_of_another_drops_nothing(server: Server) -> None:
    server.has(work())
    filtered(server, work())
    levels(server, work())
    filtered(server, pod("free", uid=work()["metadata"]["uid"], resources=CORE))
    assert _used(server) == 1000


def test_a_pod_with_a_single_node_left_is_assumed_there(server: Server) -> None:
    # kube-scheduler asks for no priorities then
    server.has(work())
    filtered(server, work(), ["n2"])
    assert _used(server) == 1000
    following = work("following")
    server.has(following)
    filtered(server, following)
    assert levels(server, following)[1] == 10


@each_case("of", [pod(resources=CORE), work(queue="plain"), work(affinity=7)])
@with_new(server=new_server)
def test_a_single_node_is_nothing_to_a_pod_that_is_not_scored(server: Server, of: Wire) -> None:
    server.has(of)
    filtered(server, of, ["n2"])
    assert _used(server) == 0


def test_names_of_queues_that_callers_make_up_are_not_kept(server: Server) -> None:
    for number in range(50):
        one = work("made-up", queue=f"made-up-{number}")
        server.post("/extender/filter", {"Pod": one, "NodeNames": NODES, "Nodes": None})
        levels(server, one)
    server.has(work())
    levels(server, work())
    assert list(server.store.policies.resolved_queues) == ["research"]


# Until nodes and pods have been read


SCORED: Wire = {**CORE, "limits": {"sluice.dev/scored": "1"}}


def filter_error(server: Server, of: Wire) -> str:
    reply = server.post("/extender/filter", {"Pod": of, "NodeNames": NODES, "Nodes": None})
    error: str = reply.get_json()["Error"]
    return error


@each_case("is_known", [True, False])
@with_new(server=new_server)
def test_a_pod_that_is_to_be_scored_waits_until_nodes_and_pods_have_been_read(
    server: Server, is_known: bool
) -> None:
    waiting = work(resources=SCORED)
    if is_known:
        server.has(waiting)
    server.is_reading_for_scores = True
    assert filter_error(server, waiting) == NOT_READ_FOR_SCORES
    server.is_reading_for_scores = False
    filtered(server, waiting)


def test_one_of_our_own_scheduler_waits_without_a_marker(server: Server) -> None:
    """That calls prioritize for each of its pods."""
    server.is_reading_for_scores = True
    assert filter_error(server, work(schedulerName="sluice")) == NOT_READ_FOR_SCORES


@each_case("of", [work(queue="plain", resources=SCORED), work(), pod(resources=SCORED)])
@with_new(server=new_server)
def test_others_do_not_wait_for_that(server: Server, of: Wire) -> None:
    """One whose policy scores nothing, those that prioritize is not called for, and one of no queue."""
    server.is_reading_for_scores = True
    filtered(server.has(of), of)


@each_case("is_known", [True, False])
@with_new(server=new_server)
def test_a_pod_of_a_stopped_queue_is_refused_as_ever_while_they_are_read(
    server: Server, is_known: bool
) -> None:
    waiting = work(resources=SCORED)
    server.has(queue("research", schedulerPolicy="pack", state="Suspended", version=2))
    if is_known:
        server.has(waiting)
    server.is_reading_for_scores = True
    assert filter_error(server, waiting) == ""
