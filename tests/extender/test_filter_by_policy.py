"""`POST /extender/filter`: pods for which their scheduling policy has no action."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import GROUP, Wire, member, pod, podgroup, policies, queue

NODES = ["node-b", "node-a"]
CORE: Wire = {"requests": {"cpu": "1"}}
MARKERS: Wire = {"requests": {"sluice.dev/member": "1", "sluice.dev/scored": "1"}}
OWN_POLICY = "volcano.sh/scheduler-policy"


def policy(actions: str) -> str:
    return f"actions: {actions}\ntiers: [{{}}]"


ALL, NO_BACKFILL, NO_ALLOCATE = "allocate, backfill", "enqueue, allocate", "backfill"


def ask(server: Server, of: Wire) -> dict[str, Any]:
    reply = server.post("/extender/filter", {"Pod": of, "NodeNames": NODES, "Nodes": None})
    assert reply.status_code == 200, reply.text
    return dict(reply.get_json())


def refusal(server: Server, of: Wire) -> str:
    """The text for each node; "" if the pod may go to all of them."""
    answer = ask(server, of)
    assert not answer["Error"]
    if answer["NodeNames"]:
        assert answer["NodeNames"] == NODES
        assert not answer["FailedAndUnresolvableNodes"]
        return ""
    assert list(answer["FailedAndUnresolvableNodes"]) == NODES
    [text] = set(answer["FailedAndUnresolvableNodes"].values())
    return str(text)


def new_server() -> Server:
    return Server().has(
        queue("free"),
        queue("batch", schedulerPolicy="small"),
        queue("below", parent="batch"),
        queue("best", schedulerPolicy="large"),
        queue("stopped", schedulerPolicy="small", state="Suspended"),
        policies(small=policy(NO_ALLOCATE), large=policy(NO_BACKFILL), all=policy(ALL)),
    )


@pytest.fixture
def server() -> Server:
    return new_server()


def of(queue: str, resources: Wire | None = CORE, **more: Any) -> Wire:
    return member(queue=queue, resources=resources, **more)


@pytest.fixture(params=[True, False], ids=["known", "not known yet"])
def known(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            of("batch"),
            'queue "batch" schedules no pods with resource requests: its policy "small" has no action '
            "allocate; add the action to the policy, or name another policy",
        ),
        (
            of("best", None),
            'queue "best" schedules no pods without resource requests: its policy "large" has no action '
            "backfill; add the action to the policy, or name another policy",
        ),
        (
            of("below"),
            'queue "below" schedules no pods with resource requests: policy "small" of its ancestor "batch" '
            "has no action allocate; add the action to the policy, or name another policy",
        ),
        (
            of("free", annotations={OWN_POLICY: "small"}),
            'queue "free" schedules no pods with resource requests: policy "small" of the job has no action '
            "allocate; add the action to the policy, or name another policy",
        ),
        (of("best", MARKERS), "without resource requests"),
        (of("best", {"requests": {"cpu": "0"}}), "without resource requests"),
        (of("batch", None), ""),
        (of("batch", MARKERS), ""),
        (of("best"), ""),
        (of("batch", annotations={OWN_POLICY: "all"}), ""),
        (of("free"), ""),
        (of("free", None), ""),
    ],
)
def test_a_pod_goes_nowhere_if_its_policy_has_no_action_for_it(
    server: Server, asked: Wire, text: str, known: bool
) -> None:
    if known:
        server.has(asked)
    told = refusal(server, asked)
    assert text in told if text else not told
    assert len(server.store.bind_passes) == (0 if text else 1)


def test_the_global_policy_is_named_as_such(server: Server) -> None:
    server.has(policies(common=policy(NO_ALLOCATE)))
    assert 'the global policy "volcano-scheduler.conf" has no action allocate' in refusal(server, of("free"))
    assert not refusal(server, of("free", None))


def test_the_podgroup_may_name_the_policy(server: Server) -> None:
    server.has(podgroup("gang", queue="free", annotations={OWN_POLICY: "small"}))
    asked = of("free", annotations={GROUP: "gang"})
    assert "of the job" in refusal(server, asked)
    server.has(asked)
    assert "of the job" in refusal(server, asked)


def test_a_stop_of_the_queue_is_said_first(server: Server, known: bool) -> None:
    asked = of("stopped")
    if known:
        server.has(asked)
    assert refusal(server, asked).startswith('queue "stopped" is Suspended')


def test_without_the_configmap_nothing_is_forbidden(server: Server) -> None:
    server.lacks(policies())
    assert not refusal(server, of("batch"))
    assert not refusal(server, of("best", None, name="another"))


def test_pods_of_no_queue_have_no_policy(server: Server) -> None:
    server.has(policies(common="actions: reclaim\ntiers: [{}]"))
    assert not refusal(server, pod(resources=CORE))


def test_a_refusal_of_a_known_pod_ends_its_former_attempt(server: Server) -> None:
    asked = of("free")
    server.has(asked)
    assert not refusal(server, asked)
    server.has(queue("free", version=2, generation=2, schedulerPolicy="small"))
    assert len(server.store.bind_passes) == 1
    assert refusal(server, asked)
    assert len(server.store.bind_passes) == 0


@each_case(
    "forged",
    [of("free", annotations={OWN_POLICY: "small"}), of("free", None, annotations={OWN_POLICY: "large"})],
)
@with_new(server=new_server)
def test_what_a_call_says_of_an_unknown_pods_policy_drops_no_pass(server: Server, forged: Wire) -> None:
    """Otherwise a stop would be acknowledged while the bind of the pod is on its way."""
    assert not refusal(server, of("free"))
    assert refusal(server, forged)
    assert len(server.store.bind_passes) == 1


def test_what_a_call_says_of_a_known_pod_does_not_count(server: Server) -> None:
    server.has(of("free"))
    assert not refusal(server, of("free", annotations={OWN_POLICY: "small"}))
    server.has(of("best", None, version=2))
    assert refusal(server, of("best"))
