"""`kubectl queue why` of who may read a queue, and not all of those above it: by the status of the queue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object
from tests.kubectl_queue.why.test_why_of_users import EVENTS, WEB, says
from tests.kubectl_queue.why.test_why_room import DEPLOYMENT, OURS, PODS, pod
from tests.support.cases import each_case
from tests.support.plugin.harness import StoredObjects, StoredQueues, item, run_command

HELD = 'queue "vision" is held by its ancestor "root" (all): an admin of queues can resume it'
CLOSED = 'queue "vision" is Closed by its ancestor "root" and takes no new work'
UNREAD = 'you may not read queue "root" above it: this is what'


def conditions(*, active: str = "True", accepting: str = "True", at: int = 1) -> list[Object]:
    found = (("Active", active, HELD), ("Accepting", accepting, CLOSED))
    return [
        {"type": kind, "status": status, "reason": "x", "message": text, "observedGeneration": at}
        for kind, status, text in found
    ]


def lead_of(name: str, *items: Object) -> type[StoredQueues]:
    """Queues of which one may be got, and none listed."""

    class LeadQueues(StoredQueues):
        def __init__(self) -> None:
            super().__init__(*items)

        def list(self, *, selector: str = "", name: str = "") -> Any:
            raise ForbiddenError("queues is forbidden", code=403)

        def get(self, asked: str) -> Object:
            if asked != name:
                raise ForbiddenError(f'queues "{asked}" is forbidden', code=403)
            return super().get(asked)

    return LeadQueues


def vision(
    *, state: str = "Open", stop: Object | None = None, at: int = 1, **spec: Any
) -> type[StoredQueues]:
    told = {key: spec.pop(key) for key in ("active", "accepting") if key in spec}
    used = spec.pop("used", None)
    status: dict[str, Any] = {
        "state": state,
        "observedGeneration": at,
        "conditions": conditions(at=at, **told),
    }
    if stop is not None:
        status["stop"] = stop
    if used is not None:
        status["quota"] = {"used": used, "waiting": 1}
    return lead_of("vision", item("vision", parent="root", status=status, **spec), item("root"))


def why(*words: str, queues: type[StoredQueues], pods: tuple[Object, ...] = ()) -> str:
    stored: dict[str, Object] = {f"{OURS}/{each['metadata']['name']}": each for each in pods}
    stored |= {OURS: {"items": list(pods)}, WEB: DEPLOYMENT, EVENTS: {"items": []}}
    client = StoredObjects(stored, forbidden=(PODS,))
    done = run_command(queues(), "why", *words, "--namespace=team", client=client)
    assert done.code == 0, done.err
    return done.out


@each_case(
    ("queues", "first", "states"),
    [
        (
            vision(),
            'by its status queue "vision" schedules its pods and takes new work',
            ("Open", "not known"),
        ),
        (vision(active="False"), HELD, ("Open", "not known")),
        (vision(active="False", state="Suspended"), HELD, ("Suspended", "not known")),
        (vision(active="Unknown"), HELD, ("Open", "not known")),
        (
            vision(stop={"chain": []}),
            'queue "vision" is stopped, which is not acknowledged yet',
            ("Open", "not known"),
        ),
        (vision(accepting="False", state="Closing"), CLOSED, ("Closing", "not known")),
        (
            vision(at=0),
            'queue "vision" is not stopped itself; queue "root" above it, which you may not read, is not '
            "known",
            ("not known", "not known"),
        ),
        (
            vision(at=0, stopPolicy="Hold", active="False"),
            'queue "vision" is stopped by stopPolicy Hold',
            ("not known", "not known"),
        ),
    ],
    ids=["schedules", "held", "suspended", "not asked", "pending", "closed above", "not known", "own stop"],
)
def test_a_queue_under_one_that_may_not_be_read_is_what_its_status_says(
    queues: type[StoredQueues], first: str, states: tuple[str, str]
) -> None:
    lines = why("vision", queues=queues).splitlines()
    assert lines[0] == first
    chain = next(at for at, line in enumerate(lines) if line.startswith("Chain:"))
    for line, name, state in zip(lines[chain : chain + 2], ("vision", "root"), states, strict=True):
        assert f" {name} " in line
        assert line.split(name)[1].strip().startswith(state), line
    assert lines[chain + 1].endswith("you may not read it")
    told = json.loads(why("vision", "-ojson", queues=queues))
    assert [told["chain"][1][key] for key in ("state", "desired", "stopPolicy")] == [None] * 3
    assert told["chain"][1]["unread"] is True


def test_a_stop_of_the_queue_itself_has_its_way_out() -> None:
    text = why("vision", queues=vision(at=0, stopPolicy="Hold"))
    assert "Let go by:   kubectl queue resume vision\n" in text


ROOM = (
    'queue "vision" has no room for this pod now: the capability of its ancestor "root" is used; '
    "it goes when others end, or an admin of queues raises it"
)


@pytest.mark.parametrize("target", ["deployment/web", "pod/work"])
def test_work_of_a_queue_that_its_status_says_is_stopped_is_stopped(target: str) -> None:
    text = why(target, queues=vision(active="False"), pods=(pod("work"),))
    assert text.partition("\n")[0].endswith(f" waits: {HELD}")
    assert f'{UNREAD} the status of queue "vision" says\n' in f"{text}\n"


@pytest.mark.parametrize("at", [0, 1])
def test_a_pod_that_says_that_it_is_stopped_is(at: int) -> None:
    """Its queue's status may be older."""
    gated = pod("work", schedulingGates=[{"name": "sluice.dev/queue"}])
    waits = says(gated, HELD)
    waits["metadata"]["managedFields"] = [
        {
            "manager": "sluice",
            "operation": "Update",
            "subresource": "status",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:status": {"f:conditions": {'k:{"type":"PodScheduled"}': {".": {}, "f:message": {}}}}
            },
        }
    ]
    text = why("pod/work", queues=vision(at=at), pods=(waits,))
    assert text.startswith(f"Pod team/work waits: {HELD}\n")
    assert f"{UNREAD} it says itself\n" in f"{text}\n"


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(
    ("target", "start"),
    [("deployment/web", "is not stopped, and 1 pod of it waits for room"), ("pod/work", "waits for room")],
)
def test_what_lacks_above_is_what_the_pod_says(target: str, start: str, at: int) -> None:
    text = why(target, queues=vision(at=at), pods=(says(pod("work"), ROOM),))
    said = 'queue "vision" has no room: the capability of its ancestor "root" is used'
    assert text.partition("\n")[0].endswith(f"{start}: {said}")
    assert 'how much is missing, and who holds it: you may not read queue "root"\n' in text
    assert "Let go by:   it goes when others end, or an admin of queues raises it\n" in text


