"""Workloads are listed whole and watched by their label `sluice.dev/queue`.

The webhook writes the label on each workload that comes to a queue. Most workloads of a cluster are in none,
and change with each of their pods: their events are not sent to us. The server writes no label itself: it
changes workloads where a drain suspends or scales them, and at no other time.

`WorkloadEventHandler` of a kind decides after each list what the next watch selects:

==============================================  =======================================================
in the list                                     the watch
==============================================  =======================================================
every workload that is needed has the label     by the label
one that is needed lacks it                     of all workloads of the kind, until a list shows none
==============================================  =======================================================

Needed is a member of a queue (by the rules of `queues.membership`) that has not finished, an owner of a
member, and what a drain suspended, which is resumed. How a needed workload can be without the label, and
how the watch comes to have it:

==============================================  =======================================================
it is older than the installation, or was       the first list
created while the server was away
its namespace names a queue only now            `Store.relist_members`: all kinds are listed
it was created while no webhook was registered  the list every `RELIST_SECONDS`; sooner if it has pods that
                                                are members, or a pod of it is refused: their owner is looked
                                                up by name (`MissingOwners`), and its kind is listed. Closed
                                                is not written before such workloads were listed
                                                (`controller.status.closing`)
its label was removed                           the watch says DELETED: it is looked up by name, stays in the
                                                cache if it exists, and its kind is listed
it waits for a PodGroup that does not exist     the webhook gives it an empty label
==============================================  =======================================================

Of a list only what is labelled or needed is kept.

Threads: each handler is called by its reflector; `WorkloadLookups.look_up` by the thread `workload-lookups`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from cluster.api.client import Client, decode_response
from cluster.cache.missing_owners import MissingOwner
from cluster.cache.store import Store
from cluster.cache.workloads import Workload, Workloads
from cluster.exceptions import ClusterError, NotFound
from cluster.objects import Metadata, WorkloadObject
from queues import well_known
from queues.workload_kinds import KINDS, Life, WorkloadKind
from queues.world.members import controller_reference
from queues.world.workloads import is_live

#: How often each kind is listed.
RELIST_SECONDS = 600.0
#: A list of metadata, of one object.
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#: Workloads that left a watch, of one kind, that are looked up between two lists of it. After more of them
#: the kind is listed.
MAX_LOOKUPS = 1000

log = logging.getLogger(__name__)


class _Named(msgspec.Struct, frozen=True):
    metadata: Metadata = msgspec.field(default_factory=Metadata)


class _List(msgspec.Struct, frozen=True):
    items: list[_Named] | None = None


_list = msgspec.json.Decoder(_List)


class Relisted(Protocol):
    """A reflector."""

    completed: int

    def relist(self) -> int: ...


def find_by_name(client: Client, kind: WorkloadKind, *, namespace: str, name: str) -> Metadata | None:
    """Return the metadata of a workload as it is now; None if it does not exist. Raises `ClusterError`.

    It is listed, since the server has no right to get every kind.
    """
    path = f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.resource}"
    query = {"fieldSelector": f"metadata.name={name}"}
    try:
        data = client.request("GET", path, query=query, accept=METADATA)
    except NotFound:  # the kind is not installed
        return None
    listed = decode_response(data, _list)
    return listed.items[0].metadata if listed.items else None


class WorkloadEventHandler:
    """Passes what a reflector reads to the cache of its kind, and decides what is kept and watched: both the
    reflector's event handler and its selection.
    """

    relist_seconds = RELIST_SECONDS

    def __init__(
        self,
        kind: WorkloadKind,
        store: Store,
        *,
        find: Callable[[Workload], Metadata | None],
        relist: Callable[[str], object],
    ) -> None:
        """`find`: reads a workload's metadata from the API server. `relist`: has a kind listed."""
        self._kind = kind
        self._store = store
        self._cached: Workloads = store.workloads.of_kind[kind.key]
        self._find = find
        self._relist = relist
        self._lookups = 0
        #: The label selector of the next watch; "" for all workloads.
        self.watch_labels = ""

    def new_filter(self) -> Callable[[WorkloadObject], bool]:
        """Return what says of each workload of a list that begins now whether it is kept."""
        owners = self._store.owner_uids()
        return lambda obj: _is_labelled(obj) or self._is_needed(obj, owners)

    def replace(self, objects: list[WorkloadObject]) -> None:
        self._cached.replace(objects)
        owners = self._store.owner_uids()
        unlabelled = next(
            (obj for obj in objects if not _is_labelled(obj) and self._is_needed(obj, owners)), None
        )
        labels = well_known.QUEUE if unlabelled is None else ""
        if unlabelled is not None:
            meta = unlabelled.metadata
            log.info(
                "all %s are watched: %s/%s has no label %s",
                self._kind.key,
                meta.namespace,
                meta.name,
                well_known.QUEUE,
            )
        self._lookups = 0
        self.watch_labels = labels
        for obj in objects:
            self._record_owner(obj)

    def upsert(self, obj: WorkloadObject) -> None:
        self._cached.upsert(obj)
        self._record_owner(obj)

    def _record_owner(self, obj: WorkloadObject) -> None:
        reference = controller_reference(obj.metadata.owner_references)
        if reference is not None and _is_labelled(obj):
            self._store.record_owner(
                kind=reference.kind,
                namespace=obj.metadata.namespace,
                name=reference.name,
                uid=reference.uid,
            )

    def remove(self, obj: WorkloadObject) -> None:
        if self._may_exist(obj):
            self._relist(self._kind.key)
        else:
            self._cached.remove(obj)

    def _may_exist(self, obj: WorkloadObject) -> bool:
        """Whether a workload that left the watch may have lost its label alone, and is needed."""
        work = self._cached.by_uid(obj.metadata.uid)
        if (
            not self.watch_labels
            or work is None
            or obj.metadata.deletion_timestamp is not None
            or (self._kind.life is Life.UNTIL_FINISHED and not work.live)
        ):
            return False
        self._lookups += 1
        if self._lookups > MAX_LOOKUPS:
            return True
        try:
            stored = self._find(work)
        except ClusterError as exc:
            log.warning("%s left the watch, and cannot be looked up: %s", work, exc)
            return True
        return stored is not None and stored.uid == work.uid and stored.deletion_timestamp is None

    def _is_needed(self, obj: WorkloadObject, owners: frozenset[str]) -> bool:
        if obj.metadata.uid in owners or obj.metadata.annotation(well_known.SUSPENDED):
            return True
        has_finished = self._kind.life is Life.UNTIL_FINISHED and not is_live(self._kind, obj)
        return not has_finished and self._store.memberships.is_member(self._kind, obj)


