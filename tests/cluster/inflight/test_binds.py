"""Passes: what we let through and have not seen arrive."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.inflight.binds import (
    FORGOTTEN_SECONDS,
    MAX_UNKNOWN_PODS,
    REQUEST_SECONDS,
    RETRIED_SECONDS,
    BindPass,
    BindPasses,
)
from tests.support.rules.cases import MODEST


class Timed:
    """Passes with a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.passes = BindPasses(clock=lambda: self.now)

    def filtered(self, name: str = "a", queue: str = "research", **_: Any) -> None:
        self.passes.record_filter_pass(namespace="team", name=name, queue=queue)

    def filter_refused(self, name: str = "a", **_: Any) -> None:
        self.passes.record_filter_refusal("team", name)

    def binding(
        self, name: str = "a", queue: str = "research", request: str = "r", by_scheduler: bool = True
    ) -> None:
        self.passes.record_bind_pass(
            request=request, namespace="team", name=name, queue=queue, by_scheduler=by_scheduler
        )

    def bind_refused(self, name: str = "a", request: str = "r", by_scheduler: bool = True, **_: Any) -> None:
        self.passes.record_bind_refusal(request, "team", name, by_scheduler=by_scheduler)

    def arrived(self, name: str = "a", **_: Any) -> None:
        self.passes.close("team", name)

    def open(self) -> list[tuple[str, bool]]:
        return sorted((one.name, one.bind) for one in self.passes.open_passes())


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["filtered", "filter_refused", "binding", "bind_refused", "arrived", "time"]),
        st.fixed_dictionaries(
            {
                "name": st.sampled_from(["a", "b"]),
                "queue": st.sampled_from(["research", "labs"]),
                "request": st.sampled_from(["r-1", "r-2"]),
                "by_scheduler": st.booleans(),
            }
        ),
    ),
    max_size=30,
)


@MODEST
@given(steps=STEPS)
def test_open_is_what_may_still_land(steps: list[tuple[str, dict[str, Any]]]) -> None:
    """Held against the table of the module's docstring, pass by pass."""
    timed = Timed()
    filtered: dict[str, str] = {}
    binds: dict[tuple[str, str], tuple[str, bool, float]] = {}
    for what, of in steps:
        name, queue, request, by = of["name"], of["queue"], of["request"], of["by_scheduler"]
        of_pod = [key for key in binds if key[0] == name]
        if what == "time":
            timed.now += REQUEST_SECONDS / 3
            continue
        getattr(timed, what)(**of)
        if what == "filtered":
            filtered[name] = queue
        elif what == "binding":
            binds[name, request] = (queue, by, timed.now)
        elif what == "filter_refused":
            filtered.pop(name, None)
            if all(binds[key][1] for key in of_pod):
                binds = {key: one for key, one in binds.items() if key not in of_pod}
        elif what == "bind_refused":
            binds.pop((name, request), None)
            if by:
                filtered.pop(name, None)
        else:
            filtered.pop(name, None)
            binds = {key: one for key, one in binds.items() if key not in of_pod}
        fresh = [(key[0], one[0]) for key, one in binds.items() if one[2] > timed.now - REQUEST_SECONDS]
        expected = sorted([*filtered.items(), *fresh])
        assert sorted((one.name, one.queue) for one in timed.passes.open_passes()) == expected
        for asked in ("research", "labs"):
            assert len(timed.passes.open_passes_of({asked})) == sum(q == asked for _, q in expected)
        assert len(timed.passes) == len(expected)
        assert timed.passes.queue_of("team", name) == filtered.get(name)


def test_one_pod_has_one_pass_of_filter_however_often_it_is_asked_for() -> None:
    timed = Timed()
    for _ in range(5):
        timed.filtered()
    assert timed.open() == [("a", False)]


def test_namesakes_in_other_namespaces_are_others() -> None:
    timed = Timed()
    timed.filtered()
    timed.binding()
    timed.passes.record_filter_refusal("other", "a")
    timed.passes.record_bind_refusal("r", "other", "a", by_scheduler=True)
    timed.passes.close("other", "a")
    assert len(timed.passes) == 2


def test_a_pass_of_filter_does_not_run_out_by_itself() -> None:
    """A volume may take minutes before the bind is even sent."""
    timed = Timed()
    timed.filtered()
    timed.now += 100 * FORGOTTEN_SECONDS
    assert timed.open() == [("a", False)]


def test_a_bind_cannot_land_once_the_api_servers_time_for_it_is_over() -> None:
    timed = Timed()
    timed.binding()
    timed.now += REQUEST_SECONDS - 1
    assert timed.open() == [("a", True)]
    timed.now += 1
    assert timed.open() == []


def test_only_an_old_pass_of_a_pod_that_nobody_knows_is_forgotten() -> None:
    timed = Timed()
    for name in ("old", "known"):
        timed.filtered(name)
    timed.now += FORGOTTEN_SECONDS + 1
    timed.filtered("young")
    timed.passes.drop_expired(lambda _, name: name if name == "known" else None)
    assert timed.open() == [("known", False), ("young", False)]


