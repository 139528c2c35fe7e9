"""`/mutate/pods`: the queue is written down, the marker and the gate are put on, or the pod is refused."""

from __future__ import annotations

from typing import Any

import pytest

from queues.membership import MembershipSettings
from queues.mode import Mode
from queues.well_known import UNTAKEN
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    Wire,
    job,
    member,
    namespace,
    owner,
    pod,
    podgroup,
    policies,
    queue,
)
from tests.support.webhooks.json_patch import applied
from webhooks.settings import AdmissionSettings

QUEUE = "sluice.dev/queue"
#: Who makes the pods of Jobs.
JOBS = "system:serviceaccount:kube-system:job-controller"
MARKER = {"sluice.dev/member": "1"}
REFUSING = {
    "conditions": [
        {"type": "Accepting", "status": "False", "lastTransitionTime": "2030-01-01T10:00:00Z"},
    ]
}
BEFORE, SAME, AFTER = "2030-01-01T09:59:59Z", "2030-01-01T10:00:00Z", "2030-01-01T10:00:01Z"


@pytest.fixture
def server() -> Server:
    return Server().has(
        queue("research"),
        queue("stopped", state="Suspended", reason="disks"),
        queue("held", stopPolicy="Hold"),
        queue("closed", state="Closed", status=REFUSING),
        queue("lost", parent="nobody"),
        queue("below", parent="closed"),
        queue("both", parent="stopped", state="Closed", status=REFUSING),
    )


def submitted(name: str, **more: Any) -> Wire:
    return pod(annotations={NAMED: name, **more.pop("annotations", {})}, **more)


def admitted(server: Server, of: Wire, **request: Any) -> tuple[Wire, Said]:
    """The pod as the API server will store it, and what was said."""
    answer = server.ask("/mutate/pods", of, **request)
    assert answer.allowed, answer.message
    assert all(len(warning) < 120 for warning in answer.warnings)
    return applied(answer.patch, of), answer


def refused(server: Server, of: Wire, **request: Any) -> Said:
    answer = server.ask("/mutate/pods", of, **request)
    assert not answer.allowed
    assert answer.patch == []
    return answer


def gates(of: Wire) -> list[str]:
    return [gate["name"] for gate in of["spec"].get("schedulingGates") or []]


def is_written(of: Wire, name: str) -> bool:
    meta = of["metadata"]
    return bool(meta["annotations"][QUEUE] == name and meta["labels"][QUEUE] == name)


def is_marked(of: Wire) -> bool:
    needs = of["spec"]["containers"][0]["resources"]
    return bool(needs["requests"].items() >= MARKER.items() <= needs["limits"].items())


# The table of the module


def test_of_a_queue_that_schedules_it_is_written_and_marked(server: Server) -> None:
    after, answer = admitted(server, submitted("research"))
    assert is_written(after, "research")
    assert is_marked(after)
    assert gates(after) == []
    assert answer.warnings == []


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        ("stopped", 'queue "stopped" is Suspended (disks): this waits; an admin of queues can resume it'),
        ("held", 'queue "held" is stopped by stopPolicy Hold: this waits; an admin of queues can resume it'),
        (
            "absent",
            'queue "absent" does not exist: this waits; '
            "name another queue, or have an admin of queues create it",
        ),
    ],
)
def test_of_a_queue_that_does_not_schedule_it_is_gated_too_with_a_warning(
    server: Server, name: str, warning: str
) -> None:
    after, answer = admitted(server, submitted(name))
    assert is_written(after, name)
    assert is_marked(after)
    assert gates(after) == [QUEUE]
    assert answer.warnings == [warning]


