"""Writes that wait: by rank, none for ever, and one that waits can be taken back."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count

from cluster.waiting_writes import PendingWrite, WaitingWrites
from cluster.write_ranks import WriteRank

BOOK, STOP, STATUS, COUNTS, EVENT = (
    WriteRank.BOOK,
    WriteRank.STOP,
    WriteRank.STATUS,
    WriteRank.COUNTS,
    WriteRank.EVENT,
)
PATIENCE = 5.0


class Sender:
    """`threads` that send what waits. Time stands still unless the test moves it."""

    def __init__(self, threads: int = 1) -> None:
        self.waiting = WaitingWrites(longest_wait=PATIENCE)
        self.threads, self.now = threads, 100.0
        self.under_way: list[PendingWrite] = []
        self._arrivals = count()

    def submit(self, name: str, rank: WriteRank, *, lane: Hashable = None) -> None:
        write = PendingWrite(rank, (), next(self._arrivals), ("w", name), lambda: None, lane=lane)
        self.waiting.add(write, now=self.now)

    def begin(self) -> list[str]:
        """Each idle thread takes what is next; all that are under way then."""
        while len(self.under_way) < self.threads and (first := self.waiting.first(now=self.now)) is not None:
            self.waiting.begin(first)
            self.under_way.append(first)
        return [str(each.key[1]) for each in self.under_way]

    def end(self) -> None:
        """The one that was begun first ends."""
        self.waiting.end(self.under_way.pop(0))

    def order(self) -> list[str]:
        """Send all; in which order they were begun."""
        found = []
        while begun := self.begin():
            found.append(begun[0])
            self.end()
        return found


def test_the_book_and_stops_go_before_conditions_and_these_before_counts_and_events() -> None:
    sender = Sender()
    for rank in sorted(WriteRank, reverse=True):
        sender.submit(rank.name, rank)
    order = sender.order()
    assert order == [rank.name for rank in WriteRank]
    assert [each for each in order if each in {"BOOK", "STOP", "STATUS", "COUNTS", "EVENT"}] == [
        "BOOK",
        "STOP",
        "STATUS",
        "COUNTS",
        "EVENT",
    ]


def test_what_has_waited_for_too_long_is_sent_by_one_thread_and_the_others_go_on_by_rank() -> None:
    """As long as stops come all the time."""
    sender = Sender(threads=3)
    for number in range(2):
        sender.submit(f"counts {number}", COUNTS)
    for number in range(20):
        sender.submit(f"stop {number}", STOP)
    assert sender.begin() == ["stop 0", "stop 1", "stop 2"]
    sender.now += PATIENCE
    sender.end()
    sender.end()
    assert sender.begin() == ["stop 2", "counts 0", "stop 3"]
    sender.end()
    assert sender.begin() == ["counts 0", "stop 3", "stop 4"], "one at a time"
    sender.end()
    assert sender.begin() == ["stop 3", "stop 4", "counts 1"], "in the order of arrival"


def test_one_that_is_tried_again_waits_as_long_anew() -> None:
    sender = Sender()
    sender.submit("counts", COUNTS)
    sender.begin()
    sender.now += PATIENCE
    sender.submit("stop", STOP)
    sender.waiting.put_back(sender.under_way.pop(), arrival=1_000, at=sender.now)
    assert sender.order() == ["stop", "counts"]


def test_one_that_waits_is_taken_back_and_may_come_with_another_rank() -> None:
    """Also while it waits for its next try, or for its lane."""
    sender = Sender()
    sender.submit("a", COUNTS)
    sender.submit("b", COUNTS, lane="narrow")
    sender.submit("c", COUNTS, lane="narrow")
    assert sender.begin() == ["a"]
    assert not sender.waiting.withdraw(("w", "a")), "it is under way"
    sender.waiting.put_back(sender.under_way.pop(), arrival=1_000, at=sender.now + 1)
    assert sender.begin() == ["b"]
    assert sender.waiting.first(now=sender.now) is None
    for name in ("a", "c"):
        assert sender.waiting.withdraw(("w", name))
        assert not sender.waiting.withdraw(("w", name))
        assert ("w", name) not in sender.waiting
    sender.end()
    sender.submit("c", EVENT)
    sender.submit("a", STOP)
    assert (len(sender.waiting), sender.order()) == (2, ["a", "c"])
    sender.now += 1
    assert sender.waiting.first(now=sender.now) is None


def test_how_many_go_before_a_rank_is_known_until_they_have_ended() -> None:
    sender = Sender(threads=2)
    for number, rank in enumerate((STATUS, BOOK, COUNTS, COUNTS)):
        sender.submit(f"{number}", rank)

    def counted() -> tuple[int, int]:
        return sender.waiting.count_before(COUNTS), sender.waiting.count_before(EVENT)

    assert counted() == (2, 4)
    sender.waiting.withdraw(("w", "2"))
    sender.begin()
    assert counted() == (2, 3)
    sender.waiting.put_back(sender.under_way.pop(), arrival=1_000, at=sender.now)
    assert counted() == (2, 3)
    sender.end()
    sender.order()
    assert counted() == (0, 0)
