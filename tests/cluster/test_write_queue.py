"""Writers: most urgent first, one write a key, tried again while it may help, and stopped at once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from cluster import write_queue
from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded, Refused, Unreachable
from cluster.key_backoff import KeyBackoff
from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference
from cluster.write_queue import MANY_OUTDATED, MAX_TRIES, WriteQueue
from cluster.write_ranks import WriteRank
from tests.support.cluster.notes import eventually

WAIT = 20.0
#: As good as never, for what must not be waited for.
LATE = 600.0


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def new(metrics: Metrics) -> Iterator[Callable[..., WriteQueue]]:
    """Makes writers that are stopped after the test."""
    made: list[WriteQueue] = []

    def writers(
        threads: int = 1,
        slow_start: int | None = None,
        backoff: KeyBackoff | None = None,
        gives_way: Callable[[], bool] | None = None,
    ) -> WriteQueue:
        made.append(
            WriteQueue(
                metrics=metrics,
                threads=threads,
                name="test-writer",
                slow_start=slow_start,
                backoff=backoff,
                gives_way=gives_way,
            )
        )
        return made[-1]

    yield writers
    for each in made:
        each.stop()


class Written:
    """Remembers what was written and lets a test wait for it."""

    def __init__(self) -> None:
        self.order: list[object] = []
        self._changed = threading.Condition()

    def __call__(self, what: object) -> Callable[[], None]:
        def write() -> None:
            with self._changed:
                self.order.append(what)
                self._changed.notify_all()

        return write

    def wait_for(self, number: int) -> list[object]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.order) >= number, WAIT), self.order
        return self.order


def outcomes(metrics: Metrics) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["what"], sample.labels["outcome"]): sample.value
        for family in metrics.writes.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


def overloaded(seconds: float = 0.0, code: int = 429) -> Overloaded:
    return Overloaded(code, "TooManyRequests", "busy", retry_after=seconds)


def done_of(
    writers: WriteQueue,
    write: Callable[[], object],
    *,
    key: str = "key",
    subject: ObjectReference | None = None,
) -> bool:
    """Submit it and wait for what is said of it."""
    told: list[bool] = []
    ended = threading.Event()

    def done(ok: bool) -> None:
        told.append(ok)
        ended.set()

    assert writers.submit(("what", key), write, done=done, rank=WriteRank.STATUS, subject=subject)
    assert ended.wait(WAIT)
    return told[0]


def wait_at(begun: threading.Event, go_on: threading.Event) -> None:
    """A write that says that it has begun, and ends when it may."""
    begun.set()
    go_on.wait(WAIT)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("test-writer")]


# Order


def test_the_smaller_rank_goes_first_and_equals_by_arrival(new: Callable[..., WriteQueue]) -> None:
    writers, written = new(), Written()
    counts, release, event, stop = WriteRank.COUNTS, WriteRank.RELEASE, WriteRank.EVENT, WriteRank.STOP
    ranks = [(counts,), (release, 3), (event,), (release, 2), (release, 2), (stop,), (counts,)]
    for number, (rank, *order) in enumerate(ranks):
        writers.submit(("w", number), written(number), rank=WriteRank(rank), order=tuple(order))
    writers.start()
    expected = [number for _, number in sorted((rank, number) for number, rank in enumerate(ranks))]
    assert written.wait_for(len(ranks)) == expected


def test_a_thousand_are_all_written_once_by_several_threads(new: Callable[..., WriteQueue]) -> None:
    writers, written = new(threads=8), Written()
    writers.start()
    numbers = list(range(1000))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        assert writers.submit(("w", number), written(number), rank=WriteRank(number % 7))
    assert Counter(written.wait_for(1000)) == Counter(numbers)


def test_what_is_urgent_overtakes_what_waits(new: Callable[..., WriteQueue]) -> None:
    writers, written = new(), Written()
    begun, go_on = threading.Event(), threading.Event()
    writers.submit(("w", "slow"), lambda: wait_at(begun, go_on), rank=WriteRank.STATUS)
    writers.start()
    assert begun.wait(WAIT)
    writers.submit(("w", "event"), written("event"), rank=WriteRank.EVENT)
    writers.submit(("w", "guard"), written("guard"), rank=WriteRank.STOP)
    go_on.set()
    assert written.wait_for(2) == ["guard", "event"]


# One a key


@pytest.mark.parametrize("ended_by", ["the others", "its patience"])
def test_events_give_way_to_more_urgent_writes_of_others_for_a_time(
    new: Callable[..., WriteQueue], monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    """Writes of other ranks do not, also where they come later."""
    asked, others_wait = threading.Event(), threading.Event()
    others_wait.set()

    def gives_way() -> bool:
        asked.set()
        return others_wait.is_set()

    writers, written = new(gives_way=gives_way), Written()
    writers.submit(("event", "1"), written("event"), rank=WriteRank.EVENT)
    writers.start()
    assert asked.wait(WAIT)
    writers.submit(("what", "2"), written("urgent"), rank=WriteRank.VICTIM)
    assert written.wait_for(1) == ["urgent"]
    if ended_by == "the others":
        others_wait.clear()
    else:
        monkeypatch.setattr(write_queue, "PATIENCE_SECONDS", 0.0)
    assert written.wait_for(2) == ["urgent", "event"]


def test_a_key_that_waits_is_not_taken_again(new: Callable[..., WriteQueue]) -> None:
    writers, written = new(), Written()
    assert writers.submit(("w", 1), written("first"), rank=WriteRank.STATUS)
    assert not writers.submit(("w", 1), written("second"), rank=WriteRank.STATUS)
    assert writers.submit(("other", 1), written("third"), rank=WriteRank.STATUS)
    assert len(writers) == 2
    writers.start()
    assert written.wait_for(2) == ["first", "third"]


def test_nor_is_one_that_is_being_written(new: Callable[..., WriteQueue]) -> None:
    writers = new(threads=4)
    begun, go_on = threading.Event(), threading.Event()
    writers.submit(("w", 1), lambda: wait_at(begun, go_on), rank=WriteRank.STATUS)
    writers.start()
    assert begun.wait(WAIT)
    assert not writers.submit(("w", 1), lambda: None, rank=WriteRank.STATUS)
    go_on.set()


def test_once_it_is_done_it_may_be_asked_for_again_even_by_who_is_told(
    new: Callable[..., WriteQueue],
) -> None:
    writers, written = new(), Written()
    writers.start()
    again: list[bool] = []
    writers.submit(
        ("w", 1),
        written("first"),
        done=lambda _: again.append(writers.submit(("w", 1), written("second"), rank=WriteRank.STATUS)),
        rank=WriteRank.STATUS,
    )
    assert written.wait_for(2) == ["first", "second"]
    assert again == [True]


# Trying again


@pytest.mark.parametrize(
    "trouble", [overloaded(), overloaded(code=500), overloaded(code=503), Unreachable("cut")], ids=str
)
def test_what_the_api_server_is_too_busy_for_is_tried_again(
    new: Callable[..., WriteQueue], metrics: Metrics, trouble: ClusterError
) -> None:
    writers, tries = new(), []
    writers.start()

    def write() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise trouble

    assert done_of(writers, write) is True
    assert len(tries) == 3
    assert outcomes(metrics) == {("what", "retried"): 2, ("what", "done"): 1}


def test_it_is_given_up_in_the_end(new: Callable[..., WriteQueue], metrics: Metrics) -> None:
    writers, tries = new(), []
    writers.start()

    def write() -> None:
        tries.append(1)
        raise overloaded()

    assert done_of(writers, write) is False
    assert len(tries) == MAX_TRIES
    assert outcomes(metrics) == {("what", "retried"): MAX_TRIES}


def test_it_waits_as_long_as_it_is_asked_to(new: Callable[..., WriteQueue]) -> None:
    writers, tries = new(), []
    writers.start()

    def write() -> None:
        tries.append(time.monotonic())
        if len(tries) == 1:
            raise overloaded(0.3)

    assert done_of(writers, write)
    assert tries[1] - tries[0] >= 0.3


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    [
        (NotFound(404, "NotFound", ""), "outdated"),
        (Conflict(409, "Conflict", ""), "outdated"),
        (Refused(403, "Forbidden", ""), "refused"),
        (Refused(422, "Invalid", ""), "refused"),
        (ClusterError("odd"), "failed"),
        (ValueError("a mistake of ours"), "failed"),
    ],
    ids=str,
)
def test_what_will_not_help_is_not_tried_again_and_the_thread_goes_on(
    new: Callable[..., WriteQueue], metrics: Metrics, trouble: Exception, outcome: str
) -> None:
    writers, tries = new(), []
    writers.start()

    def write() -> None:
        tries.append(1)
        raise trouble

    assert done_of(writers, write) is False
    assert len(tries) == 1
    assert outcomes(metrics) == {("what", outcome): 1}
    assert done_of(writers, lambda: None, key="another") is True


def test_whoever_is_told_may_fail_and_the_thread_goes_on(new: Callable[..., WriteQueue]) -> None:
    writers, written = new(), Written()
    writers.start()

    def done(_: bool) -> None:
        raise ValueError("a mistake of ours")

    writers.submit(("w", 1), lambda: None, done=done, rank=WriteRank.STATUS)
    writers.submit(("w", 2), written("next"), rank=WriteRank.STATUS)
    assert written.wait_for(1) == ["next"]


# Stopping


def test_stop_waits_for_the_write_under_way_and_drops_what_waits(new: Callable[..., WriteQueue]) -> None:
    writers, written = new(), Written()
    begun, go_on = threading.Event(), threading.Event()

    def write() -> None:
        wait_at(begun, go_on)
        written("under way")()

    writers.submit(("w", 1), write, rank=WriteRank.STATUS)
    writers.submit(("w", 2), written("waiting"), rank=WriteRank.STATUS)
    writers.start()
    assert begun.wait(WAIT)

    def end_once_stopping() -> None:
        assert writers.pause(WAIT)
        threading.Event().wait(0.1)
        go_on.set()

    ending = threading.Thread(target=end_once_stopping)
    ending.start()
    writers.stop()
    ending.join()
    assert written.order == ["under way"]
    assert threads() == []


def test_stop_ends_a_wait_between_two_tries(
    new: Callable[..., WriteQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "LONGEST_PAUSE_SECONDS", LATE)
    writers, begun = new(threads=3), threading.Event()

    def write() -> None:
        begun.set()
        raise overloaded(LATE)

    writers.submit(("w", 1), write, rank=WriteRank.STATUS)
    writers.start()
    assert begun.wait(WAIT)
    writers.stop()
    eventually(lambda: threads() == [])


def test_stop_ends_a_pause_inside_a_write(new: Callable[..., WriteQueue]) -> None:
    writers, begun, paused = new(), threading.Event(), []

    def write() -> None:
        begun.set()
        paused.append(writers.pause(WAIT))

    writers.submit(("w", 1), write, rank=WriteRank.STATUS)
    writers.start()
    assert begun.wait(WAIT)
    writers.stop()
    assert paused == [True]


def test_writes_that_all_hang_hold_up_a_stop_once_and_not_one_after_another(
    new: Callable[..., WriteQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a server with sixteen of them is killed before it has given up its Leases."""
    monkeypatch.setattr(write_queue, "STOP_SECONDS", 0.1)
    writers, under_way, go_on = new(threads=8), Written(), threading.Event()

    def hang(number: int) -> None:
        under_way(number)()
        assert go_on.wait(WAIT)

    for number in range(8):
        writers.submit(("w", number), partial(hang, number), rank=WriteRank.STATUS)
    writers.start()
    under_way.wait_for(8)
    waits: list[float] = []
    really_join = threading.Thread.join

    def join(thread: threading.Thread, timeout: float) -> None:
        waits.append(timeout)
        really_join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", join)
    writers.stop()
    monkeypatch.undo()
    go_on.set()
    assert len(waits) == 8
    assert sum(waits) <= 0.1