def test_of_a_queue_with_node_groups_it_gets_their_affinity_once() -> None:
    """The API server may ask again, with what it was told the first time."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeGroupAffinity": {required: ["big"]}}
    server = Server().has(queue("lab", affinity=affinity), queue("team", parent="lab", stopPolicy="Hold"))
    expression = {"key": "volcano.sh/nodegroup-name", "operator": "In", "values": ["big"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    for name in ("lab", "team"):
        once, _ = admitted(server, submitted(name))
        assert once["spec"]["affinity"] == {"nodeAffinity": {required: terms}}
        assert admitted(server, once)[0] == once


@pytest.mark.parametrize("mode", Mode)
def test_of_a_queue_with_a_quota_it_gets_the_gate_of_quotas_in_every_mode(mode: Mode) -> None:
    """On whom schedulers ask nothing depends: a gated pod is nobody's yet."""
    server = Server(terms=AdmissionSettings(mode=mode)).has(
        queue("lab", capability={"cpu": "2"}), queue("team", parent="lab", stopPolicy="Hold"), queue("free")
    )
    found = {name: gates(admitted(server, submitted(name))[0]) for name in ("lab", "team", "free")}
    assert found == {"lab": ["sluice.dev/quota"], "team": [QUEUE, "sluice.dev/quota"], "free": []}


def test_a_queue_that_is_not_there_brings_the_question_whether_a_near_one_was_meant(server: Server) -> None:
    """To whoever can read it: a controller that makes pods gets one warning, as before."""
    _, answer = admitted(server, submitted("reserch"))
    assert answer.warnings[1:] == ['did you mean queue "research"?']
    controller = {"user": "system:serviceaccount:kube-system:replicaset-controller"}
    assert len(admitted(server, submitted("reserch"), **controller)[1].warnings) == 1


@pytest.mark.parametrize("name", ["stopped", "held", "absent"])
def test_with_a_node_name_it_is_refused_where_it_would_have_to_wait(server: Server, name: str) -> None:
    answer = refused(server, submitted(name, nodeName="node-1"))
    assert answer.code == 403
    assert answer.message.startswith(f'a pod with spec.nodeName would run at once: queue "{name}" ')
    assert "an admin of queues" in answer.message


def test_with_a_node_name_it_is_admitted_to_a_queue_that_schedules(server: Server) -> None:
    after, _ = admitted(server, submitted("research", nodeName="node-1"))
    assert is_written(after, "research")
    assert gates(after) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "closed",
            'queue "closed" is Closed and takes no new pods; reopen it with: kubectl queue open closed',
        ),
        (
            "below",
            'queue "below" is Closed, its ancestor "closed" is to be Closed, and takes no new pods; '
            "reopen it with: kubectl queue open closed",
        ),
        (
            "lost",
            'queue "lost" is Unknown: parent "nobody" of queue "lost" does not exist and takes no new pods; '
            "mend it with: kubectl edit queue lost",
        ),
    ],
)
def test_a_queue_that_does_not_accept_refuses_it_with_the_way_out(
    server: Server, name: str, text: str
) -> None:
    answer = refused(server, submitted(name))
    assert answer.code == 403
    assert answer.message == text


def test_a_refusal_says_closing_while_a_member_is_live(server: Server) -> None:
    server.has(member("old", queue="closed", nodeName="node-1"))
    assert refused(server, submitted("closed")).message.startswith('queue "closed" is Closing and takes')


def test_a_podgroup_that_is_not_there_gates_it_unanswered(server: Server) -> None:
    after, answer = admitted(server, pod(annotations={GROUP: "gang"}))
    assert QUEUE not in after["metadata"]["annotations"]
    assert after["metadata"]["labels"][QUEUE] == "", "members are watched by the label"
    assert gates(after) == [QUEUE]
    assert is_marked(after)
    assert answer.warnings == [
        'PodGroup "gang" does not exist: this waits; create it with: kubectl create -f PODGROUP',
    ]


def test_a_podgroup_that_is_not_there_refuses_a_node_name(server: Server) -> None:
    answer = refused(server, pod(annotations={GROUP: "gang"}, nodeName="node-1"))
    assert 'PodGroup "gang" does not exist' in answer.message
    assert answer.code == 403


def test_a_podgroups_queue_is_the_pods(server: Server) -> None:
    server.has(podgroup("gang", queue="held"), podgroup("plain"))
    after, _ = admitted(server, pod(annotations={GROUP: "gang", NAMED: "research"}))
    assert is_written(after, "held")
    after, _ = admitted(server, pod(annotations={GROUP: "plain"}))
    assert is_written(after, "default"), "a PodGroup that names no queue is in default"


