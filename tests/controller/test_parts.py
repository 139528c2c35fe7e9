"""The parts of the controller: none is forgotten, whatever it keeps."""

from __future__ import annotations

import gc
import itertools
import math
from types import FunctionType
from typing import Any

import pytest

from controller.parts import Part
from controller.pods.ungating import Ungating
from controller.status.queue_records import QueueRecords
from tests.support.controller.controller_harness import ControllerHarness
from tests.support.http.wire_objects import member, namespace, pod, queue


@pytest.fixture
def harness() -> ControllerHarness:
    made = ControllerHarness()
    made.receive_events(namespace("team"), queue("root"), queue("default"))
    made.sync()
    return made


def calls(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch, *methods: str
) -> list[tuple[str, str]]:
    """What is called of the parts from now on, in its order: the method and the part."""
    seen: list[tuple[str, str]] = []
    for part, method in itertools.product(harness.controller.parts, methods):
        original = getattr(part, method)

        def call(*given: Any, part: Part = part, method: str = method, original: Any = original) -> Any:
            seen.append((method, part.name))
            return original(*given)

        monkeypatch.setattr(part, method, call)
    return seen


def test_each_part_that_is_made_is_run_once_under_a_name_of_its_own(harness: ControllerHarness) -> None:
    """One that another part holds is in the tuple, too: else its term would never begin."""
    parts = harness.controller.parts
    made = [one for one in reachable(harness.controller) if isinstance(one, Part)]
    assert {id(part) for part in made} == {id(part) for part in parts}
    names = [part.name for part in parts]
    assert len({*names, ""}) == len(parts) + 1


def reachable(start: object) -> list[object]:
    """All objects of the controller's own modules that hang on this one."""
    found, left = {id(start): start}, [start]
    while left:
        for one in gc.get_referents(left.pop()):
            is_ours = type(one).__module__.partition(".")[0] in {"controller", "builtins", "functools"}
            if id(one) in found or not is_ours or isinstance(one, type):
                continue
            found[id(one)] = one
            # Not a function's globals: all modules hang on them.
            left.extend((one.__closure__ or ()) if isinstance(one, FunctionType) else (one,))
    return list(found.values())


