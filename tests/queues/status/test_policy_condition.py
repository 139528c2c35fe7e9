"""Condition PolicyResolved: which policy counts for a queue, and what is wrong with a name on its chain."""

from __future__ import annotations

import pytest

from queues.policies.policy_set import GLOBAL_KEY, NO_POLICIES, PolicySet
from queues.policies.policy_texts import read_policies
from queues.policies.resolution import resolve_policy
from queues.status.policy_condition import (
    MESSAGE_LIMIT,
    admission_text,
    policy_condition,
    problems_text,
)
from tests.support.cases import each_case

PLAIN = "actions: allocate, backfill\ntiers: [{}]"
BAD = "actions: allocate\ntiers: x"
ALL = read_policies({GLOBAL_KEY: PLAIN, "pack": PLAIN, "bad": BAD})
NO_GLOBAL = read_policies({"pack": PLAIN, "bad": BAD})
STALE = read_policies({GLOBAL_KEY: BAD, "pack": BAD}, read_policies({GLOBAL_KEY: PLAIN, "pack": PLAIN}))
WRONG = 'line 2: tiers: the text "x", not a list ("- ...")'


@each_case(
    ("policies", "chain", "expected"),
    [
        (NO_POLICIES, [("a", ""), ("root", "")], None),
        (NO_GLOBAL, [("a", ""), ("root", "")], None),
        (ALL, [("a", ""), ("root", "")], (True, "Global", f'the global policy "{GLOBAL_KEY}" counts')),
        (ALL, [("a", "pack")], (True, "Own", 'policy "pack" counts, which the queue names')),
        (
            ALL,
            [("a", ""), ("t", "pack")],
            (True, "Ancestor", 'policy "pack" counts, which the ancestor "t" names'),
        ),
        (
            NO_POLICIES,
            [("a", "pack")],
            (
                False,
                "NotFound",
                'there is no policy "pack"; no policy counts; see: kubectl queue policy list',
            ),
        ),
        (
            ALL,
            [("a", "none"), ("t", "pack")],
            (
                False,
                "NotFound",
                'there is no policy "none"; policy "pack" counts, which the ancestor "t" names'
                "; see: kubectl queue policy list",
            ),
        ),
        (
            ALL,
            [("a", ""), ("t", "none")],
            (
                False,
                "NotFound",
                'there is no policy "none" (named by the ancestor "t"); '
                f'the global policy "{GLOBAL_KEY}" counts; see: kubectl queue policy list',
            ),
        ),
        (
            NO_GLOBAL,
            [("a", "bad")],
            (False, "Invalid", f'policy "bad", {WRONG}; no policy counts'),
        ),
        (
            STALE,
            [("a", "pack")],
            (
                False,
                "Invalid",
                f'policy "pack", {WRONG}; the last good text of policy "pack" counts, which the queue names',
            ),
        ),
        (
            STALE,
            [("a", "")],
            (
                False,
                "Invalid",
                f'policy "{GLOBAL_KEY}", {WRONG}; '
                f'the last good text of the global policy "{GLOBAL_KEY}" counts',
            ),
        ),
    ],
)
def test_the_condition(
    policies: PolicySet, chain: list[tuple[str, str]], expected: tuple[bool, str, str] | None
) -> None:
    found = policy_condition("a", resolve_policy(policies, chain=chain))
    assert (found and (found.status, found.reason, found.message)) == expected


def test_the_message_is_bounded_and_always_says_what_counts() -> None:
    chain = [(f"q{level}" + "x" * 240, "none" + "y" * 240) for level in range(50)]
    resolution = resolve_policy(ALL, chain=[*chain, ("root", "pack")])
    text = problems_text("q", resolution)
    assert len(text) <= MESSAGE_LIMIT
    counts = 'policy "pack" counts, which the ancestor "root" names'
    assert text.endswith(f"{counts}; see: kubectl queue policy list")
    assert len(problems_text("q", resolution, limit=200)) <= 200


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("none", 'no policy "none" is known yet; no policy counts; see: kubectl queue policy list'),
        (GLOBAL_KEY, f'there is no policy "{GLOBAL_KEY}"; no policy counts; see: kubectl queue policy list'),
        ("bad", f'policy "bad", {WRONG}; no policy counts'),
    ],
)
def test_who_submits_a_queue_is_told_that_its_policy_may_be_on_its_way(name: str, text: str) -> None:
    """Another replica may have admitted it; that of the global name nobody can."""
    resolution = resolve_policy(NO_GLOBAL, chain=[("a", name)])
    assert admission_text("a", resolution, limit=MESSAGE_LIMIT) == text
