"""Of which queue a pod or a workload is, is the same to the leader, to a drain's dry run and to `why`."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.objects.types import POD, Type, type_of
from kubectl_queue.why.membership import membership_of, queue_of_stored_pod, queue_of_stored_workload
from queues.workload_kinds import KINDS
from tests.support.examples import examples
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, resource_of
from tests.support.readers import random_cluster, random_gangs
from tests.support.readers.listed_objects import ListedObjects
from tests.support.readers.two_readers import is_cached, place

WORKLOADS = {(row.api_version, row.kind) for row in KINDS.values()}
NOTHING = "(no member)"


@examples(200)
@given(random_cluster.clusters() | random_gangs.clusters())
def test_the_queue_of_each_object_is_the_same(objects: list[Wire]) -> None:
    server = Server()
    server.has(*sorted((each for each in objects if is_cached(each)), key=place))
    api: Any = ListedObjects(objects)
    reader = ObjectReader(ApiClient(api, warn=lambda _text: None))
    for each in objects:
        uid = each["metadata"].get("uid", "")
        if each["kind"] == "Pod":
            member = server.store.members.by_uid(uid)
            expected = NOTHING if member is None else member.queue
            assert _by_why(POD, each, reader) == expected
            assert queue_of_stored_pod(each, reader) == expected.replace(NOTHING, "")
        elif (each["apiVersion"], each["kind"]) in WORKLOADS:
            work, kind = server.store.workloads.by_uid(uid), type_of(resource_of(each))
            assert work is not None
            assert kind is not None
            assert _by_why(kind, each, reader).replace(NOTHING, "") == work.queue
            assert queue_of_stored_workload(kind, each, reader) == work.queue


def _by_why(kind: Type, item: Wire, reader: ObjectReader) -> str:
    found = membership_of(kind, item, owners=(), objects=reader)
    return NOTHING if found is None else found.queue or ""
