"""Lists read page by page, each page bounded in bytes.

An object takes up to 1.5 MiB in etcd, and six times that as JSON: Go writes `<` as `\\u003c`. Five hundred of
them on one page are more than the memory that we have, and whoever may create pods can make them. So a page
that grows beyond `PAGE_BYTES` while it is read is given up and asked for again, with the same token, for a
quarter of the objects; pages that stay far below are made larger again. One object alone is read whatever its
size.

Invariants
- No more is held than `PAGE_BYTES`, twice, or one object.
- Every object of the list comes once, in the order of the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from cluster.api.client import Client, decode_response
from cluster.exceptions import NotFound, TooLarge, Unreachable
from cluster.objects import RawList

PAGE_OBJECTS = 500
PAGE_BYTES = 16 * 1024 * 1024
#: By how much the number of objects on a page falls and rises.
GROWTH = 4

_page = msgspec.json.Decoder(RawList)


class ListPager:
    """How many objects of a kind fit on a page, as learnt from those before. For one thread at a time."""

    def __init__(self) -> None:
        self._limit = PAGE_OBJECTS

    def read(
        self,
        client: Client,
        path: str,
        *,
        query: Mapping[str, str | int],
        seen: Callable[[], object] = lambda: None,
    ) -> Iterator[RawList]:
        """The pages of a list. `seen` is called for each answer. Raises `cluster.exceptions.ClusterError`."""
        token = ""
        while True:
            page = self._read_page(client, path, query={**query, "continue": token} if token else query)
            seen()
            yield page
            token = page.metadata.continue_
            if not token:
                return

    def _read_page(self, client: Client, path: str, *, query: Mapping[str, str | int]) -> RawList:
        """A page; an answer without a version is none, whatever its status said."""
        while True:
            limit = min(self._limit, PAGE_OBJECTS)
            try:
                data = client.request(
                    "GET",
                    path,
                    query={**query, "limit": limit},
                    most_bytes=PAGE_BYTES if limit > 1 else None,
                )
            except TooLarge:
                self._limit = max(1, limit // GROWTH)
                continue
            page = decode_response(data, _page)
            if not page.metadata.resource_version:
                raise Unreachable(f"list {path}: the answer is no list")
            if len(data) < PAGE_BYTES // GROWTH:
                self._limit = min(PAGE_OBJECTS, limit * GROWTH)
            return page


def list_objects(client: Client, path: str, *, selector: str = "") -> Iterator[Any]:
    """The objects of a list, page by page, as bytes; none where the kind is not installed.

    For questions that the cache is too old to answer.
    """
    query = {"labelSelector": selector} if selector else {}
    try:
        for page in ListPager().read(client, path, query=query):
            yield from page.items or ()
    except NotFound:
        return
