"""`tree -w`: the tree again after each change by which it differs."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import pytest

from kubectl_queue.access.client import WatchEvent
from kubectl_queue.access.replicas import LEADER
from kubectl_queue.cli.flags import parse
from kubectl_queue.cli.options import COMMON
from kubectl_queue.commands.verbs import load
from kubectl_queue.objects.fields import Object
from kubectl_queue.output.console import Console
from kubectl_queue.session import Session
from tests.support.plugin.harness import StoredObjects, StoredQueues, item, run_command

LEASES = "/apis/coordination.k8s.io/v1/namespaces/sluice-system/leases"


class WatchedQueues(StoredQueues):
    """Queues that change: the events of one watch, after which the connection is lost."""

    def __init__(self, *items: Object, events: Iterable[WatchEvent]) -> None:
        super().__init__(*items)
        self._events = events

    def watch(self, since: str, *, name: str = "", selector: str = "") -> Iterator[WatchEvent]:
        yield from self._events
        raise ConnectionError


def drawn(*events: WatchEvent, words: tuple[str, ...] = ()) -> list[str]:
    """What is printed for a tree of `root` and `a`."""
    queues = WatchedQueues(
        item("root"), item("a", resumeAt="2030-01-01T13:00:00Z", state="Suspended"), events=[*events]
    )
    with pytest.MonkeyPatch.context() as patched:
        texts: list[str] = []
        patched.setattr("kubectl_queue.output.console.Console.say", lambda _self, text: texts.append(text))
        with pytest.raises(ConnectionError):
            run_command(queues, "tree", "-w", *words)
    return texts


def test_the_tree_is_drawn_again_where_it_differs_and_only_there() -> None:
    same = WatchEvent("MODIFIED", item("a", resumeAt="2030-01-01T13:00:00Z", state="Suspended", generation=2))
    made, gone = WatchEvent("ADDED", item("b", parent="a")), WatchEvent("DELETED", item("b", parent="a"))
    first, second, third = drawn(same, WatchEvent("BOOKMARK", item("root")), made, made, gone)
    assert ("b" in first.split(), "b" in second.split(), "b" in third.split()) == (False, True, False)
    assert second.startswith("\nNAME")


def test_documents_follow_each_other_as_those_of_get_do() -> None:
    for output, mark in (("-ojson", "{"), ("-oyaml", "---\n")):
        texts = drawn(WatchEvent("ADDED", item("b")), words=(output,))
        assert [text.startswith(mark) for text in texts] == [True, True]


def test_a_top_that_goes_away_ends_it_with_the_error() -> None:
    queues = WatchedQueues(item("root"), item("a"), events=[WatchEvent("DELETED", item("a"))])
    with pytest.raises(Exception, match='"a" not found'):
        run_command(queues, "tree", "a", "-w")


def test_a_watch_says_where_the_server_is_lost_and_where_it_is_back() -> None:
    """With the next sign of life of the watch, which comes once a minute at least."""
    renewed = {
        "began": "2030-01-01T11:59:59Z",
        "lost": "2030-01-01T11:59:00Z",
        "back": "2030-01-01T12:00:00Z",
    }
    leases: dict[str, Object] = {}

    def lead(word: str) -> None:
        spec = {"holderIdentity": "a", "renewTime": renewed[word], "leaseDurationSeconds": 6}
        leases[LEASES] = {"items": [{"metadata": {"name": LEADER}, "spec": spec}]}

    def events() -> Iterator[WatchEvent]:
        for word in ("lost", "lost", "back"):
            lead(word)
            yield WatchEvent("BOOKMARK", item("root"))

    lead("began")
    err = io.StringIO()
    verb = load("tree")
    session = Session(
        parse(["-w"], (*verb.flags, *COMMON), command=verb.command),
        console=Console(io.StringIO(), err),
        environ={},
    )
    queues = WatchedQueues(item("root", status={"state": "Open"}), events=events())
    session.__dict__.update(api=queues, client=StoredObjects(leases))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kubectl_queue.session._FOLLOWED_SECONDS", 0.0)
        with pytest.raises(ConnectionError):
            verb.execute(session, session.flags)
    first, second = err.getvalue().splitlines()
    assert first.startswith("Warning: no replica of Sluice answers since 2030-01-01T11:59:00Z")
    assert second == "a replica of Sluice leads again"
