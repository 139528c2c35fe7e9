"""`resumeAt`: over a restart, over a second stop, and with the node's clock wrong; change windows with that
too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from controller.stops.resume_at import AUTHOR
from localcluster.cluster import LocalCluster
from tests.e2e.windows.test_both_edges import freeze
from tests.support.e2e.api_requests import Object
from tests.support.e2e.clocks import changing_clock, set_clock
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import (
    history,
    is_active,
    is_answered,
    is_stopped,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

pytestmark = pytest.mark.long

#: How long a stop lasts whose end is waited for: longer where the machine is too slow for what must happen
#: before that.
SOON = [timedelta(seconds=seconds) for seconds in (4, 12, 36, 108)]
WRONG_CLOCK = "the clock of this node is"


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


@pytest.fixture
def fleet(restored_cluster: LocalCluster, tmp_path: Path) -> Iterator[Fleet]:
    """No server, until the test has one join."""
    made = Fleet(restored_cluster, tmp_path)
    yield made
    made.close()


def test_a_stop_ends_on_time_though_the_server_is_down_then(
    sandbox: Sandbox, restored_cluster: LocalCluster
) -> None:
    """Its time passes while no server runs. The next one ends the stop, once, and ungates the pods."""
    for number, at in enumerate(times(sandbox)):
        queue = sandbox.queue(f"research-{number}")
        sandbox.edit(queue, state="Suspended", resumeAt=written(at))
        names = sandbox.pods(f"parked-{number}", 2, queue)
        restored_cluster.stop_components("server")
        if now(sandbox) < at:
            break
        restored_cluster.start_components("server")
    until(lambda: now(sandbox) > at, "its time to pass", seconds=SOON[-1].total_seconds())
    assert sandbox.waiting() >= set(names)
    restored_cluster.start_components("server")
    sandbox.all_bound(names)
    assert undone(sandbox, queue, at)[1:] == [(AUTHOR, "state", "Suspended", "Open")]


def test_a_second_stop_is_not_undone_by_the_time_of_the_first(sandbox: Sandbox, queue: str) -> None:
    """Resumed by hand and suspended again, for good or for longer; or held instead, without a time. Another
    queue tells when the time of all four is past."""
    longer, held, other = (sandbox.queue(name) for name in ("longer", "held", "other"))
    for at in times(sandbox):
        timed = [
            sandbox.patch_queue(each, state="Suspended", stopPolicy="None", resumeAt=written(at)).must(
                200, 422
            )
            for each in (queue, longer, held, other)
        ]
        if any(answer.status == 422 for answer in timed):
            continue  # the time was past before the last of them was asked for
        for each in (queue, longer, held):
            sandbox.answered(each)
        for each in (queue, longer):
            sandbox.edit(each, state="Open")
        sandbox.suspend(queue)
        sandbox.suspend(longer, resumeAt="2099-01-01T00:00:00Z")
        sandbox.edit(held, state="Open", stopPolicy="Hold")
        if now(sandbox) < at:
            break
    undone(sandbox, other, at)
    assert [is_stopped(sandbox.read_queue(each)) for each in (queue, longer, held)] == [True] * 3
    assert [wish(sandbox, each) for each in (queue, longer, held)] == [
        ("Suspended", "None"),
        ("Suspended", "None"),
        ("Open", "Hold"),
    ]


@pytest.mark.parametrize(("wrong", "later"), [("+10m", "+1h"), ("-10m", "-1h")])
def test_a_stop_ends_by_the_time_of_the_api_server(
    sandbox: Sandbox, queue: str, fleet: Fleet, tmp_path: Path, wrong: str, later: str
) -> None:
    """The server's node has its clock ten minutes ahead, or behind; then, while it runs, the clock becomes
    wrong by an hour, which its log says. Each time nothing is bound before the time, and all is bound after
    it; and a change window begins at its time, by the leader's write, and is acknowledged. (Its way to the
    API server is without TLS: a certificate made minutes ago was not valid an hour ago.)
    """
    clock, name = tmp_path / "clock", f"server-{'ahead' if later == '+1h' else 'behind'}"
    fleet.join(name, intercepted=True, prefix=changing_clock(clock, wrong))
    end_on_time(sandbox, queue, "early")
    begin_on_time(sandbox, "early")
    log = sandbox.cluster.layout.log(name)
    assert WRONG_CLOCK not in log.read_text()
    set_clock(clock, later)
    until(lambda: WRONG_CLOCK in log.read_text(), "the log to name the clock")
    end_on_time(sandbox, queue, "late")
    begin_on_time(sandbox, "late")


def end_on_time(sandbox: Sandbox, queue: str, prefix: str) -> None:
    """A stop with a time, and pods that wait for it; what is recorded of it has the API server's time."""
    at = next(at for at in times(sandbox) if is_stopped_until(sandbox, queue, at))
    names = sandbox.pods(prefix, 2, queue)
    sandbox.all_bound(names)
    undone(sandbox, queue, at)
    assert all(bind.received >= at for bind in sandbox.binds_of(names) if bind.pod in names)
    lines = sandbox.read_queue(queue)["status"]["changes"]
    assert all(abs(datetime.fromisoformat(line["at"]) - at) < timedelta(minutes=5) for line in lines)


def begin_on_time(sandbox: Sandbox, prefix: str) -> None:
    """A window that begins in a moment. Its line in the history has the API server's time, too."""
    queue = sandbox.queue(f"window-{prefix}")
    start = now(sandbox) + timedelta(seconds=3)
    sandbox.patch_queue(queue, windows=[freeze(start, start + timedelta(hours=1))]).must()
    found = sandbox.queue_that(queue, "be in its window", is_stopped)
    assert [entry["start"] for entry in found["spec"]["inWindow"]] == [written(start)]
    [line] = [line for line in found["status"]["changes"] if line["field"] == "inWindow"]
    assert timedelta() <= datetime.fromisoformat(line["at"]) - start < timedelta(minutes=5)


def now(sandbox: Sandbox) -> datetime:
    """The API server's time: when it would have made an object, in whole seconds."""
    tried = sandbox.api.create(f"{sandbox.home}/configmaps?dryRun=All", {"metadata": {"name": "now"}}).must(
        201
    )
    return datetime.fromisoformat(tried.body["metadata"]["creationTimestamp"])


def times(sandbox: Sandbox) -> Iterator[datetime]:
    """One after the other, each later from when it is asked for than the one before."""
    for seconds in SOON:
        yield now(sandbox) + seconds
    pytest.fail("all times were past too soon")


def is_stopped_until(sandbox: Sandbox, queue: str, at: datetime) -> bool:
    """Suspends it; whether that is acknowledged before the stop ends. If not, it is resumed."""
    if is_stopped(sandbox.edit(queue, state="Suspended", resumeAt=written(at))) and now(sandbox) < at:
        return True
    sandbox.edit(queue, state="Open")
    return False


def written(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def undone(sandbox: Sandbox, queue: str, at: datetime) -> list[tuple[str, str, str, str]]:
    """The history once the stop is undone in the spec and in effect, which is not before its time."""

    def holds(found: Object) -> bool:
        spec = found["spec"]
        return spec["state"] == "Open" and "resumeAt" not in spec and is_active(found) and is_answered(found)

    found = sandbox.queue_that(queue, "be open by its spec", holds)
    assert now(sandbox) >= at
    return history(found)


def wish(sandbox: Sandbox, queue: str) -> tuple[str, str]:
    spec = sandbox.read_queue(queue)["spec"]
    return spec["state"], spec["stopPolicy"]
