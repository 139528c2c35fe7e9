"""How far a drain is, while it is waited for and in what get, list, tree and why print."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from kubectl_queue.commands.tree import draw
from kubectl_queue.commands.why import lines as explained
from kubectl_queue.edit.wait import PollTimer, wait
from kubectl_queue.errors import QueueError, WaitTimeout
from kubectl_queue.objects.fields import Object
from kubectl_queue.output.console import Console
from kubectl_queue.output.progress_bar import ProgressBar, bar
from kubectl_queue.output.tables import Table
from kubectl_queue.views.drain_status import (
    DrainWait,
    counts_line,
    drain_status_of,
    lines,
    short_text,
    total,
)
from kubectl_queue.views.queue_tree import tree_rows
from queues.drain.progress import Blocker, QueueProgress, drained_condition
from queues.why.explanation import (
    Explanation,
    Fate,
    ObjectRef,
)
from tests.support.cases import each_case
from tests.support.plugin.harness import (
    NOW,
    item,
    snapshot,
)

SINCE = "2030-01-01T11:58:00Z"
WEB = {"name": "PodDisruptionBudget lab/web", "pods": 2, "never": False, "message": "it allows 0 now"}
DB = {"name": "PodDisruptionBudget lab/db", "pods": 3, "never": True, "message": "it keeps 3 pods for good"}


def draining(
    name: str = "b",
    *,
    drained: str = "False",
    reason: str = "Draining",
    generation: int = 1,
    told: int = 1,
    observed: int = 1,
    **counts: Any,
) -> Object:
    """A queue that drains; `told`: the generation that the condition speaks of, `observed`: the status."""
    condition = {
        "type": "Drained",
        "status": drained,
        "reason": reason,
        "message": "as it is",
        "observedGeneration": told,
    }
    status = {
        "observedGeneration": observed,
        "state": "Open",
        "conditions": [condition],
        "drain": {"since": SINCE, **counts},
    }
    return item(name, generation=generation, status=status, stopPolicy="HoldAndDrain")


def below(**counts: Any) -> Object:
    return {**draining("c", **counts), "spec": {"parent": "b"}}


@each_case(
    ("queue", "missing"),
    [
        (item("b", stopPolicy="HoldAndDrain"), "not acknowledged yet"),
        (draining(drained="True", reason="Drained", generation=2, observed=1), "not acknowledged yet"),
        (draining(drained="True", reason="Drained", generation=2, observed=2), "not begun yet"),
        (draining(), "Draining"),
        (draining(reason="Blocked"), "Blocked"),
        (draining(reason="DeadlinePassed"), "DeadlinePassed"),
        (draining(drained="True", reason="Drained"), ""),
        (draining(drained="True", reason="Drained", generation=3, observed=3, told=3), ""),
    ],
)
def test_drained_counts_only_for_the_generation_that_was_set(queue: Object, missing: str) -> None:
    """Of one before it says nothing."""
    since = min(2, queue["metadata"]["generation"])
    assert DrainWait().missing(queue, since=since) == missing


def test_the_wait_ends_with_an_error_when_somebody_ends_the_drain() -> None:
    resumed = item("b", generation=2, status={"observedGeneration": 2}, stopPolicy="Hold")
    with pytest.raises(QueueError, match='queue "b" is no longer to be drained: its stopPolicy is Hold now'):
        DrainWait().missing(resumed, since=1)


def test_the_counts_of_the_queues_below_are_added_and_each_blocker_is_named_once() -> None:
    found = total(
        [
            draining(left=5, leaving=1, blocked=4, evicted=3, blockers=[WEB, DB]),
            below(left=2, blocked=2, suspended=1, scaled=2, deleted=1, kept=2, blockers=[{**WEB, "pods": 4}]),
            item("d"),
        ]
    )
    assert found is not None
    assert [(each.name, each.pods) for each in found.blockers] == [(WEB["name"], 6), (DB["name"], 3)]
    assert counts_line(found) == (
        "7 pods left (1 on their way, 6 blocked by PodDisruptionBudget lab/web, PodDisruptionBudget lab/db), "
        "3 evicted, 1 Job suspended, 2 workloads scaled to zero, 1 deleted past a budget, 2 kept"
    )


def test_more_blockers_than_a_line_can_hold_are_counted() -> None:
    many = [{**WEB, "name": f"pod lab/{number}", "pods": 1} for number in range(5)]
    found = total([draining(left=5, blocked=5, blockers=many)])
    assert found is not None
    assert counts_line(found) == "5 pods left (5 blocked by pod lab/0, pod lab/1 and 3 more)"


@pytest.mark.parametrize("drain", [None, "x", {"left": "many"}, {"blockers": [{"pods": 1}]}])
def test_an_unreadable_drain_status_counts_as_none(drain: object) -> None:
    assert drain_status_of(item("b", status={"drain": drain})) is None


def test_a_blocker_s_words_cannot_steer_the_terminal() -> None:
    queue = draining(left=1, blocked=1, blockers=[{**DB, "message": "a\nb\x1b[2J"}])
    assert all(line.isprintable() for line in lines([queue], now=NOW))


@each_case(
    ("done", "whole", "drawn"),
    [
        (0, 4, "[--------------------]   0%"),
        (1, 4, "[#####---------------]  25%"),
        (999, 1000, "[###################-]  99%"),
        (4, 4, "[####################] 100%"),
        (0, 0, "[####################] 100%"),
    ],
)
def test_the_bar_is_full_at_the_end_and_not_before(done: int, whole: int, drawn: str) -> None:
    assert bar(done, whole) == drawn


def test_the_bar_never_goes_back_and_counts_pods_that_had_gone_before() -> None:
    """Suspended Jobs' pods are known from what was left; evicted ones from what is told of them."""
    progress_bar = ProgressBar()
    steps: list[dict[str, Any]] = [
        {"left": 60, "evicted": 40},
        {"left": 60, "leaving": 10, "evicted": 50},
        {"left": 30, "evicted": 50, "suspended": 1},
        {"left": 0, "evicted": 80, "suspended": 1},
    ]
    pods = [DrainWait().pods_left_and_gone([draining(**step)]) for step in steps]
    drawn = [progress_bar.draw(left=left, gone=gone).split()[-1] for left, gone in filter(None, pods)]
    assert drawn == ["40%", "40%", "70%", "100%"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def waited(stream: io.StringIO, *answers: Object, draw_bar: bool = False) -> str:
    """What is written while waiting."""
    console = Console(io.StringIO(), stream)
    waiting = list(answers)
    found = wait(
        DrainWait(),
        items=[waiting.pop(0)],
        read=lambda: [waiting.pop(0)],
        say=console.progress,
        timer=PollTimer(timedelta(seconds=60)),
        warn=console.warn,
        bar=ProgressBar() if draw_bar else None,
    )
    console.end_progress()
    assert found
    return stream.getvalue()


STEPS = (
    draining(left=4, leaving=4),
    draining(left=4, leaving=4),
    draining(left=1, blocked=1, evicted=3, blockers=[{**WEB, "pods": 1}]),
    draining(drained="True", reason="Drained", evicted=4, kept=1),
)


def test_without_a_terminal_a_line_is_written_for_each_change() -> None:
    assert waited(io.StringIO(), *STEPS).splitlines() == [
        'queue "b": Draining; 4 pods left (4 on their way)',
        'queue "b": Draining; 1 pod left (1 blocked by PodDisruptionBudget lab/web), 3 evicted',
    ]


def test_on_a_terminal_one_line_is_overwritten() -> None:
    written = waited(Terminal(), *STEPS, draw_bar=True)
    assert written.count("\n") == 0
    assert written.startswith('\rqueue "b": Draining; [--------------------]   0% 4 pods left')
    assert "[###############-----]  75% 1 pod left" in written
    assert written.endswith("\r\x1b[K")


BLOCKED_FOR_GOOD = draining(reason="Blocked", left=3, blocked=3, blockers=[DB])


def with_deadline(after: str) -> Object:
    """The counts are of before the deadline was set."""
    drain = {"deadline": "2030-01-01T12:00:04Z", "afterDeadline": after}
    return {**BLOCKED_FOR_GOOD, "spec": {**BLOCKED_FOR_GOOD["spec"], "drain": drain}}


def test_a_deadline_that_keeps_what_is_left_does_not_end_the_drain() -> None:
    assert DrainWait().never([with_deadline("Keep")])


@each_case(
    "queue",
    [
        with_deadline("Delete"),
        with_deadline("Scale"),
        draining(left=3, blocked=3, blockers=[DB], generation=2, observed=2),
        draining(left=4, blocked=3, blockers=[DB]),
        draining(left=3, leaving=1, blocked=3, blockers=[DB]),
        draining(left=5, blocked=5, blockers=[DB, WEB]),
        draining(left=4, blocked=4, blockers=[DB]),
        draining(left=3, blocked=3, blockers=[DB], generation=2),
        draining(left=0),
    ],
)
def test_a_drain_that_may_still_end_gives_no_warning(queue: Object) -> None:
    """Nor where not all of it is told of, nor of what was before."""
    assert DrainWait().never([queue]) == ""


def test_a_wait_that_cannot_end_warns_once_and_goes_on() -> None:
    """Somebody may lower the budget meanwhile; then it ends well."""
    done = draining(drained="True", reason="Drained")
    written = waited(io.StringIO(), BLOCKED_FOR_GOOD, {**BLOCKED_FOR_GOOD}, done)
    text = (
        'Warning: queue "b" does not become empty by waiting: what is left is blocked by '
        "PodDisruptionBudget lab/db: it keeps 3 pods for good\n"
    )
    assert written.count(text) == written.count("Warning") == 1


@pytest.mark.parametrize(
    ("queue", "text"),
    [
        (BLOCKED_FOR_GOOD, "Blocked; 3 pods left (3 blocked)"),
        (draining(left=3), "Draining; 3 pods left; as it is"),
    ],
    ids=["the blocker was named before", "nothing blocks"],
)
def test_the_time_out_gives_the_counts_and_the_message_of_the_controller(queue: Object, text: str) -> None:
    with pytest.raises(WaitTimeout) as error:
        wait(
            DrainWait(),
            items=[queue],
            read=lambda: [queue],
            say=lambda _: None,
            timer=PollTimer(timedelta(microseconds=1)),
            bar=ProgressBar(),
        )
    assert str(error.value).endswith(f'queue "b": {text}')


def test_the_end_of_a_drain_is_printed_with_the_counts() -> None:
    done = draining(drained="True", reason="Drained", evicted=4, suspended=2, kept=1)
    assert DrainWait().done([done]) == "drained: 0 pods left, 4 evicted, 2 Jobs suspended, 1 kept"


MESSAGE = drained_condition(
    "b",
    [
        QueueProgress(
            left=3,
            blocked=3,
            blockers=(
                Blocker(
                    name="PodDisruptionBudget lab/db",
                    pods=3,
                    never=True,
                    message="PodDisruptionBudget lab/db keeps 3 pods for good",
                ),
            ),
        )
    ],
).message


def test_the_block_names_each_blocker_once() -> None:
    """The controller's message names them too, in whatever words."""
    assert "lab/db" in MESSAGE
    queue = draining(reason="Blocked", left=3, blocked=3, blockers=[DB])
    queue["status"]["conditions"][0]["message"] = MESSAGE
    assert "\n".join(lines([queue], now=NOW)).count("lab/db") == 1


def test_a_wait_that_times_out_names_a_blocker_once() -> None:
    """The warning names it; the progress after that and the error do not."""
    queue = draining(reason="Blocked", left=3, blocked=3, blockers=[DB])
    queue["status"]["conditions"][0]["message"] = MESSAGE
    written = io.StringIO()
    console = Console(io.StringIO(), written)
    with pytest.raises(WaitTimeout) as error:
        wait(
            DrainWait(),
            items=[queue],
            read=lambda: [queue],
            say=console.progress,
            timer=PollTimer(timedelta(microseconds=1)),
            warn=console.warn,
        )
    console.note(str(error.value))
    assert written.getvalue().count("lab/db") == 1


def test_the_block_gives_the_time_the_counts_and_the_blockers() -> None:
    queue = draining(reason="Blocked", left=5, blocked=5, kept=1, evicted=2, blockers=[DB, WEB])
    assert lines([queue], now=NOW) == [
        f"Blocked, begun {SINCE} (2m ago)",
        "5 pods left (5 blocked), 2 evicted, 1 kept",
        "blocked by PodDisruptionBudget lab/db, 3 pods, for good: it keeps 3 pods for good",
        "blocked by PodDisruptionBudget lab/web, 2 pods: it allows 0 now",
    ]
    assert lines([draining(left=5)], now=NOW)[-1] == "as it is"
    assert lines([item("b")], now=NOW) == []


def test_wide_shows_how_many_are_left_where_queues_drain_and_when_a_stop_ends_behind_it() -> None:
    timed = draining(left=12)
    timed["spec"]["resumeAt"] = "2030-01-01T12:25:00Z"
    head, *rows = Table(wide=True).lines([timed, item("c")], now=NOW)
    assert head.split()[-2:] == ["LEFT", "RESUMES"]
    place = head.index("LEFT")
    assert rows[0][place:].split()[:2] == ["12", "2030-01-01T12:25:00Z"]
    assert rows[1][place:].strip() == ""
    assert "LEFT" not in Table().lines([timed], now=NOW)[0]
    assert "LEFT" not in Table(wide=True).lines([item("c")], now=NOW)[0]


def branch(*queues: Object) -> Sequence[str]:
    return draw(tree_rows(snapshot(*queues), top="b"), headings=False)


def test_the_tree_says_how_far_the_drain_of_a_branch_is() -> None:
    drawn = branch(draining(left=1), below(left=2, leaving=2))
    assert drawn[0].endswith("stopPolicy HoldAndDrain; 3 pods left (2 on their way)")
    assert drawn[1].endswith("stopPolicy HoldAndDrain of b; 2 pods left (2 on their way)")


def test_the_tree_says_when_a_queue_is_drained_and_nothing_before_it_is_counted() -> None:
    assert branch(draining(drained="True", reason="Drained", kept=2))[0].endswith("; drained, 2 kept")
    assert branch(item("b", stopPolicy="HoldAndDrain", status={"state": "Open"}))[0].endswith("HoldAndDrain")


def test_a_drain_that_has_ended_is_no_longer_shown() -> None:
    """The controller has yet to take it off."""
    held = draining(left=3)
    held["spec"]["stopPolicy"] = "Hold"
    assert branch(held)[0].endswith("stopPolicy Hold")
    assert short_text([item("b")]) == ""


def test_why_shows_the_drain_under_its_own_heading() -> None:
    told = Explanation(
        object=ObjectRef("Queue", "b"), outcome=Fate.STOPPED, summary="it is stopped", notes=("note",)
    )
    assert explained(told, now=NOW, drain=["Draining", "3 pods left"]) == [
        "it is stopped",
        "Drain:       Draining",
        "             3 pods left",
        "Note:        note",
    ]
