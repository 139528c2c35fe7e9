"""Who asks in a round that takes several looks, and what is kept for whom meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from queues.quota.asking_round import AskingRound
from queues.quota.pod_classes import WaitingPod
from queues.quota.reclaim_preview import MOST_ASKING
from queues.quota.reservations import ReservationKey
from tests.queues.quota.test_lending import RECLAIM, amounts
from tests.support.rules.cases import NOW


def pod(name: str, queue: str = "team", cpu: int = 1) -> WaitingPod:
    return WaitingPod(uid=name, queue=queue, requests=amounts(cpu), priority=0, since=NOW)


ONE, TWO = ("team", amounts(1)), ("team", amounts(2))


def asking(turn: AskingRound, pods: Iterable[WaitingPod], *, again: bool = True) -> list[str]:
    return [each.uid for each in pods if turn.asks(each, again=again)]


def resume(
    turn: AskingRound, reserved: Mapping[ReservationKey, int], *, waiting: int = 9
) -> Mapping[ReservationKey, int]:
    return turn.resume(reserved, queues={"team", "other"}, number_of=lambda _key: waiting)


def test_who_has_asked_does_not_ask_again_and_keeps_what_it_was_given() -> None:
    turn, pods = AskingRound(), [pod("a"), pod("b"), pod("c")]
    assert not turn.has_asked
    assert resume(turn, {}) == {}
    turn.ask(pods[0])
    turn.give(pods[0])
    assert turn.has_asked
    assert turn.numbers({}, is_over=False) == {ONE: 1}
    assert resume(turn, {ONE: 1}) == {ONE: 1}, "it counts for the others"
    assert asking(turn, pods) == ["b", "c"]
    turn.ask(pods[1])
    turn.deny(pods[1], RECLAIM)
    turn.finish("team")
    assert turn.numbers({ONE: 1}, is_over=True) == {ONE: 1}
    assert asking(turn, [*pods, pod("late")]) == []
    assert asking(turn, [pod("late", "other")]) == ["late"]


def test_until_a_class_has_asked_it_keeps_what_it_had() -> None:
    turn = AskingRound()
    resume(turn, {ONE: 2, TWO: 3})
    turn.ask(pod("a"))
    turn.give(pod("a"))
    assert turn.numbers({ONE: 2, TWO: 3}, is_over=False) == {ONE: 2, TWO: 3}
    turn.ask(pod("d", cpu=2))
    turn.deny(pod("d", cpu=2), RECLAIM)
    assert turn.numbers({ONE: 2, TWO: 3}, is_over=False) == {ONE: 2}
    assert turn.numbers({ONE: 2, TWO: 3}, is_over=True) == {ONE: 1}


@pytest.mark.parametrize(("reserved", "waiting"), [({}, 9), ({ONE: 1}, 0)])
def test_what_was_given_ends_with_the_release_or_the_deletion_of_the_pod(
    reserved: Mapping[ReservationKey, int], waiting: int
) -> None:
    turn = AskingRound()
    turn.ask(pod("a"))
    turn.give(pod("a"))
    assert resume(turn, reserved, waiting=waiting) == {}
    assert turn.numbers({}, is_over=True) == {}


def test_who_was_deferred_asks_again_in_a_queue_that_is_done_and_counts_once() -> None:
    turn = AskingRound()
    turn.ask(pod("a"))
    turn.retain(pod("a"), {ONE: 1})
    turn.defer(pod("a"))
    turn.finish("team")
    assert turn.numbers({ONE: 1}, is_over=False) == {ONE: 1}
    assert resume(turn, {ONE: 1}) == {}, "it counts once it asks"
    assert not turn.is_over("team")
    assert asking(turn, [pod("a")], again=False) == []
    assert asking(turn, [pod("a")]) == ["a"]
    turn.ask(pod("a"))
    turn.give(pod("a"))
    assert turn.numbers({ONE: 1}, is_over=True) == {ONE: 1}
    assert asking(turn, [pod("a")]) == []
    assert turn.is_over("team")
    assert not turn.is_over("other")


def test_who_has_room_keeps_what_was_set_aside_before_and_gets_no_more() -> None:
    turn = AskingRound()
    for name in ("a", "b"):
        turn.ask(pod(name))
    turn.give(pod("a"))
    turn.retain(pod("b"), {})
    assert turn.numbers({}, is_over=True) == {ONE: 1}
    turn.retain(pod("b"), {ONE: 2})
    assert turn.numbers({ONE: 2}, is_over=True) == {ONE: 2}


def test_what_is_kept_for_a_class_that_lacks_nothing_counts_once() -> None:
    turn = AskingRound()
    turn.ask(pod("a"))
    turn.give(pod("a"))
    assert resume(turn, {ONE: 3}) == {ONE: 1}
    assert turn.keep(ONE, 3) == 2
    assert turn.numbers({ONE: 3}, is_over=True) == {ONE: 3}
    resume(turn, {ONE: 3})
    assert turn.numbers({ONE: 3}, is_over=True) == {ONE: 1}, "it is kept anew in each look"


def test_no_queue_asks_for_ever() -> None:
    turn = AskingRound()
    for number in range(MOST_ASKING):
        assert turn.asks(pod(f"p-{number}"), again=True)
        turn.ask(pod(f"p-{number}"))
    assert not turn.asks(pod("one-more"), again=True)
    assert turn.asks(pod("one-more", "other"), again=True)


def test_what_is_told_of_a_class_ends_where_room_is_kept_for_it() -> None:
    turn = AskingRound()
    assert not turn.was_served(ONE)
    turn.give(pod("a"))
    assert turn.was_served(ONE)
    turn.deny(pod("b"), RECLAIM)
    assert not turn.was_served(ONE)


def test_what_was_denied_and_given_in_a_queue_that_is_gone_is_forgotten() -> None:
    turn, gone = AskingRound(), pod("a", "gone")
    turn.ask(gone)
    turn.give(gone)
    turn.deny(pod("b", "gone"), RECLAIM)
    assert resume(turn, {("gone", amounts(1)): 1}) == {}
    assert turn.denied == {}
    assert turn.numbers({}, is_over=True) == {}
