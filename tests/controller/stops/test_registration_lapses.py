"""While the API server does not ask us about all pods, promises are withdrawn. They are given again once all
pods are known.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.cache.registrations import Registration, RegistrationKind, WebhookConfiguration
from cluster.exceptions import Refused
from controller.stops.registration_lapses import HANDED_ON_SECONDS, SETTLE_SECONDS
from tests.cluster.cache.test_registrations import Watched, narrowed
from tests.controller.status.test_quota_enforcement import enforced, wait_for_requests
from tests.controller.status.test_quota_status import Server, running
from tests.support.http.wire_objects import Wire, pod, queue

MUTATING = RegistrationKind.MUTATING
PODS = "/api/v1/pods"
NAMED = "scheduling.volcano.sh/queue-name"
_REFUSED = Refused(403, "Forbidden", "no")


class Asked:
    """A server with a stopped queue and one with a capability, about which the API server asks."""

    def __init__(self, *queues: Wire) -> None:
        self.server = Server(
            *(queues or (queue("held", stopPolicy="Hold"), queue("lab", capability={"cpu": "4"})))
        )
        registrations = self.server.harness.store.registrations
        registrations._clock = self.server.harness.clock.monotonic
        self.watched = Watched(registrations)
        self.server.settle()

    def changes(self, configuration: Registration) -> None:
        self.watched.handlers[MUTATING].upsert(configuration)
        self.server.step(seconds=0.0)
        self.server.step(seconds=1.0)
        self.server.step(seconds=1.0)

    def is_narrowed(self) -> None:
        self.changes(narrowed(self.watched.mutating(generation=2, resource_version="2")))

    def is_mended(self) -> None:
        self.watched.handlers[MUTATING].upsert(self.watched.mutating(generation=3, resource_version="3"))

    def active(self) -> tuple[str, str]:
        conditions = self.status("held").get("conditions", [])
        return next((each["status"], each["reason"]) for each in conditions if each["type"] == "Active")

    def waits_for(self) -> str:
        return str((self.status("held").get("stop") or {}).get("waitingFor", ""))

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.server.boundary.queues[name]["status"]
        return found

    def lists(self) -> int:
        """How often the pods without the label are to be read from the beginning."""
        return self.server.harness.controller._member_labels._all._listings[""].number


def test_a_stop_and_a_quota_are_withdrawn_and_given_again() -> None:
    asked = Asked()
    assert (asked.active(), enforced(asked.server)) == (("False", "Stopped"), "Enforced")
    asked.is_narrowed()
    assert (asked.active(), enforced(asked.server)) == (("Unknown", "NotAsked"), "NotAsked")
    assert asked.waits_for().startswith("NotAsked: the API server does not ask about all pods: Mutating")
    assert [event["type"] for event in asked.server.harness.events("NotAsked")] == ["Warning"]
    asked.is_mended()
    asked.server.step(seconds=SETTLE_SECONDS / 2)
    assert asked.waits_for().startswith("NotAsked: pods that were made while")
    asked.server.settle()
    assert (asked.active(), enforced(asked.server)) == (("False", "Stopped"), "RequestsUnderWay")
    assert [event["type"] for event in asked.server.harness.events("AskedAgain")] == ["Normal"]
    wait_for_requests(asked.server)
    assert enforced(asked.server) == "Enforced"


def test_all_pods_are_listed_before_anything_is_promised_again() -> None:
    """A pod that runs without its label is found. Where it cannot be written its queue waits for it."""
    asked = Asked()
    asked.is_narrowed()
    found = pod("unseen", annotations={NAMED: "lab"}, nodeName="node-1")
    asked.server.boundary.refusal = lambda sent: _REFUSED if "/pods/" in sent.path else None
    asked.server.boundary.readable[PODS] = {"items": [found]}
    lists = asked.lists()
    asked.is_mended()
    asked.server.settle()
    assert asked.lists() > lists
    assert "/api/v1/namespaces/team/pods/unseen" in {sent.path for sent in asked.server.boundary.sent}
    wait_for_requests(asked.server)
    assert enforced(asked.server) == "RequestsUnderWay"
    asked.server.boundary.readable[PODS] = {"items": []}
    asked.server.has(running("unseen", "lab"))
    asked.server.harness.clock.seconds += 600
    asked.server.settle()
    assert enforced(asked.server) == "Enforced"


def test_a_new_stop_is_not_acknowledged_meanwhile_and_says_why() -> None:
    asked = Asked(queue("held", stopPolicy="None"))
    asked.is_narrowed()
    stopped = {**queue("held", version=500, generation=2, stopPolicy="Hold"), "status": asked.status("held")}
    asked.server.boundary.queues["held"] = stopped
    asked.server.has(stopped, event="MODIFIED")
    asked.server.settle()
    assert asked.active()[0] == "True"
    assert asked.waits_for().startswith("NotAsked: ")


def test_a_configuration_that_is_made_anew_between_two_events_withdraws_too() -> None:
    asked = Asked()
    asked.watched.handlers[MUTATING].replace([asked.watched.mutating(uid="b", resource_version="9")])
    for _ in range(3):
        asked.server.step(seconds=SETTLE_SECONDS / 4)
    assert asked.active() == ("Unknown", "NotAsked")


def test_what_a_former_leader_had_acknowledged_is_withdrawn_too() -> None:
    """And before all has been read for the first time nothing is."""
    former = Asked()
    stored = former.server.boundary.queues
    server = Server()
    server.boundary.queues.update(stored)
    registrations = server.harness.store.registrations
    watched = Watched(registrations, listed=False)
    server.harness.controller._lapses._was_read = False  # all was as if there were no registrations
    server.has(*stored.values())
    server.settle()
    statuses = {name: server.boundary.queues[name]["status"]["conditions"] for name in ("held", "lab")}
    assert statuses == {name: stored[name]["status"]["conditions"] for name in statuses}
    for kind in RegistrationKind:
        watched.list(kind, *([narrowed(watched.mutating())] if kind is MUTATING else []))
    server.settle()
    [active] = [
        each for each in server.boundary.queues["held"]["status"]["conditions"] if each["type"] == "Active"
    ]
    assert (active["reason"], enforced(server)) == ("NotAsked", "NotAsked")


def test_the_next_leader_finds_out_what_the_former_one_had_not() -> None:
    """A lapse that ended long ago is not gone through again."""
    asked = Asked()
    lapses = asked.server.harness.controller._lapses
    asked.is_narrowed()
    asked.is_mended()
    lapses.stand_by({})
    assert lapses.obstacle
    asked.server.harness.clock.seconds += HANDED_ON_SECONDS
    lapses.stand_by({})
    assert not lapses.obstacle


def test_what_may_not_be_read_any_more_is_not_promised() -> None:
    asked = Asked()
    synced = asked.watched.registrations.synced[RegistrationKind.POLICIES]
    synced.clear()
    asked.server.settle()
    assert (asked.active(), enforced(asked.server)) == (("Unknown", "NotAsked"), "NotAsked")
    synced.set()
    asked.server.settle()
    assert asked.active() == ("False", "Stopped")


def test_where_nothing_may_be_read_all_is_as_before() -> None:
    server = Server(queue("held", stopPolicy="Hold"), queue("lab", capability={"cpu": "4"}))
    watched = Watched(server.harness.store.registrations, listed=False)
    for kind in RegistrationKind:
        watched.registrations.note_refused(kind)
    server.settle()
    conditions = server.boundary.queues["held"]["status"]["conditions"]
    assert [each["status"] for each in conditions if each["type"] == "Active"] == ["False"]
    assert enforced(server) == "Enforced"


def test_after_a_change_of_the_guards_entry_stops_wait_for_new_probes_alone() -> None:
    asked = Asked()
    harness = asked.server.harness
    count, version = harness.controller._lapses.count, harness.controller._lapses.version
    [stored] = asked.watched.objects[RegistrationKind.VALIDATING]
    assert isinstance(stored, WebhookConfiguration)
    metadata = msgspec.structs.replace(stored.metadata, generation=2, resource_version="2")
    hooks = tuple(each for each in stored.webhooks or () if each.name != "binds.sluice.dev")
    asked.watched.handlers[RegistrationKind.VALIDATING].upsert(WebhookConfiguration(metadata, hooks))
    asked.server.settle()
    assert harness.controller._lapses.version != version
    assert harness.controller._lapses.count == count
    assert asked.active() == ("False", "Stopped")