def test_binds_that_cannot_land_are_forgotten_and_others_are_not() -> None:
    timed = Timed()
    timed.binding(request="old")
    timed.now += REQUEST_SECONDS
    timed.binding(request="young")
    timed.passes.drop_expired(lambda *_: None)
    assert timed.open() == [("a", True)]


def test_a_pod_asked_for_again_is_as_young_as_the_last_asking() -> None:
    timed = Timed()
    timed.filtered()
    timed.now += FORGOTTEN_SECONDS + 1
    timed.filtered()
    timed.passes.drop_expired(lambda *_: None)
    assert timed.open() == [("a", False)]


def test_a_refused_bind_of_somebody_else_closes_neither_filters_pass_nor_the_schedulers_bind() -> None:
    timed = Timed()
    timed.filtered()
    timed.binding(request="scheduler")
    timed.bind_refused(request="mallory", by_scheduler=False)
    assert timed.open() == [("a", False), ("a", True)]


def test_a_refusal_of_filter_says_nothing_of_a_bind_by_somebody_else() -> None:
    timed = Timed()
    timed.filtered()
    timed.binding(request="scheduler")
    timed.binding(request="mallory", by_scheduler=False)
    timed.filter_refused()
    assert timed.open() == [("a", True), ("a", True)]


def test_what_a_lost_replica_may_have_let_through_is_a_pass_of_filter() -> None:
    """Its bind may be sent minutes later, so time alone does not end it: an attempt that is refused does."""
    timed = Timed()
    timed.passes.assume_pass(namespace="team", name="a", queue="research")
    timed.now += 2 * REQUEST_SECONDS
    assert timed.open() == [("a", False)]
    assert [each.assumed for each in timed.passes.open_passes()] == [True]
    timed.filter_refused()
    assert timed.open() == []


def test_an_assumed_bind_is_open_for_as_long_as_a_request_takes() -> None:
    """Or until its pod is bound or gone. What its scheduler does next does not end it."""
    timed = Timed()
    for name in ("a", "b"):
        timed.passes.assume_bind(namespace="team", name=name, queue="research")
        timed.filter_refused(name)
        timed.bind_refused(name, request="another")
        timed.passes.record_retry("team", name)
        timed.passes.end_attempt("team", name)
    timed.now += REQUEST_SECONDS - 1
    assert timed.open() == [("a", True), ("b", True)]
    timed.arrived("b")
    assert timed.open() == [("a", True)]
    timed.now += 1
    assert timed.open() == []


def test_a_pass_of_our_own_is_replaced_by_an_assumed_one() -> None:
    """We let the pod through filter; whoever is gone may have let its bind pass the guard since."""
    timed = Timed()
    timed.filtered()
    timed.now += 1
    timed.passes.assume_pass(namespace="team", name="a", queue="research")
    assert [each.assumed for each in timed.passes.open_passes()] == [True]
    assert [one.at for one in timed.passes.open_passes()] == [timed.now]


def test_passes_of_pods_that_do_not_wait_are_dropped_once_all_pods_of_their_time_are_known() -> None:
    """A caller may name what pods it likes; what came after that time is not known yet."""
    timed = Timed()
    for name in ("forged", "waits"):
        timed.filtered(name)
    timed.now += 1
    timed.filtered("later")
    timed.passes.drop_settled(before=timed.now - 0.5, waits=lambda each: each.name == "waits")
    assert timed.open() == [("later", False), ("waits", False)]


def test_only_so_many_passes_of_unknown_pods_are_kept() -> None:
    passes = BindPasses(clock=lambda: 0.0)
    for number in range(MAX_UNKNOWN_PODS + 2):
        assert not passes.is_full(2)
        passes.record_filter_pass(namespace="team", name=f"pod-{number}", queue="a")
    assert passes.is_full(2)


def test_a_pass_knows_its_pod() -> None:
    assert BindPass(namespace="n", name="a", queue="q", at=1.0).key == ("n", "a")


def test_the_going_of_a_former_pod_of_that_name_closes_nothing() -> None:
    """A StatefulSet's pod is made again under its name; the old one's end comes late."""
    passes = BindPasses(clock=lambda: 0.0)
    passes.record_filter_pass(namespace="team", name="web-0", queue="a", uid="new")
    passes.close("team", "web-0", "old")
    assert [one.uid for one in passes.open_passes()] == ["new"]
    passes.close("team", "web-0", "new")
    assert not list(passes.open_passes())


def test_a_new_attempt_ends_all_that_was_let_through_before_it_was_asked_for() -> None:
    """By filter, by the guard, or by somebody who is gone; not what somebody else binds."""
    timed = Timed()
    timed.filtered()
    timed.binding(request="scheduler")
    timed.binding(request="mallory", by_scheduler=False)
    timed.passes.assume_pass(namespace="team", name="a", queue="research")
    timed.now += 3
    timed.passes.record_retry("team", "a")
    timed.passes.end_attempt("team", "a")
    assert [(one.bind, one.by_scheduler) for one in timed.passes.open_passes()] == [(True, False)]


