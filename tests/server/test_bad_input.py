"""Bad input to every endpoint: 4xx with a JSON reason, never a 500, never a stack trace.

What the server does about hostile connections is beside this, in `test_hostile_clients`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from server.app import BODY_LIMIT
from tests.support.examples import examples
from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    GROUP,
    NAMED,
    WORKLOADS,
    Wire,
    binding,
    command,
    job,
    member,
    namespace,
    owner,
    pod,
    podgroup,
    queue,
    resource_of,
    review,
    template,
    workload,
)

T = TypeVar("T")

SERVER = Server().has(
    queue("research"),
    queue("held", stopPolicy="Hold"),
    queue("closed", state="Closed"),
    podgroup("gang", queue="held"),
    namespace("team"),
    workload("deployments.apps", "train", template({NAMED: "closed"}), replicas=0),
)
POD = pod(
    annotations={NAMED: "held", GROUP: ""},
    labels={"a": "b"},
    gates=["x"],
    owner=owner(job("j")),
    resources={"requests": {"cpu": "1"}, "limits": {"cpu": 1}},
    priority=5,
)
WORK = workload(
    "jobs.batch.volcano.sh",
    "train",
    template({NAMED: "held"}, {"a": "b"}, schedulerName="volcano"),
    template(),
    annotations={NAMED: "held"},
    labels={"volcano.sh/queue-name": "held"},
    owner=owner(job("j")),
    status={"state": {"phase": "Running"}, "conditions": [{"type": "x", "status": "True"}]},
    queue="held",
    replicas=1,
)
JOBSET = workload("jobsets.jobset.x-k8s.io", "set", template({NAMED: "held"}), annotations={"a": "b"})
CRON = workload("cronjobs.batch", "cron", template({NAMED: "held"}))
GANG = podgroup(
    "gang",
    queue="held",
    annotations={"a": "b"},
    labels={"c": "d"},
    owner=owner(WORK),
    status={"phase": "Inqueue", "running": 1, "conditions": [{"type": "Populated", "status": "True"}]},
)
QUEUE = queue("research", stopPolicy="Hold", resumeAt="2031-01-01T00:00:00Z", reason="r")

#: For each endpoint a body that it answers with 200.
BODIES: dict[str, Wire] = {
    "/extender/filter": {"Pod": POD, "Nodes": None, "NodeNames": ["node-1", "node-2"]},
    "/extender/preempt": {
        "Pod": POD,
        "NodeNameToVictims": {"n": {"Pods": [member("v")], "NumPDBViolations": 0}},
        "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}},
    },
    "/mutate/queues": review(QUEUE, old=queue("research"), operation="UPDATE"),
    "/validate/queues": review(QUEUE, old=queue("research"), operation="UPDATE"),
    "/mutate/pods": review(POD),
    "/validate/pods": review(POD, old=POD, operation="UPDATE"),
    "/validate/unlabelled": review(POD),
    "/validate/binds": review(binding()),
    "/mutate/workloads": review(WORK, old=WORK, operation="UPDATE", resource="jobs.batch.volcano.sh"),
    "/mutate/podgroups": review(GANG, old=podgroup("gang", queue="research"), operation="UPDATE"),
    "/validate/podgroups": review(GANG, old=podgroup("gang", queue="research"), operation="UPDATE"),
    "/validate/scales": review(
        {"kind": "Scale", "metadata": {"name": "train"}, "spec": {"replicas": 1}},
        old={"kind": "Scale", "metadata": {"name": "train"}, "spec": {"replicas": 0}},
        operation="UPDATE",
        resource="deployments.apps",
        name="train",
    ),
    "/validate/rollouts": review(WORK, old=WORK, operation="UPDATE", resource="deployments.apps"),
    "/validate/metadata": review(WORK, resource="deployments.apps"),
    "/mutate/namespaces": review(namespace("team", queue="held")),
    "/validate/namespaces": review(namespace("team"), old=namespace("team"), operation="UPDATE"),
    "/mutate/commands": review(command()),
}
PATHS = list(BODIES)
#: One path for each of the two decoders.
EXTENDER_PATH, WEBHOOK_PATH = "/extender/filter", "/mutate/pods"
HEALTH = ["/healthz", "/readyz", "/metrics"]


def each_fault_and_each_path(faults: Iterable[T]) -> list[tuple[str, T]]:
    """Every fault at one path of each decoder, and the first fault at all other paths."""
    first, *others = faults
    return [
        *((path, first) for path in PATHS),
        *((path, fault) for path in (EXTENDER_PATH, WEBHOOK_PATH) for fault in others),
    ]


def refused(reply: TestResponse, *codes: int) -> str:
    """The message of a refusal, which has the shape of a Kubernetes Status."""
    assert reply.status_code in codes, reply.text[:300]
    assert reply.content_type == "application/json"
    body = json.loads(reply.data)
    assert (body["kind"], body["status"], body["code"]) == ("Status", "Failure", reply.status_code)
    assert body["reason"]
    assert body["message"]
    assert "Traceback" not in reply.text
    assert len(reply.data) < 2000
    return str(body["message"])


def answered(reply: TestResponse) -> None:
    """An answer, or a refusal that says why; whatever was sent."""
    assert reply.content_type == "application/json"
    if reply.status_code == 200:
        json.loads(reply.data)
    else:
        refused(reply, 400)


def dumped(body: object) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.parametrize("path", PATHS)
def test_each_body_of_this_file_is_answered_before_it_is_made_bad(path: str) -> None:
    assert SERVER.post(path, BODIES[path]).status_code == 200


# Not JSON


NOT_JSON = {
    "empty": b"",
    "blank": b" \n",
    "word": b"nonsense",
    "yaml": b"apiVersion: v1\nkind: Pod\n",
    "half": b'{"Pod": {"metadata"',
    "single quotes": b"{'a': 1}",
    "trailing comma": b'{"a": 1,}',
    "two values": b"{} {}",
    "comment": b"/* */ {}",
    "byte order mark": b"\xef\xbb\xbf{}",
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "nul": b"\x00",
    "protobuf": b"k8s\x00\n\x0c\n\x02v1",
    "gzip": b"\x1f\x8b\x08\x00",
    "not a number": b"NaN",
    "infinity": b'{"request": -Infinity}',
    "number with a leading zero": b'{"request": 01}',
    "hexadecimal": b'{"request": 0x10}',
    "python": b"{'a': None, True: 1}",
    "raw control character": b'{"request": "\x01\n"}',
    "half an escape": b'{"request": "\\u12"}',
}


@pytest.mark.parametrize(("path", "what"), each_fault_and_each_path(NOT_JSON))
def test_a_body_that_is_not_json_is_refused(path: str, what: str) -> None:
    refused(SERVER.post(path, NOT_JSON[what]), 400)


NO_REQUEST = [b"{}", b"null", b"[]", b"1", b'"x"', b"true", b"1e999", b"[{}]"]


@pytest.mark.parametrize(("path", "body"), each_fault_and_each_path(NO_REQUEST))
def test_json_that_is_no_request_is_refused(path: str, body: bytes) -> None:
    refused(SERVER.post(path, body), 400)


DEEP = [
    (where, opening)
    for where in ("inside", "at the top", "closed")
    for opening in (b"[", b'{"a":', b'[{"a":')
]


@pytest.mark.parametrize(("path", "how"), each_fault_and_each_path(DEEP))
def test_a_hundred_thousand_levels_are_refused(path: str, how: tuple[str, bytes]) -> None:
    where, opening = how
    deep = opening * 100_000
    closing = {b"[": b"]", b'{"a":': b"}", b'[{"a":': b"}]"}[opening] * 100_000
    body = deep
    if where == "closed":
        body = deep + b"1" + closing
    if where == "inside":
        body = dumped(BODIES[path])[:-1] + b', "extra": ' + deep + b"1" + closing + b"}"
    refused(SERVER.post(path, body), 400)


@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith("/extender")])
def test_an_object_that_is_too_deep_is_refused(path: str) -> None:
    """Inside the object of a review, which is not read until its handler is."""
    deep = b'{"metadata": {}, "spec": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    whole = dumped(review("HERE", old="HERE", operation="UPDATE")).replace(b'"HERE"', deep)
    answered(SERVER.post(path, whole))


NOT_UNICODE = [b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\\ud800", b"\\udc00\\ud800"]


@pytest.mark.parametrize(("path", "bad"), each_fault_and_each_path(NOT_UNICODE))
def test_text_that_is_not_unicode_is_never_a_server_error(path: str, bad: bytes) -> None:
    """In each string of a good body, keys and values."""
    good = dumped(BODIES[path])
    for number, body in enumerate(with_each_string(good, bad)):
        answered(SERVER.post(path, body))
        assert number < 400


def with_each_string(good: bytes, bad: bytes) -> Iterator[bytes]:
    at = good.find(b'"')
    while at != -1:
        yield good[: at + 1] + bad + good[at + 1 :]
        at = good.find(b'"', good.find(b'"', at + 1) + 1)


# The wrong type, nothing, or too much, at every level


WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    "",
    "x",
    [],
    [None],
    {},
    {"": None},
    {"a": {"a": {}}},
]


def places(value: object, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a body, itself included."""
    yield way
    inside: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        inside = enumerate(value)
    for key, held in inside:
        yield from places(held, (*way, key))


