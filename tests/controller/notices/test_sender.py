"""What is sent, when, and how often, whatever happens to the receiver, the API server and the leader."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.notices.receiver import NotTaken
from controller.notices.sender import BACKOFF, POLL_SECONDS, NoticeSender
from queues.apimachinery.timestamps import rfc3339
from queues.notices.message import MOST
from queues.notices.news import notices_of_history
from queues.notices.refusals import MOST_REFUSALS
from queues.status.changes import HistoryLine
from tests.queues.notices.values import NOW, line
from tests.support.controller.notice_stage import Stage
from tests.support.examples import examples


@pytest.fixture
def stage() -> Stage:
    return Stage()


def started(stage: Stage) -> NoticeSender:
    """A sender that has its cursor."""
    sender = stage.sender()
    assert sender.round() == POLL_SECONDS
    return sender


def test_of_before_the_first_start_blocked_drains_alone_are_told(stage: Stage) -> None:
    stage.put("old", [line(seconds=-60)], drained="Blocked", since="2026-11-01T00:00:00Z")
    stage.put("drained", drained="Drained", since="2026-11-01T00:00:00Z")
    started(stage)
    [body] = stage.receiver.bodies
    assert body["text"] == 'queue "old": drain is blocked: why'


def test_what_happens_is_told_once_and_in_one_message(stage: Stage) -> None:
    sender = started(stage)
    stage.later(5)
    stage.put("a", [line(seconds=2)])
    stage.put("b", [line(seconds=1)])
    sender.round()
    sender.round()
    [body] = stage.receiver.bodies
    assert [notice["queue"] for notice in body["notices"]] == ["b", "a"]
    assert stage.metrics.registry.get_sample_value("sluice_notices_total", {"outcome": "sent"}) == 2
    assert stage.metrics.registry.get_sample_value("sluice_notices_waiting") == 0


def test_what_is_cut_off_counts_as_told(stage: Stage) -> None:
    sender = started(stage)
    stage.later(100)
    stage.put("a", [line(seconds=number, to=f"{number}") for number in range(MOST + 3)])
    sender.round()
    sender.round()
    [body] = stage.receiver.bodies
    assert body["more"] == 3


def test_the_many_edits_of_one_queue_keep_no_other_from_being_told(stage: Stage) -> None:
    """Of 26 while the receiver is away, when one queue is stopped; and of as many queues as do not fit."""
    sender = started(stage)
    stage.receiver.problem = NotTaken("HTTP 503")
    stage.later(100)
    stage.put("busy", [line(seconds=number, to=f"{number}") for number in range(26)])
    sender.round()
    stage.put("stopped", [line(seconds=50)])
    sender.round()
    stage.receiver.problem = None
    sender.round()
    [body] = stage.receiver.bodies
    assert "stopped" in {notice["queue"] for notice in body["notices"]}
    stage.later(100)
    names = [f"q{number:02}" for number in range(2 * MOST + 3)]
    for name in names:
        stage.put(name, [line(seconds=150)])
    for _ in range(4):
        sender.round()
    told = [notice["queue"] for body in stage.receiver.bodies[1:] for notice in body["notices"]]
    assert sorted(told) == names


def test_a_drain_that_a_queue_inherits_is_told_of_the_one_that_has_it(stage: Stage) -> None:
    for name in ("a", "a-below"):
        stage.put(name, drained="Blocked", since="2026-11-28T14:00:00Z")
    started(stage)
    [body] = stage.receiver.bodies
    assert [notice["queue"] for notice in body["notices"]] == ["a"]


def test_a_drain_that_is_blocked_again_is_told_once_and_the_next_drain_again(stage: Stage) -> None:
    sender = started(stage)
    for reason, since in (("Blocked", 0), ("Draining", 0), ("Blocked", 0), ("", 0), ("Blocked", 1)):
        stage.put("a", drained=reason, since=f"2026-11-28T14:0{since}:00Z")
        sender.round()
    assert len(stage.receiver.ids) == len(set(stage.receiver.ids)) == 2


def test_windows_are_told_before_they_begin_and_where_they_do_not_and_once(stage: Stage) -> None:
    """A new leader tells none of it again, and no edit does; what is not read again is told by the clock."""
    window = {"name": "nightly", "from": at(60), "until": at(120), "stopPolicy": "Hold"}
    again = {"name": "next", "from": at(200), "until": at(260), "stopPolicy": "Hold"}
    skip = {"window": "nightly", "start": at(60), "skip": True}
    sender = started(stage)
    stage.put("a", windows=[window, again])
    texts: list[str] = []
    for minutes in range(0, 262, 2):
        stage.now = NOW + timedelta(minutes=minutes)
        if minutes == 50:
            sender = stage.sender()
        if minutes == 56:
            stage.put("a", windows=[window, again], windowOverrides=[skip])
        sender.round()
        texts += [f"{minutes} {body['text']}" for body in stage.receiver.bodies[len(texts) :]]
    assert [text.partition(", ")[0].replace('queue "a": window ', "") for text in texts] == [
        "46 nightly begins at 2026-11-28T15:00:00Z",
        "60 nightly does not begin at 2026-11-28T15:00:00Z",
        "186 next begins at 2026-11-28T17:20:00Z",
    ]


def test_a_window_that_nobody_wrote_in_time_is_told_once(stage: Stage) -> None:
    sender = started(stage)
    stage.put("a", windows=[{"name": "w", "from": at(0), "until": at(60), "stopPolicy": "Hold"}])
    for seconds in (0, 3000, 3550, 3552, 3554, 3600):
        stage.now = NOW + timedelta(seconds=seconds)
        sender.round()
    assert [body["text"].rpartition(": ")[2] for body in stage.receiver.bodies] == [
        "nobody wrote that in time, and it stops nothing any more"
    ]


def at(minutes: float) -> str:
    return rfc3339(NOW + timedelta(minutes=minutes))


def test_what_is_not_taken_is_tried_again_after_longer_and_longer(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sender = started(stage)
    stage.put("a", [line()])
    stage.receiver.problem = NotTaken("HTTP 500")
    waits = [sender.round() for _ in range(12)]
    assert waits[:3] == [POLL_SECONDS, 2 * POLL_SECONDS, 4 * POLL_SECONDS]
    assert waits[-1] == BACKOFF.longest
    stage.receiver.problem = NotTaken("HTTP 429", patience=1000)
    assert sender.round() == 1000
    assert stage.metrics.registry.get_sample_value("sluice_notices_waiting") == 1
    stage.receiver.problem = None
    assert sender.round() == POLL_SECONDS
    assert len(stage.receiver.ids) == 1
    assert [record.message for record in caplog.records] == [
        "notices: not sent, and tried again: HTTP 500",
        "notices: not sent, and tried again: HTTP 429",
        "notices: sent again",
    ]


def test_what_is_refused_for_good_is_given_up_and_said_and_the_others_are_told(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Of three in one message the first and the last are told, and then the second is tried again."""
    caplog.set_level(logging.INFO)
    sender = started(stage)
    stage.later(5)
    stage.put("a", [line(seconds=1), line(seconds=2, to="poison"), line(seconds=3)])
    stage.receiver.refuses = "poison"
    for _ in range(5):  # all together; the first; the others together; the second; the third
        sender.round()
    assert [[notice["at"][-3:] for notice in body["notices"]] for body in stage.receiver.bodies] == [
        ["01Z"],
        ["03Z"],
    ]
    assert stage.metrics.registry.get_sample_value("sluice_notices_waiting") == 1
    waits = [sender.round() for _ in range(MOST_REFUSALS - 2)]
    assert waits == [min(POLL_SECONDS * 2**number, BACKOFF.longest) for number in range(MOST_REFUSALS - 2)]
    assert not stage.events
    sender.round()
    told = f"a notice is given up, refused by the receiver {MOST_REFUSALS} times, HTTP 400: "
    told += 'queue "a": spec.state by alice (storage): poison, it was Open'
    assert stage.events == [("a", "NoticeGivenUp", told)]
    assert f"notices: {told}" in caplog.messages
    assert sender.round() == POLL_SECONDS
    assert len(stage.receiver.bodies) == 2
    count = stage.metrics.registry.get_sample_value
    assert count("sluice_notices_total", {"outcome": "given_up"}) == 1
    assert count("sluice_notices_total", {"outcome": "sent"}) == 2
    assert count("sluice_notices_waiting") == 0


