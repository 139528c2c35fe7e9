"""What each queue uses: held against a recount of its pods, whatever came before."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.inflight.victims import SECONDS, GivenVictims
from queues.policies.victims import Victim
from tests.support.cluster.recounting import CORE, QUEUES, histories, pods, read_pod
from tests.support.http.asking import Server
from tests.support.http.wire_objects import member, queue

GPU = {"requests": {"cpu": "500m", "nvidia.com/gpu": "2"}}


def shares_of(server: Server, *names: str) -> list[dict[str, Any]]:
    shares = server.store.queue_shares(asks="")
    return [dict(share.allocated) for name in names if (share := shares.get(name)) is not None]


@given(histories(pods()))
def test_the_shares_are_those_of_a_recount_after_any_history(history: list[tuple[str, Any]]) -> None:
    """`labs` is below `research`, so that counts its pods too."""
    server = Server().has(queue("research"), queue("labs", parent="research"), queue("held"))
    members = server.store.members
    for what, told in history:
        if what == "replace":
            members.replace([read_pod(one) for one in told])
        else:
            getattr(members, what)(read_pod(told))
    used: Counter[str] = Counter()
    for name in QUEUES:
        for one in members.in_queue(name):
            if one.node and one.live and not one.leaving:
                used[name] += sum(int(amount) for _, amount in one.requests)
    used["research"] += used["labs"]
    found = [sum(share.values()) for share in shares_of(server, *QUEUES)]
    assert found == [used[name] for name in QUEUES]


def test_amounts_are_exact_and_of_all_resources() -> None:
    server = Server().has(
        queue("research"),
        member("a", nodeName="n", resources=CORE),
        member("b", nodeName="n", resources=GPU),
        member("waits", resources=GPU),
        member("done", nodeName="n", resources=GPU, status={"phase": "Succeeded"}),
    )
    [allocated] = shares_of(server, "research")
    assert {name: float(amount) for name, amount in allocated.items()} == {"cpu": 1.5, "nvidia.com/gpu": 2}


def test_a_queue_that_does_not_exist_has_no_share() -> None:
    assert Server().store.queue_shares(asks="").get("absent") is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 5), st.integers(0, 2)), max_size=8))
def test_what_was_given_is_at_least_what_any_of_its_nodes_takes(given_: list[tuple[str, int, int]]) -> None:
    """Until the node is known; then it is what that node takes."""
    nodes: dict[str, list[Victim]] = {"n-0": [], "n-1": [], "n-2": []}
    for number, (name, cpu, node) in enumerate(given_):
        nodes[f"n-{node}"].append(Victim(name="v", uid=str(number), queue=name, requests={"cpu": cpu}))
    victims = GivenVictims(clock=lambda: 0.0)
    victims.record("one", nodes)
    for nominated in ("", *nodes):
        node_of = {"one": nominated}
        taken = victims.taken(asks="two", nominated=node_of.get, leaves=lambda _uid: False)
        for name in "ab":
            sums = {
                node: sum(int(each.requests["cpu"]) for each in on_node if each.queue == name)
                for node, on_node in nodes.items()
            }
            expected = sums[nominated] if nominated else max(sums.values())
            assert taken.get(name, {}).get("cpu", 0) == expected


def test_what_was_given_is_dropped_after_a_while_and_when_its_pod_asks_again() -> None:
    now = [0.0]
    victims = GivenVictims(clock=lambda: now[0])
    nodes = {"n": [Victim(name="v", uid="v", queue="a", requests={"cpu": 1})]}

    def taken(asks: str) -> Any:
        return victims.taken(asks=asks, nominated=lambda _uid: "", leaves=lambda _uid: False)

    victims.record("one", nodes)
    assert taken("two") == {"a": {"cpu": 1}}
    now[0] = SECONDS
    assert taken("two") == {}
    victims.record("one", nodes)
    assert taken("one") == {}
    assert taken("two") == {}
