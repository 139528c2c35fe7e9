"""Pods that their scheduling policy kept from a node, and that are tried again once it does not any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.cache.changes import PodChange, QueueChange, StoreChange
from cluster.waiting_writes import WriteKey
from cluster.write_queue import WriteQueue
from controller.pods.retry import LATE_TIMES, LONGEST_PAUSE, PreemptionRetry
from controller.pods.retry_event import RetryEvents
from controller.pods.ungating import RETRY, TIMES, Ungating
from queues.messages import missing_action_text
from tests.support.controller.contexts import ImmediateWrites, context_with
from tests.support.http.asking import Server
from tests.support.http.wire_objects import GROUP, Wire, member, podgroup, policies, queue

CORE: Wire = {"requests": {"cpu": "1"}}
FORBIDS, ALLOWS = "actions: backfill\ntiers: [{}]", "actions: allocate\ntiers: [{}]"
OWN_POLICY = "volcano.sh/scheduler-policy"


class BusyWrites(ImmediateWrites):
    """Takes a write only while nothing is under way; `finish` ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way: list[Any] = []

    def submit(self, key: WriteKey, write: Any, *, done: Any = None, **_: Any) -> bool:
        if self.under_way:
            return False
        self.keys.append(key)
        self.under_way.append((write, done))
        return True

    def finish(self, *, ok: bool = True) -> None:
        write, done = self.under_way.pop()
        if ok:
            write()
        done(ok)


class Setup:
    """A queue `vision` below `labs`, whose policy `small` has no action for pods with requests."""

    def __init__(self, writers: ImmediateWrites | None = None) -> None:
        self.server = Server().has(
            queue("root", parent=""),
            queue("labs"),
            queue("vision", parent="labs", schedulerPolicy="small"),
            policies(small=FORBIDS, large=ALLOWS),
        )
        self.store = self.server.store
        self.writers = ImmediateWrites() if writers is None else writers
        self.tokens: list[str] = []
        #: Whether all replicas answer alike; the versions that they were last compared with.
        self.alike = True
        self.compared: dict[str, float] = {}

        def patch(path: str, body: Any, **_: Any) -> None:
            self.tokens.append(body["metadata"]["annotations"]["sluice.dev/woken"])

        client = SimpleNamespace(patch=patch, create=lambda *_, **__: None, delete=lambda *_, **__: None)
        self.context = context_with(
            store=self.store,
            client=cast(Client, client),
            writers=cast(WriteQueue, self.writers),
            namespace="sluice-system",
        )
        events = RetryEvents(self.context)
        self.ungating = Ungating(self.context, events=events)
        self.preemption_retry = PreemptionRetry(self.context, events=events)

    def refused(self, *, version: int = 1, **more: Any) -> None:
        """A pod whose condition has the text that filter gives it now."""
        made = member("work", "vision", resources=CORE, version=version, **more)
        self.server.has(made)
        stored = self.store.members.get("team", "work")
        assert stored is not None
        missing = self.store.pod_policies.missing_for_member(stored, "vision")
        if missing is not None:
            self.text = missing_action_text(missing)
        self.server.has({**made, "status": waits(self.text)})

    def retries(self) -> int:
        """How often the pod was retried, once its queue was synced as after any change."""
        waiting = self.store.members.waiting_in("vision")
        self.ungating.ungate("vision", waiting, may_retry=lambda: True)
        return len(self.tokens)

    def preemptions(self, name: str = "vision") -> bool:
        waiting = self.store.members.waiting_in(name)
        again = self.preemption_retry.retry_if_refused(
            name, waiting, may_retry=lambda: True, demand_alike_answers=self.demand_alike_answers
        )
        self.pass_results_on()
        return again

    def demand_alike_answers(self, *, queues: int, policies: int, since: float) -> bool:
        self.compared = {"queues": queues, "policies": policies, "since": since}
        return self.alike

    def pass_results_on(self) -> None:
        self.context.work_queue.get([0.0])


def waits(text: str) -> Wire:
    message = f"0/3 nodes are available: 3 {text}. preemption: 0/3 nodes are available."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


@pytest.fixture
def setup() -> Setup:
    return Setup()


def test_a_pod_is_not_retried_while_its_policy_lacks_the_action(setup: Setup) -> None:
    setup.refused()
    assert setup.retries() == 0


@pytest.mark.parametrize(
    "change",
    [
        policies(small=ALLOWS),
        policies(other=ALLOWS),
        queue("vision", parent="labs", schedulerPolicy="large", version=2, generation=2),
        queue("vision", parent="labs", version=2, generation=2),
    ],
    ids=["the policy", "the policy is gone", "the queue names another one", "the queue names none"],
)
def test_a_pod_is_retried_once_its_policy_has_the_action(setup: Setup, change: Wire) -> None:
    setup.refused()
    setup.server.has(change)
    assert setup.retries() == 1


