"""What all nodes have together."""

from __future__ import annotations

from cluster.cache.node_totals import NodeCapacity, NodeTotals, SizedNode
from cluster.objects import Metadata


def node(name: str, **allocatable: str) -> SizedNode:
    return SizedNode(Metadata(name=name), NodeCapacity(dict(allocatable)))


def test_it_is_the_sum_of_what_nodes_have_and_changes_are_told_once() -> None:
    told: list[object] = []
    totals = NodeTotals(lambda: told.append(totals.amounts))
    totals.follow(needed=True)
    assert totals.amounts is None
    totals.replace(
        [node("a", cpu="2", memory="1Gi"), node("b", cpu="500m", gpu="wrong"), node("c", cpu="-1")]
    )
    assert totals.amounts == {"cpu": 2.5, "memory": 2**30, "gpu": 0}
    totals.upsert(node("a", cpu="2", memory="1Gi"))
    totals.remove(node("unknown"))
    assert len(told) == 1
    totals.upsert(node("b", cpu="1"))
    totals.remove(node("c"))
    assert totals.amounts == {"cpu": 3, "memory": 2**30}
    assert told[-1] == totals.amounts


def test_nothing_is_kept_while_no_policy_asks() -> None:
    totals = NodeTotals(lambda: None)
    totals.replace([node("a", cpu="2")])
    assert totals.amounts is None
    totals.follow(needed=True)
    totals.replace([node("a", cpu="2")])
    totals.follow(needed=True)
    assert totals.amounts == {"cpu": 2}
    totals.follow(needed=False)
    assert totals.amounts is None


def test_an_event_of_a_watch_that_was_ended_is_not_all_there_is() -> None:
    told: list[object] = []
    totals = NodeTotals(lambda: told.append(totals.amounts))
    totals.follow(needed=True)
    totals.replace([node("a", cpu="2"), node("b", cpu="4")])
    totals.follow(needed=False)
    totals.follow(needed=True)
    totals.upsert(node("a", cpu="3"))
    totals.remove(node("a"))
    totals.upsert(node("a", cpu="3"))
    assert totals.amounts is None
    totals.replace([node("a", cpu="3"), node("b", cpu="4")])
    assert told == [{"cpu": 6}, {"cpu": 7}]


def test_the_names_of_what_nodes_have_are_known_while_a_queue_has_a_quota() -> None:
    """Nobody is told of amounts then."""
    told: list[object] = []
    totals = NodeTotals(lambda: told.append(totals.amounts))
    totals.follow_names(needed=True)
    assert totals.names is None
    totals.replace([node("a", cpu="2"), node("b", **{"nvidia.com/gpu": "4"})])
    assert totals.names == {"cpu", "nvidia.com/gpu"}
    assert (totals.amounts, told) == (None, [])
    totals.remove(node("b"))
    assert totals.names == {"cpu"}
    totals.follow_names(needed=False)
    assert totals.names is None


def test_one_watch_is_for_names_and_amounts() -> None:
    """What was listed for the one is there for the other, and stays as long as one is needed."""
    needs: list[bool] = []
    totals = NodeTotals(lambda: None)
    totals.on_need(needs.append)
    totals.follow_names(needed=True)
    totals.replace([node("a", cpu="2")])
    totals.follow(needed=True)
    assert totals.amounts == {"cpu": 2}
    totals.follow_names(needed=False)
    assert (totals.amounts, totals.names) == ({"cpu": 2}, {"cpu"})
    totals.follow_names(needed=True)
    totals.follow(needed=False)
    kept: tuple[object, ...] = totals.amounts, totals.names
    assert kept == (None, {"cpu"})
    totals.follow_names(needed=False)
    assert needs == [True, False]


def test_a_name_is_there_as_long_as_one_node_has_it() -> None:
    totals = NodeTotals(lambda: None)
    totals.follow_names(needed=True)
    totals.replace([node("a", slot="1"), node("b", slot="2", cpu="1")])
    totals.upsert(node("a", cpu="2"))
    assert totals.names == {"slot", "cpu"}
    totals.upsert(node("b", cpu="1"))
    assert totals.names == {"cpu"}
    totals.upsert(node("c", disk="wrong"))
    assert totals.names == {"cpu", "disk"}
    totals.remove(node("c"))
    totals.remove(node("c"))
    assert totals.names == {"cpu"}
