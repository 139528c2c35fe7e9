"""Which scheduling policy counts: what admission, queues, events and metrics say of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Answer, Object
from tests.support.e2e.objects import condition, queue_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.plugin.harness import plugin_in_process

NAMESPACE, NAME = "volcano-system", "volcano-scheduler-configmap"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/sluice"
GOOD = "actions: allocate, backfill\ntiers: [{}]\n"
PACKING = "actions: allocate, backfill\ntiers:\n- plugins:\n  - name: binpack\n"
BAD = "actions: allocate, backfill\ntiers:\n- plugins:\n  - nme: binpack\n"
WRONG = 'line 4: a plugin has no name; write "- name: binpack"'
SCORED = "sluice.dev/scored"
#: Of statuses of queues.
WRITES = r'sluice_writes_total{outcome="done",what="(?:status|counts)"}'
#: Queues that one change of a policy concerns.
MANY = 1_000


class PolicyConfigMap:
    """The ConfigMap with the policies."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._home = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        sandbox.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).must(201, 409)

    def create(self, name: str = NAME, *, namespace: str = NAMESPACE, **texts: str) -> Answer:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": _data(texts)}
        return self.sandbox.api.create(f"/api/v1/namespaces/{namespace}/configmaps", body)

    def set(self, **texts: str | None) -> Answer:
        """Change these keys; None: remove it."""
        return self.sandbox.api.patch(f"{self._home}/{NAME}", {"data": _data(texts)})

    def delete(self) -> Answer:
        return self.sandbox.api.delete(f"{self._home}/{NAME}")

    def resolved(self, queue: str, status: str, reason: str) -> Object:
        """The condition of the queue once it has this status and reason."""
        found = self.sandbox.queue_that(
            queue, f"have its policy {reason}", lambda read: _resolution(read) == (status, reason)
        )
        return condition(found, "PolicyResolved")

    def absent(self, queue: str) -> None:
        """Return once the queue has no such condition."""
        self.sandbox.queue_that(queue, "have no policy", lambda read: _resolution(read) == ("", ""))


def _data(texts: dict[str, str] | dict[str, str | None]) -> dict[str, str | None]:
    return {{"common": "volcano-scheduler.conf"}.get(key, key): text for key, text in texts.items()}


def _resolution(queue: Object) -> tuple[str, str]:
    conditions = queue.get("status", {}).get("conditions", [])
    return next(
        ((one["status"], one["reason"]) for one in conditions if one["type"] == "PolicyResolved"), ("", "")
    )


@pytest.fixture
def config_map(served_cluster: LocalCluster) -> Iterator[PolicyConfigMap]:
    sandbox = Sandbox(served_cluster)
    made = PolicyConfigMap(sandbox)
    yield made
    made.delete().must(200, 404)
    sandbox.clear()
    sandbox.close()


@pytest.fixture
def unchecked(config_map: PolicyConfigMap) -> Iterator[Callable[[], None]]:
    """Has the API server ask nobody about policies, until the end of the test."""
    api = config_map.sandbox.api
    hooks = api.get(HOOKS).must().body["webhooks"]

    def remove() -> None:
        others = [one for one in hooks if one["name"] != "policies.sluice.dev"]
        assert len(others) == len(hooks) - 1
        api.patch(HOOKS, {"webhooks": others}).must()
        # It takes the API server a moment to know.
        until(lambda: config_map.create(broken=BAD).status == 201, "policies to be taken unchecked")
        config_map.delete().must()

    yield remove
    api.patch(HOOKS, {"webhooks": hooks}).must()
    tries = itertools.count()  # a text that is stored already is not refused

    def is_checked() -> bool:
        return config_map.set(broken=f"{BAD}# {next(tries)}\n").status in (404, 422)

    until(is_checked, "policies to be checked again")


def _text(answer: Answer) -> str:
    return " ".join(answer.warnings)


def test_a_text_that_is_no_policy_is_refused_and_other_configmaps_are_nobodys_business(
    config_map: PolicyConfigMap,
) -> None:
    config_map.create(common=BAD, packed=BAD, other="x: [").must_refuse(
        f'key "packed", {WRONG}', 'key "volcano-scheduler.conf"'
    )
    assert "nothing" in _text(config_map.create(common=GOOD, packed=PACKING + "nothing: 1\n").must())
    config_map.set(packed=BAD).must_refuse(WRONG)
    assert config_map.set(other="x: [").must().warnings == ()
    assert config_map.set(packed=PACKING).must().warnings == ()
    assert config_map.create("another", packed=BAD).must().warnings == ()
    assert config_map.create(namespace=config_map.sandbox.namespace, packed=BAD).must().warnings == ()
    config_map.sandbox.api.delete(f"/api/v1/namespaces/{NAMESPACE}/configmaps/another").must()


