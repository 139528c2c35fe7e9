"""Requests to the API server: any (`ApiClient`), and those about queues (`Queues`).

Promises
- Any thread may call any method, and several may at a time, as of a `Transport`.
- Whatever the server warns of goes to `warn`, in order, in the thread that made the request.
- `now` is the API server's clock at its last answer, to whichever thread; until then this machine's.
- Objects are the server's JSON as it is; the items of a list have `apiVersion` and `kind` too.
- A field that the server's definition does not know is refused, never dropped silently.
- A request that the API server gave up since a webhook of Sluice did not answer in time is sent again, up to
  `WEBHOOK_TRIES` times in all, and the user is told. It was not stored. The API server may keep connections
  to a replica that is gone, and each of them fails one request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from kubectl_queue.access import responses
from kubectl_queue.access.responses import QUEUES, ApiRequest, ApiResponse
from kubectl_queue.cli.options import DryRun
from kubectl_queue.errors import WebhookError
from kubectl_queue.objects.fields import Object
from kubectl_queue.views.outage import lost_text

if TYPE_CHECKING:
    from kubectl_queue.access.transport import Transport
    from kubectl_queue.views.outage import Outage


API_VERSION = "scheduling.volcano.sh/v1beta1"
KIND = "Queue"
FIELD_MANAGER = "kubectl-queue"
_PATH = f"/apis/{API_VERSION}/queues"
#: kubectl's --chunk-size.
_PAGE = "500"
#: Of metadata alone, which is a third of a pod and less.
_METADATA_PAGE = "1500"
_JSON = "application/json"
_METADATA = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{_JSON}"
#: A change of a queue calls two webhooks, over connections that may lead to the same lost replica.
WEBHOOK_TRIES = 6
#: Bookmarks come about once a minute: after two missed ones the connection counts as dead.
_SILENCE = 130.0


class ObjectList(NamedTuple):
    items: list[Object]
    resource_version: str


class ApiClient:
    def __init__(
        self,
        transport: Transport,
        *,
        warn: Callable[[str], None],
        read_outage: Callable[[ApiClient], Outage | None] = lambda _: None,
    ) -> None:
        """`read_outage`: asked where a webhook of Sluice did not answer."""
        self._transport = transport
        self._warn = warn
        self._read_outage = read_outage
        self.now = datetime.now(UTC)

    def send(self, request: ApiRequest, *, kind: str = QUEUES) -> Object:
        """Return the object of the response; raise the error that it holds. `kind`: its RESOURCE.GROUP."""
        response = self._transport.send(request)
        for _ in range(WEBHOOK_TRIES - 1):
            webhook = responses.silent_webhook(response)
            if not webhook:
                break
            self._warn(f"webhook {webhook} did not answer the API server in time; the request is sent again")
            response = self._transport.send(request)
        try:
            return self.read(response, kind=kind)
        except WebhookError as exc:
            outage = self._read_outage(self)
            raise exc.during(lost_text(outage, now=self.now) if outage else "") from None

    def list(self, path: str, *, query: Mapping[str, str], kind: str = QUEUES) -> ObjectList:
        """All items, page by page. `kind`: RESOURCE.GROUP of the items."""
        items: list[Object] = []
        version = ""
        for page in self.pages(path, query=query, kind=kind):
            items += page.items
            version = page.resource_version
        return ObjectList(items, version)

    def pages(
        self, path: str, *, query: Mapping[str, str], kind: str = QUEUES, metadata_only: bool = False
    ) -> Iterator[ObjectList]:
        """The same, one page after the other, for lists that are not to be held whole.

        `metadata_only`: of each item nothing else is sent.
        """
        accept, limit = (_METADATA, _METADATA_PAGE) if metadata_only else (_JSON, _PAGE)
        pages = {"limit": limit, **query}
        while True:
            page = self.send(ApiRequest(method="GET", path=path, query=pages, accept=accept), kind=kind)
            metadata = page.get("metadata") or {}
            yield ObjectList(page.get("items") or [], str(metadata.get("resourceVersion", "")))
            if not metadata.get("continue"):
                return
            pages = {**pages, "continue": metadata["continue"]}

    def stream(self, request: ApiRequest, *, silence: float) -> Iterator[bytes | ApiResponse]:
        return self._transport.stream(request, silence=silence)

    def read(self, response: ApiResponse, *, kind: str = QUEUES) -> Object:
        self.now = responses.server_time(response.headers) or datetime.now(UTC)
        for text in responses.warnings(response.headers):
            self._warn(text)
        return responses.read(response, kind=kind)


class WatchEvent(NamedTuple):
    type: str
    object: Object


class Queues:
    """The API of the kind Queue."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    @property
    def now(self) -> datetime:
        return self._client.now

    def get(self, name: str) -> Object:
        return self._send("GET", name)

    def list(self, *, selector: str = "", name: str = "") -> ObjectList:
        """All of them, or those that the label selector or the name selects."""
        items, version = self._client.list(_PATH, query=_selection(selector=selector, name=name))
        return ObjectList([{"apiVersion": API_VERSION, "kind": KIND, **item} for item in items], version)

    def probe(self) -> None:
        """Ask for one of them. Raises what `list` would, where that would fail."""
        self._send("GET", query={"limit": "1"})

    def create(self, object: Mapping[str, Any], *, dry_run: DryRun) -> Object:
        return self._send("POST", query=_writing(dry_run), body=object)

    def patch(self, name: str, patch: Mapping[str, Any], *, dry_run: DryRun) -> Object:
        """Apply a JSON merge patch; ConflictError where its resourceVersion is not the present one."""
        return self._send("PATCH", name, query=_writing(dry_run), body=patch)

    def delete(self, name: str, *, dry_run: DryRun) -> bool:
        """Whether it is gone already; finalizers may keep it for a while."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        query: dict[str, str] = {}
        if dry_run is DryRun.SERVER:
            # Beside the options the API server overlooks the query; a proxy may take the options away.
            options["dryRun"] = ["All"]
            query["dryRun"] = "All"
        return self._send("DELETE", name, query=query, body=options).get("kind") == "Status"

    def watch(self, since: str, *, selector: str = "", name: str = "") -> Iterator[WatchEvent]:
        """Changes after the resourceVersion `since`, bookmarks too, until the server ends it.

        Raises ExpiredError where `since` is too old: list again.
        """
        selected = _selection(selector=selector, name=name)
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since, **selected}
        request = ApiRequest(method="GET", path=_PATH, query=query)
        for line in self._client.stream(request, silence=_SILENCE):
            if isinstance(line, ApiResponse):
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
        request = ApiRequest(
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


def _event(line: bytes) -> WatchEvent:
    event = responses.decoded(line) or {}
    item = event.get("object") or {}
    if event.get("type") == "ERROR":
        raise responses.refusal(item, code=int(item.get("code") or 500))
    return WatchEvent(str(event.get("type", "")), item)
