"""What a reader may take from `status.stop`: acknowledged, pending, or of other specs than there are now."""

from __future__ import annotations

from typing import Any

import pytest

from queues.status.stop_status import (
    WAITING_LIMIT,
    Acknowledgement,
    ObservedChain,
    QueueGeneration,
    matches_chain,
    read_acknowledgement,
    waiting_for,
)
from tests.support.cases import each_case

ACKNOWLEDGED, PENDING, OUTDATED = Acknowledgement
CHAIN = ObservedChain(
    (QueueGeneration("b", 4), QueueGeneration("a", 7), QueueGeneration("root", 1)), whole=True
)


def stop(*generations: int, names: str = "b a root", **fields: Any) -> dict[str, Any]:
    links = zip(names.split(), generations, strict=True)
    return {"chain": [{"name": name, "generation": number} for name, number in links], **fields}


@each_case(
    ("status", "active_is_false", "expected"),
    [
        (None, True, ACKNOWLEDGED),
        (None, False, OUTDATED),
        ("x", False, OUTDATED),
        (stop(4, 7, 1, scope="s"), True, ACKNOWLEDGED),
        (stop(4, 7, 1, scope="s"), False, PENDING),
        (stop(4, 7, 1), True, PENDING),
        (stop(4, 7, 1, scope=""), True, PENDING),
        (stop(4, 7, 1), False, PENDING),
        (stop(3, 7, 1, scope="s"), True, OUTDATED),
        (stop(4, 6, 1, scope="s"), True, OUTDATED),
        (stop(4, 8, 1, scope="s"), True, OUTDATED),
        (stop(4, 1, names="b root", scope="s"), True, OUTDATED),
        (stop(4, 7, 1, names="b c root", scope="s"), True, OUTDATED),
        (stop(4, 7, 1, 1, names="b a root x", scope="s"), True, OUTDATED),
        ({"scope": "s"}, True, OUTDATED),
        ({"scope": "s", "chain": "x"}, True, OUTDATED),
        ({"scope": "s", "chain": [{"name": "b"}]}, True, OUTDATED),
    ],
)
def test_a_stop_is_acknowledged_for_the_specs_that_its_status_names_alone(
    status: Any, *, active_is_false: bool, expected: Acknowledgement
) -> None:
    assert read_acknowledgement(stop=status, active_is_false=active_is_false, chain=CHAIN) is expected


@pytest.mark.parametrize(("ancestor", "expected"), [(7, ACKNOWLEDGED), (6, OUTDATED)])
def test_ancestors_that_may_not_be_read_are_not_compared(ancestor: int, expected: Acknowledgement) -> None:
    read = ObservedChain(CHAIN.links[:2])
    status = stop(4, ancestor, 99, scope="s")
    assert read_acknowledgement(stop=status, active_is_false=True, chain=read) is expected


@each_case("status", [None, "x", {}, {"chain": {}}, stop(3, 7, 1)])
def test_what_cannot_be_read_or_is_of_another_spec_is_not_of_the_chain(status: Any) -> None:
    assert not matches_chain(status, ObservedChain((QueueGeneration("b", 4),)))


@each_case("status", [None, "x", {}, {"waitingFor": 3}, {"waitingFor": ""}])
def test_a_server_that_does_not_say_what_it_waits_for_says_nothing(status: Any) -> None:
    assert waiting_for(status) == ""


def test_what_it_waits_for_is_shown_on_one_printable_line() -> None:
    text = waiting_for({"waitingFor": "PassOpen: a\nb\x1b[2J " + "x" * 1000})
    assert text.startswith("PassOpen: a b")
    assert text.isprintable()
    assert len(text) == WAITING_LIMIT