def test_what_comes_after_one_that_is_refused_is_told_at_the_next_try(stage: Stage) -> None:
    sender = started(stage)
    stage.put("a", [line(to="poison")])
    stage.receiver.refuses = "poison"
    for _ in range(3):
        sender.round()
    stage.put("b", [line()])
    sender.round()
    assert len(stage.receiver.ids) == 1


def test_what_was_given_up_is_given_up_for_the_next_leader_too(stage: Stage) -> None:
    sender = started(stage)
    stage.put("a", [line(to="poison")], drained="Blocked", since="2026-11-28T14:00:00Z")
    stage.receiver.refuses = "queue"
    for _ in range(3 * MOST_REFUSALS):
        sender.round()
    assert len(stage.events) == 2
    stage.receiver.refuses = ""
    stage.sender().round()
    assert not stage.receiver.bodies


def test_while_the_receiver_is_away_nothing_is_given_up(stage: Stage) -> None:
    sender = started(stage)
    stage.put("a", [line()])
    stage.receiver.problem = NotTaken("HTTP 503")
    for _ in range(10 * MOST_REFUSALS):
        sender.round()
    stage.receiver.problem = None
    sender.round()
    assert not stage.events
    assert len(stage.receiver.ids) == 1


def test_nothing_is_sent_before_there_is_a_cursor(stage: Stage) -> None:
    stage.put("a", drained="Blocked", since="2026-11-28T14:00:00Z")
    stage.server.reachable = False
    sender = stage.sender()
    assert sender.round() == POLL_SECONDS
    assert not stage.receiver.bodies
    stage.server.reachable = True
    sender.round()
    assert len(stage.receiver.ids) == 1