# Whose queue


def test_what_a_user_writes_in_our_place_is_overwritten(server: Server) -> None:
    forged = submitted(
        "held", annotations={QUEUE: "research", UNTAKEN: "x"}, labels={QUEUE: "research", "app": "x"}
    )
    after, _ = admitted(server, forged)
    assert is_written(after, "held")
    assert UNTAKEN not in after["metadata"]["annotations"], "it would count nowhere"
    assert after["metadata"]["labels"]["app"] == "x"


def test_from_a_pod_of_no_queue_only_our_own_keys_are_removed(server: Server) -> None:
    forged = pod(annotations={QUEUE: "research", "a": "b"}, labels={QUEUE: "research", "c": "d"})
    after, _ = admitted(server, forged)
    assert after == pod(annotations={"a": "b"}, labels={"c": "d"})
    assert server.ask("/mutate/pods", pod()).patch == []


def test_our_marker_is_removed_from_every_container_of_a_pod_of_no_queue(server: Server) -> None:
    """As when a member's manifest is read back and submitted elsewhere: else it would wait for us."""
    forged = pod()
    asked = {"requests": {**MARKER, "cpu": "1"}, "limits": {**MARKER}}
    forged["spec"]["containers"] = [{"name": "a"}, {"name": "b", "resources": asked}]
    forged["spec"]["initContainers"] = [{"name": "c", "resources": {"requests": dict(MARKER)}}]
    after, _ = admitted(server, forged)
    assert after["spec"]["containers"] == [
        {"name": "a"},
        {"name": "b", "resources": {"requests": {"cpu": "1"}, "limits": {}}},
    ]
    assert after["spec"]["initContainers"] == [{"name": "c", "resources": {"requests": {}}}]


def test_a_pod_that_names_its_node_comes_there_by_the_scheduler(server: Server) -> None:
    """Stored with the name it would run at once, past filter and guard."""
    after, _ = admitted(server, submitted("research", nodeName="node-1"), uid="r-4")
    assert "nodeName" not in after["spec"]
    field = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    wanted = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert after["spec"]["affinity"] == wanted


def test_a_node_that_another_webhook_names_counts_too(server: Server) -> None:
    """We are asked again for one request."""
    once, _ = admitted(server, submitted("research"), uid="r-1")
    once["spec"]["nodeName"] = "node-1"
    after, _ = admitted(server, once, uid="r-2")
    assert "nodeName" not in after["spec"]


def test_from_a_pod_that_waits_for_its_podgroup_our_own_keys_are_removed(server: Server) -> None:
    forged = pod(annotations={GROUP: "gang", QUEUE: "research"}, labels={QUEUE: "research"})
    after, _ = admitted(server, forged)
    assert after["metadata"]["annotations"] == {GROUP: "gang"}
    assert after["metadata"]["labels"] == {QUEUE: ""}


def test_our_gate_on_a_pod_of_no_queue_is_refused_since_it_would_never_be_removed(server: Server) -> None:
    answer = refused(server, pod(gates=["other.dev/gate", QUEUE]))
    assert answer.code == 422
    assert answer.message.startswith("spec.schedulingGates: ")
    assert "remove it" in answer.message


@pytest.mark.parametrize("exempt", ["kube-system", "sluice-system"])
def test_namespaces_that_never_hold_members(server: Server, exempt: str) -> None:
    assert server.ask("/mutate/pods", submitted("closed", namespace=exempt), namespace=exempt).allowed


def test_a_mirror_pod_is_never_a_member(server: Server) -> None:
    mirror = submitted("closed", nodeName="node-1", annotations={"kubernetes.io/config.mirror": "x"})
    assert server.ask("/mutate/pods", mirror).allowed


def test_a_new_pod_whose_metadata_has_no_namespace_yet_is_in_the_reviews(server: Server) -> None:
    server.has(namespace("team", queue="held"))
    bare = pod()
    del bare["metadata"]["namespace"]
    after, _ = admitted(server, bare, namespace="team")
    assert is_written(after, "held")