def replaced(value: Any, way: tuple[Any, ...], new: object) -> Any:
    """The body with another value at one place; `...` takes the place away."""
    if not way:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(way) == 1 and new is ...:
        del copy[way[0]]
    else:
        copy[way[0]] = replaced(copy[way[0]], way[1:], new)
    return copy


@pytest.mark.parametrize("path", PATHS)
def test_the_wrong_type_at_any_place_is_never_a_server_error(path: str) -> None:
    for way in places(BODIES[path]):
        for wrong in WRONG:
            answered(SERVER.post(path, replaced(BODIES[path], way, wrong)))


@pytest.mark.parametrize("path", PATHS)
def test_anything_may_be_missing(path: str) -> None:
    for way in places(BODIES[path]):
        if way:
            answered(SERVER.post(path, replaced(BODIES[path], way, ...)))


NEEDED = {
    "/extender/filter": [("Pod",), ("NodeNames",), ("Pod", "metadata")],
    "/extender/preempt": [("Pod",), ("Pod", "metadata")],
    **{
        path: [("apiVersion",), ("kind",), ("request",), ("request", "uid"), ("request", "operation")]
        for path in PATHS
        if not path.startswith("/extender")
    },
}


@pytest.mark.parametrize(("path", "way"), [(path, way) for path, ways in NEEDED.items() for way in ways])
@pytest.mark.parametrize("new", [..., None], ids=["missing", "null"])
def test_a_missing_required_field_is_named(path: str, way: tuple[str, ...], new: object) -> None:
    message = refused(SERVER.post(path, replaced(BODIES[path], way, new)), 400)
    assert way[-1] in message