def test_a_new_attempt_says_nothing_of_what_was_let_through_since_it_was_asked_for() -> None:
    """The queue was resumed meanwhile, and what is heard of the former attempt comes late."""
    timed = Timed()
    timed.passes.record_retry("team", "a")
    timed.now += 1
    timed.filtered()
    timed.binding()
    timed.passes.end_attempt("team", "a")
    assert timed.open() == [("a", False), ("a", True)]


def test_a_retry_that_takes_minutes_ends_an_assumed_pass_when_it_is_made() -> None:
    """kube-scheduler retries a pod that only its node affinity keeps back after five minutes."""
    timed = Timed()
    timed.passes.assume_pass(namespace="team", name="a", queue="research")
    timed.passes.record_retry("team", "a")
    for _ in range(5):
        timed.now += REQUEST_SECONDS
        timed.passes.drop_expired(lambda *_: "known")
    timed.passes.record_retry("team", "a")
    timed.passes.end_attempt("team", "a")
    assert timed.open() == []


def test_a_retry_is_forgotten_that_can_end_no_pass_any_more() -> None:
    """What is let through after the request is not ended by its answer, and needs a request of its own."""
    timed = Timed()
    timed.passes.record_retry("team", "a")
    timed.now += 1
    timed.filtered()
    timed.now += REQUEST_SECONDS
    timed.passes.drop_expired(lambda *_: "known")
    timed.passes.end_attempt("team", "a")
    assert timed.open() == [("a", False)]
    timed.passes.record_retry("team", "a")
    timed.passes.end_attempt("team", "a")
    assert timed.open() == []


def test_a_request_for_a_retry_says_when_the_first_was_that_is_not_answered() -> None:
    timed = Timed()
    first = timed.passes.record_retry("team", "a")
    timed.now += 5
    assert timed.passes.record_retry("team", "a") == first
    timed.passes.end_attempt("team", "a")
    assert timed.passes.record_retry("team", "a") == timed.now


def test_a_second_request_for_a_retry_changes_nothing_while_the_first_is_not_answered() -> None:
    """What replaces the mark then may be the answer to the first, from before the pod was let through."""
    timed = Timed()
    timed.filtered("b")
    timed.passes.record_retry("team", "a")
    timed.now += 5
    timed.filtered()
    timed.now += 5
    timed.passes.record_retry("team", "a")
    timed.passes.end_attempt("team", "a")
    assert timed.open() == [("a", False), ("b", False)]


def test_a_namespace_awaits_a_retry_from_its_request_until_it_is_made_or_long_overdue() -> None:
    timed = Timed()
    timed.passes.assume_pass(namespace="team", name="a", queue="research")
    timed.passes.assume_pass(namespace="team", name="b", queue="research")
    assert timed.passes.namespaces_awaiting_retry() == set()
    timed.passes.record_retry("team", "a")
    timed.passes.record_retry("other", "known here")
    timed.passes.record_filter_pass(namespace="other", name="known here", queue="research")
    timed.now += RETRIED_SECONDS - 1
    assert timed.passes.namespaces_awaiting_retry() == {"team"}
    timed.now += 1
    assert timed.passes.namespaces_awaiting_retry() == set()
    timed.passes.end_attempt("team", "a")
    timed.passes.record_retry("team", "b")
    assert timed.passes.namespaces_awaiting_retry() == {"team"}
    timed.passes.end_attempt("team", "b")
    assert timed.passes.namespaces_awaiting_retry() == set()


def test_a_namespace_awaits_a_retry_also_where_the_pass_is_assumed_once_more_after_its_request() -> None:
    """A replica is lost, and a little later another one: no retry is requested twice, and none is made."""
    timed = Timed()
    timed.passes.assume_pass(namespace="team", name="a", queue="research")
    timed.passes.record_retry("team", "a")
    timed.now += 2
    timed.passes.assume_pass(namespace="team", name="a", queue="research")
    assert timed.passes.namespaces_awaiting_retry() == {"team"}
    timed.now += RETRIED_SECONDS - 3
    timed.passes.drop_expired(lambda *_: True)
    assert timed.passes.namespaces_awaiting_retry() == {"team"}
    timed.passes.end_attempt("team", "a")
    assert timed.passes.namespaces_awaiting_retry() == set()
    assert timed.open() == [("a", False)], "that attempt may have begun before the second loss"


def test_an_attempt_that_nobody_asked_for_ends_nothing() -> None:
    timed = Timed()
    timed.filtered()
    timed.passes.end_attempt("team", "a")
    assert timed.open() == [("a", False)]


def test_what_lingers_is_old_and_its_schedulers() -> None:
    timed = Timed()
    timed.filtered("old")
    timed.binding("hand", request="mallory", by_scheduler=False)
    timed.now += 3
    timed.filtered("young")
    assert [one.name for one in timed.passes.open_longer_than(seconds=3)] == ["old"]
