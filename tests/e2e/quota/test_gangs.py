"""Gangs on a control plane: a PodGroup's minimum starts whole or not at all, and says why it waits."""

from __future__ import annotations

from tests.support.drain.draining import CLASSES, priorities
from tests.support.e2e.objects import GROUPED_BY, gates, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.plugin.harness import plugin_in_process

QUOTA_GATE = "sluice.dev/quota"


def gang(sandbox: Sandbox, name: str, number: int, *, first: int = 0) -> list[str]:
    """So many pods of a PodGroup, of 1 cpu each."""
    names = [f"{name}-{at}" for at in range(first, first + number)]
    for each in names:
        sandbox.pod(each, annotations={GROUPED_BY: name}, cpu="1").must(201)
    return names


def running(sandbox: Sandbox, names: list[str]) -> list[str]:
    return [name for name in names if on_a_node(sandbox.read_pod(name))]


def test_a_gang_starts_whole_and_what_is_beyond_its_minimum_one_by_one(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "3"})
    sandbox.podgroup("gang", queue, minMember=4)
    names = gang(sandbox, "gang", 3)
    text = (
        f'queue "{queue}" does not release this pod yet: fewer than 4 pods of its PodGroup exist; '
        "its pods start together"
    )
    for name in names:
        assert gates(sandbox.reason_on(name, text)) == [QUOTA_GATE]
    answer = sandbox.api.patch(f"{sandbox.podgroups_path}/gang?dryRun=All", {"spec": {"minMember": 513}})
    assert "never start: 513 pods are to start together, and 512 can at most" in answer.must().warnings[0]
    names += gang(sandbox, "gang", 1, first=3)
    sandbox.reason_on("gang-3", f'queue "{queue}" never has room for this pod: with its PodGroup:')
    assert settled(lambda: running(sandbox, names), "the pods") == []
    sandbox.edit(queue, capability={"cpu": "4"})
    until(lambda: len(running(sandbox, names)) == 4, "all of them to run")
    more = gang(sandbox, "gang", 2, first=4)
    sandbox.reason_on(more[0], f'queue "{queue}" has no room for this pod now: its capability is used')
    sandbox.edit(queue, capability={"cpu": "5"})
    until(lambda: len(running(sandbox, more)) == 1, "one more to run")
    assert settled(lambda: len(running(sandbox, more)), "the pods") == 1


def test_one_that_comes_after_its_pods_and_one_of_a_queue_that_is_resumed_go_whole(sandbox: Sandbox) -> None:
    queue = sandbox.queue(capability={"cpu": "5"})
    names = gang(sandbox, "late", 3)
    sandbox.reason_on(names[0], 'PodGroup "late" does not exist')
    sandbox.podgroup("late", queue, minMember=3)
    until(lambda: len(running(sandbox, names)) == 3, "all of the first to run")
    sandbox.suspend(queue)
    sandbox.podgroup("held", queue, minMember=2)
    held = gang(sandbox, "held", 2)
    assert settled(lambda: running(sandbox, held), "the pods") == []
    sandbox.edit(queue, state="Open")
    until(lambda: len(running(sandbox, held)) == 2, "both of the second to run")
    sandbox.api.delete(f"{sandbox.pods_path}/{held[0]}").must(200)
    gang(sandbox, "held", 1, first=2)
    until(lambda: running(sandbox, ["held-2"]), "the one that completes it again")


def test_a_gang_stands_in_line_with_the_value_of_its_priority_class(sandbox: Sandbox) -> None:
    """Its pods have a lower priority than the pod that waits since before."""
    queue = sandbox.queue(capability={"cpu": "2"})
    classes = priorities(sandbox, middle=1000, high=2000)
    sandbox.pod("first", queue, cpu="2").must(201)
    until(lambda: running(sandbox, ["first"]), "the first to run")
    sandbox.pod("other", queue, cpu="1", priorityClassName=classes["middle"]).must(201)
    sandbox.reason_on("other", f'queue "{queue}" has no room for this pod now')
    lists = r'sluice_reflector_lists_total{kind="priority-classes"}'
    before = sandbox.counted(lists)
    sandbox.podgroup("gang", queue, minMember=2, priorityClassName=classes["high"])
    until(lambda: sandbox.counted(lists) > before, "the classes to be read")
    names = gang(sandbox, "gang", 2)
    sandbox.reason_on(names[0], f'queue "{queue}" has no room for this pod now')
    told = plugin_in_process(
        "why", "pod/other", "-n", sandbox.namespace, kubeconfig=sandbox.cluster.client_kubeconfig
    )
    assert f"; before it: PodGroup {sandbox.namespace}/gang\n" in told.stdout
    sandbox.api.delete(f"{sandbox.pods_path}/first").must(200)
    until(lambda: running(sandbox, names) == names, "all of the gang to run")
    assert running(sandbox, ["other"]) == []