def test_an_owned_scheduler_makes_a_member_of_default() -> None:
    server = Server(rules=MembershipSettings(owned_schedulers=frozenset({"mine"})), terms=AdmissionSettings())
    after, _ = admitted(server.has(queue("default")), pod(schedulerName="mine"))
    assert is_written(after, "default")


@pytest.mark.parametrize(
    "name", ["Research", "a b", "../root", "x" * 254, "-a", "a\u202eb", "a_b"], ids=lambda name: name[:9]
)
def test_a_name_that_no_queue_can_have_is_refused(server: Server, name: str) -> None:
    answer = refused(server, submitted(name))
    assert answer.code == 422
    assert "is not a queue name" in answer.message
    assert "lower case letters" in answer.message
    assert "\u202e" not in answer.message


def test_a_name_too_long_for_a_label_is_cut_there_and_whole_in_the_annotation(server: Server) -> None:
    name = ".".join(["q" * 60] * 4)
    after, answer = admitted(server, submitted(name))
    assert after["metadata"]["annotations"][QUEUE] == name
    assert len(after["metadata"]["labels"][QUEUE]) <= 63
    assert [len(warning) for warning in answer.warnings] == [119]


# Marker and gate, on pods of every shape


@pytest.mark.parametrize(
    "resources",
    [
        None,
        {},
        {"requests": None, "limits": None},
        {"requests": {"cpu": "1"}},
        {"limits": {"cpu": "1"}},
        {"requests": {"cpu": 1}, "limits": {"memory": 0.5}},
        {"claims": [{"name": "gpu"}]},
    ],
    ids=str,
)
def test_the_marker_is_put_beside_whatever_is_asked_for(server: Server, resources: Any) -> None:
    before = submitted("research", resources=resources)
    after, _ = admitted(server, before)
    assert is_marked(after)
    needs = after["spec"]["containers"][0]["resources"]
    for kind, asked in (resources or {}).items():
        assert needs[kind] == ({**(asked or {}), **MARKER} if kind in {"requests", "limits"} else asked)


def test_resources_that_are_null_are_like_none(server: Server) -> None:
    before = submitted("research")
    before["spec"]["containers"][0]["resources"] = None
    assert is_marked(admitted(server, before)[0])


def test_a_marker_that_is_there_is_left_alone_wherever_it_is(server: Server) -> None:
    before = submitted("research")
    before["spec"]["containers"].append({"name": "b", "resources": {"requests": MARKER, "limits": MARKER}})
    after, _ = admitted(server, before)
    assert after["spec"] == before["spec"]


def test_only_pods_of_schedulers_that_call_us_are_marked() -> None:
    server = Server(terms=AdmissionSettings(marked_schedulers=frozenset({"mine"}))).has(
        queue("held", stopPolicy="Hold")
    )
    other, _ = admitted(server, submitted("held"))
    assert "resources" not in other["spec"]["containers"][0]
    assert gates(other) == [QUEUE], "a scheduler that does not ask us is held by the gate"
    assert is_marked(admitted(server, submitted("held", schedulerName="mine"))[0])


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize(
    ("mode", "scheduler"), [(Mode.SCHEDULER, "ours"), (Mode.GATE, "default-scheduler")], ids=str
)
def test_in_the_other_modes_a_member_gets_no_marker(mode: Mode, scheduler: str, stopped: bool) -> None:
    """It may have written one itself. In mode `scheduler` it gets our own scheduler's name."""
    server = Server(terms=AdmissionSettings(mode=mode, scheduler_name="ours"))
    server.has(queue("held", stopPolicy="Hold"), queue("open"))
    asked = {"requests": {"cpu": "1", **MARKER}}
    before = submitted("held" if stopped else "open", resources=asked, schedulerName="default-scheduler")
    after, _ = admitted(server, before)
    assert after["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert after["spec"]["schedulerName"] == scheduler
    assert gates(after) == ([QUEUE] if stopped else [])
    again, _ = admitted(server, after)
    assert again["spec"] == after["spec"]


def test_a_member_of_another_scheduler_keeps_it() -> None:
    terms = AdmissionSettings(mode=Mode.SCHEDULER, scheduler_name="ours")
    server = Server(terms=terms).has(queue("held", stopPolicy="Hold"))
    other, _ = admitted(server, submitted("held", schedulerName="somebody-elses"))
    assert (other["spec"]["schedulerName"], gates(other)) == ("somebody-elses", [QUEUE])


@pytest.mark.parametrize("containers", [[], None], ids=["none", "null"])
def test_a_pod_without_containers_is_left_to_the_api_server(server: Server, containers: Any) -> None:
    after, _ = admitted(server, submitted("research", containers=containers))
    assert after["spec"]["containers"] == containers
    assert is_written(after, "research")


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (None, [QUEUE]),
        ([], [QUEUE]),
        (["other.dev/gate"], ["other.dev/gate", QUEUE]),
        ([QUEUE], [QUEUE]),
    ],
)
def test_the_gate_is_put_beside_those_of_others_once(
    server: Server, held: list[str] | None, expected: list[str]
) -> None:
    assert gates(admitted(server, submitted("held", gates=held))[0]) == expected


