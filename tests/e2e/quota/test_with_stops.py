"""Quotas beside all else that keeps pods from starting: each row of "Stops and quotas" in
docs/concepts/quotas.md that `test_capability` does not have.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.e2e.membership.test_namespace_selectors import label, team
from tests.e2e.stops.test_recreating_parked_pods import REPLICAS, all_gated, let_a_second_pass
from tests.support.drain.draining import drain, drained_reason
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GATE, NAMED_BY, cpu_used, gates, on_a_node, state_of
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT, work_body

QUOTA_GATE = "sluice.dev/quota"


def running(sandbox: Sandbox, prefix: str = "") -> set[str]:
    return {name for name, pod in sandbox.read_pods().items() if name.startswith(prefix) and on_a_node(pod)}


def runs(sandbox: Sandbox, number: int, prefix: str = "") -> set[str]:
    """The pods once so many run."""
    until(lambda: len(running(sandbox, prefix)) == number, f"{number} pods to run")
    return running(sandbox, prefix)


def stay(sandbox: Sandbox, number: int, prefix: str = "") -> None:
    assert settled(lambda: len(running(sandbox, prefix)), "the pods") == number


def delete(sandbox: Sandbox, name: str) -> None:
    sandbox.api.delete(f"{sandbox.pods_path}/{name}").must()


def test_pods_of_a_queue_that_comes_later_go_as_its_capability_has_room(sandbox: Sandbox) -> None:
    """They have the gate of stops alone: nobody knew of a quota."""
    queue = sandbox.named("late")
    names = sandbox.pods("work", 3, queue)
    assert gates(sandbox.read_pod("work-0")) == [GATE]
    assert sandbox.queue("late", capability={"pods": "1"}) == queue
    [first] = runs(sandbox, 1)
    stay(sandbox, 1)
    delete(sandbox, first)
    [second] = runs(sandbox, 1)
    assert {first, second} < set(names)


def test_a_namespace_that_is_not_selected_gets_no_room(sandbox: Sandbox) -> None:
    label(sandbox, on=True)
    queue = sandbox.queue(capability={"pods": "0"}, namespaceSelector=team(sandbox))
    sandbox.pods("work", 2, queue)
    sandbox.reason_on("work-0", "room for this pod")
    label(sandbox, on=False)
    sandbox.reason_on("work-0", "is not for namespace")
    sandbox.edit(queue, capability={"pods": "1"})
    stay(sandbox, 0)
    label(sandbox, on=True)
    runs(sandbox, 1)
    stay(sandbox, 1)


def test_a_namespace_that_comes_to_name_a_queue_beside_creations_is_released_no_more_than_there_is(
    sandbox: Sandbox,
) -> None:
    """Those of its pods that wait at that moment are members from then on. Some are bound: they count."""
    queue = sandbox.queue(capability={"cpu": "2"})
    with ThreadPoolExecutor(1) as pool:
        creations = pool.submit(sandbox.pods, "work", 30, cpu="1")
        until(lambda: len(sandbox.read_pods()) >= 3, "the first to come")
        sandbox.api.patch(sandbox.home, {"metadata": {"annotations": {NAMED_BY: queue}}}).must()
        creations.result()
    until(
        lambda: QUOTA_GATE in gates(sandbox.pod("probe", dry=True, cpu="1").must(201).body), "the namespace"
    )
    sandbox.pods("later", 3, cpu="1")

    def undecided() -> list[str]:
        return [
            name for name, pod in sandbox.read_pods().items() if not on_a_node(pod) and not says_no_room(pod)
        ]

    until(lambda: not undecided(), "each of its pods to run, or to wait for room")
    pods = sandbox.read_pods().values()
    assert sum("sluice.dev/released" in pod["metadata"].get("labels", {}) for pod in pods) <= 2
    sandbox.queue_that(queue, "count them", lambda found: cpu_used(found) >= 2)


def says_no_room(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any("has no room for this pod now" in each.get("message", "") for each in conditions)


def test_a_closing_queue_releases_what_it_had_accepted_and_is_closed_then(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"pods": "1"})
    sandbox.pods("work", 2, queue)
    [first] = runs(sandbox, 1)
    sandbox.edit(queue, state="Closed")
    assert state_of(sandbox.in_state(queue, "Closing")) == "Closing"
    delete(sandbox, first)
    [second] = runs(sandbox, 1)
    assert second != first
    delete(sandbox, second)
    sandbox.in_state(queue, "Closed")


def test_a_drain_gives_quota_back_as_pods_go_and_its_queue_gets_none_before_it_ends(
    sandbox: Sandbox,
) -> None:
    top = sandbox.queue("top", capability={"pods": "2"})
    one, two = (sandbox.queue(name, parent=top) for name in ("one", "two"))
    sandbox.pods("one", 3, one)
    runs(sandbox, 2, "one")
    sandbox.pods("two", 1, two)
    sandbox.reason_on("two-0", "room for this pod")
    assert drained_reason(drain(sandbox, one)) == ("True", "Drained")
    runs(sandbox, 1, "two")
    stay(sandbox, 0, "one")
    sandbox.edit(one, stopPolicy="None")
    runs(sandbox, 1, "one")


def test_pods_that_are_created_again_in_a_stop_go_as_there_is_room(sandbox: Sandbox) -> None:
    """What they were released for is free meanwhile."""
    top = sandbox.queue("top", capability={"pods": "3"})
    queue, other = sandbox.queue(parent=top, parked="Recreate"), sandbox.queue("other", parent=top)
    wanted = f"tests.sluice.dev/{sandbox.namespace}"
    body = work_body(DEPLOYMENT, "work", queue, replicas=REPLICAS)
    body["spec"]["template"]["spec"]["nodeSelector"] = {wanted: "here"}
    sandbox.make(DEPLOYMENT, body).must(201)
    until(lambda: [gates(pod) for pod in sandbox.read_pods().values()] == [[]] * REPLICAS, "their release")
    let_a_second_pass()
    sandbox.suspend(queue)
    [node, *_] = sandbox.api.get("/api/v1/nodes").must().body["items"]
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    sandbox.api.patch(path, {"metadata": {"labels": {wanted: "here"}}}).must()
    after = all_gated(sandbox)
    assert all({GATE, QUOTA_GATE} <= set(gates(pod)) for pod in after.values())
    sandbox.pods("other", 2, other)
    runs(sandbox, 2, "other")
    sandbox.edit(queue, state="Open")
    runs(sandbox, 1, "work")
    stay(sandbox, 1, "work")
    sandbox.api.patch(path, {"metadata": {"labels": {wanted: None}}}).must()


def test_a_queue_that_moves_counts_where_it_comes_and_waits_for_room_there(sandbox: Sandbox) -> None:
    top, queue = sandbox.queue("top", capability={"pods": "2"}), sandbox.queue()
    sandbox.pods("old", 2, queue)
    runs(sandbox, 2)
    answer = sandbox.patch_queue(queue, parent=top).must()
    assert any("the 2 pods that run count" in warning for warning in answer.warnings), answer.warnings
    until(lambda: QUOTA_GATE in gates(sandbox.pod("probe", queue, dry=True).must(201).body), "the move")
    sandbox.pods("new", 2, queue)
    sandbox.reason_on("new-0", f'the capability of its ancestor "{top}" is used')
    delete(sandbox, "old-0")
    runs(sandbox, 1, "new")
    answer = sandbox.patch_queue(queue, parent="root").must()
    assert any("the pod that waits for room goes" in warning for warning in answer.warnings), answer.warnings
    runs(sandbox, 2, "new")
