"""What is wrong with an edit of the ConfigMap with the scheduling policies.

Invariants
- Only keys whose text changes are read, so that a stored ConfigMap can be corrected key by key.
- All faulty keys are found; the first `FAULTS_NAMED` are named, each with the line and the reason.
- Warnings are `WARNINGS_LIMIT` at most, of `WARNING_LENGTH` characters at most.
- The work is bounded: that of one key by `queues.policies.scheduler_conf`, their number by the size of a
  ConfigMap (1 MiB), which takes about two seconds at worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT
from queues.policies.scheduler_conf import BadPolicy, parse_policy
from queues.text import join_limited, quoted, truncated

FAULTS_NAMED = 8
WARNINGS_LIMIT = 10
#: The API server cuts a longer warning.
WARNING_LENGTH = 250
#: Queues that a warning names, with so many characters of each name.
QUEUES_NAMED, NAME_LENGTH = 3, 40


class PolicyEdit(msgspec.Struct, frozen=True, kw_only=True):
    """`refusal`: why the edit is refused; "" where it is not. `warnings`: what its author should know."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()


def check_policies(before: Mapping[str, str], after: Mapping[str, str]) -> PolicyEdit:
    """Read the texts that change from `before` to `after`, the data of the ConfigMap."""
    faults, warnings = [], []
    for key in sorted(after, key=lambda name: (name != GLOBAL_KEY, name)):
        if before.get(key) == after[key]:
            continue
        try:
            policy = parse_policy(after[key])
        except BadPolicy as exc:
            faults.append(f"key {quoted(key)}, {exc.place}")
        else:
            warnings += [f"key {quoted(key, limit=NAME_LENGTH)}, {place}" for place in policy.warnings]
    if len(after) > max(KEYS_LIMIT, len(before)):
        faults.append(f"there are {len(after):,} keys; at most {KEYS_LIMIT:,} are read")
    if faults:
        return PolicyEdit(refusal=join_limited(faults, limit=FAULTS_NAMED, joined="; "))
    return PolicyEdit(warnings=limited_warnings(warnings))


def removal_warnings(
    before: Iterable[str], after: Iterable[str], named_by: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """A warning for each key that goes though queues name it. `named_by`: queues by the policy they name."""
    gone = sorted((set(before) - set(after)) & named_by.keys())
    return limited_warnings(
        [
            f"policy {quoted(key, limit=NAME_LENGTH)} goes, which {_queues(named_by[key])}; "
            "until it is there again, the policy of the nearest ancestor or the global one counts"
            for key in gone
        ]
    )


def deletion_warnings(before: Iterable[str], named_by: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A warning where the whole ConfigMap goes though queues name its policies."""
    queues = sorted(queue for key in set(before) & named_by.keys() for queue in named_by[key])
    if not queues:
        return ()
    return limited_warnings(
        [f"{_queues(queues)} policies of this ConfigMap; no policy counts once it is deleted"]
    )


def _queues(queues: Sequence[str]) -> str:
    shown = join_limited([quoted(name, limit=NAME_LENGTH) for name in sorted(queues)], limit=QUEUES_NAMED)
    return f"queue {shown} names" if len(queues) == 1 else f"queues {shown} name"


def limited_warnings(warnings: Sequence[str]) -> tuple[str, ...]:
    """The first of the warnings, each cut, and how many more there are."""
    shown = [truncated(text, limit=WARNING_LENGTH) for text in warnings[:WARNINGS_LIMIT]]
    more = len(warnings) - len(shown)
    return (*shown, *([f"there are {more} more warnings"] if more else []))
