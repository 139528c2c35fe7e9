"""The plugin reads a Queue object as the server does, whatever is in its spec."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.cache.queues import queue_from_object
from cluster.objects import QueueObject
from kubectl_queue.objects.queues import QueueObjects, may_be_live
from queues.apimachinery.lenient import LenientReader
from queues.queue import Queue
from queues.states import Desired
from tests.support.cases import each_case
from tests.support.plugin.harness import NOW, item

_read = LenientReader(QueueObject)
_WORDS: tuple[Any, ...] = (
    None,
    "",
    "Closed",
    "Suspended",
    "Hold",
    "HoldAndDrain",
    "Nonsense",
    "open",
    5,
    ["Open"],
    {},
)
_TIMES: tuple[Any, ...] = (
    None,
    "",
    "2030-01-31T18:30:00Z",
    "2030-01-31T18:30:00+02:00",
    "2030-01-31",
    "soon",
    5,
)
_TEXTS: tuple[Any, ...] = (None, "", "research", 5, ["research"])
_SELECTORS: tuple[Any, ...] = (None, {}, {"matchLabels": {"team": "a"}}, {"matchLabels": 5}, "team=a")
SPECS: list[dict[str, Any]] = [
    {},
    *({"state": word} for word in _WORDS),
    *({"stopPolicy": word} for word in _WORDS),
    *({"resumeAt": time} for time in _TIMES),
    *({field: text} for field in ("parent", "reason") for text in _TEXTS),
    *({"namespaceSelector": selector} for selector in _SELECTORS),
]


def read_by_server(obj: dict[str, Any]) -> Queue:
    queue, _ = _read(json.dumps(obj).encode())
    return queue_from_object(queue)


@each_case("spec", SPECS, ids=str)
@each_case("name", ["a", "root"])
def test_plugin_and_server_read_the_same_queue(name: str, spec: dict[str, Any]) -> None:
    obj = item(name, **spec)
    assert QueueObjects([obj], now=NOW).tree.queues[name] == read_by_server(obj)


@pytest.mark.parametrize(
    "status", [{"state": "Closed"}, {"state": "Closed", "observedGeneration": 1}], ids=str
)
@pytest.mark.parametrize("name", ["a", "root"])
def test_plugin_and_server_agree_on_what_volcano_had_closed(name: str, status: dict[str, Any]) -> None:
    obj = {**item(name, state=None), "status": status}
    read = QueueObjects([obj], now=NOW).tree.queues[name]
    assert read == read_by_server(obj)
    assert (read.desired is Desired.CLOSED) is (name == "a" and len(status) == 1)


def test_a_queue_with_an_unknown_state_is_shown_as_stopped() -> None:
    queues = QueueObjects([item("root"), item("a", state="Nonsense")], now=NOW)
    assert not queues.decisions.decision("a").schedules


KEPT = {"kind": "Pod", "namespace": "ns", "name": "p", "queue": "b", "others": 0}


@each_case(
    ("status", "expected"),
    [
        ({}, True),
        ({"state": "Open"}, True),
        ({"state": "Closed", "closing": KEPT}, False),
        ({"state": "Closing", "closing": KEPT}, True),
        ({"state": "Closing", "closing": {"others": 0}}, False),
        ({"state": "Closing"}, True),
    ],
    ids=["no status", "open", "closed", "a live member", "no live member is known", "an older controller"],
)
def test_no_member_is_live_where_the_status_says_so(status: dict[str, Any], expected: bool) -> None:
    assert may_be_live(item("b", status=status)) is expected
