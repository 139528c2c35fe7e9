"""What edits of quotas say, by what the server counts of the members."""

from __future__ import annotations

from tests.cluster.cache.test_device_claims import claim
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member, namespace, queue
from tests.webhooks.queues.test_queue_edits import create, edit

QUOTA_GATE = "sluice.dev/quota"


def runs(name: str, cpu: str, *, in_queue: str = "lab") -> Wire:
    return member(name, queue=in_queue, nodeName="node-1", resources={"requests": {"cpu": cpu}})


def test_a_lowered_capability_says_what_is_used_and_a_removed_one_who_goes() -> None:
    before = queue("lab", capability={"cpu": "4"})
    server = Server().has(before, queue("team", parent="lab"))
    server.has(runs("a", "1500m"), runs("b", "2", in_queue="team"))
    server.has(*(member(f"w-{number}", queue="lab", gates=[QUOTA_GATE]) for number in range(3)))
    assert edit(server, before, queue("lab", capability={"cpu": "2"})).warnings == [
        'queue "lab" uses cpu 3500m of 2: nothing is evicted for that, and nothing that requests it is '
        "released until enough has ended"
    ]
    assert edit(server, before, queue("lab")).warnings == [
        'no capability limits queue "lab" any more: the 3 pods that wait for room go'
    ]
    assert edit(server, before, queue("lab", capability={"cpu": "4"}, priority=3)).warnings == []


def test_devices_that_pods_share_count_once_in_what_is_said_of_their_capability() -> None:
    before = queue("lab", capability={"deviceclass/gpu": "4"})
    server = Server().has(before, *(queue(name, parent="lab") for name in ("one", "two")))
    server.store.device_claims.classes.replace([])
    server.store.device_claims.claims.replace([claim("shared", 3)])
    claims = [{"name": "gpu", "resourceClaimName": "shared"}]
    server.has(*(member(name, queue=name, nodeName="n", resourceClaims=claims) for name in ("one", "two")))
    warning = edit(server, before, queue("lab", capability={"deviceclass/gpu": "2"})).warnings[0]
    assert warning.startswith('queue "lab" uses deviceclass/gpu 3 of 2: nothing is evicted')


def test_a_move_and_a_new_queue_say_it_too() -> None:
    before = queue("lab")
    server = Server().has(before, queue("top", capability={"cpu": "1"}), runs("a", "2"))
    assert (
        edit(server, before, queue("lab", parent="top"))
        .warnings[0]
        .startswith('queue "top" uses cpu 2 of 1: nothing is evicted')
    )
    assert (
        "Volcano takes it for no limit" in create(server, queue("new", capability={"cpu": "0"})).warnings[0]
    )


def test_a_namespace_that_comes_to_name_a_queue_with_a_quota_is_told_what_counts() -> None:
    server = Server().has(queue("lab", capability={"cpu": "1"}), queue("free"))
    old = namespace("team")

    def told(name: str, before: Wire | None = old) -> list[str]:
        after = namespace("team", queue=name)
        operation = "CREATE" if before is None else "UPDATE"
        return server.ask("/mutate/namespaces", after, old=before, operation=operation).warnings

    assert told("lab") == [
        'queue "lab" has a quota: new pods of this namespace wait for room in it; what runs now counts'
    ]
    assert told("lab", None) == []
    assert told("free") == []


def test_node_groups_that_exclude_each_other_are_warned_of() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeGroupAffinity": {required: ["a"]}, "nodeGroupAntiAffinity": {required: ["a"]}}
    [warning] = create(Server(), queue("lab", affinity=affinity)).warnings
    assert warning.endswith("new pods of this queue run nowhere")
