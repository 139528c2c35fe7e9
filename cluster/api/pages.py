"""Lists a kind page by page, each page limited in bytes.

An object has up to 1.5 MiB in etcd, and six times as much as JSON: Go writes `<` as `\\u003c`. Five hundred
such objects on one page exceed our memory, and any user who may create pods can create them. So a page that
grows beyond `PAGE_BYTES` is given up while it is read, and requested again with the same token for a quarter
of the objects. The number of objects grows again after pages that stay far below the limit. A single object
is read whatever its size.

Invariants
- At most twice `PAGE_BYTES`, or one object, is in memory.
- Every object of the list is returned once, in the API server's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from cluster.api.client import JSON, Client, decode_response
from cluster.exceptions import NotFound, TooLarge, Unreachable
from cluster.objects import RawList

PAGE_OBJECTS = 500
PAGE_BYTES = 16 * 1024 * 1024
#: The factor by which the number of objects on a page falls and rises.
GROWTH = 4

_page = msgspec.json.Decoder(RawList)


class ListPager:
    """Learns how many objects of a kind fit on a page. For one thread at a time."""

    def __init__(self) -> None:
        self._limit = PAGE_OBJECTS

    def read(
        self,
        client: Client,
        path: str,
        *,
        query: Mapping[str, str | int],
        seen: Callable[[], object] = lambda: None,
        accept: str = JSON,
    ) -> Iterator[RawList]:
        """Yield the pages of a list. `seen` is called after each answer. Raises `ClusterError`."""
        token = ""
        while True:
            page = self.read_page(client, path, query=query, token=token, accept=accept)
            seen()
            yield page
            token = page.metadata.continue_
            if not token:
                return

    def read_less(self) -> None:
        """Ask for fewer objects a page: the API server did not send the last one in time."""
        self._limit = max(1, self._limit // GROWTH)

    def read_page(
        self,
        client: Client,
        path: str,
        *,
        query: Mapping[str, str | int],
        token: str = "",
        accept: str = JSON,
    ) -> RawList:
        """Read one page, the first without a `token`. Raises `ClusterError`.

        An answer without a resource version is not a list, whatever its status.
        """
        query = {**query, "continue": token} if token else query
        while True:
            limit = min(self._limit, PAGE_OBJECTS)
            try:
                data = client.request(
                    "GET",
                    path,
                    query={**query, "limit": limit},
                    most_bytes=PAGE_BYTES if limit > 1 else None,
                    accept=accept,
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
    """Yield the objects of a list as bytes; nothing if the kind is not installed.

    For questions that need newer data than the cache has. Raises `cluster.exceptions.ClusterError`.
    """
    query = {"labelSelector": selector} if selector else {}
    try:
        for page in ListPager().read(client, path, query=query):
            yield from page.items or ()
    except NotFound:
        return
