"""The scheduling policies of the cluster, and which of them counts for a queue or a pod.

Invariants
- `policies` is replaced by one assignment and never changes; any thread reads it without a lock.
- A resolution is that of the present policies and the snapshot that is passed; resolutions of queues are kept
  until either changes; of names that no queue has nothing is kept.
- A ConfigMap with a text that is wrong keeps the last good policy of that key, as long as this process lives.
- Listeners are called after a change of any text, in the reflector's thread; each one, though one raises.
- `version` is set after `policies`: who reads it first answers by policies of that version or later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack

import msgspec

from cluster.object_reference import ObjectReference
from cluster.objects import Metadata
from queues.policies.policy_report import PolicyLine, policy_lines
from queues.policies.policy_set import NO_POLICIES, PolicySet
from queues.policies.policy_texts import read_policies, texts_of
from queues.policies.resolution import Resolution, resolve_policy
from queues.snapshot import QueueSnapshot

log = logging.getLogger(__name__)


class ConfigMap(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The fields of a ConfigMap that are read."""

    metadata: Metadata
    data: dict[str, str] | None = None
    #: JSON has it in base64.
    binary_data: dict[str, bytes] | None = None


def _reference(metadata: Metadata) -> ObjectReference:
    return ObjectReference(
        api_version="v1",
        kind="ConfigMap",
        name=metadata.name,
        uid=metadata.uid,
        namespace=metadata.namespace,
    )


class _Resolved(msgspec.Struct, frozen=True):
    """What has been resolved of one snapshot with one set of policies, by queue."""

    snapshot: QueueSnapshot | None
    policies: PolicySet
    by_queue: dict[str, Resolution]


class SchedulingPolicies:
    """The event handler of the reflector of one ConfigMap, which is selected by its name."""

    def __init__(self) -> None:
        self.policies = NO_POLICIES
        #: The ConfigMap that they were read from; None without one.
        self.subject: ObjectReference | None = None
        #: What is said of them.
        self.lines: tuple[PolicyLine, ...] = ()
        #: The resource version of the ConfigMap; 0 without one.
        self.version = 0
        #: How often the policies have changed.
        self.changes = 0
        #: How often another replica has come to answer by the present ones.
        self.reports = 0
        self._listeners: list[Callable[[PolicySet, PolicySet], None]] = []
        self._resolved = _Resolved(None, NO_POLICIES, {})

    def add_listener(self, listener: Callable[[PolicySet, PolicySet], None]) -> None:
        """`listener` gets the former and the present policies."""
        self._listeners.append(listener)

    # The event handler

    def replace(self, objects: list[ConfigMap]) -> None:
        self._read(objects[0] if objects else None)

    def upsert(self, obj: ConfigMap) -> None:
        self._read(obj)

    def remove(self, obj: ConfigMap) -> None:
        self._read(None)

    def _read(self, obj: ConfigMap | None) -> None:
        before = self.policies
        version = obj.metadata.version if obj is not None else 0
        texts = texts_of(obj.data, obj.binary_data) if obj is not None else None
        after = read_policies(texts, before)
        self.subject = _reference(obj.metadata) if obj is not None else None
        if after == before:
            self.version = version
            return
        said = set(self.lines)
        self.lines = tuple(policy_lines(after))
        for line in self.lines:
            if line not in said:
                log.log(logging.WARNING if line.is_problem else logging.INFO, "scheduling %s", line.text)
        self.policies, self.version = after, version
        self.changes += 1
        with ExitStack() as calls:  # each is called though an earlier one raises
            for listener in reversed(self._listeners):
                calls.callback(listener, before, after)

    # Questions

    def of_queue(self, snapshot: QueueSnapshot, queue: str) -> Resolution:
        """The policy of a queue whose jobs name none of their own."""
        if queue not in snapshot.tree:  # callers may make up names: none is kept
            return self.of_job(snapshot, queue, "")
        resolved, policies = self._resolved, self.policies
        if resolved.snapshot is not snapshot or resolved.policies is not policies:
            resolved = self._resolved = _Resolved(snapshot, policies, {})
        resolution = resolved.by_queue.get(queue)
        if resolution is None:
            resolution = resolved.by_queue[queue] = self.of_job(snapshot, queue, "")
        return resolution

    @property
    def resolved_queues(self) -> Iterable[str]:
        """The queues whose policy is kept."""
        return self._resolved.by_queue.keys()

    def of_job(self, snapshot: QueueSnapshot, queue: str, job: str) -> Resolution:
        """The policy of a job of the queue that names the policy `job` (or "")."""
        chain = snapshot.tree.chain(queue).queues if queue in snapshot.tree else ()
        return resolve_policy(
            self.policies, job=job, chain=[(one.name, one.scheduler_policy) for one in chain]
        )
