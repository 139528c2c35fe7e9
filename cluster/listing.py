"""Lists read once, page by page, for questions that the cache is too old to answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cluster.client import Client, decode
from cluster.exceptions import NotFound
from cluster.objects import RawList
from cluster.paging import Paging, Query

PAGE = 500


def listed(client: Client, path: str, *, selector: str = "") -> Iterator[Any]:
    """The objects of a list, page by page, as bytes; none where the kind is not installed."""

    def fetch(query: Query, most: int | None) -> bytes:
        return client.request("GET", path, query=query, most=most)

    paging, token = Paging(fetch), ""
    while True:
        query: dict[str, str | int] = {}
        if selector:
            query["labelSelector"] = selector
        if token:
            query["continue"] = token
        try:
            page: RawList = decode(paging.read(query, limit=PAGE), RawList)
        except NotFound:
            return
        yield from page.items or ()
        token = page.metadata.continue_
        if not token:
            return