def test_what_was_recorded_comes_before_each_step(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = calls(harness, monkeypatch, "record", "step")
    harness.sync(rounds=1)
    expected = [(method, part.name) for part in harness.controller.parts for method in ("record", "step")]
    assert seen == expected


def test_a_step_that_backs_off_misses_no_change(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.store.backoff.record_failure("status", "", ValueError("a mistake"))
    seen = calls(harness, monkeypatch, "record", "step")
    harness.sync(rounds=1)
    assert ("record", "status") in seen
    assert ("step", "status") not in seen


@pytest.mark.parametrize("leads", [True, False])
def test_a_term_begins_and_ends_for_all_parts(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    seen = calls(harness, monkeypatch, "begin_term", "step" if leads else "stand_by")
    terms = harness.controller._context
    replaced = {"leading": lambda: leads, "term": lambda: 2}
    monkeypatch.setattr(harness.controller, "_context", Replaced(terms, replaced))
    harness.sync(rounds=1)
    names = [part.name for part in harness.controller.parts]
    assert seen == [("begin_term", name) for name in names] + [
        ("step" if leads else "stand_by", name) for name in names
    ]
    seen.clear()
    harness.sync(rounds=1)
    assert "begin_term" not in {method for method, _ in seen}


class Replaced:
    """The context, but for some of its fields."""

    def __init__(self, context: Any, replaced: dict[str, Any]) -> None:
        self._context, self._replaced = context, replaced

    def __getattr__(self, name: str) -> Any:
        return self._replaced.get(name) or getattr(self._context, name)


@pytest.mark.parametrize("place", range(len(ControllerHarness().controller.parts)))
def test_a_sync_begins_when_a_part_is_due(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    part = harness.controller.parts[place]
    at = harness.clock.seconds + 0.001
    monkeypatch.setattr(type(part), "due", property(lambda _: at))
    assert harness.controller.next_sync_at == at
    harness.store.backoff.record_failure(part.name, "", ValueError("a mistake"))
    assert harness.controller.next_sync_at > at


@pytest.mark.parametrize(
    ("first", "then"),
    [
        # Which pods are members, before a stop or a lapse waits for them.
        ("member_labels", "registrations"),
        ("member_labels", "status"),
        ("acknowledgement", "status"),
        # An edge of a window before the statuses that give way to it.
        ("windows", "edge_hold"),
        ("edge_hold", "status"),
        ("policies", "status"),
        # A guard before what it is to refuse may be bound.
        ("guard", "ungate"),
        ("guard", "quota"),
        ("guard", "status"),
        ("ungate", "status"),
        ("quota", "status"),
        # Who stopped a queue waits for the status alone.
        ("status", "commands"),
        ("status", "queue_members"),
        ("queue_members", "podgroups"),
        # How far a drain is, in the same sync.
        ("queue_members", "drains"),
        ("drains", "draining_status"),
        ("draining_status", "closing"),
        ("closing", "failures"),
    ],
)
def test_the_order_of_parts_that_need_each_other(harness: ControllerHarness, first: str, then: str) -> None:
    names = [part.name for part in harness.controller.parts]
    assert names.index(first) < names.index(then)


def test_a_queue_that_is_gone_is_forgotten_by_all(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.receive_events(queue("gone"))
    harness.sync()
    forgotten: list[str] = []
    for part in harness.controller.parts:
        monkeypatch.setattr(part, "forget_queue", forgotten.append)
    harness.receive_events(queue("gone", version=9), event="DELETED")
    harness.sync(rounds=1)
    assert forgotten == ["gone"] * len(harness.controller.parts)


def test_what_pods_use_that_came_while_another_replica_led_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A term begins with a look at all queues; so nothing that was counted before has to be forgotten."""
    harness = ControllerHarness()
    harness.receive_events(namespace("team"), queue("root"), queue("default"))
    harness.receive_events(queue("lab", parent="root", capability={"cpu": "4"}))
    leads = {"leading": lambda: True, "term": lambda: 1}
    monkeypatch.setattr(harness.controller, "_context", Replaced(harness.controller._context, leads))
    harness.sync()
    leads["leading"] = lambda: False
    harness.sync()
    running = member("work", "lab", nodeName="n", resources={"requests": {"cpu": "2"}})
    harness.receive_events({**running, "status": {"phase": "Running"}})
    harness.sync()
    leads.update(leading=lambda: True, term=lambda: 2)
    harness.client.sent.clear()
    harness.sync()
    *_, body = harness.bodies("/apis/scheduling.volcano.sh/v1beta1/queues/lab/status")
    assert body["status"]["quota"]["used"]["cpu"] == "2"


def raises_once(monkeypatch: pytest.MonkeyPatch, holder: type, name: str) -> None:
    """The first call of this method fails."""
    original = getattr(holder, name)

    def once(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(holder, name, original)
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(holder, name, once)


def test_statuses_that_a_failed_step_did_not_reach_are_looked_at_after_its_back_off(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    raises_once(monkeypatch, QueueRecords, "outdated_stops")
    harness.receive_events(queue("lab"))
    harness.sync(rounds=4)
    assert harness.bodies("/apis/scheduling.volcano.sh/v1beta1/queues/lab/status")


def test_members_of_no_queue_that_fail_are_tried_again_after_a_back_off(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the part that looks at all queues has succeeded."""
    raises_once(monkeypatch, Ungating, "assign_queues")
    group = {"scheduling.k8s.io/group-name": "absent"}
    lost = pod("lost", annotations=group, labels={"sluice.dev/queue": ""}, gates=["sluice.dev/queue"])
    harness.receive_events(lost)
    harness.sync(rounds=1, seconds=0.1)
    assert harness.store.backoff.next_requeue < math.inf


def test_a_pod_that_comes_while_resumes_back_off_is_ungated_with_the_members(
    harness: ControllerHarness,
) -> None:
    harness.receive_events(queue("lab", generation=2, state="Suspended"))
    harness.sync()
    harness.receive_events(queue("lab", version=3, generation=3), event="MODIFIED")
    harness.sync()
    harness.store.backoff.record_failure("ungate", "", ValueError("a mistake"))
    harness.receive_events(member("late", "lab", gates=["sluice.dev/queue"]))
    harness.sync(rounds=1, seconds=0.0)
    assert harness.bodies("/api/v1/namespaces/team/pods/late")
