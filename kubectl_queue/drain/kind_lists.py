"""Lists of the kinds that a drain asks about, of the namespaces concerned, with the user's rights.

Promise: a kind that may not be read is `unread`, and one warning says so; one that is not installed is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import ForbiddenError, KindMissingError
from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.objects.types import Type

#: Namespaces that are listed one by one; where there are more, all are.
MAX_NAMESPACES = 10


class KindLists:
    """For one command. `only`: the one namespace that may be read; "": all may be."""

    def __init__(self, client: ApiClient, *, only: Callable[[], str], warn: Callable[[str], None]) -> None:
        self._client = client
        self._only = only
        self._warn = warn
        #: RESOURCE.GROUP of the kinds that may not be read.
        self.unread: set[str] = set()

    def items(self, kind: Type, *, namespaces: Collection[str]) -> Iterator[Object]:
        """The objects of these namespaces, page by page; none where they may not be read."""
        if self._only():
            namespaces = {self._only()} & set(namespaces)
        places = sorted(namespaces) if len(namespaces) <= MAX_NAMESPACES else [""]
        for place in places:
            if kind.full in self.unread:
                return
            for item in self._listed(kind, place):
                if place or value_at(item, "metadata.namespace") in namespaces:
                    yield item

    def _listed(self, kind: Type, namespace: str) -> Iterator[Object]:
        place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        try:
            for page in self._client.pages(f"{kind.base}{place}/{kind.resource}", query={}, kind=kind.full):
                yield from page.items
        except KindMissingError:
            return
        except ForbiddenError as exc:
            self.unread.add(kind.full)
            self._warn(f"{kind.full} are left out: {exc}")
