"""What is wrong with an edit of the ConfigMap with the scheduling policies.

Invariants
- Only keys whose text changes are read, so that a stored ConfigMap can be corrected key by key.
- A key that holds no policy is somebody else's and never refused: `queues.policies.policy_set` has the table.
  One that held a policy until now is refused.
- What a policy has in vain is said once for each kind: the names that are not known, those that do nothing
  here.
- All faulty keys are found; the first `FAULTS_NAMED` are named, each with the line and the reason.
- Warnings are `WARNINGS_LIMIT` at most, of `WARNING_LENGTH` characters at most.
- The work is bounded: that of one key by `queues.policies.scheduler_conf`, their number by the size of a
  ConfigMap (1 MiB), which takes about two seconds at worst.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from queues.policies.model import Policy
from queues.policies.policy_report import misplaced_text
from queues.policies.policy_set import GLOBAL_KEY, KEYS_LIMIT, holds_policy, misplaced_keys
from queues.policies.policy_texts import policy_keys
from queues.policies.scheduler_conf import BadPolicy, parse_policy
from queues.policies.without_effect import texts_without_effect
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
    """Read the texts that change from `before` to `after`, the texts of the ConfigMap."""
    faults, warnings = [], []
    keys = policy_keys(after, [key for key in after.keys() & before.keys() if _held(key, before[key])])
    for key in keys:
        if before.get(key) == after[key]:
            continue
        try:
            policy = parse_policy(after[key])
        except BadPolicy as exc:
            faults.append(f"key {quoted(key)}, {exc.place}")
        else:
            warnings += [f"key {quoted(key, limit=NAME_LENGTH)}, {text}" for text in _said(policy)]
    if len(keys) > max(KEYS_LIMIT, len(policy_keys(before))):
        faults.append(f"there are {len(keys):,} policies; at most {KEYS_LIMIT:,} are read")
    if faults:
        return PolicyEdit(refusal=join_limited(faults, limit=FAULTS_NAMED, joined="; "))
    misplaced = misplaced_keys(keys)[:1] if after != before else []
    return PolicyEdit(warnings=limited_warnings([*map(misplaced_text, misplaced), *warnings]))


def _held(key: str, text: str) -> bool:
    return key == GLOBAL_KEY or holds_policy(text)


def _said(policy: Policy) -> Iterator[str]:
    """What of a policy is passed over or ignored: those first by which it differs most from what it says."""
    yield from texts_without_effect(policy)
    yield from map(str, policy.warnings)


def unheld_warnings(after: Mapping[str, str], named_by: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """A warning for each key that queues name and that holds no policy. `after`: the texts of the
    ConfigMap.
    """
    named = after.keys() & named_by.keys()
    keys = sorted(key for key in named if key != GLOBAL_KEY and not holds_policy(after[key]))
    return limited_warnings(
        [
            f"key {quoted(key, limit=NAME_LENGTH)}, which {_queues(named_by[key])}, holds no policy: it has "
            "neither actions nor tiers"
            for key in keys
        ]
    )


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
