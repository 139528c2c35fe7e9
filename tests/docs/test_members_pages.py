"""The pages on members, closing and PodGroups say what the code does, cell by cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import msgspec

import queues.status.podgroup_conditions
from cluster.objects import WorkloadObject
from queues import workload_kinds as kinds_module
from queues.admission import accepted_work as accepting
from queues.admission.accepted_work import WorkOwner, is_accepted_work
from queues.membership import Membership, MembershipSettings, PodFacts, submitted_pod_membership
from queues.status.podgroup_conditions import UNSCHEDULABLE
from queues.status.podgroup_phases import (
    POPULATED,
    SCHEDULED,
    Phase,
    PodTally,
    derive_phase,
)
from queues.workload_kinds import KINDS, WorkloadKind
from queues.world.workloads import is_live, pod_templates
from tests.support.docs.pages import (
    Row,
    read,
    tables_of,
    text_of,
    yes,
)
from webhooks.settings import AdmissionSettings

PAGE = text_of("concepts/members.md", "concepts/closing.md", "reference/podgroups.md")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def tables(section: str) -> list[list[Row]]:
    return tables_of(PAGE, section)


#: By the words of the page: what a pod says of itself so, and the queue that it is in by that.
NAMING: dict[str, tuple[dict[str, Any], str]] = {
    "annotation `scheduling.k8s.io/group-name`: the queue of that PodGroup": (
        {"annotations": {"scheduling.k8s.io/group-name": "gang"}},
        "of-gang",
    ),
    "annotation `scheduling.volcano.sh/queue-name`": (
        {"annotations": {"scheduling.volcano.sh/queue-name": "a"}},
        "a",
    ),
    "label or annotation `volcano.sh/queue-name`": (
        {"labels": {"volcano.sh/queue-name": "b"}, "annotations": {"volcano.sh/queue-name": "c"}},
        "b",
    ),
    "label `kueue.x-k8s.io/queue-name`, where that is switched on": (
        {"labels": {"kueue.x-k8s.io/queue-name": "d"}},
        "d",
    ),
    "annotation `scheduling.volcano.sh/queue-name` on its namespace": ({"namespace_queue": "e"}, "e"),
    "`schedulerName: volcano`: queue `default`": ({"scheduler": "volcano"}, "default"),
}


def pod_of(said: list[str]) -> PodFacts:
    """A pod that names its queue in each of these ways."""
    told: dict[str, Any] = {"labels": {}, "annotations": {}, "scheduler": "default-scheduler"}
    for one in said:
        for key, value in NAMING[one][0].items():
            told[key] = {**told[key], **value} if isinstance(value, dict) else value
    return PodFacts(namespace="team", **told)


def test_what_names_a_pods_queue_comes_in_its_order() -> None:
    """With each row and all below it, the row wins; with none of them the pod is in no queue."""
    rows = tables("Members")[0]
    assert [row[0] for row in rows] == list(NAMING)
    for number, (where, name) in enumerate(rows):
        found = judged([row[0] for row in rows[number:]])
        assert found is not None
        assert (found.source, found.queue) == (name, NAMING[where][1])
    assert judged([]) is None


def judged(said: list[str]) -> Membership | None:
    return submitted_pod_membership(
        pod_of(said), rules=MembershipSettings(kueue=True), podgroup=lambda _where, name: f"of-{name}"
    )


def ended(*types: str) -> list[dict[str, Any]]:
    return [{"status": {"conditions": [{"type": one, "status": "True"}]}} for one in types]


def at_phases(*phases: str) -> list[dict[str, Any]]:
    return [{"status": {"state": {"phase": one}}} for one in phases]


NEW: list[dict[str, Any]] = [{}, {"spec": {"replicas": 3}}, *ended("Suspended"), *at_phases("Running")]
#: By the words of the page: those that are live, and those that are not.
LIVE: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "neither Complete nor Failed": (NEW, ended("Complete", "Failed")),
    "neither Completed nor Failed": (NEW, ended("Completed", "Failed")),
    "not Completed, Failed or Terminated": (NEW, at_phases("Completed", "Failed", "Terminated")),
    "it wants replicas": (NEW, [{"spec": {"replicas": 0}}]),
    "never: its Jobs are": ([], NEW),
    "never: its pods are": ([], NEW),
}
_TEMPLATE: dict[str, Any] = {"metadata": {}, "spec": {}}
PLACES: dict[str, Any] = {
    "spec.template": _TEMPLATE,
    "spec.jobTemplate": {"spec": {"template": _TEMPLATE}},
    "spec.tasks": [{"template": _TEMPLATE}],
    "spec.replicatedJobs": [{"template": {"spec": {"template": _TEMPLATE}}}],
}


def workload(**parts: Any) -> WorkloadObject:
    return msgspec.convert({"metadata": {"name": "w"}, **parts}, WorkloadObject)


def kinds() -> Iterator[tuple[Row, WorkloadKind]]:
    return zip(tables("Kinds of workloads")[0], KINDS.values(), strict=True)


def test_each_kind_of_workload_has_its_row() -> None:
    """Which it is, whether its definition is always there, whether it moves, and whether it is an owner."""
    for row, kind in kinds():
        assert row[:2] == [kind.kind, kind.group]
        assert row[4:] == [
            yes(kind.answers_for_children),
            yes(not kind.immutable),
            "if installed" if kind.optional else "always",
        ]


def test_each_kind_has_its_templates_where_the_page_says() -> None:
    """Where the code finds one; that this kind has it there is from the code's own table."""
    rules = kinds_module.__doc__ or ""
    for row, kind in kinds():
        place = row[2].removeprefix("spec.")
        assert len(pod_templates(workload(spec={place: PLACES[row[2]]}))) == 1
        assert re.search(rf"^{kind.kind} +{kind.group} +{re.escape(row[2])} +{row[3]}$", rules, re.MULTILINE)


