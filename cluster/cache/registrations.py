"""Our webhook configurations and admission policies, and what they lack (`queues.registration.coverage`).

Invariants
- Each state of an object is judged as the watch brings it. Where the watch may have missed one, it counts as
  lacking something: an object made anew (another UID), or edited more than once (`metadata.generation`)
  between two lists.
- A lapse is a time in which something was lacking that stops and quotas rest on
  (`RegistrationFault.of_pods`). `lapses` counts them. Each begins with the event that shows it, and ends at
  `whole_since`.
- `guard_changes` counts the changes of the bind guard's entry, its `caBundle` included: what probes showed
  before is not known any more.
- A kind that was never read, since the server has no right to or the API server does not serve it, is not
  checked: roles may be upgraded after the image. It is named in `unchecked`. A kind that was read once and
  cannot be read any more is in `unread`: what is not known is not promised.
- Without `expect` nothing is watched, and nothing is checked.

Threads: the reflectors of the four kinds write, with a lock; any thread may read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial

import msgspec

from cluster.objects import Metadata
from queues.registration.coverage import (
    Expected,
    Found,
    RegistrationFault,
    needed_policies,
    registration_faults,
)
from queues.registration.needs import GUARD_ENTRY, MUTATING, NAME, VALIDATING
from queues.registration.objects import AdmissionPolicySpec, PolicyBindingSpec, Webhook


class RegistrationKind(StrEnum):
    """By the name of their reflector."""

    MUTATING = "mutating-webhooks"
    VALIDATING = "validating-webhooks"
    POLICIES = "admission-policies"
    BINDINGS = "admission-policy-bindings"


_CONFIGURATIONS = {RegistrationKind.MUTATING: MUTATING, RegistrationKind.VALIDATING: VALIDATING}


class WebhookConfiguration(msgspec.Struct, frozen=True):
    metadata: Metadata
    webhooks: tuple[Webhook, ...] | None = None


class AdmissionPolicy(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: AdmissionPolicySpec = msgspec.field(default_factory=AdmissionPolicySpec)


class AdmissionPolicyBinding(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: PolicyBindingSpec = msgspec.field(default_factory=PolicyBindingSpec)


Registration = WebhookConfiguration | AdmissionPolicy | AdmissionPolicyBinding


class RegistrationState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known now. `faults`: what is lacking. `unread`, `unchecked`: kinds, by their names.

    `lapses`: how often something was lacking that stops and quotas rest on. `whole_since`: since when nothing
    is, in monotonic seconds. `guard_changes`: how often the bind guard's entry has changed.
    """

    faults: tuple[RegistrationFault, ...] = ()
    unread: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    lapses: int = 0
    whole_since: float = 0.0
    guard_changes: int = 0

    @property
    def gaps(self) -> tuple[str, ...]:
        """What is lacking that stops and quotas rest on."""
        return tuple(fault.text for fault in self.faults if fault.of_pods)

    @property
    def lines(self) -> list[str]:
        """What comes of it, then a line for each thing that is lacking, or is not known."""
        is_promised = not (self.gaps or self.unread)
        return [
            *(
                []
                if is_promised
                else ["no stop and no quota is promised: the API server may not ask about pods"]
            ),
            *(fault.text for fault in self.faults),
            *(f"{kind} have not been read" for kind in self.unread),
            *(f"{kind} may not be read, and are not checked" for kind in self.unchecked),
        ]