def test_what_lacks_in_a_queue_that_was_read_has_its_amounts() -> None:
    queues = vision(capability={"cpu": "2"}, used={"cpu": "2"})
    text = why("deployment/web", queues=queues, pods=(says(pod("work"), ROOM),))
    assert (
        'No room in:  queue "vision": cpu 2 of 2 is used, it requests 1, and 1 of that is missing\n' in text
    )


@each_case(
    ("target", "at", "first"),
    [
        (
            "deployment/web",
            1,
            'Deployment team/web is held back by no queue: by its status queue "vision" schedules its pods '
            "and takes new work",
        ),
        (
            "pod/work",
            1,
            'Pod team/work waits, but not for its queue: by its status queue "vision" schedules its pods',
        ),
        (
            "pod/work",
            0,
            'Pod team/work is of queue "vision", which is not stopped itself; queue "root" above it, which '
            "you may not read, is not known",
        ),
    ],
)
def test_that_nothing_stops_work_is_said_of_what_is_known_alone(target: str, at: int, first: str) -> None:
    nodes = says(
        pod("work", schedulingGates=[]), "0/3 nodes are available: 3 Insufficient cpu.", "Unschedulable"
    )
    assert why(target, queues=vision(at=at), pods=(nodes,)).partition("\n")[0] == first


def test_more_of_work_whose_queue_is_closed_above_is_refused() -> None:
    text = why("deployment/web", queues=vision(accepting="False"))
    assert text.partition("\n")[0].endswith(f"are refused: {CLOSED}")


@pytest.mark.parametrize(
    ("at", "first"),
    [
        (1, 'waits for room: queue "vision" has a quota, and is not stopped'),
        (
            0,
            'is of queue "vision", which is not stopped itself; queue "root" above it, which',
        ),
    ],
)
def test_a_pod_that_says_nothing_yet_waits_for_room_where_the_status_says_that_its_queue_schedules(
    at: int, first: str
) -> None:
    text = why("pod/work", queues=vision(at=at), pods=(pod("work"),))
    assert text.startswith(f"Pod team/work {first}")
