"""How the pods of a PodGroup stand, and what it waits for: a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from queues.quota.gangs import GangPod, PodState, gang_of
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import Limit, never_lack, quota_requests
from queues.why.explanation import Said
from queues.why.gang import gang_report, gang_text
from tests.support.cases import each_case

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LIMITS = [Limit("team", {"cpu": 4})]
STATES = {"w": PodState.WAITS, "r": PodState.RELEASED, "p": PodState.PLACED, "l": PodState.LEAVING}


def pods(written: str) -> list[GangPod]:
    """Each of one cpu: `w` waits, `r` was released, `p` is on a node, `l` leaves one."""
    requests = quota_requests((("cpu", 1),))
    return [
        GangPod(WaitingPod(str(at), "team", requests, 0, NOW), STATES[letter])
        for at, letter in enumerate(written.split())
    ]


@each_case(
    ("least", "written", "counts", "text"),
    [
        (4, "w w", (2, 0, 0), "waits: 2 of 4 pods exist"),
        (2, "w w w", (3, 0, 0), "waits for room for its minimum"),
        (2, "r p w", (3, 2, 1), "waits for nodes: 1 of at least 2 pods are on nodes"),
        (2, "p p w", (3, 2, 2), "its minimum is on nodes: 2 of at least 2 pods"),
        (
            2,
            "l p w",
            (2, 1, 1),
            "runs with fewer pods than its minimum: 1 of at least 2 pods are on nodes, and the others go one "
            "by one",
        ),
        (5, "w w w w w", (5, 0, 0), "can never start: together they need more cpu than team may use"),
        (1, "w w", (2, 0, 0), "waits for room for its minimum"),
        (1, "", (0, 0, 0), "has no pods yet"),
    ],
)
def test_what_a_gang_waits_for(least: int, written: str, counts: tuple[int, int, int], text: str) -> None:
    report, entry = gang_report(
        gang_of("gang", "team", NOW, min_member=least),
        pods(written),
        phase="Inqueue",
        until=NOW,
        never=partial(never_lack, LIMITS),
    )
    assert (report.pods, report.released, report.placed) == counts
    assert gang_text(report) == text
    assert (entry is not None) is ("room" in text and least > 1)
    assert bool(report.gives_back_at) is not report.is_complete


@each_case(
    ("phase", "resources", "written", "text"),
    [
        ("Pending", {"cpu": "2"}, "", "waits for room before its pods are made"),
        ("Inqueue", {"cpu": "2"}, "", "waits: 0 of 2 pods exist"),
        ("Pending", None, "", "waits: 0 of 2 pods exist"),
        ("Pending", {"cpu": "2"}, "r", "waits: 1 of 2 pods exist"),
        ("Pending", {"cpu": "9"}, "", "can never start: together they need more cpu than team may use"),
    ],
)
def test_what_a_gang_asks_for_before_its_pods_exist(
    phase: str, resources: dict[str, str] | None, written: str, text: str
) -> None:
    report, entry = gang_report(
        gang_of("gang", "team", NOW, min_member=2, min_resources=resources),
        pods(written),
        phase=phase,
        never=partial(never_lack, LIMITS),
    )
    assert gang_text(report) == text
    assert (entry.requests if entry is not None else None) == ((("cpu", 2),) if "room" in text else None)


@each_case(
    ("least", "written", "on_nodes"),
    [(3, "p", "1 of 1 are on nodes"), (3, "p r r", "1 of 3 are on nodes"), (3, "", "it has none yet")],
)
def test_without_a_capability_no_gang_is_held_together_and_none_is_said_to_be(
    least: int, written: str, on_nodes: str
) -> None:
    report, entry = gang_report(
        gang_of("gang", "team", NOW, min_member=least, min_resources={"cpu": "9"}),
        pods(written),
        phase="Pending",
        is_held=False,
    )
    why = "its pods start one by one, since no queue of its chain has a capability"
    assert (gang_text(report), entry) == (f"{why}: {on_nodes}", None)
    assert (report.lacks, report.asks_before, report.never) == ("", False, False)


def test_what_kube_scheduler_says_is_told_once_for_all_pods_of_which_it_says_that() -> None:
    texts = ["0/3 nodes fit", "none", "0/3 nodes fit", "", "1", "2", "3", "4"]
    report, _ = gang_report(
        gang_of("gang", "team", NOW, min_member=9),
        pods("r"),
        phase="Inqueue",
        said=texts,
        until=NOW + timedelta(minutes=1),
    )
    assert report.said[:2] == (Said(pods=2, text="0/3 nodes fit"), Said(pods=1, text="1"))
    assert len(report.said) == 5
    assert report.gives_back_at == "2030-01-01T12:01:00Z"