#: Where each key is a name, or (spec) is kept as it is.
NAMED_KEYS = {"requests", "limits", "NodeNameToMetaVictims", "NodeNameToVictims", "spec"}


@pytest.mark.parametrize("path", PATHS)
def test_unknown_fields_are_ignored_everywhere(path: str) -> None:
    """A newer API server and scheduler have more of them."""
    expected = SERVER.post(path, BODIES[path])
    for way in list(places(BODIES[path])):
        held = BODIES[path]
        for key in way:
            held = held[key]
        if isinstance(held, dict) and "annotations" not in way and "labels" not in way:
            if way and way[-1] in NAMED_KEYS:
                continue
            more = replaced(BODIES[path], way, {**held, "unheardOf": {"a": [1, None]}, "UnheardOf": "x"})
            assert SERVER.post(path, more).data == expected.data, way


@pytest.mark.parametrize("path", PATHS)
def test_the_last_of_duplicate_keys_counts_as_in_go(path: str) -> None:
    body = dumped(BODIES[path])
    twice = body[:1] + b'"Pod": 5, "request": 5, "kind": "x", "NodeNames": null, "apiVersion": 1, ' + body[1:]
    reply = SERVER.post(path, twice)
    assert reply.status_code == 400 or reply.data == SERVER.post(path, body).data


NUMBERS = [b"1e400", b"-1e400", b"1" * 400, b"1" * 100_000, b"0." + b"1" * 100_000, b"1e-400", b"-0"]


@pytest.mark.parametrize(
    ("path", "number"),
    each_fault_and_each_path(NUMBERS),
    ids=lambda given: given if isinstance(given, str) else f"{given[:8]!r}{len(given)}",
)
def test_a_huge_number_at_any_place_is_never_a_server_error(path: str, number: bytes) -> None:
    for way in list(places(BODIES[path])):
        body = dumped(replaced(BODIES[path], way, "HERE")).replace(b'"HERE"', number)
        answered(SERVER.post(path, body))


# Size, method, type


@pytest.mark.parametrize("path", PATHS)
def test_a_body_over_the_limit_is_refused_unread(path: str) -> None:
    body = dumped(BODIES[path]) + b" " * BODY_LIMIT
    refused(SERVER.post(path, body), 413)


def test_a_body_of_the_limit_is_read() -> None:
    body = dumped(BODIES["/extender/filter"])
    assert SERVER.post("/extender/filter", body + b" " * (BODY_LIMIT - len(body))).status_code == 200


METHODS = ["GET", "PUT", "PATCH", "DELETE", "TRACE", "BREW"]


@pytest.mark.parametrize(("path", "method"), each_fault_and_each_path(METHODS))
def test_a_wrong_method_is_refused_with_the_right_one(path: str, method: str) -> None:
    reply = SERVER.http.open(path, method=method, json=BODIES[path])
    refused(reply, 405)
    assert "POST" in reply.headers["Allow"]


@pytest.mark.parametrize("path", HEALTH)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_probes_and_metrics_are_read_only(path: str, method: str) -> None:
    refused(SERVER.http.open(path, method=method, data=b"x"), 405)


