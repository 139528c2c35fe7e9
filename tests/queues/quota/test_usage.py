"""What queues use, and what lacks room."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from msgspec.structs import replace

from queues.apimachinery.pod_requests import Requests
from queues.policies.policy_set import GLOBAL_KEY
from queues.policies.policy_texts import read_policies
from queues.queue import Amounts, Queue
from queues.quota.lack import Lack, LackKind
from queues.quota.rules import Rules
from queues.quota.usage import Usage, quota_requests
from queues.snapshot import QueueSnapshot
from queues.tree import Tree
from tests.support.cases import each_case

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def cpu(amount: int | Fraction) -> Requests:
    return quota_requests((("cpu", amount),))


def tree(*queues: Queue) -> Tree:
    return Tree({queue.name: queue for queue in queues})


def capped(name: str, parent: str = "root", **capability: int) -> Queue:
    amounts: Amounts | None = tuple(sorted(capability.items())) or None
    return Queue(name=name, parent=parent, capability=amounts)


def test_what_a_queue_uses_counts_for_those_above_it() -> None:
    usage = Usage(tree(capped("lab"), capped("team", "lab")))
    usage.add("team", cpu(2))
    usage.add("lab", cpu(1))
    assert usage.used("team") == {"cpu": 2, "pods": 1}
    assert usage.used("lab") == usage.used("root") == {"cpu": 3, "pods": 2}
    assert usage.used("other") == {}


def test_what_has_ended_is_taken_off_and_has_room_again() -> None:
    usage = Usage(tree(capped("lab", cpu=2), capped("team", "lab")))
    usage.add("team", cpu(2))
    assert usage.lack("lab", cpu(1)) == Lack("lab", "cpu", 1)
    usage.add("team", [("cpu", -1), ("pods", -1)])
    assert usage.lack("lab", cpu(1)) is None
    assert usage.used("lab") == {"cpu": 1, "pods": 0}


@pytest.mark.parametrize(("used", "asked", "missing"), [(1, 1, 0), (2, 1, 1), (0, 3, 1), (2, 0, 0)])
def test_a_capability_is_a_bound_for_all_below_it(used: int, asked: int, missing: int) -> None:
    usage = Usage(tree(capped("lab", cpu=2), capped("team", "lab"), capped("other", "lab")))
    usage.add("other", cpu(used))
    never = asked > 2
    expected = Lack("lab", "cpu", missing, never=never) if missing else None
    assert usage.lack("team", cpu(asked)) == expected


def test_parts_of_a_resource_are_exact() -> None:
    usage = Usage(tree(capped("lab", cpu=1)))
    for _ in range(10):
        assert usage.lack("lab", cpu(Fraction(1, 10))) is None
        usage.add("lab", cpu(Fraction(1, 10)))
    assert usage.lack("lab", cpu(Fraction(1, 10**9))) == Lack("lab", "cpu", Fraction(1, 10**9))


def test_zero_is_zero_and_what_is_not_named_has_no_bound() -> None:
    usage = Usage(tree(capped("lab", gpu=0)))
    assert usage.lack("lab", cpu(10**6)) is None
    assert usage.lack("lab", quota_requests((("gpu", 1),))) == Lack("lab", "gpu", 1, never=True)


def test_a_pod_of_whose_claims_nothing_is_known_has_no_room_where_devices_of_a_class_are_limited() -> None:
    """The number of its claims is known, and can be limited."""
    devices, claims = "deviceclass/gpu.example.com", "count/resourceclaims.resource.k8s.io"
    limits: dict[str, Any] = {devices: 4}
    queues = tree(capped("lab", cpu=1, **limits), capped("team", "lab"))
    usage = Usage(queues)
    asking = quota_requests(((claims, 2), ("cpu", 1)))
    assert usage.lack("lab", asking) == Lack("lab", devices, kind=LackKind.CLAIMS_UNREAD)
    assert usage.lack("team", asking) == Lack("lab", devices, kind=LackKind.CLAIMS_UNREAD)
    assert usage.lack("team", quota_requests(((claims, 2), ("cpu", 2)))) == Lack("lab", "cpu", 1, never=True)
    assert usage.lack("team", cpu(1)) is None
    limits = {claims: 2}
    usage = Usage(tree(capped("team", **limits)))
    usage.add("team", quota_requests(((claims, 1),)))
    assert usage.lack("team", quota_requests(((claims, 2),))) == Lack("team", claims, 1)


def test_pods_are_counted() -> None:
    usage = Usage(tree(capped("lab", pods=1)))
    assert usage.lack("lab", quota_requests(())) is None
    usage.add("lab", quota_requests(()))
    assert usage.lack("lab", quota_requests(())) == Lack("lab", "pods", 1)
    assert quota_requests((("pods", 7),)) == (("pods", 1),), "a pod is one, whatever it requests"


def test_the_nearest_queue_is_named_unless_another_could_never_hold_the_pod() -> None:
    queues = tree(capped("lab", cpu=2), capped("team", "lab", cpu=3))
    usage = Usage(queues)
    usage.add("team", cpu(2))
    assert usage.lack("team", cpu(2)) == Lack("team", "cpu", 1)
    assert usage.lack("team", cpu(3)) == Lack("lab", "cpu", 1, never=True)


@pytest.mark.parametrize("name", ["missing", "orphan", "loop"])
def test_a_queue_whose_limits_are_not_known_has_no_room(name: str) -> None:
    queues = tree(capped("orphan", "gone"), capped("loop", "pool"), capped("pool", "loop"))
    usage = Usage(queues)
    usage.add(name, cpu(1))
    assert usage.lack(name, cpu(1)) == Lack(name, kind=LackKind.NO_QUEUE)


def test_a_queue_has_a_quota_by_any_capability_on_its_chain() -> None:
    snapshot = QueueSnapshot(tree(capped("lab", cpu=1), capped("team", "lab"), capped("free")), now=NOW)
    names = ("lab", "team", "free", "root", "missing")
    assert [name for name in names if snapshot.decision(name).has_quota] == ["lab", "team"]


def test_by_overcommit_so_many_times_the_whole_is_let_go_and_one_at_least() -> None:
    """A node of 4 cpu and pods of 1: a fifth is over 4.8. An autoscaler has to see one that finds no node."""
    rules = Rules(overcommit={"team": Fraction(6, 5)}, nodes={"cpu": 4, "gpu": 0})
    usage = Usage(tree(capped("team"), capped("other")), rules=rules)
    usage.add("other", cpu(2))
    usage.add("team", cpu(2))
    assert usage.lack("team", cpu(1)) is None, "all others have a node"
    usage.unplaced = 1
    assert usage.lack("team", cpu(1)) == Lack("root", "cpu", Fraction(1, 5), kind=LackKind.OVERCOMMIT)
    assert usage.lack("team", cpu(Fraction(4, 5))) is None
    assert usage.lack("team", quota_requests((("gpu", 1), ("tpu", 1)))) is None, "nobody has any of it"
    assert usage.lack("other", cpu(9)) is None, "its policy does not ask"


def test_until_it_is_known_what_there_is_they_go_one_by_one() -> None:
    usage = Usage(tree(capped("team")), rules=Rules(overcommit={"team": Fraction(2)}))
    assert usage.lack("team", cpu(1)) is None
    usage.unplaced = 1
    assert usage.lack("team", cpu(1)) == Lack("root", "cpu", 1, kind=LackKind.OVERCOMMIT)
    limited = Usage(tree(capped("root", "", cpu=4), capped("team")), rules=usage.rules)
    limited.unplaced = 1
    assert limited.lack("team", cpu(4)) is None, "the capability of root is the whole"


def test_a_queue_has_a_quota_by_overcommit_of_its_policy() -> None:
    """Or of any queue above that names one, or of the global policy: no policy of its own takes it out."""
    over = "actions: enqueue, allocate\ntiers: [{plugins: [{name: overcommit}]}]"
    queues = tree(
        Queue(name="lab", scheduler_policy="over"),
        Queue(name="team", parent="lab"),
        Queue(name="free", parent="lab", scheduler_policy="plain"),
        Queue(name="other"),
    )
    names = ("lab", "team", "free", "other", "missing")

    def with_quota(**texts: str) -> list[str]:
        snapshot = QueueSnapshot(queues, now=NOW, policies=read_policies(texts))
        assert snapshot.has_quotas is any(snapshot.decision(name).has_quota for name in names)
        return [name for name in names if snapshot.decision(name).has_quota]

    assert with_quota(over=over, plain="actions: allocate\ntiers: [{}]") == ["lab", "team", "free"]
    assert with_quota(plain="actions: allocate\ntiers: [{}]", **{GLOBAL_KEY: over}) == [
        "lab",
        "team",
        "free",
        "other",
    ]
    assert with_quota(over=over) == ["lab", "team", "free"]
    assert with_quota(**{GLOBAL_KEY: over}) == ["lab", "team", "free", "other"]
    assert with_quota() == []


@each_case(
    ("own", "above", "common", "factor"),
    [
        (None, None, None, None),
        (3, None, None, 3),
        (3, 2, None, 2),
        (2, 3, 4, 2),
        (None, None, 2, 2),
        (9, None, 2, 2),
    ],
)
def test_the_strictest_overcommit_holds(
    own: int | None, above: int | None, common: int | None, factor: int | None
) -> None:
    """Of the queue, of those above it, and of all: what each uses counts in what all use."""

    def policy(most: int | None) -> str:
        plugin = f"{{name: overcommit, arguments: {{overcommit-factor: {most}}}}}" if most else ""
        return f"actions: enqueue, allocate\ntiers: [{{plugins: [{plugin}]}}]"

    lab, team = Queue(name="lab", scheduler_policy="above"), Queue(name="team", parent="lab")
    queues = tree(lab, replace(team, scheduler_policy="own"))
    texts = {"own": policy(own), "above": policy(above), GLOBAL_KEY: policy(common)}
    snapshot = QueueSnapshot(queues, now=NOW, policies=read_policies(texts))
    assert snapshot.overcommit("team") == factor
