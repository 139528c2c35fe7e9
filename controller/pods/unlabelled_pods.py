"""Lists of the pods without label `sluice.dev/queue`: their metadata, and which of our schedulers they name.

- `read_waiting`: those on no node, as of a version or later. The API server has an index of node names.
- `UnlabelledPages`: all of them, or those of a namespace, page by page.

A list of metadata does not have `schedulerName`, which decides in one case: so those that name a scheduler
which we own are listed once more, by a field selector. Pods of exempt namespaces are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial

import msgspec

from cluster.api.client import Client, decode_response
from cluster.api.pages import PAGE_BYTES, ListPager
from cluster.decoding import LenientReader
from cluster.exceptions import TooLarge, Unreachable
from cluster.objects import ListMeta, Metadata, Pod, PodSpec, version_number
from queues import labels as names

PODS = "/api/v1/pods"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#: Bytes of a list that is read at once; a larger one is read page by page.
MOST_BYTES = 4 * PAGE_BYTES
#: Namespaces that a field selector leaves out; all others are left out when membership is decided.
MAX_EXCLUDED = 20


class _Named(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod's metadata that membership is decided by."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _PodMetadata(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()


class _List(msgspec.Struct, frozen=True):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


_list = msgspec.json.Decoder(_List)
_strict = msgspec.json.Decoder(_PodMetadata)
_lenient = LenientReader(_PodMetadata)


class WaitingPods(msgspec.Struct, frozen=True):
    """The pods on no node without the label, as they were at `version`."""

    version: int
    pods: list[Pod]


class PodSelection(msgspec.Struct, frozen=True, kw_only=True):
    """`schedulers`: those that we own. `exempt`: namespaces that never have members."""

    schedulers: Collection[str]
    exempt: Collection[str]

    def queries(self, *fields: str) -> Iterator[tuple[str, dict[str, str | int]]]:
        """Yield each list's scheduler ("": any) and query."""
        excluded = [f"metadata.namespace!={name}" for name in sorted(self.exempt)[:MAX_EXCLUDED]]
        for scheduler in ("", *sorted(self.schedulers)):
            named = [f"spec.schedulerName={scheduler}"] if scheduler else []
            selector = ",".join((*fields, *named, *excluded))
            yield scheduler, {"labelSelector": f"!{names.QUEUE}", "fieldSelector": selector}


def read_waiting(client: Client, selection: PodSelection, *, version: int) -> WaitingPods:
    """Read the pods on no node without the label, as of `version` or later; 0: as of now.

    Raises `ClusterError`.
    """
    found: dict[str, Pod] = {}
    versions = []
    for scheduler, query in selection.queries("spec.nodeName="):
        listed, pods = _read_list(client, query, scheduler=scheduler, version=version)
        versions.append(listed)
        found |= {pod.metadata.uid: pod for pod in pods}
    return WaitingPods(min(versions), list(found.values()))


def _read_list(
    client: Client, query: Mapping[str, str | int], *, scheduler: str, version: int
) -> tuple[int, list[Pod]]:
    as_of: dict[str, str | int] = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    try:
        data = client.request(
            "GET",
            PODS,
            query={**query, **as_of} if version else query,
            most_bytes=MOST_BYTES,
            accept=METADATA,
        )
    except TooLarge:
        return _read_pages(client, query, scheduler=scheduler, version=version)
    listed = decode_response(data, _list)
    return _list_version(listed.metadata, version), _pods(listed.items, scheduler)


def _read_pages(
    client: Client, query: Mapping[str, str | int], *, scheduler: str, version: int
) -> tuple[int, list[Pod]]:
    pods: list[Pod] = []
    listed = 0
    for page in ListPager().read(client, PODS, query=query, accept=METADATA):
        listed = listed or _list_version(page.metadata, version)
        pods += _pods(page.items, scheduler)
    return listed, pods


def _list_version(meta: ListMeta, wanted: int) -> int:
    """Raises `Unreachable` for an answer that is no list, or an older one than was asked for."""
    version = version_number(meta.resource_version)
    if not version or version < wanted:
        raise Unreachable(f"list {PODS}: the answer is of version {version}, not {wanted} or later")
    return version


class UnlabelledPages:
    """All pods without the label, page by page. For one thread at a time.

    After a page that failed the list begins anew: pages of two lists may miss a pod.
    """

    def __init__(self, client: Client, selection: PodSelection, *, namespace: str = "") -> None:
        self._begin = partial(self._read, client, selection, namespace)
        self._pages = self._begin()

    def read_page(self) -> list[Pod] | None:
        """Read the next page; None after the last one. Raises `ClusterError`."""
        try:
            return next(self._pages, None)
        except BaseException:
            self._pages = self._begin()
            raise

    @staticmethod
    def _read(client: Client, selection: PodSelection, namespace: str) -> Iterator[list[Pod]]:
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else PODS
        for scheduler, query in selection.queries():
            for page in ListPager().read(client, path, query=query, accept=METADATA):
                yield _pods(page.items, scheduler)


def _pods(items: list[msgspec.Raw] | None, scheduler: str) -> list[Pod]:
    spec = PodSpec(scheduler_name=scheduler)
    return [Pod(metadata=_metadata(raw), spec=spec) for raw in items or ()]


def _metadata(raw: msgspec.Raw) -> Metadata:
    try:
        named = _strict.decode(raw).metadata
    except msgspec.DecodeError:
        named = _lenient(raw)[0].metadata
    return Metadata(
        name=named.name,
        namespace=named.namespace,
        uid=named.uid,
        resource_version=named.resource_version,
        labels=named.labels,
        annotations=named.annotations,
    )
