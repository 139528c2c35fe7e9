"""What counts for the leader is what there is, reason by reason, whatever happened."""

from __future__ import annotations

from typing import Any

import pytest

from queues.quota.ledger import AmountReason, Ledger
from queues.quota.reservations import Reservations
from queues.quota.usage import Usage
from queues.tree import Tree
from tests.support.examples import scaled
from tests.support.quota.lending_history import LendingHistory

HISTORIES = scaled(60)


def test_each_amount_counts_once_and_for_its_reason() -> None:
    assert {seed: wrong for seed in range(HISTORIES) if (wrong := LendingHistory(seed).run())} == {}


def counts_nothing_there(self: Ledger, tree: Tree, **more: Any) -> None:
    """What was there before counts in the former queues alone."""
    self.usage = Usage(tree, **more)


def forgets_queues(_self: Ledger, *_: AmountReason) -> set[str]:
    return set()


@pytest.mark.parametrize(
    ("of", "rule", "fault"),
    [
        (Ledger, "begin_anew", counts_nothing_there),
        (Ledger, "queues", forgets_queues),
        (Reservations, "_count", lambda *_: None),
    ],
    ids=["begin_anew", "queues", "reservations"],
)
def test_the_histories_find_what_is_counted_in_one_place_alone(
    of: type, rule: str, fault: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, rule, fault)
    assert any(LendingHistory(seed).run() for seed in range(HISTORIES))
