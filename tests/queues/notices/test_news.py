"""What there is to tell of a queue, and which of it is the same."""

from __future__ import annotations

import pytest

from queues.drain.progress import DrainedReason
from queues.notices.news import TEXT_LIMIT, ids_of_drain, notice_of_drain, notices_of_history
from queues.status.changes import HistoryLine
from tests.queues.notices.values import drain, line


def test_of_a_history_what_stops_a_queue_is_told_the_newest_first() -> None:
    lines = [line(), line("parent", seconds=1), line("stopPolicy", seconds=2, to="Hold")]
    newer, older = notices_of_history("research", "uid", lines)
    assert older.text == 'queue "research": spec.state by alice (storage): Suspended, it was Open'
    assert "stopPolicy" in newer.text
    assert newer.at > older.at


def test_both_edges_of_a_window_are_told_by_what_the_server_wrote() -> None:
    edge = HistoryLine(by="sluice: window nightly", field="inWindow", to="nightly", at="2026-11-28T14:00:00Z")
    [told] = notices_of_history("q", "uid", [edge])
    assert told.text == 'queue "q": spec.inWindow by sluice: window nightly: nightly, it was none'


@pytest.mark.parametrize(
    "other", [line(seconds=1), line(to="Closed"), line(by="bob"), line("stopPolicy")], ids=str
)
def test_another_line_has_another_id_and_the_same_line_the_same(other: HistoryLine) -> None:
    [first], [again] = ([*notices_of_history("q", "uid", [line()])] for _ in range(2))
    [different] = notices_of_history("q", "uid", [other])
    [of_another_queue] = notices_of_history("q", "made again", [line()])
    assert first == again
    assert len({first.id, different.id, of_another_queue.id}) == 3


def test_a_line_without_a_moment_is_not_told() -> None:
    assert not [*notices_of_history("q", "uid", [HistoryLine(by="a", field="state", at="yesterday")])]


@pytest.mark.parametrize(
    ("reason", "text", "stands"),
    [
        (DrainedReason.BLOCKED, 'queue "q": drain is blocked: a budget', True),
        (DrainedReason.OVERDUE, 'queue "q": drain is past its deadline: a budget', True),
        (DrainedReason.DRAINED, 'queue "q": is drained: a budget', False),
    ],
)
def test_what_is_told_of_a_drain(reason: str, text: str, stands: bool) -> None:
    told = notice_of_drain("q", "uid", drain(reason))
    assert told is not None
    assert (told.text, told.stands) == (text, stands)
    assert not stands or told.id in ids_of_drain("uid", drain(DrainedReason.DRAINING))


@pytest.mark.parametrize("reason", [DrainedReason.DRAINING, "Unheard"])
def test_a_drain_on_its_way_is_not_told(reason: str) -> None:
    assert notice_of_drain("q", "uid", drain(reason)) is None


def test_texts_of_users_are_cut_to_one_line() -> None:
    endless = HistoryLine(by="a\nb", field="state", to="x" * 10_000, at="2026-11-28T14:00:00Z")
    [told] = notices_of_history("q" * 10_000, "uid", [endless])
    assert len(told.text) == TEXT_LIMIT
    assert told.text.isprintable()
