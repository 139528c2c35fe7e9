"""Reads the policies of a ConfigMap.

Invariants
- A text is read once: as long as a key has the same text, its entry is the same object.
- A key whose text is wrong keeps the last good policy, if it had one, and says what is wrong. A key that is
  gone has no policy. Without a ConfigMap there is none at all.
- Whatever is wrong with one key, the others are read.
- A new set is made from the former and the ConfigMap's data.
- At most `KEYS_LIMIT` keys are read, in alphabetical order, the global one first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from queues.policies.model import Place
from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT, NO_POLICIES, PolicyEntry, PolicySet
from queues.policies.scheduler_conf import BadPolicy, parse_policy

log = logging.getLogger(__name__)


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
