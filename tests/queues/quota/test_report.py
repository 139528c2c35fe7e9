"""What the status of a queue with a quota says: amounts, and texts for tables."""

from __future__ import annotations

import msgspec

from queues.queue import Amounts, Queue
from queues.quota.report import (
    BESIDE,
    KEPT_FOR,
    MORE_RESOURCES,
    RESOURCES,
    CountedBeside,
    QuotaReport,
    amounts_text,
    quota_report,
    use_text,
)


def chain_of(*quotas: Amounts | None, deserved: Amounts | None = None) -> list[Queue]:
    """Nearest first; `deserved` is that of the nearest."""
    queues = [Queue(name=f"q{number}", capability=quota) for number, quota in enumerate(quotas)]
    return [Queue(name="q0", capability=quotas[0], deserved=deserved), *queues[1:]]


def test_what_a_quota_of_the_chain_names_is_reported_used_or_not() -> None:
    chain = chain_of((("cpu", 4),), (("memory", 2**33),), deserved=(("example.com/gpu", 2),))
    report = quota_report(chain, used={"cpu": 3, "pods": 3, "example.com/other": 9}, waiting=7)
    assert report == QuotaReport(
        used={"cpu": "3", "example.com/gpu": "0", "memory": "0", "pods": "3"},
        waiting=7,
        used_text="cpu 3",
        limit_text="cpu 4",
    )


def test_what_was_deleted_by_force_is_shown_beside_what_is_used_only_while_it_counts() -> None:
    chain = chain_of((("cpu", 4),))
    forced = {"cpu": 2, "pods": 1, "memory": 9}
    names = [f"team/g{at}" for at in range(7)]
    kept = quota_report(
        chain, used={"cpu": 3}, waiting=0, kept_for_gangs={"cpu": 1, "pods": 0}, kept_for=reversed(names)
    )
    assert (kept.kept_for_gangs, kept.kept_for) == ({"cpu": "1"}, names[:KEPT_FOR])
    beside = CountedBeside(set_aside={"cpu": 2, "pods": 1, "other": 1}, claimed={"cpu": 0})
    report = quota_report(chain, used={"cpu": 3, "pods": 2}, waiting=0, force_deleted=forced, beside=beside)
    assert (report.set_aside, report.claimed, report.releasing) == ({"cpu": "2", "pods": "1"}, None, None)
    assert set(BESIDE) <= set(msgspec.to_builtins(report))
    assert (report.kept_for_gangs, report.kept_for) == (None, None)
    assert report.force_deleted == {"cpu": "2", "pods": "1"}
    ended = quota_report(chain, used={"cpu": 1, "pods": 1}, waiting=0, force_deleted={"cpu": 0, "pods": 0})
    assert ended.force_deleted is None


def test_a_queue_without_a_capability_of_its_own_shows_all_that_is_reported() -> None:
    report = quota_report(chain_of(None, (("cpu", 4),)), used={"cpu": 1, "pods": 2}, waiting=0)
    assert (report.used_text, report.limit_text) == ("cpu 1, pods 2", "")


def test_of_thousands_of_resources_some_are_shown_and_how_many_more() -> None:
    many: Amounts = tuple((f"a{number:04}.example.com/r", 1) for number in range(5000))
    report = quota_report(chain_of((*many, ("cpu", 2))), used={"cpu": 1}, waiting=0)
    assert len(report.used) == RESOURCES + 1
    assert (report.used["cpu"], report.used[MORE_RESOURCES]) == ("1", str(len(many) + 2 - RESOURCES))
    expected = "cpu 2, a0000.example.com/r 1, a0001.example.com/r 1, 4998 more"
    assert report.limit_text == expected


def test_a_text_names_first_what_each_cluster_has() -> None:
    assert amounts_text({"a": 1, "memory": 2**30, "cpu": 2}) == "cpu 2, memory 1Gi, a 1"
    assert amounts_text({}) == ""


def test_the_text_of_what_is_used_of_limits() -> None:
    limits = {"a": 1, "memory": 2**30, "cpu": 2}
    assert use_text({"cpu": 1, "b": 5}, limits) == "cpu 1 of 2, memory 0 of 1Gi, a 0 of 1"
    assert use_text({}, {**limits, "b": 2, "c": 3}) == "cpu 0 of 2, memory 0 of 1Gi, a 0 of 1, 2 more"
    assert use_text({"cpu": 1}, {}) == ""