def test_a_queue_says_which_policy_counts_as_policies_come_and_go(config_map: PolicyConfigMap) -> None:
    sandbox = config_map.sandbox
    team = sandbox.named("team")
    sandbox.queue("team")
    config_map.absent(team)
    below, named = sandbox.queue("below", parent=team), sandbox.named("named")
    answer = sandbox.api.create(QUEUES, queue_body(named, schedulerPolicy="packed")).must(201)
    sandbox.queue_names.append(named)
    text = 'no policy "packed" is known yet; no policy counts; see: kubectl queue policy list'
    assert answer.warnings == (f"spec.schedulerPolicy: {text}",)
    assert "no policy counts" in config_map.resolved(named, "False", "NotFound")["message"]
    assert "PolicyResolvedFalse" in sandbox.event(named, "Warning", "PolicyResolved", namespace="default")

    config_map.create(packed=PACKING, spread=GOOD).must()
    found = config_map.resolved(named, "True", "Own")
    assert found["message"] == 'policy "packed" counts, which the queue names'
    assert found["observedGeneration"] == 1
    sandbox.event(named, "Normal PolicyResolvedTrue", namespace="default")
    sandbox.patch_queue(team, schedulerPolicy="spread").must()
    config_map.resolved(team, "True", "Own")
    assert f'the ancestor "{team}" names' in config_map.resolved(below, "True", "Ancestor")["message"]

    gone = _text(config_map.set(spread=None).must())
    assert f'policy "spread" goes, which queue "{team}" names' in gone
    config_map.resolved(team, "False", "NotFound")
    config_map.set(common=GOOD).must()
    config_map.resolved("default", "True", "Global")
    assert "name policies of this ConfigMap" in _text(config_map.delete().must()).replace("names", "name")
    config_map.absent("default")
    config_map.resolved(named, "False", "NotFound")


def test_a_broken_policy_leaves_the_last_good_one_and_says_so(
    config_map: PolicyConfigMap, unchecked: Callable[[], None]
) -> None:
    unchecked()
    sandbox = config_map.sandbox
    config_map.create(packed=PACKING).must()
    queue = sandbox.queue("research", schedulerPolicy="packed")
    config_map.resolved(queue, "True", "Own")
    assert _is_scored(sandbox, queue)
    read_at = sandbox.counted("sluice_policies_last_good_read_timestamp_seconds")
    assert read_at > 0

    config_map.set(packed=BAD).must()
    message = config_map.resolved(queue, "False", "Invalid")["message"]
    assert message.startswith(f'policy "packed", {WRONG}; the last good text of policy "packed" counts')
    sandbox.event(queue, "Warning PolicyResolvedFalse", WRONG, namespace="default")
    assert _counts(sandbox) == (0, 1)
    assert _is_scored(sandbox, queue)  # only a policy that scores brings that
    assert sandbox.counted("sluice_policies_last_good_read_timestamp_seconds") == read_at

    config_map.set(packed=PACKING + "# mended\n").must()
    config_map.resolved(queue, "True", "Own")
    sandbox.event(queue, "Normal PolicyResolvedTrue", namespace="default")
    assert _counts(sandbox) == (1, 0)


FOREIGN = (
    "actions: enqueue, elect, allocate, backfill\n"
    "tiers: [{plugins: [{name: acme-npu}, {name: oversubscription}, {name: sla}, {name: numa-aware}]}]\n"
)
UNKNOWN = "action elect and plugins acme-npu, oversubscription are not known here and passed over"
IDLE = "plugins sla, numa-aware do nothing here"