def test_a_pod_is_retried_once_the_policy_of_an_ancestor_has_the_action() -> None:
    setup = Setup()
    setup.server.has(
        queue("vision", parent="labs", version=2, generation=2),
        queue("labs", schedulerPolicy="small", version=2, generation=2),
    )
    setup.refused()
    assert setup.retries() == 0
    setup.server.has(queue("vision", parent="root", version=3, generation=3))
    assert setup.retries() == 1


def test_a_pod_is_retried_once_its_job_names_another_policy(setup: Setup) -> None:
    setup.refused()
    setup.server.has(
        {
            **member("work", "vision", resources=CORE, version=2, annotations={OWN_POLICY: "large"}),
            "status": waits(setup.text),
        }
    )
    assert setup.retries() == 1


def test_a_pod_is_retried_once_its_podgroup_names_another_policy(setup: Setup) -> None:
    def gang(version: int, **annotations: str) -> Wire:
        return podgroup("gang", queue="vision", version=version, annotations=annotations)

    noted: list[tuple[str, StoreChange]] = []
    setup.server.has(gang(1))
    setup.refused(annotations={GROUP: "gang"})
    setup.store.add_listener(lambda name, change: noted.append((name, change)))
    refused = ("vision", PodChange("uid-work"))
    setup.server.has(gang(2, other="changes"))
    assert refused not in noted
    setup.server.has(gang(3, **{OWN_POLICY: "large"}))
    assert refused in noted
    assert setup.retries() == 1


def test_a_pod_is_retried_until_its_condition_changes(setup: Setup) -> None:
    """Another replica may see the new policy later, and refuse the pod once more."""
    setup.refused()
    setup.server.has(policies(small=ALLOWS))
    for number in range(2 * TIMES):
        setup.refused(version=number + 2)
        setup.retries()
        setup.server.clock.seconds += RETRY.seconds(number + 1)
    assert len(setup.tokens) == len(set(setup.tokens)) == TIMES
    setup.server.has(policies(small=FORBIDS))
    setup.server.has(policies(small=ALLOWS))
    setup.refused(version=90)
    assert setup.retries() == TIMES + 1, "each change counts anew"


def test_a_pod_that_was_retried_after_a_resume_is_retried_for_its_policy_too(setup: Setup) -> None:
    revision = setup.store.snapshot.decision("vision").revision
    setup.refused(annotations={"sluice.dev/woken": revision})
    setup.server.has(policies(small=ALLOWS))
    assert setup.retries() == 1


def test_a_change_of_the_configmap_notifies_of_the_pods_that_were_refused(setup: Setup) -> None:
    """And of no queue as a whole: there may be thousands."""
    noted: list[tuple[str, StoreChange]] = []
    refused = member("room", "vision"), member("bound", "vision", nodeName="n"), member("new", "vision")
    setup.server.has(*(one | {"status": waits("Insufficient cpu")} for one in refused[:2]), refused[2])
    setup.refused()
    setup.store.add_listener(lambda name, change: noted.append((name, change)))
    setup.server.has(policies(small=FORBIDS, large=ALLOWS))
    assert noted == []
    setup.server.has(policies(small=ALLOWS))
    assert sorted(noted, key=str) == [("vision", PodChange("uid-room")), ("vision", PodChange("uid-work"))]


# Pods whose victims were denied


def test_pods_that_lack_room_are_retried_after_each_change_of_the_policies(setup: Setup) -> None:
    setup.server.has({**member("work", "vision"), "status": waits("Insufficient cpu")})
    seen = []
    for number, text in enumerate((ALLOWS, FORBIDS, FORBIDS)):
        setup.preemptions()
        setup.preemptions()
        seen.append(len(setup.writers.keys))
        setup.server.has(
            policies(small=text, number=f"actions: allocate # {number if number < 2 else 1}\ntiers: [{{}}]")
        )
    assert seen == [1, 2, 3]
    setup.preemptions()
    assert len(setup.writers.keys) == 3, "the texts are the same as before"


def test_pods_that_lack_room_are_retried_once_the_system_pods_are_known(setup: Setup) -> None:
    """Until then plugin `conformance` protects every pod of no queue."""
    waiting = {**member("work", "vision"), "status": waits("Insufficient cpu")}
    setup.server.has(waiting, policies(small=f"{ALLOWS}\ntiers: [{{plugins: [{{name: conformance}}]}}]"))
    setup.preemptions()
    noted: list[str] = []
    setup.store.add_listener(lambda name, _change: noted.append(name))
    for _ in range(2):
        setup.store.system_pods.replace([])
        setup.preemptions()
    assert len(setup.writers.keys) == 2
    assert noted.count("vision") >= 1


