"""What made-up calls leave behind: the server answers everybody who reaches its port."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from tests.support.cases import each_case, with_new
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member, node, policies, queue

CALLS, LONG = 4, 300_000
PACK = "actions: allocate, backfill, preempt, reclaim\ntiers: [{plugins: [{name: binpack}]}]"
CORE: Wire = {"requests": {"cpu": "1"}}
VERBS = ("filter", "prioritize", "preempt")


def new_server() -> Server:
    server = Server().has(
        queue("research", schedulerPolicy="pack"),
        queue("team"),
        policies(pack=PACK),
        *(member(f"known-{number}", resources=CORE) for number in range(CALLS + 1)),
        member("victim", "team", nodeName="n1", resources=CORE),
    )
    return server.reads_nodes(node("n1"), node("n2"))


@pytest.fixture
def server() -> Server:
    return new_server()


def labelled(pod: Wire, text: str) -> Wire:
    return {**pod, "metadata": {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "a": text}}}


def owned(text: str) -> list[Wire]:
    return [{"controller": True, "uid": text, "kind": "ReplicaSet", "name": "x", "apiVersion": "v1"}]


def prefers(text: str) -> Wire:
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": text, "labelSelector": {}}}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


#: A pod and the name of a node, by the number of the call and a long text.
MADE_UP: dict[str, Callable[[int, str], tuple[Wire, str]]] = {
    "name": lambda _, text: (member(text), "n1"),
    "namespace": lambda n, text: (member(f"a-{n}", namespace=text), "n1"),
    "uid": lambda n, text: (member(f"a-{n}", uid=text), "n1"),
    "queue": lambda n, text: (member(f"a-{n}", text), "n1"),
    "policy": lambda n, text: (member(f"a-{n}", annotations={"volcano.sh/scheduler-policy": text}), "n1"),
    "resource": lambda n, text: (member(f"a-{n}", resources={"requests": {text: "1"}}), "n1"),
    "amount": lambda n, text: (member(f"a-{n}", resources={"requests": {"cpu": f"{text}1"}}), "n1"),
    "label": lambda n, text: (labelled(member(f"a-{n}", resources=CORE), text), "n1"),
    "owner": lambda n, text: (member(f"a-{n}", resources=CORE, ownerReferences=owned(text)), "n1"),
    "term": lambda n, text: (member(f"a-{n}", resources=CORE, affinity=prefers(text)), "n1"),
    "node": lambda n, text: (member(f"a-{n}", resources=CORE), text),
    "node of a pod that is known": lambda n, text: (member(f"known-{n}", resources=CORE), text),
}


@each_case("made_up", MADE_UP.values(), ids=MADE_UP)
@with_new(server=new_server)
def test_little_is_kept_of_a_call_with_a_long_text(
    server: Server, made_up: Callable[[int, str], tuple[Wire, str]]
) -> None:
    def call(number: int) -> None:
        pod, name = made_up(number, f"{number:05}" + "0" * LONG)
        victims = {name: {"Pods": [{"UID": "uid-victim"}]}}
        for verb in VERBS:
            nodes = {"NodeNameToMetaVictims": victims} if verb == "preempt" else {"NodeNames": [name]}
            assert server.post(f"/extender/{verb}", {"Pod": pod, **nodes}).status_code in {200, 400}

    call(CALLS)  # what is made once
    gc.collect()
    gc.freeze()  # what is there already need not be looked through again
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(CALLS):
            call(number)
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < CALLS * LONG / 5


@each_case("verb", VERBS)
@each_case("field", ["name", "namespace", "uid"])
@with_new(server=new_server)
def test_a_name_that_no_pod_has_is_refused(server: Server, verb: str, field: str) -> None:
    pod = member("made-up")
    pod["metadata"][field] = "x" * 254
    reply = server.post(f"/extender/{verb}", {"Pod": pod, "NodeNames": [], "NodeNameToMetaVictims": {}})
    assert reply.status_code == 400
    assert f"Pod.metadata.{field}: longer than 253 characters" in reply.text