def test_names_that_are_not_known_void_no_policy_and_are_said_where_it_is_written_and_read(
    config_map: PolicyConfigMap,
) -> None:
    sandbox = config_map.sandbox
    queue = sandbox.queue("research", schedulerPolicy="foreign")
    written = config_map.create(foreign=FOREIGN, notes="a=b").must()
    assert written.warnings == (f'key "foreign", {UNKNOWN}', f'key "foreign", {IDLE}')
    config_map.resolved(queue, "True", "Own")
    assert _counts(sandbox) == (1, 0)
    for text in (UNKNOWN, IDLE):
        sandbox.event(NAME, "Normal PolicyPartsIgnored", f'policy "foreign": {text}', namespace=NAMESPACE)
    status = _status(sandbox, f'policy "foreign": {IDLE}')
    assert f'policy "foreign": {UNKNOWN}' in status.partition("Notes:")[2]
    assert "Problems:    none" in status


def test_a_policy_that_is_void_and_one_that_is_misplaced_are_problems_that_everybody_sees(
    config_map: PolicyConfigMap, unchecked: Callable[[], None]
) -> None:
    """Stored while nobody checked it, so that there is no last good text: for each queue that it is for."""
    unchecked()
    sandbox = config_map.sandbox
    queue = sandbox.queue("research")
    config_map.create(common="actions: allocate, backfill\n").must()
    why = "line 1: tiers is missing or empty"
    for name in (queue, "default"):
        assert why in config_map.resolved(name, "False", "Invalid")["message"]
    assert _counts(sandbox) == (0, 1)
    sandbox.event(NAME, "Warning PolicyProblem", why, namespace=NAMESPACE)
    status = _status(sandbox, why)
    assert "no policy counts for queues that name none" in status.partition("Problems:")[2]

    config_map.set(common=None, **{"default-scheduler.conf": GOOD}).must()
    config_map.absent(queue)
    misplaced = 'the one under "default-scheduler.conf" counts only for queues that name it'
    assert misplaced in _status(sandbox, misplaced).partition("Problems:")[2]
    sandbox.event(NAME, "Warning PolicyProblem", misplaced, namespace=NAMESPACE)


def _status(sandbox: Sandbox, awaited: str) -> str:
    """What `kubectl queue status` prints, once it says so: replicas report with their next renewal."""
    shown: list[str] = []

    def says() -> bool:
        shown.append(plugin_in_process("status", kubeconfig=sandbox.cluster.client_kubeconfig).stdout)
        return awaited in shown[-1]

    until(says, f"status to say {awaited}")
    return shown[-1]


def _is_scored(sandbox: Sandbox, queue: str) -> bool:
    made = sandbox.pod("work", queue, dry=True, cpu="1").must(201).body
    requests = made["spec"]["containers"][0].get("resources", {}).get("requests", {})
    return SCORED in requests


def _counts(sandbox: Sandbox) -> tuple[float, float]:
    """How many policies are good, and how many are broken."""
    good, broken = (sandbox.counted(rf'sluice_policies{{state="{state}"}}') for state in ("ok", "broken"))
    return good, broken


@pytest.mark.long
def test_a_change_shows_on_a_thousand_queues_and_delays_no_stop(config_map: PolicyConfigMap) -> None:
    sandbox = config_map.sandbox
    names = [sandbox.named(f"many-{number}") for number in range(MANY)]
    sandbox.make_queues(map(queue_body, names))
    until(lambda: all(map(_is_known, _listed(sandbox))), "a thousand queues to be answered", seconds=300)
    before = sandbox.counted(WRITES)

    began = time.monotonic()
    config_map.create(common=PACKING).must()
    until(lambda: all(_is_scored(sandbox, name) for name in (names[0], names[-2])), "it to count", share=0)
    in_effect = time.monotonic() - began
    sandbox.suspend(names[-1])
    stopped = time.monotonic() - began - in_effect
    until(
        lambda: sandbox.counted(WRITES) - before >= MANY,
        "a write for each",
        seconds=300,
        share=0,
    )
    written = time.monotonic() - began
    until(
        lambda: {_resolution(each) for each in _listed(sandbox)} == {("True", "Global")},
        "each queue to have the policy",
        seconds=300,
    )
    print(f"in effect after {in_effect:.2f} s, shown on {MANY} queues after {written:.2f} s")
    print(f"a stop meanwhile was acknowledged after {stopped:.2f} s")
    sandbox.patch_queue(names[-1], state="Open").must()


def _listed(sandbox: Sandbox) -> list[Object]:
    return list(sandbox.api.get(QUEUES).must().body["items"])


def _is_known(queue: Object) -> bool:
    return bool(queue.get("status", {}).get("observedGeneration"))