def test_idle_threads_end_at_once_and_nothing_is_taken_after(new: Callable[..., WriteQueue]) -> None:
    writers = new(threads=4)
    writers.start()
    assert len(threads()) == 4
    writers.stop()
    eventually(lambda: threads() == [])  # nobody else would wake them
    assert not writers.submit(("w", 1), lambda: None, rank=WriteRank.STATUS)


def test_stopping_what_never_ran_is_no_fault(new: Callable[..., WriteQueue]) -> None:
    writers = new()
    writers.submit(("w", 1), lambda: None, rank=WriteRank.STATUS)
    writers.stop()
    assert not writers.submit(("w", 2), lambda: None, rank=WriteRank.STATUS)


def test_of_one_lane_one_is_under_way_at_a_time_and_others_pass(new: Callable[..., WriteQueue]) -> None:
    writers, written, go_on = new(threads=3), Written(), threading.Event()
    writers.start()

    def slow() -> None:
        assert go_on.wait(WAIT)
        written("slow")()

    writers.submit(("a", 1), slow, rank=WriteRank.STOP, lane="narrow")
    writers.submit(("a", 2), written("behind"), rank=WriteRank.STATUS, lane="narrow")
    writers.submit(("a", 3), written("before it"), rank=WriteRank.STOP, lane="narrow")
    writers.submit(("a", 4), written("elsewhere"), rank=WriteRank.RELEASE, lane="other")
    writers.submit(("a", 5), written("free"), rank=WriteRank.COUNTS)
    assert set(written.wait_for(2)) == {"elsewhere", "free"}
    go_on.set()
    assert written.wait_for(5)[2:] == ["slow", "before it", "behind"]