def test_pods_that_lack_room_are_retried_once_another_queue_lends_more(setup: Setup) -> None:
    waiting = {**member("work", "vision"), "status": waits("Insufficient cpu")}
    setup.server.has(waiting, queue("team", deserved={"cpu": "8"}))
    setup.preemptions()
    noted: list[tuple[str, StoreChange]] = []
    setup.store.add_listener(lambda name, change: noted.append((name, change)))
    for version, lends in enumerate(({"cpu": "8"}, {"cpu": "4"}, {"cpu": "4"}), start=2):
        setup.server.has(queue("team", deserved=lends, version=version, generation=version))
        setup.preemptions()
    assert noted.count(("vision", PodChange("uid-work"))) == 1
    assert len(setup.writers.keys) == 2


def test_one_retry_serves_all_queues_that_waited_for_it() -> None:
    writers = BusyWrites()
    setup = Setup(writers)
    queues = [f"q-{number}" for number in range(20)]
    for name in queues:
        setup.server.has(queue(name), {**member(name, name), "status": waits("Insufficient cpu")})
    for name in queues:
        setup.preemptions(name)
    for _ in range(12):
        if writers.under_way:
            writers.finish()
            setup.pass_results_on()
        setup.server.clock.seconds += 1.0
        for name in queues:
            assert not setup.preemptions(name)
    assert len(writers.keys) == 2, "however many queues there are"


def test_a_retry_is_made_as_soon_as_all_replicas_answer_alike_and_not_again(setup: Setup) -> None:
    """A replica with older policies would deny the victims once more."""
    setup.server.has({**member("work", "vision"), "status": waits("Insufficient cpu")})
    for version in (7, 8):
        configmap = policies(small=f"{ALLOWS} # {version}")
        configmap["metadata"]["resourceVersion"] = str(version)
        setup.server.has(configmap)
        before, setup.alike = len(setup.writers.keys), False
        setup.preemptions()
        assert len(setup.writers.keys) == before
        assert setup.compared["policies"] == version
        setup.alike = True
        for _ in range(3):
            setup.preemptions()
            setup.server.clock.seconds += LONGEST_PAUSE
        assert len(setup.writers.keys) == before + 1


def test_without_a_replica_s_report_retries_are_made_with_growing_pauses(setup: Setup) -> None:
    """It may be of an older version, which does not report by which policies it answers."""
    setup.server.has({**member("work", "vision"), "status": waits("Insufficient cpu")})
    setup.alike = False
    retried_at = []
    for second in range(200):
        before = len(setup.writers.keys)
        setup.preemptions()
        if len(setup.writers.keys) > before:
            retried_at.append(second)
        setup.server.clock.seconds += 1.0
    assert retried_at == [2, 6, 14, 30, 62]
    assert len(retried_at) == LATE_TIMES
    setup.alike = True
    for _ in range(2):
        setup.preemptions()
    assert len(setup.writers.keys) == LATE_TIMES + 1, "once more when all answer alike, however late"


def test_a_replica_may_not_report_its_policies_for_days(setup: Setup) -> None:
    setup.server.has({**member("work", "vision"), "status": waits("Insufficient cpu")})
    setup.alike = False
    for _ in range(2000):
        setup.preemptions()
        setup.server.clock.seconds += LONGEST_PAUSE
    assert len(setup.writers.keys) == LATE_TIMES
    setup.alike = True
    setup.preemptions()
    assert len(setup.writers.keys) == LATE_TIMES + 1


def test_a_queue_whose_replicas_do_not_answer_alike_is_synced_again(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[tuple[str, QueueChange, float]] = []
    monkeypatch.setattr(
        setup.context.work_queue,
        "add_after",
        lambda queue, change, *, seconds: again.append((queue, change, seconds)),
    )
    setup.server.has({**member("work", "vision"), "status": waits("Insufficient cpu")})
    setup.alike = False
    for _ in range(2):
        setup.preemptions()
        setup.server.clock.seconds += 2.0
    assert again == [("vision", QueueChange.MEMBERS, seconds) for seconds in (2.0, 4.0)]


def test_a_retry_that_fails_is_made_again_for_every_queue() -> None:
    writers = BusyWrites()
    setup = Setup(writers)
    for name in ("q-1", "q-2"):
        setup.server.has(queue(name), {**member(name, name), "status": waits("Insufficient cpu")})
        setup.preemptions(name)
    for count in (1, 2, 3):  # the first is for q-1 alone, since it had begun before q-2 asked
        assert len(writers.keys) == count
        writers.finish(ok=False)
        setup.pass_results_on()
        setup.server.clock.seconds += 1.0
        setup.preemptions("q-2")
