"""The policies of a ConfigMap: `volcano-scheduler.conf` for everybody, every other key a named one.

Invariants
- A text is read once: as long as a key has the same text, its entry is the same object.
- A key whose text is wrong keeps the last good policy, if it had one, and says what is wrong. A key that is
  gone has no policy. Without a ConfigMap there is none at all.
- Whatever is wrong with one key, the others are read.
- A set never changes; a new one is made from the former and the ConfigMap's data.
- At most `KEYS_LIMIT` keys are read, in alphabetical order, the global one first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from queues.policies.model import Place, Policy
from queues.policies.scheduler_conf import BadPolicy, parse_policy

log = logging.getLogger(__name__)

#: The key of the policy that counts where no other does.
GLOBAL_KEY = "volcano-scheduler.conf"
KEYS_LIMIT = 1_000


class PolicyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a key of the ConfigMap gives. `policy`: the last good one; `problem`: what is wrong now."""

    name: str
    text: str
    policy: Policy | None
    problem: Place | None = None

    @property
    def stale(self) -> bool:
        """Whether an earlier text counts, since the present one is wrong."""
        return self.policy is not None and self.problem is not None


class PolicySet(msgspec.Struct, frozen=True):
    """All entries by key."""

    entries: Mapping[str, PolicyEntry] = {}

    @property
    def common(self) -> PolicyEntry | None:
        """The global policy."""
        return self.entries.get(GLOBAL_KEY)

    def named(self, name: str) -> PolicyEntry | None:
        """A policy that a queue or a job may name: any but the global one."""
        return self.entries.get(name) if name != GLOBAL_KEY else None

    @property
    def scores(self) -> bool:
        """Whether any policy prefers some nodes to others."""
        return any(entry.policy is not None and entry.policy.scores for entry in self.entries.values())

    @property
    def protects_system_pods(self) -> bool:
        """Whether any policy keeps system-critical pods from eviction."""
        policies = (entry.policy for entry in self.entries.values())
        return any(policy is not None and policy.plugin("conformance") is not None for policy in policies)


NO_POLICIES = PolicySet()


def read_policies(data: Mapping[str, str] | None, before: PolicySet = NO_POLICIES) -> PolicySet:
    """The set of a ConfigMap's data, after `before`; None: there is no ConfigMap."""
    if data is None:
        return NO_POLICIES
    keys = sorted(data, key=lambda key: (key != GLOBAL_KEY, key))[:KEYS_LIMIT]
    return PolicySet({key: _entry(key, data[key], before.entries.get(key)) for key in keys})


def _entry(name: str, text: str, before: PolicyEntry | None) -> PolicyEntry:
    if before is not None and before.text == text:
        return before
    try:
        return PolicyEntry(name=name, text=text, policy=parse_policy(text))
    except BadPolicy as exc:
        problem = exc.place
    except Exception as exc:  # a fault of the reader's concerns this key alone
        log.exception("the scheduling policy %s cannot be read", name)
        problem = Place(1, f"the policy cannot be read: {type(exc).__name__}")
    return PolicyEntry(name=name, text=text, policy=before.policy if before else None, problem=problem)
