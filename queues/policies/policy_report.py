"""What is said of a cluster's policies: what is wrong with them, and what of them has no effect.

| of a policy                                 | is said                                           | as      |
|---------------------------------------------|---------------------------------------------------|---------|
| its text is wrong                           | the line, the reason, what counts in its place    | problem |
| there is no global one, and another may be  | which key that is                                 | problem |
| meant as that                               |                                                   |         |
| it has names that are not known             | these names                                       | note    |
| it has parts that do nothing here           | these parts                                       | note    |

Events, the server's log and `kubectl queue status` have these texts. Conditions of queues have their own
(`queues.status.policy_condition`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from queues.policies.policy_set import GLOBAL_KEY, PolicyEntry, PolicySet
from queues.policies.without_effect import texts_without_effect
from queues.text import quoted

#: Characters of a key.
KEY_LENGTH = 60


class PolicyLine(msgspec.Struct, frozen=True):
    """One thing that is said of the policy under `key`, without its full stop."""

    key: str
    text: str
    is_problem: bool


def policy_lines(policies: PolicySet) -> Iterator[PolicyLine]:
    """The global policy's first, then by the alphabet of the keys."""
    for key in policies.misplaced[:1]:
        yield PolicyLine(key, misplaced_text(key), is_problem=True)
    for key, entry in policies.entries.items():
        if entry.problem is not None:
            yield PolicyLine(key, _broken_text(entry), is_problem=True)
        elif entry.policy is not None:
            yield from (
                PolicyLine(key, f"policy {quoted(key, limit=KEY_LENGTH)}: {text}", is_problem=False)
                for text in texts_without_effect(entry.policy)
            )


def misplaced_text(key: str) -> str:
    """That there is no global policy, but one under a key that others have it under."""
    return (
        f"no policy counts for queues that name none: that is the one under key {quoted(GLOBAL_KEY)}, and "
        f"there is none; the one under {quoted(key, limit=KEY_LENGTH)} counts only for queues that name it"
    )


def _broken_text(entry: PolicyEntry) -> str:
    counts = "its last good text counts" if entry.policy is not None else _instead(entry.name)
    return f"policy {quoted(entry.name, limit=KEY_LENGTH)} cannot be read ({entry.problem}): {counts}"


def _instead(name: str) -> str:
    return (
        "no policy counts for queues that name none" if name == GLOBAL_KEY else "the next in the order counts"
    )
