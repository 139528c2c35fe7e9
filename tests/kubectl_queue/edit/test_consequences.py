"""What a user is asked about before an edit, and what a dry run says of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kubectl_queue.edit.action_operation import ActionOperation
from kubectl_queue.edit.consequences import all_texts, asked_texts
from kubectl_queue.edit.move_operation import MoveOperation
from kubectl_queue.edit.operation import Operation, StopFields
from kubectl_queue.edit.preview import preview_edit
from kubectl_queue.edit.stop_policy_operation import StopPolicyOperation
from kubectl_queue.objects.queues import QueueObjects
from queues.apimachinery.timestamps import rfc3339
from queues.states import Action, StopPolicy
from tests.support.cases import each_case
from tests.support.plugin.harness import NOW, item, snapshot

LATER = rfc3339(NOW + timedelta(hours=1))
CLOSE, SUSPEND = ActionOperation(action=Action.CLOSE), ActionOperation(action=Action.SUSPEND)
HOLD = StopPolicyOperation(policy=StopPolicy.HOLD)
TIMED = ActionOperation(action=Action.SUSPEND, stop=StopFields(resume_at=NOW + timedelta(hours=1)))
HELD = item("b", stopPolicy="Hold", resumeAt=LATER, reason="audit")
CLOSING = item("b", state="Closed", status={"state": "Closing", "closing": {"name": "x"}})


@each_case(
    ("operation", "before", "asked"),
    [
        (CLOSE, item("b"), []),
        (CLOSE, item("b", state="Suspended"), []),
        (CLOSE, HELD, ["stays held", "stopped without an end now"]),
        (SUSPEND, CLOSING, ["undoes the close"]),
        (TIMED, CLOSING, [f"and is Open at {LATER}"]),
        (HOLD, CLOSING, []),
        (SUSPEND, HELD, []),
        (ActionOperation(action=Action.OPEN), CLOSING, []),
    ],
    ids=["open", "suspended", "held", "undone", "undone-for-a-time", "hold", "suspend", "reopen"],
)
def test_a_user_is_asked_where_the_edit_does_what_they_hardly_mean(
    operation: Operation, before: dict[str, object], asked: list[str]
) -> None:
    texts = list(asked_texts(operation, ["b", "absent"], snapshot(before)))
    assert len(texts) == len(asked)
    for text, part in zip(texts, asked, strict=True):
        assert part in text


def test_a_dry_run_says_how_many_pods_a_close_lets_run() -> None:
    """Those of the queue and of the ones below it that nothing else stops."""
    queues = snapshot(
        item("b", state="Suspended", status={"pods": {"pending": 2}}),
        item("c", parent="b", status={"pods": {"pending": 1}}),
        item("d", parent="b", stopPolicy="Hold", status={"pods": {"pending": 8}}),
    )
    [text] = all_texts("b", before=queues, after=preview_edit(CLOSE, "b", queues).after)
    assert "Closed schedules: the 3 pods that wait in it will run" in text


def test_a_close_below_a_stopped_queue_says_what_still_stops_it() -> None:
    """What waits runs only after that."""
    queues = snapshot(
        item("a", stopPolicy="Hold"),
        item("b", parent="a", state="Suspended", status={"pods": {"pending": 2}}),
    )
    [text] = all_texts("b", before=queues, after=preview_edit(CLOSE, "b", queues).after)
    assert 'Closed schedules: what waits in it will run once queue "a" no longer stops it;' in text


def test_a_dry_run_of_a_drain_that_keeps_pods_says_up_to_how_many() -> None:
    queues = snapshot(item("b", status={"pods": {"running": 6}}))
    keep = {"matchLabels": {"app": "notebook"}}
    operation = StopPolicyOperation(policy=StopPolicy.HOLD_AND_DRAIN, drain={"keep": keep})
    [text] = all_texts("b", before=queues, after=preview_edit(operation, "b", queues).after)
    assert "up to 6 pods that run will be evicted" in text


def test_a_dry_run_says_how_many_pods_a_drain_evicts() -> None:
    queues = snapshot(item("b", status={"pods": {"running": 5}}), item("c", parent="b", status={}))
    operation = StopPolicyOperation(policy=StopPolicy.HOLD_AND_DRAIN)
    [text] = all_texts("b", before=queues, after=preview_edit(operation, "b", queues).after)
    assert "the 5 pods that run will be evicted" in text


@each_case(
    ("running", "drain", "told"),
    [
        (5, {}, "at least 5 pods that run will be evicted, as spec.drain says"),
        (1, {}, "at least 1 pod that runs will be evicted, as spec.drain says"),
        (0, {}, "at least 0 pods that run will be evicted, as spec.drain says"),
        (
            6,
            {"keep": {"matchLabels": {"app": "x"}}},
            "up to 6 pods that run will be evicted, as spec.drain says",
        ),
    ],
)
def test_a_dry_run_of_who_may_not_list_queues_says_that_those_below_count_too(
    running: int, drain: dict[str, object], told: str
) -> None:
    queues = QueueObjects([item("b", status={"pods": {"running": running}})], now=NOW, complete=False)
    operation = StopPolicyOperation(policy=StopPolicy.HOLD_AND_DRAIN, drain=drain)
    [text] = all_texts("b", before=queues, after=preview_edit(operation, "b", queues).after)
    assert text.endswith(f"{told}; queues below it could not be read")


def quota(waiting: int = 0, **used: str) -> dict[str, object]:
    return {"quota": {"used": used, "waiting": waiting}}


LAB = item("lab", capability={"cpu": "4"}, status=quota(cpu="3", pods="3"))
VISION = item("vision", parent="lab", status=quota(cpu="1", pods="1"))
TEAM = item(
    "team",
    status={"allocated": {"cpu": "2", "pods": "2"}, "pods": {"running": 2, "pending": 1, "gated": 0}},
)


@pytest.mark.parametrize(
    ("moved", "parent", "said"),
    [
        ("team", "lab", 'queue "lab" uses cpu 5 of 4: nothing is evicted for that'),
        ("vision", "root", 'no capability limits queue "vision" any more: the pod that waits for room goes'),
    ],
    ids=["to a quota", "from a quota"],
)
def test_a_dry_run_of_a_move_says_what_its_quota_does(moved: str, parent: str, said: str) -> None:
    """In the server's words, from what the statuses say is used."""
    waits = item("vision", parent="lab", status=quota(waiting=1, cpu="1", pods="1"))
    queues = snapshot(LAB, TEAM, waits if moved == "vision" else VISION)
    texts = all_texts(
        moved, before=queues, after=preview_edit(MoveOperation(parent=parent), moved, queues).after
    )
    assert [text for text in texts if text.startswith(said)], texts


def test_a_dry_run_says_nothing_of_quotas_that_were_not_read() -> None:
    queues = QueueObjects([LAB, TEAM], now=NOW, complete=False)
    after = preview_edit(MoveOperation(parent="lab"), "team", queues).after
    assert all_texts("team", before=queues, after=after) == ()
