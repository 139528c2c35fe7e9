"""Lists of the pods without label `sluice.dev/queue`: their metadata, and which of our schedulers they name.

- `read_waiting`: those on no node, as of a version or later. The API server has an index of node names.
- `UnlabelledPages`: all of them, or those of a namespace, page by page.

Most of these pods are members of no queue, and their users decide how large they are. So the thread that
reads a page also decides membership: of a pod that is no member only the UID is kept, of a member also the
keys that name a queue. Finished pods are left out.

A list of metadata does not have `schedulerName`, which decides in one case: so those that name a scheduler
which we own are listed once more, by a field selector. Pods of exempt namespaces are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

import msgspec

from cluster.api.client import Client, decode_response
from cluster.api.pages import PAGE_BYTES, ListPager
from cluster.exceptions import Overloaded, TooLarge, Unreachable
from cluster.objects import ListMeta, Metadata, Pod, PodSpec, version_number
from queues import well_known
from queues.apimachinery.lenient import LenientReader
from queues.membership import (
    GROUP_ANNOTATION,
    KUEUE_LABEL,
    MIRROR_ANNOTATION,
    VOLCANO_ANNOTATION,
    VOLCANO_LABEL,
)
from queues.world.trimming import NAME

PODS = "/api/v1/pods"
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#: Bytes of a list that is read at once; a larger one is read page by page.
MOST_BYTES = 4 * PAGE_BYTES
#: Namespaces that a field selector leaves out; all others are left out when membership is decided.
MAX_EXCLUDED = 20
_UNFINISHED = ("status.phase!=Succeeded", "status.phase!=Failed")


class _Labels(msgspec.Struct, frozen=True):
    """The labels that name a queue. All others are skipped when a list is decoded."""

    volcano: str | None = msgspec.field(default=None, name=VOLCANO_LABEL)
    kueue: str | None = msgspec.field(default=None, name=KUEUE_LABEL)


class _Annotations(msgspec.Struct, frozen=True):
    """The annotations that decide membership. All others are skipped when a list is decoded."""

    queue: str | None = msgspec.field(default=None, name=well_known.QUEUE)
    group: str | None = msgspec.field(default=None, name=GROUP_ANNOTATION)
    named: str | None = msgspec.field(default=None, name=VOLCANO_ANNOTATION)
    volcano: str | None = msgspec.field(default=None, name=VOLCANO_LABEL)
    mirror: str | None = msgspec.field(default=None, name=MIRROR_ANNOTATION)


class _Named(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod's metadata that membership is decided by."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    labels: _Labels | None = None
    annotations: _Annotations | None = None


class _PodMetadata(msgspec.Struct, frozen=True):
    metadata: _Named = _Named()


class _List(msgspec.Struct, frozen=True):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


_Items = list[msgspec.Raw] | None

_list = msgspec.json.Decoder(_List)
_strict = msgspec.json.Decoder(_PodMetadata)
_lenient = LenientReader(_PodMetadata)


class UnlabelledPods(msgspec.Struct, frozen=True):
    """Pods without the label: the UIDs of all, and those that are members, with the keys that decide that."""

    uids: set[str] = msgspec.field(default_factory=set)
    members: list[Pod] = msgspec.field(default_factory=list)


class UnlabelledWaitingPods(msgspec.Struct, frozen=True):
    """The pods on no node without the label, as they were at `version`."""

    version: int
    pods: UnlabelledPods


class PodSelection(msgspec.Struct, frozen=True, kw_only=True):
    """`schedulers`: those that we own. `exempt`: namespaces that never have members. `is_member`: whether a
    pod without the label is a member of a queue, or will be. It is called in the threads that read.
    """

    schedulers: Collection[str]
    exempt: Collection[str]
    is_member: Callable[[Pod], bool]

    def queries(self, *fields: str) -> Iterator[tuple[str, dict[str, str | int]]]:
        """Yield each list's scheduler ("": any) and query."""
        excluded = [f"metadata.namespace!={name}" for name in sorted(self.exempt)[:MAX_EXCLUDED]]
        for scheduler in ("", *sorted(self.schedulers)):
            named = [f"spec.schedulerName={scheduler}"] if scheduler else []
            selector = ",".join((*fields, *_UNFINISHED, *named, *excluded))
            yield scheduler, {"labelSelector": f"!{well_known.QUEUE}", "fieldSelector": selector}