def test_gates_that_are_null_are_like_none(server: Server) -> None:
    before = submitted("held")
    before["spec"]["schedulingGates"] = None
    assert gates(admitted(server, before)[0]) == [QUEUE]


@pytest.mark.parametrize("place", ["annotations", "labels"])
@pytest.mark.parametrize("value", [None, {}, {"a": "b"}], ids=["null", "empty", "one"])
def test_the_answer_is_written_whatever_maps_are_there(server: Server, place: str, value: Any) -> None:
    server.has(namespace("team", queue="research"))
    before = pod()
    before["metadata"][place] = value
    after, _ = admitted(server, before)
    assert is_written(after, "research")
    assert after["metadata"][place].items() >= (value or {}).items()


def test_a_second_pass_through_the_webhook_changes_nothing(server: Server) -> None:
    """The API server may ask again after another webhook changed the pod."""
    once, _ = admitted(server, submitted("held"))
    assert admitted(server, once)[0] == once


# Work that a queue had accepted


@pytest.mark.parametrize(("created", "taken"), [(BEFORE, True), (SAME, True), (AFTER, False)])
def test_a_job_from_before_the_close_still_gets_its_pods(server: Server, created: str, taken: bool) -> None:
    work = job("train", queue="closed", created=created)
    server.has(work)
    answer = server.ask("/mutate/pods", submitted("closed", owner=owner(work)), user=JOBS)
    assert answer.allowed is taken


@pytest.mark.parametrize(("created", "taken"), [(BEFORE, True), (SAME, True), (AFTER, False)])
def test_a_podgroup_from_before_the_close_still_gets_its_pods(
    server: Server, created: str, taken: bool
) -> None:
    server.has(podgroup("gang", queue="closed", created=created))
    answer = server.ask("/mutate/pods", pod(annotations={GROUP: "gang"}))
    assert answer.allowed is taken


@pytest.mark.parametrize("controller", [False, None])
def test_an_owner_that_does_not_control_does_not_count(server: Server, controller: bool | None) -> None:
    work = job("train", queue="closed", created=BEFORE)
    server.has(work)
    refused(server, submitted("closed", owner=owner(work, controller=controller)), user=JOBS)


def test_an_owner_counts_by_its_uid_alone(server: Server) -> None:
    work = job("train", queue="closed", created=BEFORE)
    server.has(work)
    refused(server, submitted("closed", owner={**owner(work), "uid": "another"}))


def test_an_owner_of_another_queue_does_not_count(server: Server) -> None:
    work = job("train", queue="research", created=BEFORE)
    server.has(work)
    refused(server, submitted("closed", owner=owner(work)))


def test_an_owner_in_another_namespace_does_not_count(server: Server) -> None:
    work = job("train", queue="closed", created=BEFORE, namespace="elsewhere")
    server.has(work)
    refused(server, submitted("closed", owner=owner(work)))


def test_before_the_condition_is_written_whatever_owner_is_there_came_before(server: Server) -> None:
    work = job("train", queue="fresh", created=AFTER)
    server.has(queue("fresh", state="Closed"), work)
    admitted(server, submitted("fresh", owner=owner(work)), user=JOBS)


