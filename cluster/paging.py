"""The pages of a list, each of bounded length.

A page is asked for by a number of objects, and users make objects of up to 9 MiB of JSON: so many as a page
usually has would be gigabytes. A page that becomes longer than `PAGE_BYTES` is given up while it is read, and
asked for again with fewer objects. A page of one object is read whatever its length.

Invariants
- What is read at once is at most `PAGE_BYTES`, or one object.
- A page has at most as many objects as are asked for; after short pages it has as many again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.exceptions import TooLong

PAGE_BYTES = 32 * 1024 * 1024
#: A page that is too long is asked for again with a quarter of the objects.
FEWER = 4
#: A page this much shorter than it may be is followed by one of twice as many objects.
SHORT = 4

Query = Mapping[str, str | int]
#: Asks for a query's answer of at most so many bytes, None for any number. Raises `TooLong`.
Fetch = Callable[[Query, int | None], bytes]


class Paging:
    """One list's pages. Owner: the thread that reads them."""

    def __init__(self, fetch: Fetch, *, most: int = PAGE_BYTES) -> None:
        self._fetch = fetch
        self._most = most
        #: Objects that fit into a page; None where nothing was ever too long.
        self._fitting: int | None = None

    def read(self, query: Query, *, limit: int) -> bytes:
        """The page that the query asks for, of at most `limit` objects."""
        while True:
            now = limit if self._fitting is None else min(limit, self._fitting)
            try:
                page = self._fetch({**query, "limit": now}, self._most if now > 1 else None)
            except TooLong:
                self._fitting = max(1, now // FEWER)
                continue
            if self._fitting is not None and len(page) * SHORT < self._most:
                self._fitting = now * 2 if now < limit else None
            return page