def warned(sandbox: Sandbox, queue: str, named: str) -> bool:
    """Whether who makes a gang of this PriorityClass hears that it does not exist."""
    answer = sandbox.make_podgroup("would-be", queue, dry=True, minMember=2, priorityClassName=named)
    return any(f'PriorityClass "{named}" does not exist' in text for text in answer.must(201).warnings)


def set_class(sandbox: Sandbox, queue: str, value: int | None) -> str:
    """Make the class of the test's gangs anew, or take it away; returns its name once that is known."""
    name = sandbox.named("changes")
    sandbox.api.delete(f"{CLASSES}/{name}").must(200, 404)
    until(lambda: warned(sandbox, queue, name), "the class to be known as absent")
    if value is not None:
        sandbox.api.create(CLASSES, {"metadata": {"name": name}, "value": value}).must(201)
        until(lambda: not warned(sandbox, queue, name), "the class to be known")
    return name


def test_a_priority_class_that_comes_late_goes_and_changes_counts_as_it_is(sandbox: Sandbox) -> None:
    """Whoever makes a gang hears that it is absent. What goes next has the value of that moment: the gang
    of the class that came late; without the class the pod; the pod before a lower value, and the gang by a
    higher one.
    """
    queue = sandbox.queue(capability={"cpu": "2"})
    middle = priorities(sandbox, middle=1000)["middle"]

    def single(name: str) -> None:
        sandbox.pod(name, queue, cpu="2", priorityClassName=middle).must(201)

    def goes(names: list[str], *gone: str, waits: list[str]) -> None:
        """These go once others are gone, and those wait on."""
        for name in [*names, *waits]:
            sandbox.reason_on(name, f'queue "{queue}" has no room for this pod now')
        for name in gone:
            sandbox.api.delete(f"{sandbox.pods_path}/{name}").must(200)
        until(lambda: running(sandbox, names) == names, f"{names} to run")
        assert running(sandbox, waits) == []

    single("pod-0")
    until(lambda: running(sandbox, ["pod-0"]), "the first to run")
    single("pod-1")
    sandbox.podgroup("gang-a", queue, minMember=2, priorityClassName=sandbox.named("changes"))
    first = gang(sandbox, "gang-a", 2)
    named = set_class(sandbox, queue, 2000)
    goes(first, "pod-0", waits=["pod-1"])
    sandbox.podgroup("gang-b", queue, minMember=2, priorityClassName=named)
    second = gang(sandbox, "gang-b", 2)
    set_class(sandbox, queue, None)
    goes(["pod-1"], *first, waits=second)
    single("pod-2")
    set_class(sandbox, queue, 500)
    goes(["pod-2"], "pod-1", waits=second)
    single("pod-3")
    set_class(sandbox, queue, 3000)
    goes(second, "pod-2", waits=["pod-3"])
    sandbox.api.delete(f"{CLASSES}/{named}").must(200)


def test_a_stop_between_the_release_and_the_last_bind_waits_for_no_gang_and_a_resume_completes_it(
    sandbox: Sandbox,
) -> None:
    queue = sandbox.queue(capability={"cpu": "5"})
    sandbox.podgroup("gang", queue, minMember=3)
    names = gang(sandbox, "gang", 2)
    wanted = f"tests.sluice.dev/{sandbox.namespace}"
    sandbox.pod("gang-2", annotations={GROUPED_BY: "gang"}, cpu="1", nodeSelector={wanted: "here"}).must(201)
    until(lambda: not gates(sandbox.read_pod("gang-2")), "all of it to be released")
    until(lambda: running(sandbox, names) == names, "two of three to run")
    sandbox.suspend(queue)
    [node, *_] = sandbox.api.get("/api/v1/nodes").must().body["items"]
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    sandbox.api.patch(path, {"metadata": {"labels": {wanted: "here"}}}).must()
    assert settled(lambda: running(sandbox, [*names, "gang-2"]), "the pods") == names
    sandbox.edit(queue, state="Open")
    until(lambda: running(sandbox, ["gang-2"]), "the last one to run")
    sandbox.api.patch(path, {"metadata": {"labels": {wanted: None}}}).must()