TYPES = [
    *(
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/yaml",
        "text/json",
        "json",
        "*/*",
        "é",
    ),
]


@pytest.mark.parametrize(("path", "kind"), each_fault_and_each_path(TYPES))
def test_a_wrong_content_type_is_refused(path: str, kind: str) -> None:
    refused(SERVER.post(path, BODIES[path], content_type=kind), 415)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json;"])
def test_a_content_type_may_be_written_as_clients_do(kind: str) -> None:
    assert SERVER.post("/mutate/pods", BODIES["/mutate/pods"], content_type=kind).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/", "/extender", "/extender/prioritizes", "/mutate/pods/", "/mutate//pods", "/%ff", "/a%00b", "/.."],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_path_is_refused(path: str, method: str) -> None:
    refused(SERVER.http.open(path, method=method, json={}), 404)


# Random


MARKS = [b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"null"]


def mutated(body: bytes, rnd: random.Random) -> bytes:
    """Bytes cut, doubled, swapped and overwritten, here and there."""
    for _ in range(rnd.randint(1, 6)):
        at, end = sorted(rnd.sample(range(len(body) + 1), 2)) if body else (0, 0)
        end = min(end, at + rnd.randint(1, 30))
        change = rnd.randrange(5)
        if change == 0:
            body = body[:at] + body[end:]
        elif change == 1:
            body = body[:end] + body[at:end] + body[end:]
        elif change == 2:
            body = body[:at] + bytes(rnd.choices(range(256), k=end - at)) + body[end:]
        elif change == 3:
            body = body[:at] + rnd.choice(MARKS) + body[at:]
        else:
            body = body[:at] + rnd.choice(NUMBERS) + body[end:]
    return body


@settings(examples(40), phases=[Phase.generate])
@given(path=st.sampled_from(PATHS), rnd=st.randoms(use_true_random=False))
def test_mutated_bytes_are_never_a_server_error(path: str, rnd: random.Random) -> None:
    good = dumped(BODIES[path])
    for _ in range(10):
        answered(SERVER.post(path, mutated(good, rnd)))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(WRONG),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "spec", "name", "state", "a", ""]), inside, max_size=3)
    ),
    max_leaves=6,
)
WAYS = {path: list(places(body)) for path, body in BODIES.items()}


@examples(200)
@given(path=st.sampled_from(PATHS), data=st.data())
def test_mutated_values_are_never_a_server_error(path: str, data: st.DataObject) -> None:
    way = data.draw(st.sampled_from(WAYS[path]))
    answered(SERVER.post(path, replaced(BODIES[path], way, data.draw(VALUES))))


@pytest.mark.parametrize(
    "made", [WORK, JOBSET, CRON, job("j", queue="held")], ids=lambda one: str(one["kind"])
)
def test_the_wrong_type_at_any_place_of_any_kind_of_workload_is_never_a_server_error(made: Wire) -> None:
    """Each keeps its templates elsewhere."""
    for way in places(made):
        for wrong in [*WRONG, ...]:
            bad = replaced(made, way, wrong) if way or wrong is not ... else None
            body = review(bad, resource=resource_of(made))
            answered(SERVER.post("/mutate/workloads", body))


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from(["held", NAMED, GROUP]),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("metadata", "spec", "status", "template", "jobTemplate", "tasks", "replicatedJobs"),
                    *("annotations", "labels", "ownerReferences", "conditions", "replicas", "queue"),
                    *("schedulerName", "phase", "state", "name", "uid", "controller", NAMED, GROUP),
                ]
            ),
            inside,
            max_size=4,
        )
    ),
    max_leaves=12,
)
OBJECTS = st.fixed_dictionaries({"metadata": SHAPES}, optional={"spec": SHAPES, "status": SHAPES}) | SHAPES


@examples(200)
@given(
    path=st.sampled_from(
        [
            *("/mutate/workloads", "/mutate/podgroups", "/validate/podgroups"),
            *("/validate/scales", "/validate/rollouts"),
        ]
    ),
    resource=st.sampled_from([*WORKLOADS, "podgroups.scheduling.volcano.sh"]),
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
    after=OBJECTS,
    before=OBJECTS,
)
def test_any_object_of_any_kind_is_answered(
    path: str, resource: str, operation: str, after: object, before: object
) -> None:
    answered(SERVER.post(path, review(after, old=before, operation=operation, resource=resource)))


@examples(60)
@given(path=st.sampled_from(PATHS), operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", ""]))
def test_any_operation_at_any_endpoint_is_never_a_server_error(path: str, operation: str) -> None:
    for obj in (POD, QUEUE, None):
        answered(SERVER.post(path, review(obj, old=obj, operation=operation)))
