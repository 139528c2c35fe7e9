"""A pod of a queue without a quota: the same requests, and the same bytes, as if there were no quotas."""

from __future__ import annotations

import json
from typing import Any

from queues.mode import Mode
from tests.support.cases import each_case
from tests.support.controller.controller_harness import ControllerHarness, GrantingBoundary, Sent
from tests.support.http.asking import Server
from tests.support.http.wire_objects import NAMED, Wire, member, pod, queue, review
from webhooks.settings import AdmissionSettings

GATE = "sluice.dev/queue"
POD = "/api/v1/namespaces/team/pods/work"
#: Beside the queue without a quota.
OTHERS: dict[str, list[Wire]] = {
    "no quota anywhere": [],
    "a quota elsewhere": [queue("limited", capability={"cpu": "1"})],
}
#: What the server sends of a pod that is created in a stopped queue, goes with the resume, runs and ends.
LIFE = [
    ("PATCH", f"{POD}/status"),
    ("POST", "/api/v1/namespaces/team/events"),
    ("PATCH", POD),
]


def life(*others: Wire) -> list[Sent]:
    """What is sent of the pod, and of its queue, in all its life. The book of quotas is for all of them."""
    server = ControllerHarness(GrantingBoundary())
    server.receive_events(queue("root", parent=""), queue("vision", state="Suspended"), *others)
    server.receive_events(member("work", "vision", gates=[GATE]))
    server.sync()
    server.receive_events(queue("vision", generation=2, version=60), event="MODIFIED")
    server.sync()
    for version, more in (
        (61, {}),
        (62, {"nodeName": "node-1"}),
        (63, {"nodeName": "node-1", "status": {"phase": "Succeeded"}}),
    ):
        server.receive_events(member("work", "vision", version=version, **more), event="MODIFIED")
        server.sync()
    server.receive_events(member("work", "vision", version=64), event="DELETED")
    server.sync()
    return [sent for sent in server.client.sent if not {"limited", "configmaps"} & {*sent.path.split("/")}]


def test_what_is_sent_of_a_pod_in_its_life_is_what_was_sent_before_there_were_quotas() -> None:
    sent = life()
    of_the_pod = [each for each in sent if each.path.startswith(POD) or _subject(each) == "work"]
    assert [(each.method, each.path) for each in of_the_pod] == LIFE
    ungated = {"metadata": {"uid": "uid-work"}, "spec": {"schedulingGates": None}}
    assert of_the_pod[-1].body == ungated


def test_a_quota_elsewhere_changes_no_request_and_no_byte() -> None:
    first, *others = (json.dumps([_bytes(each) for each in life(*beside)]) for beside in OTHERS.values())
    assert others == [first]


def _subject(sent: Sent) -> str:
    """Of an event: the object's name."""
    name: str = sent.body.get("involvedObject", {}).get("name", "")
    return name


def _bytes(sent: Sent) -> tuple[str, str, Any]:
    """Without the name and the times of an event, which differ each time."""
    if not sent.path.endswith("/events"):
        return sent
    said = {key: sent.body[key] for key in ("involvedObject", "reason", "message", "type")}
    return sent.method, sent.path, said


@each_case("mode", Mode)
@each_case("state", ["Open", "Suspended"])
def test_each_answer_about_a_pod_has_the_same_bytes(mode: Mode, state: str) -> None:
    first, *others = (answers(mode, state, *beside) for beside in OTHERS.values())
    assert others == [first]
    assert b"quota" not in b"".join(first)


def answers(mode: Mode, state: str, *beside: Wire) -> list[bytes]:
    """To the admission of a pod, to its edits, to a filter call and to its bind."""
    server = Server(terms=AdmissionSettings(mode=mode)).has(queue("vision", state=state), *beside)
    made = pod(annotations={NAMED: "vision"}, resources={"requests": {"cpu": "1"}})
    stored = member("work", "vision", gates=[GATE])
    ungated = member("work", "vision")
    asked: list[tuple[str, Any]] = [
        ("/mutate/pods", review(made)),
        ("/validate/pods", review(stored)),
        ("/validate/pods", review(ungated, old=stored, operation="UPDATE")),
        ("/validate/pods", review(ungated, old=ungated, operation="UPDATE", sub_resource="resize")),
        ("/validate/binds", review({}, resource="pods", sub_resource="binding", name="work")),
        ("/extender/filter", {"Pod": ungated, "NodeNames": ["node-1"], "Nodes": None}),
    ]
    server.has(stored)
    return [server.post(path, body).data for path, body in asked]
