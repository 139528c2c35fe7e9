"""What becomes of a book that somebody has changed, or that cannot be written."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cluster.api.client import Client
from cluster.exceptions import Conflict, NotFound, Overloaded, Refused
from controller.quota.book_writes import KEY, MANY, NAME, StoredBook, open_book, write_book
from controller.quota.releases import QuotaReleases
from queues.quota.book import Book, encode, parse
from queues.quota.lack import LackKind
from tests.support.cases import each_case
from tests.support.http.wire_objects import queue
from tests.support.quota.histories import ApiServer, Replica, is_released

BEFORE = Book(term=4, intents={"early": 7})
GOOD = {KEY: encode(BEFORE)}
#: What somebody has written over it.
GARBAGE = {KEY: "/////w=="}
OWNERS = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "other"}]

Wire = dict[str, Any]


class ConfigMaps:
    """Keeps one ConfigMap as the API server does: what is immutable, what has finalizers, what is refused."""

    def __init__(self, found: Wire | None = None, *, refused: dict[str, Refused] | None = None) -> None:
        self.found = found
        #: By verb.
        self.refused = refused or {}
        self.version = 9
        self.sent: list[str] = []

    def client(self) -> Client:
        return cast(
            Client,
            SimpleNamespace(get=self._get, patch=self._patch, create=self._create, delete=self._delete),
        )

    def _get(self, _path: str) -> bytes:
        return self._answer()

    def _patch(self, _path: str, body: Wire) -> bytes:
        self._begin("patch")
        found = self._required(body["metadata"])
        more = {field: keys for field, keys in body.items() if field != "metadata"}
        if found.get("immutable") and more:
            raise Refused(422, "Invalid", "field is immutable when `immutable` is set")
        after = json.loads(json.dumps(found))
        for field, keys in body.items():
            merged = {**(after.get(field) or {}), **keys}
            after[field] = {key: value for key, value in merged.items() if value is not None}
        if after.get("data", {}).keys() & after.get("binaryData", {}).keys():
            raise Refused(422, "Invalid", "duplicate of key present in binaryData")
        self._store(after)
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            self.found = None
        return json.dumps(after).encode()

    def _create(self, _path: str, body: Wire, *, dryRun: str = "") -> bytes:  # noqa: N803 - of the API
        self._begin("dry run" if dryRun else "create", "create")
        if self.found is not None:
            raise Conflict(409, "AlreadyExists", NAME)
        assert not dryRun
        self._store({**body, "metadata": {**body["metadata"], "uid": "next"}})
        return self._answer()

    def _delete(self, _path: str, body: Wire) -> None:
        self._begin("delete")
        found = self._required(body["preconditions"])
        if found["metadata"].get("finalizers"):
            found["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        else:
            self.found = None

    def _begin(self, what: str, verb: str = "") -> None:
        self.sent.append(what)
        if refused := self.refused.get(verb or what):
            raise refused

    def _required(self, condition: Wire) -> Wire:
        if self.found is None:
            raise NotFound(404, "NotFound", NAME)
        meta = self.found["metadata"]
        if (condition["uid"], condition["resourceVersion"]) != (meta["uid"], meta["resourceVersion"]):
            raise Conflict(409, "Conflict", NAME)
        return self.found

    def _store(self, after: Wire) -> None:
        self.version += 1
        after["metadata"]["resourceVersion"] = str(self.version)
        self.found = after

    def _answer(self) -> bytes:
        if self.found is None:
            raise NotFound(404, "NotFound", NAME)
        return json.dumps(self.found).encode()


def config_map(**more: Any) -> Wire:
    meta = {"name": NAME, "uid": "first", "resourceVersion": "9", **more.pop("metadata", {})}
    return {"metadata": meta, **more}


MADE = ["create", "patch"]
ANEW = ["delete", *MADE]
FREED = ["patch", *ANEW]
LEAVING = {"finalizers": ["a.io/b"], "deletionTimestamp": "2030-01-01T00:00:00Z"}
SHAPES: dict[str, tuple[Wire | None, list[str], Mapping[str, int], bool]] = {
    "not there": (None, MADE, {}, True),
    "as it was": (config_map(data=GOOD), ["patch"], BEFORE.intents, False),
    "garbage": (config_map(data=GARBAGE), ["patch"], {}, True),
    "without data": (config_map(), ["patch"], {}, True),
    "its key in binaryData": (config_map(binaryData=GARBAGE), ["patch"], {}, True),
    "other keys": (
        config_map(data={**GOOD, "a": "b"}, binaryData={"c": "AA=="}),
        ["patch"],
        BEFORE.intents,
        False,
    ),
    "somebody's finalizer and owner": (
        config_map(data=GOOD, metadata={"finalizers": ["a.io/b"], "ownerReferences": OWNERS}),
        ["patch"],
        BEFORE.intents,
        False,
    ),
    "immutable": (config_map(data=GOOD, immutable=True), ANEW, BEFORE.intents, True),
    "immutable garbage": (config_map(binaryData=GARBAGE, immutable=True), ANEW, {}, True),
    "immutable, with a finalizer": (
        config_map(data=GOOD, immutable=True, metadata={"finalizers": ["a.io/b"]}),
        FREED,
        BEFORE.intents,
        True,
    ),
    "immutable, and being deleted": (
        config_map(data=GOOD, immutable=True, metadata=LEAVING),
        FREED,
        BEFORE.intents,
        True,
    ),
}


@each_case(("found", "sent", "intents", "is_new"), SHAPES.values(), ids=SHAPES)
def test_whatever_it_is_made_it_is_repaired_or_made_anew(
    found: Wire | None, sent: list[str], intents: dict[str, int], is_new: bool
) -> None:
    """What it says is kept where it can be read. One that is made anew is new: between the requests somebody
    else may have begun something.
    """
    api = ConfigMaps(json.loads(json.dumps(found)))
    stored = open_book(api.client(), "sluice-system")
    assert api.sent == sent
    assert (dict(stored.book.intents), stored.book.is_new) == (intents, is_new)
    assert stored.book.term == (5 if intents else 1)
    assert api.found is not None
    assert parse(api.found["data"][KEY]) == stored.book
    assert (list(api.found["data"]), api.found.get("binaryData") or {}) == ([KEY], {})
    assert (stored.uid, stored.version) == (api.found["metadata"]["uid"], api.version)
    assert not (api.found["metadata"].keys() & {"finalizers", "ownerReferences"})
    write_book(api.client(), "sluice-system", stored, msgspec.structs.replace(stored.book, intents={"a": 1}))
    assert parse(api.found["data"][KEY]).intents == {"a": 1}


def test_one_that_is_being_deleted_is_written_for_as_long_as_it_is_there() -> None:
    """Without its finalizers it would be gone with the write."""
    api = ConfigMaps(config_map(data=GOOD, metadata=dict(LEAVING)))
    assert open_book(api.client(), "sluice-system").book.intents == BEFORE.intents
    assert api.found is not None
    assert api.found["metadata"]["finalizers"] == ["a.io/b"]


INVALID, FORBIDDEN = Refused(422, "Invalid", "a policy denies it"), Refused(403, "Forbidden", "no right")
BUSY = Overloaded(503, "No", "busy", retry_after=1.0)


@each_case(
    ("refused", "sent"),
    [
        ({"patch": INVALID}, ["patch", "dry run", "delete", *MADE]),
        ({"patch": INVALID, "create": INVALID}, ["patch", "dry run"]),
        ({"patch": INVALID, "create": BUSY}, ["patch", "dry run"]),
        ({"patch": INVALID, "delete": FORBIDDEN}, ["patch", "dry run", "delete"]),
        ({"patch": FORBIDDEN}, ["patch"]),
        ({"patch": BUSY}, ["patch"]),
        ({"patch": Conflict(409, "Conflict", "it changed")}, ["patch"]),
    ],
)
def test_a_refused_book_is_deleted_only_where_it_may_be_its_content_and_a_new_one_is_taken(
    refused: dict[str, Refused], sent: list[str]
) -> None:
    api = ConfigMaps(config_map(data=GOOD), refused=refused)
    with pytest.raises(Refused):
        open_book(api.client(), "sluice-system")
    assert api.sent == sent


class Leader:
    """One that leads, whose queue has room for a pod, and a pod that waits."""

    def __init__(self) -> None:
        self.api = ApiServer(random.Random(0))
        self.api.is_rough = False
        self.events: list[tuple[str, str]] = []
        recorder = SimpleNamespace(record=self._record)
        self.replica = Replica(self.api, QuotaReleases, recorder=recorder)
        self.replica.server.has(queue("lab", capability={"cpu": "1"}, version=2, generation=2))
        self.goes_on()
        self.api.create("pod", "team", 1)

    def _record(self, subject: Any, *, reason: str, **_: Any) -> None:
        self.events.append((subject.name, reason))

    def goes_on(self, seconds: int = 12) -> None:
        for _ in range(seconds):
            self.replica.hear(99)
            self.replica.step()
            self.replica.send_all()

    @property
    def fault(self) -> str:
        return self.replica.releases.book_fault

    @property
    def is_released(self) -> bool:
        return is_released(self.api.pods["pod"])

    def retrying(self) -> list[tuple[str, str]]:
        return [(retry.loop, retry.why) for retry in self.replica.context.metrics.retries.lasting()]


@pytest.mark.parametrize("status", [400, 401, 403, 413, 422])
def test_a_book_that_cannot_be_written_is_said_at_once_and_all_goes_on_once_it_can(status: int) -> None:
    """By the fault, which is the same text for as long as it lasts; by the loop; by an event on each queue
    with a capability; and by each pod that waits, some seconds later.
    """
    leader = Leader()
    leader.api.refuses_book = Refused(status, "No", "a policy denies it")
    leader.goes_on(3)
    assert leader.fault == f"{status} No: a policy denies it"
    assert leader.retrying() == [("quota-book", leader.fault)]
    assert ("lab", "BookNotWritten") in leader.events
    assert leader.replica.said.get("pod") is None
    leader.goes_on(60)
    assert not leader.is_released
    assert leader.replica.said["pod"].kind is LackKind.BOOK
    assert len(leader.events) == len({name for name, _ in leader.events}), "once for each queue"
    leader.api.refuses_book = None
    leader.goes_on(14)  # its back-off is ten seconds at most
    assert leader.is_released
    assert (leader.fault, leader.retrying()) == ("", [])


def test_it_is_tried_less_and_less_though_it_can_be_opened_each_time() -> None:
    """That a book can be read is no success where its writes are refused; nor is it one that all is well."""
    leader = Leader()
    tries: list[int] = []
    _refuse_releases(leader, tries)
    leader.goes_on(200)
    assert not leader.is_released
    assert leader.fault
    assert 15 < len(tries) < 30


def _refuse_releases(leader: Leader, tries: list[int]) -> None:
    """As a policy on what is in the book may."""
    patched: Callable[[Wire], Wire] = leader.api._patch_book

    def patch(body: Wire) -> Wire:
        if parse(body["data"][KEY]).intents:
            tries.append(1)
            raise Refused(422, "Invalid", "a policy denies it")
        return patched(body)

    leader.api._patch_book = patch  # type: ignore[method-assign]


def test_a_fault_of_which_nothing_is_seen_any_more_ends_though_nothing_is_to_be_written() -> None:
    leader = Leader()
    _refuse_releases(leader, [])
    leader.goes_on(20)
    assert leader.fault
    leader.api.delete("pod")
    leader.goes_on(60 + 12)
    assert (leader.fault, leader.retrying()) == ("", [])


def test_a_book_that_is_deleted_now_and_then_is_no_fault_and_one_that_always_is_is_said() -> None:
    leader = Leader()
    for number in range(MANY + 2):
        leader.api.create(f"p{number}", "team", 1)
        leader.api.book = None
        leader.goes_on(4)
        assert leader.fault == ""
    leader.api.refuses_book = Conflict(409, "Conflict", "somebody else has written")
    leader.goes_on(40)
    assert "somebody else" in leader.fault


def test_without_a_quota_nothing_is_said_of_a_book_that_nobody_needs() -> None:
    leader = Leader()
    leader.api.refuses_book = Refused(403, "Forbidden", "no right")
    leader.replica.begin_term()
    leader.goes_on(5)
    assert leader.fault
    leader.api.delete("pod")
    names = [name for name in leader.replica.server.store.snapshot.tree if name != "root"]
    leader.replica.server.has(*(queue(name, version=50, generation=50) for name in ["root", *names]))
    leader.goes_on(3)
    assert (leader.fault, leader.retrying()) == ("", [])


def test_a_term_that_ends_is_no_success_and_no_failure() -> None:
    leader = Leader()
    leader.api.refuses_book = Refused(403, "Forbidden", "no right")
    leader.goes_on(5)
    leader.replica.begin_term()
    assert (leader.fault, leader.retrying()) == ("", [])


def test_since_when_a_book_is_new_is_written_into_it() -> None:
    stored = StoredBook(Book(term=1, is_new=True), "uid", 7)
    assert stored.new_since == 7
    api = ConfigMaps()
    assert open_book(api.client(), "sluice-system").book.since == 10