def test_each_kind_is_live_while_the_page_says() -> None:
    """In states that each kind's own controller writes."""
    for row, kind in kinds():
        live, done = LIVE[row[3]]
        assert all(is_live(kind, workload(**parts)) for parts in live), row
        assert not any(is_live(kind, workload(**parts)) for parts in done), row


OWNER = WorkOwner(kind="Deployment", name="web", queue="it", created=NOW - SECOND)
BY_A_USER = OWNER if AdmissionSettings().is_controller("ann") else None
#: By the words of the page: what is asked, and what the answer has to be for each.
TAKEN: dict[str, list[dict[str, Any]]] = {
    "of an owner made before, still live": [{}, {"owner": msgspec.structs.replace(OWNER, created=NOW)}],
    "of an owner that we admitted ourselves": [
        {"owner": msgspec.structs.replace(OWNER, created=NOW + SECOND, admitted=True)}
    ],
    "of another owner made later": [{"owner": msgspec.structs.replace(OWNER, created=NOW + SECOND)}],
    "of an owner of another queue, or of none": [
        {"owner": msgspec.structs.replace(OWNER, queue=queue)} for queue in ("other", "")
    ],
    "of an owner that is finished": [{"owner": msgspec.structs.replace(OWNER, live=False)}],
    "that a user gave such an owner": [{"owner": BY_A_USER}],
    "any, once the queue is Closed": [{"closed": True}],
}


def test_accepted_work_is_what_the_code_takes() -> None:
    """Row by row as the code's own table has it, and as the code answers."""
    rows = tables("What a queue that does not accept still takes")[0]
    assert [read(accepting.__doc__ or "")[0]] == [rows]
    assert [row[0] for row in rows] == list(TAKEN)
    for what, answer in rows:
        for case in TAKEN[what]:
            told = {"owner": OWNER, "closed": False, **case}
            taken = is_accepted_work(told["owner"], queue="it", refusing_since=NOW, closed=told["closed"])
            assert yes(taken) == answer.partition(":")[0], what


PHASES: dict[str, Callable[[PodTally, int, bool, bool], bool]] = {
    "none of its pods is left to run, at least `minMember` of them are done": lambda pods, least, *_: (
        not pods.waiting and not pods.running and pods.done >= least
    ),
    "at least `minMember` of its pods run or are done": lambda pods, least, *_: (
        pods.running + pods.done >= least
    ),
    "some run, but fewer": lambda pods, *_: pods.running > 0,
    "its queue schedules, and what it asks for has room in the quotas": lambda _, __, schedules, room: (
        schedules and room
    ),
    "otherwise": lambda *_: True,
}


def test_each_phase_of_a_podgroup_has_its_row() -> None:
    """The first that holds is the phase, for all groups of up to two pods of each sort."""
    rows = tables("Phases of PodGroups")[0]
    assert [row[0] for row in rows] == list(PHASES)
    assert {row[1] for row in rows} == {one.value for one in Phase}
    for waiting, running, succeeded, failed, least, schedules, room in product(
        range(3), range(3), range(3), range(3), range(1, 4), (False, True), (False, True)
    ):
        pods = PodTally(waiting=waiting, running=running, succeeded=succeeded, failed=failed)
        told = next(row[1] for row in rows if PHASES[row[0]](pods, least, schedules, room))
        found = derive_phase(pods=pods, least=least, schedules=schedules, before=Phase.PENDING, has_room=room)
        assert told == found


def test_the_conditions_of_podgroups_are_the_controllers() -> None:
    """In the words of the code's own table."""
    rows = tables("Phases of PodGroups")[1]
    assert rows == read(queues.status.podgroup_conditions.__doc__ or "")[0]
    assert {row[0] for row in rows} == {SCHEDULED, UNSCHEDULABLE, POPULATED, ""}
