"""Reads the policies of a ConfigMap.

Invariants
- A text is read once: as long as a key has the same text, its entry is the same object.
- A key whose text is wrong keeps the last good policy, if it had one, and says what is wrong. A key that is
  gone has no policy. Without a ConfigMap there is none at all.
- Whatever is wrong with one key, the others are read.
- A new set is made from the former and the ConfigMap's data.
- At most `KEYS_LIMIT` policies are read, in the alphabetical order of their keys, the global one first. Keys
  of somebody else do not count.
- A text may be in `data` or in `binaryData`: mounted into Volcano's scheduler, both are files.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from queues.policies.model import PolicyProblemLine
from queues.policies.policy_set import (
    GLOBAL_KEY,
    KEYS_LIMIT,
    NO_POLICIES,
    PolicyEntry,
    PolicySet,
    holds_policy,
)
from queues.policies.scheduler_conf import BadPolicy, parse_policy

log = logging.getLogger(__name__)


def texts_of(data: Mapping[str, str] | None, binary: Mapping[str, bytes] | None) -> Mapping[str, str]:
    """The texts of a ConfigMap's `data` and `binaryData`. What is not UTF-8 has U+FFFD for each byte in
    vain.
    """
    if not binary:
        return data or {}
    return {**{key: value.decode(errors="replace") for key, value in binary.items()}, **(data or {})}


def policy_keys(texts: Mapping[str, str], before: Collection[str] = ()) -> list[str]:
    """The keys that hold a policy, right or wrong: the global one first, then by the alphabet.

    `before`: the keys that held a policy until now, which are not given up because of a wrong text.
    """
    keys = sorted(texts, key=lambda key: (key != GLOBAL_KEY, key))
    return [key for key in keys if key == GLOBAL_KEY or key in before or holds_policy(texts[key])]


def read_policies(texts: Mapping[str, str] | None, before: PolicySet = NO_POLICIES) -> PolicySet:
    """The set of a ConfigMap's texts, after `before`; None: there is no ConfigMap."""
    if texts is None:
        return NO_POLICIES
    held = {key for key, entry in before.entries.items() if entry.policy is not None}
    keys = policy_keys(texts, held)[:KEYS_LIMIT]
    entries = {key: _entry(key, texts[key], before.entries.get(key)) for key in keys}
    return PolicySet(entries, frozenset(sorted(texts.keys() - entries.keys())[:KEYS_LIMIT]))


def _entry(name: str, text: str, before: PolicyEntry | None) -> PolicyEntry:
    if before is not None and before.text == text:
        return before
    try:
        return PolicyEntry(name=name, text=text, policy=parse_policy(text))
    except BadPolicy as exc:
        problem = exc.place
    except Exception as exc:  # a fault of the reader's concerns this key alone
        log.exception("the scheduling policy %s cannot be read", name)
        problem = PolicyProblemLine(1, f"the policy cannot be read: {type(exc).__name__}")
    return PolicyEntry(name=name, text=text, policy=before.policy if before else None, problem=problem)