def test_a_lane_goes_on_after_a_write_that_failed(new: Callable[..., WriteQueue]) -> None:
    writers, written = new(threads=2), Written()
    writers.start()

    def fails() -> None:
        raise Conflict(409, "Conflict", "somebody was faster")

    for number in range(20):
        writers.submit(
            ("a", number), fails if number % 2 else written(number), lane="narrow", rank=WriteRank.STATUS
        )
    assert written.wait_for(10) == list(range(0, 20, 2))


# One that is refused or busy keeps no other waiting


def test_writes_that_wait_to_be_tried_again_keep_no_thread(new: Callable[..., WriteQueue]) -> None:
    """A webhook of somebody's that fails for every write of his pods: those of others are written."""
    writers, written = new(threads=2), Written()
    writers.start()
    begun = threading.Semaphore(0)

    def busy() -> None:
        begun.release()
        raise overloaded(5.0, code=500)

    for number in range(20):
        writers.submit(("busy", number), busy, rank=WriteRank.STOP)
    for _ in range(20):
        assert begun.acquire(timeout=WAIT)
    writers.submit(("free", 1), written("free"), rank=WriteRank.EVENT)
    assert written.wait_for(1) == ["free"]


def test_what_is_tried_again_comes_behind_what_was_not_tried_yet(new: Callable[..., WriteQueue]) -> None:
    """A thousand edges of windows, and a webhook that fails for half of their queues."""
    writers, written, failed = new(), Written(), set[int]()

    def fails_once(number: int) -> None:
        if number not in failed:
            failed.add(number)
            raise overloaded(0.0, code=500)
        written(number)()

    for number in range(4):
        writers.submit(
            ("edge", number),
            partial(fails_once, number) if number < 2 else written(number),
            rank=WriteRank.STATUS,
        )
    writers.start()
    assert written.wait_for(4) == [2, 3, 0, 1]