def test_a_cursor_that_was_not_stored_is_stored_before_anything_else_is_sent(stage: Stage) -> None:
    sender = started(stage)
    stage.put("a", [line()])
    stage.server.reachable = False
    sender.round()
    stage.put("b", [line()])
    sender.round()
    assert len(stage.receiver.ids) == 1, "the second waits"
    stage.server.reachable = True
    sender.round()
    assert len(stage.receiver.ids) == len(set(stage.receiver.ids)) == 2


def test_who_does_not_lead_tells_nothing_and_counts_nothing(stage: Stage) -> None:
    sender = started(stage)
    stage.leading = False
    stage.put("a", [line()])
    sender.round()
    assert not stage.receiver.bodies
    assert stage.metrics.registry.get_sample_value("sluice_notices_waiting") == 0


def test_a_queue_that_is_gone_is_forgotten(stage: Stage) -> None:
    sender = started(stage)
    stage.receiver.problem = NotTaken("HTTP 500")
    stage.put("a", [line()])
    sender.round()
    del stage.queues["a"]
    stage.receiver.problem = None
    sender.round()
    assert not stage.receiver.bodies


class Broken(Exception):
    """No error that is known here."""


def test_a_fault_ends_no_more_than_a_round(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    sender = started(stage)
    stage.put("a", [line()])

    def fail(_body: bytes) -> None:
        raise Broken

    with monkeypatch.context() as patch:
        patch.setattr(stage.receiver, "send", fail)
        assert sender.round() == POLL_SECONDS
    sender.round()
    assert len(stage.receiver.ids) == 1


def test_a_stop_ends_the_thread(stage: Stage) -> None:
    sender = stage.sender()
    sender.start()
    assert sender.alive
    sender.stop()
    assert not sender.alive


EVENTS = st.sampled_from(
    [
        "edit",
        "round",
        "round",
        "new leader",
        "former leader",
        "500",
        "taken silently",
        "away",
        "answers lost",
        "calm",
    ]
)


@examples(150)
@given(st.lists(EVENTS, max_size=40))
def test_whatever_happens_everything_is_told_at_least_once_with_the_same_id(events: list[str]) -> None:
    stage = Stage()
    sender = former = started(stage)
    lines: list[HistoryLine] = []
    failed = False
    for event in [*events, "calm", "round", "round", "round"]:
        stage.later(7)
        if event == "edit":
            lines.append(line(seconds=(stage.now - NOW).total_seconds(), to=f"{len(lines)}"))
            stage.put("a", lines)
        elif event == "new leader":
            former, sender = sender, stage.sender()
            sender.round()
        elif event == "former leader":  # it does not know yet
            former.round()
        elif event == "round":
            sender.round()
        elif event == "calm":
            stage.receiver.problem, stage.receiver.takes_silently = None, False
            stage.server.reachable, stage.server.loses_answers = True, False
        else:
            stage.receiver.problem = NotTaken("HTTP 500") if event == "500" else stage.receiver.problem
            stage.receiver.takes_silently |= event == "taken silently"
            stage.server.reachable &= event != "away"
            stage.server.loses_answers |= event == "answers lost"
        failed |= event not in ("edit", "round", "500", "calm")
    wanted = {notice.id for notice in notices_of_history("a", "a", lines)}
    assert set(stage.receiver.ids) == wanted
    assert failed or len(stage.receiver.ids) == len(wanted), "twice only where an answer or a leader was lost"


@examples(60)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.booleans()), min_size=1, max_size=8),
    st.lists(st.sampled_from(["round", "round", "503", "new leader"]), max_size=20),
)
def test_what_is_refused_for_good_costs_no_other_notice(
    edits: list[tuple[str, bool]], events: list[str]
) -> None:
    """Wherever it stands among others, and whatever the receiver and the leader do in between."""
    stage = Stage()
    sender = started(stage)
    stage.receiver.refuses = "poison"
    lines: dict[str, list[HistoryLine]] = {"a": [], "b": []}
    for number, (queue, is_poison) in enumerate(edits):
        seconds = stage.later(1000).timestamp() - NOW.timestamp()
        lines[queue].append(line(seconds=seconds, to=f"{'poison' if is_poison else 'fine'} {number}"))
        stage.put(queue, lines[queue])
    for event in [*events, *["round"] * (len(edits) + 1) * (MOST_REFUSALS + 2)]:
        stage.receiver.problem = NotTaken("HTTP 503") if event == "503" else None
        sender = stage.sender() if event == "new leader" else sender
        sender.round()
    wanted = {
        notice.id: notice.text
        for queue, history in lines.items()
        for notice in notices_of_history(queue, queue, history)
    }
    fine = {id_ for id_, text in wanted.items() if "poison" not in text}
    assert set(stage.receiver.ids) == fine
    assert len(stage.receiver.ids) == len(fine)
    assert len(stage.events) == len(wanted) - len(fine)
