"""Whether a replica answers and leads, by the Leases that the user may read."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import cast

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.outages import ServerLeases, outage_of, read_outage
from kubectl_queue.access.replicas import LEADER
from kubectl_queue.objects.fields import Object
from kubectl_queue.views.outage import Outage, OutageKind, lost_text, outage_text
from tests.support.cases import each_case
from tests.support.plugin.harness import NOW, StoredObjects, StoredQueues, item, run_command

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
OURS = LEASES.format("sluice-system")
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
#: Of a replica that renews its Lease, and of one that was killed.
FRESH, OLD, OLDER = 1.0, 60.0, 90.0
NOBODY, NONE_LEADS = OutageKind.NO_REPLICA, OutageKind.NO_LEADER


def lease(name: str, *, age: float, holder: str = "") -> Object:
    metadata = {"name": name, "annotations": {"sluice.dev/seen": json.dumps({"seen": 7})}}
    renewed = (NOW - timedelta(seconds=age)).isoformat()
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 6}
    return {"metadata": metadata, "spec": spec}


def replica(name: str = "a", *, age: float) -> Object:
    return lease(f"sluice-replica-{name}", age=age, holder=name)


def leader(age: float) -> Object:
    return lease(LEADER, age=age, holder="a")


def lost(kind: OutageKind, age: float | None, *, assumed: str = "") -> Outage:
    return Outage(kind, None if age is None else NOW - timedelta(seconds=age), assumed)


@each_case(
    ("led", "replicas", "outage"),
    [
        (leader(FRESH), [replica(age=FRESH)], None),
        (leader(FRESH), None, None),
        (leader(FRESH), [], None),
        (leader(OLD), [replica(age=FRESH)], lost(NONE_LEADS, OLD)),
        (leader(OLDER), [replica(age=OLD), replica("b", age=OLDER)], lost(NOBODY, OLD)),
        (leader(OLD), [], lost(NOBODY, OLD)),
        (leader(OLD), None, lost(NONE_LEADS, OLD)),
        (None, [replica(age=FRESH)], lost(NONE_LEADS, None)),
        (None, [replica(age=OLD)], lost(NOBODY, OLD)),
        (None, [], None),
        (None, None, None),
        (leader(OLD), [lease("sluice-replica-x", age=-9999, holder="x")], lost(NOBODY, OLD)),
    ],
)
def test_what_the_leases_say(
    led: Object | None, replicas: list[Object] | None, outage: Outage | None
) -> None:
    assert outage_of(ServerLeases(led, replicas), now=NOW) == outage


def read(objects: dict[str, Object], *, forbidden: Collection[str] = ()) -> Outage | None:
    return read_outage(cast(ApiClient, StoredObjects(objects, forbidden=forbidden)))


def test_where_leases_may_not_be_listed_the_leaders_alone_is_read() -> None:
    stored = {OURS: {"items": [leader(OLD)]}, f"{OURS}/{LEADER}": leader(OLD)}
    assert read(stored) == lost(NOBODY, OLD)
    assert read(stored, forbidden=[OURS]) == lost(NONE_LEADS, OLD)
    assert read(stored, forbidden=[OURS, f"{OURS}/{LEADER}"]) is None


BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/sluice"
MUTATING = HOOKS.replace("validating", "mutating")
UNREAD = (HOOKS, MUTATING, BINDING)
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def registered(*namespaces: str) -> dict[str, Object]:
    """Webhooks that call Services there."""
    entries = [{"name": each, "clientConfig": {"service": {"namespace": each}}} for each in namespaces]
    return {HOOKS: {"items": [{"metadata": {"name": "sluice"}, "webhooks": entries}]}}


def entitled(namespace: str) -> dict[str, Object]:
    subject = {"kind": "ServiceAccount", "name": "sluice", "namespace": namespace}
    return {BINDING: {"roleRef": {"name": "sluice"}, "subjects": [subject]}}


def written(age: float, *, manager: str = "sluice", subresource: str = "status") -> dict[str, Object]:
    """A queue that was written by then."""
    at = (NOW - timedelta(seconds=age)).isoformat()
    entry = {"manager": manager, "subresource": subresource, "time": at}
    return {QUEUES: {"items": [{"metadata": {"name": "q", "managedFields": [entry]}}]}}


LEFT = {OURS: {"items": [leader(9_000), replica(age=9_000)]}}
THERE = LEASES.format("elsewhere")


@each_case(
    ("objects", "forbidden", "outage"),
    [
        ({**registered("elsewhere"), THERE: {"items": [leader(FRESH)]}}, [], None),
        ({**registered("elsewhere"), THERE: {"items": [leader(OLD)]}}, [], lost(NOBODY, OLD)),
        ({**registered("elsewhere"), THERE: {"items": []}}, [], None),
        ({**registered("elsewhere", "sluice-system"), THERE: {"items": [leader(FRESH)]}}, [], None),
        ({**entitled("elsewhere"), THERE: {"items": [leader(FRESH)]}}, [], None),
        ({**entitled("elsewhere"), THERE: {"items": [leader(FRESH)]}}, [HOOKS, MUTATING], None),
        (
            {**registered("elsewhere"), **entitled("sluice-system"), THERE: {"items": [leader(FRESH)]}},
            [],
            None,
        ),
        (registered("sluice-system"), [], lost(NOBODY, 9_000)),
        (written(60), UNREAD, None),
        (written(60, manager="kubectl"), UNREAD, lost(NOBODY, 9_000, assumed="sluice-system")),
        (written(60, subresource=""), UNREAD, lost(NOBODY, 9_000, assumed="sluice-system")),
        (written(8_999), UNREAD, lost(NOBODY, 9_000, assumed="sluice-system")),
    ],
)
def test_leases_that_a_former_installation_left_are_no_outage(
    objects: dict[str, Object], forbidden: Collection[str], outage: Outage | None
) -> None:
    """The registration says where the server is. Who may not read it goes by what was written since."""
    assert read({**LEFT, **objects}, forbidden=forbidden) == outage


def test_a_sentence_names_the_namespace_where_it_may_not_be_read_which_one_is_the_servers() -> None:
    text = lost_text(lost(NOBODY, OLD, assumed="sluice-system"), now=NOW)
    assert text == (
        'no replica of Sluice answers in namespace "sluice-system" since 2030-01-01T11:59:00Z (60s ago), and '
        "you may not read whether it runs in another one"
    )


def test_the_text_says_since_when_and_what_to_do() -> None:
    text = outage_text(lost(NOBODY, OLD), now=NOW)
    assert text.startswith("no replica of Sluice answers since 2030-01-01T11:59:00Z (60s ago): statuses are")
    assert text.endswith("; what to do: docs/operating/outages.md")
    assert lost_text(lost(NONE_LEADS, None), now=NOW) == "no replica of Sluice leads"


def away() -> StoredObjects:
    return StoredObjects({OURS: {"items": [leader(OLD), replica(age=OLD)]}})


@each_case("words", [("list",), ("tree",), ("usage",), ("history", "q"), ("windows",), ("suspend", "q")])
def test_each_command_says_it_once(words: tuple[str, ...]) -> None:
    done = run_command(StoredQueues(item("q"), item("root")), *words, client=away())
    assert done.code == 0
    assert done.err.count("no replica of Sluice answers since") == 1


@each_case("words", [("list", "-ojson"), ("list", "-oname"), ("tree", "-oyaml")])
def test_programs_are_told_nothing_beside_their_document(words: tuple[str, ...]) -> None:
    done = run_command(StoredQueues(item("q"), item("root")), *words, client=away())
    assert "no replica" not in done.err


@each_case(
    ("objects", "forbidden", "is_said"),
    [
        ({}, [], True),
        (LEFT, [], True),
        (registered("elsewhere"), [], False),
        ({OURS: {"items": [leader(FRESH)]}}, [], False),
        ({}, [HOOKS], False),
    ],
)
def test_an_edit_that_nothing_acts_on_says_so(
    objects: dict[str, Object], forbidden: Collection[str], is_said: bool
) -> None:
    """After an uninstall, for example, while the queues are still there."""
    client = StoredObjects(objects, forbidden=forbidden)
    done = run_command(StoredQueues(item("q")), "suspend", "q", client=client)
    assert done.code == 0
    assert ("no webhook of Sluice is registered, and no replica leads" in done.err) is is_said


class Passing(StoredObjects):
    """Its clock goes on with each look."""

    looks = 0

    @property
    def now(self) -> datetime:  # type: ignore[override]
        self.looks += 1
        return NOW + timedelta(seconds=self.looks)


def test_a_wait_for_a_replica_is_one_line_where_progress_is_a_line_each() -> None:
    condition = {"type": "Active", "status": "False", "observedGeneration": 1, "reason": "Suspended"}
    chain = [{"name": "q", "generation": 1}, {"name": "root", "generation": 1}]
    status = {"state": "Suspended", "observedGeneration": 1, "conditions": [condition]}
    queue = item("q", state="Suspended", status={**status, "stop": {"chain": chain, "scope": "s"}})
    client = Passing({OURS: {"items": [leader(OLD), replica(age=OLD)]}, **registered("sluice-system")})
    done = run_command(
        StoredQueues(queue, item("root")), "suspend", "q", "--wait", "--timeout=1s", client=client
    )
    waits = [line for line in done.err.splitlines() if line.startswith('queue "q": ')]
    assert len(waits) == 1, done.err
    assert "it was acknowledged before the server was lost" in waits[0]