def test_a_key_that_was_refused_is_not_taken_until_its_back_off_is_over(
    new: Callable[..., WriteQueue],
) -> None:
    """By a clock that stands still it never is."""
    writers, trouble = new(backoff=KeyBackoff(clock=lambda: 100.0)), Refused(422, "Invalid", "")

    def write() -> None:
        raise trouble

    writers.start()
    assert done_of(writers, write) is False
    assert 0 < writers.wait(("what", "key")) <= 1.0
    assert not writers.submit(("what", "key"), lambda: None, rank=WriteRank.STATUS)
    assert writers.submit(("what", "another"), lambda: None, rank=WriteRank.STATUS)


@pytest.mark.parametrize("status", [404, 409, 410])
def test_what_is_gone_or_has_changed_does_not_back_off(new: Callable[..., WriteQueue], status: int) -> None:
    kinds = {404: NotFound, 409: Conflict}
    writers, trouble = new(), kinds.get(status, Refused)(status, "Reason", "")

    def write() -> None:
        raise trouble

    writers.start()
    assert done_of(writers, write) is False
    assert writers.wait(("what", "key")) == 0


@pytest.mark.parametrize("status", [404, 409, 410])
def test_what_is_always_gone_or_has_always_changed_backs_off_and_is_said(
    new: Callable[..., WriteQueue], metrics: Metrics, status: int
) -> None:
    """A webhook may deny with any status: it was tried again without end, and without a word."""
    kinds, backoff = {404: NotFound, 409: Conflict}, KeyBackoff(clock=lambda: 100.0)
    writers, trouble = new(backoff=backoff), kinds.get(status, Refused)(status, "Reason", "denied")
    pod = ObjectReference(api_version="v1", kind="Pod", name="p", namespace="n", uid="u")

    def write() -> None:
        raise trouble

    def fail(times: int) -> None:
        for _ in range(times):
            assert done_of(writers, write, subject=pod) is False

    writers.start()
    fail(MANY_OUTDATED - 1)
    assert done_of(writers, lambda: None) is True  # it had changed as often, then
    fail(MANY_OUTDATED - 1)
    assert (writers.wait(("what", "key")), backoff.take_failures()) == (0, [])
    fail(1)
    assert writers.wait(("what", "key")) > 0
    [failure] = backoff.take_failures()
    assert "denied" in failure.message
    assert outcomes(metrics)["what", "refused"] == 1