class Registrations:
    """All four kinds. See the invariants above."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._expected: Expected | None = None
        #: Set while the kind has been listed and is watched.
        self.synced = {kind: threading.Event() for kind in RegistrationKind}
        self._objects: dict[RegistrationKind, dict[str, Registration]] = {}
        #: Kinds that the API server has refused and that were never read.
        self._unchecked: set[RegistrationKind] = set()
        #: The names of the entries and policies that were there once.
        self._seen: set[str] = set()
        #: Replaced by one assignment.
        self._judged = RegistrationState()
        #: The bind guard's entry; None where it is not there.
        self._guard: Webhook | None = None
        self._listeners: list[Callable[[], object]] = []

    def expect(self, expected: Expected) -> None:
        """What the settings say. From now on the kinds are to be read."""
        self._expected = expected

    def listen(self, listener: Callable[[], object]) -> None:
        """`listener`: called when the state has changed, in the thread of a reflector."""
        self._listeners.append(listener)

    @property
    def state(self) -> RegistrationState:
        if self._expected is None:
            return self._judged
        unchecked = self._unchecked.copy()
        unread = [
            kind.value
            for kind, synced in self.synced.items()
            if kind not in unchecked and not synced.is_set()
        ]
        return msgspec.structs.replace(
            self._judged, unread=tuple(unread), unchecked=tuple(sorted(kind.value for kind in unchecked))
        )

    def handler(self, kind: RegistrationKind) -> RegistrationEvents:
        return RegistrationEvents(partial(self._record, kind), lambda: self._objects.get(kind, {}))

    def note_refused(self, kind: RegistrationKind) -> None:
        """The API server has refused to show the kind, or does not serve it."""
        with self._lock:
            if kind in self._objects or kind in self._unchecked:
                return
            self._unchecked.add(kind)
        self._tell()

    def _record(self, kind: RegistrationKind, objects: dict[str, Registration]) -> None:
        """Take these for all objects of the kind."""
        with self._lock:
            before = self._objects.get(kind)
            self._objects = {**self._objects, kind: objects}
            self._unchecked.discard(kind)
            state = self._judge(is_missed=before is not None and self._may_have_missed(before, objects))
            is_same, self._judged = state == self._judged, state
        if not is_same or before is None:
            self._tell()

    def _judge(self, *, is_missed: bool) -> RegistrationState:
        if self._expected is None:
            return self._judged
        found = self._found()
        self._seen.update(webhook.name for each in found.entries.values() for webhook in each or ())
        self._seen.update(found.policies or ())
        before, faults = self._judged, tuple(registration_faults(found, self._expected))
        state = msgspec.structs.replace(before, faults=faults)
        if not state.gaps and (before.gaps or is_missed):
            state = msgspec.structs.replace(state, whole_since=self._clock())
        if is_missed or (state.gaps and not before.gaps):
            state = msgspec.structs.replace(state, lapses=before.lapses + 1)
        entries = {webhook.name: webhook for webhook in found.entries.get(VALIDATING) or ()}
        was, self._guard = self._guard, entries.get(GUARD_ENTRY)
        if is_missed or was != self._guard:
            state = msgspec.structs.replace(state, guard_changes=before.guard_changes + 1)
        return state

    def _found(self) -> Found:
        """What has been read. A kind that has not been read lacks nothing."""
        read = self._objects
        entries = {
            name: webhooks_of(read[kind].get(NAME)) for kind, name in _CONFIGURATIONS.items() if kind in read
        }
        policies, bindings = read.get(RegistrationKind.POLICIES), read.get(RegistrationKind.BINDINGS)
        return Found(
            entries=entries,
            policies=None
            if policies is None
            else {name: each.spec for name, each in policies.items() if isinstance(each, AdmissionPolicy)},
            bindings=None
            if bindings is None
            else [each.spec for each in bindings.values() if isinstance(each, AdmissionPolicyBinding)],
            seen=frozenset(self._seen),
        )

    def _may_have_missed(self, before: dict[str, Registration], after: dict[str, Registration]) -> bool:
        """Whether one of ours may have been another in between."""
        return any(
            self._is_ours(obj) and (known := before.get(name)) is not None and is_missed(known, obj)
            for name, obj in after.items()
        )

    def _is_ours(self, obj: Registration) -> bool:
        if isinstance(obj, WebhookConfiguration):
            return obj.metadata.name == NAME
        name = obj.metadata.name if isinstance(obj, AdmissionPolicy) else obj.spec.policy_name
        return self._expected is not None and name in {need.name for need in needed_policies(self._expected)}

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


def is_missed(before: Registration, after: Registration) -> bool:
    """Whether there may have been another state between these two."""
    if before.metadata.uid != after.metadata.uid:
        return True
    return after.metadata.generation > before.metadata.generation + 1


def webhooks_of(configuration: Registration | None) -> tuple[Webhook, ...] | None:
    """The entries; None where the configuration is not there."""
    return (configuration.webhooks or ()) if isinstance(configuration, WebhookConfiguration) else None


class RegistrationEvents:
    """The event handler of the reflector of one kind; that thread alone calls it."""

    def __init__(
        self,
        record: Callable[[dict[str, Registration]], object],
        stored: Callable[[], dict[str, Registration]],
    ) -> None:
        self._record = record
        self._stored = stored

    def replace(self, objects: Iterable[Registration]) -> None:
        self._record({obj.metadata.name: obj for obj in objects})

    def upsert(self, obj: Registration) -> None:
        stored = self._stored()
        known = stored.get(obj.metadata.name)
        if known is None or not obj.metadata.older_than(known.metadata):
            self._record({**stored, obj.metadata.name: obj})

    def remove(self, obj: Registration) -> None:
        stored = self._stored()
        known = stored.get(obj.metadata.name)
        if known is not None and not obj.metadata.older_than(known.metadata):
            self._record({name: each for name, each in stored.items() if name != obj.metadata.name})
