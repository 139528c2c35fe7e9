"""A namespace that is new: what goes into it may come before our watch has told us of it."""

from __future__ import annotations

import pytest

from cluster.inflight.queue_edits import (
    REMEMBERED_NAMESPACES,
    SECONDS,
    PendingNamespaces,
)
from tests.support.cases import each_case, with_new
from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    NAMED,
    namespace,
    pod,
    queue,
    workload,
)
from tests.support.webhooks.json_patch import applied

QUEUE = "sluice.dev/queue"


def new_server() -> Server:
    return Server().has(queue("research"))


@pytest.fixture
def server() -> Server:
    return new_server()


def created(server: Server, name: str, *, names: str = "research", **request: object) -> Said:
    return server.ask("/mutate/namespaces", namespace(name, queue=names), namespace="", **request)


@each_case(
    ("path", "obj", "resource"),
    [
        ("/mutate/pods", pod(namespace="new"), "pods"),
        ("/mutate/workloads", workload("jobs.batch"), "jobs.batch"),
    ],
    ids=["pod", "job"],
)
@with_new(server=new_server)
def test_what_names_no_queue_in_an_unknown_namespace_is_asked_for_again(
    server: Server, path: str, obj: dict[str, object], resource: str
) -> None:
    """Its namespace may name one; to let it pass would be to lose it."""
    answer = server.ask(path, obj, namespace="new", resource=resource)
    assert (answer.allowed, answer.code) == (False, 503)
    assert answer.message == 'namespace "new" is new and not known to sluice yet; try again'


def test_what_names_its_queue_itself_needs_no_namespace(server: Server) -> None:
    assert server.ask("/mutate/pods", pod(annotations={NAMED: "research"}), namespace="new").allowed


def test_an_owner_with_our_annotation_counts_as_admitted_at_once(server: Server) -> None:
    """One file may hold a namespace and what goes into it."""
    assert created(server, "new").allowed
    made = pod(namespace="new")
    answer = server.ask("/mutate/pods", made, namespace="new")
    assert applied(answer.patch, made)["metadata"]["annotations"][QUEUE] == "research"


def test_a_dry_run_brings_no_namespace(server: Server) -> None:
    assert created(server, "new", dry_run=True).allowed
    assert not server.ask("/mutate/pods", pod(), namespace="new").allowed


def edited(server: Server, before: dict[str, object], *, names: str, **request: object) -> Said:
    after = namespace("team", version=1, queue=names)
    return server.ask("/mutate/namespaces", after, old=before, operation="UPDATE", namespace="", **request)


def queue_of_new_pod(server: Server) -> str | None:
    made = pod()
    answer = server.ask("/mutate/pods", made)
    assert answer.allowed
    queue: str | None = (applied(answer.patch, made)["metadata"].get("annotations") or {}).get(QUEUE)
    return queue


def test_an_admitted_edit_counts_at_once_until_the_watch_has_it_or_a_later_one(server: Server) -> None:
    before = namespace("team", version=1)
    assert edited(server, before, names="research").allowed
    assert queue_of_new_pod(server) == "research"
    server.has(namespace("team", version=1))
    assert queue_of_new_pod(server) == "research"
    server.has(namespace("team", version=2))
    assert queue_of_new_pod(server) is None


def test_an_admitted_edit_ends_what_the_namespace_named(server: Server) -> None:
    server.has(namespace("team", version=2, queue="research"))
    edited(server, namespace("team", version=2, queue="research"), names="")
    assert queue_of_new_pod(server) is None


def test_an_edit_that_is_never_stored_is_forgotten_and_a_dry_run_is_none(server: Server) -> None:
    edited(server, namespace("team", version=1), names="research", dry_run=True)
    assert queue_of_new_pod(server) is None
    edited(server, namespace("team", version=1), names="research")
    server.clock.seconds += SECONDS
    assert queue_of_new_pod(server) is None


def test_what_is_stored_is_not_judged_by_an_edit_that_may_never_be(server: Server) -> None:
    """Nothing would judge it again."""
    edited(server, namespace("team", version=1), names="research")
    assert server.store.namespaces.queue_of("team") == ""


def test_what_the_watch_tells_goes_before(server: Server) -> None:
    """It names another queue by now, or none."""
    created(server, "new")
    server.has(namespace("new"))
    answer = server.ask("/mutate/pods", pod(), namespace="new")
    assert (answer.allowed, answer.patch) == (True, [])


def test_a_namespace_that_never_appears_is_forgotten(server: Server) -> None:
    created(server, "new")
    server.clock.seconds += SECONDS
    assert not server.ask("/mutate/pods", pod(), namespace="new").allowed


def test_no_more_are_remembered_than_a_bound() -> None:
    coming = PendingNamespaces(clock=lambda: 0.0)
    for number in range(REMEMBERED_NAMESPACES + 5):
        coming.record(f"n{number}", "research")
    assert coming.queue_of("n4") == ""
    assert coming.queue_of("n5") == coming.queue_of(f"n{REMEMBERED_NAMESPACES + 4}") == "research"
