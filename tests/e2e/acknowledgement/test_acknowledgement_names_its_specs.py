"""An acknowledgement names the specs that it holds for, and falls with them.

`Active=False` of a queue holds for the specs that `status.stop.chain` names, by generation, and for those of
the queues below it, of which there are `status.stop.queues`. A client that reads the queues at one moment
sees whether their specs are still these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import (
    condition,
    is_stopped,
    on_a_node,
    version,
    waits_for,
)
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.faulty_proxy import Silence, expired_event
from tests.support.faults.intercepting import Asked, Interceptor
from tests.support.faults.slow_webhook import SlowWebhook

pytestmark = pytest.mark.long

LEADER, OTHER = "server-1", "server-2"
#: Bytes of an answer that come: its head, and no object.
HEAD = 300
KEPT_SECONDS = 28.0
ROUNDS, MEMBERS = 6, 6


def on_queues(asked: Asked) -> bool:
    """A list or a watch of the queues."""
    return asked.method == "GET" and asked.path == QUEUES


@contextmanager
def leader_late(pair: Fleet) -> Iterator[Callable[[], None]]:
    """The leader hears nothing of queues from here on; what is yielded has it list them, as they are then."""
    way: Interceptor = pair.interceptors[LEADER]
    pair.only(OTHER)
    before = len(way.asked)
    way.order(Silence(after=HEAD), when=on_queues, times=10_000)
    way.cut(when=on_queues)
    until(lambda: any(map(on_queues, way.asked[before:])), "a watch of queues that is silenced", share=0)

    def catch_up() -> None:
        way.relent()
        way.order(expired_event(), when=lambda asked: on_queues(asked) and asked.watch)
        way.cut(when=on_queues)

    try:
        yield catch_up
    finally:
        catch_up()


def at_one_moment(api: Api) -> dict[str, Object]:
    """All queues, as one list has them."""
    return {each["metadata"]["name"]: each for each in api.get(QUEUES).must().body["items"]}


def claims_to_hold(queues: Mapping[str, Object], name: str) -> bool:
    """Whether a reader of these queues has to take it that this stop is acknowledged as they are."""
    queue = queues[name]
    chain = queue["status"].get("stop", {}).get("chain", ())
    named = {link["name"]: link["generation"] for link in chain}
    present = {one: queues[one]["metadata"]["generation"] for one in named}
    as_many = queue["status"].get("stop", {}).get("queues", below(queues, name)) == below(queues, name)
    return is_stopped(queue) and named == present and as_many


def below(queues: Mapping[str, Object], name: str) -> int:
    """How many queues these are: it, and all below it."""
    children = [one for one, queue in queues.items() if queue["spec"].get("parent") == name and one != name]
    return 1 + sum(below(queues, child) for child in children)


def acknowledged(own_sandbox: Sandbox, name: str) -> dict[str, Object]:
    """The queues, once this stop is acknowledged for what they are."""

    def read() -> dict[str, Object]:
        queues = at_one_moment(own_sandbox.api)
        return queues if claims_to_hold(queues, name) else {}

    return until(read, f"queue {name} to be acknowledged as it is", share=0)


def is_withdrawn(queue: Object) -> bool:
    active = condition(queue, "Active")
    return (active.get("status"), active.get("reason")) == ("Unknown", "NotAcknowledged")


def watching(own_sandbox: Sandbox, name: str, slow: SlowWebhook) -> Callable[[], bool]:
    """Whether its acknowledgement is withdrawn; at no read does it claim to hold while a bind is kept."""

    def withdrawn() -> bool:
        under_way = slow.held
        queues = at_one_moment(own_sandbox.api)
        assert not (under_way and slow.held and claims_to_hold(queues, name))
        return is_withdrawn(queues[name])

    return withdrawn


def test_an_ancestor_that_was_resumed_and_stopped_again_unseen(
    own_sandbox: Sandbox, pair: Fleet, tmp_path: Path
) -> None:
    """A pod of the child was let through between the two; its bind is kept in a webhook. Nothing of the
    child's own spec has changed, and still its stop is no longer acknowledged."""
    parent = own_sandbox.queue("parent")
    child = own_sandbox.queue("child", parent=parent)
    own_sandbox.suspend(parent)
    first = acknowledged(own_sandbox, child)
    with SlowWebhook(own_sandbox, tmp_path, seconds=KEPT_SECONDS) as slow, leader_late(pair) as catch_up:
        own_sandbox.patch_queue(parent, state="Open").must()
        until(lambda: own_sandbox.pod("member-0", child, dry=True).warnings == (), "the resume to be seen")
        own_sandbox.pod("member-0", child).must(201)
        until(lambda: slow.held, "the bind to be under way", share=0)
        own_sandbox.patch_queue(parent, state="Suspended").must()
        queues = at_one_moment(own_sandbox.api)
        assert queues[child]["metadata"]["generation"] == first[child]["metadata"]["generation"]
        assert slow.held and not claims_to_hold(queues, child)
        catch_up()

        withdrawn = watching(own_sandbox, child, slow)
        until(withdrawn, "the acknowledgement to be withdrawn", share=0)
        assert slow.held
        slow.let_go()
        again = acknowledged(own_sandbox, child)
    assert bound_at(own_sandbox, again[child]) == {"member-0"}