def _is_labelled(obj: WorkloadObject) -> bool:
    return well_known.QUEUE in (obj.metadata.labels or {})


class WorkloadLookups:
    """Looks up the owners that the cache lacks, and has kinds listed. Owner: `Informers`."""

    def __init__(self, store: Store, client: Client) -> None:
        self._store = store
        self._client = client
        self._reflectors: Mapping[str, Relisted] = {}
        self._lock = threading.Lock()
        self._to_list: set[str] = set()

    def attach(self, reflectors: Mapping[str, Relisted]) -> None:
        """`reflectors`: of every kind of workload, by key."""
        self._reflectors = reflectors

    def find(self, work: Workload) -> Metadata | None:
        return find_by_name(self._client, work.kind, namespace=work.namespace, name=work.name)

    def relist(self, key: str) -> None:
        """Have this kind listed soon."""
        with self._lock:
            self._to_list.add(key)
        self._store.missing_owners.lookups.fire()

    def look_up(self) -> Callable[[], bool]:
        """Look up what is wanted; return a function that says whether the lists that it takes are done."""
        missing = self._store.missing_owners
        with self._lock:
            kinds, self._to_list = self._to_list, set()
        if missing.take_overflow():
            kinds |= self._reflectors.keys()
        listed: list[MissingOwner] = []
        failed: set[str] = set()
        for owner in missing.pending():
            if self._store.workloads.by_uid(owner.uid) is not None:
                missing.forget(owner.uid)
                continue
            if not failed.isdisjoint(owner.kinds):
                continue  # one failure of a kind is enough: they are all looked up again
            try:
                if kinds.isdisjoint(owner.kinds):
                    kinds |= self._kinds_to_list(owner)
            except ClusterError as exc:
                log.warning("owner %s/%s cannot be looked up: %s", owner.namespace, owner.name, exc)
                failed |= set(owner.kinds)
                missing.lookups.fire()
                continue
            if kinds.isdisjoint(owner.kinds):
                missing.forget(owner.uid)
            else:
                listed.append(owner)
        wanted = [(self._reflectors[key], self._reflectors[key].relist()) for key in sorted(kinds)]

        def is_done() -> bool:
            if not all(reflector.completed >= number for reflector, number in wanted):
                return False
            for owner in listed:
                missing.forget(owner.uid)
            return True

        return is_done

    def _kinds_to_list(self, owner: MissingOwner) -> set[str]:
        """The kind that has this owner without the label; none if it does not exist, or has the label: then
        its watch brings it.
        """
        for key in owner.kinds:
            meta = find_by_name(self._client, KINDS[key], namespace=owner.namespace, name=owner.name)
            if meta is not None and meta.uid == owner.uid:
                return set() if well_known.QUEUE in (meta.labels or {}) else {key}
        return set()
