"""The policies of a ConfigMap: `volcano-scheduler.conf` for everybody, every other key a named one.

Invariant: a set never changes. `policy_texts` makes it. Nothing is parsed here: who only asks need not load
the parser.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from queues.policies.model import Place, Policy

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
    def overcommits(self) -> bool:
        """Whether any policy lets go no more than a number of times what nodes have."""
        policies = (entry.policy for entry in self.entries.values())
        return any(policy is not None and policy.overcommit is not None for policy in policies)

    @property
    def needs_totals(self) -> bool:
        """Whether any policy asks what nodes have together."""
        policies = (entry.policy for entry in self.entries.values())
        return self.overcommits or any(policy is not None and policy.shares_by_weight for policy in policies)

    @property
    def protects_system_pods(self) -> bool:
        """Whether any policy keeps system-critical pods from eviction."""
        policies = (entry.policy for entry in self.entries.values())
        return any(policy is not None and policy.plugin("conformance") is not None for policy in policies)


NO_POLICIES = PolicySet()
