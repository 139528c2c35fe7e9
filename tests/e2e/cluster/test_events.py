"""The recorder: what is said, how often at most, and that it never waits. None is sent here but one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kubernetes.client import Configuration

from cluster.api.client import Client
from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference
from cluster.recorder import (
    BURST,
    MAX_EVENTS_REMEMBERED,
    MESSAGE_LIMIT,
    PER_SECOND,
    REPEAT_SECONDS,
    EventRecorder,
    _body,
)
from cluster.write_queue import WriteQueue
from localcluster.cluster import LocalCluster
from queues.membership import valid_name
from tests.support.cluster.notes import eventually


def subject(number: int = 0, **more: str) -> ObjectReference:
    told = {"api_version": "v1", "kind": "Pod", "name": f"work-{number}", "uid": f"uid-{number}", **more}
    return ObjectReference(namespace=told.pop("namespace", "team"), **told)


class Recording:
    """A recorder whose writers do not run: what waits in them was said."""

    def __init__(self) -> None:
        self.now = 100.0
        self.metrics = Metrics()
        self.writers = WriteQueue(metrics=self.metrics)
        nowhere = Configuration()
        nowhere.host = "http://127.0.0.1:1"
        self.recorder = EventRecorder(
            client=Client(nowhere), writers=self.writers, metrics=self.metrics, clock=lambda: self.now
        )

    def say(self, number: int = 0, *, reason: str = "Stopped", message: str = "m", budget: str = "") -> bool:
        """Whether an event was handed on."""
        before = len(self.writers)
        self.recorder.record(subject(number), reason=reason, message=message, rate_limit_key=budget)
        return len(self.writers) > before

    def said(self, outcome: str) -> float:
        value = self.metrics.registry.get_sample_value("sluice_events_total", {"outcome": outcome})
        return value or 0.0


@pytest.fixture
def recording() -> Recording:
    return Recording()


# The same again


def test_the_same_event_is_said_once_in_a_while(recording: Recording) -> None:
    assert recording.say()
    recording.now += REPEAT_SECONDS - 1
    assert not recording.say()
    recording.now += 2
    assert recording.say()
    assert (recording.said("written"), recording.said("dropped")) == (2, 1)


@pytest.mark.parametrize(
    "again",
    [
        lambda one: one.say(1),
        lambda one: one.say(reason="Other"),
        lambda one: one.say(message="other"),
    ],
    ids=["object", "reason", "message"],
)
def test_another_is_another(recording: Recording, again: Callable[[Recording], bool]) -> None:
    assert recording.say()
    assert again(recording)


def test_what_is_remembered_is_bounded(recording: Recording) -> None:
    for number in range(MAX_EVENTS_REMEMBERED + 100):
        recording.say(number)
    assert len(recording.recorder._seen) == MAX_EVENTS_REMEMBERED
    assert recording.say(0), "the oldest is forgotten first"
    assert not recording.say(MAX_EVENTS_REMEMBERED + 99)


# A queue's budget


def test_a_queues_pods_get_so_many_at_once_and_so_many_a_second_after(recording: Recording) -> None:
    said = sum(recording.say(number, budget="research") for number in range(1000))
    assert said == BURST
    recording.now += 3.0
    said = sum(recording.say(number, budget="research") for number in range(1000, 2000))
    assert said == 3 * PER_SECOND
    assert recording.said("dropped") == 2000 - BURST - 3 * PER_SECOND


def test_a_budget_that_rests_holds_no_more_than_a_burst(recording: Recording) -> None:
    recording.say(budget="research")
    recording.now += 100_000
    assert sum(recording.say(number, budget="research") for number in range(1, 1000)) == BURST


def test_one_queues_storm_does_not_silence_another(recording: Recording) -> None:
    for number in range(1000):
        recording.say(number, budget="research")
    assert recording.say(5000, budget="labs")


def test_what_is_on_nobodys_account_is_always_said(recording: Recording) -> None:
    assert sum(recording.say(number) for number in range(1000)) == 1000


def test_what_was_dropped_for_want_of_budget_was_not_said(recording: Recording) -> None:
    """So it may be said when there is budget again, long before it would be a repetition."""
    for number in range(1000):
        recording.say(number, budget="research")
    recording.now += 10.0
    assert recording.say(999, budget="research")


# What an event looks like


@pytest.mark.parametrize(
    "name", ["a", "x" * 253, "x" * 199 + "-y", "x" * 199 + ".y", ".".join(["q" * 60] * 4)], ids=len
)
def test_its_name_is_one_that_the_api_server_takes(name: str) -> None:
    metadata = _body(subject(name=name), reason="R", message="m", warning=False)["metadata"]
    assert valid_name(metadata["name"]), metadata["name"]


def test_two_events_have_two_names() -> None:
    names = {_body(subject(), reason="R", message="m", warning=False)["metadata"]["name"] for _ in range(100)}
    assert len(names) == 100


def test_an_event_on_a_cluster_scoped_object_is_in_default() -> None:
    body = _body(subject(namespace=""), reason="R", message="m", warning=True)
    assert body["metadata"]["namespace"] == "default"
    assert "namespace" not in body["involvedObject"]
    assert body["type"] == "Warning"


def test_a_long_message_is_cut_to_what_the_api_server_takes() -> None:
    body = _body(subject(), reason="R", message="m" * 5000, warning=False)
    assert len(body["message"]) == MESSAGE_LIMIT


def test_it_reaches_whoever_describes_the_object(
    client: Client, namespace: str, cluster: LocalCluster
) -> None:
    metrics = Metrics()
    writers = WriteQueue(metrics=metrics, threads=1)
    writers.start()
    recorder = EventRecorder(client=client, writers=writers, metrics=metrics)
    recorder.record(subject(namespace=namespace), reason="QueueStopped", message="why", warning=True)
    path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3Duid-0"
    with cluster.api() as api:
        eventually(lambda: api.request("GET", path).json()["items"])
        [event] = api.request("GET", path).json()["items"]
    writers.stop()
    assert (event["reason"], event["message"], event["type"]) == ("QueueStopped", "why", "Warning")
    assert event["involvedObject"]["name"] == "work-0"