def test_a_queue_that_is_moved_below_an_acknowledged_one(
    own_sandbox: Sandbox, pair: Fleet, tmp_path: Path
) -> None:
    """Its pod was let through before; the bind is kept in a webhook. The parent's own spec is the same."""
    parent = own_sandbox.queue("parent")
    flowing = own_sandbox.queue("flowing")
    own_sandbox.suspend(parent)
    with SlowWebhook(own_sandbox, tmp_path, seconds=KEPT_SECONDS) as slow:
        own_sandbox.pod("member-0", flowing).must(201)
        until(lambda: slow.held, "the bind to be under way", share=0)
        own_sandbox.patch_queue(flowing, parent=parent).must()
        withdrawn = watching(own_sandbox, parent, slow)
        until(withdrawn, "the acknowledgement to be withdrawn", share=0)
        stop = own_sandbox.queue_that(
            parent,
            "wait for the bind",
            lambda held: is_stopped(held) or waits_for(held).startswith("PassOpen"),
        )
        assert slow.held and not is_stopped(stop)
        slow.let_go()
        again = acknowledged(own_sandbox, parent)
    assert again[parent]["metadata"]["generation"] == stop["metadata"]["generation"]
    assert bound_at(own_sandbox, again[parent]) == {"member-0"}
    acknowledged(own_sandbox, flowing)


def test_what_is_said_of_the_child_is_true_whenever_it_is_read(own_sandbox: Sandbox, pair: Fleet) -> None:
    """Its parent is resumed and stopped in quick succession while its pods flow. From the moment that the
    child is read as acknowledged for what there is, none of its pods is bound until the next resume."""
    parent = own_sandbox.queue("parent")
    child = own_sandbox.queue("child", parent=parent)
    through: list[set[str]] = []
    for number in range(ROUNDS):
        own_sandbox.suspend(parent)
        names = own_sandbox.pods(f"member-{number}", MEMBERS, child)
        own_sandbox.patch_queue(parent, state="Open").must()
        if number % 2:
            until(partial(own_sandbox.bound, names), "the flow to be under way", share=0)
        own_sandbox.patch_queue(parent, state="Suspended").must()
        queues = acknowledged(own_sandbox, child)
        assert queues[child]["metadata"]["generation"] == 1
        own_sandbox.all_bound(own_sandbox.pods(f"other-{number}", 2))
        through.append(bound_now(own_sandbox) - bound_at(own_sandbox, queues[child]))
        assert claims_to_hold(at_one_moment(own_sandbox.api), child)
    assert through == [set()] * ROUNDS


def bound_now(own_sandbox: Sandbox) -> set[str]:
    return {name for name in own_sandbox.bound(own_sandbox.read_pods()) if name.startswith("member")}


def bound_at(own_sandbox: Sandbox, written: Object) -> set[str]:
    """The members that were on a node when that was written."""
    path = f"{own_sandbox.pods_path}?resourceVersion={version(written)}&resourceVersionMatch=Exact"
    pods = [pod for pod in own_sandbox.api.get(path).must().body["items"] if on_a_node(pod)]
    return {pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"].startswith("member")}
