"""The queues of one API server: get, list, create, patch, delete, watch.

Promises
- Objects are the server's JSON as it is; the items of a list have `apiVersion` and `kind` too.
- A field that the server's definition does not know is refused, never dropped in silence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from kubectl_queue.access import responses
from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import Object, Request, Response
from kubectl_queue.cli.options import DryRun

API_VERSION = "scheduling.volcano.sh/v1beta1"
KIND = "Queue"
FIELD_MANAGER = "kubectl-queue"
_PATH = f"/apis/{API_VERSION}/queues"
#: kubectl's --chunk-size.
_PAGE = "500"
#: Bookmarks come about once a minute: two missed ones mean that nobody is there.
_SILENCE = 130.0


class Listing(NamedTuple):
    items: list[Object]
    resource_version: str


class Event(NamedTuple):
    type: str
    object: Object


class Queues:
    """The API of the kind Queue. One thread."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    @property
    def now(self) -> datetime:
        return self._client.now

    def get(self, name: str) -> Object:
        return self._send("GET", name)

    def list(self, *, selector: str = "", name: str = "") -> Listing:
        """All of them, or those that the label selector or the name selects."""
        query = {"limit": _PAGE, **_selection(selector=selector, name=name)}
        items: list[Object] = []
        while True:
            page = self._send("GET", query=query)
            items += [{"apiVersion": API_VERSION, "kind": KIND, **item} for item in page.get("items") or ()]
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return Listing(items, str(metadata.get("resourceVersion", "")))
            query["continue"] = metadata["continue"]

    def create(self, object: Mapping[str, Any], *, dry_run: DryRun) -> Object:
        return self._send("POST", query=_writing(dry_run), body=object)

    def patch(self, name: str, patch: Mapping[str, Any], *, dry_run: DryRun) -> Object:
        """Apply a JSON merge patch; ConflictError where its resourceVersion is not the present one."""
        return self._send("PATCH", name, query=_writing(dry_run), body=patch)

    def delete(self, name: str, *, dry_run: DryRun) -> bool:
        """Whether it is gone already; finalizers may keep it for a while."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if dry_run is DryRun.SERVER:
            # In the options, since beside them the server overlooks a query.
            options["dryRun"] = ["All"]
        return self._send("DELETE", name, body=options).get("kind") == "Status"

    def watch(self, since: str, *, selector: str = "", name: str = "") -> Iterator[Event]:
        """Changes after the resourceVersion `since`, bookmarks too, until the server ends it.

        Raises ExpiredError where `since` is too old: list again.
        """
        selected = _selection(selector=selector, name=name)
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since, **selected}
        request = Request(method="GET", path=_PATH, query=query)
        for line in self._client.stream(request, silence=_SILENCE):
            if isinstance(line, Response):
                self._client.read(line)
                return
            yield _event(line)

    def _send(
        self,
        method: str,
        name: str = "",
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Object:
        request = Request(
            method=method,
            path=f"{_PATH}/{quote(name, safe='')}" if name else _PATH,
            query=query or {},
            body=None if body is None else json.dumps(body).encode(),
            content_type="application/merge-patch+json" if method == "PATCH" else "application/json",
        )
        return self._client.send(request)


def _selection(*, selector: str, name: str) -> dict[str, str]:
    chosen = {"labelSelector": selector, "fieldSelector": f"metadata.name={name}" if name else ""}
    return {key: value for key, value in chosen.items() if value}


def _writing(dry_run: DryRun) -> dict[str, str]:
    query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
    return {**query, "dryRun": "All"} if dry_run is DryRun.SERVER else query


def _event(line: bytes) -> Event:
    event = responses.decoded(line) or {}
    item = event.get("object") or {}
    if event.get("type") == "ERROR":
        raise responses.refusal(item, code=int(item.get("code") or 500))
    return Event(str(event.get("type", "")), item)
