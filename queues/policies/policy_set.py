"""The policies of a ConfigMap: the global one under `volcano-scheduler.conf`, named ones under other keys.

| the key                                    | what it is                                                |
|--------------------------------------------|-----------------------------------------------------------|
| `volcano-scheduler.conf`                   | the global policy, for any text                           |
| another, with `actions` or `tiers` on top  | a named policy                                            |
| another, which held a policy before        | a named policy: its last good text counts                 |
| any other                                  | not ours: it is neither read nor reported, unless a queue |
|                                            | names it                                                  |

Other distributions of Volcano use other keys for the global policy. If there is no global policy, such a key
may be meant (`PolicySet.misplaced`).

Invariant: a set never changes. `policy_texts` makes it. This module parses nothing, so its readers need not
load the parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from queues.policies.model import Policy, PolicyProblemLine

#: The key of the policy for queues that have no other.
GLOBAL_KEY = "volcano-scheduler.conf"
#: Named policies that are read.
KEYS_LIMIT = 1_000
#: Keys under which other distributions have the global policy: the file that Volcano's
#: `--scheduler-conf` names. `volcano-scheduler-ci.conf` is that of its chart for tests,
#: `agent-scheduler.conf` that of its second scheduler, `default-scheduler.conf` that of Huawei's and
#: Telekom's clouds, `volcano-scheduler.yaml` that of charms, `kube-batch-conf.yaml` that of its predecessor.
_OTHER_GLOBAL_KEY = re.compile(r"(.*[-.])?(scheduler|kube-batch)([-.].*)?\.(conf|ya?ml)", re.ASCII)
#: The place of a text's first key, and each `actions` or `tiers` that begins a line, or stands in braces.
_FIRST_KEY = re.compile(r"^([ \t]*)(?![ \t\n\r#%]|---|\Z)", re.MULTILINE)
_POLICY_KEY = r"""["']?(?:actions|tiers)["']?[ \t]*:"""
_KEY_OF_LINE = re.compile(rf"^([ \t]*){_POLICY_KEY}", re.MULTILINE)
_KEY_IN_BRACES = re.compile(rf"[{{,\s]{_POLICY_KEY}")
_IN_BRACES = re.compile(r"\s*\{")


class PolicyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a key of the ConfigMap. `policy`: the last good one; `problem`: the present fault."""

    name: str
    text: str
    policy: Policy | None
    problem: PolicyProblemLine | None = None

    @property
    def stale(self) -> bool:
        """Whether an earlier text counts, since the present one is wrong."""
        return self.policy is not None and self.problem is not None


def holds_policy(text: str) -> bool:
    """Whether the text of a key other than the global one is meant as a policy, be it right or wrong: it has
    `actions` or `tiers` on top. Takes time linear in the text.
    """
    text = text.removeprefix("\ufeff")
    if _IN_BRACES.match(text):
        return _KEY_IN_BRACES.search(text) is not None
    first = _FIRST_KEY.search(text)
    indent = first[1] if first is not None else ""
    return any(found[1] == indent for found in _KEY_OF_LINE.finditer(text))


def misplaced_keys(keys: Iterable[str]) -> list[str]:
    """Those of the keys with policies that may be meant as the global one; none where that is among them."""
    named = list(keys)
    return [] if GLOBAL_KEY in named else [key for key in named if _OTHER_GLOBAL_KEY.fullmatch(key)]


class PolicySet(msgspec.Struct, frozen=True):
    """All entries by key. `others`: the keys that hold no policy, at most `KEYS_LIMIT` of them."""

    entries: Mapping[str, PolicyEntry] = {}
    others: frozenset[str] = frozenset()

    @property
    def common(self) -> PolicyEntry | None:
        """The global policy."""
        return self.entries.get(GLOBAL_KEY)

    def named(self, name: str) -> PolicyEntry | None:
        """A policy that a queue or a job may name: any but the global one."""
        return self.entries.get(name) if name != GLOBAL_KEY else None

    @property
    def misplaced(self) -> Sequence[str]:
        """Keys that may be meant as the global policy, where there is none."""
        return misplaced_keys(self.entries)

    @property
    def scores(self) -> bool:
        """Whether any policy prefers some nodes to others."""
        return any(entry.policy is not None and entry.policy.scores for entry in self.entries.values())

    @property
    def overcommits(self) -> bool:
        """Whether any policy limits releases to a multiple of what nodes have."""
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