def test_accepted_work_of_a_queue_that_is_stopped_too_waits_like_any(server: Server) -> None:
    work = job("train", queue="both", created=BEFORE)
    server.has(work)
    after, answer = admitted(server, submitted("both", owner=owner(work)), user=JOBS)
    assert gates(after) == [QUEUE]
    assert len(answer.warnings) == 1


PACK = "actions: allocate\ntiers: [{plugins: [{name: binpack}]}]"


def asks_for_scores(server: Server, of: Wire) -> bool:
    """Whether kube-scheduler will ask for scores for the pod; that is said once and for all."""
    stored, _ = admitted(server, of)
    resources = [each.get("resources") or {} for each in stored["spec"]["containers"]]
    asks = ["sluice.dev/scored" in (each.get("requests") or {}) for each in resources]
    assert asks == ["sluice.dev/scored" in (each.get("limits") or {}) for each in resources]
    return any(asks)


@pytest.mark.parametrize(
    ("named", "annotations", "asks"),
    [
        ("packed", {}, True),
        ("stopped", {}, False),  # of no policy
        ("stopped", {"volcano.sh/scheduler-policy": "pack"}, True),
        ("packed", {"volcano.sh/scheduler-policy": "plain"}, False),
        ("not-there-yet", {}, True),
        ("research", {"scheduling.k8s.io/group-name": "not-there-yet"}, True),
        ("", {"volcano.sh/scheduler-policy": "pack"}, False),
    ],
)
def test_pods_whose_policy_scores_or_may_score_are_sent_to_prioritize(
    server: Server, named: str, annotations: dict[str, str], asks: bool
) -> None:
    one = submitted(named, annotations=annotations) if named else pod(annotations=annotations)
    server.has(queue("packed", schedulerPolicy="pack"))
    assert not asks_for_scores(server, one)  # without a ConfigMap
    server.has(policies(plain="actions: allocate\ntiers: [{}]"))
    assert not asks_for_scores(server, one)
    server.has(policies(plain="actions: allocate\ntiers: [{}]", pack=PACK))
    assert asks_for_scores(server, one) is asks


def test_a_user_does_not_ask_for_scores(server: Server) -> None:
    wanted = {"requests": {"sluice.dev/scored": "1"}, "limits": {"sluice.dev/scored": "1"}}
    one = submitted("research", resources=wanted)
    assert not asks_for_scores(server, one)


# Quotas

QUOTA = "sluice.dev/quota"


@pytest.fixture
def limited() -> Server:
    return Server().has(
        queue("lab", capability={"cpu": "2"}),
        queue("team", parent="lab"),
        queue("held", parent="lab", stopPolicy="Hold"),
        queue("free", capability={}),
    )


@pytest.mark.parametrize(
    ("name", "gates"),
    [("lab", [QUOTA]), ("team", [QUOTA]), ("held", [QUEUE, QUOTA]), ("free", None), ("missing", [QUEUE])],
)
def test_pods_of_a_queue_with_a_quota_wait_to_be_released(
    limited: Server, name: str, gates: list[str] | None
) -> None:
    found, _ = admitted(limited, submitted(name))
    wanted = None if gates is None else [{"name": gate} for gate in gates]
    assert found["spec"].get("schedulingGates") == wanted


def test_a_pod_for_a_node_waits_too_where_its_queue_has_a_quota(limited: Server) -> None:
    found, _ = admitted(limited, submitted("team", nodeName="node-1"))
    assert found["spec"]["schedulingGates"] == [{"name": QUOTA}]
    assert "nodeName" not in found["spec"]


def test_a_gate_that_a_user_wrote_is_not_put_on_twice(limited: Server) -> None:
    found, _ = admitted(limited, submitted("team", gates=["x", QUOTA]))
    assert found["spec"]["schedulingGates"] == [{"name": "x"}, {"name": QUOTA}]


def test_a_pod_of_no_queue_has_no_gate_that_nobody_would_take_off(limited: Server) -> None:
    said = refused(limited, pod(gates=[QUOTA]))
    assert (said.code, QUOTA in said.message) == (422, True)