def read_waiting(client: Client, selection: PodSelection, *, version: int) -> UnlabelledWaitingPods:
    """Read the pods on no node without the label, as of `version` or later; 0: as of now.

    Raises `ClusterError`.
    """
    found, versions = UnlabelledPods(), list[int]()
    for scheduler, query in selection.queries("spec.nodeName="):
        if scheduler and not found.uids:
            break  # the first list has the pods of every scheduler
        add = partial(_add, found, scheduler=scheduler, is_member=selection.is_member)
        versions.append(_read_list(client, query, add, version=version))
    return UnlabelledWaitingPods(min(versions), found)


def _read_list(
    client: Client, query: Mapping[str, str | int], add: Callable[[_Items], object], *, version: int
) -> int:
    """Read a list, at once or page by page, and return its version."""
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
        return _read_pages(client, query, add, version=version)
    listed = decode_response(data, _list)
    add(listed.items)
    return _list_version(listed.metadata, version)


def _read_pages(
    client: Client, query: Mapping[str, str | int], add: Callable[[_Items], object], *, version: int
) -> int:
    listed = 0
    for page in ListPager().read(client, PODS, query=query, accept=METADATA):
        listed = listed or _list_version(page.metadata, version)
        add(page.items)
    return listed


def _list_version(meta: ListMeta, wanted: int) -> int:
    """Raises `Unreachable` for an answer that is no list, or an older one than was asked for."""
    version = version_number(meta.resource_version)
    if not version or version < wanted:
        raise Unreachable(f"list {PODS}: the answer is of version {version}, not {wanted} or later")
    return version


class UnlabelledPages:
    """All pods without the label, page by page. For one thread at a time.

    A page that got no answer is read again with its token, for fewer pods if it came too late. After any
    other failure (410: the token is too old) the query begins anew, since pages of two lists may miss a pod;
    queries that are done stay done.
    """

    def __init__(self, client: Client, selection: PodSelection, *, namespace: str = "") -> None:
        self._client = client
        self._is_member = selection.is_member
        self._path = f"/api/v1/namespaces/{namespace}/pods" if namespace else PODS
        self._queries = list(selection.queries())
        self._pager, self._token = ListPager(), ""

    def read_page(self) -> UnlabelledPods | None:
        """Read the next page; None after the last one. Raises `ClusterError`."""
        if not self._queries:
            return None
        scheduler, query = self._queries[0]
        try:
            page = self._pager.read_page(
                self._client, self._path, query=query, token=self._token, accept=METADATA
            )
        except Overloaded:
            raise
        except Unreachable:
            self._pager.read_less()
            raise
        except BaseException:
            self._token = ""
            raise
        pods = UnlabelledPods()
        _add(pods, page.items, scheduler=scheduler, is_member=self._is_member)
        self._token = page.metadata.continue_
        if not self._token:
            del self._queries[0]
        return pods


def _add(pods: UnlabelledPods, items: _Items, *, scheduler: str, is_member: Callable[[Pod], bool]) -> None:
    spec = PodSpec(scheduler_name=scheduler)
    for raw in items or ():
        pod = Pod(metadata=_metadata(raw), spec=spec)
        pods.uids.add(pod.metadata.uid)
        if is_member(pod):
            pods.members.append(pod)


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
        labels=_entries(named.labels),
        annotations=_entries(named.annotations),
    )


def _entries(known: _Labels | _Annotations | None) -> dict[str, str] | None:
    """Return the entries that are there. A value too long for a name is cut and stays invalid."""
    if known is None:
        return None
    values = ((field.encode_name, getattr(known, field.name)) for field in msgspec.structs.fields(known))
    return {key: value[:NAME] for key, value in values if value is not None}
