"""How long a body may be, by path: what an honest kube-apiserver and kube-scheduler can send, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.http.limits import (
    API_REQUEST_BYTES,
    ETCD_OBJECT_BYTES,
    EXTENDER_BYTES,
    MIB,
    NO_BODY_BYTES,
    OTHER_BYTES,
    REVIEW_BYTES,
    Limits,
)
from tests.support.cases import each_case
from tests.support.http.served_worker import Served, served
from tests.support.http.wire_objects import pod, review


def escaped(body: object) -> bytes:
    """As Go writes it."""
    return json.dumps(body).replace("<", "\\u003c").encode()


@each_case(
    ("target", "limit"),
    [
        ("/mutate/pods?timeout=5s", REVIEW_BYTES),
        ("/validate/queues", REVIEW_BYTES),
        ("/extender/filter", EXTENDER_BYTES),
        ("/validate/binds?timeout=2s", 2 * MIB),
        ("/mutate/namespaces", 5 * MIB),
        ("/metrics", NO_BODY_BYTES),
        ("/elsewhere", OTHER_BYTES),
        ("/", OTHER_BYTES),
        ("", OTHER_BYTES),
        ("/mutate", OTHER_BYTES),
        ("http://x/mutate/pods", OTHER_BYTES),
    ],
)
def test_each_path_has_its_limit(target: str, limit: int) -> None:
    assert Limits().body_limit(target.encode()) == limit
    assert Limits(body_bytes=1000).body_limit(target.encode()) == 1000


def test_the_largest_review_of_an_object_that_was_stored_and_a_request_fits() -> None:
    """Each byte one that Go escapes."""
    old, new = (
        pod("a", annotations={"a": "<" * ETCD_OBJECT_BYTES}),
        pod("a", annotations={"a": "<" * API_REQUEST_BYTES}),
    )
    assert len(escaped(review(new, old=old, operation="UPDATE"))) < REVIEW_BYTES


def test_the_largest_filter_call_fits() -> None:
    names = [str(number).rjust(253, "n") for number in range(5000)]
    call = {"Pod": pod("a", annotations={"a": "<" * ETCD_OBJECT_BYTES}), "Nodes": None, "NodeNames": names}
    assert len(escaped(call)) < EXTENDER_BYTES


def test_the_bound_of_all_requests_has_room_for_the_largest_review() -> None:
    """Half of it is one connection's: kube-apiserver's reviews come on one."""
    assert REVIEW_BYTES <= Limits().buffered_request_bytes // 2 <= 32 * 1024 * 1024


@pytest.fixture(scope="module")
def whole(certificate: tuple[Path, Path]) -> Iterator[Served]:
    """A worker with the limits that are served."""
    with served(certificate) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        ("/mutate/workloads?timeout=5s", 19 * 1024 * 1024, 200),
        ("/mutate/workloads", REVIEW_BYTES, 200),
        ("/mutate/workloads", REVIEW_BYTES + 1, 413),
        ("/extender/filter", EXTENDER_BYTES, 200),
        ("/extender/filter", EXTENDER_BYTES + 1, 413),
        ("/metrics", NO_BODY_BYTES, 200),
        ("/metrics", NO_BODY_BYTES + 1, 413),
    ],
)
def test_each_path_has_its_body_limit(whole: Served, path: str, size: int, status: int) -> None:
    with whole.caller() as caller:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
        caller.send(head.encode() + (b"x" * size if status == 200 else b""))
        assert caller.reply()[0] == status


def test_a_chunked_body_has_the_same_limit(whole: Served) -> None:
    piece = b"40000\r\n" + b"x" * 0x40000 + b"\r\n"
    for path, status in (("/mutate/pods", 200), ("/metrics", 413)):
        with whole.caller() as caller:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            caller.send(head.encode() + piece * 5 + b"0\r\n\r\n")
            assert caller.reply()[0] == status