def test_what_is_too_large_is_not_tried_again_whatever_the_status(
    new: Callable[..., WriteQueue], metrics: Metrics
) -> None:
    """The API server says 500 where etcd refuses it. By a clock that stands still no back-off ends."""
    writers = new(backoff=KeyBackoff(clock=lambda: 100.0))
    writers.start()

    def write() -> None:
        raise Overloaded(500, "InternalError", "etcdserver: request is too large", retry_after=1.0)

    assert done_of(writers, write) is False
    assert outcomes(metrics) == {("what", "refused"): 1}
    assert writers.wait(("what", "key")) > 0


# Slow start


class Counted:
    """Writes, and how many were under way and had ended when each began.

    None ends before all have been submitted. Once three may be under way, each waits until three have been.
    """

    def __init__(self, *, hang: int = 0) -> None:
        """`hang`: so many of the first do not end until the test says so."""
        self.seen: list[tuple[int, int]] = []
        self.hang_on, self.submitted = threading.Event(), threading.Event()
        self._changed = threading.Condition()
        self._begun = self._ended = 0
        self._hang = hang

    def __call__(self) -> None:
        with self._changed:
            self._begun += 1
            number = self._begun
            self.seen.append((self._begun - self._ended, self._ended))
            self._changed.notify_all()
        if number <= self._hang:
            self.hang_on.wait(WAIT)
        else:
            self.submitted.wait(WAIT)
            threading.Event().wait(0.002)
        with self._changed:
            if not self._hang and self._ended > write_queue.WRITES_PER_STEP:
                self._changed.wait_for(lambda: max(self.seen)[0] > 2, WAIT)
            self._ended += 1

    @staticmethod
    def await_all_ended(writers: WriteQueue) -> None:
        end = time.monotonic() + WAIT
        while len(writers) and time.monotonic() < end:
            threading.Event().wait(0.001)

    def await_begun(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._begun >= number, WAIT), self.seen


def test_each_burst_begins_with_few_writes_and_has_one_more_after_some_that_succeed(
    new: Callable[..., WriteQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "SLOW_START_SECONDS", WAIT)
    writers = new(threads=8, slow_start=2)
    for burst in range(2):
        writes = Counted()
        for number in range(50):
            writers.submit(("w", (burst, number)), writes, rank=WriteRank.STATUS)
        writes.submitted.set()
        if not burst:
            writers.start()
        writes.await_begun(50)
        assert all(
            under_way <= 2 + ended // write_queue.WRITES_PER_STEP for under_way, ended in writes.seen
        ), writes.seen
        assert max(under_way for under_way, _ in writes.seen) > 2
        writes.await_all_ended(writers)


def test_writes_that_hang_at_the_start_hold_up_the_others_for_a_moment(
    new: Callable[..., WriteQueue],
) -> None:
    writers, writes = new(threads=8, slow_start=2), Counted(hang=7)
    for number in range(50):
        writers.submit(("w", number), writes, rank=WriteRank.STATUS)
    writes.submitted.set()
    writers.start()
    writes.await_begun(50)
    writes.hang_on.set()
