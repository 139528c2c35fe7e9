"""Lists of the pods without our label."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from msgspec.structs import replace

from cluster.api.client import Client
from cluster.exceptions import Expired, Overloaded, TooLarge, Unreachable
from controller.pods.unlabelled_pods import METADATA, PodSelection, UnlabelledPages, read_waiting
from queues.world.trimming import NAME

SELECTION = PodSelection(schedulers={"volcano"}, exempt={"kube-system"}, is_member=lambda _pod: True)
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Pages:
    """Serves a page a pod; `faults`: raised for the request of that number."""

    def __init__(self, *names: str, version: int = 7, faults: Mapping[int, Exception] | None = None) -> None:
        self._names, self._version, self._faults = names, version, faults or {}
        self.queries: list[Mapping[str, Any]] = []

    def request(self, _method: str, _path: str, *, query: Mapping[str, Any], accept: str, **_: Any) -> bytes:
        assert accept == METADATA
        self.queries.append(query)
        if (fault := self._faults.get(len(self.queries))) is not None:
            raise fault
        names = self._names if "volcano" not in query["fieldSelector"] else ()
        first = int(query.get("continue", 0))
        last = first + 1 if "limit" in query else len(names)
        meta = {"resourceVersion": str(self._version), "continue": str(last) if last < len(names) else ""}
        items = [{"metadata": {"name": name, "uid": f"uid-{name}"}} for name in names[first:last]]
        return json.dumps({"metadata": meta, "items": items}).encode()


def read_all(pages: UnlabelledPages) -> list[str]:
    found = []
    while (page := pages.read_page()) is not None:
        found += [pod.metadata.name for pod in page.members]
    return found


def test_all_pages_are_read() -> None:
    api = Pages("a", "b", "c")
    assert read_all(UnlabelledPages(cast(Client, api), SELECTION)) == ["a", "b", "c"]
    assert {query["labelSelector"] for query in api.queries} == {"!sluice.dev/queue"}
    assert {query["fieldSelector"] for query in api.queries} == {
        f"{UNFINISHED},metadata.namespace!=kube-system",
        f"{UNFINISHED},spec.schedulerName=volcano,metadata.namespace!=kube-system",
    }


def test_a_page_that_got_no_answer_is_read_again_for_fewer_pods() -> None:
    """It is not taken for the end of the list, and what was read before is not read again."""
    api = Pages("a", "b", faults={2: Unreachable("cut"), 3: Overloaded(503, "", "busy", retry_after=0.0)})
    pages = UnlabelledPages(cast(Client, api), SELECTION)
    assert (page := pages.read_page()) is not None and page.uids == {"uid-a"}
    for error in (Unreachable, Overloaded):
        with pytest.raises(error):
            pages.read_page()
    assert read_all(pages) == ["b"]
    tokens = [query.get("continue") for query in api.queries]
    assert tokens == [None, "1", "1", "1", None]
    assert api.queries[2]["limit"] < api.queries[1]["limit"]
    assert api.queries[3]["limit"] == api.queries[2]["limit"], "it was busy, not slow"


def test_after_a_token_that_is_too_old_the_query_begins_anew_and_those_before_it_do_not() -> None:
    faults = {2: Expired(410, "Expired", "too old"), 5: Expired(410, "Expired", "too old")}
    api = Pages("a", "b", faults=faults)
    pages = UnlabelledPages(cast(Client, api), SELECTION)
    assert pages.read_page() is not None
    with pytest.raises(Expired):
        pages.read_page()
    read = [page.uids for _ in range(2) if (page := pages.read_page()) is not None]
    assert read == [{"uid-a"}, {"uid-b"}]
    with pytest.raises(Expired):
        pages.read_page()
    assert read_all(pages) == []
    assert ["volcano" in query["fieldSelector"] for query in api.queries] == [False] * 4 + [True] * 2


def test_a_list_that_is_older_than_was_asked_for_is_no_answer() -> None:
    with pytest.raises(Unreachable):
        read_waiting(cast(Client, Pages("a", version=7)), SELECTION, version=8)


def test_waiting_pods_that_are_too_many_at_once_are_read_page_by_page() -> None:
    api = Pages("a", "b", faults={1: TooLarge("too much")})
    found = read_waiting(cast(Client, api), SELECTION, version=7)
    assert [pod.metadata.name for pod in found.pods.members] == ["a", "b"]
    assert found.version == 7


def test_metadata_that_cannot_be_read_in_full_hides_no_pod() -> None:
    class Odd(Pages):
        def request(self, *arguments: Any, **more: Any) -> bytes:
            data = super().request(*arguments, **more)
            return data.replace(b'"uid": "uid-a"', b'"uid": "uid-a", "annotations": [1]')

    found = read_waiting(cast(Client, Odd("a", "b")), SELECTION, version=0)
    assert [pod.metadata.uid for pod in found.pods.members] == ["uid-a", "uid-b"]


def test_of_a_pod_only_what_decides_membership_is_kept_and_of_others_the_uid() -> None:
    class Large(Pages):
        def request(self, *arguments: Any, **more: Any) -> bytes:
            listed = json.loads(super().request(*arguments, **more))
            for item in listed["items"]:
                item["metadata"]["labels"] = {
                    "volcano.sh/queue-name": "q",
                    **{f"l{n}": "x" for n in range(99)},
                }
                item["metadata"]["annotations"] = {
                    "notes": "x" * 9999,
                    "kubernetes.io/config.mirror": "",
                    "scheduling.volcano.sh/queue-name": "x" * 9999,
                }
            return json.dumps(listed).encode()

    selection = replace(SELECTION, is_member=lambda pod: pod.metadata.name == "member")
    found = read_waiting(cast(Client, Large("member", "stray")), selection, version=0)
    assert found.pods.uids == {"uid-member", "uid-stray"}
    (member,) = found.pods.members
    assert member.metadata.labels == {"volcano.sh/queue-name": "q"}
    assert member.metadata.annotations == {
        "kubernetes.io/config.mirror": "",
        "scheduling.volcano.sh/queue-name": "x" * NAME,
    }
