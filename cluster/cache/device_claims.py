"""What claims of devices count, while some capability names a class of devices (`queues.quota.devices`).

Invariants
- Without such a capability nothing is kept, and neither claims nor classes are watched
  (`cluster.informers.informers`).
- Until both have been listed, nothing is known; nor where the cluster does not serve `resource.k8s.io/v1`.
- A claim that is gone keeps what it counted while members have it: those that count go on to count it. It is
  absent for all others.
- `changed` is called for a claim only when it counts something else than before, or is there, or is gone:
  what is allocated for it changes nothing. After a change that may concern any claim, or a class, `version`
  is another one and `all_changed` is called.

Threads: the reflectors of claims and of classes write, each its own; that of queues calls `follow`; any
thread may read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from cluster.objects import Metadata
from queues.quota.devices import ABSENT, ClaimCount, ClaimFault, ClaimRef, ClaimSpec, claim_count

ClaimKey = tuple[str, str]


class ResourceClaim(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
    spec: ClaimSpec | None = None


class DeviceClassSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    extended_resource_name: str | None = None


class DeviceClass(msgspec.Struct, frozen=True, gc=False):
    metadata: Metadata
    spec: DeviceClassSpec = DeviceClassSpec()


class _Known(msgspec.Struct, frozen=True, gc=False):
    """A claim. `owner`: the UID of the pod that it was made for."""

    uid: str
    version: int
    owner: str
    count: ClaimCount
    is_gone: bool = False


class DeviceClaims:
    """Implements `queues.quota.devices.Devices`."""

    def __init__(
        self,
        *,
        changed: Callable[[str, str, str], object],
        all_changed: Callable[[], object],
        is_named: Callable[[str, str, str], bool],
    ) -> None:
        """`changed`: called with namespace, name and owner of a claim. `is_named`: whether a member has
        the claim of this namespace, name and owner.
        """
        self._all_changed = all_changed
        self._is_needed = False
        self.claims = ClaimEvents(self._all_have_changed, changed=changed, is_named=is_named)
        self.classes = ClassEvents(self._all_have_changed)
        #: How often something changed that may concern all claims.
        self.version = 0

    def follow(self, *, needed: bool) -> None:
        """Whether some capability names a class."""
        if needed is not self._is_needed:
            self._is_needed = needed
            self.claims.forget()
            self.classes.forget()
            self._all_have_changed()

    def _all_have_changed(self) -> None:
        self.version += 1
        self._all_changed()

    # What is known

    @property
    def fault(self) -> ClaimFault | None:
        if self.claims.is_missing or self.classes.is_missing:
            return ClaimFault.NO_API
        return None if self.claims.is_listed and self.classes.is_listed else ClaimFault.UNREAD

    def count(self, claim: ClaimRef) -> ClaimCount:
        if (fault := self.fault) is not None:
            return ClaimCount(fault=fault)
        known = self.claims.known.get((claim.namespace, claim.name))
        if known is None or (claim.owner and known.owner != claim.owner):
            return ABSENT
        if known.is_gone:
            return ClaimCount(known.count.amounts, fault=ClaimFault.ABSENT)
        return known.count

    def classes_of(self, resource: str) -> Collection[str]:
        return self.classes.by_resource.get(resource, ())


class _KindEvents:
    """What the event handlers of both kinds share: whether the kind was listed, or is not there."""

    def __init__(self, all_changed: Callable[[], object]) -> None:
        self._all_changed = all_changed
        self.is_listed = self.is_missing = False

    def forget(self) -> None:
        self.is_listed = self.is_missing = False

    def not_served(self) -> None:
        """The cluster does not serve this kind."""
        if not self.is_missing:
            self.forget()
            self.is_missing = True
            self._all_changed()


class ClaimEvents(_KindEvents):
    """The event handler of the reflector of claims."""

    def __init__(
        self,
        all_changed: Callable[[], object],
        *,
        changed: Callable[[str, str, str], object],
        is_named: Callable[[str, str, str], bool],
    ) -> None:
        super().__init__(all_changed)
        self._changed = changed
        self._is_named = is_named
        self._gone: set[ClaimKey] = set()
        self.known: dict[ClaimKey, _Known] = {}

    def forget(self) -> None:
        super().forget()
        self.known, self._gone = {}, set()

    def replace(self, objects: list[ResourceClaim]) -> None:
        present = {_key(obj): _known(obj) for obj in objects}
        gone = {
            key: msgspec.structs.replace(known, is_gone=True)
            for key, known in self.known.items()
            if key not in present and self._is_named(*key, known.owner)
        }
        before, self.known, self._gone = self.known, {**gone, **present}, set(gone)
        was_listed, self.is_listed, self.is_missing = self.is_listed, True, False
        if not was_listed or _counts(before) != _counts(self.known):
            self._all_changed()

    def upsert(self, obj: ResourceClaim) -> None:
        key, after = _key(obj), _known(obj)
        before = self.known.get(key)
        if before is not None and before.uid == after.uid and before.version > after.version:
            return
        self.known[key] = after
        self._gone.discard(key)
        if before is None or _counted(before) != _counted(after):
            self._changed(*key, after.owner)

    def remove(self, obj: ResourceClaim) -> None:
        key = _key(obj)
        before = self.known.get(key)
        if before is None or before.uid != obj.metadata.uid or before.is_gone:
            return
        if self._is_named(*key, before.owner):
            self.known[key] = msgspec.structs.replace(before, is_gone=True)
            self._gone.add(key)
        else:
            del self.known[key]
        for each in list(self._gone):
            if not self._is_named(*each, self.known[each].owner):
                self._gone.discard(each)
                del self.known[each]
        self._changed(*key, before.owner)


class ClassEvents(_KindEvents):
    """The event handler of the reflector of device classes."""

    def __init__(self, all_changed: Callable[[], object]) -> None:
        super().__init__(all_changed)
        self._names: dict[str, str] = {}
        #: Replaced by one assignment, and never changed.
        self.by_resource: Mapping[str, Collection[str]] = {}

    def forget(self) -> None:
        super().forget()
        self._names, self.by_resource = {}, {}

    def replace(self, objects: list[DeviceClass]) -> None:
        was_listed, self.is_listed, self.is_missing = self.is_listed, True, False
        self._names = {obj.metadata.name: obj.spec.extended_resource_name or "" for obj in objects}
        self._index(is_new=not was_listed)

    @property
    def names(self) -> Collection[str]:
        """Of the classes; copied in one step, since its reflector's thread writes meanwhile."""
        return self._names.copy().keys()

    def upsert(self, obj: DeviceClass) -> None:
        self._names[obj.metadata.name] = obj.spec.extended_resource_name or ""
        self._index()

    def remove(self, obj: DeviceClass) -> None:
        self._names.pop(obj.metadata.name, None)
        self._index()

    def _index(self, *, is_new: bool = False) -> None:
        by_resource: dict[str, list[str]] = {}
        for name, resource in sorted(self._names.items()):
            if resource:
                by_resource.setdefault(resource, []).append(name)
        if is_new or by_resource != self.by_resource:
            self.by_resource = by_resource
            self._all_changed()


def _key(obj: ResourceClaim) -> ClaimKey:
    return obj.metadata.namespace, obj.metadata.name


def _known(obj: ResourceClaim) -> _Known:
    meta = obj.metadata
    owners = (each for each in meta.owner_references or () if each.controller and each.kind == "Pod")
    return _Known(
        uid=meta.uid,
        version=meta.version,
        owner=next((each.uid for each in owners), ""),
        count=claim_count(obj.spec),
    )


def _counted(known: _Known) -> tuple[object, ...]:
    """All that pods depend on."""
    return known.owner, known.count, known.is_gone


def _counts(known: Mapping[ClaimKey, _Known]) -> dict[ClaimKey, tuple[object, ...]]:
    return {key: _counted(each) for key, each in known.items()}
